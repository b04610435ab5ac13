"""Poisson regression with a Gaussian error on the logarithm of the rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from sktem.models.base import LatentModel

__all__ = ["RobustPoissonModel", "RobustPoissonParams", "quadrature_nodes"]

#: Nodes of the quadrature over one latent.
N_NODES = 24
#: Least variance of the latents.
LEAST_VARIANCE = 1e-8


class RobustPoissonParams(NamedTuple):
    """Parameters of the robust Poisson regression.

    Attributes
    ----------
    coefficients : ndarray of shape (n_features + 1,)
        Intercept and slopes.
    variance : float
        Variance of the latent logarithms of rates.
    """

    coefficients: np.ndarray
    variance: float


class RobustPoissonModel(LatentModel):
    """Counts ``y_i ~ Poisson(exp(z_i))`` with ``z_i ~ N(alpha + x_i beta, variance)``.

    Rows of X are ``(y_i, 1, x_i)``. The statistics are the moments of z and its
    products with the regressors, and the M-step is joint least squares.

    References
    ----------
    S. Gruffaz, K. Kim, A. Durmus and J. Gardner, Stochastic Approximation with Biased
    MCMC for Expectation Maximization, AISTATS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEM
    >>> from sktem.models import RobustPoissonModel
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = rng.poisson(np.exp(1 + 0.5 * x + 0.4 * rng.normal(size=2000)))
    >>> em = StochasticEM(RobustPoissonModel(), solver="em", tol=1e-8)
    >>> em = em.fit(np.column_stack([y, np.ones(2000), x]))
    >>> em.params_.coefficients.round(1)
    array([1. , 0.5])
    """

    def initial_params(self, X, rng):
        """Return least squares of ``log(y + 1/2)``."""
        target = np.log(X[:, 0] + 0.5)
        coefficients = np.linalg.lstsq(X[:, 1:], target, rcond=None)[0]
        rest = target - X[:, 1:] @ coefficients
        return RobustPoissonParams(coefficients, max(float(rest.var()), 0.01))

    def initial_latents(self, X, params, rng):
        """Return ``log(y + 1/2)``, of shape (n, 1)."""
        return np.log(X[:, :1] + 0.5)

    def mean_statistics(self, X, Z, sample_weight=None):
        """Average ``d d'``, ``d z`` and ``z^2``, d being the regressors."""
        D = X[:, 1:]
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        weighted = (D * (weights / weights.sum())[:, None]).T
        second = np.average(Z[:, 0] ** 2, weights=sample_weight)
        return np.concatenate([(weighted @ D).ravel(), weighted @ Z[:, 0], [second]])

    def maximize(self, s, params):
        """Return joint least squares and the mean squared deviation."""
        p = len(params.coefficients)
        gram, cross = s[: p * p].reshape(p, p), s[p * p : -1]
        coefficients = np.linalg.lstsq(gram, cross, rcond=None)[0]
        fitted = 2 * cross @ coefficients - coefficients @ gram @ coefficients
        return RobustPoissonParams(
            coefficients, max(float(s[-1] - fitted), LEAST_VARIANCE)
        )

    def project(self, s):
        """Keep the variance positive."""
        p = int(np.sqrt(len(s)))
        gram, cross = s[: p * p].reshape(p, p), s[p * p : -1]
        explained = cross @ np.linalg.lstsq(gram, cross, rcond=None)[0]
        inside = s.copy()
        inside[-1] = max(s[-1], explained + LEAST_VARIANCE)
        return inside, bool(inside[-1] != s[-1])

    def log_joint(self, X, Z, params):
        """Return ``log p(y_i, z_i)``."""
        y, z = X[:, 0], Z[:, 0]
        deviation = z - X[:, 1:] @ params.coefficients
        prior = -0.5 * deviation**2 / params.variance
        prior = prior - 0.5 * np.log(2 * np.pi * params.variance)
        with np.errstate(over="ignore"):
            return y * z - np.exp(z) - gammaln(y + 1) + prior

    def grad_log_joint(self, X, Z, params):
        """Return the derivative of ``log_joint`` in z."""
        mean = (X[:, 1:] @ params.coefficients)[:, None]
        with np.errstate(over="ignore"):
            return X[:, :1] - np.exp(Z) - (Z - mean) / params.variance

    def log_likelihood(self, X, params):
        """Return the marginal log-likelihood of each row, by quadrature."""
        return logsumexp(quadrature_nodes(X, params)[1], axis=1)

    def posterior(self, X, params):
        """Return two points per row that carry the posterior's first two moments."""
        z, terms = quadrature_nodes(X, params)
        shares = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
        mean = (shares * z).sum(axis=1)
        variance = (shares * (z - mean[:, None]) ** 2).sum(axis=1)
        spread = np.sqrt(variance)[:, None, None] * np.array([[[-1.0], [1.0]]])
        return mean[:, None, None] + spread


def quadrature_nodes(X, params, n_nodes=N_NODES):
    """Return adaptive Gauss-Hermite nodes, and log-weights times densities."""
    y, mean = X[:, 0], X[:, 1:] @ params.coefficients
    variance = params.variance
    # With w = variance * exp(mode) the mode solves w + log(w) = target.
    target = np.log(variance) + mean + variance * y
    w = np.where(target > 1, np.maximum(target, 1.0), np.exp(np.minimum(target, 1)))
    for _ in range(8):
        w = np.maximum(w * (1 + target - np.log(w)) / (1 + w), 1e-300)
    mode = mean + variance * y - w
    scale = np.sqrt(variance / (1 + w))
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    z = mode[:, None] + scale[:, None] * nodes
    deviation = (z - mean[:, None]) ** 2 / variance
    with np.errstate(over="ignore"):
        log_density = y[:, None] * z - np.exp(z) - 0.5 * deviation
    log_density -= (gammaln(y + 1) + 0.5 * np.log(2 * np.pi * variance))[:, None]
    log_weights = np.log(weights) + 0.5 * nodes**2
    return z, log_density + log_weights + np.log(scale)[:, None]
