"""Draws that are a pure function of a counter, and float32 functions that use them.

A draw is a hash of (seed, step, lane group, lane), so that it does not depend on the
order of the work or the number of threads. All is plain 32-bit arithmetic without
branches, which the compiler turns into vector instructions.
"""

import numpy as np
from numba import njit

from sktem.kernels.options import INNER

_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_GROUP = np.uint64(0xD1342543DE82EF95)
_LOW = np.uint64(0xFFFFFFFF)
_S30, _S27, _S31, _S32 = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32))

_LANE = np.uint32(0x9E3779B1)
#: The factors of the hash.
FIRST, LAST = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_S8, _S15, _S16 = np.uint32(8), np.uint32(15), np.uint32(16)
_BYTE = np.uint32(255)

_ROUNDER = np.float32(12582912.0)  # 1.5 * 2**23: added to x, it rounds x
_ONE = np.float32(1.0)
_C1 = np.float32(0.6931469775965884)
_C2 = np.float32(0.24022242081843204)
_C3 = np.float32(0.05550733745645925)
_C4 = np.float32(0.009671512862184165)
_C5 = np.float32(0.0013264727080046848)
_MANTISSA_BITS = np.int32(23)

#: A field times this is what `odds` takes.
MINUS_LOG2_E = np.float32(-1.4426950408889634)
#: The bound of the exponents of `power_of_two`.
LARGEST_POWER = np.float32(115.0)
#: An integer of `hashed` is below this.
TWO_24 = np.float32(2.0**24)


@njit(**INNER)
def mixed(seed, step, group):
    """Equal the splitmix64 finaliser of ``seed + step * _STEP + group * _GROUP``.

    All are uint64, with wrap-around.
    """
    z = seed + step * _STEP + group * _GROUP
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True)
def halves(key):
    """Equal ``np.uint32(key), np.uint32(key >> 32)``."""
    return np.uint32(key & _LOW), np.uint32(key >> _S32)


@njit(cache=True, nogil=True)
def lane_number(lane):
    """Equal ``np.uint32(lane) * np.uint32(0x9E3779B1)``, with wrap-around."""
    return np.uint32(np.uint32(lane) * _LANE)


@njit(cache=True, nogil=True)
def _hashed_bits(low, high, lane):
    """Return `hashed` before its last shift."""
    x = np.uint32(lane + low)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> _S16)) * FIRST)
    x = np.uint32(x ^ high)
    return np.uint32(np.uint32(x ^ np.uint32(x >> _S15)) * LAST)


@njit(cache=True, nogil=True)
def hashed(low, high, lane):
    """Return a whole number below 2**24, as float32, from a key and a `lane_number`.

    Equal to, with uint32 wrap-around, ``x = lane + low``, ``x = (x ^ x >> 16) *
    0x7FEB352D ^ high``, ``x = (x ^ x >> 15) * 0x846CA68B`` and ``x >> 8``.
    """
    x = _hashed_bits(low, high, lane)
    return np.float32(np.int32(np.uint32(x >> _S8)))


@njit(cache=True, nogil=True)
def hashed_byte(low, high, lane, shift):
    """Return a byte of a hash, as float32, from a key and a `lane_number`.

    Equal to, x being that of `hashed`, ``(x ^ x >> 16) >> shift & 255``.
    """
    x = _hashed_bits(low, high, lane)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> _S16)) >> shift)
    return np.float32(np.int32(np.uint32(x & _BYTE)))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def power_of_two(x):
    """Equal ``2.0 ** np.clip(x, -115, 115)`` in float32, to 2e-7 relative."""
    x = x if x < LARGEST_POWER else LARGEST_POWER
    x = x if x > -LARGEST_POWER else -LARGEST_POWER
    shifted = x + _ROUNDER
    r = x - (shifted - _ROUNDER)
    square = r * r
    # Minimax polynomial on abs(r) <= 1/2, in pairs.
    g = (_ONE + _C1 * r) + square * ((_C2 + _C3 * r) + square * (_C4 + _C5 * r))
    more = np.int32(np.int32(np.float32(shifted).view(np.int32)) << _MANTISSA_BITS)
    bits = np.int32(np.float32(g).view(np.int32)) + more
    return np.int32(bits).view(np.float32)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def odds(x):
    """Equal ``1 + 2.0 ** x``: one over the probability, for x = -field * log2(e)."""
    return _ONE + power_of_two(x)
