"""Weights of rows: how often rows are visited, and means over them."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from sktem.arrays import arrays_of, input_arrays
from sktem.rows.held import carrier_of

__all__ = [
    "RowOrder",
    "check_weights",
    "column_scaling",
    "mean_of",
    "shared_rows",
    "shares_of",
    "thinned",
    "weighted_rows",
]


def check_weights(sample_weight, n_rows):
    """Return weights of rows as float64 of NumPy; None stays."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(
        input_arrays(sample_weight).to_numpy(sample_weight),
        np.empty((n_rows, 1)),
        dtype=np.float64,
        ensure_non_negative=True,
    )
    if not (weights > 0).any():
        raise ValueError("sample_weight is zero for all samples")
    return weights


def weighted_rows(X, sample_weight):
    """Drop rows of weight zero; return rows, weights (None if equal), their sum."""
    weights = check_weights(sample_weight, X.shape[0])
    if weights is None:
        return X, None, float(X.shape[0])
    mass, positive = float(weights.sum()), np.flatnonzero(weights)
    if len(positive) < len(weights):
        if not carrier_of(X).in_memory:
            raise ValueError(
                "sample_weight must be positive where X is read by blocks: leave out "
                "the rows of weight zero"
            )
        X = arrays_of(X).take(X, positive)
        weights = weights[positive]
    return X, None if (weights == weights[0]).all() else weights, mass


def shared_rows(X, y, sample_weight):
    """Return rows of positive weight, outputs, their shares, and the sum of weights."""
    places, weights, mass = weighted_rows(np.arange(len(X)), sample_weight)
    equal = np.full(len(places), 1 / len(places))
    shares = equal if weights is None else shares_of(weights)
    return X[places], y[places], shares, mass


def shares_of(weights):
    """Return weights divided by their sum; None stays."""
    return None if weights is None else weights / weights.sum()


def column_scaling(X, shares):
    """Return means and standard deviations of columns, 1 for constant ones."""
    centre = shares @ X
    scale = np.sqrt(shares @ (X - centre) ** 2)
    rounding = 10 * np.finfo(float).eps * np.abs(centre)
    return centre, np.where(scale > rounding, scale, 1.0)


def mean_of(values, shares) -> float:
    """Return the mean of the values of rows, of which each counts by its share."""
    arrays = arrays_of(values)
    if shares is None:
        return float(arrays.xp.mean(values))
    return float(arrays.xp.sum(values * arrays.asarray(shares, values.dtype)))


def thinned(shares, n, rng):
    """Return n indices of rows, each as often as its share says, but for rounding."""
    ends = np.floor(np.cumsum(shares) * n + rng.random()).astype(np.int64)
    ends[-1] = n
    return np.repeat(np.arange(len(shares)), np.diff(ends, prepend=0))


class RowOrder:
    """The rows that an epoch visits, in random order.

    Without weights that is each row once. With weights an epoch has as many visits,
    and each row is among them as often as its share says; the part that is not a whole
    number is drawn by systematic sampling, so that the expectation is exact.

    Parameters
    ----------
    n_rows : int
        Rows.
    shares : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows, whose sum is 1.
    left_out : ndarray of int or None, default=None
        Rows that are never visited.
    """

    def __init__(self, n_rows, shares=None, left_out=None):
        self.shares = shares
        self.rows = np.arange(n_rows)
        if left_out is not None:
            self.rows = np.delete(self.rows, left_out)
            if shares is not None:
                self.shares = shares[self.rows] / shares[self.rows].sum()

    def __len__(self):
        return len(self.rows)

    def draw(self, rng):
        """Return the indices of the rows of an epoch."""
        if self.shares is None:
            return rng.permutation(self.rows)
        return self.rows[rng.permutation(thinned(self.shares, len(self), rng))]
