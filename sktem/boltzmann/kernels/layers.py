"""Elementwise loops of layered machines, between their matrix products."""

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
    power_of_two,
)

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_LOG2_E = np.float32(1.4426950408889634)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def draw_units(fields, first, biases, seed, step, places):
    """Replace the fields of the binary units from column `first` on by draws.

    Equal ``fields[:, first:] = (hashed + 0.5) * (1 + np.exp(-(fields[:, first:] +
    biases))) < 2**24``, with the key of (seed, step, places[row]) and the column less
    `first` as the lane.
    """
    n, m = fields.shape[0], fields.shape[1] - first
    lanes = np.empty(m, np.uint32)
    for j in range(m):
        lanes[j] = lane_number(j)
    for i in range(n):
        low, high = halves(mixed(seed, np.uint64(step), np.uint64(places[i])))
        row = fields[i, first:]
        for j in range(m):
            x = (row[j] + biases[j]) * MINUS_LOG2_E
            drawn = (hashed(low, high, lanes[j]) + _HALF) * odds(x) < TWO_24
            row[j] = _ONE if drawn else _ZERO


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def mean_units(fields, biases):
    """Equal ``fields[:] = 1 / (1 + np.exp(-(fields + biases)))``, in float32."""
    for i in range(fields.shape[0]):
        row = fields[i]
        for j in range(fields.shape[1]):
            row[j] = _ONE / odds((row[j] + biases[j]) * MINUS_LOG2_E)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def draw_from_means(out, means, seed, step, places):
    """Equal ``out[:] = hashed + 0.5 < means * 2**24``, keys as in `draw_units`."""
    n, m = means.shape
    lanes = np.empty(m, np.uint32)
    for j in range(m):
        lanes[j] = lane_number(j)
    for i in range(n):
        low, high = halves(mixed(seed, np.uint64(step), np.uint64(places[i])))
        row, target = means[i], out[i]
        for j in range(m):
            drawn = hashed(low, high, lanes[j]) + _HALF < row[j] * TWO_24
            target[j] = _ONE if drawn else _ZERO


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def draw_normals(fields, biases, precisions, seed, step, places):
    """Replace the fields of the Gaussian units, the first columns, by draws.

    Equal ``(fields + biases) / precisions + z / np.sqrt(precisions)`` in the first
    ``len(precisions)`` columns, with z from pairs of hashed uniforms by the transform
    of Box and Muller (1958).
    """
    n, m = fields.shape[0], precisions.shape[0]
    for i in range(n):
        low, high = halves(mixed(seed, np.uint64(step), np.uint64(places[i])))
        for j in range(m):
            # Their lanes are beyond those of any binary unit of the same key.
            lane = lane_number(np.uint32(2147483648) + np.uint32(2 * j))
            other = lane_number(np.uint32(2147483649) + np.uint32(2 * j))
            u = (np.float64(hashed(low, high, lane)) + 0.5) / 16777216.0
            v = np.float64(hashed(low, high, other)) / 16777216.0
            z = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)
            mean = (fields[i, j] + biases[j]) / precisions[j]
            fields[i, j] = mean + z / np.sqrt(precisions[j])


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def softplus_differences(fields, others, old, new):
    """Return how the sum of softplus over units changes from one path point to another.

    `old` and `new` are pairs of factors of `fields` and `others`. Equal
    ``(np.logaddexp(0, new[0] * fields + new[1] * others) - np.logaddexp(0, old[0] *
    fields + old[1] * others)).sum(axis=1)``.
    """
    n, m = fields.shape
    out = np.empty(n)
    a0, a1, b0, b1 = new[0], new[1], old[0], old[1]
    for i in range(n):
        row, other = fields[i], others[i]
        total = 0.0
        linear = _ZERO
        # log(1 + exp(-abs(x))) as the logarithm of products of 16 factors up to 2.
        for begin in range(0, m, 16):
            end = min(begin + 16, m)
            upper, lower = _ONE, _ONE
            for j in range(begin, end):
                a = a0 * row[j] + a1 * other[j]
                b = b0 * row[j] + b1 * other[j]
                linear += max(a, _ZERO) - max(b, _ZERO)
                upper *= _ONE + power_of_two(-abs(a) * _LOG2_E)
                lower *= _ONE + power_of_two(-abs(b) * _LOG2_E)
            total += np.log(np.float64(upper) / np.float64(lower))
        out[i] = total + linear
    return out


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
