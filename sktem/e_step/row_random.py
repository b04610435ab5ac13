"""Random numbers of rows: functions of seed, purpose, iteration and row index."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
from scipy import special

__all__ = ["BATCH", "MONITOR", "PASS", "START", "WARM_UP", "RowGenerator", "row_keys"]

#: Purposes of draws. The batches of an iteration count on from the last one, and the
#: independent draws of a monitor from its own.
START, WARM_UP, PASS, MONITOR, BATCH = 0, 1, 2, 3, 8

#: Imported on first use: numba is slow to import.
KERNELS = "sktem.kernels.counter_random"

#: Copies of a row, such as its chains, are rows this far apart.
COPY = 1 << 48


class RowGenerator(np.random.Generator):
    """A generator whose numbers belong to rows, in whatever order these are visited.

    The numbers are a pure function of the key and the row where the first axis of the
    result is that of the rows. That holds for ``random``, ``uniform``, ``integers``,
    ``standard_normal``, ``normal``, ``standard_exponential``, ``exponential``,
    ``standard_gamma``, ``gamma``, ``chisquare``, ``beta``, ``standard_t``, ``binomial``
    and ``poisson``. Results of other shapes, and other methods, come from the
    ``bit_generator`` one after the other, and depend on how the rows are cut.

    Parameters
    ----------
    bit_generator : numpy.random.BitGenerator
        For all other draws.
    key : tuple of (uint64, int, int)
        Seed, iteration and purpose.
    rows : ndarray of int64 of shape (n,)
        Row indices.
    """

    def __init__(
        self, bit_generator, key: tuple[np.uint64, int, int], rows: np.ndarray
    ):
        super().__init__(bit_generator)
        self.key = key
        self.rows = rows
        self.n_used = 0

    def repeated(self, count: int) -> RowGenerator:
        """Return the generator of rows that have been repeated, each on its own."""
        copies = COPY * np.arange(count)
        rows = (self.rows[:, None] + copies).ravel()
        repeated = RowGenerator(self.bit_generator, self.key, rows)
        # The first copy is the row itself, whose next numbers are those not yet used.
        repeated.n_used = self.n_used
        return repeated

    def _width(self, size, *arguments) -> tuple[Any, int]:
        """Return shape and numbers per row; no shape if rows are not the first axis."""
        if not isinstance(size, tuple):
            if size is None:
                size = np.broadcast_shapes(*map(np.shape, arguments))
            size = tuple(size) if np.iterable(size) else (int(size),)
        if not size or size[0] != len(self.rows):
            return None, 0
        return size, math.prod(size[1:])

    def _filled(self, size, width, name):
        out = np.empty((len(self.rows), width))
        fill = getattr(import_module(KERNELS), name)
        self.n_used += fill(*self.key, self.rows, self.n_used, out)
        return out.reshape(size)

    def _uniforms(self, size, width):
        return self._filled(size, width, "fill_row_uniforms")

    def random(self, size=None, dtype=np.float64, out=None):
        """Return uniform numbers in (0, 1)."""
        shape, width = self._width(size)
        if shape is None or out is not None or dtype is not np.float64:
            return super().random(size, dtype, out)
        return self._uniforms(shape, width)

    def standard_normal(self, size=None, dtype=np.float64, out=None):
        """Return standard normal numbers."""
        shape, width = self._width(size)
        if shape is None or out is not None or dtype is not np.float64:
            return super().standard_normal(size, dtype, out)
        return self._filled(shape, width, "fill_row_normals")

    def normal(self, loc=0.0, scale=1.0, size=None):
        """Return normal numbers."""
        shape, _ = self._width(size, loc, scale)
        if shape is None:
            return super().normal(loc, scale, size)
        return loc + scale * self.standard_normal(shape)

    def uniform(self, low=0.0, high=1.0, size=None):
        """Return uniform numbers between two bounds."""
        shape, width = self._width(size, low, high)
        if shape is None:
            return super().uniform(low, high, size)
        return low + np.subtract(high, low) * self._uniforms(shape, width)

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        """Return integers, uniform between two bounds."""
        shape, width = self._width(size, low, 0 if high is None else high)
        if shape is None:
            return super().integers(low, high, size, dtype, endpoint)
        if high is None:
            low, high = 0, low
        count = np.subtract(high, low) + bool(endpoint)
        values = np.floor(count * self._uniforms(shape, width))
        return (low + np.minimum(values, count - 1)).astype(dtype)

    def _inverse(self, name, quantile, size, *arguments):
        """Draw by a quantile function, or leave it to the method of the base class."""
        shape, width = self._width(size, *arguments)
        if shape is None:
            return getattr(super(), name)(*arguments, size=size)
        return quantile(self._uniforms(shape, width), *arguments)

    def standard_exponential(self, size=None, dtype=np.float64, method="zig", out=None):
        """Return standard exponential numbers."""
        shape, width = self._width(size)
        if shape is None or out is not None or dtype is not np.float64:
            return super().standard_exponential(size, dtype, method, out)
        return -np.log(self._uniforms(shape, width))

    def exponential(self, scale=1.0, size=None):
        """Return exponential numbers."""

        def quantile(u, scale):
            return -scale * np.log(u)

        return self._inverse("exponential", quantile, size, scale)

    def standard_gamma(self, shape, size=None, dtype=np.float64, out=None):
        """Return gamma numbers of scale 1."""
        if out is not None or dtype is not np.float64:
            return super().standard_gamma(shape, size, dtype, out)

        def quantile(u, shape):
            return special.gammaincinv(shape, u)

        return self._inverse("standard_gamma", quantile, size, shape)

    def gamma(self, shape, scale=1.0, size=None):
        """Return gamma numbers."""

        def quantile(u, shape, scale):
            return scale * special.gammaincinv(shape, u)

        return self._inverse("gamma", quantile, size, shape, scale)

    def chisquare(self, df, size=None):
        """Return chi-square numbers."""

        def quantile(u, df):
            return 2 * special.gammaincinv(np.divide(df, 2), u)

        return self._inverse("chisquare", quantile, size, df)

    def beta(self, a, b, size=None):
        """Return beta numbers."""

        def quantile(u, a, b):
            return special.betaincinv(a, b, u)

        return self._inverse("beta", quantile, size, a, b)

    def standard_t(self, df, size=None):
        """Return numbers of Student's t distribution."""

        def quantile(u, df):
            return special.stdtrit(df, u)

        return self._inverse("standard_t", quantile, size, df)

    def binomial(self, n, p, size=None):
        """Return binomial counts."""
        from scipy.stats import binom

        def quantile(u, n, p):
            return binom.ppf(u, n, p).astype(np.int64)

        return self._inverse("binomial", quantile, size, n, p)

    def poisson(self, lam=1.0, size=None):
        """Return Poisson counts."""
        from scipy.stats import poisson

        def quantile(u, lam):
            return poisson.ppf(u, lam).astype(np.int64)

        return self._inverse("poisson", quantile, size, lam)


def row_keys(rng: np.random.Generator, n_rows: int) -> tuple[int, np.ndarray]:
    """Return a seed and row indices, for kernels that draw by themselves.

    Parameters
    ----------
    rng : numpy.random.Generator
        Any generator; rows have their own numbers for a :class:`RowGenerator`, else
        their positions.
    n_rows : int
        Number of rows.

    Returns
    -------
    seed : int
        Another one at each call.
    rows : ndarray of int64 of shape (n_rows,)
        Row indices.
    """
    if not isinstance(rng, RowGenerator):
        return int(rng.integers(2**63)), np.arange(n_rows)
    from sktem.kernels.counter_random import combined

    rng.n_used += 1
    return int(combined(*rng.key, rng.n_used)), rng.rows
