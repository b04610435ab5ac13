"""Rows made of others: some of the columns, and what a function returns of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sktem.rows.base import Rows
from sktem.rows.checked import CheckedRows

__all__ = ["ColumnRows", "MappedRows", "mapped"]


class ColumnRows(Rows):
    """Some of the columns of rows.

    Parameters
    ----------
    source : Rows
        The rows, which have names.
    columns : list of int
        Which columns.
    """

    def __init__(self, source: Rows, columns: list[int]):
        self.source = source
        self.columns = columns
        self.names = [(source.names or [])[j] for j in columns]
        self.n_rows = source.n_rows
        self.n_pieces = source.n_pieces
        self.can_take = source.can_take
        self.can_read_twice = source.can_read_twice

    def where(self, index):
        """Return the name of a piece."""
        return self.source.where(index)

    def piece(self, index):
        """Read the columns of a piece."""
        for chunk in self.source.piece(index):
            yield chunk[:, self.columns]

    def take(self, indices):
        """Return the columns of chosen rows."""
        return self.source.take(indices)[:, self.columns]


class MappedRows(Rows):
    """What a function returns of rows.

    Parameters
    ----------
    checked : CheckedRows
        The rows.
    function : callable
        Called with row indices, a slice or an array of them, and the rows; returns as
        many rows.
    """

    def __init__(self, checked: CheckedRows, function: Callable):
        self.checked = checked
        self.function = function
        self.n_rows = len(checked)
        self.n_pieces = len(checked.lengths)
        self.can_take = checked.can_take
        self.can_read_twice = checked.source.can_read_twice

    def where(self, index):
        """Return the name of a piece."""
        return self.checked.source.where(index)

    def piece(self, index):
        """Read a piece."""
        for first, chunk in self.checked.pieces([index]):
            yield self.function(slice(first, first + len(chunk)), chunk)

    def take(self, indices):
        """Return chosen rows."""
        return np.asarray(self.function(indices, self.checked.take(indices)))


def mapped(rows: CheckedRows, function: Callable) -> CheckedRows:
    """Return rows that a function makes of checked ones, where these are.

    Parameters
    ----------
    rows : CheckedRows
        The rows; NaN is allowed.
    function : callable
        Called with an array of some rows; returns as many rows.

    Returns
    -------
    CheckedRows
        The rows, with the names of the given ones.
    """
    if hasattr(rows, "mapped"):
        return rows.mapped(function)
    made = CheckedRows(
        MappedRows(rows, lambda _, chunk: function(chunk)), allow_nan=True
    )
    made.names = rows.names
    return made
