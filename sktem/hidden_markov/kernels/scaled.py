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
from sktem.kernels.vectors import (
    counted,
    exponentials,
    largest,
    load,
    multiply,
    scaled,
    shifted,
    store,
    times,
    total,
)

__all__ = ["GROUP", "backward", "forward"]

#: States are padded to a multiple of this.
GROUP = 4
#: Scales are not below this, nor are products of them.
SMALLEST, LEAST_PRODUCT = 1e-100, 1e-200
#: A state is lost below a probability of this; and that matters only where the rows
#: that follow are likelier from it by a factor of at least the second number.
LOST, DECISIVE = 1e-280, 1e250
#: Up to as many states a product with a matrix is faster by its columns.
FEW_STATES = 16
#: Rows whose densities are computed at once, as numbers of states times rows.
TILE = 1024
#: The exponential of this is 0.
SMALLEST_EXPONENT = -745.0
#: Tuples of as many numbers as states, with the padding, that registers hold.
FOUR, EIGHT = (0.0,) * 4, (0.0,) * 8
FAST = {"contract", "reassoc", "nsz"}


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _scaled_densities(L, first, last, b, rest, exponent):
    """Equal ``b[:, :K] = np.exp(L - L.max(axis=1))``; return the sum of the maxima."""
    K, width = L.shape[1], b.shape[1]
    total, place = 0.0, 0
    for t in range(first, last):
        highest = L[t, 0]
        for k in range(1, K):
            highest = max(highest, L[t, k])
        total += highest
        for k in range(K):
            rest[place + k] = L[t, k] - highest
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

    The other side has the transposed matrix, of which rows are summed. Views of rows
    would have their references counted, which takes longer than a product.
    """
    width, other = x.shape[1], 1 - side
    if width <= FEW_STATES:
        for j in range(width):
            y = 0.0
            for i in range(width):
                y += x[t, i] * matrices[other, m, j, i]
            out[o, j] = y * (factors[f, j] * scale)
        return
    for j in range(0, width, GROUP):
        y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0
        for i in range(width):
            z = x[t, i]
            y0 += z * matrices[other, m, j, i]
            y1 += z * matrices[other, m, j + 1, i]
            y2 += z * matrices[other, m, j + 2, i]
            y3 += z * matrices[other, m, j + 3, i]
        out[o, j] = y0 * (factors[f, j] * scale)
        out[o, j + 1] = y1 * (factors[f, j + 1] * scale)
        out[o, j + 2] = y2 * (factors[f, j + 2] * scale)
        out[o, j + 3] = y3 * (factors[f, j + 3] * scale)


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _filter_rows(first, last, b, a, c, transitions, which):
    """Filter rows after the first one, as `forward` says.

    Return the sum of the logarithms of their scales, and whether one was too small.
    """
    width, varies = a.shape[1], which.shape[0] > 0
    product, value, inverse = 1.0, 0.0, 1.0 / c[first - 1]
    for t in range(first, last):
        m = which[t - 1] if varies else 0
        _times_matrix(a, t - 1, transitions, 0, m, b, t, inverse, a, t)
        scale = 0.0
        for k in range(width):
            scale += a[t, k]
        c[t] = scale
        if not scale > SMALLEST:
            return value, True
        inverse = 1.0 / scale
        product *= scale
        if product < LEAST_PRODUCT:
            value += np.log(product)
            product = 1.0
    return value + np.log(product), False


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _filter_few(like, L, first, last, b, a, c, transitions):
    """Equal ``_filter_rows(first, last, b, a, c, transitions, ())``.

    The states of a row, as many as `like` has, are held in a register: a row need not
    wait until the one before has passed through memory. Densities are done here too
    where states have no padding: the processor has time for them while it waits.
    """
    is_whole = L.shape[1] == len(like)
    x = load(like, a, first - 1)
    product, value, inverse = 1.0, 0.0, 1.0 / c[first - 1]
    for t in range(first, last):
        if is_whole:
            logs = load(like, L, t)
            highest = largest(logs)
            value += highest
            density = exponentials(shifted(logs, highest))
            store(b, t, density)
        else:
            density = load(like, b, t)
        x = multiply(times(x, transitions, 0), scaled(density, inverse))
        store(a, t, x)
        scale = total(x)
        c[t] = scale
        if not scale > SMALLEST:
            return value, True
        inverse = 1.0 / scale
        product *= scale
        if product < LEAST_PRODUCT:
            value += np.log(product)
            product = 1.0
    return value + np.log(product), False


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
    width, K = a.shape[1], L.shape[1]
    varies = which.shape[0] > 0
    is_whole = (K == 4 or K == 8) and not varies
    tile = max(1, TILE // width)
    rest, exponent = np.empty(tile * width), np.empty(tile * width)
    rows = max(1, len(L)) if is_whole else tile
    for s in range(offsets.shape[0] - 1):
        value, fails = 0.0, False
        entry = s if start.shape[0] > 1 else 0
        for first in range(offsets[s], offsets[s + 1], rows):
            last = min(first + rows, offsets[s + 1])
            dense = first + 1 if is_whole else last
            value += _scaled_densities(L, first, dense, b, rest, exponent)
            if first == offsets[s]:
                scale = 0.0
                for k in range(width):
                    a[first, k] = start[entry, k] * b[first, k]
                    scale += a[first, k]
                c[first] = scale
                fails = not scale > SMALLEST
                value += np.log(scale)
                first += 1
            if fails:
                break
            if width == 4 and not varies:
                filtered = _filter_few(FOUR, L, first, last, b, a, c, transitions)
            elif width == 8 and not varies:
                filtered = _filter_few(EIGHT, L, first, last, b, a, c, transitions)
            else:
                filtered = _filter_rows(first, last, b, a, c, transitions, which)
            value += filtered[0]
            fails = filtered[1]
        log_likelihood[s] = value
        failed[s] = fails


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _smooth_rows(first, last, beta, b, a, c, transitions, which, weight, gamma):
    """Smooth rows given beta at the last one, as `backward` says; return if it fails.

    Has the room of a row in ``beta[1]``.
    """
    width, K, varies = a.shape[1], gamma.shape[1], which.shape[0] > 0
    fails = False
    for t in range(last, first - 1, -1):
        inverse = 1.0 / c[t]
        share = weight * inverse
        worst = 0.0
        for k in range(width):
            x = a[t, k]
            worst = max(worst, beta[0, k] if x < LOST else 0.0)
            a[t, k] = x * share
            b[t, k] *= beta[0, k] * inverse
        for k in range(K):
            gamma[t, k] = a[t, k] * beta[0, k]
        fails |= not worst < DECISIVE
        if t > first:
            m = which[t - 1] if varies else 0
            beta[1] = 1.0
            _times_matrix(b, t, transitions, 1, m, beta, 1, 1.0, beta, 0)
    return fails


@njit(**INNER, fastmath=FAST, error_model="numpy")
def _smooth_few(like, first, last, beta, b, a, c, transitions, weight, gamma):
    """Equal ``_smooth_rows(first, last, ..., weight, gamma)`` with one matrix.

    As in `_filter_few`, rows have as many states as `like`.
    """
    width, K = len(like), gamma.shape[1]
    x = load(like, beta, 0)
    lost = scaled(x, 0.0)
    for t in range(last, first - 1, -1):
        inverse = 1.0 / c[t]
        y = load(like, a, t)
        lost = counted(lost, y, LOST, x, DECISIVE)
        y = scaled(y, weight * inverse)
        store(a, t, y)
        if K == width:
            store(gamma, t, multiply(y, x))
        else:
            store(beta, 1, multiply(y, x))
            for k in range(K):
                gamma[t, k] = beta[1, k]
        v = multiply(load(like, b, t), scaled(x, inverse))
        store(b, t, v)
        x = times(v, transitions, 1)
    return total(lost) > 0.0


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def backward(b, a, c, offsets, transitions, which, weights, gamma, failed):
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
    gamma : ndarray of shape (n, K)
        Gets the weighted probabilities of the states.
    failed : ndarray of bool of shape (n_sequences,)
        Which sequences are left out, and gets those in which a lost state could matter.
    """
    width, varies = a.shape[1], which.shape[0] > 0
    beta = np.ones((2, width))
    for s in range(offsets.shape[0] - 1):
        weight = weights[s] if weights.shape[0] > 0 else 1.0
        first, last = offsets[s], offsets[s + 1] - 1
        if last < first:
            continue
        beta[:] = 1.0
        if failed[s]:
            pass
        elif width == 4 and not varies:
            failed[s] = _smooth_few(
                FOUR, first, last, beta, b, a, c, transitions, weight, gamma
            )
        elif width == 8 and not varies:
            failed[s] = _smooth_few(
                EIGHT, first, last, beta, b, a, c, transitions, weight, gamma
            )
        else:
            failed[s] = _smooth_rows(
                first, last, beta, b, a, c, transitions, which, weight, gamma
            )
        if failed[s]:
            a[first : last + 1] = 0.0
            b[first : last + 1] = 0.0
        else:
            a[last] = 0.0
