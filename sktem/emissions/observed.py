"""Columns of which something must have been observed."""

from __future__ import annotations

import numpy as np

from sktem.emissions.columns import Columns
from sktem.rows.held import carrier_of

__all__ = ["check_counts", "check_observed"]


def check_observed(X, names=None, emission=None) -> None:
    """Raise if a column has never been observed, unless the emission leaves it out.

    Parameters
    ----------
    X : ndarray or Carrier of shape (n, d)
        Rows.
    names : sequence or None, default=None
        Names of the columns.
    emission : Emission or None, default=None
        The emission; one of blocks may leave columns out.
    """
    check_counts(carrier_of(X).summed(_n_observed)[0], names, emission)


def check_counts(n_observed, names=None, emission=None) -> None:
    """Raise if the count of observed values of a column is zero."""
    never = n_observed == 0
    if isinstance(emission, Columns):
        used = np.concatenate([columns for _, _, columns in emission.emissions])
        never &= np.isin(np.arange(len(never)), used)
    if never.any():
        columns = np.flatnonzero(never).tolist()
        columns = columns if names is None else [names[j] for j in columns]
        raise ValueError(
            f"nothing has been observed of the columns {columns}: leave them out"
        )


def _n_observed(X, weights=None):
    """Return how many values of each column are observed."""
    return (np.count_nonzero(~np.isnan(X), axis=0),)
