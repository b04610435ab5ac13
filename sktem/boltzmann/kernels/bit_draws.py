"""Draws of units with at most four neighbours, for 64 chains at a time.

Such a unit has 16 probabilities, one for each pattern of its neighbours. The first
eight bits of a uniform number decide against most of them: a byte of a hash that four
chains share is compared with the first byte of the probability. The other 24 bits are
drawn for the chains whose bytes are equal only, one in 256. numba's loops would select
among the 16 by floats, so that what is compared is written as instructions for LLVM.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from sktem.kernels.counter import FIRST, LAST, TWO_24, hashed, lane_number

__all__ = ["byte_lane", "compared", "fill_table", "last_bits", "last_of", "pattern_of"]

_BYTES, _CHOSEN = ir.VectorType(ir.IntType(8), 64), ir.VectorType(ir.IntType(1), 64)
_LANES, _LISTED = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(8), 16)
_INDEX = ir.VectorType(ir.IntType(32), 64)
_ONE, _HALF = np.float64(1.0), np.float32(0.5)
_WHOLE, _LARGEST = np.float64(256.0), np.float64(255.0)
_NONE, _NEXT = np.uint64(0), np.uint64(1)


def _same(builder, scalar):
    """Return a vector of 16 lanes that are the same."""
    first = builder.insert_element(_LANES(ir.Undefined), scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(first, _LANES(ir.Undefined), _LANES([0] * 16))


def _hashed_lanes(builder, lanes, low, high):
    """Equal `counter.hashed`, but for its last steps ``x ^ x >> 16`` and all bits."""

    def folded(x, shift):
        return builder.xor(x, builder.lshr(x, _LANES([shift] * 16)))

    x = builder.add(lanes, _same(builder, low))
    x = builder.mul(folded(x, 16), _LANES([int(FIRST)] * 16))
    x = builder.xor(x, _same(builder, high))
    return folded(builder.mul(folded(x, 15), _LANES([int(LAST)] * 16)), 16)


def _row(context, builder, kind, array, row, vector):
    """Return a row of an array in C order, of 16 columns."""
    data = context.make_array(kind)(context, builder, array).data
    place = builder.gep(data, [builder.mul(row, row.type(16))])
    return builder.load(builder.bitcast(place, vector.as_pointer()), align=1)


@intrinsic
def compared(typingctx, table, unit, lanes, group, low, high, w0, w1, w2, w3):
    """Compare random bytes of 64 chains with those of a table, by their patterns.

    The 16 bytes of a unit, 16 `byte_lane` numbers, the halves of a key, and the states
    of four neighbours as words of 64 bits. Equal ``random < table[unit, pattern]`` and
    ``random == table[unit, pattern]``, as words.
    """
    word, index = types.uint64, types.uint64
    kind = types.UniTuple(word, 2)(
        table, index, lanes, index, types.uint32, types.uint32, word, word, word, word
    )

    def generate(context, builder, signature, arguments):
        table, unit, lanes, group, low, high, *words = arguments
        rows = ((table, unit, _LISTED), (lanes, group, _LANES))
        listed, lanes = (
            _row(context, builder, kind, array, row, vector)
            for kind, (array, row, vector) in zip(
                signature.args[:3:2], rows, strict=True
            )
        )
        drawn = builder.bitcast(_hashed_lanes(builder, lanes, low, high), _BYTES)
        values = [
            builder.shuffle_vector(listed, _LISTED(ir.Undefined), _INDEX([k] * 64))
            for k in range(16)
        ]
        for chosen in (builder.bitcast(word, _CHOSEN) for word in words):
            values = [
                builder.select(chosen, values[i + 1], values[i])
                for i in range(0, len(values), 2)
            ]
        flags = [builder.icmp_unsigned(sign, drawn, values[0]) for sign in ("<", "==")]
        flags = [builder.bitcast(which, ir.IntType(64)) for which in flags]
        return context.make_tuple(builder, signature.return_type, flags)

    return kind, generate


@njit(cache=True, nogil=True)
def byte_lane(place):
    """Return the lane whose hash has the bytes of four places from one on."""
    return lane_number(-1 - (place >> 2))


@njit(cache=True, nogil=True, error_model="numpy")
def fill_table(table, order, indptr, factors, odds):
    """Write the first bytes of the probabilities of units with few neighbours."""
    against = np.empty(16, np.float32)
    for position in range(order.shape[0]):
        u = order[position]
        against[:] = odds[u]
        for k in range(indptr[u], indptr[u + 1]):
            bit = k - indptr[u]
            if bit > 3:
                break
            for pattern in range(1 << bit):
                against[pattern + (1 << bit)] = against[pattern] * factors[k]
        row = table[u]
        for pattern in range(16):
            value = _WHOLE / (_ONE + np.float64(against[pattern]))
            row[pattern] = np.uint8(np.int32(min(value, _LARGEST)))


@njit(inline="always")
def last_bits(bit, x, first, low, high, lane):
    """Return the bit if the last bits of its number are below the probability's.

    x is the odds against it, and `first` the first byte of both.
    """
    rest = _WHOLE / (_ONE + np.float64(x)) - np.float64(first)
    return bit if hashed(low, high, lane) + _HALF < rest * TWO_24 else _NONE


@njit(inline="always")
def pattern_of(bit, w0, w1, w2, w3):
    """Return which of four words have a bit, as one number."""
    low_bits = (_NEXT if w0 & bit != _NONE else _NONE) | (
        np.uint64(2) if w1 & bit != _NONE else _NONE
    )
    high_bits = (np.uint64(4) if w2 & bit != _NONE else _NONE) | (
        np.uint64(8) if w3 & bit != _NONE else _NONE
    )
    return low_bits | high_bits


@njit(inline="always")
def last_of(word):
    """Return the lowest bit of a word, and which it is."""
    bit = word & (~word + _NEXT)
    # The exponent of a power of two.
    return bit, (np.float64(bit).view(np.int64) >> 52) - 1023
