"""Operations of layered machines on fields of units, for NumPy and other arrays.

Everything else about them is matrix products and sums. For NumPy these few operations
are compiled loops with draws that are a pure function of (seed, step, row, unit); for
other namespaces they are expressions of the array API, with uniforms from a generator
on the device where the namespace has one (torch) and from NumPy's otherwise. The draws
of two namespaces differ, their distribution does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sktem.arrays import NamespaceArrays, NumpyArrays, arrays_of
from sktem.boltzmann.kernels.binary_products import code_rows, coded_product
from sktem.boltzmann.kernels.layers import (
    draw_from_means,
    draw_normals,
    draw_units,
    mean_units,
    softplus_differences,
)
from sktem.boltzmann.kernels.sparse_products import (
    list_by_column,
    list_by_row,
    listed_product,
)

__all__ = [
    "CompiledOperations",
    "NamespaceOperations",
    "SIZES",
    "operations_of",
    "softplus_sums",
]


class ProductSizes(NamedTuple):
    """Sizes of products from which on they are not those of BLAS.

    Attributes
    ----------
    sparse_share : float
        Products skip zeros where at most this share of the first factor is not zero.
    least_sparse, narrowest_sparse : int
        Its entries, and columns of the other factor, from which on it matters.
    fewest_coded, shallowest_coded, narrowest_coded : int
        Rows, inner places and columns from which on products of zeros and ones add
        listed sums; below them BLAS is as fast (see `benchmarks/binary_products.py`).
    """

    sparse_share: float = 0.2
    least_sparse: int = 2**14
    narrowest_sparse: int = 128
    fewest_coded: int = 48
    shallowest_coded: int = 256
    narrowest_coded: int = 64


SIZES = ProductSizes()
#: Separates the blocks of rows of one seed.
ROW_STEP = 0x9E3779B97F4A7C15


class CompiledOperations(NumpyArrays):
    """The operations as compiled loops over NumPy arrays."""

    #: Rows whose states are worked on at a time.
    rows_per_block = 256

    def draws(self, seed, first_row=0):
        """Return the draws of a seed for rows that are numbered from `first_row`."""
        return _CompiledDraws(np.uint64(seed), first_row)

    def drawn(self, means, rng):
        """Return draws of binary units from their means, float32."""
        return (rng.random(means.shape, np.float32) < means).astype(np.float32)

    def means(self, fields, biases):
        """Return ``1 / (1 + exp(-(fields + biases)))``, in the place of `fields`."""
        if fields.dtype == np.float32:
            mean_units(fields, np.ascontiguousarray(biases, np.float32))
            return fields
        fields += biases
        np.exp(-np.clip(fields, -700, 700), out=fields)
        fields += 1.0
        return np.reciprocal(fields, out=fields)

    def softplus_change(self, fields, others, old, new):
        """Return the change of the row sums of softplus along a path, in float64.

        `old` and `new` are pairs of factors of `fields` and `others`.
        """
        old, new = np.array(old, np.float32), np.array(new, np.float32)
        return softplus_differences(fields, others, old, new)

    def product(self, a, b, out=None):
        """Return ``a @ b``, written into `out` if given.

        Fast if a is mostly zero, or is zeros and ones.
        """
        if out is None:
            out = np.empty((a.shape[0], b.shape[1]), np.result_type(a, b))
        if not (
            _suits_lists(a, b, out)
            and _sparse_product(a, b, out)
            or _suits_codes(a, b, out)
            and _coded_product(a, b, out)
        ):
            np.matmul(a, b, out=out)
        return out

    def pack(self, states):
        """Return zeros and ones as bits, one row of bytes for each row."""
        return np.packbits(states > 0.5, axis=1)

    def unpack(self, packed, width):
        """Return the zeros and ones that `pack` has packed, as float32."""
        return np.unpackbits(packed, axis=1, count=width).astype(np.float32)


def _are_single(*arrays):
    """Return whether arrays are matrices of float32, each in one piece of memory."""
    return all(
        x.ndim == 2
        and x.dtype == np.float32
        and (x.flags.c_contiguous or x.flags.f_contiguous)
        for x in arrays
    )


def _suits_lists(a, b, out):
    """Return whether a product is of the kind that `_sparse_product` is for."""
    return (
        a.size >= SIZES.least_sparse
        and b.shape[-1] >= SIZES.narrowest_sparse
        and _are_single(a, b, out)
        and b.flags.c_contiguous
        and out.flags.c_contiguous
    )


def _suits_codes(a, b, out):
    """Return whether a product is of the kind that `_coded_product` is for."""
    return (
        a.shape[0] >= SIZES.fewest_coded
        and b.ndim == 2
        and b.shape[0] >= SIZES.shallowest_coded
        and b.shape[1] >= SIZES.narrowest_coded
        and _are_single(b, out)
        and a.dtype == np.float32
        and out.flags.c_contiguous
    )


def _coded_product(a, b, out):
    """Write ``a @ b`` into `out` if a is zeros and ones; return whether."""
    codes = np.empty((a.shape[0], -(-a.shape[1] // 4)), np.uint8)
    coded = code_rows(np.ascontiguousarray(a), codes)
    if coded:
        transposed = not b.flags.c_contiguous
        coded_product(codes, b.T if transposed else b, transposed, out)
    return coded


def _sparse_product(a, b, out):
    """Write ``a @ b`` into `out` if few entries of a are not zero; return whether."""
    rows = a if a.flags.c_contiguous else a.T
    first = rows[:4, ::8]
    if np.count_nonzero(first) > 2 * SIZES.sparse_share * first.size:
        return False  # most likely not, and this took no time
    limit = int(SIZES.sparse_share * a.size)
    starts = np.empty(a.shape[0] + 1, np.int64)
    room = limit + rows.shape[1]
    places, values = np.empty(room, np.int64), np.empty(room, np.float32)
    if a.flags.c_contiguous:
        fits = list_by_row(rows, limit, starts, places, values)
    else:
        fits = list_by_column(rows, limit, starts, places, values)
    if fits:
        listed_product(starts, places, values, b, out)
    return fits


class _CompiledDraws:
    """Draws of one call; each has its own step index."""

    def __init__(self, seed, first_row):
        self.seed, self.first_row = seed, first_row
        self.step = 0

    def key(self, n):
        """Return the seed, the step and the numbers of n rows of the next draws."""
        first, after, step = self.first_row, self.first_row + n, np.uint64(self.step)
        self.step += 1
        return self.seed, step, np.arange(first, after)

    def units(self, fields, first, biases):
        """Return fields with draws of binary units from the column `first` on."""
        draw_units(fields, first, biases, *self.key(len(fields)))
        return fields

    def normals(self, fields, biases, precisions):
        """Return fields with draws of Gaussian units in the first columns."""
        draw_normals(fields, biases, precisions, *self.key(len(fields)))
        return fields

    def from_means(self, means):
        """Return draws of binary units from their means, float32."""
        out = np.empty(means.shape, np.float32)
        draw_from_means(out, means, *self.key(len(means)))
        return out


class NamespaceOperations(NamespaceArrays):
    """The operations as expressions of the array API."""

    # Large blocks keep a device busy; they bound the memory of temporaries.
    rows_per_block = 16384

    def draws(self, seed, first_row=0):
        """Return the draws of a seed for rows that are numbered from `first_row`."""
        return _NamespaceDraws(self, (int(seed) + int(first_row) * ROW_STEP) % 2**63)

    def drawn(self, means, rng):
        """Return draws of binary units from their means, float32."""
        return self.draws(rng.integers(2**63)).from_means(means)

    def means(self, fields, biases):
        """Return ``1 / (1 + exp(-(fields + biases)))``."""
        return self.sigmoid(fields + biases)

    def sigmoid(self, fields):
        """Return ``1 / (1 + exp(-fields))``."""
        # Not of the standard, but one pass over the device's memory instead of four.
        sigmoid = getattr(self.xp, "sigmoid", None)
        if sigmoid is not None:
            return sigmoid(fields)
        return 1.0 / (1.0 + self.xp.exp(-self.xp.clip(fields, -80.0, 80.0)))

    def softplus_change(self, fields, others, old, new):
        """Return the change of the row sums of softplus along a path, in float64.

        `old` and `new` are pairs of factors of `fields` and `others`.
        """
        after = self._softplus(new[0] * fields + new[1] * others)
        before = self._softplus(old[0] * fields + old[1] * others)
        return self.xp.sum(after - before, axis=1, dtype=self.xp.float64)

    def _softplus(self, fields):
        xp = self.xp
        positive = xp.clip(fields, 0.0, None)
        return positive + xp.log1p(xp.exp(-xp.abs(fields)))

    def pack(self, states):
        """Return zeros and ones as bits, one row of bytes for each row."""
        xp = self.xp
        n, width = states.shape
        n_bytes = -(-width // 8)
        bits = self.full((n, 8 * n_bytes), 0.0, xp.float32)
        bits[:, :width] = xp.astype(states > 0.5, xp.float32)
        bits = xp.reshape(bits, (n * n_bytes, 8))
        worth = self.asarray(2.0 ** np.arange(7, -1, -1), xp.float32)
        return xp.reshape(xp.astype(bits @ worth, xp.uint8), (n, n_bytes))

    def unpack(self, packed, width):
        """Return the zeros and ones that `pack` has packed, as float32."""
        xp = self.xp
        n, n_bytes = packed.shape
        shifts = self.asarray(np.arange(7, -1, -1), xp.uint8)
        bits = xp.bitwise_right_shift(xp.reshape(packed, (n, n_bytes, 1)), shifts)
        bits = xp.reshape(xp.bitwise_and(bits, self.asarray(1, xp.uint8)), (n, -1))
        return xp.astype(bits[:, :width], xp.float32)


class _NamespaceDraws:
    """Draws of one call, from their own generator."""

    def __init__(self, operations, seed):
        self.operations = operations
        if operations.xp.__name__.endswith("torch"):
            import torch

            self.generator = torch.Generator(device=operations.device)
            self.generator.manual_seed(seed)
            options = {
                "generator": self.generator,
                "device": operations.device,
                "dtype": torch.float32,
            }
            self._uniform: Callable = functools.partial(torch.rand, **options)
            self._normal: Callable = functools.partial(torch.randn, **options)
        else:
            rng = np.random.default_rng(seed)
            asarray = operations.asarray
            self._uniform = lambda shape: asarray(rng.random(shape, np.float32))
            self._normal = lambda shape: asarray(rng.standard_normal(shape, np.float32))

    def units(self, fields, first, biases):
        """Return fields with draws of binary units from the column `first` on."""
        means = self.operations.means(fields[:, first:], biases)
        drawn = self.from_means(means)
        if first == 0:
            return drawn
        fields[:, first:] = drawn
        return fields

    def normals(self, fields, biases, precisions):
        """Return fields with draws of Gaussian units in the first columns."""
        m = precisions.shape[0]
        z = self._normal((fields.shape[0], m))
        means = (fields[:, :m] + biases) / precisions
        fields[:, :m] = means + z / self.operations.xp.sqrt(precisions)
        return fields

    def from_means(self, means):
        """Return draws of binary units from their means, float32."""
        xp = self.operations.xp
        return xp.astype(self._uniform(tuple(means.shape)) < means, xp.float32)


def softplus_sums(fields):
    """Return the sums over columns of ``log(1 + exp(fields))``, in float64."""
    arrays = arrays_of(fields)
    fields = arrays.astype(fields, arrays.xp.float64)
    values = arrays.xp.logaddexp(arrays.xp.zeros_like(fields), fields)
    return arrays.xp.sum(values, axis=1)


COMPILED = CompiledOperations()


def operations_of(values):
    """Return the operations for the namespace and device of an array."""
    return arrays_of(values, COMPILED, NamespaceOperations)
