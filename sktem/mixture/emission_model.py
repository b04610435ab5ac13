"""Mixture of any emission as a complete-data model."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from sktem import budget
from sktem.emissions.base import LEAST_SHARE, draw_indices, something_observed
from sktem.kernels.blocks import iterate_blocks, plain
from sktem.mixture.label_pass import LabelRows, LabelTerms, expected_with_labels
from sktem.models.base import LatentModel

__all__ = [
    "EmissionMixtureModel",
    "EmissionMixtureParams",
    "completed_rows",
    "drawn_completions",
    "responsibilities",
]


class EmissionMixtureParams(NamedTuple):
    """Parameters of a mixture.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
        Mixing weights.
    emission : NamedTuple
        Parameters of the emission.
    """

    weights: np.ndarray
    emission: Any


class EmissionMixtureModel(LatentModel):
    """Complete-data model of a mixture of any emission.

    Latents are posterior probabilities or counts of draws, of shape (n, n_components).
    The statistics are the mean over rows of the probabilities, then of the statistics
    of the emission. Rows of which nothing is observed have no weight.

    Parameters
    ----------
    emission : Emission
        Distribution of a row given its component.
    n_components : int, default=1
        Number of components K.
    weight_concentration : float, default=0.0
        Penalty epsilon: ``w_k = (s_k + epsilon) / (1 + epsilon K)``.
    like : NamedTuple or None, default=None
        Parameters of the emission, from which the shapes of statistics are known.
    n_jobs : int or None, default=None
        Threads of the E-step. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEM
    >>> from sktem.emissions import Poisson
    >>> from sktem.mixture.emission_model import EmissionMixtureModel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(np.repeat([[1.0], [20.0]], 100, axis=0))
    >>> em = StochasticEM(EmissionMixtureModel(Poisson(), 2), random_state=0).fit(X)
    >>> np.sort(em.params_.emission.rates.ravel()).round()
    array([ 1., 21.])
    """

    averages_draws = True
    completes_rows = True

    def __init__(
        self,
        emission,
        n_components=1,
        *,
        weight_concentration=0.0,
        like=None,
        n_jobs=None,
    ):
        self.emission = emission
        self.n_components = n_components
        self.weight_concentration = weight_concentration
        self.like = like
        self.n_jobs = n_jobs

    def initial_params(self, X, rng):
        """Return parameters from a start by k-means."""
        from sktem.mixture.emission_start import start_responsibilities

        legacy = np.random.RandomState(rng.integers(2**31))
        X = np.asarray(X, dtype=np.float64)
        R = start_responsibilities(
            X, self.emission, self.n_components, "kmeans", legacy
        )
        params = self.start_of(X, R)
        self.like = params.emission
        return params

    def start_of(self, X, R, sample_weight=None):
        """Return the parameters of given responsibilities.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows.
        R : ndarray of shape (n, n_components)
            Responsibilities.
        sample_weight : ndarray of shape (n,) or None, default=None
            Weights of the rows.

        Returns
        -------
        EmissionMixtureParams
            The parameters of an M-step.
        """
        if sample_weight is not None:
            R = R * sample_weight[:, None]
        return EmissionMixtureParams(
            self._weights(R.sum(axis=0) / R.sum()), self.emission.start(X, R)
        )

    def n_parameters(self, n_features, params=None):
        """Return the number of free parameters."""
        K = self.n_components
        emission_params = self.like if params is None else params.emission
        return self.emission.n_parameters(K, n_features, emission_params) + K - 1

    # The E-step -----------------------------------------------------------------

    def _posterior(self, X, params):
        """Return responsibilities and log-likelihoods of a block."""
        log_densities = self.emission.log_density(
            np.asarray(X, np.float64), params.emission
        )
        with np.errstate(divide="ignore"):
            return responsibilities(log_densities, np.log(params.weights))

    def _block_size(self, X):
        """Return the number of rows of a block of a pass."""
        return max(256, budget.MEMORY.cached // max(X.shape[1], self.n_components))

    def _over_blocks(self, X, compute, *beside):
        """Return the results of a function for each block of rows.

        Beside rows are arrays with a row for each, or None.
        """

        def of_block(start, stop):
            parts = [None if part is None else part[start:stop] for part in beside]
            return compute(X[start:stop], *parts)

        n, size = max(len(X), 1), self._block_size(X)
        return list(iterate_blocks(of_block, n, size, self.n_jobs))

    def posterior(self, X, params):
        """Return posterior probabilities of the components."""
        blocks = self._over_blocks(X, lambda x: self._posterior(x, params)[0])
        return np.concatenate(blocks)

    def log_likelihood(self, X, params):
        """Return the log-density of the observed values of each row."""
        blocks = self._over_blocks(X, lambda x: self._posterior(x, params)[1])
        return np.concatenate(blocks)

    def predict(self, X, params):
        """Return the most probable component of each row."""
        return self.posterior(X, params).argmax(axis=1)

    def draw_posterior(self, X, params, n_draws, rng):
        """Draw components and return how often each was drawn."""
        R = self.posterior(X, params)
        counts = np.zeros(R.shape, dtype=np.min_scalar_type(n_draws))
        rows = np.arange(len(X))
        for _ in range(n_draws):
            counts[rows, draw_indices(R, rng)] += 1
        return counts

    def _sums(self, X, R, weights, params):
        """Return sums of statistics for responsibilities times weights."""
        R = R if weights is None else R * weights[:, None]
        X, R = something_observed(X, R)
        statistics = self.emission.statistics(X, R, params.emission)
        # A product sums columns faster than a sum over the first axis.
        return np.concatenate([np.ones(len(R)) @ R, statistics])

    def prepared(self, X, params):
        """Return rows with codes of their labels, where there are some."""
        terms = LabelTerms.of(self.emission, params)
        if terms is None or not len(X):
            return X
        rows = LabelRows.of(np.asarray(X), terms, self._block_size(X))
        return X if rows is None else rows

    def _expected(self, X, weights, params):
        """Return sums of expected statistics and of log-likelihoods of a block."""
        X = np.asarray(X, dtype=np.float64)
        R, values = self._posterior(X, params)
        total = values.sum() if weights is None else weights @ values
        return self._sums(X, R, weights, params), total

    def expected_statistics(self, X, params, sample_weight=None):
        """Return mean statistics and mean log-likelihood in one pass."""
        rows = X if isinstance(X, LabelRows) else self.prepared(X, params)
        if isinstance(rows, LabelRows):
            blocks = self._with_labels(rows, params, sample_weight)
            n = len(rows.X)
        else:
            compute, n = partial(self._expected, params=params), len(rows)
            blocks = self._over_blocks(rows, compute, sample_weight)
        total = n if sample_weight is None else sample_weight.sum()
        s = sum(part for part, _ in blocks)
        return s / total, float(sum(value for _, value in blocks)) / total

    def _with_labels(self, rows, params, weights):
        """Return the sums of blocks of rows that have labels."""
        terms = LabelTerms.of(self.emission, params)

        def compute(X, weights, cells):
            sums = expected_with_labels(X, weights, cells, terms, rows.block_size)
            return self._expected(X, weights, params) if sums is None else sums

        beside = rows.weights(weights), rows.cells
        return self._over_blocks(rows.X, compute, *beside)

    def mean_statistics(self, X, Z, sample_weight=None, params=None):
        """Average the statistics for given latents, at the parameters of the visit."""
        X = np.asarray(X, dtype=np.float64)
        Z = np.asarray(Z, dtype=np.float64)
        mass = Z.sum(axis=1, keepdims=True)
        R = Z / np.where(mass > 0, mass, 1.0)
        total = len(X) if sample_weight is None else sample_weight.sum()
        return self._sums(X, R, sample_weight, params) / total

    # The M-step -----------------------------------------------------------------

    def _weights(self, mass):
        """Return mixing weights from the masses of the components."""
        mass = np.where(mass > LEAST_SHARE * mass.sum(), mass, 0.0)
        epsilon, K = self.weight_concentration * mass.sum(), self.n_components
        return (mass + epsilon) / (mass.sum() + epsilon * K)

    def maximize(self, s, params):
        """Return the penalised maximum-likelihood parameters."""
        K = self.n_components
        emission = self.emission.maximize(s[K:], params.emission)
        return EmissionMixtureParams(self._weights(s[:K]), emission)

    def project(self, s):
        """Project statistics onto those of data, and say if they were outside."""
        K = self.n_components
        inside, left = self.emission.project(s[K:], self.like)
        mass = s[:K]
        if (mass >= 0).all() and not left:
            return s, False
        clipped = np.maximum(mass, 0.0)
        return np.concatenate([clipped * (mass.sum() / clipped.sum()), inside]), True

    def degeneracies(self, params):
        """Return how many components were floored or kept in the M-step."""
        return self.emission.degeneracies(params.emission)

    def spreads(self, params):
        """Return the covariances of the emission, for warnings."""
        return self.emission.spreads(params.emission)

    def label_shares(self, params):
        """Return the probabilities of labels, for warnings."""
        return self.emission.label_shares(params.emission)

    def shares(self, params):
        """Return the probabilities of the emission."""
        return self.emission.shares(params.emission)

    def with_shares(self, params, shares):
        """Return other probabilities of the emission."""
        emission = self.emission.with_shares(params.emission, shares)
        return params._replace(emission=emission)

    def penalty(self, params) -> float:
        """Return the penalty r(theta) per row."""
        value = self.emission.penalty(params.emission)
        if self.weight_concentration:
            value -= self.weight_concentration * float(np.log(params.weights).sum())
        return value


def responsibilities(log_densities, log_weights):
    """Return posterior probabilities of components, and log-densities of the rows.

    Parameters
    ----------
    log_densities : ndarray of shape (n, K)
        Of rows given their component.
    log_weights : ndarray of shape (K,)
        Logarithms of the mixing weights.

    Returns
    -------
    R, values : ndarray of shape (n, K) and (n,)
        A row that no component can produce has the weights, and a value that is not
        finite.
    """
    R, values = np.empty(log_densities.shape), np.empty(len(log_densities))
    kernels = import_module("sktem.mixture.kernels.posteriors")
    if not kernels.posterior_rows(plain(log_densities.T), log_weights, R, values):
        R[~np.isfinite(values)] = np.exp(log_weights)
    return R, values


def drawn_completions(model, params, rows, n_draws, rng):
    """Return draws of rows without holes, those of a row one after the other."""
    R = np.repeat(model.posterior(rows, params), n_draws, axis=0)
    states = draw_indices(R, rng)
    X = np.repeat(np.asarray(rows, dtype=np.float64), n_draws, axis=0)
    drawn = model.emission.draw(X, states, params.emission, rng)
    return drawn.astype(rows.dtype, copy=False), states


def completed_rows(emission, params, R, rows, method, rng) -> np.ndarray:
    """Return rows without holes, by posterior probabilities of the components."""
    holes = np.isnan(rows).any(axis=1)
    filled = np.array(rows, dtype=np.float64)
    part, shares = filled[holes], R[holes]
    if not holes.any():
        return filled
    if method == "draw":
        states = draw_indices(shares, rng)
        filled[holes] = emission.draw(part, states, params, rng)
    elif method == "mean":
        filled[holes] = emission.expected(part, shares, params)
    else:
        filled[holes] = emission.mode(part, shares, params)
    return filled
