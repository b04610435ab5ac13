"""Random numbers that are pure functions of a key and a counter."""

import numpy as np
from numba import njit

__all__ = ["fill_normals", "stream_key", "uniform"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


@njit(cache=True, nogil=True)
def _mix(x):
    """Return the output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def stream_key(seed, row):
    """Return the key of the stream of one row.

    Parameters
    ----------
    seed : uint64
    row : int
    """
    return _mix(np.uint64(seed) ^ _mix((np.uint64(row) + np.uint64(1)) * _GOLDEN))


@njit(cache=True, nogil=True)
def uniform(key, counter):
    """Return a number in (0, 1), never 0 or 1.

    Parameters
    ----------
    key : uint64
        From `stream_key`.
    counter : int
        Which draw of the stream.
    """
    bits = _mix(key + (np.uint64(counter) + np.uint64(1)) * _GOLDEN)
    return (np.float64(bits >> np.uint64(11)) + 0.5) * _TO_UNIT


@njit(cache=True, nogil=True)
def fill_normals(key, counter, out):
    """Fill a vector with standard normal draws (Box and Muller 1958).

    Parameters
    ----------
    key : uint64
    counter : int
        First draw of the stream that is used.
    out : ndarray of shape (n,)

    Returns
    -------
    counter : int
        The first draw that has not been used.
    """
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
