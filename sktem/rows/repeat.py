"""Copies of rows, for several draws of each."""

from __future__ import annotations

import numpy as np

__all__ = ["can_repeat", "repeat_rows"]


def can_repeat(X) -> bool:
    """Return whether :func:`repeat_rows` can repeat rows."""
    return isinstance(X, np.ndarray) or hasattr(X, "repeat")


def repeat_rows(X, count: int):
    """Repeat each row, so that the copies of a row follow each other.

    Parameters
    ----------
    X : ndarray or object with a method ``repeat(count)``
        Rows.
    count : int
        Copies of each row.

    Returns
    -------
    array-like
        ``count * len(X)`` rows.
    """
    if count == 1:
        return X
    return np.repeat(X, count, axis=0) if isinstance(X, np.ndarray) else X.repeat(count)
