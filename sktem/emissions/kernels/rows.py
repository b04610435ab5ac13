"""Distances of rows to K centres, and weighted moments of rows, by tiles of rows.

A tile holds columns of rows next to each other, so that the innermost loops run over
rows: they are long, whatever the number of states and columns.
"""

import math

import numpy as np
from numba import njit

from sktem.kernels.options import INNER, OUTER
from sktem.kernels.vectors import (
    add,
    load,
    multiply,
    scaled,
    shifted,
    store,
    total,
    zeros,
)

__all__ = [
    "diagonal_distances",
    "diagonal_moments",
    "distance_tile",
    "full_distances",
    "full_moments",
    "moment_tile",
]

#: Rows of a tile.
LANES = 128
#: Tuple of as many rows as one register holds, and the registers of a tile.
EIGHT = (0.0,) * 8
GROUPS = LANES // len(EIGHT)
#: Where a cache line begins, in bytes.
LINE = 64
FAST = {"contract", "reassoc", "nsz"}


@njit(**INNER, error_model="numpy")
def _lanes(count):
    """Equal ``np.zeros((count, LANES))``, from the begin of a cache line on."""
    flat = np.zeros(count * LANES + LINE // 8)
    first = (LINE - flat.ctypes.data % LINE) % LINE // 8
    return flat[first : first + count * LANES].reshape(count, LANES)


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _load(X, first, centre, tile):
    """Equal ``tile[:, :m] = (X[first : first + m] - centre).T``, the rest 0."""
    n = min(LANES, X.shape[0] - first)
    for j in range(X.shape[1]):
        origin = centre[j]
        for lane in range(n):
            tile[j, lane] = X[first + lane, j] - origin
        for lane in range(n, LANES):
            tile[j, lane] = 0.0
    return n


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _load_weights(R, first, n, weights):
    """Equal ``weights[:, :n] = R[first : first + n].T``, the rest 0."""
    for k in range(R.shape[1]):
        for lane in range(n):
            weights[k, lane] = R[first + lane, k]
        for lane in range(n, LANES):
            weights[k, lane] = 0.0


@njit(**INNER, fastmath=FAST, error_model="numpy")
def distance_tile(tile, mean, factor, has_holes, total):
    """Equal ``total[:] = (((tile.T - mean) * factor) ** 2).sum(axis=1)``, NaN as 0."""
    if has_holes:
        total[:] = 0.0
        for j in range(len(tile)):
            origin, width, row = mean[j], factor[j], tile[j]
            for lane in range(LANES):
                y = (row[lane] - origin) * width
                total[lane] += 0.0 if math.isnan(y) else y * y
        return
    rows, sums = tile.reshape(-1, len(EIGHT)), total.reshape(-1, len(EIGHT))
    for g in range(0, GROUPS, 2):
        s0 = s1 = zeros(EIGHT)
        for j in range(len(tile)):
            place = j * GROUPS + g
            y0 = scaled(shifted(load(EIGHT, rows, place), mean[j]), factor[j])
            y1 = scaled(shifted(load(EIGHT, rows, place + 1), mean[j]), factor[j])
            s0, s1 = add(s0, multiply(y0, y0)), add(s1, multiply(y1, y1))
        store(sums, g, s0)
        store(sums, g + 1, s1)


@njit(**INNER, fastmath=FAST, error_model="numpy")
def moment_tile(tile, w, first_moments, second_moments):
    """Add ``tile @ w`` to the first and ``tile**2 @ w`` to the second moments."""
    rows, shares = tile.reshape(-1, len(EIGHT)), w.reshape(-1, len(EIGHT))
    # Two columns at a time, the last one twice if their number is odd.
    for i in range(0, len(tile), 2):
        j = min(i + 1, len(tile) - 1)
        a0 = a1 = b0 = b1 = zeros(EIGHT)
        for g in range(GROUPS):
            share = load(EIGHT, shares, g)
            x0, x1 = (
                load(EIGHT, rows, i * GROUPS + g),
                load(EIGHT, rows, j * GROUPS + g),
            )
            p0, p1 = multiply(share, x0), multiply(share, x1)
            a0, a1 = add(a0, p0), add(a1, p1)
            b0, b1 = add(b0, multiply(p0, x0)), add(b1, multiply(p1, x1))
        first_moments[i] += total(a0)
        second_moments[i] += total(b0)
        if j > i:
            first_moments[j] += total(a1)
            second_moments[j] += total(b1)


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def diagonal_distances(X, centre, means, factors, constants, scale, out):
    """Equal ``out[:] = constants + scale * ((z[:, None] - means) * factors)**2``.

    Here z is X - centre; the squares are summed over columns; those of NaN are 0.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    centre : ndarray of shape (d,)
    means, factors : ndarray of shape (K, d)
    constants : ndarray of shape (K,)
    scale : float
    out : ndarray of shape (n, K)
    """
    K, d = means.shape
    tile, total = np.empty((d, LANES)), np.empty(LANES)
    for first in range(0, X.shape[0], LANES):
        n = _load(X, first, centre, tile)
        has_holes = math.isnan(tile.sum())
        for k in range(K):
            distance_tile(tile, means[k], factors[k], has_holes, total)
            constant = constants[k]
            for lane in range(n):
                out[first + lane, k] = constant + scale * total[lane]


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def full_distances(X, centre, means, factors, constants, scale, out):
    """Equal ``out[:, k] = constants[k] + scale * ((z - means[k]) @ factors[k])**2``.

    Here z is X - centre, and the squares are summed over columns.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    centre : ndarray of shape (d,)
    means : ndarray of shape (K, d)
    factors : ndarray of shape (K, d, d)
        Upper triangles.
    constants : ndarray of shape (K,)
    scale : float
    out : ndarray of shape (n, K)
    """
    K, d = means.shape
    tile, shifted, squares = np.empty((d, LANES)), _lanes(d), _lanes(1)
    rows, sums = shifted.reshape(-1, len(EIGHT)), squares.reshape(-1, len(EIGHT))
    for first in range(0, X.shape[0], LANES):
        n = _load(X, first, centre, tile)
        for k in range(K):
            for j in range(d):
                mean = means[k, j]
                for lane in range(LANES):
                    shifted[j, lane] = tile[j, lane] - mean
            # Four registers at a time: a sum need not wait for the one before.
            for g in range(0, GROUPS, 4):
                s0 = s1 = s2 = s3 = zeros(EIGHT)
                for j in range(d):
                    y0 = y1 = y2 = y3 = zeros(EIGHT)
                    for i in range(j + 1):
                        factor, place = factors[k, i, j], i * GROUPS + g
                        y0 = add(y0, scaled(load(EIGHT, rows, place), factor))
                        y1 = add(y1, scaled(load(EIGHT, rows, place + 1), factor))
                        y2 = add(y2, scaled(load(EIGHT, rows, place + 2), factor))
                        y3 = add(y3, scaled(load(EIGHT, rows, place + 3), factor))
                    s0, s1 = add(s0, multiply(y0, y0)), add(s1, multiply(y1, y1))
                    s2, s3 = add(s2, multiply(y2, y2)), add(s3, multiply(y3, y3))
                store(sums, g, s0)
                store(sums, g + 1, s1)
                store(sums, g + 2, s2)
                store(sums, g + 3, s3)
            constant = constants[k]
            for lane in range(n):
                out[first + lane, k] = constant + scale * squares[0, lane]


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def diagonal_moments(X, centre, R, mass, first_moments, second_moments):
    """Equal sums ``R.sum(axis=0)``, ``R.T @ z`` and ``R.T @ z**2`` for z = X - centre.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    centre : ndarray of shape (d,)
    R : ndarray of shape (n, K)
    mass : ndarray of shape (K,)
    first_moments, second_moments : ndarray of shape (K, d)
        The sums are added to the three.
    """
    K, d = first_moments.shape
    tile, weights = np.empty((d, LANES)), np.empty((K, LANES))
    for first in range(0, X.shape[0], LANES):
        n = _load(X, first, centre, tile)
        _load_weights(R, first, n, weights)
        for k in range(K):
            w, total = weights[k], 0.0
            for lane in range(LANES):
                total += w[lane]
            mass[k] += total
            moment_tile(tile, w, first_moments[k], second_moments[k])


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _add_pairs(products, tile, d, pairs):
    """Add ``products[:d] @ tile[:d].T`` to the upper triangle of pairs.

    Rows and columns beyond, of which there are up to three, are of no use.
    """
    left = products.reshape(-1, len(EIGHT))
    right = tile.reshape(-1, len(EIGHT))
    for i in range(0, d, 2):
        for j in range(i, d, 4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zeros(EIGHT)
            for g in range(GROUPS):
                p = load(EIGHT, left, i * GROUPS + g)
                q = load(EIGHT, left, (i + 1) * GROUPS + g)
                x = load(EIGHT, right, j * GROUPS + g)
                a0, b0 = add(a0, multiply(p, x)), add(b0, multiply(q, x))
                x = load(EIGHT, right, (j + 1) * GROUPS + g)
                a1, b1 = add(a1, multiply(p, x)), add(b1, multiply(q, x))
                x = load(EIGHT, right, (j + 2) * GROUPS + g)
                a2, b2 = add(a2, multiply(p, x)), add(b2, multiply(q, x))
                x = load(EIGHT, right, (j + 3) * GROUPS + g)
                a3, b3 = add(a3, multiply(p, x)), add(b3, multiply(q, x))
            for row, sums in ((i, (a0, a1, a2, a3)), (i + 1, (b0, b1, b2, b3))):
                pairs[row, j] += total(sums[0])
                pairs[row, j + 1] += total(sums[1])
                pairs[row, j + 2] += total(sums[2])
                pairs[row, j + 3] += total(sums[3])


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def full_moments(X, centre, R, mass, first_moments, second_moments):
    """Equal sums ``R.sum(axis=0)``, ``R.T @ z`` and ``(R[:, k, None] * z).T @ z``.

    Here z is X - centre.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    centre : ndarray of shape (d,)
    R : ndarray of shape (n, K)
    mass : ndarray of shape (K,)
    first_moments : ndarray of shape (K, d)
    second_moments : ndarray of shape (K, d, d)
        The sums are added to the three.
    """
    K, d = first_moments.shape
    # Zeros, to whole blocks of pairs.
    tile, products, weights = _lanes(d + 3), _lanes(d + 1), np.empty((K, LANES))
    pairs = np.zeros((K, d + 1, d + 3))
    for first in range(0, X.shape[0], LANES):
        n = _load(X, first, centre, tile)
        _load_weights(R, first, n, weights)
        for k in range(K):
            w, of_state = weights[k], 0.0
            for lane in range(LANES):
                of_state += w[lane]
            mass[k] += of_state
            for i in range(d):
                of_column = 0.0
                for lane in range(LANES):
                    product = w[lane] * tile[i, lane]
                    products[i, lane] = product
                    of_column += product
                first_moments[k, i] += of_column
            _add_pairs(products, tile, d, pairs[k])
    for k in range(K):
        for i in range(d):
            for j in range(i, d):
                second_moments[k, i, j] += pairs[k, i, j]
                second_moments[k, j, i] = second_moments[k, i, j]
