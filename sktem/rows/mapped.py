"""Some of the columns of rows."""

from __future__ import annotations

from sktem.rows.base import Rows

__all__ = ["ColumnRows"]


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
