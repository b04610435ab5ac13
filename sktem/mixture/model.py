"""Gaussian mixture as a complete-data model."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.emissions.base import LEAST_SHARE
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.gaussian_moments import (
    gaussian_m_step,
    gaussian_penalty,
    n_features_of,
    projected_moments,
    split_moments,
)
from sktem.emissions.spread import Spread
from sktem.kernels.blocks import rows_per_block
from sktem.mixture import incomplete, tensors
from sktem.mixture.kernels import e_step as kernels
from sktem.models.base import LatentModel
from sktem.rows.held import carrier_of

__all__ = ["GaussianMixtureModel", "GaussianMixtureParams"]

#: Blocks for which the threads have work before the next rows are read.
BLOCKS_READ_AT_ONCE = 4


class GaussianMixtureParams(NamedTuple):
    """Parameters of a Gaussian mixture.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
        Mixing weights.
    means : ndarray of shape (n_components, n_features)
        Means, relative to the centre of the model.
    covariances : ndarray
        Covariances in the shape of their structure, as in scikit-learn.
    precisions_cholesky : ndarray
        Factors P with ``P P' = inverse covariance``, as in scikit-learn.
    degenerate : int
        Number of components whose covariance was floored, or that were frozen because
        they had lost all their data, in the M-step that gave these parameters.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    precisions_cholesky: np.ndarray
    degenerate: int = 0


class GaussianMixtureModel(LatentModel):
    """Complete-data model of a Gaussian mixture.

    Latents are posterior probabilities or counts of draws, of shape (n, n_components).
    The statistics are the means over rows of ``r_k``, ``r_k x`` and ``r_k x x'``, with
    x relative to a fixed ``centre``.

    The penalty that the M-step minimises, per row of data, is ``sum_k [delta/2 (m_k -
    m_0)' C_k^-1 (m_k - m_0) + tau/2 (log det C_k + trace(Psi C_k^-1)) - epsilon log
    w_k]``; a tied covariance has the tau term once. For unit covariances and ``m_0 =
    0`` it is the penalty of Karimi and Li (2021, section IV.A).

    Parameters
    ----------
    n_components : int, default=1
        Number of components K.
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}, default="full"
        Structure of the covariances; "unit" means identity, not learned.
    reg_covar : float, default=1e-6
        Added to the diagonal of the covariances.
    mean_penalty : float, default=0.0
        delta: pulls the means towards ``mean_prior``.
    mean_prior : array-like of shape (n_features,) or None, default=None
        m_0; None is the origin.
    weight_concentration : float, default=0.0
        epsilon: ``w_k = (s_k + epsilon) / (1 + epsilon K)``.
    covariance_prior : array-like, float or None, default=None
        Psi: a matrix, a diagonal or a number towards which covariances are shrunk.
    covariance_prior_strength : float, default=0.0
        tau: weight of Psi, as a share of the data.
    centre : ndarray of shape (n_features,) or None, default=None
        Fixed point relative to which statistics and means are kept; None is the origin.
        With a point among the data, an offset of the data costs no digits.
    n_jobs : int or None, default=None
        Threads of the E-step. The result does not depend on it.
    incomplete : bool or None, default=None
        Whether rows may have NaN for missing values; solvers that remember rows then
        also remember the parameters with which these were completed. None means looking
        for NaN in every computation.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEM
    >>> from sktem.models import GaussianMixtureModel
    >>> X = np.concatenate([np.full((50, 1), -2.0), np.full((50, 1), 2.0)])
    >>> X = X + np.random.default_rng(0).normal(size=X.shape)
    >>> em = StochasticEM(
    ...     GaussianMixtureModel(2, covariance_type="unit"), solver="em", random_state=0
    ... ).fit(X)
    >>> em.params_.weights.round(1)
    array([0.5, 0.5])
    """

    averages_draws = True
    reads_blocks = True

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        reg_covar=1e-6,
        mean_penalty=0.0,
        mean_prior=None,
        weight_concentration=0.0,
        covariance_prior=None,
        covariance_prior_strength=0.0,
        centre=None,
        n_jobs=None,
        incomplete=None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.mean_penalty = mean_penalty
        self.mean_prior = mean_prior
        self.weight_concentration = weight_concentration
        self.covariance_prior = covariance_prior
        self.covariance_prior_strength = covariance_prior_strength
        self.centre = centre
        self.n_jobs = n_jobs
        self.incomplete = incomplete

    @property
    def completes_rows(self):
        """Whether statistics depend on the parameters at the visit of a row."""
        return bool(self.incomplete)

    @property
    def sweep_name(self):
        """Name under which compiled sweeps are registered, of which holes have none."""
        if self.incomplete:
            return "gaussian_mixture:incomplete"
        return f"gaussian_mixture:{self.covariance_type}"

    def structure(self, n_features):
        """Return the covariance structure for a number of features."""
        return COVARIANCES[self.covariance_type](self.n_components, n_features)

    def n_parameters(self, n_features):
        """Return the number of free parameters."""
        K = self.n_components
        return self.structure(n_features).n_parameters + K * n_features + K - 1

    def _centre(self, n_features):
        return np.zeros(n_features) if self.centre is None else self.centre

    def prior_mean(self, n_features):
        """Return the mean of the prior on means, about the centre."""
        prior = np.zeros(n_features) if self.mean_prior is None else self.mean_prior
        return np.asarray(prior, dtype=np.float64) - self._centre(n_features)

    # The E-step -----------------------------------------------------------------

    def kernels_of(self, X):
        """Return the module that computes on rows of this kind."""
        if carrier_of(X).holds_tensors:
            return tensors
        if self.incomplete is False:
            return kernels
        return incomplete if incomplete.has_holes(X) else kernels

    def kernel_params(self, params):
        """Return the parameters in the form of the compiled kernels."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(params.weights)
        return kernels.GaussianKernelParams(
            self._centre(params.means.shape[1]),
            log_weights,
            params.means,
            params.precisions_cholesky,
            self.covariance_type,
        )

    def expected_statistics(self, X, params, sample_weight=None):
        """Return mean statistics and mean log-likelihood in one fused pass."""
        sums, log_likelihood = self._expected_sums(
            carrier_of(X), self.kernel_params(params), sample_weight
        )
        total = len(X) if sample_weight is None else sample_weight.sum()
        return sums / total, log_likelihood / total

    def _expected_sums(self, rows, params, weights):
        """Return sums of expected statistics and of log-likelihoods."""
        view = rows.model_view()
        compute = partial(self.kernels_of(view).expected_statistics, params=params)
        if rows.in_memory:
            return compute(view, weights=weights, n_jobs=self.n_jobs)
        size = rows_per_block(rows.shape[1])
        if rows.is_remote:
            return rows.summed(compute, weights, size=size)
        sums = None
        for first, block in rows.blocks(BLOCKS_READ_AT_ONCE * size):
            part = None if weights is None else weights[first : first + len(block)]
            sums = compute(block, weights=part, n_jobs=self.n_jobs, before=sums)
        return sums

    def posterior(self, X, params):
        """Return posterior probabilities of the components."""
        computed = self.kernels_of(X).posterior(
            X, self.kernel_params(params), self.n_jobs
        )
        return tensors.numpy_of(computed[0])

    def predict(self, X, params):
        """Return the most probable component of each row."""
        return tensors.numpy_of(
            self.kernels_of(X).predict(X, self.kernel_params(params), self.n_jobs)
        )

    def draw_posterior(self, X, params, n_draws, rng):
        """Draw components and return how often each was drawn."""
        uniforms = rng.random((len(X), n_draws))
        dtype = np.min_scalar_type(n_draws)
        return kernels.draw_counts(self.posterior(X, params), uniforms, dtype)

    def log_likelihood(self, X, params):
        """Return the log-density of each row."""
        return tensors.numpy_of(
            self.kernels_of(X).log_density(X, self.kernel_params(params), self.n_jobs)
        )

    def mean_statistics(self, X, Z, sample_weight=None, params=None):
        """Average the statistics for given latents."""
        total = len(X) if sample_weight is None else sample_weight.sum()
        if self.incomplete and self.kernels_of(X) is incomplete:
            kernel_params = self.kernel_params(params)
            return incomplete.statistics(X, Z, kernel_params, sample_weight) / total
        centre = self._centre(X.shape[1])
        sums = self.kernels_of(X).statistics(
            X, Z, centre, self.covariance_type, sample_weight, self.n_jobs
        )
        return sums / total

    # The M-step -----------------------------------------------------------------

    def label_shares(self, params):
        """Return no probabilities of labels: the columns are numbers."""
        return []

    def spreads(self, params):
        """Return the covariances, for warnings."""
        d = params.means.shape[1]
        return [
            Spread(
                self.covariance_type,
                params.means,
                params.covariances,
                self.reg_covar,
                np.arange(d),
                np.abs(self._centre(d)),
                self.covariance_prior is not None,
            )
        ]

    def split(self, s):
        """Return mass, first and packed second moments as views of statistics."""
        K = self.n_components
        return split_moments(s, K, n_features_of(self.covariance_type, K, len(s)))

    def initial_params(self, X, rng):
        """Return parameters from a k-means start."""
        from sktem.mixture.start import start_statistics

        legacy = np.random.RandomState(rng.integers(2**31))
        s = start_statistics(self, X, "kmeans", legacy)
        return self.maximize(s, None)

    def maximize(self, s, params):
        """Return the penalised maximum-likelihood parameters."""
        moments = self.split(s)
        K, d = moments.first.shape
        prior_mean = self.prior_mean(d) if self.mean_penalty else None
        fitted = gaussian_m_step(self, moments, params, prior_mean, 1.0)
        mass = np.where(moments.mass > LEAST_SHARE, moments.mass, 0.0)
        epsilon = self.weight_concentration
        weights = (mass + epsilon) / (mass.sum() + epsilon * K)
        return GaussianMixtureParams(weights, *fitted)

    def statistics_of(self, params):
        """Return the mean statistics that data from these parameters would have.

        Parameters
        ----------
        params : GaussianMixtureParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_statistics,)
            Statistics s with ``maximize(s)`` equal to the parameters up to
            regularisation.
        """
        K, d = params.means.shape
        structure = self.structure(d)
        first = params.weights[:, None] * params.means
        if structure.known:
            return np.concatenate([params.weights, first.ravel()])
        scatter = structure.outer(params.means, params.weights)
        scatter = scatter + structure.scale(params.covariances, params.weights)
        return np.concatenate([params.weights, first.ravel(), structure.pack(scatter)])

    def project(self, s):
        """Bring statistics back to non-negative weights and covariances.

        Differences of statistics, as in vrTTEM and fitTEM, can leave the feasible set.
        """
        parts, left = projected_moments(self.covariance_type, self.split(s), 1.0)
        return (np.concatenate([np.ravel(part) for part in parts]) if left else s), left

    def degeneracies(self, params):
        """Return how many components were floored or frozen in the M-step."""
        return params.degenerate

    def penalty(self, params) -> float:
        """Return the penalty r(theta) per row."""
        value = 0.0
        if self.weight_concentration:
            value -= self.weight_concentration * float(np.log(params.weights).sum())
        if not (self.mean_penalty or self.covariance_prior_strength):
            return value
        deviations = params.means - self.prior_mean(params.means.shape[1])
        return value + gaussian_penalty(self, params, deviations)
