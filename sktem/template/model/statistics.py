"""Sufficient statistics of deformable templates in their mid-point form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.kernels.blocks import reduce_blocks
from sktem.template.kernels.statistics import template_sums
from sktem.template.model.priors import posterior_template, unexplained_square

__all__ = [
    "RULE",
    "ComponentStatistics",
    "feasible",
    "observed_counts",
    "split",
    "statistic_size",
    "sum_statistics",
]

#: Sums of gains and offsets.
LIGHT = 5


class StatisticsRule(NamedTuple):
    """Blocks of sums, and the noise that feasible statistics leave.

    Attributes
    ----------
    images_per_block : int
        Images of a block of threads; it fixes the rounding of the sums.
    least_noise : float
        Noise that is always left, as a share of the mean square of the pixels.
    most_growth : int
        Steps by which a square grows until some noise is left.
    """

    images_per_block: int = 16
    least_noise: float = 1e-3
    most_growth: int = 60


RULE = StatisticsRule()


class ComponentStatistics(NamedTuple):
    """Statistics of one component, means over its images.

    Attributes
    ----------
    square : float
        Mean of ``|y|^2``.
    observed : float
        Mean number of observed pixels.
    cross : ndarray of shape (n_template,)
        Mean of ``K' y``.
    middle : ndarray of shape (n_middle,)
        Mean sums at mid-points, which determine the mean of ``K' K``.
    mean : ndarray of shape (n_latents,)
        Mean of ``z``.
    outer : ndarray of shape (n_latents, n_latents)
        Mean of ``z z'``.
    """

    square: float
    observed: float
    cross: np.ndarray
    middle: np.ndarray
    mean: np.ndarray
    outer: np.ndarray


def observed_counts(X) -> np.ndarray:
    """Return the numbers of observed pixels of images."""
    return (~np.isnan(X)).sum(axis=1)


def sum_statistics(grid, X, Z, masses, rows, n_jobs=None, light=None) -> np.ndarray:
    """Return the weighted sum of the statistics of some images under a component.

    Gains and offsets, if images have any, are reduced to one and zero: the squares of
    the residuals stay what they are if an image counts as often as the square of its
    gain. The sums of gains, offsets and their products come last.
    """
    if len(rows) == 0:
        return np.zeros(statistic_size(grid) + (0 if light is None else LIGHT))

    def block(start, stop):
        chosen = rows[start:stop]
        chosen_light = None if light is None else light[chosen]
        return (_block_sum(grid, X[chosen], Z[chosen], masses[chosen], chosen_light),)

    sums = reduce_blocks(block, len(rows), RULE.images_per_block, n_jobs)[0]
    if light is None:
        return sums
    gain, offset = light[rows].T
    products = np.stack([gain, offset, gain**2, gain * offset, offset**2])
    return np.append(sums, products @ masses[rows])


def statistic_size(grid) -> int:
    """Return the number of statistics of a component, but for those of light."""
    return sum(_sizes(grid))


def _sizes(grid):
    dim = grid.n_latents
    return [1, 1, 1, grid.n_template, grid.n_middle, dim, dim**2]


def _block_sum(grid, Y, Z, masses, light=None):
    dim, images, weights = grid.n_latents, Y, masses
    if light is not None:
        gain, offset = light.T
        images = (Y - offset[:, None]) / gain[:, None]
        weights = masses * gain**2
    nodes = grid.template_nodes
    counts = nodes[:, 2].astype(int)
    cross, middle, head = np.zeros(counts), np.zeros(2 * counts - 1), np.zeros(2)
    template_sums(
        images, Z, weights, grid.pixels, grid.compiled, nodes,
        grid.template_scale**-2, cross, middle, head,
    )  # fmt: skip
    if light is not None:
        head[1] = masses @ observed_counts(Y)
    z = Z[:, :dim]
    outer = (z * masses[:, None]).T @ z
    return np.concatenate(
        [[masses.sum()], head, cross.ravel(), middle.ravel(), masses @ z, outer.ravel()]
    )


def split(grid, statistics) -> ComponentStatistics:
    """Return the statistics of one component, as means over its images."""
    share, square, observed, cross, middle, mean, outer = np.split(
        statistics[: statistic_size(grid)], np.cumsum(_sizes(grid))[:-1]
    )
    dim = grid.n_latents
    return ComponentStatistics(
        float(square[0] / share[0]),
        float(observed[0] / share[0]),
        cross / share[0],
        middle / share[0],
        mean / share[0],
        outer.reshape(dim, dim) / share[0],
    )


def feasible(grid, statistics, priors, n_rows, covariance_type) -> bool:
    """Project statistics of one component, in place, onto the feasible set."""
    dim, statistics = grid.n_latents, statistics[: statistic_size(grid)]
    outer = statistics[-(dim**2) :].reshape(dim, dim)
    head, sums = statistics[:3], statistics[3 + grid.n_template : -dim - dim**2]
    low = -1e-9 * max(sums.max(), 0.0)
    left = bool((head < 0).any() or (sums < low).any())
    np.maximum(sums, 0.0, out=sums)
    if (head <= 0).any():
        statistics[:] = 0.0
        return left
    averages = split(grid, statistics)
    count = max(n_rows * head[0], 1e-3)
    # The result of the M-step matters: priors repair a lot. A square that is far too
    # small for sums at mid-points that no images have grows step by step.
    for _ in range(RULE.most_growth):
        mean_square = averages.square / averages.observed
        guess = 0.1 * mean_square
        variance = posterior_template(grid, averages, count, priors, guess)[1]
        if not variance <= RULE.least_noise * mean_square:
            break
        left = True
        unexplained = unexplained_square(grid, averages, priors.equations.jitter)
        if not np.isfinite(unexplained):  # no matrix of images
            unexplained = -averages.square
        # So that the noise is just above the least share of the new square.
        share = 1.01 * RULE.least_noise
        missing = (share * averages.square - unexplained) / (1 - share)
        head[1] += head[0] * max(missing, RULE.least_noise * averages.square)
        averages = split(grid, statistics)
    _, thin = priors.posterior_covariance(grid, averages.outer, count, covariance_type)
    if thin:
        left = True
        values, vectors = np.linalg.eigh((outer + outer.T) / 2)
        outer[:] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return left
