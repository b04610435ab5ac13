"""Rows that have been checked and counted, for many passes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import closing
from functools import reduce
from math import prod
from operator import add

import numpy as np

from sktem import budget
from sktem.rows.base import ChangedRowsError, Rows, aligned, as_iterator
from sktem.validation import text_places, without_na

__all__ = [
    "CheckedRows",
    "MappedRows",
    "check_columns",
    "checked_blocks",
    "share_of",
    "summed_blocks",
]


class CheckedRows:
    """Rows whose number, type and finiteness a first pass has established.

    It has what estimators use of an array: ``shape``, ``dtype``, ``len`` and ``take``.

    Parameters
    ----------
    source : Rows
        Where the rows come from.
    check : callable or None, default=None
        Called with each block of numbers; raises ValueError for what is not allowed.
    allow_nan : bool, default=False
        Whether NaN is allowed.

    Attributes
    ----------
    has_nan : bool
        Whether there is a NaN.
    lengths : ndarray of int
        Rows of each piece.
    """

    ndim = 2
    in_memory = False
    holds_tensors = False
    can_remember = True
    largest_batch = 1024
    array = None

    def __init__(
        self, source: Rows, check: Callable | None = None, allow_nan: bool = False
    ):
        self.source = source
        self.names = source.names
        self.can_take = source.can_take
        self.lengths = np.zeros(source.n_pieces, dtype=np.int64)
        self.has_nan = False
        types, n_columns = set(), None
        for index in range(source.n_pieces):
            for chunk in _numbers_of_piece(source, index, n_columns):
                n_columns = chunk.shape[1]
                first = int(self.lengths.sum())
                has_nan = check_finite(chunk, first, source.where(index), allow_nan)
                self.has_nan |= has_nan
                check_values(check, chunk, first, source.where(index))
                types.add(chunk.dtype)
                self.lengths[index] += len(chunk)
        self.dtype = np.dtype(np.result_type(*types) if types else np.float64)
        self.shape = (int(self.lengths.sum()), n_columns or 0)
        self.starts = np.cumsum(self.lengths) - self.lengths

    @property
    def is_remote(self) -> bool:
        """Whether functions of rows are sent to where the rows are."""
        return False

    def __len__(self):
        return self.shape[0]

    @property
    def row_size(self) -> int:
        """Numbers of a row."""
        return prod(self.shape[1:])

    def place(self, row: int) -> str:
        """Return how errors call a row."""
        used = np.flatnonzero(self.lengths)
        piece = used[np.searchsorted(self.starts[used], row, side="right") - 1]
        return f"row {row} ({self.source.where(int(piece))})"

    def pieces(self, order=None) -> Generator[tuple[int, np.ndarray]]:
        """Yield the row index of the first row and the rows, piece by piece."""
        source = self.source
        for index in range(source.n_pieces) if order is None else order:
            count, expected = 0, int(self.lengths[index])
            for chunk in _numbers_of_piece(source, index, self.shape[1]):
                if count + len(chunk) > expected:
                    count = -1
                    break
                yield int(self.starts[index]) + count, chunk
                count += len(chunk)
            if count != expected:
                n_rows = "more" if count < 0 else count
                raise ChangedRowsError(
                    f"{source.where(index)} gave {expected} rows at first and {n_rows} "
                    "on a later pass: the rows must stay the same during a fit, and a "
                    "function must return a new iterator at each call"
                )

    def blocks(self, size: int | None = None) -> Generator[tuple[int, np.ndarray]]:
        """Yield the row index of the first row and the rows, in aligned blocks."""
        size = budget.block_rows(self.shape[1]) if size is None else size
        with closing(self.pieces()) as pieces:
            for first, block in aligned((chunk for _, chunk in pieces), size):
                yield first, np.ascontiguousarray(block, dtype=self.dtype)

    def model_view(self):
        """Return all rows as a model gets them."""
        return self

    def take(self, indices: np.ndarray, axis: int = 0) -> np.ndarray:
        """Return chosen rows, if need be by a pass over all."""
        flat = np.ravel(indices)
        if self.can_take:
            values = self.source.take(flat).astype(self.dtype, copy=False)
        else:
            values = self._gathered(flat)
        return values.reshape(*np.shape(indices), self.shape[1])

    __getitem__ = take

    def summed(self, function: Callable, weights=None, *, size=None) -> tuple:
        """Return sums over aligned blocks of ``function(rows, weights=weights)``.

        Parameters
        ----------
        function : callable
            Returns a tuple of arrays and numbers.
        weights : ndarray of shape (n_rows,) or None, default=None
            Weights of the rows.
        size : int or None, default=None
            Rows of a block; None takes that of :meth:`blocks`.

        Returns
        -------
        tuple
            The sums.
        """
        return summed_blocks(self.blocks(size), function, weights)

    def mapped(self, function: Callable, beside=None) -> CheckedRows:
        """Return the rows that a function makes of these.

        Parameters
        ----------
        function : callable
            Called with an array of some rows; returns as many rows.
        beside : ndarray of shape (n_rows,) or None, default=None
            A number for each row, of which those of the rows are the second argument.

        Returns
        -------
        CheckedRows
            The rows, with the names of these.
        """
        mapped_rows = CheckedRows(MappedRows(self, function, beside), allow_nan=True)
        mapped_rows.names = self.names
        return mapped_rows

    def buffers(self, order, sizes) -> Generator[tuple[np.ndarray, np.ndarray]]:
        """Yield sorted numbers and rows, many at once, in an order of the pieces."""
        remaining, n_waiting = iter(sizes), 0
        size = next(remaining)
        waiting: list[tuple[int, np.ndarray]] = []
        with closing(self.pieces(order)) as pieces:
            for first, chunk in pieces:
                start = 0
                while start < len(chunk):
                    piece = chunk[start : start + size - n_waiting]
                    waiting.append((first + start, piece.astype(self.dtype)))
                    start += len(piece)
                    n_waiting += len(piece)
                    if n_waiting == size:
                        waiting.sort(key=lambda piece: piece[0])
                        yield _joined(waiting)
                        n_waiting, size = 0, next(remaining, 0)

    def digest(self) -> str:
        """Return a text that is the same for the same rows, whatever the source."""
        content = hashlib.sha256(f"{self.shape} {self.dtype}".encode())
        for _, block in self.blocks():
            content.update(block.data)
        return content.hexdigest()

    def _gathered(self, indices):
        """Return chosen rows by a pass over all."""
        order = np.argsort(indices, kind="stable")
        sorted_indices = indices[order]
        rows = np.empty((len(indices), self.shape[1]), dtype=self.dtype)
        for first, block in self.blocks():
            low, high = np.searchsorted(sorted_indices, (first, first + len(block)))
            rows[order[low:high]] = block[sorted_indices[low:high] - first]
        return rows


class MappedRows(Rows):
    """Rows made from other rows by a function.

    Parameters
    ----------
    checked : CheckedRows
        The rows.
    function : callable
        Called with rows; returns as many rows.
    beside : ndarray of shape (n_rows,) or None, default=None
        A number for each row, of which those of the rows are the second argument.
    """

    def __init__(self, checked: CheckedRows, function: Callable, beside=None):
        self.checked = checked
        self.function = function
        self.beside = beside
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
            yield self._made(slice(first, first + len(chunk)), chunk)

    def take(self, indices):
        """Return chosen rows."""
        return np.asarray(self._made(indices, self.checked.take(indices)))

    def _made(self, indices, rows):
        beside = () if self.beside is None else (self.beside[indices],)
        return self.function(rows, *beside)


def checked_blocks(source: Rows, n_columns: int, check=None, allow_nan=False):
    """Yield the rows once, in blocks of checked numbers."""

    def chunks():
        first = 0
        for index in range(source.n_pieces):
            for chunk in _numbers_of_piece(source, index, n_columns):
                check_finite(chunk, first, source.where(index), allow_nan)
                check_values(check, chunk, first, source.where(index))
                first += len(chunk)
                yield chunk

    for _, block in aligned(chunks(), budget.block_rows(n_columns)):
        yield np.ascontiguousarray(block)


def summed_blocks(blocks, function, weights) -> tuple:
    """Return sums over blocks of the results of a function, in their order."""
    results = (
        function(
            block,
            weights=None if weights is None else weights[first : first + len(block)],
        )
        for first, block in blocks
    )
    return reduce(lambda sums, values: tuple(map(add, sums, values)), results)


def share_of(block, weights, total) -> float:
    """Return the share of a block in the mean over rows of a total weight."""
    return (len(block) if weights is None else weights.sum()) / total


def check_columns(estimator, source, *, reset: bool) -> None:
    """Set or check the number and names of columns as scikit-learn does."""
    n_columns = source.n_columns
    names = None if source.names is None else np.asarray(source.names, dtype=object)
    if reset:
        estimator.n_features_in_ = n_columns
        if names is not None:
            estimator.feature_names_in_ = names
        else:
            estimator.__dict__.pop("feature_names_in_", None)
        return
    if n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_columns} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if names is not None and fitted is not None and list(names) != list(fitted):
        raise ValueError(
            "The feature names should match those that were passed during fit: got "
            f"{list(names)}, expected {list(fitted)}."
        )


def check_finite(chunk: np.ndarray, first: int, where: str, allow_nan=False) -> bool:
    """Refuse infinity, and NaN unless allowed, naming the row; return whether it is."""
    has_nan, place = not_finite(chunk, allow_nan)
    if place is not None:
        raise not_finite_error(place, first, where)
    return has_nan


def check_values(check: Callable | None, chunk, first: int, where: str) -> None:
    """Call a check, if there is one, and name the row in its error."""
    if check is None:
        return
    try:
        check(chunk)
    except ValueError as error:
        row = first + _first_refused(check, chunk)
        raise ValueError(f"{error} (in row {row}, {where})") from error


def _first_refused(check, chunk) -> int:
    """Return the first row that a check of all rows refuses, by bisection."""
    start, stop = 0, len(chunk)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            check(chunk[start:middle])
            start = middle
        except ValueError:
            stop = middle
    return start


def not_finite(chunk: np.ndarray, allow_nan=False):
    """Return whether a value is not finite; row, column and kind of one not allowed."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(chunk.sum(dtype=np.float64)) or np.isfinite(chunk).all():
            return False, None
    wrong = np.isinf(chunk) if allow_nan else ~np.isfinite(chunk)
    if not wrong.any():
        return True, None
    row, column = map(int, np.argwhere(wrong)[0])
    return True, (row, column, "NaN" if np.isnan(chunk[row, column]) else "infinity")


def not_finite_error(place, first: int, where: str) -> ValueError:
    """Return the error about a value that is not finite."""
    row, column, what = place
    return ValueError(
        f"Input X contains {what}: in row {first + row}, column {column} ({where})."
    )


def _numbers_of_piece(source, index, n_columns):
    """Read a piece as arrays of float32 or float64, with equally many columns."""
    where = source.where(index)
    with closing(as_iterator(source.piece(index))) as chunks:
        for chunk in chunks:
            array = numbers_of_chunk(chunk, n_columns, where, source.names)
            n_columns = array.shape[1]
            if len(array):
                yield array


def numbers_of_chunk(chunk, n_columns, where, names=None):
    """Return a chunk as an array of float32 or float64."""
    array = np.asarray(chunk)
    if array.ndim != 2:
        raise ValueError(
            f"{where} has chunks of shape {array.shape}: expected 2 dimensions"
        )
    if n_columns is not None and array.shape[1] != n_columns:
        raise ValueError(f"{where} has {array.shape[1]} columns, expected {n_columns}")
    if array.dtype not in (np.float32, np.float64):
        array = _as_float64(array, where, names)
    return array


def _joined(pieces):
    """Return numbers of rows and rows of parts, which are let go."""
    numbers = np.concatenate([np.arange(n, n + len(rows)) for n, rows in pieces])
    rows = np.concatenate([rows for _, rows in pieces])
    pieces.clear()
    return numbers, rows


def _as_float64(array, where, names):
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {where} has {array.dtype}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        if "NAType" in str(error):
            return _as_float64(without_na(array), where, names)
        columns = [j if names is None else names[j] for j in text_places(array)]
        raise ValueError(
            f"{where} does not hold numbers in the columns {columns}: {error}. Give "
            "labels as codes (such as 0, 1, 2); of rows with names of columns mixtures "
            "and hidden Markov models take them as they are"
        ) from error
