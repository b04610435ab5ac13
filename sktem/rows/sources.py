"""Choice of the adapter that reads X."""

from __future__ import annotations

import numpy as np

from sktem.rows.arrays import ArrayRows, JoinedRows, SlicedRows
from sktem.rows.arrow import ArrowRows, DatasetRows, LazyFrameRows, numbers_of
from sktem.rows.base import Rows
from sktem.rows.checked import CheckedRows, not_finite
from sktem.rows.chunks import ChunkRows, IteratedRows
from sktem.rows.files import names_files, rows_of_files
from sktem.rows.partitions import DaskRows, PartitionedRows

__all__ = [
    "as_chunk",
    "as_rows",
    "at_least_one",
    "checked_carrier",
    "found_rows",
    "is_stream",
    "ragged_rows",
    "rows_by_blocks",
]


def as_rows(X) -> Rows:
    """Return an object that reads X block by block, again on every pass.

    Estimators that read rows call this function themselves. Calling it makes a
    difference only for arrays in memory, which they would otherwise use directly.

    Parameters
    ----------
    X : object
        An array or memory map; a sequence of chunks; a function that returns a new
        iterator of chunks at each call; a path, folder or glob pattern of Parquet or
        ``.npy`` files, or a list of paths; a pyarrow Table or Dataset, a polars
        LazyFrame, a DuckDB relation or anything else that has ``__arrow_c_stream__``
        and can be read again; a zarr or h5py array; a Dask array or data frame; an
        instance of :class:`Rows`.

    Returns
    -------
    Rows
        The rows.

    Raises
    ------
    TypeError
        If X can be read only once, or not at all.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.rows import as_rows
    >>> rows = as_rows([np.zeros((3, 2)), np.ones((4, 2))])
    >>> rows.n_rows, rows.n_columns, rows.n_pieces
    (7, 2, 2)
    """
    rows = found_rows(X)
    if rows is not None:
        return rows
    array = np.asarray(X)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"rows cannot be read from {type(X).__name__}")
    return ArrayRows(array)


def found_rows(X) -> Rows | None:
    """Return a reader of X by blocks, None if scikit-learn takes X as an array.

    Parameters
    ----------
    X : object
        What the user has passed.

    Returns
    -------
    Rows or None
        The rows. Arrays that scikit-learn would use without a copy are left to it.
    """
    if isinstance(X, np.ndarray):
        return _of_memory_map(X) if isinstance(X, np.memmap) else None
    if isinstance(X, Rows):
        return X
    if names_files(X):
        return rows_of_files(X)
    if is_stream(X):
        raise TypeError(
            f"X is a {type(X).__name__}, whose rows can be read only once, and fit "
            "reads them again and again: pass a function that returns a new iterator "
            "of chunks, or learn from each chunk by partial_fit"
        )
    kind = type(X).__module__.partition(".")[0], type(X).__name__
    if kind[0] in ("dask", "dask_expr"):
        return DaskRows(X)
    if kind == ("polars", "LazyFrame"):
        return LazyFrameRows(X)
    if kind == ("polars", "DataFrame") or kind[0] == "pandas":
        return None
    if hasattr(X, "__arrow_c_stream__"):
        return ArrowRows(X)
    if hasattr(X, "to_batches") and hasattr(X, "schema"):
        return DatasetRows(X)
    if kind[0] in ("zarr", "h5py"):
        return SlicedRows(X)
    return None if hasattr(X, "__array__") or hasattr(X, "shape") else _of_chunks(X)


def rows_by_blocks(X) -> Rows | None:
    """Return a reader of X by blocks, None where scikit-learn takes X."""
    return None if isinstance(X, np.ndarray) else found_rows(X)


def is_stream(X) -> bool:
    """Return whether X is an iterator of chunks, which can be read once."""
    return hasattr(X, "__next__")


def checked_carrier(source: Rows, check=None, allow_nan=False) -> CheckedRows:
    """Return rows of a source where they are, after a pass that checks them.

    Parameters
    ----------
    source : Rows
        The source.
    check : callable or None, default=None
        Called with blocks of numbers; raises ValueError for what is not allowed.
    allow_nan : bool, default=False
        Whether NaN is allowed.

    Returns
    -------
    CheckedRows
        The rows.
    """
    if isinstance(source, DaskRows):
        return PartitionedRows(source, check, allow_nan)
    return CheckedRows(source, check, allow_nan)


def at_least_one(chunks):
    """Yield the chunks of a stream; it is an error if there is none."""
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        raise ValueError(
            "X has no rows: an iterator without a chunk is empty, or has been read to "
            "its end before"
        )


def as_chunk(chunk):
    """Return a chunk of a stream as scikit-learn takes it, a frame if it has text."""
    if type(chunk).__name__ != "RecordBatch":
        return chunk
    try:
        return numbers_of(chunk)
    except ValueError:
        return chunk.to_pandas()


def _of_memory_map(X):
    """Return rows of a memory map that scikit-learn would copy, else None."""
    used = X.dtype in (np.float64, np.float32) and X.flags.c_contiguous
    return None if used or X.ndim != 2 or X.dtype.kind not in "biuf" else ArrayRows(X)


def _of_chunks(X):
    if callable(X) and not isinstance(X, type):
        return IteratedRows(X)
    if hasattr(X, "__len__") and hasattr(X, "__getitem__"):
        if len(X) == 0 or isinstance(X, dict) or _dimensions(X[0]) != 2:
            return None  # such as a list of lists
        if isinstance(X, (list, tuple)) and _alike(X):
            parts = [ArrayRows(chunk, f"chunk {i}") for i, chunk in enumerate(X)]
            return JoinedRows(parts)
        return ChunkRows(X)
    if hasattr(X, "__iter__"):
        return IteratedRows(X.__iter__)
    return None


def _dimensions(chunk):
    return getattr(chunk, "ndim", len(getattr(chunk, "shape", ())))


def _alike(chunks):
    """Return whether chunks are arrays of numbers with equally many columns."""
    if not all(isinstance(chunk, np.ndarray) for chunk in chunks):
        return False
    numbers = all(chunk.dtype.kind in "biuf" for chunk in chunks)
    return numbers and len({chunk.shape[1:] for chunk in chunks}) == 1


def ragged_rows(X, allow_nan: bool = False) -> np.ndarray:
    """Return rows that may differ in length as an array of arrays.

    Parameters
    ----------
    X : sequence of array-like
        For each row an array of shape ``(length,)``, or of shape ``(length,
        n_columns)`` with the same columns in all.
    allow_nan : bool, default=False
        Whether NaN is allowed.

    Returns
    -------
    ndarray of object of shape (n,)
        The rows, in float64 or, if all are, float32.

    Raises
    ------
    ValueError
        If the rows are not such arrays of finite numbers, naming the row.
    """
    if not hasattr(X, "__len__") or not hasattr(X, "__getitem__"):
        raise ValueError(
            f"X must be a sequence of arrays, one for each row, got {type(X).__name__}"
        )
    if not len(X):
        raise ValueError("X has no rows, while a minimum of 1 is required")
    rows = np.empty(len(X), dtype=object)
    for i in range(len(X)):
        rows[i] = _checked_row(X[i], i, allow_nan)
    shapes = {row.shape[1:] for row in rows}
    if len(shapes) > 1:
        raise ValueError(
            "the rows of X must have equally many columns, or all be of one axis; got "
            f"rows of shape (length, ...) with ... among {sorted(shapes)}"
        )
    if len({row.dtype for row in rows}) > 1:
        for i, row in enumerate(rows):
            rows[i] = row.astype(np.float64)
    return rows


def _checked_row(values, i, allow_nan):
    """Return a row as an array of numbers."""
    try:
        row = np.asarray(values)
        if row.dtype not in (np.float32, np.float64):
            row = row.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"row {i} of X does not hold numbers: {error}") from None
    if row.ndim not in (1, 2) or row.size == 0:
        raise ValueError(
            f"row {i} of X must have shape (length,) or (length, n_columns) with at "
            f"least one entry, got {row.shape}"
        )
    if place := not_finite(row.reshape(len(row), -1), allow_nan)[1]:
        raise ValueError(f"Input X contains {place[2]}: in row {i}.")
    return row
