"""Random numbers that are pure functions of a key and a counter."""

import numpy as np
from numba import njit

from sktem.kernels.counter import mixed

__all__ = ["fill_normals", "stream_key", "uniform"]

_NONE, _ONE = np.uint64(0), np.uint64(1)
_TO_UNIT = 2.0**-53


@njit(cache=True, nogil=True)
def stream_key(seed, row):
    """Return the key of the stream of one row."""
    return mixed(
        np.uint64(seed) ^ mixed(_NONE, np.uint64(row) + _ONE, _NONE), _NONE, _NONE
    )


@njit(cache=True, nogil=True)
def uniform(key, counter):
    """Return the uniform draw in (0, 1) of a stream at a counter, never 0 or 1."""
    bits = mixed(key, np.uint64(counter) + _ONE, _NONE)
    return (np.float64(bits >> np.uint64(11)) + 0.5) * _TO_UNIT


@njit(cache=True, nogil=True)
def fill_normals(key, counter, out):
    """Fill a vector with normal draws (Box and Muller 1958); return the counter."""
    n = out.shape[0]
    i = 0
    while i < n:
        radius = np.sqrt(-2.0 * np.log(uniform(key, counter)))
        angle = 2.0 * np.pi * uniform(key, counter + 1)
        counter += 2
        out[i] = radius * np.cos(angle)
        if i + 1 < n:
            out[i + 1] = radius * np.sin(angle)
        i += 2
    return counter
