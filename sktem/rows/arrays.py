"""Rows of arrays: in memory, memory maps, one after another, zarr and h5py."""

from __future__ import annotations

import numpy as np

from sktem import budget
from sktem.rows.base import Rows

__all__ = ["ArrayRows", "JoinedRows", "SlicedRows"]


class ArrayRows(Rows):
    """Rows of an array or memory map.

    Parameters
    ----------
    array : ndarray of shape (n_rows, n_columns)
        The rows.
    name : str, default="X"
        What errors call it.
    """

    can_take = True

    def __init__(self, array, name="X"):
        if array.ndim != 2:
            raise ValueError(f"{name} must have 2 dimensions, got shape {array.shape}")
        self.array = array
        self.name = name
        self.n_rows = int(array.shape[0])

    @property
    def n_columns(self):
        """Number of columns."""
        return int(self.array.shape[1])

    @property
    def dtype(self):
        """Type of the numbers."""
        return np.dtype(self.array.dtype)

    def where(self, index):
        """Return the name of the array."""
        return self.name

    def piece(self, index):
        """Read the array in slices."""
        size = budget.block_rows(self.n_columns)
        for start in range(0, int(self.array.shape[0]), size):
            yield np.asarray(self.array[start : start + size])

    def blocks(self, size=None):
        """Read aligned blocks, without a copy."""
        size = size or budget.MEMORY.rows
        for start in range(0, int(self.array.shape[0]), size):
            yield start, np.asarray(self.array[start : start + size])

    def take(self, indices):
        """Return chosen rows."""
        return np.asarray(self.array).take(indices, axis=0)


class JoinedRows(Rows):
    """Rows of several arrays, one after another.

    Parameters
    ----------
    parts : list of ArrayRows
        The arrays.
    """

    can_take = True

    def __init__(self, parts):
        self.parts = parts
        self.n_pieces = len(parts)
        self.ends = np.cumsum([part.n_rows for part in parts])
        self.n_rows = int(self.ends[-1])

    @property
    def n_columns(self):
        """Number of columns."""
        return self.parts[0].n_columns

    @property
    def dtype(self):
        """Type that holds the numbers of all arrays."""
        return np.result_type(*(part.dtype for part in self.parts))

    def where(self, index):
        """Return the name of an array."""
        return self.parts[index].name

    def piece(self, index):
        """Read an array in slices."""
        return self.parts[index].piece(0)

    def take(self, indices):
        """Return chosen rows."""
        rows = np.empty((len(indices), self.n_columns), dtype=self.dtype)
        which = np.searchsorted(self.ends, indices, side="right")
        for index in np.unique(which):
            chosen = np.flatnonzero(which == index)
            part = self.parts[index]
            first = self.ends[index] - part.n_rows
            rows[chosen] = part.take(indices[chosen] - first)
        return rows


class SlicedRows(ArrayRows):
    """Rows of objects with a shape that are read by slices, as zarr and h5py arrays.

    Parameters
    ----------
    array : object with ``shape``, ``ndim``, ``dtype`` and slicing
        The rows. Where it has ``chunks``, pieces are made of whole ones.
    """

    can_take = False  # a row costs a chunk

    def __init__(self, array):
        super().__init__(array)
        chunk = (getattr(array, "chunks", None) or (1,))[0]
        # Many small reads are slow, and so is reading a compressed chunk twice.
        self.step = -(-(budget.block_rows(self.n_columns) // 4) // chunk) * chunk
        self.n_pieces = max(1, -(-int(array.shape[0]) // self.step))

    def where(self, index):
        """Return the slice."""
        return f"X[{index * self.step}:{(index + 1) * self.step}]"

    def piece(self, index):
        """Read a slice."""
        start = index * self.step
        yield np.asarray(self.array[start : start + self.step])

    blocks = Rows.blocks
    take = Rows.take
