"""Gaussian rows, with five structures of the covariances."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from sktem.emissions.base import something_observed
from sktem.emissions.elliptical import (
    Elliptical,
    all_observed,
    complete_moments,
    completed_moments,
    conditional_moments,
    distances,
    fill_draws,
    gaussian_log_densities,
    pooled_start,
)
from sktem.emissions.gaussian_moments import (
    gaussian_m_step,
    gaussian_penalty,
    projected_moments,
    split_moments,
)
from sktem.emissions.spread import spread_of

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
        Fixed point relative to which the statistics are kept.
    degenerate : int
        Number of states whose covariance was floored, or that were kept unchanged
        because they had lost all their data, in the last M-step.
    """

    means: np.ndarray
    covariances: np.ndarray
    precisions_cholesky: np.ndarray
    centre: np.ndarray
    degenerate: int = 0


class Gaussian(Elliptical):
    """Rows with a Gaussian distribution.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}, default="full"
        Each state has its own matrix, all share one matrix, each has its own variances,
        each has a single variance, or all have the identity (not learned).
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances.
    mean_penalty : float, default=0.0
        Penalty delta on the means, per row: ``delta / 2 (m_k - m_0)' C_k^-1 (m_k -
        m_0)``.
    mean_prior : array-like of shape (d,) or None, default=None
        m_0; None is the origin.
    covariance_prior : array-like, float or None, default=None
        Matrix, diagonal or number towards which covariances are shrunk.
    covariance_prior_strength : float, default=0.0
        Weight of the covariance prior, as a share of the data.

    Notes
    -----
    For a row with holes, the conditional means and covariances of the missing values
    enter the statistics, as in Dempster, Laird and Rubin (1977). Rows are grouped by
    their observed columns.

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

    separate = ("means", "covariances")

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

    def start(self, X, R):
        """Return the moments of each state, from the observed values."""
        centre, means, covariances = pooled_start(self, X, R)
        structure = self.structure(*means.shape)
        factors = structure.precisions_cholesky(covariances)
        params = GaussianParams(means, covariances, factors, centre)
        return self.maximize(self.statistics(X, R, params), params)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        if all_observed(X):
            return gaussian_log_densities(self.covariance_type, X, params)
        squares, log_dets, counts = distances(self.covariance_type, X, params)
        constants = log_dets - 0.5 * math.log(2 * math.pi) * counts
        return np.subtract(
            constants, np.multiply(squares, 0.5, out=squares), out=squares
        )

    def statistics(self, X, R, params):
        """Return masses, first and packed second moments about the centre."""
        X = np.asarray(X, dtype=np.float64)
        if all_observed(X):
            mass, first, second = complete_moments(self.covariance_type, X, R, params)
        else:
            X, R = something_observed(X, R)
            first, second = completed_moments(self.covariance_type, X, R, params)
            mass = R.sum(axis=0)
        return np.concatenate([mass, first.ravel(), second.ravel()])

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

    def maximize_held(self, s, params, held):
        """Return means, or covariances about means that are held."""
        if "means" in held:
            # Statistics whose means are these, and whose scatter about them is kept.
            structure = self.structure(*params.means.shape)
            mass, first, second = split_moments(s, *params.means.shape)
            before, means = params.means - params.centre, np.zeros_like(first)
            np.divide(first, mass[:, None], out=means, where=mass[:, None] > 0)
            scatter = structure.unpack(second) - structure.outer(means, mass)
            scatter = scatter + structure.outer(means - before, mass)
            second = structure.pack(scatter + structure.outer(before, mass))
            s = np.concatenate([mass, (mass[:, None] * before).ravel(), second])
        if "covariances" in held:
            held = (*held, "precisions_cholesky")
        return super().maximize_held(s, params, held)

    def n_held(self, K, d, params, held):
        """Return the number of free entries of means or covariances."""
        counts = {"means": K * d, "covariances": self.structure(K, d).n_parameters}
        return sum(counts[name] for name in held)

    def project(self, s, params=None):
        """Return statistics with non-negative masses and covariances.

        Means and covariances are kept, whatever becomes of the masses. The parameters
        imply the number of states and columns.
        """
        if params is None:
            raise ValueError("statistics of Gaussian are projected given params")
        moments = split_moments(s, *params.means.shape)
        total = float(moments.mass.sum())
        moments, left = projected_moments(self.covariance_type, moments, total)
        return (np.concatenate([np.ravel(m) for m in moments]) if left else s), left

    def spreads(self, params):
        """Return the covariances."""
        return [spread_of(self, params, has_prior=self.covariance_prior_strength > 0)]

    def penalty(self, params):
        """Return the penalty of means and covariances, per row."""
        K, d = params.means.shape
        prior_mean = np.zeros(d) if self.mean_prior is None else self.mean_prior
        return gaussian_penalty(self, params, params.means - prior_mean)

    def draw(self, X, states, params, rng):
        """Return rows with missing values replaced by draws."""
        ones = np.ones(len(states))
        return fill_draws(self.covariance_type, X, states, params, rng, ones)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        K, d = params.means.shape
        X = params.means[states]
        structure = self.structure(K, d)
        for k in range(K):
            rows = np.flatnonzero(states == k)
            X[rows] += structure.draw(params.covariances, k, len(rows), rng)
        return X

    def condition(self, params, columns, values, others):
        """Return the Gaussian of some columns given the values of others."""
        emission = clone(self)
        if self.mean_prior is not None:
            emission.mean_prior = np.asarray(self.mean_prior)[others]
        if np.ndim(self.covariance_prior) > 0:
            prior = np.asarray(self.covariance_prior)[others]
            emission.covariance_prior = prior[:, others] if prior.ndim == 2 else prior
        means, covariances = conditional_moments(
            self.covariance_type, params, columns, values, others
        )
        structure = self.structure(len(means), len(others))
        factors = structure.precisions_cholesky(covariances)
        centre = params.centre[others]
        return emission, GaussianParams(means, covariances, factors, centre)
