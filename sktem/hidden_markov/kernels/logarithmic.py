"""Recursions with logarithms: Viterbi's, and smoothing where scaling underflows."""

import numpy as np
from numba import njit

from sktem.kernels.options import INNER, OUTER

__all__ = ["smooth", "viterbi"]

#: Rows after which the largest value is subtracted, so that digits are kept.
PERIOD = 64


@njit(**INNER)
def _log_sum(values):
    """Equal ``np.logaddexp.reduce(values)``."""
    largest = -np.inf
    for value in values:
        largest = max(largest, value)
    if largest == -np.inf:
        return largest
    total = 0.0
    for value in values:
        total += np.exp(value - largest)
    return largest + np.log(total)


@njit(**OUTER)
def smooth(L, start, transitions, which, alpha, gamma, factors):
    """Filter and smooth one sequence.

    A row that no state can produce counts as not observed for the probabilities, while
    the log-likelihood is minus infinity. In NumPy, with ``lse`` the logarithm of a sum
    of exponentials: ``alpha[t] = lse(alpha[t - 1][:, None] + log A, axis=0) + L[t]``,
    ``beta[t] = lse(log A + L[t + 1] + beta[t + 1], axis=1)`` and ``gamma =
    softmax(alpha + beta, axis=1)``.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities; rows that no state can produce get zeros.
    start : ndarray of shape (K,)
        Logarithms of the probabilities of the states at the first row.
    transitions : ndarray of shape (m, K, K)
        Logarithms of matrices of probabilities.
    which : ndarray of int of shape (n,) or (0,)
        Matrix that leads from each row to the next; if empty, the first.
    alpha : ndarray of shape (n, K)
        Gets the normalised logarithms of the filtered probabilities.
    gamma : ndarray of shape (n, K)
        Gets the probabilities of the states.
    factors : ndarray of shape (n, K)
        Gets ``v[t]`` with expected transitions ``exp(alpha[t] + log A + v[t + 1])``.

    Returns
    -------
    float
        The log-likelihood.
    """
    n, K = L.shape
    varies = which.shape[0] > 0
    scale = np.empty(n)
    total, work = 0.0, np.empty(K)
    for t in range(n):
        for j in range(K):
            if t == 0:
                alpha[t, j] = start[j]
                continue
            A = transitions[which[t - 1] if varies else 0]
            for i in range(K):
                work[i] = alpha[t - 1, i] + A[i, j]
            alpha[t, j] = _log_sum(work)
        for j in range(K):
            work[j] = alpha[t, j] + L[t, j]
        scale[t] = _log_sum(work)
        total += scale[t]
        if scale[t] == -np.inf:
            L[t] = 0.0
            for j in range(K):
                work[j] = alpha[t, j]
            scale[t] = _log_sum(work)
        for j in range(K):
            alpha[t, j] = work[j] - scale[t]
    beta = np.zeros(K)
    for t in range(n - 1, -1, -1):
        if t < n - 1:
            A = transitions[which[t] if varies else 0]
            for i in range(K):
                for j in range(K):
                    work[j] = A[i, j] + factors[t + 1, j]
                beta[i] = _log_sum(work)
        for j in range(K):
            work[j] = alpha[t, j] + beta[j]
        largest = _log_sum(work)
        for j in range(K):
            gamma[t, j] = np.exp(work[j] - largest)
            factors[t, j] = L[t, j] + beta[j] - scale[t]
    return total


@njit(**OUTER)
def viterbi(L, offsets, start, transitions, which, states, ends, back):
    """Find the most probable states of sequences (Viterbi 1967).

    In NumPy, for one sequence: ``delta[t] = (delta[t - 1][:, None] +
    transitions[which[t - 1]]).max(axis=0) + L[t]`` with ``back[t]`` the argmax, and
    ``states[t - 1] = back[t, states[t]]`` from the argmax of the last row.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    start : ndarray of shape (n_sequences, K) or (1, K)
        Logarithms of the probabilities of the states at first rows.
    transitions : ndarray of shape (m, K, K)
        Logarithms of matrices of probabilities.
    which : ndarray of int of shape (n,) or (0,)
        Matrix that leads from each row to the next; if empty, the first.
    states : ndarray of int64 of shape (n,)
        Gets the states.
    ends : ndarray of shape (n_sequences, K)
        Gets ``delta`` of the last rows: joint log-densities of all rows and the most
        probable states that end in each; zeros of sequences without rows.
    back : ndarray of uint8 or uint16 of shape (longest, K)
        For the states before.
    """
    K = L.shape[1]
    varies = which.shape[0] > 0
    delta, best = np.empty(K), np.empty(K)
    place = np.empty(K, np.int64)
    for s in range(offsets.shape[0] - 1):
        first, stop = offsets[s], offsets[s + 1]
        taken = 0.0
        if first == stop:
            ends[s] = 0.0
            continue
        for j in range(K):
            delta[j] = start[s if start.shape[0] > 1 else 0, j] + L[first, j]
        for t in range(first + 1, stop):
            A = transitions[which[t - 1] if varies else 0]
            for j in range(K):
                best[j] = delta[0] + A[0, j]
                place[j] = 0
            for i in range(1, K):
                value = delta[i]
                for j in range(K):
                    candidate = value + A[i, j]
                    larger = candidate > best[j]
                    best[j] = candidate if larger else best[j]
                    place[j] = i if larger else place[j]
            for j in range(K):
                delta[j] = best[j] + L[t, j]
                back[t - first, j] = place[j]
            if (t - first) % PERIOD == 0:
                largest = delta.max()
                if largest > -np.inf:
                    taken += largest
                    for j in range(K):
                        delta[j] -= largest
        state = 0
        for j in range(1, K):
            if delta[j] > delta[state]:
                state = j
        for j in range(K):
            ends[s, j] = delta[j] + taken
        for t in range(stop - 1, first, -1):
            states[t] = state
            state = back[t - first, state]
        states[first] = state
