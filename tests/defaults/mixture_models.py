"""Models that a user might write, for the cases of StochasticEM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, log_ndtr

from sktem.models import LatentModel

MEASURED_AT = np.array([-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])


class ZipParams(NamedTuple):
    zeros: float
    rate: float


class ZeroInflatedPoisson(LatentModel):
    """Counts that are zero for either of two reasons."""

    averages_draws = True

    def initial_params(self, X, rng):
        return ZipParams(0.5, float(X.mean()) + 0.1)

    def mean_statistics(self, X, Z, sample_weight=None):
        terms = np.hstack([Z, 1 - Z, (1 - Z) * X])
        return np.average(terms, axis=0, weights=sample_weight)

    def maximize(self, s, params):
        s, _ = self.project(s)
        return ZipParams(s[0], s[2] / s[1])

    def project(self, s):
        inside = np.clip(s[:2], 1e-10, 1.0)
        inside = np.array([*(inside / inside.sum()), max(s[2], 1e-10)])
        return inside, bool((s[:2] < 0).any() or s[2] < 0)

    def posterior(self, X, params):
        poisson = (1 - params.zeros) * np.exp(-params.rate)
        return np.where(X == 0, params.zeros / (params.zeros + poisson), 0.0)

    def draw_posterior(self, X, params, n_draws, rng):
        return rng.binomial(n_draws, self.posterior(X, params)) / n_draws

    def log_likelihood(self, X, params):
        y = X[:, 0]
        poisson = y * np.log(params.rate) - params.rate - gammaln(y + 1)
        poisson += np.log1p(-params.zeros)
        return np.where(y == 0, np.logaddexp(poisson, np.log(params.zeros)), poisson)


class FactorParams(NamedTuple):
    mean: np.ndarray
    loadings: np.ndarray
    noise: np.ndarray


class FactorModel(LatentModel):
    """``x = mean + loadings z + noise`` with standard normal z of k coordinates."""

    def __init__(self, n_factors=2):
        self.n_factors = n_factors

    def initial_params(self, X, rng):
        variances = X.var(axis=0)
        shape = (X.shape[1], self.n_factors)
        loadings = 0.5 * np.sqrt(variances)[:, None] * rng.standard_normal(shape)
        return FactorParams(X.mean(axis=0), loadings, 0.5 * variances)

    def mean_statistics(self, X, Z, sample_weight=None):
        D = np.hstack([np.ones((len(X), 1)), Z])
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        weighted = D * (weights / weights.sum())[:, None]
        squares = np.average(X**2, axis=0, weights=sample_weight)
        parts = ((weighted.T @ D).ravel(), (weighted.T @ X).ravel(), squares)
        return np.concatenate(parts)

    def maximize(self, s, params):
        k, d = self.n_factors + 1, len(params.mean)
        second, cross = s[: k * k].reshape(k, k), s[k * k : -d].reshape(k, d)
        found = np.linalg.solve(second + 1e-12 * np.eye(k), cross)
        noise = s[-d:] - (found * cross).sum(axis=0)
        return FactorParams(found[0], found[1:].T, np.maximum(noise, 1e-10))

    def _moments(self, X, params):
        scaled = params.loadings / params.noise[:, None]
        precision = np.eye(self.n_factors) + params.loadings.T @ scaled
        covariance = np.linalg.inv(precision)
        return (X - params.mean) @ scaled @ covariance, np.linalg.cholesky(covariance)

    def posterior(self, X, params):
        """Return points that carry the first two moments."""
        means, root = self._moments(X, params)
        arms = np.sqrt(self.n_factors) * root.T
        return means[:, None] + np.concatenate([arms, -arms])

    def draw_posterior(self, X, params, n_draws, rng):
        means, root = self._moments(X, params)
        noise = rng.standard_normal((len(X), n_draws, self.n_factors))
        return means[:, None] + noise @ root.T

    def log_likelihood(self, X, params):
        covariance = params.loadings @ params.loadings.T + np.diag(params.noise)
        root = np.linalg.cholesky(covariance)
        white = np.linalg.solve(root, (X - params.mean).T)
        constant = np.log(np.diag(root)).sum() + len(root) / 2 * np.log(2 * np.pi)
        return -0.5 * (white**2).sum(axis=0) - constant


class ProbitParams(NamedTuple):
    slope: float
    variance: float


class ProbitModel(LatentModel):
    """Answers at six points, with a random intercept, by Markov chains.

    The latents are the intercept and the six utilities whose signs are the answers,
    times ``unit``.
    """

    def __init__(self, unit=1.0):
        self.unit = unit

    def initial_params(self, X, rng):
        return ProbitParams(0.0, 1.0)

    def initial_latents(self, X, params, rng):
        start = np.where(X > 0, 0.5, -0.5)
        return self.unit * np.hstack([np.zeros((len(X), 1)), start])

    def mean_statistics(self, X, Z, sample_weight=None):
        Z = Z / self.unit
        terms = [Z[:, 0] ** 2, (Z[:, 1:] - Z[:, :1]) @ MEASURED_AT]
        return np.average(np.column_stack(terms), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        return ProbitParams(s[1] / (MEASURED_AT @ MEASURED_AT), max(s[0], 1e-10))

    def log_joint(self, X, Z, params):
        Z = Z / self.unit
        rest = Z[:, 1:] - Z[:, :1] - params.slope * MEASURED_AT
        value = -0.5 * (Z[:, 0] ** 2 / params.variance + np.log(params.variance))
        value = value - 0.5 * (rest**2).sum(axis=1)
        return np.where(((Z[:, 1:] > 0) == (X > 0)).all(axis=1), value, -np.inf)

    def grad_log_joint(self, X, Z, params):
        Z = Z / self.unit
        rest = Z[:, 1:] - Z[:, :1] - params.slope * MEASURED_AT
        first = rest.sum(axis=1, keepdims=True) - Z[:, :1] / params.variance
        return np.hstack([first, -rest]) / self.unit

    def log_likelihood(self, X, params):
        """Integrate over the intercept by Gauss-Hermite quadrature."""
        points, weights = np.polynomial.hermite_e.hermegauss(40)
        eta = np.sqrt(params.variance) * points[:, None] + params.slope * MEASURED_AT
        values = log_ndtr(np.where(X > 0, 1, -1)[:, None] * eta).sum(axis=2)
        largest = values.max(axis=1)
        ratios = np.exp(values - largest[:, None])
        return largest + np.log(ratios @ (weights / weights.sum()))


def answers(seed, n, variance=1.44):
    """Return answers of n people."""
    rng = np.random.default_rng(seed)
    intercepts = np.sqrt(variance) * rng.standard_normal((n, 1))
    utilities = intercepts + MEASURED_AT + rng.standard_normal((n, 6))
    return (utilities > 0).astype(float)
