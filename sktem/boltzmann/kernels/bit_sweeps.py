"""Gibbs sampling on any graph with states as bits, 64 chains in a word.

The states of a unit and of its neighbours are what a sweep reads, so that on large
graphs its time is that of memory: bits are a thirty-second of it. Units with at most
four neighbours are drawn as in `bit_draws`. The odds of others are a product over
neighbours that are on, one multiplication each and no exponential.
"""

import numpy as np
from numba import njit

from sktem.boltzmann.kernels.bit_draws import (
    byte_lane,
    compared,
    fill_table,
    last_bits,
    last_of,
    pattern_of,
)
from sktem.kernels.counter import (
    LARGEST_POWER,
    TWO_24,
    halves,
    hashed,
    lane_number,
    mixed,
)

__all__ = ["bit_means", "bit_sweeps", "pack_states"]

_ONE, _ZERO, _HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)
_NONE = np.uint32(0)
_NOWHERE, _NEXT, _FOUR = np.uint64(0), np.uint64(1), np.uint64(4)
_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)
#: Largest odds, either way.
_LARGEST = 2.0 ** float(LARGEST_POWER)


@njit(cache=True, nogil=True)
def _whole_halves(bits):
    """Return how many times the first chains are 32 bits in a row."""
    return len(bits) // 32 if bits[-1] == len(bits) - 1 else 0


@njit(cache=True, nogil=True)
def pack_states(states, bits, start):
    """Return the states of chains from `start` on as bits.

    Also return whether all are 0 or 1. Equal to, bit b % 64 of word b // 64 of a unit
    being the chain ``start + c`` with ``bits[c] == b``, ``states[unit, chain] != 0``.
    """
    words = np.zeros((states.shape[0], bits[-1] // 64 + 1), np.uint64)
    n_whole = _whole_halves(bits)
    wrong = _NONE
    for u in range(states.shape[0]):
        for h in range(n_whole):
            row, word = states[u, start + 32 * h : start + 32 * h + 32], _NONE
            for c in range(32):
                word |= _BITS[c] if row[c] != _ZERO else _NONE
                wrong |= _BITS[c] if row[c] * row[c] != row[c] else _NONE
            words[u, h >> 1] |= np.uint64(word) << np.uint64((h & 1) << 5)
        for c in range(32 * n_whole, bits.shape[0]):
            state = states[u, start + c]
            bit = np.uint64(state != _ZERO) << np.uint64(bits[c] & 63)
            words[u, bits[c] >> 6] |= bit
            wrong |= np.uint32(state * state != state)
    return words, wrong == _NONE


@njit(cache=True, nogil=True)
def _unpack(words, bits, states, order, start):
    """Write the bits of the units in `order` back into their states."""
    n_whole, parts = _whole_halves(bits), words.view(np.uint32)
    for position in range(order.shape[0]):
        u = order[position]
        for h in range(n_whole):
            row = states[u, start + 32 * h : start + 32 * h + 32]
            word = parts[u, h]
            for c in range(32):
                row[c] = _ONE if word & _BITS[c] != _NONE else _ZERO
        for c in range(32 * n_whole, bits.shape[0]):
            word = words[u, bits[c] >> 6] >> np.uint64(bits[c] & 63)
            states[u, start + c] = np.float32(word & _NEXT)


@njit(cache=True, nogil=True, error_model="numpy")
def _in_range(order, indptr, factors, odds):
    """Return whether no odds, nor a part of their product, can be out of range."""
    for position in range(order.shape[0]):
        u = order[position]
        largest, least = max(odds[u], 1.0), min(odds[u], 1.0)
        for k in range(indptr[u], indptr[u + 1]):
            largest *= max(factors[k], 1.0)
            least *= min(factors[k], 1.0)
        if not largest < _LARGEST * least:
            return False
    return True


@njit(inline="always")
def _four(bit, start, w0, w1, w2, w3, f0, f1, f2, f3):
    """Return `start` times the factors whose words have the bit."""
    left = start * (f0 if w0 & bit != _NONE else _ONE)
    left *= f1 if w1 & bit != _NONE else _ONE
    right = (f2 if w2 & bit != _NONE else _ONE) * (f3 if w3 & bit != _NONE else _ONE)
    return left * right


@njit(inline="always")
def _group(indices, factors, k):
    """Return four neighbours and their factors."""
    k1, k2, k3 = k + _NEXT, k + np.uint64(2), k + np.uint64(3)
    return (
        np.uint64(indices[k]), np.uint64(indices[k1]),
        np.uint64(indices[k2]), np.uint64(indices[k3]),
        factors[k], factors[k1], factors[k2], factors[k3],
    )  # fmt: skip


@njit(inline="always")
def _drawn(bit, low, high, lane, x):
    """Return the bit with the probability of odds `x` against it, else zero."""
    h = hashed(low, high, lane) + _HALF
    return bit if h + h * x < TWO_24 else _NONE


@njit(cache=True, nogil=True)
def _lane_numbers(bits, n_words, start):
    """Return numbers of chains and of groups of four, and which bits are chains."""
    lanes = np.zeros((n_words, 64), np.uint32)
    shared = np.zeros((n_words, 16), np.uint32)
    used = np.zeros(n_words, np.uint64)
    for c in range(bits.shape[0]):
        place, word, bit = start + c, bits[c] // 64, bits[c] % 64
        lanes[word, bit] = lane_number(place)
        shared[word, bit // 4] = byte_lane(place)
        used[word] |= np.uint64(1) << np.uint64(bit)
    return lanes, shared, used


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def bit_sweeps(
    states, order, indptr, indices, factors, odds, n_sweeps, seed, start, stop
):
    """Sweep the chains from `start` to `stop` over the units in `order`, in place.

    As `graph_sweeps.sweeps` without clamps, offsets and means, up to rounding. Return
    False, with nothing changed, if a state is not 0 or 1 or a field may be too large.
    """
    if not _in_range(order, indptr, factors, odds):
        return False
    # A word has the bits of 64 chains, which share their draws.
    bits = np.arange(start & 63, (start & 63) + stop - start)
    words, binary = pack_states(states, bits, start)
    if not binary:
        return False
    n_words, n_halves = words.shape[1], bits[-1] // 32 + 1
    lanes, shared, used = _lane_numbers(bits, n_words, start)
    parts = words.view(np.uint32)
    half_lanes = lanes.reshape(-1, 32)
    table = np.empty((states.shape[0], 16), np.uint8)
    fill_table(table, order, indptr, factors, odds)
    # The odds against a unit, from all but its last four neighbours.
    product = np.empty((n_halves, 32), np.float32)
    for sweep in range(n_sweeps):
        for position in range(order.shape[0]):
            # Unsigned, so that there is no wrap-around to check; no views of rows,
            # each of which costs as much as the draws of a word.
            u = np.uint64(order[position])
            low, high = halves(mixed(seed, np.uint64(sweep), u))
            bias, begin = odds[u], np.uint64(indptr[u])
            last = np.uint64(indptr[u + _NEXT])
            if last <= begin + _FOUR:
                i0 = i1 = i2 = i3 = u
                f0 = f1 = f2 = f3 = _ONE
                if last > begin:
                    i0, i1, i2, i3, f0, f1, f2, f3 = _group(indices, factors, begin)
                for j in range(np.uint64(n_words)):
                    w0, w1 = words[i0, j], words[i1, j]
                    w2, w3 = words[i2, j], words[i3, j]
                    drawn, equal = compared(
                        table, u, shared, j, low, high, w0, w1, w2, w3
                    )
                    equal &= used[j]
                    while equal != _NOWHERE:
                        bit, chain = last_of(equal)
                        equal ^= bit
                        x = bias * (f0 if w0 & bit != _NOWHERE else _ONE)
                        x *= f1 if w1 & bit != _NOWHERE else _ONE
                        x *= f2 if w2 & bit != _NOWHERE else _ONE
                        x *= f3 if w3 & bit != _NOWHERE else _ONE
                        first = table[u, pattern_of(bit, w0, w1, w2, w3)]
                        drawn |= last_bits(bit, x, first, low, high, lanes[j, chain])
                    words[u, j] = drawn
                continue
            last -= _FOUR
            for k in range(begin, last, _FOUR):
                i0, i1, i2, i3, f0, f1, f2, f3 = _group(indices, factors, k)
                for h in range(n_halves):
                    w0, w1 = parts[i0, h], parts[i1, h]
                    w2, w3 = parts[i2, h], parts[i3, h]
                    if k == begin:
                        for c in range(32):
                            product[h, c] = _four(
                                _BITS[c], bias, w0, w1, w2, w3, f0, f1, f2, f3
                            )
                    else:
                        for c in range(32):
                            product[h, c] = _four(
                                _BITS[c], product[h, c], w0, w1, w2, w3, f0, f1, f2, f3
                            )
            i0, i1, i2, i3, f0, f1, f2, f3 = _group(indices, factors, last)
            for h in range(n_halves):
                w0, w1, w2, w3 = parts[i0, h], parts[i1, h], parts[i2, h], parts[i3, h]
                word = _NONE
                for c in range(32):
                    x = product[h, c]
                    x = _four(_BITS[c], x, w0, w1, w2, w3, f0, f1, f2, f3)
                    on = _drawn(_BITS[c], low, high, half_lanes[h, c], x)
                    word = np.uint32(word | on)
                parts[u, h] = word
    _unpack(words, bits, states, order, start)
    return True


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def bit_means(states, order, indptr, indices, factors, odds, start, stop):
    """Write the probability of each unit in `order` given all others in its place.

    Return False, with nothing changed, as `bit_sweeps` does.
    """
    if not _in_range(order, indptr, factors, odds):
        return False
    words, binary = pack_states(states, np.arange(stop - start), start)
    if not binary:
        return False
    parts = words.view(np.uint32)
    for position in range(order.shape[0]):
        u = order[position]
        begin, end = indptr[u], indptr[u + 1]
        for h in range((stop - start + 31) // 32):
            row = states[u, start + 32 * h : min(start + 32 * h + 32, stop)]
            for c in range(row.shape[0]):
                row[c] = odds[u]
            for k in range(np.uint64(begin), np.uint64(end), _FOUR):
                i0, i1, i2, i3, f0, f1, f2, f3 = _group(indices, factors, k)
                w0, w1, w2, w3 = parts[i0, h], parts[i1, h], parts[i2, h], parts[i3, h]
                if row.shape[0] == 32:
                    for c in range(32):
                        row[c] = _four(_BITS[c], row[c], w0, w1, w2, w3, f0, f1, f2, f3)
                else:
                    for c in range(row.shape[0]):
                        row[c] = _four(_BITS[c], row[c], w0, w1, w2, w3, f0, f1, f2, f3)
            for c in range(row.shape[0]):
                row[c] = _ONE / (_ONE + row[c])
    return True
