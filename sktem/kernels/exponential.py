"""Exponential and logarithm that the compiler can vectorise.

The functions of the C library are opaque calls, one value at a time, and in a
mixture of few features they would cost more than everything else. These here are
plain arithmetic without branches, so a loop over an array fills the SIMD lanes.

None may be compiled with re-association: the reduction of the argument relies
on the order of its roundings. Contraction to fused multiply-add is welcome.
"""

import numpy as np
from numba import njit

# Adding 1.5 * 2**52 rounds a small float to an integer, found in its low bits.
ROUNDER = 6755399441055744.0
LOG2_E = 1.4426950408889634
# log(2) in two parts; the high one has 32 low zero bits: n * LN2_HIGH is exact.
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
_LN2 = 0.6931471805599453
# Minimax polynomial of (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2, in pairs.
COEFFICIENTS = (
    (0.500000000000001, 0.16666666666666421),
    (0.04166666666653482, 0.008333333333490267),
    (0.0013888888942554082, 0.00019841269512713158),
    (2.4801494102868665e-05, 2.7557582796131543e-06),
    (2.762992048767832e-07, 2.5000739892727072e-08),
)
# Below this the exponential is taken as zero, above as that of the bound.
SMALLEST = -708.0
_LARGEST = 709.0
# The same lower bound for the rounded exponent.
_SMALLEST_SHIFTED = ROUNDER - 1022.0

_MANTISSA_BITS = np.int64(52)
# The bits of sqrt(1/2), where the mantissa is made to begin.
_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
# The bits of 2**52 + 2**11: an integer above -2**11 added to them is that float plus
# it.
_BIASED_BITS = np.int64(0x4330000000000800)
_BIASED = 4503599627372544.0


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def reduce_exponent(x):
    """Equal ``n = np.rint(x / log(2))``, then ``x - n * log(2), n + 1.5 * 2**52``."""
    shifted = x * LOG2_E + ROUNDER
    n = shifted - ROUNDER
    r = x - n * LN2_HIGH
    return r - n * LN2_LOW, shifted


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def expand_exponent(r, shifted):
    """Equal ``np.exp(r) * 2.0**n`` with the two that `reduce_exponent` returns.

    The result is 0 where n is below -1021 or NaN.
    """
    # The polynomial in pairs: one chain of ten steps would leave the processor waiting
    # for its end.
    square = r * r
    fourth = square * square
    g01 = COEFFICIENTS[0][0] + COEFFICIENTS[0][1] * r
    g23 = COEFFICIENTS[1][0] + COEFFICIENTS[1][1] * r
    g45 = COEFFICIENTS[2][0] + COEFFICIENTS[2][1] * r
    g67 = COEFFICIENTS[3][0] + COEFFICIENTS[3][1] * r
    g89 = COEFFICIENTS[4][0] + COEFFICIENTS[4][1] * r
    low = g01 + g23 * square
    high = g45 + g67 * square + g89 * fourth
    value = 1.0 + (r + square * (low + high * fourth))
    # Multiply by 2**n: the low bits of `shifted` are n, moved to the exponent.
    bits = np.float64(value).view(np.int64)
    bits += np.float64(shifted).view(np.int64) << _MANTISSA_BITS
    scaled = np.int64(bits).view(np.float64)
    return scaled if shifted > _SMALLEST_SHIFTED else 0.0


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def exponential(x):
    """Equal ``np.exp(np.minimum(x, 709))`` with 0 below -708 and at NaN.

    The error is below 1.1 units in the last place. NaN gives 0 because the callers
    exponentiate differences of log-densities, where NaN stands for the
    difference of two infinities, that is for a component without mass.

    A loop over many values runs faster as two, the first with `reduce_exponent` and
    the second with `expand_exponent`: short loops overlap better.
    """
    r, shifted = reduce_exponent(x if x < _LARGEST else _LARGEST)
    return expand_exponent(r, shifted) if x > SMALLEST else 0.0


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def logarithm(x):
    """Equal ``np.log(x)`` for normal x > 0: neither subnormal nor infinite.

    The error is below 1.3e-16 absolute from 1/2 to 2, and 2 units in the last place
    beyond.
    """
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _SQRT_HALF_BITS) >> _MANTISSA_BITS
    mantissa = np.int64(bits - (exponent << _MANTISSA_BITS)).view(np.float64)
    n = np.int64(exponent + _BIASED_BITS).view(np.float64) - _BIASED
    # log(mantissa) = 2 atanh(s), by an odd minimax polynomial.
    s = (mantissa - 1.0) / (mantissa + 1.0)
    t = s * s
    g = 0.07396053834955872
    g = g * t + 0.07657231895012159
    g = g * t + 0.09091773369105428
    g = g * t + 0.11111099473857562
    g = g * t + 0.14285714369125868
    g = g * t + 0.19999999999718276
    g = g * t + 0.33333333333333653
    return n * _LN2 + (2.0 * s + 2.0 * s * t * g)
