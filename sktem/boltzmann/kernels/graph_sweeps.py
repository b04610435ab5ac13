"""Gibbs sampling and mean field on any graph, with the chains innermost.

States are float32 of shape (n_units, n_chains). The neighbours of a unit come in
groups of four, filled up with weights of zero, so that a group is one pass over the
chains. Units of one colour are independent given the others, and the units are
visited in the order of their colours; any other order is as right.
"""

import numpy as np
from numba import njit

from sktem.boltzmann.kernels.bit_draws import byte_lane
from sktem.kernels.counter import (
    MINUS_LOG2_E,
    TWO_24,
    halves,
    hashed,
    hashed_byte,
    lane_number,
    mixed,
    odds,
)

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def add_field(field, states, unit, indptr, indices, weights, bias):
    """Equal ``field[:] = bias + weights @ states[indices]`` of the unit's groups."""
    width = field.shape[0]
    if indptr[unit] == indptr[unit + 1]:
        for c in range(width):
            field[c] = bias
        return
    start = bias
    for k in range(indptr[unit], indptr[unit + 1], 4):
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        x0 = states[indices[k]]
        x1 = states[indices[k + 1]]
        x2 = states[indices[k + 2]]
        x3 = states[indices[k + 3]]
        if k == indptr[unit]:
            for c in range(width):
                field[c] = start + w0 * x0[c] + w1 * x1[c] + w2 * x2[c] + w3 * x3[c]
        else:
            for c in range(width):
                field[c] += w0 * x0[c] + w1 * x1[c] + w2 * x2[c] + w3 * x3[c]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def first_bytes(first, low, high, lanes, shifts, few):
    """Write 2**24 times the first bytes of the uniform numbers; return their range.

    The draws of a unit with more than four neighbours have none, but 24 bits in all.
    """
    if not few:
        first[:] = _ZERO
        return TWO_24
    for c in range(first.shape[0]):
        first[c] = TWO_24 * hashed_byte(low, high, lanes[c], shifts[c])
    return TWO_24 * np.float32(256.0)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def draw_unit(x, low, high, lanes, first, whole):
    """Equal ``x[:] = (first + hashed(low, high, lanes) + 0.5) * odds(x) < whole``.

    In place: with two names for one array there are no vector instructions.
    """
    for c in range(x.shape[0]):
        drawn = (first[c] + (hashed(low, high, lanes[c]) + _HALF)) * odds(x[c]) < whole
        x[c] = _ONE if drawn else _ZERO


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def mean_unit(x):
    """Equal ``x[:] = 1 / (1 + 2.0**x)``."""
    for c in range(x.shape[0]):
        x[c] = _ONE / odds(x[c])


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def sweeps(
    states,
    clamped,
    offsets,
    offset_scale,
    order,
    indptr,
    indices,
    weights,
    biases,
    n_sweeps,
    means,
    apart,
    seed,
    start,
    stop,
):
    """Sweep the chains from `start` to `stop` over the units in `order`, in place.

    One update equals ``states[u] = draw(biases[u] + weights[u] @ states[neighbours of
    u] + offset_scale * offsets[u])``, with the probability itself in place of a draw
    if `means`. With `apart` each is updated from the states at the beginning, as if it
    were the first one. Where `clamped` is not zero a state stays. `clamped` and
    `offsets` may have no rows, which means none. The draws depend on (seed, sweep,
    unit, chain).
    """
    width = stop - start
    n_units = states.shape[0]
    weights = weights * MINUS_LOG2_E
    biases = biases * MINUS_LOG2_E
    offset_scale = offset_scale * MINUS_LOG2_E
    # A contiguous copy of the block stays in the cache for all sweeps.
    local = np.empty((n_units, width), np.float32)
    for u in range(n_units):
        row, source = local[u], states[u]
        for c in range(width):
            row[c] = source[start + c]
    result = np.empty_like(local) if apart else local
    lanes, shared = np.empty(width, np.uint32), np.empty(width, np.uint32)
    shifts, first = np.empty(width, np.uint32), np.empty(width, np.float32)
    for c in range(width):
        place = start + c
        lanes[c], shared[c] = lane_number(place), byte_lane(place)
        shifts[c] = 8 * (place & 3)
    new = np.empty(width, np.float32)
    masked = clamped.shape[0] > 0
    shifted = offsets.shape[0] > 0
    for sweep in range(n_sweeps):
        for position in range(order.shape[0]):
            u = order[position]
            row = local[u]
            low, high = halves(mixed(seed, np.uint64(sweep), np.uint64(u)))
            add_field(new, local, u, indptr, indices, weights, biases[u])
            if shifted:
                shift = offsets[u]
                for c in range(width):
                    new[c] += offset_scale * shift[start + c]
            if means:
                mean_unit(new)
            else:
                few = indptr[u + 1] <= indptr[u] + 4
                whole = first_bytes(first, low, high, shared, shifts, few)
                draw_unit(new, low, high, lanes, first, whole)
            if masked:
                hold = clamped[u]
                for c in range(width):
                    new[c] = row[c] if hold[start + c] else new[c]
            target = result[u]
            for c in range(width):
                target[c] = new[c]
    for position in range(order.shape[0]):
        u = order[position]
        row, target = result[u], states[u]
        for c in range(width):
            target[start + c] = row[c]


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def pair_sums(states, means, share, first, second, start, stop):
    """Return the sums over chains of units and of the products along edges.

    Equal ``means.sum(axis=1)`` and ``(share * means[first] * states[second] + (1 -
    share) * states[first] * means[second]).sum(axis=1)`` over the chains from `start`
    to `stop`, in float64 across blocks of 64 chains.
    """
    units = np.zeros(states.shape[0])
    edges = np.zeros(first.shape[0])
    for begin in range(start, stop, 64):
        end = min(begin + 64, stop)
        for u in range(states.shape[0]):
            row, total = means[u], _ZERO
            for c in range(begin, end):
                total += row[c]
            units[u] += total
        for e in range(first.shape[0]):
            xi, xj = states[first[e]], states[second[e]]
            pi, pj = means[first[e]], means[second[e]]
            first_mean, second_mean = _ZERO, _ZERO
            for c in range(begin, end):
                first_mean += pi[c] * xj[c]
                second_mean += xi[c] * pj[c]
            edges[e] += share[e] * first_mean + (_ONE - share[e]) * second_mean
    return units, edges


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def log_potentials(states, biases, weights, first, second, start, stop):
    """Equal ``biases @ states + weights @ (states[first] * states[second])``.

    For the chains from `start` to `stop`, in float64.
    """
    total = np.zeros(stop - start)
    for u in range(states.shape[0]):
        row, bias = states[u], biases[u]
        for c in range(start, stop):
            total[c - start] += bias * row[c]
    for e in range(first.shape[0]):
        xi, xj, weight = states[first[e]], states[second[e]], weights[e]
        for c in range(start, stop):
            total[c - start] += weight * (xi[c] * xj[c])
    return total
