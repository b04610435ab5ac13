"""Chains of the deformations of images, and their log-densities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from sktem.kernels.blocks import iterate_blocks
from sktem.progress import bar
from sktem.template.geometry.grid import ImageGrid
from sktem.template.kernels.chains import Target, langevin_chains
from sktem.template.kernels.field import new_work, pull_of, rss_of
from sktem.template.kernels.modes import sum_curvatures
from sktem.template.model.states import ChainStates, state_size
from sktem.template.model.statistics import RULE, observed_counts

__all__ = ["Chains", "Component", "Moves", "over_images", "under_unit_light"]


class Moves(NamedTuple):
    """Transitions of Langevin chains.

    Attributes
    ----------
    n_steps : int
        How many.
    adjusted : bool
        Whether proposals are tested (MALA) or not (ULA).
    goal : float
        Acceptance rate that steps are adapted to; 0 keeps them.
    """

    n_steps: int
    adjusted: bool = True
    goal: float = 0.574


class Component(NamedTuple):
    """Derived quantities of the parameters of one component.

    Attributes
    ----------
    table : ndarray
        The template as a spline.
    precision : ndarray of shape (n_latents, n_latents)
        Inverse covariance.
    factor : ndarray of shape (n_latents, n_latents)
        Lower Cholesky factor of the covariance.
    log_det : float
        Log-determinant of the covariance.
    noise_variance : float
        Noise variance.
    """

    table: np.ndarray
    precision: np.ndarray
    factor: np.ndarray
    log_det: float
    noise_variance: float

    @classmethod
    def of(cls, grid, params, t, wide=None) -> Component:
        """Return component ``t``, with an added covariance if one is given."""
        covariance = params.covariances[t]
        if wide is not None:
            covariance = covariance + wide
        factor = np.linalg.cholesky(covariance)
        inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
        return cls(
            grid.table(params.coefficients[t]),
            inverse.T @ inverse,
            factor,
            float(2 * np.log(np.diag(factor)).sum()),
            float(params.noise_variances[t]),
        )

    def constant(self, X) -> np.ndarray:
        """Return the constant of the logarithm of an integral over deformations."""
        noise = observed_counts(X) * np.log(2 * np.pi * self.noise_variance)
        return -0.5 * (noise + self.log_det)


def over_images(function, X, n_jobs):
    """Call ``function(rows)`` for blocks of images, on threads."""
    size = RULE.images_per_block

    def block(start, stop):
        return function(slice(start, stop))

    with bar("Blocks of images", -(-len(X) // size)) as advance:
        results = []
        for result in iterate_blocks(block, len(X), size, n_jobs):
            results.append(result)
            advance()
    return results


def under_unit_light(X, lights, component):
    """Yield row, image and component or target of images with gains and offsets.

    An image with gain and offset is one without, whose noise is divided by the gain.
    """
    for row, (gain, offset) in enumerate(lights):
        rows = slice(row, row + 1)
        unlit = component._replace(noise_variance=component.noise_variance / gain**2)
        yield rows, (X[rows] - offset) / gain, unlit


class Chains(NamedTuple):
    """Markov chains of the deformations of images under one component.

    Attributes
    ----------
    grid : ImageGrid
        Geometry.
    n_jobs : int or None
        Threads.
    draws : int
        Deformations over which the curvature is averaged.
    """

    grid: ImageGrid
    n_jobs: int | None = None
    draws: int = 8

    # ---------------------------------------------------------------- preconditioner

    def mean_curvature(self, component) -> np.ndarray:
        """Return the mean of ``J' J`` over deformations drawn from the model."""
        grid = self.grid
        # Fixed draws: the same parameters always have the same preconditioner.
        noise = np.random.default_rng(0).standard_normal((self.draws, grid.n_latents))
        Z = noise @ component.factor.T
        return sum_curvatures(Z, component.table, grid.compiled, grid.pairs) / len(Z)

    def target(self, component) -> Target:
        """Return the inputs of Langevin chains of a component.

        The preconditioner is the inverse of the Gauss-Newton matrix of the log-density,
        averaged over deformations drawn from the model.
        """
        curvature = self.mean_curvature(component)
        hessian = component.precision + curvature / component.noise_variance
        # P with hessian = P P'; the preconditioner's factor solves P' L = 1. It is
        # upper triangular, so the order of the coordinates is turned around.
        lower = np.linalg.cholesky(hessian[::-1, ::-1])
        factor = solve_triangular(lower, np.eye(len(lower)), lower=True).T
        factor = np.ascontiguousarray(factor[::-1, ::-1])
        whitened = factor.T @ component.precision @ factor
        return Target(
            component.table,
            factor,
            np.ascontiguousarray((whitened + whitened.T) / 2),
            component.noise_variance,
            np.ascontiguousarray(lower.T[::-1, ::-1]),
        )

    def move(self, target, X, states, numbers, seed, moves, lit=False):
        """Move chains in place; with light, states end with gains and offsets.

        Returns the sum of the acceptance rates, and how many proposals were restored.
        """
        grid = self.grid.compiled

        def block(rows):
            Y, Z, keys, total = X[rows], states[rows], numbers[rows], np.zeros(2)
            images = [(slice(None), Y, target)]
            if lit:
                images = under_unit_light(Y, Z[:, -2:], target)
            for index, unlit, scaled in images:
                total += langevin_chains(
                    unlit, Z[index], keys[index], np.uint64(seed), scaled, grid, *moves
                )
            return total

        accepted, restored = sum(over_images(block, X, self.n_jobs), np.zeros(2))
        return float(accepted), int(restored)

    def mean(self, X, target, Z, burn_in, n_averaged, spacing):
        """Return means of Langevin chains that start at given deformations.

        All images share the random numbers, so that an answer does not depend on the
        other images.
        """
        dim = self.grid.n_latents
        states = np.zeros((len(X), state_size(dim, 1)))
        fields = ChainStates.of(states, dim, 1)
        fields.position[:, 0], fields.log_step[:] = Z, np.log(0.2)
        numbers = np.zeros(len(X), dtype=np.int64)
        total = np.zeros((len(X), dim))
        for call in range(n_averaged + 1):
            moves = Moves(spacing if call else burn_in)
            self.move(target, X, states, numbers, call, moves)
            if call:
                total += fields.position[:, 0]
        return total / n_averaged

    # -------------------------------------------------------------------- densities

    def images(self, Z, component) -> np.ndarray:
        """Return deformed templates at the pixels."""
        blank = np.zeros((len(Z), self.grid.n_pixels))
        residuals = [residual for _, residual, _ in self._slow(blank, Z, component)]
        return -np.reshape(residuals, blank.shape)

    def log_joint(self, X, Z, component):
        """Return ``log f(y_i, z_i)`` under a component."""
        rss = np.array([rss for rss, *_ in self._slow(X, Z, component)])
        form = np.einsum("ij,jk,ik->i", Z, component.precision, Z)
        constant = component.constant(X) - 0.5 * Z.shape[1] * np.log(2 * np.pi)
        return constant - 0.5 * (rss / component.noise_variance + form)

    def grad_log_joint(self, X, Z, component):
        """Return the gradient of ``log_joint`` in z."""
        pulls = np.array([pull for *_, pull in self._slow(X, Z, component, True)])
        return -pulls / component.noise_variance - Z @ component.precision

    def _slow(self, X, Z, component, with_pull=False):
        """Yield sums of squared residuals, residuals and pulls, image by image."""
        grid = self.grid.compiled
        work = new_work(grid)
        for y, z in zip(X, Z, strict=True):
            work.z[:], work.image[:] = z, y
            rss = rss_of(component.table, grid, work)
            if with_pull:
                pull_of(grid, work)
            yield rss, work.residual.copy(), work.pull.copy()
