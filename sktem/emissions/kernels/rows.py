"""Distances of rows to K centres, and weighted moments of rows, by tiles of rows.

A tile holds columns of rows next to each other, so that the innermost loops run over
rows: they are long, whatever the number of states and columns.
"""

import math

import numpy as np
from numba import njit

from sktem.kernels.options import INNER, OUTER

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
FAST = {"contract", "reassoc", "nsz"}


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
    total[:] = 0.0
    for j in range(len(tile)):
        origin, width = mean[j], factor[j]
        row = tile[j]
        if has_holes:
            for lane in range(LANES):
                y = (row[lane] - origin) * width
                total[lane] += 0.0 if math.isnan(y) else y * y
            continue
        for lane in range(LANES):
            y = (row[lane] - origin) * width
            total[lane] += y * y


@njit(**INNER, fastmath=FAST, error_model="numpy")
def moment_tile(tile, w, first_moments, second_moments):
    """Add ``tile @ w`` to the first and ``tile**2 @ w`` to the second moments."""
    for j in range(len(tile)):
        row, first_sum, second_sum = tile[j], 0.0, 0.0
        for lane in range(LANES):
            product = w[lane] * row[lane]
            first_sum += product
            second_sum += product * row[lane]
        first_moments[j] += first_sum
        second_moments[j] += second_sum


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
    tile, shifted = np.empty((d, LANES)), np.empty((d, LANES))
    total, y = np.empty(LANES), np.empty(LANES)
    for first in range(0, X.shape[0], LANES):
        n = _load(X, first, centre, tile)
        for k in range(K):
            for j in range(d):
                mean = means[k, j]
                for lane in range(LANES):
                    shifted[j, lane] = tile[j, lane] - mean
            total[:] = 0.0
            for j in range(d):
                # Four at a time: `y` passes through memory less often.
                y[:] = 0.0
                fours = (j + 1) // 4 * 4
                for i in range(0, fours, 4):
                    f0, f1 = factors[k, i, j], factors[k, i + 1, j]
                    f2, f3 = factors[k, i + 2, j], factors[k, i + 3, j]
                    for lane in range(LANES):
                        sum01 = f0 * shifted[i, lane] + f1 * shifted[i + 1, lane]
                        sum23 = f2 * shifted[i + 2, lane] + f3 * shifted[i + 3, lane]
                        y[lane] += sum01 + sum23
                for i in range(fours, j + 1):
                    factor = factors[k, i, j]
                    for lane in range(LANES):
                        y[lane] += factor * shifted[i, lane]
                for lane in range(LANES):
                    total[lane] += y[lane] * y[lane]
            constant = constants[k]
            for lane in range(n):
                out[first + lane, k] = constant + scale * total[lane]


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
    tile, weights = np.empty((d, LANES)), np.empty((K, LANES))
    product = np.empty(LANES)
    for first in range(0, X.shape[0], LANES):
        n = _load(X, first, centre, tile)
        _load_weights(R, first, n, weights)
        for k in range(K):
            w, total = weights[k], 0.0
            for lane in range(LANES):
                total += w[lane]
            mass[k] += total
            for i in range(d):
                row, first_sum = tile[i], 0.0
                for lane in range(LANES):
                    product[lane] = w[lane] * row[lane]
                    first_sum += product[lane]
                first_moments[k, i] += first_sum
                pairs = i + (d - i) // 2 * 2
                for j in range(i, pairs, 2):
                    second_sum, next_sum = 0.0, 0.0
                    for lane in range(LANES):
                        second_sum += product[lane] * tile[j, lane]
                        next_sum += product[lane] * tile[j + 1, lane]
                    second_moments[k, i, j] += second_sum
                    second_moments[k, i, j + 1] += next_sum
                for j in range(pairs, d):
                    second_sum = 0.0
                    for lane in range(LANES):
                        second_sum += product[lane] * tile[j, lane]
                    second_moments[k, i, j] += second_sum
    for k in range(K):
        for i in range(d):
            for j in range(i):
                second_moments[k, i, j] = second_moments[k, j, i]
