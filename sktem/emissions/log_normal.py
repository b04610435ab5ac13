"""Positive rows whose logarithms are Gaussian."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from sktem.emissions.base import Emission, check_positive
from sktem.emissions.elliptical import conditional_variances
from sktem.emissions.gaussian import Gaussian

__all__ = ["LogNormal"]


class LogNormal(Emission):
    """Positive rows whose logarithms have a Gaussian distribution.

    The parameters are those of :class:`Gaussian` for the logarithms.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}, default="diag"
        Structure of the covariances of the logarithms.
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import LogNormal
    >>> X = np.exp([[0.0], [2.0]])
    >>> LogNormal().start(X, np.ones((2, 1))).means
    array([[1.]])
    """

    def __init__(self, covariance_type="diag", reg_covar=1e-6):
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar

    @property
    def _logarithms(self):
        """Return the emission of the logarithms."""
        return Gaussian(self.covariance_type, self.reg_covar)

    def check(self, X):
        """Raise ValueError for values that are not positive."""
        check_positive(self, X)

    def features(self, X):
        """Return logarithms."""
        return np.log(np.maximum(X, np.finfo(np.float64).tiny))

    def start(self, X, R):
        """Return the moments of the logarithms of each state."""
        return self._logarithms.start(np.log(X), R)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        logs = np.log(X)
        jacobian = np.nansum(logs, axis=1)[:, None]
        return self._logarithms.log_density(logs, params) - jacobian

    def statistics(self, X, R, params):
        """Return the moments of the logarithms."""
        return self._logarithms.statistics(np.log(X), R, params)

    def maximize(self, s, params):
        """Return the weighted moments of the logarithms."""
        return self._logarithms.maximize(s, params)

    def project(self, s, params=None):
        """Return statistics with non-negative masses and covariances."""
        return self._logarithms.project(s, params)

    def collapses_on(self, params):
        """Return the rows on which the covariances of the logarithms collapse."""
        return self._logarithms.collapses_on(params)

    def spreads(self, params):
        """Return the covariances of the logarithms."""
        return self._logarithms.spreads(params)

    def expected(self, X, R, params):
        """Return rows with missing values replaced by conditional means.

        Given the state they are ``exp(m + v / 2)``, with the conditional mean and
        variance of the logarithm.
        """
        logs, gaussian = np.log(X), self._logarithms
        missing = np.isnan(X)
        total = 0.0
        for k, indicator in enumerate(np.eye(R.shape[1])):
            hard = np.broadcast_to(indicator, R.shape)
            variances = conditional_variances(self.covariance_type, logs, params, k)
            means = np.exp(gaussian.expected(logs, hard, params) + variances / 2)
            total = total + R[:, k, None] * means
        return np.where(missing, total, X)

    def mode(self, X, R, params):
        """Return rows with the conditional median of the likeliest state in holes."""
        filled = np.exp(self._logarithms.mode(np.log(X), R, params))
        return np.where(np.isnan(X), filled, X)

    def draw(self, X, states, params, rng):
        """Return rows with missing values replaced by draws."""
        filled = np.exp(self._logarithms.draw(np.log(X), states, params, rng))
        return np.where(np.isnan(X), filled, X)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        return np.exp(self._logarithms.sample(params, states, rng))

    def free_directions(self, params, following, X):
        """Yield the directions of the moments of the logarithms."""
        yield from self._logarithms.free_directions(params, following, X)

    def moved(self, params, moves):
        """Return moments of the logarithms moved along directions."""
        return self._logarithms.moved(params, moves)

    def n_parameters(self, K, d, params=None):
        """Return the number of means and free covariances."""
        return self._logarithms.n_parameters(K, d)

    def marginal(self, params, columns):
        """Return means and covariances of some logarithms."""
        return self._logarithms.marginal(params, columns)

    def condition(self, params, columns, values, others):
        """Return the distribution of some columns given the values of others."""
        logs = np.log(values)
        _, conditional = self._logarithms.condition(params, columns, logs, others)
        return clone(self), conditional
