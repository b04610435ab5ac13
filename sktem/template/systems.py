"""Linear systems of the template's M-step, dense or in bands; fixed points."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cho_solve_banded
from scipy.linalg import cholesky_banded as factor_banded
from scipy.linalg.blas import dsbmv

__all__ = [
    "BandedGrams",
    "DenseGrams",
    "conjugate_gradients",
    "fixed_points",
    "grams_of",
    "solver_of",
]

#: Products of two kernels whose constant is less than this do not count in bands.
NEGLIGIBLE = 1e-13

#: Widest band, as a share of the matrix, that is cheaper than the whole matrix.
WIDEST = 0.5

#: Ridge that restores a lost definiteness, relative to the mean diagonal.
JITTER = 1e-8

#: Steps of conjugate gradients, and the residual that they end with.
STEPS, RESIDUAL = 50, 1e-10

#: Steps that invert a deformation, at most, and their precision in pixels.
FIXED_POINT_STEPS, FIXED_POINT_PRECISION = 200, 1e-10


class DenseGrams:
    """Gram matrices of a template as square arrays."""

    def __init__(self, grid):
        self.grid = grid

    def of(self, middle):
        """Return ``K' K`` from the table of mid-points."""
        return self.grid.gram_of(middle)

    @cached_property
    def of_landmarks(self):
        """The kernel between the landmarks."""
        return self.grid.template_gram

    @staticmethod
    def diagonal(matrix):
        """Return a view of the diagonal."""
        return np.einsum("ii->i", matrix)

    @staticmethod
    def product(matrix, x):
        """Return the product with a vector."""
        return matrix @ x

    @staticmethod
    def factor(matrix):
        """Return a function that solves a system; LinAlgError if there is none."""
        factor = cho_factor(matrix, check_finite=False)
        return lambda b: cho_solve(factor, b, check_finite=False)


class BandedGrams:
    """Gram matrices of a template as lower bands: distant kernels have no product."""

    def __init__(self, grid):
        self.counts = grid.template_landmarks
        self.size = grid.n_template
        self.offsets, self.exponents, self.band = _offsets(grid)

    def _filled(self, weights, values_at):
        """Return bands with ``weights * values`` at the pairs of landmarks."""
        bands = np.zeros((self.band + 1, self.size), order="F")
        strides = np.cumprod([1, *self.counts[:0:-1]])[::-1]
        for offset, weight in zip(self.offsets, weights, strict=True):
            # Landmarks whose partner at this offset is on the grid too.
            chosen = tuple(
                slice(max(-d, 0), count - max(d, 0))
                for d, count in zip(offset, self.counts, strict=True)
            )
            row = bands[int(offset @ strides)].reshape(self.counts)
            row[chosen] = weight * values_at(offset, chosen)
        return bands

    def of(self, middle):
        """Return ``K' K`` from the table of mid-points."""
        table = middle.reshape([2 * count - 1 for count in self.counts])

        def values_at(offset, chosen):
            places = tuple(
                slice(2 * own.start + d, 2 * own.stop + d - 1, 2)
                for d, own in zip(offset, chosen, strict=True)
            )
            return table[places]

        return self._filled(np.exp(-self.exponents / 4), values_at)

    @cached_property
    def of_landmarks(self):
        """The kernel between the landmarks."""
        return self._filled(np.exp(-self.exponents / 2), lambda offset, chosen: 1.0)

    @staticmethod
    def diagonal(matrix):
        """Return a view of the diagonal."""
        return matrix[0]

    @staticmethod
    def product(matrix, x):
        """Return the product with a vector."""
        return dsbmv(len(matrix) - 1, 1.0, matrix, x, lower=1)

    @staticmethod
    def factor(matrix):
        """Return a function that solves a system; LinAlgError if there is none."""
        factor = factor_banded(matrix, lower=True, check_finite=False)
        return lambda b: cho_solve_banded((factor, True), b, check_finite=False)


def fixed_points(function, targets, step):
    """Return x with ``x - function(x)`` at targets, by steps of a share of the way."""
    x = targets.copy()
    for _ in range(FIXED_POINT_STEPS):
        move = step * (targets + function(x) - x)
        x += move
        if not np.abs(move).max(initial=0.0) > FIXED_POINT_PRECISION:
            break
    return x


def grams_of(grid):
    """Return the cheaper form for a geometry."""
    *_, band = _offsets(grid)
    banded = band + 1 < WIDEST * grid.n_template
    return (BandedGrams if banded else DenseGrams)(grid)


def _offsets(grid):
    """Return offsets of pairs of landmarks that count, their exponents and the band.

    Offsets are in landmarks along each axis; the second of a pair comes later. The
    exponent is that of the kernel of the pair, times minus two.
    """
    ranges, spacings = [], []
    for nodes in grid.template_axes:
        spacings.append(nodes[1] - nodes[0] if len(nodes) > 1 else 1.0)
        most = 2 * grid.template_scale * np.sqrt(-np.log(NEGLIGIBLE)) / spacings[-1]
        far = int(min(most, len(nodes) - 1))
        ranges.append(np.arange(-far, far + 1))
    mesh = np.stack([a.ravel() for a in np.meshgrid(*ranges, indexing="ij")], axis=1)
    strides = np.cumprod([1, *grid.template_landmarks[:0:-1]])[::-1]
    exponents = ((mesh * np.array(spacings) / grid.template_scale) ** 2).sum(axis=1)
    # Two offsets can share a diagonal of the matrix, but never a place on it.
    kept = (mesh @ strides >= 0) & (exponents < -4 * np.log(NEGLIGIBLE))
    return mesh[kept], exponents[kept], int((mesh[kept] @ strides).max())


def solver_of(grams, matrix):
    """Return a function that solves systems with a matrix.

    Rounding may have robbed it of its definiteness, which a small ridge restores.
    """
    try:
        return grams.factor(matrix)
    except LinAlgError:
        pass
    ridge = JITTER * float(np.abs(grams.diagonal(matrix)).mean())
    matrix = matrix.copy()
    while True:
        grams.diagonal(matrix)[:] += ridge
        try:
            return grams.factor(matrix)
        except LinAlgError:
            ridge *= 10


def conjugate_gradients(product, b, x, precondition):
    """Return the solution of a system, starting from a guess; None if not found."""
    rest = b - product(x)
    solved = precondition(rest)
    direction, square = solved, rest @ solved
    enough = RESIDUAL**2 * float(b @ precondition(b))
    for _ in range(STEPS):
        if square <= enough:
            return x
        image = product(direction)
        length = square / (direction @ image)
        x, rest = x + length * direction, rest - length * image
        solved = precondition(rest)
        square, before = rest @ solved, square
        direction = solved + square / before * direction
    return None
