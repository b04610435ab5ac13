"""Gibbs sampling on graphs of many edges, between matrix products."""

import numpy as np
from numba import njit

from sktem.kernels.counter import (
    MINUS_LOG2_E,
    TWO_24,
    halves,
    hashed,
    lane_number,
    mixed,
    odds,
)

__all__ = ["draw_in_turn", "fill_symmetric"]

_ONE, _ZERO, _HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def draw_in_turn(fields, states, weights, units, seed, sweep, places):
    """Draw some units one after the other, in place.

    `fields`, (n_drawn, n), and `states` are those of the units, the former from all
    other units as they were before the call, and `weights`, (n_drawn, n_drawn), are
    between them. Each draw moves the fields of the units that follow.
    """
    n_drawn, n = fields.shape
    change = np.empty(n, np.float32)
    for i in range(n_drawn):
        field, state = fields[i], states[i]
        low, high = halves(mixed(seed, np.uint64(sweep), np.uint64(units[i])))
        for c in range(n):
            lane = lane_number(places[c])
            h = hashed(low, high, lane) + _HALF
            new = _ONE if h * odds(field[c] * MINUS_LOG2_E) < TWO_24 else _ZERO
            change[c] = new - state[c]
            state[c] = new
        for j in range(i + 1, n_drawn):
            weight, other = weights[i, j], fields[j]
            for c in range(n):
                other[c] += weight * change[c]


@njit(cache=True, nogil=True)
def fill_symmetric(weights, first, second, values):
    """Equal ``weights[first, second] = weights[second, first] = values``."""
    for e in range(first.shape[0]):
        weights[first[e], second[e]] = values[e]
        weights[second[e], first[e]] = values[e]
