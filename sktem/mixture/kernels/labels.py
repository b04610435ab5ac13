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
from sktem.kernels.exponential import exponential, logarithm
from sktem.kernels.vectors import add, load, multiply, scaled, store, total
from sktem.mixture.kernels.tiles import INNER, OUTER, softmax_tile

__all__ = ["Numbers", "expected_counts"]

#: States whose probabilities one register holds.
EIGHT = (0.0,) * 8
#: Groups of columns whose probabilities are multiplied before the products are scaled.
FACTORS = 8
#: Sums of products, at least: what is lost by underflow is less than rounding.
LEAST_TOTAL = 1e-280


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


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _multiply(weights, probabilities, places, shares, scale, value):
    """Fill shares of the states: their weights times the probabilities of the cells.

    They are to be multiplied by what `scale` then holds, the inverse of their sums, and
    `value` holds the logarithms of the sums. Returned is whether all sums are above the
    least.
    """
    (n_rows, n_groups), n_registers = places.shape, probabilities.shape[1] // 8
    start, rows = weights.reshape(-1, 8), probabilities.reshape(-1, 8)
    products, wrong = shares.reshape(-1, 8), 0
    value[:], scale[:] = 0.0, 1.0
    for first in range(0, n_groups, FACTORS):
        last = min(first + FACTORS, n_groups)
        for lane in range(n_rows):
            mass = 0.0
            for v in range(n_registers):
                at = lane * n_registers + v
                if first == 0:
                    product = load(EIGHT, start, v)
                else:
                    product = scaled(load(EIGHT, products, at), scale[lane])
                for g in range(first, last):
                    place = places[lane, g] * n_registers + v
                    product = multiply(product, load(EIGHT, rows, place))
                store(products, at, product)
                mass += total(product)
            scale[lane] = mass
        for lane in range(LANES):
            mass = scale[lane]
            wrong += 0 if mass > LEAST_TOTAL else 1
            value[lane] += logarithm(mass)
            scale[lane] = 1.0 / mass
    return wrong == 0


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _number_tile(X, first, n_rows, numbers, tile):
    """Fill a tile with columns about the centre; return whether none is NaN."""
    spoilt = 0.0
    for j in range(len(tile)):
        column, origin = numbers.columns[j], numbers.centre[j]
        for lane in range(n_rows):
            x = X[first + lane, column]
            tile[j, lane] = x - origin
            spoilt += 0.0 if x == x else 1.0
    return spoilt == 0.0


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _join(tile, numbers, log_weights, logs, places, rest, joint, work):
    """Fill a tile of exponentials of joint log-densities, less the largest of a row.

    The work holds the largest, the sums of the exponentials and the log-densities of
    the rows. Returned is whether no density of other columns is NaN.
    """
    (n_rows, n_groups), spoilt, value = places.shape, 0.0, work[2]
    for k in range(len(log_weights)):
        row, cells = joint[k * LANES : (k + 1) * LANES], logs[k]
        row[:] = log_weights[k]
        if len(rest):
            for lane in range(n_rows):
                term = rest[lane, k]
                row[lane] += term
                spoilt += 0.0 if term == term else 1.0
        for g in range(n_groups):
            for lane in range(n_rows):
                row[lane] += cells[places[lane, g]]
        if len(tile):
            distance_tile(tile, numbers.means[k], numbers.factors[k], False, value)
            for lane in range(LANES):
                row[lane] -= 0.5 * value[lane]
    softmax_tile(joint, len(log_weights), LANES, *work)
    return spoilt == 0.0


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _count(places, weight, shares, counts):
    """Multiply the shares of rows by their weights, and add them to their cells."""
    (n_rows, n_groups), n_registers = places.shape, counts.shape[1] // 8
    cells, parts = counts.reshape(-1, 8), shares.reshape(-1, 8)
    for lane in range(n_rows):
        for v in range(n_registers):
            at = lane * n_registers + v
            part = scaled(load(EIGHT, parts, at), weight[lane])
            store(parts, at, part)
            for g in range(n_groups):
                place = places[lane, g] * n_registers + v
                store(cells, place, add(load(EIGHT, cells, place), part))


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def expected_counts(
    X,
    places,
    n_grouped,
    widths,
    table,
    numbers,
    log_weights,
    rest,
    weights,
    posteriors,
    sums,
):
    """Equal the counts of `weighted_counts` for the posteriors of the states.

    The joint log-density is the log weights of the states, plus that of the other
    columns, plus the sum over columns of ``table[:, j, code]``, less half the sum of
    ``((x - centre - means) * factors)**2``; posteriors are its exponentials over their
    sum, times the weights of the rows. Returned is the weighted sum of the log-sum-exp
    of the rows, NaN if a number is NaN or the joint of a row is none, or so small that
    products of probabilities lose it.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
    places : ndarray of int of shape (n, n_groups)
        Cells of the labels of the rows, from `code_cells`.
    n_grouped : int
        Number of rows for which the groups were made.
    widths : ndarray of int of shape (d,)
        Numbers of codes of the columns of labels, that of NaN included.
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
    K, n, log_likelihood = len(table), len(X), 0.0
    groups, width = categories.group_columns(n_grouped, widths), (K + 7) // 8 * 8
    logs = np.empty((K, groups[2][-1]))
    categories.fill_cells(table, widths, groups, logs)
    states, counts = np.zeros((1, width)), np.zeros((logs.shape[1], width))
    states[0, :K] = np.exp(log_weights)
    tile = np.zeros((len(numbers.columns), LANES))
    is_alone = len(tile) == 0 and len(rest) == 0
    probabilities = np.zeros((logs.shape[1] if is_alone else 0, width))
    for k in range(K):
        for cell in range(len(probabilities)):
            probabilities[cell, k] = exponential(logs[k, cell])
    joint, shares, scale = np.zeros(K * LANES), np.zeros((LANES, width)), np.ones(LANES)
    value = np.empty(LANES)
    work = np.empty(LANES), scale, value
    for first in range(0, n, LANES):
        n_rows = min(LANES, n - first)
        cells = places[first : first + n_rows]
        if is_alone:
            own = probabilities, cells, shares, scale, value
            if not _multiply(states, *own):
                return np.nan
        else:
            finite = _number_tile(X, first, n_rows, numbers, tile)
            others = cells, rest[first : first + n_rows], joint, work
            if not (finite & _join(tile, numbers, log_weights, logs, *others)):
                return np.nan
            for lane in range(LANES):
                scale[lane] = 1.0 / scale[lane]
            for k in range(K):
                for lane in range(n_rows):
                    shares[lane, k] = joint[k * LANES + lane]
        for lane in range(n_rows):
            weight = weights[first + lane] if len(weights) else 1.0
            scale[lane] *= weight
            log_likelihood += weight * value[lane]
        scale[n_rows:] = 0.0
        _count(cells, scale, shares, counts)
        if len(posteriors):
            posteriors[first : first + n_rows] = shares[:n_rows, :K]
        if len(tile):
            for k in range(K):
                row = joint[k * LANES : (k + 1) * LANES]
                for lane in range(LANES):
                    row[lane] *= scale[lane]
                moment_tile(tile, row, numbers.first[k], numbers.second[k])
    categories.spread_counts(counts[:, :K], widths, groups, sums)
    return log_likelihood
