"""Logistic regression whose coefficients have their own variances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sktem.models.base import LatentModel
from sktem.regression.relevance_start import (
    INTERCEPT_VARIANCE,
    LEAST_VARIANCE,
    laplace_fit,
)

__all__ = ["ARDLogisticModel", "ARDLogisticParams", "WholeData"]

#: The least fraction of a variance that one M-step may leave.
LARGEST_FALL = 0.9


class ARDLogisticParams(NamedTuple):
    """Parameters of the automatic relevance determination.

    Attributes
    ----------
    variances : ndarray of shape (n_features,)
        Prior variances ``1 / theta_j^2`` of the coefficients.
    """

    variances: np.ndarray


class WholeData:
    """A data set as one row of the loop: its latents are the coefficients.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1.
    count : int, default=1
        How many rows the data set stands for, one per chain.
    weights : ndarray of shape (n_samples,) or None, default=None
        Curvatures ``p (1 - p)`` of the log-likelihood of the samples, from which the
        proposals of Langevin chains are made. None is 1/4 for each, the bound.
    """

    def __init__(self, X, y, count=1, weights=None):
        self.X = X
        self.y = y
        self.count = count
        self.weights = weights
        self._derived: dict[str, np.ndarray] = {}  # copies for other counts share it

    def __len__(self):
        """Return the number of rows."""
        return self.count

    def __getitem__(self, rows):
        """Return the data set for some of the rows."""
        return self._with_count(len(np.arange(self.count)[rows]))

    def repeat(self, count):
        """Return the data set for several chains."""
        return self._with_count(self.count * count)

    def _with_count(self, count):
        other = WholeData(self.X, self.y, count, self.weights)
        other._derived = self._derived
        return other

    @property
    def curvature(self) -> np.ndarray:
        """Hessian of the log-likelihood, kept: chains ask for it at every draw."""
        if "curvature" not in self._derived:
            design = np.column_stack([np.ones(len(self.X)), self.X])
            weights = 0.25 if self.weights is None else self.weights
            self._derived["curvature"] = (design.T * weights) @ design
        return self._derived["curvature"]


class ARDLogisticModel(LatentModel):
    """Labels by a logistic regression with ``beta_j ~ N(0, 1 / theta_j^2)``.

    The latents are the intercept and the coefficients, the statistics are their mean
    squares, and the M-step is ``1 / theta_j^2 = E(beta_j^2)``: the variances of
    irrelevant coefficients go to zero. A variance falls by at most a tenth per step, so
    that chains that have not yet found a coefficient do not lose it; the limit does not
    depend on this.

    Parameters
    ----------
    largest_variance : float, default=inf
        Upper bound of the variances of the coefficients.

    References
    ----------
    S. Gruffaz, K. Kim, A. Durmus and J. Gardner, Stochastic Approximation with Biased
    MCMC for Expectation Maximization, AISTATS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.models import ARDLogisticModel
    >>> s = np.array([0.25, 4.0])
    >>> ARDLogisticModel().maximize(s, None).variances
    array([0.25, 4.  ])
    """

    def __init__(self, largest_variance=np.inf):
        self.largest_variance = largest_variance

    def initial_params(self, X, rng):
        """Return equal variances, of one or such that the logits have that of three."""
        p = X.X.shape[1]
        return ARDLogisticParams(np.full(p, min(1.0, 3.0 / p)))

    def initial_latents(self, X, params, rng):
        """Return the posterior mode, with noise of the size of the curvature."""
        roots = np.sqrt(self._all_variances(params))
        mode = roots * laplace_fit(X.X, X.y, params.variances).scaled
        root = np.linalg.cholesky(self.curvature_scale(X, params))
        return mode + rng.standard_normal((len(X), len(mode))) @ root.T

    def mean_statistics(self, X, Z, sample_weight=None):
        """Average the squares of the coefficients."""
        squares = Z[:, 1:] ** 2
        if sample_weight is None:
            return squares.mean(axis=0)
        return sample_weight @ squares / sample_weight.sum()

    def maximize(self, s, params):
        """Return the mean squares as variances, which fall by a tenth at most."""
        least = LEAST_VARIANCE if params is None else LARGEST_FALL * params.variances
        bounded = np.clip(np.maximum(s, least), LEAST_VARIANCE, self.largest_variance)
        return ARDLogisticParams(bounded)

    def _all_variances(self, params):
        return np.append(INTERCEPT_VARIANCE, params.variances)

    def prior_moments(self, X, params):
        """Return means of zero and the standard deviations on a diagonal."""
        root = np.diag(np.sqrt(self._all_variances(params)))
        return np.zeros((len(X), len(root))), root

    def curvature_scale(self, X, params):
        """Return the covariance of a Gaussian with the curvature of ``log_joint``.

        Parameters
        ----------
        X : WholeData
            Data, with the curvatures of the samples.
        params : ARDLogisticParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_features + 1, n_features + 1)
            Inverse of the Hessian of ``-log_joint``, or of a bound on it if the data
            have no curvatures.
        """
        roots = np.sqrt(self._all_variances(params))
        inner = X.curvature * roots * roots[:, None]
        inner[np.diag_indices_from(inner)] += 1
        return np.linalg.inv(inner) * roots * roots[:, None]

    def _logits(self, X, Z):
        return Z[:, :1] + Z[:, 1:] @ X.X.T

    def log_joint(self, X, Z, params):
        """Return ``log p(y, beta)`` of each chain."""
        logits = self._logits(X, Z)
        log_likelihood = logits @ X.y - np.logaddexp(0.0, logits).sum(axis=1)
        variances = self._all_variances(params)
        constant = 0.5 * np.log(2 * np.pi * variances).sum()
        return log_likelihood - 0.5 * (Z**2 / variances).sum(axis=1) - constant

    def grad_log_joint(self, X, Z, params):
        """Return the gradient of ``log_joint`` in the latents."""
        rest = X.y - expit(self._logits(X, Z))
        slope = np.column_stack([rest.sum(axis=1), rest @ X.X])
        return slope - Z / self._all_variances(params)
