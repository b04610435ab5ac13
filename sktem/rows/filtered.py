"""Rows of a fit without some of them, read by blocks as before."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

import numpy as np

from sktem.rows.base import Rows
from sktem.rows.checked import CheckedRows
from sktem.rows.partitions import PartitionedRows
from sktem.rows.tasks import called, computed

__all__ = ["FilteredRows", "filtered"]


class FilteredRows(Rows):
    """Those of checked rows that a mask has.

    Parameters
    ----------
    checked : CheckedRows
        The rows.
    mask : ndarray of bool of shape (n_rows,)
        Which of them.
    """

    def __init__(self, checked: CheckedRows, mask):
        self.checked = checked
        self.mask = mask
        self.n_rows = int(np.count_nonzero(mask))
        self.names = checked.names
        self.n_pieces = len(checked.lengths)
        self.can_take = checked.can_take
        self.can_read_twice = checked.source.can_read_twice
        self.places: Any = np.flatnonzero(mask) if self.can_take else None

    def where(self, index):
        """Return the name of a piece."""
        return self.checked.source.where(index)

    def piece(self, index):
        """Read a piece."""
        for first, chunk in self.checked.pieces([index]):
            yield chunk[self.mask[first : first + len(chunk)]]

    def take(self, indices):
        """Return chosen rows."""
        return self.checked.take(self.places[indices])


def filtered(rows: Any, function) -> tuple[Any, np.ndarray]:
    """Return the rows for which a function is true, and which of all they are.

    Parameters
    ----------
    rows : CheckedRows
        The rows.
    function : callable
        Returns a mask of rows. It is sent to the partitions of a Dask collection.

    Returns
    -------
    kept : CheckedRows
        The rows; all of them if the function is true for all or none.
    mask : ndarray of bool of shape (n_rows,)
        Which they are.
    """
    if isinstance(rows, PartitionedRows):
        masks = computed(rows.tasks(partial(_masked, function)).values())
    else:
        masks = [function(block) for _, block in rows.blocks()]
    mask = np.concatenate(masks)
    if mask.all() or not mask.any():
        return rows, np.ones(len(rows), dtype=bool)
    if isinstance(rows, PartitionedRows):
        return _of_partitions(rows, mask), mask
    observed = CheckedRows(FilteredRows(rows, mask), allow_nan=True)
    observed.dtype = rows.dtype
    return observed, mask


def _of_partitions(rows, mask):
    """Return partitioned rows whose partitions lack some."""
    twin = rows.twin()
    twin.source = copy(rows.source)
    twin.source.partitions = list(rows.source.partitions)
    twin.lengths = rows.lengths.copy()
    for index in map(int, rows.used):
        start = rows.starts[index]
        part = mask[start : start + rows.lengths[index]]
        raw = rows.source.partitions[index]
        twin.source.partitions[index] = called(_taken, raw, part)
        twin.lengths[index] = np.count_nonzero(part)
    twin.starts = np.cumsum(twin.lengths) - twin.lengths
    twin.used = np.flatnonzero(twin.lengths)
    twin.shape = (int(twin.lengths.sum()), rows.shape[1])
    twin.sent = {}
    return twin


def _masked(function, block, first):
    return function(block)


def _taken(raw, mask):
    return raw[mask]
