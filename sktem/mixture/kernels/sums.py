"""Weighted sums of products of features over tiles of rows.

Every statistic of a Gaussian mixture is a sum over rows of a responsibility times
a product of two columns of the tile, where a column of ones and a column of
squared lengths stand next to the features. One product of matrices, blocked for
the registers, thus serves all covariance types: a table names the two columns of
each product and where its sums go.
"""

from functools import lru_cache

import numpy as np
from numba import njit

from sktem.mixture.kernels.tiles import FAST, INNER, LANES, PART, WHOLE_GROUPS

# Products are formed this many at a time, and each is used for four components.
N_PRODUCTS = 3


@njit(**PART)
def multiply_columns(scaled, z, left, right, n_lanes, products):
    """Equal ``products[:] = scaled[left] * z[right]``."""
    for t in range(N_PRODUCTS):
        target = products[t * LANES : (t + 1) * LANES]
        scaled_column = scaled[left[t] * LANES : (left[t] + 1) * LANES]
        column = z[right[t] * LANES : (right[t] + 1) * LANES]
        for lane in range(n_lanes):
            target[lane] = scaled_column[lane] * column[lane]


@njit(**PART)
def add_four(quad, n_lanes, products, j, d, sums):
    """Add sums for four components, the first of which are at places j."""
    s00 = s01 = s02 = s10 = s11 = s12 = 0.0
    s20 = s21 = s22 = s30 = s31 = s32 = 0.0
    for lane in range(n_lanes):
        a = products[lane]
        b = products[lane + LANES]
        c = products[lane + 2 * LANES]
        r0 = quad[lane]
        r1 = quad[lane + LANES]
        r2 = quad[lane + 2 * LANES]
        r3 = quad[lane + 3 * LANES]
        s00 += r0 * a
        s01 += r0 * b
        s02 += r0 * c
        s10 += r1 * a
        s11 += r1 * b
        s12 += r1 * c
        s20 += r2 * a
        s21 += r2 * b
        s22 += r2 * c
        s30 += r3 * a
        s31 += r3 * b
        s32 += r3 * c
    sums[j[0]] += s00
    sums[j[1]] += s01
    sums[j[2]] += s02
    sums[j[0] + d[0]] += s10
    sums[j[1] + d[1]] += s11
    sums[j[2] + d[2]] += s12
    sums[j[0] + 2 * d[0]] += s20
    sums[j[1] + 2 * d[1]] += s21
    sums[j[2] + 2 * d[2]] += s22
    sums[j[0] + 3 * d[0]] += s30
    sums[j[1] + 3 * d[1]] += s31
    sums[j[2] + 3 * d[2]] += s32


@njit(**PART)
def add_two(pair, n_lanes, products, j, d, sums):
    """Add sums for two components."""
    s00 = s01 = s02 = s10 = s11 = s12 = 0.0
    for lane in range(n_lanes):
        a = products[lane]
        b = products[lane + LANES]
        c = products[lane + 2 * LANES]
        r0 = pair[lane]
        r1 = pair[lane + LANES]
        s00 += r0 * a
        s01 += r0 * b
        s02 += r0 * c
        s10 += r1 * a
        s11 += r1 * b
        s12 += r1 * c
    sums[j[0]] += s00
    sums[j[1]] += s01
    sums[j[2]] += s02
    sums[j[0] + d[0]] += s10
    sums[j[1] + d[1]] += s11
    sums[j[2] + d[2]] += s12


@njit(**PART)
def add_one(row, n_lanes, products, j, sums):
    """Add sums for one component."""
    s00 = s01 = s02 = 0.0
    for lane in range(n_lanes):
        r0 = row[lane]
        s00 += r0 * products[lane]
        s01 += r0 * products[lane + LANES]
        s02 += r0 * products[lane + 2 * LANES]
    sums[j[0]] += s00
    sums[j[1]] += s01
    sums[j[2]] += s02


@njit(**INNER, fastmath=FAST)
def add_products(r, n_components, z, scaled, n_lanes, table, products, sums):
    """Add weighted products of columns to flat sums.

    With ``left, right, start, step = table`` equal, for every product f,
    ``sums[start[f] + k * step[f]] += r[k] @ (scaled[left[f]] * z[right[f]])``.
    """
    n_lanes &= WHOLE_GROUPS
    left, right, starts, steps = table[0], table[1], table[2], table[3]
    for f in range(0, table.shape[1], N_PRODUCTS):
        multiply_columns(scaled, z, left[f:], right[f:], n_lanes, products)
        first = starts[f], starts[f + 1], starts[f + 2]
        d = steps[f], steps[f + 1], steps[f + 2]
        for k in range(0, n_components - 3, 4):
            j = first[0] + k * d[0], first[1] + k * d[1], first[2] + k * d[2]
            add_four(r[k * LANES : (k + 4) * LANES], n_lanes, products, j, d, sums)
        k = n_components // 4 * 4
        if n_components & 2:
            j = first[0] + k * d[0], first[1] + k * d[1], first[2] + k * d[2]
            add_two(r[k * LANES : (k + 2) * LANES], n_lanes, products, j, d, sums)
            k += 2
        if n_components & 1:
            j = first[0] + k * d[0], first[1] + k * d[1], first[2] + k * d[2]
            add_one(r[k * LANES : (k + 1) * LANES], n_lanes, products, j, sums)


@lru_cache(maxsize=64)
def product_tables(covariance_type, n_components, n_features, width):
    """Return the products whose sums are the statistics of a covariance type.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}
    n_components : int
    n_features : int
    width : int
        Column of the ones; in the next one are squared lengths, or zeros in the
        scaled columns.

    Returns
    -------
    table : ndarray of shape (4, n_products)
        Left and right column of each product that is summed for every component,
        the place of its sum for the first component and the step to the next.
        Their number is made a multiple of three by products that are zero.
    tied_table : ndarray of shape (4, n_tied_products)
        The same for products that are summed over all components.
    """
    ones, length = width, width + 1
    first = range(n_features)
    lower = [(i, j) for i in first for j in range(i + 1)]
    pairs: dict[str, list[tuple[int, int]]] = {
        "full": lower,
        "diag": [(i, i) for i in first],
        "spherical": [(ones, length)],
    }
    second = pairs.get(covariance_type, [])
    start = n_components * (1 + n_features)
    table = [(ones, ones, 0, 1)]
    table += [(i, ones, n_components + i, n_features) for i in first]
    table += [(*pair, start + f, len(second)) for f, pair in enumerate(second)]
    tied = lower if covariance_type == "tied" else []
    tied_table = [(*pair, start + f, 0) for f, pair in enumerate(tied)]
    nothing = (length, 0, 0, 0)
    return tuple(
        np.array(rows + [nothing] * (-len(rows) % N_PRODUCTS), dtype=np.int64)
        .reshape(-1, 4)
        .T.copy()
        for rows in (table, tied_table)
    )
