"""Products of a template's kernels along axes, and as bands; inverse deformations."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve_banded
from scipy.linalg import cholesky_banded as factor_banded
from scipy.linalg.blas import dsbmv

__all__ = ["BandedGrams", "along_axes", "fixed_points"]


class InverseRule(NamedTuple):
    """Budget and precision of the inverse of a deformation.

    Attributes
    ----------
    steps : int
        Steps, at most.
    precision : float
        Length of the last step, in pixels.
    """

    steps: int = 200
    precision: float = 1e-10


INVERSE = InverseRule()


class BandedGrams:
    """Gram matrices of a template as lower bands: distant kernels have no product."""

    #: Products of two kernels whose constant is less than this do not count.
    negligible = 1e-13

    def __init__(self, grid):
        self.grid = grid

    @cached_property
    def _pairs(self):
        """Width of the bands, places of pairs of landmarks, mid-points and exponents.

        The exponent is that of the kernel of the pair, times minus two.
        """
        grid, counts = self.grid, self.grid.template_landmarks
        offsets, exponents = _offsets(grid, self.negligible)
        strides = np.cumprod([1, *counts[:0:-1]])[::-1]
        nodes = np.indices(counts).reshape(len(counts), -1)
        partners = nodes + offsets[:, :, None]
        on_grid = (partners >= 0) & (partners < np.reshape(counts, (-1, 1)))
        which, column = np.nonzero(on_grid.all(axis=1))
        middles = 2 * nodes[:, column] + offsets[which].T
        middles = np.ravel_multi_index(tuple(middles), [2 * m - 1 for m in counts])
        width = int((offsets @ strides).max()) + 1
        places = column * width + (offsets @ strides)[which]
        return width, places, middles, exponents[which]

    def _filled(self, values):
        """Return bands with values at the pairs of landmarks."""
        width, places, *_ = self._pairs
        bands = np.zeros(width * self.grid.n_template)
        bands[places] = values
        return bands.reshape(-1, width).T

    @cached_property
    def _weights(self):
        return np.exp(-self._pairs[-1] / 4)

    def of(self, middle):
        """Return ``K' K`` from the table of mid-points.

        The product of two Gaussians about p and q is one about their mid-point, times
        ``exp(-|p - q|^2 / (4 scale^2))``, so that on a regular grid the matrix is an
        exact function of the sums at the mid-points.
        """
        return self._filled(self._weights * middle[self._pairs[2]])

    @cached_property
    def of_landmarks(self):
        """The kernel between the landmarks."""
        return self._filled(np.exp(-self._pairs[-1] / 2))

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


def along_axes(matrices, values):
    """Return values multiplied by a matrix along each axis."""
    for matrix in matrices:
        product = values.reshape(len(values), -1).T @ matrix.T
        values = product.reshape(*values.shape[1:], len(matrix))
    return values


def _offsets(grid, negligible):
    """Return offsets of pairs of landmarks that count, and their exponents.

    Offsets are in landmarks along each axis; the second of a pair comes later.
    """
    ranges, spacings = [], []
    for nodes in grid.template_axes:
        spacings.append(nodes[1] - nodes[0] if len(nodes) > 1 else 1.0)
        most = 2 * grid.template_scale * np.sqrt(-np.log(negligible)) / spacings[-1]
        far = int(min(most, len(nodes) - 1))
        ranges.append(np.arange(-far, far + 1))
    mesh = np.stack([a.ravel() for a in np.meshgrid(*ranges, indexing="ij")], axis=1)
    strides = np.cumprod([1, *grid.template_landmarks[:0:-1]])[::-1]
    exponents = ((mesh * np.array(spacings) / grid.template_scale) ** 2).sum(axis=1)
    # Two offsets can share a diagonal of the matrix, but never a place on it.
    is_kept = (mesh @ strides >= 0) & (exponents < -4 * np.log(negligible))
    return mesh[is_kept], exponents[is_kept]


def fixed_points(function, targets, step, rule: InverseRule = INVERSE):
    """Return x with ``x - function(x)`` at targets, by steps of a share of the way."""
    x = targets.copy()
    for _ in range(rule.steps):
        move = step * (targets + function(x) - x)
        x += move
        if not np.abs(move).max(initial=0.0) > rule.precision:
            break
    return x
