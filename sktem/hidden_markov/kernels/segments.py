"""Recursions over segments, in which a state stays for a number of rows.

All are in logarithms. Let ``v(t, d, k)`` be the sum of the log-densities in state k of
d rows that end at row t. Segments last D rows at most. Tables of durations have the
shape (1 + m, 2, K, D): those of segments, and then those of the segments with which
sequences begin, of each or of all; of just 1 to D rows, and of at least as many.
"""

import numpy as np
from numba import njit

from sktem.kernels.counter_random import stream_key, uniform
from sktem.kernels.options import INNER, OUTER

__all__ = ["backward", "forward", "trace"]

#: Terms that are smaller than the largest by more, in logarithms, add nothing.
NEGLIGIBLE = 60.0


@njit(**INNER)
def _total(values, n, only_largest):
    """Equal ``np.logaddexp.reduce(values[:n])``, or ``values[:n].max()``."""
    largest = -np.inf
    for i in range(n):
        largest = max(largest, values[i])
    if largest == -np.inf or only_largest:
        return largest
    total = 0.0
    for i in range(n):
        if values[i] > largest - NEGLIGIBLE:
            total += np.exp(values[i] - largest)
    return largest + np.log(total)


@njit(**INNER)
def _table_of(s, tables):
    """Return the index of the table of the first segment of a sequence."""
    return 1 + s if tables.shape[0] > 2 else 1


@njit(**INNER)
def _ending(t, first, k, s, cut, begin, L, tables, work):
    """Write ``begin[t - d + 1, k] + tables[., cut, k, d - 1] + v(t, d, k)``.

    Return the number of d at least 1, which is limited by the first row and by
    impossible rows.
    """
    total, n = 0.0, min(tables.shape[3], t - first + 1)
    for i in range(n):
        total += L[t - i, k]
        if total == -np.inf:
            return i
        entry = _table_of(s, tables) if t - i == first else 0
        work[i] = begin[t - i, k] + tables[entry, cut, k, i] + total
    return n


@njit(**OUTER)
def forward(L, offsets, start, transitions, tables, only_largest, begin, end, filtered):
    """Filter segments of sequences, or find the most probable ones.

    In NumPy, for one sequence, with ``lse`` the logarithm of a sum of exponentials, or
    the largest: ``begin[0] = start``, ``end[t, k] = lse(begin[t - d + 1, k] + tables[.,
    0, k, d - 1] + v(t, d, k))`` over d, ``begin[t] = lse(end[t - 1][:, None] +
    transitions, axis=0)``, and ``filtered[t]`` is as ``end[t]`` with ``tables[., 1]``.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    start : ndarray of shape (n_sequences, K) or (1, K)
        Logarithms of the probabilities of first states.
    transitions : ndarray of shape (K, K)
        Logarithms of the probabilities of next states.
    tables : ndarray of shape (1 + m, 2, K, D)
        Logarithms of the probabilities of durations.
    only_largest : bool
        Whether terms are not added up.
    begin, end : ndarray of shape (n, K)
        Get logarithms of joint probabilities of the rows before, and so far, with a
        segment of each state that begins, or ends, at the row.
    filtered : ndarray of shape (n, K) or (n_sequences, K)
        Gets joint log-densities of the rows so far with the state, or of all rows.
    """
    K, D = tables.shape[2:]
    work, states = np.empty(D), np.empty(K)
    always = filtered.shape[0] == L.shape[0]
    for s in range(offsets.shape[0] - 1):
        first, stop = offsets[s], offsets[s + 1]
        for t in range(first, stop):
            for k in range(K):
                if t == first:
                    begin[t, k] = start[s if start.shape[0] > 1 else 0, k]
                    continue
                for i in range(K):
                    states[i] = end[t - 1, i] + transitions[i, k]
                begin[t, k] = _total(states, K, only_largest)
            for k in range(K):
                n = _ending(t, first, k, s, 0, begin, L, tables, work)
                end[t, k] = _total(work, n, only_largest)
                if always or t == stop - 1:
                    n = _ending(t, first, k, s, 1, begin, L, tables, work)
                    filtered[t if always else s, k] = _total(work, n, only_largest)


@njit(**OUTER)
def backward(L, offsets, transitions, tables, begin, end, totals, gamma, counts):
    """Smooth segments of sequences, after `forward`.

    In NumPy, for one sequence of n rows, with ``f[t] = lse(transitions + g[t + 1],
    axis=1)``: ``g[t, k]`` is the lse of ``tables[., 0, k, d - 1] + v(s, d, k) + f[s,
    k]``, where ``s = t + d - 1``, over ``d < n - t``, and of ``tables[., 1, k, n - t -
    1] + v(n - 1, n - t, k)``, the segment that the end of the sequence cuts. A segment
    begins at row t with the probability ``exp(begin[t, k] + g[t, k] - total)`` and ends
    there with ``exp(end[t, k] + f[t, k] - total)``; `gamma` is the sum of the first so
    far, less that of the second before.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    transitions : ndarray of shape (K, K)
        Logarithms of the probabilities of next states.
    tables : ndarray of shape (1 + m, 2, K, D)
        As of `forward`.
    begin, end : ndarray of shape (n, K)
        From `forward`; `begin` gets ``g``.
    totals : ndarray of shape (n_sequences,)
        Log-likelihoods; sequences with minus infinity are left out.
    gamma : ndarray of shape (n, K)
        Gets the probabilities of the states.
    counts : ndarray of shape (n_sequences, K, K + 2 * D)
        Gets expected transitions between segments, and numbers by duration of segments
        that begin after the first row, and at it; what is cut by the end has the
        distribution of durations that are not shorter.
    """
    K, D = tables.shape[2:]
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
                follows[t, i] = _total(states, K, False)
            entry, place = (_table_of(s, tables), K + D) if t == first else (0, K)
            for k in range(K):
                value, n, cut = 0.0, 0, -np.inf
                for i in range(min(D, stop - t)):
                    value += L[t + i, k]
                    if value == -np.inf:
                        break
                    if i == stop - t - 1:
                        cut = value + tables[entry, 1, k, i]
                        break
                    work[i] = value + tables[entry, 0, k, i] + follows[t + i, k]
                    n = i + 1
                base, g = begin[t, k] - total, _total(work, n, False)
                begin[t, k] = np.logaddexp(g, cut)
                gamma[t, k] = np.exp(base + begin[t, k])
                if base == -np.inf:
                    continue
                for i in range(n):
                    if base + work[i] > -NEGLIGIBLE:
                        counts[s, k, place + i] += np.exp(base + work[i])
                if cut > -np.inf:
                    share = base + cut - tables[entry, 1, k, stop - t - 1]
                    for i in range(stop - t - 1, D):
                        share_of = share + tables[entry, 0, k, i]
                        counts[s, k, place + i] += np.exp(share_of)
        for t in range(first + 1, stop):
            for k in range(K):
                left = np.exp(end[t - 1, k] + follows[t - 1, k] - total)
                gamma[t, k] = max(gamma[t - 1, k] + gamma[t, k] - left, 0.0)


@njit(**INNER)
def _chosen(values, n, u):
    """Equal ``np.searchsorted(np.cumsum(p), u * p.sum())``, p the exponentials.

    With u negative the first of the largest.
    """
    largest, chosen = -np.inf, 0
    for i in range(n):
        if values[i] > largest:
            largest, chosen = values[i], i
    if u < 0.0:
        return chosen
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
def trace(L, offsets, transitions, tables, begin, end, seed, rows, draw, states):
    """Draw the segments of sequences given all their rows, or find the most probable.

    In NumPy, after `forward`, from the last row of a sequence on: a state and a
    duration with the probabilities of the terms of ``filtered``; then, at the row
    before the segment, a state k with ``exp(end[t, k] + transitions[k, following])``,
    and a duration with the terms of ``end[t, k]``.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities of the rows.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    transitions : ndarray of shape (K, K)
        Logarithms of the probabilities of next states.
    tables : ndarray of shape (1 + m, 2, K, D)
        As of `forward`.
    begin, end : ndarray of shape (n, K)
        From `forward`.
    seed : uint64
        Seed.
    rows : ndarray of int64 of shape (n_sequences,)
        Index of each sequence, which has its own random numbers.
    draw : int
        Which of several independent draws; -1 of the most probable segments, after
        `forward` with ``only_largest``.
    states : ndarray of int of shape (n,)
        Gets the states.
    """
    K, D = tables.shape[2:]
    work, choice, u = np.empty(D), np.empty(K), -1.0
    for s in range(offsets.shape[0] - 1):
        key = stream_key(np.uint64(seed) + np.uint64(max(draw, 0)), rows[s])
        first, t, following = offsets[s], offsets[s + 1] - 1, -1
        while t >= first:
            cut = 1 if following < 0 else 0
            for k in range(K):
                if cut:
                    n = _ending(t, first, k, s, cut, begin, L, tables, work)
                    choice[k] = _total(work, n, draw < 0)
                else:
                    choice[k] = end[t, k] + transitions[k, following]
            if draw >= 0:
                u = uniform(key, 2 * (t - first))
            k = _chosen(choice, K, u)
            n = _ending(t, first, k, s, cut, begin, L, tables, work)
            if draw >= 0:
                u = uniform(key, 2 * (t - first) + 1)
            size = _chosen(work, n, u) + 1
            states[t - size + 1 : t + 1] = k
            t -= size
            following = k
