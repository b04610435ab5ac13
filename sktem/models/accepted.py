"""The kinds of rows that a model of the user's own accepts."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse

from sktem.models.base import KINDS_OF_ROWS
from sktem.rows.checked import not_finite
from sktem.rows.sources import is_stream

__all__ = ["accepted_kinds", "given_rows", "ragged_rows"]


def accepted_kinds(model) -> frozenset[str]:
    """Return which kinds of rows a model accepts beyond dense matrices of numbers."""
    accepts = getattr(model, "accepts", ())
    if isinstance(accepts, str) or not set(accepts) <= set(KINDS_OF_ROWS):
        raise ValueError(
            f"accepts of {type(model).__name__} must be a set of names among "
            f"{sorted(KINDS_OF_ROWS)}, got {accepts!r}"
        )
    return frozenset(accepts)


def given_rows(X, model):
    """Return the rows of a user as the model gets them: in CSR, or as an array."""
    kinds = accepted_kinds(model)
    if "sparse" in kinds and issparse(X):
        return X.tocsr()
    if "ragged" not in kinds or is_stream(X):
        return X
    return ragged_rows(X, "nan" in kinds)


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
