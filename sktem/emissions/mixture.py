"""Mixtures of an emission as an emission."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone

from sktem.emissions.base import (
    Emission,
    draw_indices,
    left_alive,
    something_observed,
)
from sktem.emissions.clusters import k_means
from sktem.emissions.names import emission_named

__all__ = ["Mixture", "MixtureParams"]


class MixtureParams(NamedTuple):
    """Parameters of a mixture in each state.

    Attributes
    ----------
    weights : ndarray of shape (K, M)
        Weights of the components of each state.
    components : NamedTuple
        Parameters of all K * M components, those of the first state first.
    degenerate : int
        Number of states kept unchanged because they had lost all their data, and of
        components that were floored or kept, in the last M-step.
    """

    weights: np.ndarray
    components: Any
    degenerate: int = 0


class Mixture(Emission):
    """Rows distributed as a mixture in each state.

    With Gaussian components, the states of a hidden Markov model can have densities of
    any shape (GMM-HMM).

    Parameters
    ----------
    emission : str or Emission
        Distribution of a row given its component, by name or as an instance.
    n_components : int, default=2
        Number of components of each state.
    random_state : int, default=0
        Seed of the clustering from which components start.

    See Also
    --------
    sktem.HiddenMarkovModel : Sequences of rows.

    References
    ----------
    B.-H. Juang, S. E. Levinson and M. M. Sondhi, Maximum likelihood estimation for
    multivariate mixture observations of Markov chains, IEEE Transactions on Information
    Theory 32, 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Gaussian, Mixture
    >>> X = np.array([[0.0], [0.2], [5.0], [5.2], [20.0], [20.2], [30.0], [30.2]])
    >>> R = np.repeat(np.eye(2), 4, axis=0)
    >>> emission = Mixture(Gaussian("tied"), 2)
    >>> params = emission.start(X, R)
    >>> np.sort(params.components.means.ravel()).round()
    array([ 0.,  5., 20., 30.])
    """

    distributions = ("weights",)
    separate = ("weights", "components")

    def __init__(self, emission, n_components=2, random_state=0):
        self.emission = emission
        self.n_components = n_components
        self.random_state = random_state

    @property
    def component(self) -> Emission:
        """Emission of a component."""
        return emission_named(self.emission)

    def check(self, X):
        """Raise for values, or settings, that are out of range."""
        if not isinstance(self.emission, (str, Emission)):
            raise TypeError(
                f"Mixture takes an emission of components, got {self.emission!r}"
            )
        if self.component.order:
            raise ValueError("components of Mixture cannot depend on rows before")
        if not (isinstance(self.n_components, (int, np.integer))) or (
            self.n_components < 1
        ):
            raise ValueError(
                f"n_components of Mixture must be a positive integer, got "
                f"{self.n_components!r}"
            )
        self.component.check(X)

    def features(self, X):
        """Return the features of the components' emission."""
        return self.component.features(X)

    def points(self, X, sample_weight=None):
        """Return the points of the components' emission."""
        return self.component.points(X, sample_weight)

    def start(self, X, R):
        """Return components from clusters of the rows of each state."""
        K, M = R.shape[1], self.n_components
        X, R = something_observed(np.asarray(X, dtype=np.float64), R)
        values = np.nan_to_num(self.points(X))
        W = np.zeros((len(X), K, M))
        for k in range(K):
            labels = self._clusters(values, R[:, k])
            # A little of every component, so that none begins without data.
            W[:, k] = R[:, k, None] * (0.02 / M)
            W[np.arange(len(X)), k, labels] += 0.98 * R[:, k]
        components = self.component.start(X, W.reshape(len(X), K * M))
        weights = _shares(W.sum(axis=0), np.full((K, M), 1.0 / M))[0]
        return MixtureParams(weights, components)

    def _clusters(self, values, weights):
        """Return the cluster of each row, by rows that have weights."""
        M = self.n_components
        used = np.flatnonzero(weights > 0)
        distinct = len(np.unique(values[used], axis=0)) if len(used) else 0
        if distinct < M or M == 1:
            return np.arange(len(values)) % M
        clusters = k_means(values[used], M, 3, self.random_state, weights[used])
        return clusters.predict(values)

    def _joint(self, X, params):
        """Return log-densities of rows and components, (n, K, M)."""
        K, M = params.weights.shape
        L = self.component.log_density(X, params.components).reshape(len(X), K, M)
        with np.errstate(divide="ignore"):
            return L + np.log(params.weights)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        X = np.asarray(X, dtype=np.float64)
        log_densities = logsumexp(self._joint(X, params), axis=2)
        # Weights sum to 1 up to rounding.
        log_densities[np.isnan(X).all(axis=1)] = 0.0
        return log_densities

    def _by_component(self, X, R, params):
        """Return the weights of rows for each component, (n, K * M)."""
        shares = _posterior(self._joint(X, params), params.weights)
        return (R[:, :, None] * shares).reshape(len(X), R.shape[1] * self.n_components)

    def statistics(self, X, R, params):
        """Return the expected masses and statistics of the components."""
        X, R = something_observed(np.asarray(X, dtype=np.float64), R)
        W = self._by_component(X, R, params)
        components = self.component.statistics(X, W, params.components)
        return np.concatenate([W.sum(axis=0), components])

    def maximize(self, s, params):
        """Return shares of the masses, and the M-step of the components."""
        K, M = params.weights.shape
        weights, lost = _shares(s[: K * M].reshape(K, M), params.weights)
        components = self.component.maximize(s[K * M :], params.components)
        lost += self.component.degeneracies(components)
        return MixtureParams(weights, components, lost)

    def project(self, s, params=None):
        """Return masses that are not negative, and projected statistics."""
        if params is None:
            raise ValueError("statistics of Mixture are projected given params")
        count = params.weights.size
        components, left = self.component.project(s[count:], params.components)
        negative = bool((s[:count] < 0).any())
        if not (left or negative):
            return s, False
        return np.concatenate([np.maximum(s[:count], 0.0), components]), True

    def penalty(self, params):
        """Return the penalty of the components."""
        return self.component.penalty(params.components)

    def expected(self, X, R, params):
        """Return rows with missing values replaced by conditional means."""
        W = self._by_component(np.asarray(X, dtype=np.float64), R, params)
        return self.component.expected(X, W, params.components)

    def draw(self, X, states, params, rng):
        """Return rows with missing values replaced by draws."""
        X = np.asarray(X, dtype=np.float64)
        M = self.n_components
        R = np.eye(len(params.weights))[states]
        shares = self._by_component(X, R, params)
        shares = shares.reshape(len(X), len(params.weights), M)
        chosen = draw_indices(shares[np.arange(len(X)), states], rng)
        return self.component.draw(X, states * M + chosen, params.components, rng)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        chosen = draw_indices(params.weights[states], rng)
        states = states * self.n_components + chosen
        return self.component.sample(params.components, states, rng)

    def mean(self, params):
        """Return the mean of each state."""
        K, M = params.weights.shape
        means = self.component.mean(params.components).reshape(K, M, -1)
        return (params.weights[:, :, None] * means).sum(axis=1)

    def n_parameters(self, K, d, params=None):
        """Return the number of weights and parameters of components."""
        M = self.n_components
        components = None if params is None else params.components
        return K * (M - 1) + self.component.n_parameters(K * M, d, components)

    def n_held(self, K, d, params, held):
        """Return the number of free weights, or parameters of components."""
        weights = K * (self.n_components - 1)
        rest = self.n_parameters(K, d, params) - weights
        return ("weights" in held) * weights + ("components" in held) * rest

    def marginal(self, params, columns):
        """Return the same weights with components of some columns."""
        components = self.component.marginal(params.components, columns)
        return params._replace(components=components)

    def condition(self, params, columns, values, others):
        """Return a mixture whose weights are those of the components given values."""
        weights, arguments = params.weights, (columns, values, others)
        if len(columns):
            joint = self._joint(values[None], self.marginal(params, columns))[0]
            weights = _posterior(joint, weights)
        emission, components = self.component.condition(params.components, *arguments)
        conditional = MixtureParams(weights, components)
        return clone(self).set_params(emission=emission), conditional


def _posterior(joint, weights):
    """Return shares of joint densities by components, the weights where none has any.

    The components are the last axis.
    """
    largest = joint.max(axis=-1, keepdims=True)
    shares = np.exp(joint - np.where(np.isfinite(largest), largest, 0.0))
    total = shares.sum(axis=-1, keepdims=True)
    possible = total > 0
    return np.where(possible, shares, weights) / np.where(possible, total, 1.0)


def _shares(masses, before):
    """Return shares of the masses of each state, and how many states have none."""
    masses = np.maximum(masses, 0.0)
    alive, lost = left_alive(masses.sum(axis=1))
    totals = masses.sum(axis=1, keepdims=True)
    shares = masses / np.where(alive[:, None], totals, 1.0)
    return np.where(alive[:, None], shares, before), lost
