"""Divided differences of the exponential, also where their arguments meet."""

import math

from numba import njit

from sktem.kernels.exponential import exponential
from sktem.kernels.options import INNER

#: Spread of the exponents below which a series is taken, and its terms.
CLOSE, TERMS = 0.5, 14


@njit(**INNER, error_model="numpy")
def integral(a, t):
    """Equal ``-np.expm1(-a * t) / a``, and t for ``a = 0``."""
    x = a * t
    if x == 0.0:
        return t
    return -math.expm1(-x) / a


@njit(**INNER, error_model="numpy")
def two(a, b, t):
    """Equal ``(np.exp(-a * t) - np.exp(-b * t)) / (b - a)``, also for ``a = b``."""
    return difference(a, b, t, exponential(-a * t), exponential(-b * t))


@njit(**INNER, error_model="numpy")
def difference(a, b, t, of_a, of_b):
    """Equal ``two(a, b, t)``, given the exponentials of ``-a * t`` and ``-b * t``."""
    if abs(b - a) * t > CLOSE:
        return (of_a - of_b) / (b - a)
    return max(of_a, of_b) * integral(abs(b - a), t)


@njit(**INNER, error_model="numpy")
def three(a, b, c, t):
    """Equal ``(two(a, b, t) - two(b, c, t)) / (c - a)``, also where these meet."""
    low, high = min(a, b, c), max(a, b, c)
    middle = a + b + c - low - high
    spread = (high - low) * t
    if spread > CLOSE:
        return (two(low, middle, t) - two(middle, high, t)) / (high - low)
    mean = (a + b + c) / 3.0
    x, y, z = (mean - a) * t, (mean - b) * t, (mean - c) * t
    # Complete homogeneous symmetric polynomials of one, two and three variables.
    single = pair = triple = 1.0
    factor, total = 0.5, 0.5
    for k in range(1, TERMS):
        single *= x
        pair = single + y * pair
        triple = pair + z * triple
        factor /= k + 2.0
        total += triple * factor
    return t * t * exponential(-mean * t) * total
