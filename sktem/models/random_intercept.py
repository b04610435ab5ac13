"""Gaussian model with a random intercept: the smallest complete example of a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.models.base import LatentModel

__all__ = ["RandomInterceptModel", "RandomInterceptParams"]


class RandomInterceptParams(NamedTuple):
    """Parameters of the random-intercept model.

    Attributes
    ----------
    mean : float
        Mean of the intercepts.
    variance : float
        Variance of the intercepts.
    noise_variance : float
        Variance of the observations around their intercept.
    """

    mean: float
    variance: float
    noise_variance: float


class RandomInterceptModel(LatentModel):
    """Repeated measurements of n subjects around a random intercept.

    ``y_ij = z_i + eps_ij`` with ``z_i ~ N(mean, variance)`` and ``eps_ij ~ N(0,
    noise_variance)``; row i of X holds the measurements of subject i. The posterior of
    an intercept is Gaussian, and the maximum-likelihood estimate has a closed form, so
    that every solver and sampler can be checked against it.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEM
    >>> from sktem.models import RandomInterceptModel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(3.0, 1.0, size=(500, 1)) + rng.normal(0, 0.5, size=(500, 4))
    >>> em = StochasticEM(RandomInterceptModel(), solver="em", tol=1e-10).fit(X)
    >>> bool(abs(em.params_.mean - X.mean()) < 1e-4)
    True
    """

    def initial_params(self, X, rng):
        """Return starting parameters from the overall mean and variance."""
        variance = float(X.var())
        if variance == 0:
            raise ValueError(
                "X has no variance: it is constant, or so small that its squares are 0"
            )
        return RandomInterceptParams(float(X.mean()), variance, variance)

    def initial_latents(self, X, params, rng):
        """Return the subjects' means, of shape (n, 1)."""
        return X.mean(axis=1, keepdims=True)

    def mean_statistics(self, X, Z, sample_weight=None):
        """Average ``z``, ``z^2`` and the mean squared residual."""
        residual = ((X - Z) ** 2).mean(axis=1, keepdims=True)
        return np.average(np.hstack([Z, Z**2, residual]), axis=0, weights=sample_weight)

    def maximize(self, s, params):
        """Return the moments as parameters, with positive variances."""
        s, _ = self.project(s)
        return RandomInterceptParams(s[0], s[1] - s[0] ** 2, s[2])

    def _moments(self, X, params):
        m = X.shape[1]
        variance = 1 / (1 / params.variance + m / params.noise_variance)
        mean = variance * (
            params.mean / params.variance + X.sum(axis=1) / params.noise_variance
        )
        return mean[:, None], variance

    def posterior(self, X, params):
        """Return two points per row that carry the posterior's first two moments."""
        mean, variance = self._moments(X, params)
        return mean[:, :, None] + np.sqrt(variance) * np.array([[[-1.0], [1.0]]])

    def draw_posterior(self, X, params, n_draws, rng):
        """Draw from the Gaussian posterior, shape (n, n_draws, 1)."""
        mean, variance = self._moments(X, params)
        noise = rng.standard_normal((len(X), n_draws, 1))
        return mean[:, :, None] + np.sqrt(variance) * noise

    def log_joint(self, X, Z, params):
        """Return ``log f(x_i, z_i; theta)``."""
        squares = ((X - Z) ** 2).sum(axis=1) / params.noise_variance
        squares += (Z[:, 0] - params.mean) ** 2 / params.variance
        m = X.shape[1]
        log_det = m * np.log(2 * np.pi * params.noise_variance)
        return -0.5 * (squares + log_det + np.log(2 * np.pi * params.variance))

    def grad_log_joint(self, X, Z, params):
        """Return the gradient of ``log_joint`` in z."""
        pull = (X - Z).sum(axis=1, keepdims=True) / params.noise_variance
        return pull - (Z - params.mean) / params.variance

    def project(self, s):
        """Keep both variances positive."""
        floor = 1e-10 * (1 + s[0] ** 2)
        inside = np.array([s[0], max(s[1], s[0] ** 2 + floor), max(s[2], floor)])
        return inside, bool((inside != s).any())

    def log_likelihood(self, X, params):
        """Return the marginal log-likelihood of each row."""
        m = X.shape[1]
        total = params.noise_variance + m * params.variance
        deviation = X - params.mean
        mean = deviation.mean(axis=1)
        within = ((deviation - mean[:, None]) ** 2).sum(axis=1)
        squares = within / params.noise_variance + m * mean**2 / total
        log_det = (m - 1) * np.log(params.noise_variance) + np.log(total)
        return -0.5 * (squares + log_det + m * np.log(2 * np.pi))
