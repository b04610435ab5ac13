"""Marginal likelihoods of subjects by importance sampling and quadrature."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, ndtri

from sktem.progress import counted
from sktem.sequences.rows import each_block

__all__ = [
    "ImportanceDraws",
    "importance_draws",
    "quadrature_draws",
    "single_point",
    "thin_latents",
    "thin_size",
]

#: Copies of the subjects that are evaluated at once, times subjects.
DRAWS_AT_ONCE = 1 << 14


class Spread(NamedTuple):
    """Proposal distribution of importance draws.

    Attributes
    ----------
    about_modes : float
        Standard deviation of the draws about modes, in units of the posterior's.
    of_prior : float
        Share of the draws from the prior: no posterior is so far
        from its mode, or so far from normal, that weights have no bound.
    n_parts : int
        Independent parts of the draws, each with a shift of its own.
    """

    about_modes: float = 1.4
    of_prior: float = 0.05
    n_parts: int = 8


SPREAD = Spread()

#: Latents beyond which those of hardly any variance get few nodes.
MOST_BY_NODES = 5


class ImportanceDraws:
    """Weighted points of the latents of each subject.

    Averages over them stand for integrals: ``integral h = sum_q exp(log_weights) h``.

    Parameters
    ----------
    points : ndarray of shape (n_points, n, d)
        Points.
    log_weights : ndarray of shape (n_points, n)
        Logarithms of the weights.
    n_parts : int, default=0
        Independent parts of points that were drawn, so that the sum has a Monte Carlo
        error; 0 for nodes.
    """

    def __init__(self, points, log_weights, n_parts=0):
        self.points = points
        self.log_weights = log_weights
        self.n_parts = n_parts

    @property
    def random(self) -> bool:
        """Whether the points were drawn."""
        return self.n_parts > 0

    @property
    def kind(self) -> str:
        """Name of the kind of points."""
        return "importance draws" if self.random else "quadrature nodes"

    def parts(self) -> list[ImportanceDraws]:
        """Return the independent parts."""
        weights = np.array_split(self.log_weights, self.n_parts)
        points = np.array_split(self.points, self.n_parts)
        return [ImportanceDraws(*both, 1) for both in zip(points, weights, strict=True)]

    def log_conditional(self, model, X, params):
        """Return the log-likelihood of the subjects at each point."""
        return self._in_chunks(model.log_conditional, X, params)

    def log_prior(self, model, X, params):
        """Return the log-density of the points."""
        return self._in_chunks(model.log_prior, X, params)

    def log_joint(self, model, X, params):
        """Return the log-density of observations and points."""
        log_joint = self.log_conditional(model, X, params)
        log_joint += self.log_prior(model, X, params)
        return log_joint

    def _in_chunks(self, function, X, params):
        of_block = partial(_at_points, function, params, self.kind)
        blocks = each_block(X, of_block, lambda subjects: (self.points[:, subjects],))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def log_likelihood(self, log_joint):
        """Return log-likelihoods of the subjects and the error of their sum."""
        terms = log_joint + self.log_weights
        values = logsumexp(terms, axis=0)
        if not self.random:
            return values, 0.0
        relative = np.exp(terms - values) * len(terms)
        means = [part.mean(axis=0) for part in np.array_split(relative, self.n_parts)]
        variances = np.var(means, axis=0, ddof=1) / self.n_parts
        return values, float(np.sqrt(variances.sum()))


def _at_points(function, params, kind, block, points):
    """Return a function of subjects that are in memory, at points of each."""
    n_points, n, _ = points.shape
    values = np.empty((n_points, n))
    at_once = max(1, min(n_points, DRAWS_AT_ONCE // max(n, 1)))
    for start in counted(range(0, n_points, at_once), f"Likelihood: blocks of {kind}"):
        part = points[start : start + at_once].transpose(1, 0, 2)
        values[start : start + at_once] = function(block, part, params).T
    return values


def importance_draws(modes, covariances, n_draws, rng, prior):
    """Draw from logistic distributions along the roots of covariances at the modes.

    Their tails are heavier than Gaussian ones. The points fill the space evenly: they
    are those of a Sobol sequence, shifted at random for each subject and part. Some are
    draws from the prior, given its means and its Cholesky factor.
    """
    from scipy.stats.qmc import Sobol

    n, d = modes.shape
    roots = np.linalg.cholesky(covariances)
    n_parts = min(SPREAD.n_parts, n_draws)
    sizes = [len(part) for part in np.array_split(np.empty(n_draws), n_parts)]
    even = Sobol(d, scramble=False).random_base2(int(np.ceil(np.log2(sizes[0]))))
    places = np.concatenate([
        (even[:size, None] + rng.random((n, d))) % 1.0 for size in sizes
    ])  # fmt: skip
    places = np.clip(places, 1e-16, 1 - 1e-16)
    scale = SPREAD.about_modes * np.sqrt(3) / np.pi
    units = scale * np.log(places / (1 - places))
    points = modes + np.einsum("nij,qnj->qni", roots, units)
    log_roots = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    means, root = prior
    of_prior = np.concatenate(
        [np.arange(s) >= (1 - SPREAD.of_prior) * s for s in sizes]
    )
    points[of_prior] = means + ndtri(places[of_prior]) @ root.T
    away, inverse = points[of_prior] - modes, np.linalg.inv(roots)
    units[of_prior] = np.einsum("nij,qnj->qni", inverse, away)
    units = units / scale
    logistic = (-np.abs(units) - 2 * np.log1p(np.exp(-np.abs(units)))).sum(axis=2)
    logistic -= d * np.log(scale) + log_roots
    z = solve_triangular(root, (points - means).reshape(-1, d).T, lower=True)
    normal = -0.5 * (z**2).sum(axis=0).reshape(n_draws, n)
    normal -= 0.5 * d * np.log(2 * np.pi) + np.log(np.diag(root)).sum()
    share = of_prior.mean()
    with np.errstate(divide="ignore"):
        log_density = np.logaddexp(np.log1p(-share) + logistic, np.log(share) + normal)
    return ImportanceDraws(points, -log_density - np.log(n_draws), n_parts)


def thin_latents(model, params) -> tuple[int, ...]:
    """Return the latents whose variances are at their bounds, if there are many."""
    low = model.at_floor(params)
    return tuple(np.flatnonzero(low).tolist()) if len(low) > MOST_BY_NODES else ()


def _thin_nodes(k):
    """Return nodes for k thin latents, and logarithms of their weights.

    Moments of a standard normal density are exact up to the fifth order (formula
    5-3 of Stroud and Secrest, 1963).
    """
    if k < 3:
        return _grid(3, k)
    alone, corners = np.eye(k), np.array(list(product((-1.0, 1.0), repeat=k)))
    nodes = [np.sqrt((k + 2) / 2) * np.concatenate([alone, -alone])]
    nodes.append(np.sqrt((k + 2) / (k - 2)) * corners)
    shares = [np.full(2 * k, 4.0), np.full(2**k, (k - 2) ** 2 / 2**k)]
    grid = np.concatenate(nodes)
    log_shares = np.log(np.concatenate(shares) / (k + 2) ** 2)
    return grid, log_shares + 0.5 * (k * np.log(2 * np.pi) + (grid**2).sum(axis=1))


def thin_size(k) -> int:
    """Return the number of nodes for k thin latents."""
    return 3**k if k < 3 else 2 * k + 2**k


def _grid(n_nodes, d):
    """Return Gauss-Hermite nodes in d dimensions, and logarithms of their weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    log_weights = np.log(weights) + 0.5 * nodes**2
    grid = np.array(list(product(nodes, repeat=d))).reshape(n_nodes**d, d)
    log_grid = np.array(
        [sum(terms) for terms in product(log_weights, repeat=d)], dtype=float
    )
    return grid, log_grid


def quadrature_draws(modes, covariances, n_nodes, thin=()):
    """Return adaptive Gauss-Hermite nodes about the modes, few for thin latents."""
    d, k = modes.shape[1], len(thin)
    grid, log_grid = _grid(n_nodes, d - k)
    if thin:
        few, log_few = _thin_nodes(k)
        whole = np.empty((len(grid), len(few), d))
        whole[:, :, np.setdiff1d(np.arange(d), thin)] = grid[:, None]
        whole[:, :, thin] = few
        grid = whole.reshape(-1, d)
        log_grid = (log_grid[:, None] + log_few).ravel()
    roots = np.linalg.cholesky(covariances)
    points = modes + np.einsum("nij,qj->qni", roots, grid)
    log_det = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    return ImportanceDraws(points, log_grid[:, None] + log_det)


def single_point(n):
    """Return the one point that latents without a coordinate have."""
    return ImportanceDraws(np.empty((1, n, 0)), np.zeros((1, n)))
