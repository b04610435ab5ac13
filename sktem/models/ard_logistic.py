"""Logistic regression whose coefficients have variances of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import expit

from sktem.models.base import LatentModel

__all__ = ["ARDLogisticModel", "ARDLogisticParams", "WholeData"]

#: Variance of the intercept, and the least variance of a coefficient.
INTERCEPT_VARIANCE, LEAST_VARIANCE = 100.0, 1e-10
#: What is left of a variance after one M-step, at least.
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
    """

    def __init__(self, X, y, count=1):
        self.X = X
        self.y = y
        self.count = count
        self.mode = None
        self._derived: dict[str, np.ndarray] = {}  # copies for other counts share it

    def __len__(self):
        """Return the number of rows."""
        return self.count

    def __getitem__(self, rows):
        """Return the data set for some of the rows."""
        return self._with_count(len(np.arange(self.count)[rows]))

    def repeat(self, count):
        """Return the data set for several chains.

        Parameters
        ----------
        count : int
            Chains.

        Returns
        -------
        WholeData
            The same data.
        """
        return self._with_count(self.count * count)

    def _with_count(self, count):
        other = WholeData(self.X, self.y, count)
        other._derived = self._derived
        return other

    @property
    def absolute_design(self) -> np.ndarray:
        """Absolute values of ``[1, X]``, kept: chains ask for them at every step."""
        if "absolute_design" not in self._derived:
            design = np.column_stack([np.ones(len(self.X)), self.X])
            self._derived["absolute_design"] = np.abs(design)
        return self._derived["absolute_design"]


class ARDLogisticModel(LatentModel):
    """Labels by a logistic regression with ``beta_j ~ N(0, 1 / theta_j^2)``.

    The latents are the intercept and the coefficients, the statistics their mean
    squares, and the M-step is ``1 / theta_j^2 = E(beta_j^2)``: the variance of what is
    not relevant goes to zero. A variance falls by a tenth per step at most, so that
    chains which have not yet found a coefficient do not lose it; where it settles does
    not depend on that.

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

    def initial_params(self, X, rng):
        """Return equal variances, of one or such that the logits have that of three."""
        p = X.X.shape[1]
        return ARDLogisticParams(np.full(p, min(1.0, 3.0 / p)))

    def initial_latents(self, X, params, rng):
        """Return the posterior mode, with noise of the size of the curvature."""
        if X.mode is None:
            X.mode = optimize.minimize(
                lambda z: -self.log_joint(X, z[None], params)[0],
                np.zeros(1 + X.X.shape[1]),
                jac=lambda z: -self.grad_log_joint(X, z[None], params)[0],
                method="L-BFGS-B",
            ).x
        noise = rng.standard_normal((len(X), len(X.mode)))
        return X.mode + np.sqrt(self.curvature_scale(X, params)) * noise

    def mean_statistics(self, X, Z, sample_weight=None):
        """Average the squares of the coefficients."""
        return np.average(Z[:, 1:] ** 2, axis=0, weights=sample_weight)

    def maximize(self, s, params):
        """Return the mean squares as variances, which fall by a tenth at most."""
        least = LEAST_VARIANCE if params is None else LARGEST_FALL * params.variances
        return ARDLogisticParams(np.maximum(np.maximum(s, least), LEAST_VARIANCE))

    def _all_variances(self, params):
        return np.append(INTERCEPT_VARIANCE, params.variances)

    def prior_moments(self, X, params):
        """Return means of zero and the standard deviations on a diagonal."""
        root = np.diag(np.sqrt(self._all_variances(params)))
        return np.zeros((len(X), len(root))), root

    def curvature_scale(self, X, params):
        """Return variances whose inverses bound the curvature of ``-log_joint``.

        Parameters
        ----------
        X : WholeData
            Data.
        params : ARDLogisticParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_features + 1,)
            With ``A = [1, X]`` the Hessian is at most ``A' A / 4``, and that at most
            the diagonal ``sum_k |A' A|_jk r_k / (4 r_j)`` for any positive r; here r
            are the prior standard deviations, so that what is not relevant costs
            nothing.
        """
        variances = self._all_variances(params)
        r = np.sqrt(variances)
        A = X.absolute_design
        bound = A.T @ (A @ r) / (4 * r)
        return 1 / (1 / variances + bound)

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
