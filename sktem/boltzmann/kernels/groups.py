"""Draws of categorical units, one of each group being 1."""

import numpy as np
from numba import njit

from sktem.kernels.counter import halves, hashed, lane_number, mixed


@njit(cache=True, nogil=True, error_model="numpy")
def draw_groups(fields, starts, biases, seed, step, places):
    """Replace the fields of groups of units by draws of which one is 1.

    Group g has the columns from ``starts[g]`` to ``starts[g + 1]``. Equal
    ``np.searchsorted(np.cumsum(p), u * p.sum())`` with ``p = np.exp(x - x.max())``, x
    the fields plus `biases` and u a hashed uniform, with the key of (seed, step,
    places[row]) and the group as the lane.
    """
    for i in range(fields.shape[0]):
        low, high = halves(mixed(seed, np.uint64(step), np.uint64(places[i])))
        row = fields[i]
        for g in range(len(starts) - 1):
            begin, end = starts[g], starts[g + 1]
            largest = -np.inf
            for j in range(begin, end):
                row[j] += biases[j]
                largest = max(largest, row[j])
            total = 0.0
            for j in range(begin, end):
                total += np.exp(np.float64(row[j]) - largest)
            uniform = np.float64(hashed(low, high, lane_number(g))) + 0.5
            left = uniform / 16777216.0 * total
            chosen = end - 1
            for j in range(begin, end):
                left -= np.exp(np.float64(row[j]) - largest)
                if left < 0.0:
                    chosen = j
                    break
            for j in range(begin, end):
                row[j] = 0.0
            row[chosen] = 1.0
