"""Transitions to each row by logits: probabilities, and derivatives for M-steps."""

import numpy as np
from numba import njit

from sktem.kernels.exponential import expand_exponent, reduce_exponent
from sktem.kernels.options import OUTER

__all__ = ["derivatives", "probabilities", "row_transitions"]

#: Exponentials that are computed at once.
TILE = 1024
#: The exponential of this is 0.
SMALLEST_EXPONENT = -745.0
FAST = {"contract"}


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def probabilities(Z, slopes, logs, out):
    """Fill in the probabilities of the transitions to each row.

    In NumPy: ``out[0, :, :K, :K] = softmax((Z @ slopes).reshape(n, K, K) + logs,
    axis=2)``, and ``out[1]`` the transposes.

    Parameters
    ----------
    Z : ndarray of shape (n, p)
        Covariates.
    slopes : ndarray of shape (p, K * K)
        What they add to the logarithms.
    logs : ndarray of shape (K, K)
        Logarithms of the probabilities without covariates.
    out : ndarray of shape (2, n, width, width)
        Gets the probabilities; its padding is not written.
    """
    n, K = Z.shape[0], logs.shape[0]
    constant = logs.copy().reshape(-1)
    rows = max(1, TILE // (K * K))
    rest, exponent = np.empty(rows * K * K), np.empty(rows * K * K)
    for first in range(0, n, rows):
        last, place = min(first + rows, n), 0
        for t in range(first, last):
            for m in range(K * K):
                rest[place + m] = constant[m]
            for a in range(Z.shape[1]):
                z = Z[t, a]
                for m in range(K * K):
                    rest[place + m] += z * slopes[a, m]
            for _ in range(K):
                largest = -np.inf
                for j in range(K):
                    largest = max(largest, rest[place + j])
                for j in range(K):
                    rest[place + j] -= largest
                place += K
        for m in range(place):
            x = rest[m]
            rest[m], exponent[m] = reduce_exponent(
                x if x > SMALLEST_EXPONENT else SMALLEST_EXPONENT
            )
        for m in range(place):
            rest[m] = expand_exponent(rest[m], exponent[m])
        place = 0
        for t in range(first, last):
            for i in range(K):
                total = 0.0
                for j in range(K):
                    total += rest[place + j]
                for j in range(K):
                    share = rest[place + j] / total
                    out[0, t, i, j] = share
                    out[1, t, j, i] = share
                place += K


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def row_transitions(before, after, transitions, which, out):
    """Fill in the expected transitions from each row to the next.

    In NumPy: ``out[:-1] = before[:-1, :K, None] * A[which[:-1]] * after[1:, None, :K]``
    with ``A = transitions[0, :, :K, :K]``, and ``out[-1] = 0``.

    Parameters
    ----------
    before, after : ndarray of shape (n, width)
        Factors, as of ``Smoothed``.
    transitions : ndarray of shape (2, m, width, width)
        Matrices of probabilities.
    which : ndarray of int of shape (n,) or (0,)
        Matrix that leads from each row to the next; if empty, the first.
    out : ndarray of shape (n, K, K)
        Gets the transitions.
    """
    n, K = out.shape[0], out.shape[1]
    for t in range(n - 1):
        m = which[t] if which.shape[0] > 0 else 0
        for i in range(K):
            x = before[t, i]
            for j in range(K):
                out[t, i, j] = x * transitions[0, m, i, j] * after[t + 1, j]
    out[n - 1] = 0.0


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def sequence_transitions(before, after, offsets, transitions, out):
    """Fill in the sums of `row_transitions` over the rows of each sequence.

    There is one matrix of probabilities, and zeros in `before` at last rows.

    Parameters
    ----------
    before, after, transitions
        As of `row_transitions`.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    out : ndarray of shape (n_sequences, K, K)
        Gets the transitions.
    """
    K = out.shape[1]
    out[:] = 0.0
    for s in range(out.shape[0]):
        for t in range(offsets[s], offsets[s + 1] - 1):
            for i in range(K):
                x = before[t, i]
                for j in range(K):
                    out[s, i, j] += x * after[t + 1, j]
        for i in range(K):
            for j in range(K):
                out[s, i, j] *= transitions[0, 0, i, j]


@njit(**OUTER, fastmath=FAST, error_model="numpy")
def derivatives(pairs, p, Z, slopes, curvatures):
    """Add up derivatives of the expected log-probabilities by the coefficients.

    In NumPy, with ``left = pairs.sum(axis=2)`` and ``e = left[:, :, None] * p``:
    ``slopes += Z.T @ (pairs - e).reshape(n, -1)`` and ``curvatures += squares.T @ w``,
    where w are the lower triangles of ``e[:, :, :, None] * (np.eye(K) - p[:, :, None,
    :])`` over the last two axes, and `squares` those of the products of columns of Z.

    Parameters
    ----------
    pairs : ndarray of shape (n, K, K)
        Expected transitions.
    p : ndarray of shape (n, width, width)
        Their probabilities.
    Z : ndarray of shape (n, q)
        Covariates.
    slopes : ndarray of shape (q, K * K)
        Gets first derivatives.
    curvatures : ndarray of shape (q * (q + 1) / 2, K * K * (K + 1) / 2)
        Gets second derivatives with the opposite sign.
    """
    n, K, q = pairs.shape[0], pairs.shape[1], Z.shape[1]
    residuals, weights = np.empty(K * K), np.empty(curvatures.shape[1])
    for t in range(n):
        place = 0
        for i in range(K):
            left = 0.0
            for j in range(K):
                left += pairs[t, i, j]
            for j in range(K):
                expected = left * p[t, i, j]
                residuals[i * K + j] = pairs[t, i, j] - expected
                for h in range(j):
                    weights[place + h] = -expected * p[t, i, h]
                weights[place + j] = expected * (1.0 - p[t, i, j])
                place += j + 1
        pair = 0
        for a in range(q):
            z = Z[t, a]
            for m in range(len(residuals)):
                slopes[a, m] += z * residuals[m]
            for b in range(a + 1):
                square = z * Z[t, b]
                for m in range(len(weights)):
                    curvatures[pair, m] += square * weights[m]
                pair += 1
