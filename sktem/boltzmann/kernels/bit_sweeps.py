"""Gibbs sampling on any graph with states as bits, 32 chains in a word.

The states of a unit and of its neighbours are what a sweep reads, so that on large
graphs its time is that of memory: bits are a thirty-second of it. The odds of a unit
are a product over neighbours that are on, one multiplication each and no exponential.
"""

import numpy as np
from numba import njit

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
_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)
#: Largest odds, either way.
_LARGEST = 2.0 ** float(LARGEST_POWER)


@njit(cache=True, nogil=True)
def pack_states(states, start, stop):
    """Return the states of chains from `start` to `stop` as bits.

    Also return whether all are 0 or 1. Equal to, bit c of word j of a unit being chain
    ``start + 32 * j + c``, ``states[unit, chain] != 0``.
    """
    n_units, width = states.shape[0], stop - start
    n_words = (width + 31) // 32
    words = np.empty((n_units, n_words), np.uint32)
    wrong = _NONE
    for u in range(n_units):
        for j in range(n_words):
            row = states[u, start + 32 * j : min(start + 32 * j + 32, stop)]
            word = _NONE
            if row.shape[0] == 32:
                for c in range(32):
                    word |= _BITS[c] if row[c] != _ZERO else _NONE
                    wrong |= _BITS[c] if row[c] * row[c] != row[c] else _NONE
            else:
                for c in range(row.shape[0]):
                    word |= _BITS[c] if row[c] != _ZERO else _NONE
                    wrong |= _BITS[c] if row[c] * row[c] != row[c] else _NONE
            words[u, j] = word
    return words, wrong == _NONE


@njit(cache=True, nogil=True)
def _unpack(words, states, order, start, stop):
    """Write the bits of the units in `order` back into their states."""
    for position in range(order.shape[0]):
        u = order[position]
        for j in range(words.shape[1]):
            row = states[u, start + 32 * j : min(start + 32 * j + 32, stop)]
            word = words[u, j]
            if row.shape[0] == 32:
                for c in range(32):
                    row[c] = _ONE if word & _BITS[c] != _NONE else _ZERO
            else:
                for c in range(row.shape[0]):
                    row[c] = _ONE if word & _BITS[c] != _NONE else _ZERO


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
    one = start * (f0 if w0 & bit != _NONE else _ONE)
    one *= f1 if w1 & bit != _NONE else _ONE
    two = (f2 if w2 & bit != _NONE else _ONE) * (f3 if w3 & bit != _NONE else _ONE)
    return one * two


@njit(inline="always")
def _drawn(bit, low, high, lane, x):
    """Return the bit with the probability of odds `x` against it, else zero."""
    h = hashed(low, high, lane) + _HALF
    return bit if h + h * x < TWO_24 else _NONE


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def bit_sweeps(
    states, order, indptr, indices, factors, odds, n_sweeps, seed, places, start, stop
):
    """Sweep the chains from `start` to `stop` over the units in `order`, in place.

    As `graph_sweeps.sweeps` without clamps, offsets and means, up to rounding. Return
    False, with nothing changed, if a state is not 0 or 1 or a field may be too large.
    """
    if not _in_range(order, indptr, factors, odds):
        return False
    words, binary = pack_states(states, start, stop)
    if not binary:
        return False
    n_words = words.shape[1]
    lanes = np.zeros((n_words, 32), np.uint32)
    for c in range(stop - start):
        lanes[c // 32, c % 32] = lane_number(places[start + c])
    # The odds against a unit, from all but its last four neighbours.
    product = np.empty((n_words, 32), np.float32)
    for sweep in range(n_sweeps):
        for position in range(order.shape[0]):
            u = order[position]
            low, high = halves(mixed(seed, np.uint64(sweep), np.uint64(u)))
            bias, begin, last = odds[u], indptr[u], indptr[u + 1] - 4
            # Unsigned, so that there is no wrap-around to check; no views of rows,
            # each of which costs as much as the draws of a word.
            for k in range(begin, last, 4):
                f0, f1 = factors[k], factors[k + 1]
                f2, f3 = factors[k + 2], factors[k + 3]
                i0, i1 = np.uint64(indices[k]), np.uint64(indices[k + 1])
                i2, i3 = np.uint64(indices[k + 2]), np.uint64(indices[k + 3])
                for j in range(n_words):
                    w0, w1 = words[i0, j], words[i1, j]
                    w2, w3 = words[i2, j], words[i3, j]
                    if k == begin:
                        for c in range(32):
                            product[j, c] = _four(
                                _BITS[c], bias, w0, w1, w2, w3, f0, f1, f2, f3
                            )
                    else:
                        for c in range(32):
                            product[j, c] = _four(
                                _BITS[c], product[j, c], w0, w1, w2, w3, f0, f1, f2, f3
                            )
            if last < begin:
                for j in range(n_words):
                    word = _NONE
                    for c in range(32):
                        word |= _drawn(_BITS[c], low, high, lanes[j, c], bias)
                    words[u, j] = word
                continue
            f0, f1 = factors[last], factors[last + 1]
            f2, f3 = factors[last + 2], factors[last + 3]
            i0, i1 = np.uint64(indices[last]), np.uint64(indices[last + 1])
            i2, i3 = np.uint64(indices[last + 2]), np.uint64(indices[last + 3])
            for j in range(n_words):
                w0, w1, w2, w3 = words[i0, j], words[i1, j], words[i2, j], words[i3, j]
                word = _NONE
                if last == begin:
                    for c in range(32):
                        x = _four(_BITS[c], bias, w0, w1, w2, w3, f0, f1, f2, f3)
                        word |= _drawn(_BITS[c], low, high, lanes[j, c], x)
                else:
                    for c in range(32):
                        x = product[j, c]
                        x = _four(_BITS[c], x, w0, w1, w2, w3, f0, f1, f2, f3)
                        word |= _drawn(_BITS[c], low, high, lanes[j, c], x)
                words[u, j] = word
    _unpack(words, states, order, start, stop)
    return True


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def bit_means(states, order, indptr, indices, factors, odds, start, stop):
    """Write the probability of each unit in `order` given all others in its place.

    Return False, with nothing changed, as `bit_sweeps` does.
    """
    if not _in_range(order, indptr, factors, odds):
        return False
    words, binary = pack_states(states, start, stop)
    if not binary:
        return False
    for position in range(order.shape[0]):
        u = order[position]
        begin, end = indptr[u], indptr[u + 1]
        for j in range(words.shape[1]):
            row = states[u, start + 32 * j : min(start + 32 * j + 32, stop)]
            for c in range(row.shape[0]):
                row[c] = odds[u]
            for k in range(begin, end, 4):
                f0, f1 = factors[k], factors[k + 1]
                f2, f3 = factors[k + 2], factors[k + 3]
                w0, w1 = words[indices[k], j], words[indices[k + 1], j]
                w2, w3 = words[indices[k + 2], j], words[indices[k + 3], j]
                if row.shape[0] == 32:
                    for c in range(32):
                        row[c] = _four(_BITS[c], row[c], w0, w1, w2, w3, f0, f1, f2, f3)
                else:
                    for c in range(row.shape[0]):
                        row[c] = _four(_BITS[c], row[c], w0, w1, w2, w3, f0, f1, f2, f3)
            for c in range(row.shape[0]):
                row[c] = _ONE / (_ONE + row[c])
    return True
