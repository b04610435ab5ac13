"""Autoregressions about means that depend on the states of the rows before too."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from sktem.emissions.base import left_alive
from sktem.emissions.directions import Direction
from sktem.emissions.lags import (
    LEAST_VARIANCE,
    LaggedEmission,
    lagged,
    possible_moments,
)
from sktem.emissions.level_turns import LevelTurns

__all__ = ["Autoregression", "AutoregressionParams"]


class AutoregressionParams(NamedTuple):
    """Parameters of autoregressions.

    Attributes
    ----------
    means : ndarray of shape (K, m)
        Means of the columns; with ``exog``, those where ``exog`` is 0.
    coefficients : ndarray of shape (K, m, order)
        Coefficients of the deviations one row before, two rows before, and so on.
    variances : ndarray of shape (K, m)
        Variances of the errors.
    centre : ndarray of shape (m + q,)
        Fixed point relative to which the statistics of responses and regressors are
        kept.
    degenerate : int
        Number of states kept unchanged because they had lost all their data.
    exog_coefficients : ndarray of shape (K, m, q)
        Coefficients of the columns ``exog``, which shift the means.
    """

    means: np.ndarray
    coefficients: np.ndarray
    variances: np.ndarray
    centre: np.ndarray
    degenerate: int = 0
    exog_coefficients: np.ndarray = np.empty((0, 0, 0))


class Autoregression(LaggedEmission):
    """Autoregression of the deviations from means that depend on the state.

    If row t is in state ``k_t``, column j is ``y_tj = m_j(k_t) + sum_i a_ij(k_t)
    (y_{t-i,j} - m_j(k_{t-i})) + e``, with errors of variance ``s_j(k_t)``. When the
    state changes, the mean changes at once; with :class:`Regression` it is approached
    gradually. A row depends on the states of the ``order`` previous rows, so that fits
    of K states visit ``K ** (order + 1)`` histories of them. For hidden Markov models
    only.

    Parameters
    ----------
    order : int, default=1
        Number of previous rows of the same sequence that a row depends on, at least 1.
        The first rows of a sequence are conditioned on.
    switching_coefficients : bool, default=True
        Whether each state has its own coefficients.
    switching_variance : bool, default=True
        Whether each state has its own variances.
    reg_covar : float, default=1e-6
        Added to the variances.
    exog : sequence of int, default=()
        Columns that shift the means: ``m_j(k_t) + b_j(k_t)' x_t`` replaces
        ``m_j(k_t)``, also for previous rows. Their distribution is not modelled.
    shared : sequence of int, default=()
        Columns of ``exog`` whose coefficients are shared by all states.

    See Also
    --------
    Regression : Autoregressions with intercepts, and regressions on other columns.

    Notes
    -----
    A value is missing if it is NaN, or if a previous value that it depends on is.

    References
    ----------
    J. D. Hamilton, A new approach to the economic analysis of nonstationary time series
    and the business cycle, Econometrica 57, 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import HiddenMarkovModel
    >>> from sktem.emissions import Autoregression
    >>> rng = np.random.default_rng(0)
    >>> mean = np.repeat([0.0, 4.0, 0.0, 4.0], 100)
    >>> y, deviation = np.empty(400), 0.0
    >>> for t in range(400):
    ...     deviation = 0.7 * deviation + 0.5 * rng.normal()
    ...     y[t] = mean[t] + deviation
    >>> hmm = HiddenMarkovModel(2, emission=Autoregression(), random_state=0)
    >>> params = hmm.fit(y[:, None]).emission_params_
    >>> np.sort(params.means.ravel()).round() + 0.0
    array([0., 4.])
    """

    least_order = 1
    lags_exog = True

    def __init__(
        self,
        order=1,
        switching_coefficients=True,
        switching_variance=True,
        reg_covar=1e-6,
        exog=(),
        shared=(),
    ):
        self.order = order
        self.switching_coefficients = switching_coefficients
        self.switching_variance = switching_variance
        self.reg_covar = reg_covar
        self.exog = exog
        self.shared = shared

    @property
    def memory(self) -> int:
        """Number of previous states that a row depends on."""
        return self.order

    # Rows -----------------------------------------------------------------------

    def check(self, X):
        """Raise ValueError for settings or values that are out of range."""
        super().check(X)
        if not set(self.shared) <= set(self.exog):
            raise ValueError(
                f"shared of Autoregression must be columns of exog, got {self.shared!r}"
            )

    def with_lags(self, X, offsets):
        """Return the rows with previous rows, NaN before the first."""
        return lagged(X, range(X.shape[1]), offsets, self.order)

    def features(self, X):
        """Return the columns without exog, and the residuals of one autoregression.

        With exog, also the products of the residuals with it.
        """
        params = self.start(X, np.ones((len(X), 1)))
        y, x, observed = self._windows(X, params.centre)
        steps = np.concatenate(
            [np.ones((*params.means.shape, 1)), -params.coefficients], axis=2
        )
        apart = y - np.einsum("nwq,mq->nmw", x, self._levels(params)[0, :, 1:])
        left = np.einsum("nmw,mw->nm", apart, steps[0])
        products = [left * column[:, None] for column in x[:, 0].T]
        features = np.concatenate([left, *products], axis=1)
        is_observed = np.tile(observed > 0, 1 + x.shape[2])
        now = (
            X[:, self._columns(X.shape[1])[0]]
            - x[:, 0] @ self._levels(params)[0, :, 1:].T
        )
        return np.concatenate([now, np.where(is_observed, features, np.nan)], axis=1)

    def _columns(self, width):
        """Return indices of responses and of exog, of rows with lags."""
        exog = [int(column) for column in self.exog]
        d = self.n_columns(width)
        return [j for j in range(d) if j not in set(exog)], exog

    def _windows(self, X, centre):
        """Return responses (n, m, 1 + order) and exog (n, 1 + order, q) about a centre.

        Both are of a row and those before; what is not observed is 0, and so said.
        """
        responses, exog = self._columns(X.shape[1])
        rows = X.reshape(len(X), 1 + self.order, -1)
        y, x, m = rows[:, :, responses].swapaxes(1, 2), rows[:, :, exog], len(responses)
        known = ~np.isnan(x).any(axis=(1, 2))
        observed = ~np.isnan(y).any(axis=2) & known[:, None]
        y = np.where(observed[..., None], y - centre[:m, None], 0.0)
        x = np.where(known[:, None, None], x - centre[m:], 0.0)
        return y, x, observed.astype(np.float64)

    def _levels(self, params) -> np.ndarray:
        """Return means about the centre, and coefficients of exog, (K, m, 1 + q)."""
        m = params.means.shape[1]
        levels = (params.means - params.centre[:m])[..., None]
        if not len(self.exog):
            return levels
        by_exog = params.exog_coefficients
        levels = levels + (by_exog @ params.centre[m:])[..., None]
        return np.concatenate([levels, by_exog], axis=2)

    def histories(self, K):
        """Return the states of a row and of those before, (K ** (order + 1), ...)."""
        return np.array(list(product(range(K), repeat=1 + self.order)))

    # The contract ---------------------------------------------------------------

    def start(self, X, R):
        """Return means of the states, and regressions of the deviations from them.

        Unlike other methods, it takes weights of states rather than of their histories:
        the states of previous rows are assumed to be the same.
        """
        responses, exog = self._columns(X.shape[1])
        K, m = R.shape[1], len(responses)
        values = X[:, responses + exog]
        observed = ~np.isnan(values)
        centre = np.where(observed, values, 0.0).sum(0) / np.maximum(observed.sum(0), 1)
        ones, zeros = np.ones((K, m)), np.zeros((K, m, self.order))
        blank = AutoregressionParams(
            centre[:m] * ones, zeros, ones, centre, 0, np.zeros((K, m, len(exog)))
        )
        lasting = np.zeros((len(X), len(self.histories(K))))
        lasting[:, (self.histories(K) == self.histories(K)[:, :1]).all(axis=1)] = R
        return self.maximize(self.statistics(X, lasting, blank), blank)

    def log_density(self, X, params):
        """Return the log-density of each row for each history of states."""
        y, x, observed = self._windows(X, params.centre)
        K, m = params.means.shape
        histories = self.histories(K)
        densities = np.zeros((len(X), len(histories)))
        levels = self._levels(params)
        for j in range(m):
            steps = np.column_stack([np.ones(K), -params.coefficients[:, j]])
            moved = y[:, j] @ steps.T
            means = x @ levels[:, j, 1:].T  # by the state of each row of the window
            fixed = (steps[histories[:, 0]] * levels[histories, j, 0]).sum(axis=1)
            for h, history in enumerate(histories):
                k, level = history[0], fixed[h]
                for i in range(len(history) if len(self.exog) else 0):
                    level = level + steps[k, i] * means[:, i, history[i]]
                variance = params.variances[k, j]
                squares = (moved[:, k] - level) ** 2 / variance
                logs = squares + np.log(2 * np.pi * variance)
                densities[:, h] -= 0.5 * logs * observed[:, j]
        return densities

    def statistics(self, X, R, params):
        """Return masses and moments of the windows for each history of states."""
        y, x, observed = self._windows(X, params.centre)
        sums = []
        for j in range(y.shape[1]):
            parts = [np.ones((len(X), 1)), y[:, j], x.reshape(len(X), -1)]
            both = np.concatenate(parts, axis=1)
            pairs = (both[:, :, None] * both[:, None]).reshape(len(X), -1)
            sums.append((R * observed[:, j : j + 1]).T @ pairs)
        return np.stack(sums, axis=1).ravel()

    def _moments(self, s, params):
        """Return the moments of 1 and the windows, (n_histories, m, width, width)."""
        width = 1 + (1 + self.order) * (1 + len(self.exog))
        return s.reshape(-1, params.means.shape[1], width, width)

    def maximize(self, s, params):
        """Return generalised least-squares estimates, by alternating maximisation."""
        moments = self._moments(s, params)
        K, m = params.means.shape
        first = self.histories(K)[:, 0]
        mass = np.zeros((K, m))
        np.add.at(mass, first, moments[..., 0, 0])
        alive, degenerate = left_alive(mass)
        turns = LevelTurns(
            self.histories(K),
            np.array([column in self.shared for column in self.exog], dtype=bool),
            self.switching_coefficients,
            self.switching_variance,
            self.reg_covar,
        )
        before = self._levels(params)
        columns = [
            turns.maximize(
                moments[:, j], before[:, j], params.coefficients[:, j],
                params.variances[:, j],
            )
            for j in range(m)
        ]  # fmt: skip
        levels, coefficients, left = (
            np.stack(parts, axis=1) for parts in zip(*columns, strict=True)
        )
        by_exog = levels[..., 1:]
        means = levels[..., 0] + params.centre[:m] - by_exog @ params.centre[m:]
        return AutoregressionParams(
            np.where(alive, means, params.means),
            np.where(alive[..., None], coefficients, params.coefficients),
            self.variances_of(left, mass, alive, params.variances),
            params.centre,
            degenerate,
            np.where(alive[..., None], by_exog, before[..., 1:]),
        )

    def collapses_on(self, params):
        """Return the number of rows that a mean and coefficients fit exactly."""
        rows = super().collapses_on(params)
        return rows + 1 + len(self.exog) if rows else 0

    def project(self, s, params=None):
        """Return feasible moments."""
        if params is None:
            raise ValueError("statistics of Autoregression are projected given params")
        moments, left = possible_moments(self._moments(s, params))
        return (moments.ravel(), True) if left else (s, False)

    def sample(self, params, states, rng):
        """Draw a row for each history of states, after rows at the means of these."""
        K = len(params.means)
        before = params.means[self.histories(K)[states, 1:]]
        return self.sample_after(params, states, before, rng)

    def sample_after(self, params, states, before, rng, exog=None):
        """Draw the responses for each history of states, given the rows before them."""
        if exog is None:
            self.check_drawn()
            exog = np.empty((len(states), 0))
        responses, columns = self._columns(before.shape[2] * (1 + self.order))
        histories = self.histories(len(params.means))[states]
        now, then, slopes = histories[:, 0], histories[:, 1:], params.exog_coefficients
        apart = before[..., responses] - params.means[then]
        means = params.means[now]
        if len(columns):
            apart -= np.einsum("nimq,niq->nim", slopes[then], before[..., columns])
            means = means + np.einsum("nmq,nq->nm", slopes[now], exog)
        means = means + np.einsum("nmi,nim->nm", params.coefficients[now], apart)
        deviations = np.sqrt(params.variances[now])
        return means + deviations * rng.standard_normal(means.shape)

    def mean(self, params):
        """Raise TypeError: missing values depend on rows before and after them."""
        raise TypeError(
            "Autoregression does not fill holes, which depend on the rows around them"
        )

    def draw(self, X, states, params, rng):
        """Raise TypeError, as `mean`."""
        self.mean(params)

    def free_directions(self, params, following, X):
        """Yield the directions of means, coefficients and variances.

        A level counts in all histories that have the state: each has a slot of its own.
        """
        K, m, order = params.coefficients.shape
        for k, j in np.ndindex(K, m):
            size = np.sqrt(params.variances[k, j])
            yield Direction("means", (((k, j), 1.0),), size, ("mean", k, j))
        every = [((k,),) for k in range(K)]
        together = [tuple((k,) for k in range(K))]
        for c, column in enumerate(self.exog):
            middle = params.centre[m + c]
            away = np.nanmean((X[:, column] - middle) ** 2)
            size = max(np.sqrt(away), LEAST_VARIANCE)
            is_shared = column in self.shared
            for states, j in product(together if is_shared else every, range(m)):
                entries = tuple(((*k, j, c), 1.0) for k in states)
                scale = np.sqrt(params.variances[states[0][0], j]) / size
                slot = ("exog", states, j, c)
                # Means move with slopes, so that these turn about the centre.
                others = tuple(("means", (*k, j), -middle) for k in states)
                yield Direction(
                    "exog_coefficients", entries, scale, slot, others=others
                )
        switching = self.switching_coefficients
        for states, j, i in product(
            every if switching else together, range(m), range(order)
        ):
            entries = tuple(((*k, j, i), 1.0) for k in states)
            yield Direction("coefficients", entries, 1.0, ("lag", states, j, i))
        for states, j in product(
            every if self.switching_variance else together, range(m)
        ):
            places = tuple(((*k, j), 1.0) for k in states)
            size = params.variances[states[0][0], j]
            yield Direction("variances", places, size, ("variance", states, j))

    def n_parameters(self, K, d, params=None):
        """Return the number of means, coefficients and variances."""
        m, shared = d // (1 + self.order) - len(self.exog), len(self.shared)
        levels = K * (1 + len(self.exog) - shared) + shared
        lags = self.order * (K if self.switching_coefficients else 1)
        return m * (levels + lags + (K if self.switching_variance else 1))

    def marginal(self, params, columns):
        """Return the autoregressions of some columns."""
        if len(self.exog):
            raise TypeError("Autoregression has a marginal only without exog")
        columns = np.asarray(columns)
        return AutoregressionParams(
            params.means[:, columns],
            params.coefficients[:, columns],
            params.variances[:, columns],
            params.centre[columns],
        )
