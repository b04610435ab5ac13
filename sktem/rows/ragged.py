"""Rows of different lengths, as an array of arrays."""

from __future__ import annotations

import numpy as np

__all__ = ["ragged_rows"]


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
    wrong = np.isinf(row) if allow_nan else ~np.isfinite(row)
    if wrong.any():
        kind = "NaN" if np.isnan(row[wrong][0]) else "infinity"
        raise ValueError(f"Input X contains {kind}: in row {i}.")
    return row
