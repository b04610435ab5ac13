"""Gaussians on rows with holes, where few rows have the same columns.

The states are the innermost axis of every array, so that the loops over them are long
however few rows share a factorisation. Few states have their factors one after the
other, by scalar products of rows of the factor: such short loops over states take two
to six times as long. Groups are those of `sktem.emissions.patterns`: the rows one group
after the other, and where groups start.
"""

import math

import numpy as np
from numba import njit

from sktem.emissions.kernels.rows import FAST
from sktem.kernels.options import INNER, OUTER

__all__ = ["group_distances", "group_expected", "group_means", "group_moments"]

#: Squares of factors are at least this, where rounding leaves nothing of them.
LEAST_SQUARE = 1e-300

#: Loops over states are as fast as those over columns if there are at least this many,
#: and a share of the columns.
MANY_STATES, MANY_BESIDE_COLUMNS = 8, 0.25


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _are_few(K, d):
    """Return whether the states have their factors one after the other."""
    return K < MANY_STATES or K < MANY_BESIDE_COLUMNS * d


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _columns_of(row, observed, holes):
    """Fill the observed and the missing columns of a row, and return their numbers."""
    o = m = 0
    for j in range(len(row)):
        if math.isnan(row[j]):
            holes[m] = j
            m += 1
        else:
            observed[o] = j
            o += 1
    return o, m


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _factor(covariances, observed, o, holes, m, work):
    """Factor the covariances of the observed columns, for all states.

    With L the factor of a state, ``lower`` is L, ``inverse`` the inverse of its
    diagonal, ``slopes`` is ``L^-1 C_oh`` and ``log_dets`` minus the logarithm of the
    determinant of L.
    """
    lower, inverse, slopes, _, _, log_dets, v = work
    K = len(log_dets)
    if _are_few(K, len(observed)):
        for k in range(K):
            own = covariances[:, :, k]
            log_dets[k] = _factor_one(
                own, observed[:o], holes[:m], lower[k], inverse[k], slopes[k]
            )
        return
    log_dets[:] = 0.0
    for i in range(o):
        for j in range(i + 1):
            v[:] = covariances[observed[i], observed[j]]
            for h in range(j):
                left, right = lower[i, h], lower[j, h]
                for k in range(K):
                    v[k] -= left[k] * right[k]
            if j < i:
                for k in range(K):
                    lower[i, j, k] = v[k] * inverse[j, k]
            else:
                for k in range(K):
                    inverse[i, k] = 1.0 / math.sqrt(max(v[k], LEAST_SQUARE))
                    log_dets[k] += math.log(inverse[i, k])
    for column in range(m):
        for i in range(o):
            v[:] = covariances[observed[i], holes[column]]
            for h in range(i):
                left, right = lower[i, h], slopes[h, column]
                for k in range(K):
                    v[k] -= left[k] * right[k]
            for k in range(K):
                slopes[i, column, k] = v[k] * inverse[i, k]


@njit(**INNER, fastmath=FAST, error_model="numpy", forceinline=True)
def _factor_one(covariance, observed, holes, lower, inverse, slopes):
    """Factor the covariance of one state, with slopes by holes, and return log_dets."""
    log_det = 0.0
    for i in range(len(observed)):
        left = lower[i]
        for j in range(i + 1):
            right, value = lower[j], covariance[observed[i], observed[j]]
            for h in range(j):
                value -= left[h] * right[h]
            if j < i:
                left[j] = value * inverse[j]
            else:
                inverse[i] = 1.0 / math.sqrt(max(value, LEAST_SQUARE))
                log_det += math.log(inverse[i])
    for column in range(len(holes)):
        slope = slopes[column]
        for i in range(len(observed)):
            left, value = lower[i], covariance[observed[i], holes[column]]
            for h in range(i):
                value -= left[h] * slope[h]
            slope[i] = value * inverse[i]
    return log_det


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _complete(row, centre, means, observed, o, holes, m, work, squares):
    """Fill squared distances, and the row about the centre with conditional means."""
    lower, inverse, slopes, y, filled, _, v = work
    K = len(squares)
    if _are_few(K, len(row)):
        for k in range(K):
            squares[k] = _complete_one(
                row, centre, means[:, k], observed[:o], holes[:m],
                lower[k], inverse[k], slopes[k], y[k], filled[k],
            )  # fmt: skip
        return
    squares[:] = 0.0
    for i in range(o):
        value = row[observed[i]] - centre[observed[i]]
        filled[observed[i], :] = value
        mean = means[observed[i]]
        for k in range(K):
            v[k] = value - mean[k]
        for h in range(i):
            left, right = lower[i, h], y[h]
            for k in range(K):
                v[k] -= left[k] * right[k]
        for k in range(K):
            y[i, k] = v[k] * inverse[i, k]
            squares[k] += y[i, k] * y[i, k]
    for column in range(m):
        v[:] = means[holes[column]]
        for i in range(o):
            left, right = slopes[i, column], y[i]
            for k in range(K):
                v[k] += left[k] * right[k]
        filled[holes[column], :] = v


@njit(**INNER, fastmath=FAST, error_model="numpy", forceinline=True)
def _complete_one(
    row, centre, mean, observed, holes, lower, inverse, slopes, y, filled
):
    """Fill the row about the centre for one state, and return its squared distance."""
    square = 0.0
    for i in range(len(observed)):
        left, value = lower[i], row[observed[i]] - centre[observed[i]]
        filled[observed[i]] = value
        value -= mean[observed[i]]
        for h in range(i):
            value -= left[h] * y[h]
        y[i] = value * inverse[i]
        square += y[i] * y[i]
    for column in range(len(holes)):
        slope, value = slopes[column], mean[holes[column]]
        for i in range(len(observed)):
            value += slope[i] * y[i]
        filled[holes[column]] = value
    return square


@njit(**INNER, fastmath=FAST, error_model="numpy", forceinline=True)
def _add_row(filled, weights, v, first, second):
    """Add a weighted row to the moments; of the second the lower triangle."""
    K = len(weights)
    if _are_few(K, len(first)):
        for k in range(K):
            weight = weights[k]
            for i in range(filled.shape[1]):
                value = weight * filled[k, i]
                first[i, k] += value
                for j in range(i + 1):
                    second[i, j, k] += value * filled[k, j]
        return
    for i in range(len(filled)):
        for k in range(K):
            v[k] = weights[k] * filled[i, k]
            first[i, k] += v[k]
        for j in range(i + 1):
            other = filled[j]
            for k in range(K):
                second[i, j, k] += v[k] * other[k]


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _add_spreads(covariances, slopes, o, holes, m, mass, v, second):
    """Add the conditional covariances of missing values, times masses."""
    K = len(mass)
    if _are_few(K, len(second)):
        for k in range(K):
            for a in range(m):
                left = slopes[k, a]
                for b in range(a + 1):
                    right, value = slopes[k, b], covariances[holes[a], holes[b], k]
                    for i in range(o):
                        value -= left[i] * right[i]
                    second[holes[a], holes[b], k] += mass[k] * value
        return
    for a in range(m):
        for b in range(a + 1):
            v[:] = covariances[holes[a], holes[b]]
            for i in range(o):
                left, right = slopes[i, a], slopes[i, b]
                for k in range(K):
                    v[k] -= left[k] * right[k]
            for k in range(K):
                second[holes[a], holes[b], k] += mass[k] * v[k]


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _work(d, K):
    """Return arrays for the factors of a group and for a row.

    Few states are the first axis.
    """
    matrices, vectors = ((K, d, d), (K, d)) if _are_few(K, d) else ((d, d, K), (d, K))
    return (
        np.empty(matrices),
        np.empty(vectors),
        np.empty(matrices),
        np.empty(vectors),
        np.empty(vectors),
        np.empty(K),
        np.empty(K),
    )


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _mirror(second):
    """Fill the upper triangle."""
    for i in range(second.shape[0]):
        for j in range(i):
            second[j, i] = second[i, j]


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def group_distances(
    X, rows, starts, centre, means, covariances, squares, log_determinants
):
    """Equal squared distances of the observed values of rows, and log-determinants.

    With o the observed columns of a row and L the lower factor of the covariance
    matrix of these columns, they are ``|L^-1 (x_o - m_o)|^2`` and ``-log det L``.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    rows : ndarray of int
    starts : ndarray of int of shape (n_groups + 1,)
    centre : ndarray of shape (d,)
    means : ndarray of shape (d, K)
        About the centre.
    covariances : ndarray of shape (d, d, K)
    squares, log_determinants : ndarray of shape (n, K)
    """
    d, K = means.shape
    work = _work(d, K)
    observed, holes = np.empty(d, np.int64), np.empty(d, np.int64)
    for group in range(len(starts) - 1):
        o, _ = _columns_of(X[rows[starts[group]]], observed, holes)
        _factor(covariances, observed, o, holes, 0, work)
        for place in range(starts[group], starts[group + 1]):
            row = rows[place]
            _complete(X[row], centre, means, observed, o, holes, 0, work, squares[row])
            log_determinants[row] = work[5]


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def group_means(X, R, rows, starts, centre, means, covariances, out):
    """Equal, in the holes of the rows, the conditional means averaged by R.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    R : ndarray of shape (n, K)
    rows : ndarray of int
    starts : ndarray of int of shape (n_groups + 1,)
    centre : ndarray of shape (d,)
    means : ndarray of shape (d, K)
        About the centre.
    covariances : ndarray of shape (d, d, K)
    out : ndarray of shape (n, d)
        Where the rows are filled.
    """
    d, K = means.shape
    work, squares = _work(d, K), np.empty(K)
    filled = work[4].T if _are_few(K, d) else work[4]
    observed, holes = np.empty(d, np.int64), np.empty(d, np.int64)
    for group in range(len(starts) - 1):
        o, m = _columns_of(X[rows[starts[group]]], observed, holes)
        _factor(covariances, observed, o, holes, m, work)
        for place in range(starts[group], starts[group + 1]):
            row = rows[place]
            _complete(X[row], centre, means, observed, o, holes, m, work, squares)
            for column in range(m):
                hole, total = holes[column], 0.0
                for k in range(K):
                    total += R[row, k] * (filled[hole, k] + centre[hole])
                out[row, hole] = total


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def group_moments(X, R, W, rows, starts, centre, means, covariances, first, second):
    """Equal the sums of ``W z`` and ``W z z' + R C`` over the rows and states.

    Here z is the row about the centre with conditional means in its holes, and C the
    conditional covariance matrix of the holes.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    R, W : ndarray of shape (n, K)
    rows : ndarray of int
    starts : ndarray of int of shape (n_groups + 1,)
    centre : ndarray of shape (d,)
    means : ndarray of shape (d, K)
        About the centre.
    covariances : ndarray of shape (d, d, K)
    first : ndarray of shape (d, K)
    second : ndarray of shape (d, d, K)
        The sums are added to the two.
    """
    d, K = means.shape
    work = _work(d, K)
    mass, squares = np.empty(K), np.empty(K)
    observed, holes = np.empty(d, np.int64), np.empty(d, np.int64)
    for group in range(len(starts) - 1):
        o, m = _columns_of(X[rows[starts[group]]], observed, holes)
        _factor(covariances, observed, o, holes, m, work)
        mass[:] = 0.0
        for place in range(starts[group], starts[group + 1]):
            row = rows[place]
            _complete(X[row], centre, means, observed, o, holes, m, work, squares)
            _add_row(work[4], W[row], work[6], first, second)
            for k in range(K):
                mass[k] += R[row, k]
        _add_spreads(covariances, work[2], o, holes, m, mass, work[6], second)
    _mirror(second)


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def group_expected(
    X, weights, rows, starts, log_weights, centre, means, covariances, sums
):
    """Equal the sum of ``w log p(x_o)``, and add masses and moments to the sums.

    Those are of `group_moments` for ``R = W = w r``, with the posterior probabilities
    r of the states of a row.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n,)
    rows : ndarray of int
    starts : ndarray of int of shape (n_groups + 1,)
    log_weights : ndarray of shape (K,)
    centre : ndarray of shape (d,)
    means : ndarray of shape (d, K)
        About the centre.
    covariances : ndarray of shape (d, d, K)
    sums : tuple of ndarray of shape (K,), (d, K) and (d, d, K)
    """
    d, K = means.shape
    total, first, second = sums
    work = _work(d, K)
    mass, joint = np.empty(K), np.empty(K)
    observed, holes = np.empty(d, np.int64), np.empty(d, np.int64)
    value = 0.0
    for group in range(len(starts) - 1):
        o, m = _columns_of(X[rows[starts[group]]], observed, holes)
        _factor(covariances, observed, o, holes, m, work)
        constant = 0.5 * o * math.log(2 * math.pi)
        mass[:] = 0.0
        for place in range(starts[group], starts[group + 1]):
            row = rows[place]
            _complete(X[row], centre, means, observed, o, holes, m, work, joint)
            for k in range(K):
                joint[k] = log_weights[k] + work[5][k] - constant - 0.5 * joint[k]
            largest = joint.max()
            scale = 0.0
            for k in range(K):
                joint[k] = math.exp(joint[k] - largest)
                scale += joint[k]
            weight = weights[row]
            value += weight * (largest + math.log(scale))
            for k in range(K):
                joint[k] *= weight / scale
                mass[k] += joint[k]
            _add_row(work[4], joint, work[6], first, second)
        _add_spreads(covariances, work[2], o, holes, m, mass, work[6], second)
        total += mass
    _mirror(second)
    return value
