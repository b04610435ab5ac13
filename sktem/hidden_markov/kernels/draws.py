"""Draws of the states of sequences, from the last row to the first."""

import numpy as np
from numba import njit

from sktem.kernels.counter_random import stream_key, uniform
from sktem.kernels.options import INNER, OUTER

__all__ = ["sample_states"]


@njit(**INNER)
def _drawn(weights, total, u):
    """Equal ``np.searchsorted(np.cumsum(weights), u * total, side="right")``."""
    target, state, last = u * total, 0, 0
    below = 0.0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            last = k
    for k in range(weights.shape[0]):
        below += weights[k]
        if below > target:
            return min(k, last)
        state = k
    return min(state, last)


@njit(**OUTER)
def sample_states(a, offsets, transitions, which, seed, rows, draw, states):
    """Draw the states of sequences given all their rows, after `forward`.

    In NumPy, from the last row of a sequence on: ``p = a[t]``, times ``transitions[
    which[t], :, states[t + 1]]`` where there is a next row, and ``states[t]`` is drawn
    with probabilities ``p / p.sum()``.

    Parameters
    ----------
    a : ndarray of shape (n, width)
        From `forward`.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    transitions : ndarray of shape (2, m, width, width)
        Matrices of probabilities, and the transposed ones.
    which : ndarray of int of shape (n,) or (0,)
        Matrix that leads from each row to the next; if empty, the first.
    seed : uint64
        Seed.
    rows : ndarray of int64 of shape (n_sequences,)
        Index of each sequence, which has its own random numbers.
    draw : int
        Which of several independent draws.
    states : ndarray of int of shape (n,)
        Gets the states.
    """
    width = a.shape[1]
    varies = which.shape[0] > 0
    weights = np.empty(width)
    for s in range(offsets.shape[0] - 1):
        key = stream_key(np.uint64(seed) + np.uint64(draw), rows[s])
        following = -1
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            total = 0.0
            for k in range(width):
                x = a[t, k]
                if following >= 0:
                    x *= transitions[1, which[t] if varies else 0, following, k]
                weights[k] = x
                total += x
            u = uniform(key, t - offsets[s])
            following = _drawn(weights, total, u)
            states[t] = following
