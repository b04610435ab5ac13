"""Linear systems of the template's M-step, factorised or iterative.

Both forms solve the same equations. The second one makes complete fits 1.6 to 7 times
as fast where there are many landmarks (``benchmarks/template_systems.py``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from sktem.template.geometry.products import along_axes

__all__ = [
    "Equations",
    "FactoredSystem",
    "SeparableSystem",
    "conjugate_gradients",
    "solver_of",
    "systems_of",
]


class Equations(NamedTuple):
    """Tolerances and precision of the equations of template and noise.

    Attributes
    ----------
    passes, precision : int, float
        Passes over template and noise, at most, and the relative change that ends them.
    residual, roughest : float
        Relative residual of the template's equations in the last and the first pass.
    jitter : float
        Ridge on Gram matrices, relative to their mean diagonal.
    large, longest : int
        Landmarks from which on equations are first solved without a factor, and most of
        them along an axis.
    steps : int
        Steps of conjugate gradients, at most.
    tiny : float
        Numbers of tables that are less are zero, since denormal ones are slow.
    exact : float
        Relative error up to which weights of mid-points give their table.
    """

    passes: int = 50
    precision: float = 1e-9
    residual: float = 1e-10
    roughest: float = 1e-3
    jitter: float = 1e-8
    large: int = 1000
    longest: int = 300
    steps: int = 250
    tiny: float = 1e-40
    exact: float = 1e-12


class FactoredSystem:
    """The systems ``(K' K + ratio * P) x = K' y`` by factors.

    Parameters
    ----------
    grid : ImageGrid
    middle, cross : ndarray
        Table of mid-points and right-hand side.
    equations : Equations
        How they are solved.
    """

    def __init__(self, grid, middle, cross, equations):
        self.grams, self.right, self.equations = grid.grams, cross, equations
        self.gram = self.grams.of(middle)
        diagonal = self.grams.diagonal(self.gram)
        self.ridge = equations.jitter * float(diagonal.mean())
        diagonal += self.ridge

    def solve(self, ratio, x, residual):
        """Return the solution, exactly."""
        matrix = self.gram
        if ratio > 0:
            matrix = matrix + ratio * self.grams.of_landmarks
        return solver_of(self.grams, matrix, self.equations.jitter)(self.right)

    def square(self, x):
        """Return ``|K x|^2``: the ridge is no part of the model."""
        return x @ self.grams.product(self.gram, x) - self.ridge * (x @ x)

    @staticmethod
    def coefficients(x):
        """Return the template's coefficients."""
        return x


class SeparableSystem:
    """The same systems by products along the axes, without matrices of all landmarks.

    The product of two kernels is one at the mid-point of their landmarks, so that ``K'
    K`` is exactly a sum over mid-points, with weights, of products of kernels there;
    and these, like P, are products over the axes. Unknowns are coordinates x in which P
    is the unit matrix, and ``K' K`` would be diagonal if the weights were a product
    over the axes, too: ``coefficients = V x``. Raises LinAlgError if rounding is in
    the way.

    Parameters
    ----------
    grid : ImageGrid
    middle, cross : ndarray
        Table of mid-points and right-hand side.
    equations : Equations
        How they are solved.
    """

    def __init__(self, grid, middle, cross, equations):
        self.equations = equations
        table = middle.reshape([2 * count - 1 for count in grid.template_landmarks])
        self._weights, axes = table, range(table.ndim)
        scale, rows, self.spectrum = grid.template_scale, [], np.ones(())
        self._vectors, between = [], []
        for axis, nodes in enumerate(grid.template_axes):
            points = np.linspace(nodes[0], nodes[-1], 2 * len(nodes) - 1)
            kernel = self._kernel(points, points, scale / np.sqrt(2))
            between.append(kernel)
            factor = cho_factor(kernel, check_finite=False)
            self._weights = np.moveaxis(
                cho_solve(factor, self._weights.reshape(len(kernel), -1)).reshape(
                    self._weights.shape
                ), 0, -1,
            )  # fmt: skip
            # The table of this axis alone, of which the whole is nearly a product.
            alone = table.sum(axis=tuple(b for b in axes if b != axis))
            pairs = np.add.outer(*[np.arange(len(nodes))] * 2)
            gram = self._kernel(nodes, nodes, scale * np.sqrt(2)) * alone[pairs]
            values, vectors = eigh(gram, self._kernel(nodes, nodes, scale))
            vectors[np.abs(vectors) < equations.tiny] = 0.0
            self.spectrum = np.multiply.outer(self.spectrum, np.maximum(values, 0.0))
            self._vectors.append(vectors)
            rows.append(self._kernel(points, nodes, scale) @ vectors)
        self.spectrum = self.spectrum * table.sum() ** (1.0 - table.ndim)
        error = np.abs(along_axes(between, self._weights) - table).max()
        if not error <= equations.exact * table.max():
            raise LinAlgError("the table of mid-points is not recovered")
        self._rows = rows
        self._columns = [np.ascontiguousarray(row.T) for row in rows]
        vectors = [basis.T for basis in self._vectors]
        self.right = along_axes(vectors, cross.reshape(self.spectrum.shape)).ravel()

    def solve(self, ratio, x, residual):
        """Return the solution from another one, None without convergence."""
        x = np.zeros_like(self.right) if x is None else x
        return conjugate_gradients(
            lambda v: self._gram(v) + ratio * v, self.right, x,
            lambda v: v / (self.spectrum.ravel() + ratio), residual,
            self.equations.steps,
        )  # fmt: skip

    def _gram(self, x):
        values = along_axes(self._rows, x.reshape(self.spectrum.shape))
        values *= self._weights
        return along_axes(self._columns, values).ravel()

    def square(self, x):
        """Return ``|K x|^2``."""
        return x @ self._gram(x)

    def _kernel(self, x, nodes, scale):
        """Return the kernel between two sets of points on an axis."""
        table = np.exp(-0.5 * (np.subtract.outer(x, nodes) / scale) ** 2)
        table[table < self.equations.tiny] = 0.0
        return table

    def coefficients(self, x):
        """Return the template's coefficients."""
        return along_axes(self._vectors, x.reshape(self.spectrum.shape)).ravel()


def systems_of(grid, averages, informative, equations):
    """Yield the systems of a template in the order in which they are to be tried."""
    counts, large = grid.template_landmarks, grid.n_template >= equations.large
    if informative and len(counts) > 1 and large and max(counts) <= equations.longest:
        try:
            yield SeparableSystem(grid, averages.middle, averages.cross, equations)
        except LinAlgError:
            pass
    yield FactoredSystem(grid, averages.middle, averages.cross, equations)


def solver_of(grams, matrix, jitter):
    """Return a function that solves systems with a matrix.

    Rounding may have robbed it of its definiteness, which a small ridge restores.
    """
    try:
        return grams.factor(matrix)
    except LinAlgError:
        pass
    ridge = jitter * float(np.abs(grams.diagonal(matrix)).mean())
    matrix = matrix.copy()
    while True:
        grams.diagonal(matrix)[:] += ridge
        try:
            return grams.factor(matrix)
        except LinAlgError:
            ridge *= 10


def conjugate_gradients(product, b, x, precondition, tolerance, steps):
    """Return the solution of a system from a guess, None without convergence."""
    residuals = b - product(x)
    solved = precondition(residuals)
    direction, square = solved, residuals @ solved
    enough = tolerance**2 * float(b @ precondition(b))
    for _ in range(steps):
        if square <= enough:
            return x
        image = product(direction)
        length = square / (direction @ image)
        x, residuals = x + length * direction, residuals - length * image
        solved = precondition(residuals)
        square, before = residuals @ solved, square
        direction = solved + square / before * direction
    return None
