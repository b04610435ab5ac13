"""Gaussian rows, with five structures of the covariances."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sktem.emissions.base import Emission, something_observed
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.gaussian_moments import (
    gaussian_m_step,
    gaussian_penalty,
    projected_moments,
    split_moments,
)
from sktem.emissions.patterns import patterns_of

__all__ = ["Gaussian", "GaussianParams"]


class GaussianParams(NamedTuple):
    """Parameters of Gaussian rows.

    Attributes
    ----------
    means : ndarray of shape (K, d)
        Means.
    covariances : ndarray
        Covariances in the shape of their structure: (K, d, d) if full, (d, d) if tied,
        (K, d) if diag, (K,) if spherical or unit.
    precisions_cholesky : ndarray
        Factors P with ``P P' = inverse covariance``, in the same shape.
    centre : ndarray of shape (d,)
        Fixed point about which the statistics are held.
    degenerate : int
        States whose covariance was floored, or that were kept because they had lost
        all their data, in the last M-step.
    """

    means: np.ndarray
    covariances: np.ndarray
    precisions_cholesky: np.ndarray
    centre: np.ndarray
    degenerate: int = 0


class Gaussian(Emission):
    """Rows with a Gaussian distribution.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}, default="full"
        One matrix each, one matrix for all, variances each, one variance each, or the
        identity, not learned.
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances.
    mean_penalty : float, default=0.0
        Penalty delta on the means, per row: ``delta / 2 (m_k - m_0)' C_k^-1 (m_k -
        m_0)``.
    mean_prior : array-like of shape (d,) or None, default=None
        m_0; None is the origin.
    covariance_prior : array-like, float or None, default=None
        Matrix, diagonal or number towards which covariances shrink.
    covariance_prior_strength : float, default=0.0
        Its weight, as a share of the data.

    Notes
    -----
    Of a row with holes, the conditional means and covariances of what is missing enter
    the statistics, as in Dempster, Laird and Rubin (1977); rows are grouped by the
    columns that have been observed.

    References
    ----------
    Z. Ghahramani and M. I. Jordan, Supervised learning from incomplete data via an EM
    approach, NIPS 6, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Gaussian
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, np.nan]])
    >>> params = Gaussian("diag").start(X, np.ones((3, 1)))
    >>> params.means
    array([[2., 2.]])
    """

    def __init__(
        self,
        covariance_type="full",
        reg_covar=1e-6,
        mean_penalty=0.0,
        mean_prior=None,
        covariance_prior=None,
        covariance_prior_strength=0.0,
    ):
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.mean_penalty = mean_penalty
        self.mean_prior = mean_prior
        self.covariance_prior = covariance_prior
        self.covariance_prior_strength = covariance_prior_strength

    def structure(self, K, d):
        """Return the structure of the covariances.

        Parameters
        ----------
        K : int
            Number of states.
        d : int
            Number of columns.

        Returns
        -------
        object
            An instance of a class of ``COVARIANCES``.
        """
        return COVARIANCES[self.covariance_type](K, d)

    def start(self, X, R):
        """Return the moments of each state; of the observed values, if some lack."""
        K, d = R.shape[1], X.shape[1]
        centre = np.array([_median(column) for column in X.T])
        structure = self.structure(K, d)
        deviations = X - centre
        variances = np.array([_variance(column) for column in deviations.T])
        one = np.diag(variances) + self.reg_covar * np.eye(d)
        shapes = {
            "full": lambda: np.repeat(one[None], K, axis=0),
            "tied": lambda: one,
            "diag": lambda: np.repeat(np.diagonal(one)[None], K, axis=0),
            "spherical": lambda: np.full(K, variances.mean() + self.reg_covar),
            "unit": lambda: np.ones(K),
        }
        covariances = shapes[self.covariance_type]()
        observed = ~np.isnan(X)
        sums = R.T @ np.where(observed, deviations, 0.0)
        mass = R.T @ observed.astype(np.float64)
        means = centre + sums / np.where(mass > 0, mass, 1.0)
        factors = structure.precisions_cholesky(covariances)
        params = GaussianParams(means, covariances, factors, centre)
        return self.maximize(self.statistics(X, R, params), params)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        X = np.asarray(X, dtype=np.float64)
        if self.covariance_type in ("full", "tied"):
            return self._dense_log_density(X, params)
        factors = params.precisions_cholesky.reshape(len(params.means), -1)
        factors = factors * np.ones(X.shape[1])
        observed = ~np.isnan(X)
        values = (observed @ (np.log(factors) - 0.5 * math.log(2 * math.pi)).T).astype(
            np.float64
        )
        for k, mean in enumerate(params.means):
            y = np.where(observed, X - mean, 0.0) * factors[k]
            values[:, k] -= 0.5 * np.einsum("nd,nd->n", y, y)
        return values

    def _dense_log_density(self, X, params):
        """Return log-densities with matrices of covariances."""
        n, d = X.shape
        K = len(params.means)
        tied = self.covariance_type == "tied"
        values = np.zeros((n, K))
        for pattern in patterns_of(X):
            columns = pattern.observed
            factors = params.precisions_cholesky
            if len(pattern.missing):
                block = params.covariances[..., columns[:, None], columns]
                factors = self.structure(K, len(columns)).precisions_cholesky(block)
                rows = X[np.asarray(pattern.rows)[:, None], columns]
            else:
                rows = X[pattern.rows]
            for k, mean in enumerate(params.means[:, columns]):
                factor = factors if tied else factors[k]
                y = (rows - mean) @ factor
                constant = np.log(np.diagonal(factor)).sum()
                constant -= 0.5 * len(columns) * math.log(2 * math.pi)
                values[pattern.rows, k] = constant - 0.5 * np.einsum("nd,nd->n", y, y)
        return values

    def statistics(self, X, R, params):
        """Return masses, first and packed second moments about the centre."""
        X, R = something_observed(np.asarray(X, dtype=np.float64), R)
        if self.covariance_type in ("full", "tied"):
            return self._dense_statistics(X, R, params)
        K, d = params.means.shape
        mass = R.sum(axis=0)
        z = X - params.centre
        missing = np.isnan(z)
        if not missing.any():
            first, second = R.T @ z, R.T @ z**2
        else:
            filled = np.where(missing, 0.0, z)
            absent = R.T @ missing
            means = params.means - params.centre
            variances = params.covariances.reshape(K, -1)
            first = R.T @ filled + absent * means
            second = R.T @ filled**2 + absent * (means**2 + variances)
        parts = [mass, first.ravel()]
        if self.covariance_type == "diag":
            parts.append(second.ravel())
        elif self.covariance_type == "spherical":
            parts.append(second.sum(axis=1))
        return np.concatenate(parts)

    def _dense_statistics(self, X, R, params):
        """Return statistics with all products of columns."""
        K, d = params.means.shape
        tied = self.covariance_type == "tied"
        means = params.means - params.centre
        first, second = np.zeros((K, d)), np.zeros((K, d, d))
        for pattern in patterns_of(X):
            z = X[pattern.rows] - params.centre
            shares = R[pattern.rows]
            holes, seen = pattern.missing, pattern.observed
            if len(holes):
                fill = _Completion(params.covariances, seen, holes)
            for k in range(K):
                if len(holes):
                    fill.complete(z, means[k], 0 if tied else k)
                    spread = shares[:, k].sum() * fill.spread(0 if tied else k)
                    second[k][holes[:, None], holes] += spread
                weighted = z * shares[:, k, None]
                first[k] += weighted.sum(axis=0)
                second[k] += weighted.T @ z
        if tied:
            second = second.sum(axis=0)
        packed = self.structure(K, d).pack(second)
        return np.concatenate([R.sum(axis=0), first.ravel(), packed.ravel()])

    def maximize(self, s, params):
        """Return the weighted moments, with the prior."""
        K, d = params.means.shape
        moments = split_moments(s, K, d)
        prior_mean = np.zeros(d) if self.mean_prior is None else self.mean_prior
        spare = params._replace(means=params.means - params.centre)
        means, covariances, factors, degenerate = gaussian_m_step(
            self,
            moments,
            spare,
            np.asarray(prior_mean, dtype=np.float64) - params.centre,
            float(moments.mass.sum()),
        )
        means = means + params.centre
        return GaussianParams(means, covariances, factors, params.centre, degenerate)

    def project(self, s, params=None):
        """Return statistics with non-negative masses and covariances.

        Means and covariances are kept, whatever becomes of the masses. The parameters
        tell the number of states and columns.
        """
        if params is None:
            raise ValueError("statistics of Gaussian are projected given params")
        moments = split_moments(s, *params.means.shape)
        total = float(moments.mass.sum())
        moments, left = projected_moments(self.covariance_type, moments, total)
        return (np.concatenate([np.ravel(m) for m in moments]) if left else s), left

    def penalty(self, params):
        """Return the penalty of means and covariances, per row."""
        K, d = params.means.shape
        prior_mean = np.zeros(d) if self.mean_prior is None else self.mean_prior
        return gaussian_penalty(self, params, params.means - prior_mean)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        K, d = params.means.shape
        X = params.means[states]
        structure = self.structure(K, d)
        for k in range(K):
            rows = np.flatnonzero(states == k)
            X[rows] += structure.draw(params.covariances, k, len(rows), rng)
        return X

    def n_parameters(self, K, d, params=None):
        """Return the number of means and free covariances."""
        return K * d + self.structure(K, d).n_parameters

    def marginal(self, params, columns):
        """Return means and covariances of some columns."""
        columns = np.asarray(columns)
        covariances = params.covariances
        if self.covariance_type in ("full", "tied"):
            covariances = covariances[..., columns[:, None], columns]
        elif self.covariance_type == "diag":
            covariances = covariances[:, columns]
        structure = self.structure(len(params.means), len(columns))
        factors = structure.precisions_cholesky(covariances)
        return GaussianParams(
            params.means[:, columns], covariances, factors, params.centre[columns]
        )


class _Completion:
    """Conditional moments of the missing columns given the observed ones."""

    def __init__(self, covariances, seen, holes):
        stack = covariances.reshape(-1, *covariances.shape[-2:])
        between = stack[:, seen[:, None], holes]
        self.seen, self.holes = seen, holes
        self.slopes = np.linalg.solve(stack[:, seen[:, None], seen], between)
        explained = np.swapaxes(between, 1, 2) @ self.slopes
        self.spreads = stack[:, holes[:, None], holes] - explained

    def complete(self, z, mean, k):
        """Fill the holes of rows by their conditional means."""
        z[:, self.holes] = (
            mean[self.holes] + (z[:, self.seen] - mean[self.seen]) @ self.slopes[k]
        )

    def spread(self, k):
        """Return the conditional covariance of the holes."""
        return self.spreads[k]


def _median(column):
    """Return the median of what is observed of a column, 0 of nothing."""
    column = column[~np.isnan(column)]
    return float(np.median(column)) if len(column) else 0.0


def _variance(column):
    """Return the variance of what is observed of a column, 1 of nothing."""
    column = column[~np.isnan(column)]
    value = float(np.var(column)) if len(column) else 1.0
    return value if value > 0 else 1.0
