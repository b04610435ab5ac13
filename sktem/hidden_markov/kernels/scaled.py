"""Forward and backward recursions with scaled probabilities.

Arrays over states are padded to whole groups of four, so that a loop over a group has a
length that the compiler knows. Let ``p_t = a_{t-1} A / c_{t-1}`` be the prediction of
row t (at the first row of a sequence the start probabilities), ``b_t`` its densities
over the largest of them, ``a_t = p_t * b_t`` and ``c_t = sum(a_t)``. That the division
by ``c_{t-1}`` is done a row later keeps it out of the chain of dependent operations.

Scaled recursions forget a state whose probability is too small for a float. A sequence
in which that could matter is reported as failed, for logarithms to do.
"""

import numpy as np
from numba import njit

from sktem.kernels.exponential import expand_exponent, reduce_exponent
from sktem.kernels.options import INNER, OUTER

__all__ = ["GROUP", "backward", "forward"]

#: States are padded to a multiple of this.
GROUP = 4
#: Scales are not below this, nor are products of them.
SMALLEST, LEAST_PRODUCT = 1e-100, 1e-200
#: A state is lost below a probability of this; and that matters only where the rows
#: that follow are so much likelier from it.
LOST, DECISIVE = 1e-280, 1e250
#: Up to as many states a product with a matrix is faster by its columns.
FEW_STATES = 16
#: Rows whose densities are computed at once, as numbers of states times rows.
TILE = 1024
#: The exponential of this is 0.
SMALLEST_EXPONENT = -745.0
FAST = {"contract", "reassoc", "nsz"}


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _scaled_densities(L, first, last, b, rest, exponent):
    """Equal ``b[:, :K] = np.exp(L - L.max(axis=1))``; return the sum of the maxima."""
    K, width = L.shape[1], b.shape[1]
    total, place = 0.0, 0
    for t in range(first, last):
        largest = L[t, 0]
        for k in range(1, K):
            largest = max(largest, L[t, k])
        total += largest
        for k in range(K):
            rest[place + k] = L[t, k] - largest
        for k in range(K, width):
            rest[place + k] = SMALLEST_EXPONENT
        place += width
    for i in range(place):
        # NaN, the difference of two infinities, becomes the bound.
        x = rest[i]
        rest[i], exponent[i] = reduce_exponent(
            x if x > SMALLEST_EXPONENT else SMALLEST_EXPONENT
        )
    out = b[first:last].reshape(-1)
    for i in range(place):
        out[i] = expand_exponent(rest[i], exponent[i])
    return total


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _times_matrix(x, t, matrices, side, m, factors, f, scale, out, o):
    """Equal ``out[o] = (x[t] @ matrices[side, m]) * factors[f] * scale``.

    The other side has the transposed matrix. Views of rows would have their references
    counted, which takes longer than a product.
    """
    width = x.shape[1]
    if width == 4:
        x0, x1, x2, x3 = x[t, 0], x[t, 1], x[t, 2], x[t, 3]
        for j in range(4):
            y = x0 * matrices[side, m, 0, j] + x1 * matrices[side, m, 1, j]
            y += x2 * matrices[side, m, 2, j] + x3 * matrices[side, m, 3, j]
            out[o, j] = y * (factors[f, j] * scale)
    elif width <= FEW_STATES:
        other = 1 - side
        for j in range(width):
            y = 0.0
            for i in range(width):
                y += x[t, i] * matrices[other, m, j, i]
            out[o, j] = y * (factors[f, j] * scale)
    else:
        for j in range(width):
            out[o, j] = x[t, 0] * matrices[side, m, 0, j]
        for i in range(1, width):
            z = x[t, i]
            for j in range(width):
                out[o, j] += z * matrices[side, m, i, j]
        for j in range(width):
            out[o, j] *= factors[f, j] * scale


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def forward(L, offsets, start, transitions, which, b, a, c, log_likelihood, failed):
    """Filter sequences from their first rows to their last.

    In NumPy, for one sequence, with ``p = start`` at first and then ``(a[t - 1] /
    c[t - 1]) @ transitions[0, which[t - 1]]``: ``b[t] = np.exp(L[t] - L[t].max())``,
    ``a[t] = p * b[t]``, ``c[t] = a[t].sum()``, and the log-likelihood is the sum of
    ``np.log(c[t]) + L[t].max()``.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    start : ndarray of shape (n_sequences, width) or (1, width)
        Probabilities of the states at first rows, padded by 0.
    transitions : ndarray of shape (2, m, width, width)
        Matrices of probabilities, padded by 0, and the transposed ones.
    which : ndarray of int of shape (n,) or (0,)
        Matrix that leads from each row to the next; if empty, the first.
    b, a : ndarray of shape (n, width)
        Get densities and joint probabilities.
    c : ndarray of shape (n,)
        Gets the scales.
    log_likelihood : ndarray of shape (n_sequences,)
        Gets the log-likelihoods.
    failed : ndarray of bool of shape (n_sequences,)
        Gets whether a scale was too small.
    """
    width = a.shape[1]
    varies = which.shape[0] > 0
    rows = max(1, TILE // width)
    rest, exponent = np.empty(rows * width), np.empty(rows * width)
    for s in range(offsets.shape[0] - 1):
        product, value, fails, inverse = 1.0, 0.0, False, 1.0
        computed = offsets[s]
        entry = s if start.shape[0] > 1 else 0
        for t in range(offsets[s], offsets[s + 1]):
            if t == computed:
                computed = min(t + rows, offsets[s + 1])
                value += _scaled_densities(L, t, computed, b, rest, exponent)
            if t == offsets[s]:
                for k in range(width):
                    a[t, k] = start[entry, k] * b[t, k]
            else:
                m = which[t - 1] if varies else 0
                _times_matrix(a, t - 1, transitions, 0, m, b, t, inverse, a, t)
            scale = 0.0
            for k in range(width):
                scale += a[t, k]
            c[t] = scale
            if not scale > SMALLEST:
                fails = True
                break
            inverse = 1.0 / scale
            product *= scale
            if product < LEAST_PRODUCT:
                value += np.log(product)
                product = 1.0
        log_likelihood[s] = value + np.log(product)
        failed[s] = fails


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def backward(b, a, c, offsets, transitions, which, weights, next_row, gamma, failed):
    """Smooth sequences from their last rows to their first, after `forward`.

    In NumPy, for one sequence of weight w and ``beta = np.ones(K)`` at its last row:
    ``gamma[t] = w * a[t] * beta / c[t]``, ``v[t] = b[t] * beta / c[t]``, and then
    ``beta = transitions[0, which[t - 1]] @ v[t]``. Expected transitions with matrix m
    are ``transitions[0, m]`` times the sum of ``np.outer(w * a[t] / c[t], v[t + 1])``
    over the rows with ``which[t] == m``; `a` and `b` get the factors, `a` zeros at last
    rows, from which no transition leads, and all rows of failed sequences.

    Parameters
    ----------
    b, a, c : ndarray
        From `forward`.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    transitions : ndarray of shape (2, m, width, width)
        Matrices of probabilities, and the transposed ones.
    which : ndarray of int of shape (n,) or (0,)
        Matrix that leads from each row to the next; if empty, the first.
    weights : ndarray of shape (n_sequences,) or (0,)
        Weights of the sequences; if empty, ones.
    next_row : ndarray of shape (width,) or (0,)
        v of the row after the last one, where the last sequence continues.
    gamma : ndarray of shape (n, K)
        Gets the weighted probabilities of the states.
    failed : ndarray of bool of shape (n_sequences,)
        Which sequences are left out, and gets those in which a lost state could matter.
    """
    width, K = a.shape[1], gamma.shape[1]
    varies = which.shape[0] > 0
    n_sequences = offsets.shape[0] - 1
    beta, ones = np.ones((1, width)), np.ones((1, width))
    v = np.zeros((1, width))
    for s in range(n_sequences):
        weight = weights[s] if weights.shape[0] > 0 else 1.0
        first, last = offsets[s], offsets[s + 1] - 1
        continues = s == n_sequences - 1 and next_row.shape[0] > 0
        for k in range(width):
            beta[0, k] = 1.0
            v[0, k] = next_row[k] if continues else 0.0
        for t in range(last, first - 1, -1):
            if failed[s]:
                break
            inverse = 1.0 / c[t]
            if t < last or continues:
                m = which[t] if varies else 0
                _times_matrix(v, 0, transitions, 1, m, ones, 0, 1.0, beta, 0)
            largest = 0.0
            share = weight * inverse
            for k in range(width):
                x = a[t, k]
                lost = beta[0, k] if x < LOST else 0.0
                largest = max(largest, lost)
                a[t, k] = x * share
                v[0, k] = b[t, k] * beta[0, k] * inverse
            for k in range(K):
                gamma[t, k] = a[t, k] * beta[0, k]
            for k in range(width):
                b[t, k] = v[0, k]
            if not largest < DECISIVE:
                failed[s] = True
        if failed[s]:
            a[first : last + 1] = 0.0
            b[first : last + 1] = 0.0
        elif not continues and last >= first:
            a[last] = 0.0
