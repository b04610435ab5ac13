"""Recursions over segments, in which a state stays for a number of rows.

All are in logarithms. Let ``v(t, d, k)`` be the sum of the log-densities in state k of
d rows that end at row t. Segments last D rows at most.
"""

import numpy as np
from numba import njit

from sktem.kernels.counter_random import stream_key, uniform
from sktem.kernels.options import INNER, OUTER

__all__ = ["backward", "forward", "sample_states", "viterbi"]

#: Terms that are smaller than the largest by more, in logarithms, add nothing.
NEGLIGIBLE = 60.0


@njit(**INNER)
def _log_sum(values, n):
    """Equal ``np.logaddexp.reduce(values[:n])``."""
    largest = -np.inf
    for i in range(n):
        largest = max(largest, values[i])
    if largest == -np.inf:
        return largest
    total = 0.0
    for i in range(n):
        if values[i] > largest - NEGLIGIBLE:
            total += np.exp(values[i] - largest)
    return largest + np.log(total)


@njit(**INNER)
def _ending(t, first, k, begin, L, weights, work):
    """Write ``begin[t - d + 1, k] + weights[k, d - 1] + v(t, d, k)``; return how many.

    The number of d at least 1 is limited by the first row and by impossible rows.
    """
    total, n = 0.0, min(weights.shape[1], t - first + 1)
    for i in range(n):
        total += L[t - i, k]
        if total == -np.inf:
            return i
        work[i] = begin[t - i, k] + weights[k, i] + total
    return n


@njit(**OUTER)
def forward(L, offsets, start, transitions, last, durations, begin, end, filtered):
    """Filter segments of sequences.

    In NumPy, for one sequence, with ``lse`` the logarithm of a sum of exponentials:
    ``begin[0] = start``, ``end[t, k] = lse(begin[t - d + 1, k] + durations[k, d - 1] +
    v(t, d, k))`` over d, ``begin[t] = lse(end[t - 1][:, None] + transitions, axis=0)``,
    and ``filtered[t]`` is as ``end[t]`` with `last` in place of `durations`.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    start : ndarray of shape (K,)
        Logarithms of the probabilities of first states.
    transitions : ndarray of shape (K, K)
        Logarithms of the probabilities of next states.
    last, durations : ndarray of shape (K, D)
        Logarithms of the probabilities of at least, and of just, 1 to D rows.
    begin, end : ndarray of shape (n, K)
        Get logarithms of joint probabilities of the rows before, and so far, with a
        segment of each state that begins, or ends, at the row.
    filtered : ndarray of shape (n, K) or (n_sequences, K)
        Gets joint log-densities of the rows so far with the state, or of all rows.
    """
    K, D = durations.shape
    work, states = np.empty(D), np.empty(K)
    always = filtered.shape[0] == L.shape[0]
    for s in range(offsets.shape[0] - 1):
        first, stop = offsets[s], offsets[s + 1]
        for t in range(first, stop):
            for k in range(K):
                if t == first:
                    begin[t, k] = start[k]
                    continue
                for i in range(K):
                    states[i] = end[t - 1, i] + transitions[i, k]
                begin[t, k] = _log_sum(states, K)
            for k in range(K):
                n = _ending(t, first, k, begin, L, durations, work)
                end[t, k] = _log_sum(work, n)
                if always or t == stop - 1:
                    n = _ending(t, first, k, begin, L, last, work)
                    filtered[t if always else s, k] = _log_sum(work, n)


@njit(**OUTER)
def backward(
    L, offsets, transitions, last, durations, begin, end, totals, gamma, counts
):
    """Smooth segments of sequences, after `forward`.

    In NumPy, for one sequence of n rows, with ``f[t] = lse(transitions + g[t + 1],
    axis=1)``: ``g[t, k]`` is the lse of ``durations[k, d - 1] + v(s, d, k) + f[s, k]``,
    where ``s = t + d - 1``, over ``d < n - t``, and of ``last[k, n - t - 1] + v(n - 1,
    n - t, k)``, the segment that the end of the sequence cuts. A segment begins at row
    t with the probability ``exp(begin[t, k] + g[t, k] - total)`` and ends there with
    ``exp(end[t, k] + f[t, k] - total)``; `gamma` is the sum of the first so far, less
    that of the second before.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    transitions : ndarray of shape (K, K)
        Logarithms of the probabilities of next states.
    last, durations : ndarray of shape (K, D)
        As of `forward`.
    begin, end : ndarray of shape (n, K)
        From `forward`; `begin` gets ``g``.
    totals : ndarray of shape (n_sequences,)
        Log-likelihoods; sequences with minus infinity are left out.
    gamma : ndarray of shape (n, K)
        Gets the probabilities of the states.
    counts : ndarray of shape (n_sequences, K, K + D)
        Gets expected transitions between segments, and numbers of segments by duration;
        what is cut by the end has the distribution of durations that are not shorter.
    """
    K, D = durations.shape
    work, states = np.empty(D), np.empty(K)
    follows = np.empty(L.shape)
    for s in range(offsets.shape[0] - 1):
        first, stop, total = offsets[s], offsets[s + 1], totals[s]
        if total == -np.inf:
            continue
        for t in range(stop - 1, first - 1, -1):
            for i in range(K):
                if t == stop - 1:
                    break
                for j in range(K):
                    states[j] = transitions[i, j] + begin[t + 1, j]
                    counts[s, i, j] += np.exp(end[t, i] + states[j] - total)
                follows[t, i] = _log_sum(states, K)
            for k in range(K):
                value, n, cut = 0.0, 0, -np.inf
                for i in range(min(D, stop - t)):
                    value += L[t + i, k]
                    if value == -np.inf:
                        break
                    if i == stop - t - 1:
                        cut = value + last[k, i]
                        break
                    work[i] = value + durations[k, i] + follows[t + i, k]
                    n = i + 1
                base, g = begin[t, k] - total, _log_sum(work, n)
                begin[t, k] = np.logaddexp(g, cut)
                gamma[t, k] = np.exp(base + begin[t, k])
                if base == -np.inf:
                    continue
                for i in range(n):
                    if base + work[i] > -NEGLIGIBLE:
                        counts[s, k, K + i] += np.exp(base + work[i])
                if cut > -np.inf:
                    share = base + cut - last[k, stop - t - 1]
                    for i in range(stop - t - 1, D):
                        counts[s, k, K + i] += np.exp(share + durations[k, i])
        for t in range(first + 1, stop):
            for k in range(K):
                left = np.exp(end[t - 1, k] + follows[t - 1, k] - total)
                gamma[t, k] = max(gamma[t - 1, k] + gamma[t, k] - left, 0.0)


@njit(**OUTER)
def viterbi(L, offsets, start, transitions, last, durations, states, scores):
    """Find the most probable segments of sequences.

    In NumPy, as `forward` with largest values in place of sums; what leads to them is
    kept, and followed back from the largest of ``filtered`` at the last row.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    start : ndarray of shape (K,)
        Logarithms of the probabilities of first states.
    transitions : ndarray of shape (K, K)
        Logarithms of the probabilities of next states.
    last, durations : ndarray of shape (K, D)
        As of `forward`.
    states : ndarray of int of shape (n,)
        Gets the states.
    scores : ndarray of shape (n_sequences,)
        Gets the joint log-densities.
    """
    K, D = durations.shape
    n = L.shape[0]
    work, begin, end = np.empty(D), np.empty((n, K)), np.empty((n, K))
    lasting, before = np.empty((n, K), np.int64), np.zeros((n, K), np.int64)
    for s in range(offsets.shape[0] - 1):
        first, stop = offsets[s], offsets[s + 1]
        scores[s] = 0.0
        if first == stop:
            continue
        for t in range(first, stop):
            for k in range(K):
                begin[t, k] = start[k] if t == first else -np.inf
                for i in range(K if t > first else 0):
                    value = end[t - 1, i] + transitions[i, k]
                    if value > begin[t, k]:
                        begin[t, k], before[t, k] = value, i
            weights = last if t == stop - 1 else durations
            for k in range(K):
                end[t, k], lasting[t, k] = -np.inf, 1
                for i in range(_ending(t, first, k, begin, L, weights, work)):
                    if work[i] > end[t, k]:
                        end[t, k], lasting[t, k] = work[i], i + 1
        k, t = int(end[stop - 1].argmax()), stop - 1
        scores[s] = end[t, k]
        while t >= first:
            size = lasting[t, k]
            states[t - size + 1 : t + 1] = k
            t -= size
            k = before[t + 1, k]


@njit(**INNER)
def _drawn(values, n, u):
    """Equal ``np.searchsorted(np.cumsum(p), u * p.sum())``, p the exponentials."""
    largest = -np.inf
    for i in range(n):
        largest = max(largest, values[i])
    total = 0.0
    for i in range(n):
        values[i] = np.exp(values[i] - largest) if values[i] > -np.inf else 0.0
        total += values[i]
    below, chosen = 0.0, 0
    for i in range(n):
        below += values[i]
        if values[i] > 0.0:
            chosen = i
            if below > u * total:
                break
    return chosen


@njit(**OUTER)
def sample_states(
    L, offsets, transitions, last, durations, begin, end, seed, rows, draw, states
):
    """Draw the segments of sequences given all their rows, after `forward`.

    In NumPy, from the last row of a sequence on: a state and a duration with the
    probabilities of the terms of ``filtered``; then, at the row before the segment, a
    state k with ``exp(end[t, k] + transitions[k, following])``, and a duration with the
    terms of ``end[t, k]``.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    transitions : ndarray of shape (K, K)
        Logarithms of the probabilities of next states.
    last, durations : ndarray of shape (K, D)
        As of `forward`.
    begin, end : ndarray of shape (n, K)
        From `forward`.
    seed : uint64
        Seed.
    rows : ndarray of int64 of shape (n_sequences,)
        Index of each sequence, which has its own random numbers.
    draw : int
        Which of several independent draws.
    states : ndarray of int of shape (n,)
        Gets the states.
    """
    K, D = durations.shape
    work, choice = np.empty(D), np.empty(K)
    for s in range(offsets.shape[0] - 1):
        key = stream_key(np.uint64(seed) + np.uint64(draw), rows[s])
        first, t, following = offsets[s], offsets[s + 1] - 1, -1
        while t >= first:
            weights = last if following < 0 else durations
            for k in range(K):
                if following < 0:
                    n = _ending(t, first, k, begin, L, weights, work)
                    choice[k] = _log_sum(work, n)
                else:
                    choice[k] = end[t, k] + transitions[k, following]
            k = _drawn(choice, K, uniform(key, 2 * (t - first)))
            n = _ending(t, first, k, begin, L, weights, work)
            size = _drawn(work, n, uniform(key, 2 * (t - first) + 1)) + 1
            states[t - size + 1 : t + 1] = k
            t -= size
            following = k
