"""Concentrations of directions, and Bessel functions at any order and size."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln, ive

from sktem.emissions.directions import FREE, Direction, positive_directions

__all__ = [
    "concentration_directions",
    "concentration_of",
    "directions_are_open",
    "log_bessel_ratio",
    "mean_length",
]

#: Concentrations are not above.
LARGEST_CONCENTRATION = 1e8


def log_bessel_ratio(order, x):
    """Return ``log(I_order(x) / x ** order)``, finite at 0."""
    x = np.asarray(x, dtype=np.float64)
    scaled = ive(order, x)
    plain = scaled > 1e-280
    safe = np.where(x > 0, x, 1.0)
    logs = np.log(np.where(plain, scaled, 1.0)) + x - order * np.log(safe)
    at_zero = -order * math.log(2) - gammaln(order + 1)
    if order <= 0:
        return np.where(x > 0, logs, at_zero)
    # Debye's expansion for large orders, where the function itself underflows.
    z = safe / order
    root = np.sqrt(1 + z**2)
    t = 1 / root
    first = (3 * t - 5 * t**3) / (24 * order)
    debye = order * (root - np.log1p(root)) - 0.5 * np.log(2 * np.pi * order * root)
    debye = debye - order * math.log(order) + np.log1p(first)
    series = at_zero + x**2 / (4 * (order + 1))
    tiny = x**2 < 1e-6 * (order + 1)
    return np.where(tiny, series, np.where(plain, logs, debye))


def mean_length(d, concentration):
    """Return the length of the mean direction: ``I_{d/2}(c) / I_{d/2-1}(c)``."""
    c = np.asarray(concentration, dtype=np.float64)
    above, below = ive(d / 2, c), ive(d / 2 - 1, c)
    plain = np.minimum(above, below) > 1e-280
    # A quotient keeps more digits than a difference of logarithms.
    quotient = above / np.where(plain, below, 1.0)
    logs = log_bessel_ratio(d / 2, c) - log_bessel_ratio(d / 2 - 1, c)
    return np.minimum(np.where(plain, quotient, c * np.exp(logs)), 1.0)


def directions_are_open(d, concentrations, n) -> np.ndarray:
    """Return whether n rows would leave mean directions errors above a half turn."""
    return n * concentrations**2 / d < 1.0 / math.pi**2


def concentration_directions(concentrations) -> Iterator[Direction]:
    """Yield directions of concentrations, of which steps leave small ones positive."""
    scales = np.maximum(concentrations, np.minimum(1.0, 100.0 * concentrations))
    bounds = FREE.least, LARGEST_CONCENTRATION
    yield from positive_directions("concentrations", concentrations, scales, *bounds)


def concentration_of(d, length):
    """Return the concentrations whose mean directions have given lengths."""
    r = np.clip(length, 0.0, 1.0)
    low = np.zeros_like(r)
    high = np.full_like(r, LARGEST_CONCENTRATION)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Bounds of Hornik and Gruen (2014).
        square = 1 - r**2
        low = np.where(square > 0, r * (d - 1) / square, high)
        high = np.where(square > 0, r * (d + 1) / square, high)
    low = np.minimum(np.minimum(low, high) * 0.5, LARGEST_CONCENTRATION)
    high = np.minimum(high * 2, LARGEST_CONCENTRATION)
    for _ in range(100):
        middle = (low + high) / 2
        below = mean_length(d, middle) < r
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
