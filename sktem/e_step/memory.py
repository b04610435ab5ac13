"""Memory of rows: their latents and perhaps parameters, never their statistics."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

__all__ = ["LatentMemory"]


class LatentMemory:
    """A table of latents with one entry per row of the data.

    The table takes the dtype of what is stored (draw counts stay small integers)
    and widens when a later draw needs it.

    Parameters
    ----------
    n_rows : int
        Number of rows of the data.
    ragged : bool, default=False
        Whether entries have an axis of draws, of a length that may differ from row to
        row when the number of draws grows with the iteration.
    folder : str or None, default=None
        Where the table is kept on disk, in a file without a name; None keeps it in
        memory.
    """

    def __init__(self, n_rows: int, ragged: bool = False, folder: str | None = None):
        self.n_rows = n_rows
        self.ragged = ragged
        self.folder = folder
        self.values: np.ndarray | None = None
        self.n_draws: np.ndarray | None = None
        # Where rows are completed: the visit of each, and its parameters.
        self.visits: np.ndarray | None = None
        self.visited: dict[int, Any] = {}
        self._kept = 16

    def put(self, rows, Z: np.ndarray, params: Any = None) -> None:
        """Remember ``Z`` for ``rows``, and the parameters of the visit if given."""
        if params is not None:
            self._put_params(rows, params)
        if self.values is None:
            self.values = self._zeros(Z.shape[1:], Z.dtype)
            if self.ragged:
                self.n_draws = np.zeros(self.n_rows, dtype=np.int32)
        dtype = np.result_type(self.values.dtype, Z.dtype)
        if dtype != self.values.dtype:
            before, self.values = self.values, self._zeros(self.values.shape[1:], dtype)
            self.values[:] = before
        if self.n_draws is None:
            self.values[rows] = Z
            return
        length = Z.shape[1]
        if length > self.values.shape[1]:
            # Doubling keeps the total cost of a growing number of draws linear.
            capacity = max(length, 2 * self.values.shape[1])
            wider = self._zeros((capacity, *Z.shape[2:]), dtype)
            wider[:, : self.values.shape[1]] = self.values
            self.values = wider
        self.values[rows, :length] = Z
        self.n_draws[rows] = length

    def _put_params(self, rows, params):
        """Remember the parameters of a visit, and forget those of no row."""
        if self.visits is None:
            self.visits = np.full(self.n_rows, -1, dtype=np.int64)
        number = next(reversed(self.visited), -1) + 1  # they increase
        last = self.visited.get(number - 1)
        if last is params:
            number -= 1
        self.visited[number] = params
        self.visits[rows] = number
        # Looking through all rows each time would cost more than the visit.
        if len(self.visited) > 2 * self._kept:
            used = set(np.unique(self.visits).tolist())
            self.visited = {n: p for n, p in self.visited.items() if n in used}
            self._kept = max(len(self.visited), 16)

    def _zeros(self, shape, dtype):
        """Return an empty table, in memory or on disk."""
        shape = (self.n_rows, *shape)
        if self.folder is None:
            return np.zeros(shape, dtype)
        os.makedirs(self.folder, exist_ok=True)
        size = prod(shape) * np.dtype(dtype).itemsize
        with tempfile.TemporaryFile(dir=self.folder) as file:
            try:
                # A full disk found out later would kill the process.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"no room for the {size} bytes that are remembered of the rows "
                    f"({error.strerror})",
                    self.folder,
                ) from error
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))

    def get(self, rows) -> np.ndarray:
        """Return the latents of ``rows``, which must have equally many draws."""
        if self.values is None:
            raise ValueError("nothing has been remembered yet")
        if self.n_draws is None:
            return self.values[rows]
        counts = self.n_draws[rows]
        length = int(counts[0]) if len(counts) else 0
        if len(counts) and (counts != length).any():
            raise ValueError("the rows have different numbers of draws: use groups()")
        return self.values[rows, :length]

    def groups(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, Any]]:
        """Split ``rows`` into groups with equally many draws, or of one visit."""
        if self.visits is not None:
            visits = self.visits[rows]
            for number in np.unique(visits):
                positions = np.flatnonzero(visits == number)
                params = self.visited[int(number)]
                yield positions, self.get(rows[positions]), params
            return
        if self.n_draws is None:
            yield np.arange(len(rows)), self.get(rows), None
            return
        counts = self.n_draws[rows]
        for length in np.unique(counts):
            positions = np.flatnonzero(counts == length)
            yield positions, self.get(rows[positions]), None
