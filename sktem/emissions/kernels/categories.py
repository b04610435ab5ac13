"""Log-probabilities and weighted counts of categorical columns, by tables of cells.

Neighbouring columns form groups, and the codes of a row in a group are one number, its
*cell*: a row looks up, or adds to, one entry of a table for several columns. Tables are
as large as pays for the number of rows.
"""

import numpy as np
from numba import njit

from sktem.kernels.options import INNER, OUTER

__all__ = [
    "FAST",
    "LANES",
    "code_cells",
    "fill_cells",
    "group_columns",
    "log_probabilities",
    "place_tile",
    "spread_counts",
    "weighted_counts",
]

#: Rows of a tile.
LANES = 128
#: Cells of a group of several columns, at most: the tables stay in the nearest caches.
MOST_CELLS = 1024
#: Rows for each of these cells, at least: to fill one costs less than to look it up.
ROWS_OF_CELL = 16
FAST = {"contract", "reassoc", "nsz"}


@njit(**INNER, error_model="numpy")
def _grouped(widths, most, strides, starts, origins):
    """Fill strides, first columns and first cells; return the number of groups."""
    n_groups, size = 0, 1
    for j in range(len(widths)):
        if j == 0 or size * widths[j] > most:
            n_groups, size = n_groups + 1, 1
        strides[j] = size
        size *= widths[j]
        starts[n_groups] = j + 1
        origins[n_groups] = origins[n_groups - 1] + size
    return n_groups


@njit(**INNER, error_model="numpy")
def group_columns(n, widths):
    """Return the strides of the columns, first columns and first cells of the groups.

    The last entry of the two is where the last group ends. There are as few groups as
    the largest number of cells allows, with as few cells as their number allows.
    """
    d, most = len(widths), min(MOST_CELLS, n // ROWS_OF_CELL)
    groups = np.ones(d, np.int64), np.zeros(d + 1, np.int64), np.zeros(d + 1, np.int64)
    n_groups = _grouped(widths, most, *groups)
    while most > 1 and _grouped(widths, most // 2, *groups) == n_groups:
        most //= 2
    _grouped(widths, most, *groups)
    strides, starts, origins = groups
    return strides, starts[: n_groups + 1], origins[: n_groups + 1]


@njit(**INNER, fastmath=FAST, error_model="numpy")
def place_tile(X, columns, first, widths, groups, work, places):
    """Fill the cell of each group and row of a tile; return whether all have one.

    The columns of X are those that have categories, and `groups` are from
    `group_columns`.
    """
    strides, starts, origins = groups
    n = min(LANES, X.shape[0] - first)
    column, cell = work
    column[:] = 0.0
    wrong = 0.0
    for g in range(len(starts) - 1):
        cell[:] = origins[g]
        for j in range(starts[g], starts[g + 1]):
            missing, stride = float(widths[j] - 1), float(strides[j])
            for lane in range(n):
                column[lane] = X[first + lane, columns[j]]
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


@njit(**OUTER, error_model="numpy")
def code_cells(X, columns, widths, n_grouped):
    """Return the cells of the groups of columns for a number of rows, (n, n_groups).

    None are returned if a value is no code of its column.
    """
    groups = group_columns(n_grouped, widths)
    n_groups = len(groups[1]) - 1
    work = np.empty(LANES), np.empty(LANES)
    places = np.zeros((n_groups, LANES), np.int32)
    cells = np.empty((len(X), n_groups), np.int32)
    for first in range(0, len(X), LANES):
        if not place_tile(X, columns, first, widths, groups, work, places):
            return cells[:0]
        tile = cells[first : first + LANES]
        for g in range(n_groups):
            for lane in range(len(tile)):
                tile[lane, g] = places[g, lane]
    return cells


@njit(**INNER, fastmath=FAST, error_model="numpy")
def fill_cells(table, widths, groups, cells):
    """Equal ``cells[:, place]``: the sum of ``table[:, j, code]`` over its columns."""
    strides, starts, origins = groups
    for k in range(len(cells)):
        for g in range(len(starts) - 1):
            group_cells = cells[k, origins[g] : origins[g + 1]]
            group_cells[0] = 0.0
            for j in range(starts[g], starts[g + 1]):
                for code in range(widths[j] - 1, -1, -1):
                    term, first = table[k, j, code], code * strides[j]
                    for place in range(strides[j]):
                        group_cells[first + place] = group_cells[place] + term


@njit(**INNER, fastmath=FAST, error_model="numpy")
def spread_counts(cells, widths, groups, sums):
    """Equal ``sums[j, code]``: the sum of the cells with that code, which it spoils."""
    strides, starts, origins = groups
    sums[:] = 0.0
    for g in range(len(starts) - 1):
        group_cells = cells[origins[g] : origins[g + 1]]
        for j in range(starts[g + 1] - 1, starts[g] - 1, -1):
            for code in range(widths[j]):
                first, total = code * strides[j], sums[j, code]
                for place in range(strides[j]):
                    for k in range(cells.shape[1]):
                        value = group_cells[first + place, k]
                        total[k] += value
                        if code > 0:
                            group_cells[place, k] += value


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
    groups = group_columns(len(X), widths)
    n_groups, n_cells = len(groups[1]) - 1, groups[2][-1]
    cells, columns = np.empty((K, n_cells)), np.arange(len(widths))
    fill_cells(table, widths, groups, cells)
    work = np.empty(LANES), np.empty(LANES)
    places, total = np.zeros((n_groups, LANES), np.int32), np.empty(LANES)
    for first in range(0, len(X), LANES):
        if not place_tile(X, columns, first, widths, groups, work, places):
            return False
        for k in range(K):
            state_cells = cells[k]
            total[:] = 0.0
            for g in range(n_groups):
                row = places[g]
                for lane in range(LANES):
                    total[lane] += state_cells[row[lane]]
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
    groups = group_columns(len(X), widths)
    n_groups, n_cells = len(groups[1]) - 1, groups[2][-1]
    cells, columns = np.zeros((n_cells, K)), np.arange(len(widths))
    work = np.empty(LANES), np.empty(LANES)
    places = np.zeros((n_groups, LANES), np.int32)
    for first in range(0, len(X), LANES):
        if not place_tile(X, columns, first, widths, groups, work, places):
            return False
        for lane in range(min(LANES, len(X) - first)):
            weights = R[first + lane]
            for g in range(n_groups):
                entry = cells[places[g, lane]]
                for k in range(K):
                    entry[k] += weights[k]
    spread_counts(cells, widths, groups, sums)
    return True
