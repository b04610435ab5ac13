"""Posterior probabilities of the components of any mixture, by tiles of rows."""

import numpy as np
from numba import njit

from sktem.mixture.kernels.tiles import (
    LANE_GROUP,
    LANES,
    OUTER,
    WHOLE_GROUPS,
    softmax_tile,
)

__all__ = ["posterior_rows"]


@njit(**OUTER, error_model="numpy")
def posterior_rows(log_densities, log_weights, posteriors, values):
    """Equal ``values = logsumexp(joint, axis=0)`` and the posteriors of the rows.

    With ``joint = log_densities + log_weights[:, None]`` these are
    ``np.exp(joint - values).T``. Returned is whether all values are finite; of rows of
    which that is not so, the posteriors are of no use and the value is the largest of
    the joint, or NaN.

    Parameters
    ----------
    log_densities : ndarray of shape (K, n)
    log_weights : ndarray of shape (K,)
    posteriors : ndarray of shape (n, K)
    values : ndarray of shape (n,)
    """
    K, n = log_densities.shape
    joint = np.zeros(K * LANES)
    largest, total, value = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    spoilt = np.zeros(LANES)
    all_finite = True
    for first in range(0, n, LANES):
        n_rows = min(LANES, n - first)
        for lane in range(LANES):
            spoilt[lane] = 0.0
        for k in range(K):
            row, weight = joint[k * LANES : (k + 1) * LANES], log_weights[k]
            for lane in range(n_rows):
                term = log_densities[k, first + lane] + weight
                row[lane] = term
                spoilt[lane] += 0.0 if term == term else 1.0
        n_lanes = (n_rows + LANE_GROUP - 1) & WHOLE_GROUPS
        softmax_tile(joint, K, n_lanes, largest, total, value)
        for lane in range(n_rows):
            top = np.nan if spoilt[lane] > 0.0 else largest[lane]
            finite = np.isfinite(top)
            all_finite &= finite
            values[first + lane] = value[lane] if finite else top
            total[lane] = 1.0 / total[lane]
        for lane in range(n_rows):
            for k in range(K):
                share = joint[k * LANES + lane] * total[lane]
                posteriors[first + lane, k] = share
    return all_finite
