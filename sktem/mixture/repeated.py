"""Rows that repeat, each once with the number of its copies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.estimators.copies import counts_of_equal, row_keys
from sktem.rows.held import carrier_of

__all__ = ["distinct_rows"]


class Repeats(NamedTuple):
    """Thresholds at which passes over distinct rows save time.

    Attributes
    ----------
    sample : int
        Rows among which copies are looked for first.
    most_distinct : float
        Distinct rows, at most, as a share of all.
    """

    sample: int = 1024
    most_distinct: float = 0.5


REPEATS = Repeats()


def distinct_rows(X, sample_weight=None, rule: Repeats = REPEATS):
    """Return distinct rows and their weights, or the same rows if few are copies.

    Parameters
    ----------
    X : ndarray of shape (n, d) or Carrier
        Rows; NaN equals NaN.
    sample_weight : ndarray of shape (n,) or None, default=None
        Weights.
    rule : Repeats
        When it pays.

    Returns
    -------
    X : ndarray of shape (m, d) or Carrier
        Rows.
    sample_weight : ndarray of shape (m,) or None
        Their weights.
    """
    rows = carrier_of(X).array
    if rows is None or len(rows) < 2:
        return X, sample_weight
    some = rows[:: max(1, len(rows) // rule.sample)]
    if len(some) == len(np.unique(row_keys(some))):
        return X, sample_weight
    keys = row_keys(rows)
    if len(counts_of_equal(keys)) > rule.most_distinct * len(rows):
        return X, sample_weight
    _, first, row_of = np.unique(keys, return_index=True, return_inverse=True)
    distinct = rows[first]
    repeated = distinct[row_of]
    if not ((repeated == rows) | (np.isnan(repeated) & np.isnan(rows))).all():
        return X, sample_weight  # of different rows some have the same key
    return distinct, np.bincount(row_of, sample_weight).astype(np.float64)
