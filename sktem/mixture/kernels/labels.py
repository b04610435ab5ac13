"""A pass of EM over columns of labels in one loop: E-step and statistics.

A second implementation of what an emission of labels and `posterior_rows` do one after
the other: whole fits are more than 1.5 times faster (`benchmarks/peer_stepmix.py`).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.emissions.kernels import categories
from sktem.emissions.kernels.categories import FAST, LANES
from sktem.emissions.kernels.rows import distance_tile, moment_tile
from sktem.mixture.kernels.tiles import OUTER, softmax_tile

__all__ = ["Numbers", "expected_counts"]


class Numbers(NamedTuple):
    """Columns with normal distributions that are independent given the state.

    Attributes
    ----------
    columns : ndarray of int of shape (d,)
        Perhaps none.
    centre : ndarray of shape (d,)
        Origin of the means and moments.
    means, factors : ndarray of shape (K, d)
        Means, and inverses of standard deviations.
    first, second : ndarray of shape (K, d)
        To these their weighted moments are added.
    """

    columns: np.ndarray
    centre: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    first: np.ndarray
    second: np.ndarray


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def expected_counts(
    X, columns, widths, table, numbers, log_weights, rest, weights, posteriors, sums
):
    """Equal the counts of `weighted_counts` for the posteriors of the states.

    The joint log-density is the log weights of the states, plus that of the other
    columns, plus the sum over columns of ``table[:, j, code]``, less half the sum of
    ``((x - centre - means) * factors)**2``; posteriors are its exponentials over their
    sum, times the weights of the rows. Returned is the weighted sum of the log-sum-exp
    of the rows, not finite if a code is none of its column, a number is NaN or a row
    has no finite joint.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
    columns : ndarray of int of shape (d,)
        Columns of labels.
    widths : ndarray of int of shape (d,)
        Numbers of codes, that of NaN included.
    table : ndarray of shape (K, d, max(widths))
    numbers : Numbers
    log_weights : ndarray of shape (K,)
    rest : ndarray of shape (n, K) or (0, K)
        Log-densities of other columns; none are zeros.
    weights : ndarray of shape (n,) or (0,)
        Of the rows; none are ones.
    posteriors : ndarray of shape (n, K) or (0, K)
        Filled unless it is empty.
    sums : ndarray of shape (d, max(widths), K)
    """
    K, n = len(table), len(X)
    groups = categories.group_columns(n, widths)
    n_groups, n_cells = len(groups[1]) - 1, groups[2][-1]
    cells, counts = np.empty((K, n_cells)), np.zeros((n_cells, K))
    categories.fill_cells(table, widths, groups, cells)
    work = np.empty(LANES), np.empty(LANES)
    places = np.zeros((n_groups, LANES), np.int32)
    joint, share = np.zeros(K * LANES), np.empty(K)
    largest, total, value = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    tile = np.zeros((len(numbers.columns), LANES))
    log_likelihood, spoilt = 0.0, 0.0
    for first in range(0, n, LANES):
        n_rows = min(LANES, n - first)
        if not categories.place_tile(X, columns, first, widths, groups, work, places):
            return np.nan
        for j in range(len(tile)):
            column, origin = numbers.columns[j], numbers.centre[j]
            for lane in range(n_rows):
                x = X[first + lane, column]
                tile[j, lane] = x - origin
                spoilt += 0.0 if x == x else 1.0
        if spoilt > 0.0:
            return np.nan
        for k in range(K):
            row, state_cells = joint[k * LANES : (k + 1) * LANES], cells[k]
            row[:] = log_weights[k]
            if len(rest):
                for lane in range(n_rows):
                    term = rest[first + lane, k]
                    row[lane] += term
                    spoilt += 0.0 if term == term else 1.0
            for g in range(n_groups):
                place = places[g]
                for lane in range(LANES):
                    row[lane] += state_cells[place[lane]]
            if len(tile):
                distance_tile(tile, numbers.means[k], numbers.factors[k], False, value)
                for lane in range(LANES):
                    row[lane] -= 0.5 * value[lane]
        softmax_tile(joint, K, LANES, largest, total, value)
        for lane in range(n_rows):
            weight = weights[first + lane] if len(weights) else 1.0
            log_likelihood += weight * value[lane]
            weight /= total[lane]
            total[lane] = weight
            for k in range(K):
                share[k] = joint[k * LANES + lane] * weight
            if len(posteriors):
                posteriors[first + lane] = share
            for g in range(n_groups):
                entry = counts[places[g, lane]]
                for k in range(K):
                    entry[k] += share[k]
        if len(tile):
            total[n_rows:] = 0.0
            for k in range(K):
                row = joint[k * LANES : (k + 1) * LANES]
                for lane in range(LANES):
                    row[lane] *= total[lane]
                moment_tile(tile, row, numbers.first[k], numbers.second[k])
    categories.spread_counts(counts, widths, groups, sums)
    return np.nan if spoilt > 0.0 else log_likelihood
