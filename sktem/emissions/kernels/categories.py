"""Log-probabilities and weighted counts of categorical columns, by tables of cells.

Neighbouring columns form groups, and the codes of a row in a group are one number, its
*cell*: a row looks up, or adds to, one entry of a table for several columns. Tables are
as large as pays for the number of rows.
"""

import numpy as np
from numba import njit

from sktem.kernels.options import INNER, OUTER

__all__ = ["log_probabilities", "weighted_counts"]

#: Rows of a tile.
LANES = 128
#: Cells of a group of several columns, at most: the tables stay in the nearest caches.
MOST_CELLS = 1024
#: Rows for each of these cells, at least: to fill one costs less than to look it up.
ROWS_OF_CELL = 16
FAST = {"contract", "reassoc", "nsz"}


@njit(**INNER, error_model="numpy")
def _grouped(n, widths):
    """Return the strides of the columns, first columns and first cells of the groups.

    The last entry of the two is where the last group ends.
    """
    d = len(widths)
    most = min(MOST_CELLS, n // ROWS_OF_CELL)
    strides = np.ones(d, np.int64)
    starts, origins = np.zeros(d + 1, np.int64), np.zeros(d + 1, np.int64)
    n_groups, size = 0, 1
    for j in range(d):
        if j == 0 or size * widths[j] > most:
            n_groups, size = n_groups + 1, 1
        strides[j] = size
        size *= widths[j]
        starts[n_groups] = j + 1
        origins[n_groups] = origins[n_groups - 1] + size
    return strides, starts[: n_groups + 1], origins[: n_groups + 1]


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _place_tile(X, first, widths, strides, starts, origins, work, places):
    """Fill the cell of each group and row of a tile; return whether all have one."""
    n = min(LANES, X.shape[0] - first)
    column, cell = work
    column[:] = 0.0
    wrong = 0.0
    for g in range(len(starts) - 1):
        cell[:] = origins[g]
        for j in range(starts[g], starts[g + 1]):
            missing, stride = float(widths[j] - 1), float(strides[j])
            for lane in range(n):
                column[lane] = X[first + lane, j]
            for lane in range(LANES):
                value = column[lane]
                code = value if value == value else missing
                outside = (value < 0.0) | (value >= missing)
                wrong += 1.0 if outside | (np.floor(code) != code) else 0.0
                cell[lane] += stride * code
        if wrong > 0.0:
            return False
        for lane in range(LANES):
            places[g, lane] = np.int32(cell[lane])
    return True


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def log_probabilities(X, widths, table, out):
    """Equal ``out[:] = table[:, np.arange(d), codes].sum(axis=2)``.

    The codes are X, with ``widths - 1`` for NaN. Returned is whether all are codes of
    their columns; if not, the output is of no use.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    widths : ndarray of int of shape (d,)
        Numbers of codes, that of NaN included.
    table : ndarray of shape (K, d, max(widths))
    out : ndarray of shape (K, n)
    """
    K = len(table)
    strides, starts, origins = _grouped(len(X), widths)
    n_groups = len(starts) - 1
    cells = np.zeros((K, origins[-1]))
    for g in range(n_groups):
        for j in range(starts[g], starts[g + 1]):
            for place in range(origins[g], origins[g + 1]):
                code = (place - origins[g]) // strides[j] % widths[j]
                for k in range(K):
                    cells[k, place] += table[k, j, code]
    work = np.empty(LANES), np.empty(LANES)
    places, total = np.zeros((n_groups, LANES), np.int32), np.empty(LANES)
    for first in range(0, len(X), LANES):
        if not _place_tile(X, first, widths, strides, starts, origins, work, places):
            return False
        for k in range(K):
            own = cells[k]
            total[:] = 0.0
            for g in range(n_groups):
                row = places[g]
                for lane in range(LANES):
                    total[lane] += own[row[lane]]
            for lane in range(min(LANES, len(X) - first)):
                out[k, first + lane] = total[lane]
    return True


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def weighted_counts(X, widths, R, sums):
    """Equal ``sums[j, code] = R[codes[:, j] == code].sum(axis=0)``.

    The codes are X, with ``widths - 1`` for NaN. Returned is whether all are codes of
    their columns; if not, the output is of no use.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    widths : ndarray of int of shape (d,)
        Numbers of codes, that of NaN included.
    R : ndarray of shape (n, K)
    sums : ndarray of shape (d, max(widths), K)
    """
    K = R.shape[1]
    strides, starts, origins = _grouped(len(X), widths)
    n_groups = len(starts) - 1
    cells = np.zeros((origins[-1], K))
    work = np.empty(LANES), np.empty(LANES)
    places = np.zeros((n_groups, LANES), np.int32)
    for first in range(0, len(X), LANES):
        if not _place_tile(X, first, widths, strides, starts, origins, work, places):
            return False
        for lane in range(min(LANES, len(X) - first)):
            weights = R[first + lane]
            for g in range(n_groups):
                entry = cells[places[g, lane]]
                for k in range(K):
                    entry[k] += weights[k]
    sums[:] = 0.0
    for g in range(n_groups):
        for j in range(starts[g], starts[g + 1]):
            for place in range(origins[g], origins[g + 1]):
                code = (place - origins[g]) // strides[j] % widths[j]
                for k in range(K):
                    sums[j, code, k] += cells[place, k]
    return True
