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

from sktem.mixture.kernels.tiles import FAST, INNER, LANES, WHOLE_GROUPS

# Products are formed this many at a time, and each is used for four components.
N_PRODUCTS = 3


@njit(**INNER, fastmath=FAST)
def add_products(r, n_components, z, scaled, n_lanes, table, products, sums):
    """Add weighted products of columns to flat sums.

    With ``left, right, start, step = table`` equal, for every product f,
    ``sums[start[f] + k * step[f]] += r[k] @ (scaled[left[f]] * z[right[f]])``.
    """
    n_lanes &= WHOLE_GROUPS
    left, right, starts, steps = table[0], table[1], table[2], table[3]
    for f in range(0, table.shape[1], N_PRODUCTS):
        for t in range(N_PRODUCTS):
            target = products[t * LANES : (t + 1) * LANES]
            scaled_column = scaled[left[f + t] * LANES : (left[f + t] + 1) * LANES]
            column = z[right[f + t] * LANES : (right[f + t] + 1) * LANES]
            for lane in range(n_lanes):
                target[lane] = scaled_column[lane] * column[lane]
        i0, i1, i2 = starts[f], starts[f + 1], starts[f + 2]
        d0, d1, d2 = steps[f], steps[f + 1], steps[f + 2]
        for k in range(0, n_components - 3, 4):
            quad = r[k * LANES : (k + 4) * LANES]
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
            j0, j1, j2 = i0 + k * d0, i1 + k * d1, i2 + k * d2
            sums[j0] += s00
            sums[j1] += s01
            sums[j2] += s02
            sums[j0 + d0] += s10
            sums[j1 + d1] += s11
            sums[j2 + d2] += s12
            sums[j0 + 2 * d0] += s20
            sums[j1 + 2 * d1] += s21
            sums[j2 + 2 * d2] += s22
            sums[j0 + 3 * d0] += s30
            sums[j1 + 3 * d1] += s31
            sums[j2 + 3 * d2] += s32
        k = n_components // 4 * 4
        if n_components & 2:
            pair = r[k * LANES : (k + 2) * LANES]
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
            j0, j1, j2 = i0 + k * d0, i1 + k * d1, i2 + k * d2
            sums[j0] += s00
            sums[j1] += s01
            sums[j2] += s02
            sums[j0 + d0] += s10
            sums[j1 + d1] += s11
            sums[j2 + d2] += s12
            k += 2
        if n_components & 1:
            last = r[k * LANES : (k + 1) * LANES]
            s00 = s01 = s02 = 0.0
            for lane in range(n_lanes):
                r0 = last[lane]
                s00 += r0 * products[lane]
                s01 += r0 * products[lane + LANES]
                s02 += r0 * products[lane + 2 * LANES]
            sums[i0 + k * d0] += s00
            sums[i1 + k * d1] += s01
            sums[i2 + k * d2] += s02


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
