"""Random numbers that are pure functions of a key and a counter."""

import numpy as np
from numba import njit

from sktem.kernels.counter import mixed
from sktem.kernels.options import INNER, OUTER

__all__ = [
    "combined",
    "fill_normals",
    "fill_row_normals",
    "fill_row_uniforms",
    "fill_visit_uniforms",
    "normal_quantile",
    "stream_key",
    "uniform",
]

_NONE, _ONE = np.uint64(0), np.uint64(1)
_TO_UNIT = 2.0**-53


@njit(**INNER)
def stream_key(seed, row):
    """Return the key of the stream of one row."""
    return mixed(
        np.uint64(seed) ^ mixed(_NONE, np.uint64(row) + _ONE, _NONE), _NONE, _NONE
    )


@njit(**INNER)
def uniform(key, counter):
    """Return the uniform draw in (0, 1) of a stream at a counter, never 0 or 1."""
    bits = mixed(key, np.uint64(counter) + _ONE, _NONE)
    return (np.float64(bits >> np.uint64(11)) + 0.5) * _TO_UNIT


@njit(**INNER)
def fill_normals(key, counter, out):
    """Fill a vector with normal draws (Box and Muller 1958); return the counter."""
    n = len(out)
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


@njit(**OUTER)
def combined(seed, iteration, purpose, number):
    """Return one key of four integers.

    Parameters
    ----------
    seed : uint64
    iteration, purpose, number : int
    """
    key = mixed(np.uint64(seed), np.uint64(iteration) + _ONE, _NONE)
    return mixed(key, np.uint64(number), np.uint64(purpose) + _ONE)


@njit(**OUTER)
def fill_row_uniforms(seed, iteration, purpose, rows, counter, out):
    """Fill each row with uniform draws from a separate random stream.

    Parameters
    ----------
    seed : uint64
    iteration, purpose : int
    rows : ndarray of int64 of shape (n,)
        Row indices.
    counter : int
        First draw of each stream that is used.
    out : ndarray of shape (n, n_draws)

    Returns
    -------
    n_used : int
        How many draws of each stream have been used.
    """
    base = combined(seed, iteration, purpose, 0)
    for i in range(len(rows)):
        key = stream_key(base, rows[i])
        for j in range(out.shape[1]):
            out[i, j] = uniform(key, counter + j)
    return out.shape[1]


@njit(**INNER)
def normal_quantile(p):
    """Equal ``scipy.special.ndtri(p)`` to 1e-15 relative (Wichura 1988, AS 241)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = 2.5090809287301226727e3 * r + 3.3430575583588128105e4
        above = (above * r + 6.7265770927008700853e4) * r + 4.5921953931549871457e4
        above = (above * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3
        above = (above * r + 1.3314166789178437745e2) * r + 3.3871328727963666080
        below = 5.2264952788528545610e3 * r + 2.8729085735721942674e4
        below = (below * r + 3.9307895800092710610e4) * r + 2.1213794301586595867e4
        below = (below * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2
        below = (below * r + 4.2313330701600911252e1) * r + 1.0
        return q * above / below
    r = np.sqrt(-np.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        above = 7.74545014278341407640e-4 * r + 2.27238449892691845833e-2
        above = (above * r + 2.41780725177450611770e-1) * r + 1.27045825245236838258
        above = (above * r + 3.64784832476320460504) * r + 5.76949722146069140550
        above = (above * r + 4.63033784615654529590) * r + 1.42343711074968357734
        below = 1.05075007164441684324e-9 * r + 5.47593808499534494600e-4
        below = (below * r + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1
        below = (below * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940
        below = (below * r + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        above = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
        above = (above * r + 1.24266094738807843860e-3) * r + 2.65321895265761230930e-2
        above = (above * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580
        above = (above * r + 5.46378491116411436990) * r + 6.65790464350110377720
        below = 2.04426310338993978564e-15 * r + 1.42151175831644588870e-7
        below = (below * r + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4
        below = (below * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1
        below = (below * r + 5.99832206555887937690e-1) * r + 1.0
    return -above / below if q < 0.0 else above / below


@njit(**OUTER)
def fill_row_normals(seed, iteration, purpose, rows, counter, out):
    """Fill each row with standard normal draws from a separate random stream.

    Parameters and result as for `fill_row_uniforms`.
    """
    base = combined(seed, iteration, purpose, 0)
    for i in range(len(rows)):
        key = stream_key(base, rows[i])
        for j in range(out.shape[1]):
            out[i, j] = normal_quantile(uniform(key, counter + j))
    return out.shape[1]


@njit(**OUTER)
def fill_visit_uniforms(seed, iteration, purpose, rows, edges, out):
    """Fill the uniforms of the batches of iterations, as `fill_row_uniforms` would.

    Parameters
    ----------
    seed : uint64
    iteration : int
        Number of the first iteration.
    purpose : int
        Purpose of the first index set; the others follow.
    rows : ndarray of int64 of shape (n,)
        Row indices.
    edges : ndarray of int64 of shape (n_index_sets, n_iterations + 1)
        Where the rows of each batch begin, and the last ones end.
    out : ndarray of shape (n, n_draws)
    """
    for side in range(len(edges)):
        for t in range(edges.shape[1] - 1):
            base = combined(seed, iteration + t, purpose + side, 0)
            for i in range(edges[side, t], edges[side, t + 1]):
                key = stream_key(base, rows[i])
                for j in range(out.shape[1]):
                    out[i, j] = uniform(key, j)
