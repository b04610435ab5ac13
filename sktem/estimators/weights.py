"""Weights of rows that users pass."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from sktem.arrays import numpy_of
from sktem.rows.held import count_rows

__all__ = ["checked_weights", "positive_rows"]


def checked_weights(sample_weight, X) -> np.ndarray:
    """Return the weights of rows, none of them negative, as float64 of NumPy."""
    weights = None if sample_weight is None else numpy_of(sample_weight)
    rows = np.empty((count_rows(X), 0))
    return _check_sample_weight(
        weights, rows, dtype=np.float64, ensure_non_negative=True
    )


def positive_rows(X, sample_weight):
    """Return rows of positive weight, and their weights; None where all are one.

    Rows of weight zero are as if they were not there.
    """
    if sample_weight is None:
        return X, None
    weights = checked_weights(sample_weight, X)
    positive = weights > 0
    if not positive.any():
        raise ValueError("sample_weight is zero for all samples")
    if not positive.all():
        X, weights = X[positive], weights[positive]
    return X, None if (weights == 1).all() else weights
