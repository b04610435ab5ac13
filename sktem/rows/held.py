"""Rows in memory as a carrier, and the carrier of whatever a fit gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sktem import budget
from sktem.arrays import TensorRows, arrays_of
from sktem.rows.base import Carrier
from sktem.rows.checked import CheckedRows, summed_blocks

__all__ = ["HeldRows", "carrier_of", "count_rows"]


class HeldRows:
    """Rows in memory, whatever holds them: an array, a tensor, sequences.

    Parameters
    ----------
    values : array-like
        The rows, with ``len`` or ``shape``, slices and indexing by an array of
        integers.
    """

    in_memory = True
    is_remote = False
    can_take = True
    can_read_twice = True
    can_remember = True
    largest_batch = CheckedRows.largest_batch

    def __init__(self, values):
        self.values = values

    def __len__(self):
        shape = getattr(self.values, "shape", None)
        return len(self.values) if shape is None else int(shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and of columns where there are some."""
        return tuple(getattr(self.values, "shape", (len(self),)))

    @property
    def row_size(self) -> int:
        """Numbers of a row, on average where rows differ."""
        if issparse(self.values):
            return -(-self.values.nnz // max(len(self), 1))
        if self.array is not None and self.dtype == object:
            return -(-sum(row.size for row in self.values) // max(len(self), 1))
        return prod(self.shape[1:])

    @property
    def dtype(self):
        """Type of the numbers, None where there is not one."""
        return getattr(self.values, "dtype", None)

    @property
    def array(self):
        """The rows as an array of NumPy, None where they are something else."""
        return self.values if isinstance(self.values, np.ndarray) else None

    def model_view(self):
        """Return all rows as a model gets them."""
        return self.values

    @property
    def holds_tensors(self) -> bool:
        """Whether the rows are an array of another namespace than NumPy's."""
        return isinstance(self.values, TensorRows)

    @property
    def has_nan(self) -> bool:
        """Whether there is a NaN."""
        values = self.values
        if issparse(values):
            return False
        values = values.values if isinstance(values, TensorRows) else values
        xp = arrays_of(values).xp
        return bool(xp.any(xp.isnan(values)))

    def take(self, indices):
        """Return chosen rows, by a slice or row indices."""
        if isinstance(indices, slice):
            return self.values[indices]
        if self.array is not None:
            # Several times faster than indexing with an array of integers.
            return self.values.take(indices, axis=0)
        if hasattr(self.values, "__dlpack__"):
            return arrays_of(self.values).take(self.values, indices)
        return self.values[indices]

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Any]]:
        """Yield the row index of the first row and the rows, in aligned blocks."""
        if size is None:
            size = budget.block_rows(self.row_size)
        for first in range(0, len(self), size):
            yield first, self.values[first : first + size]

    def summed(self, function: Callable, weights=None, *, size=None) -> tuple:
        """Return sums over aligned blocks of ``function(rows, weights=weights)``."""
        return summed_blocks(self.blocks(size), function, weights)

    def mapped(self, function: Callable, beside=None) -> HeldRows:
        """Return the rows computed by a function of these, and of aligned values."""
        arguments = () if beside is None else (beside,)
        return HeldRows(function(self.values, *arguments))


def carrier_of(X) -> Carrier:
    """Return rows of a fit as a carrier: themselves, or held in memory.

    Parameters
    ----------
    X : array-like or Carrier
        The rows.

    Returns
    -------
    Carrier
        The carrier.
    """
    return X if isinstance(X, (HeldRows, CheckedRows)) else HeldRows(X)


def count_rows(X) -> int:
    """Return the number of rows; a sparse matrix has no ``len``.

    Parameters
    ----------
    X : array-like or Carrier
        The rows.

    Returns
    -------
    int
        Their number.
    """
    return len(carrier_of(X))
