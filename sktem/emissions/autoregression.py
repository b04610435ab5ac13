"""Autoregressions about means that depend on the states of the rows before too."""

from __future__ import annotations

from itertools import product
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from sktem.choices import check_number
from sktem.emissions.base import Emission, left_alive
from sktem.emissions.directions import Direction
from sktem.emissions.lags import (
    LEAST_VARIANCE,
    TURNS,
    error_spreads,
    lagged,
    possible_moments,
    rows_before,
)

__all__ = ["Autoregression", "AutoregressionParams"]


class AutoregressionParams(NamedTuple):
    """Parameters of autoregressions.

    Attributes
    ----------
    means : ndarray of shape (K, m)
        Means of the columns.
    coefficients : ndarray of shape (K, m, order)
        Coefficients of the deviations one row before, two rows before, and so on.
    variances : ndarray of shape (K, m)
        Variances of the errors.
    centre : ndarray of shape (m,)
        Fixed point about which the statistics are held.
    degenerate : int
        States that were kept because they had lost all their data.
    """

    means: np.ndarray
    coefficients: np.ndarray
    variances: np.ndarray
    centre: np.ndarray
    degenerate: int = 0


class Autoregression(Emission):
    """Columns whose deviations from the means of the states depend on those before.

    If the row t is in state ``k_t``, column j is ``y_tj = m_j(k_t) + sum_i a_ij(k_t)
    (y_{t-i,j} - m_j(k_{t-i})) + e``, with errors of the variance ``s_j(k_t)``: after a
    change of the state the mean changes at once, where with :class:`Regression` it is
    approached by and by. A row depends on the states of ``order`` rows before, so that
    fits of K states visit ``K ** (order + 1)`` histories of them. For hidden Markov
    models only.

    Parameters
    ----------
    order : int, default=1
        Rows before, of the same sequence, that a row depends on, at least 1. The first
        rows of a sequence are conditioned on.
    switching_coefficients : bool, default=True
        Whether each state has its own coefficients.
    switching_variance : bool, default=True
        Whether each state has its own variances.
    reg_covar : float, default=1e-6
        Added to the variances.

    See Also
    --------
    Regression : Autoregressions about intercepts, and regressions on other columns.

    Notes
    -----
    A value that is NaN is not observed, nor is one with a value before that is NaN.

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

    def __init__(
        self,
        order=1,
        switching_coefficients=True,
        switching_variance=True,
        reg_covar=1e-6,
    ):
        self.order = order
        self.switching_coefficients = switching_coefficients
        self.switching_variance = switching_variance
        self.reg_covar = reg_covar

    @property
    def memory(self) -> int:
        """States before that a row depends on."""
        return self.order

    # Rows -----------------------------------------------------------------------

    def check(self, X):
        """Raise ValueError for settings that are out of range."""
        check_number("order of Autoregression", self.order, Integral, 1)
        check_number("reg_covar of Autoregression", self.reg_covar, Real, 0)

    def with_lags(self, X, offsets):
        """Return the rows with those before; NaN before the first."""
        return lagged(X, range(X.shape[1]), offsets, self.order)

    def rows_before(self, X):
        """Return the rows on which the row after each one depends, the last first."""
        return rows_before(X, self.order)

    def features(self, X):
        """Return the columns, and what one autoregression leaves of them."""
        params = self.start(X, np.ones((len(X), 1)))
        windows, observed = self._windows(X, params.centre)
        steps = np.concatenate(
            [np.ones((*params.means.shape, 1)), -params.coefficients], axis=2
        )
        left = np.einsum("nmw,mw->nm", windows, steps[0])
        m = left.shape[1]
        return np.concatenate([X[:, :m], np.where(observed > 0, left, np.nan)], axis=1)

    def _windows(self, X, centre):
        """Return values and those before about a centre, (n, m, 1 + order).

        What is not observed is 0.
        """
        windows = X.reshape(len(X), 1 + self.order, -1).swapaxes(1, 2)
        observed = ~np.isnan(windows).any(axis=2)
        windows = np.where(observed[..., None], windows - centre[:, None], 0.0)
        return windows, observed.astype(np.float64)

    def histories(self, K):
        """Return the states of a row and of those before, (K ** (order + 1), ...)."""
        return np.array(list(product(range(K), repeat=1 + self.order)))

    # The contract ---------------------------------------------------------------

    def start(self, X, R):
        """Return means of the states, and regressions of the deviations from them.

        Unlike other methods, it takes weights for states and not for their histories:
        states are taken to have lasted.
        """
        K, m = R.shape[1], X.shape[1] // (1 + self.order)
        seen = ~np.isnan(X[:, :m])
        centre = np.where(seen, X[:, :m], 0.0).sum(axis=0) / np.maximum(seen.sum(0), 1)
        ones, zeros = np.ones((K, m)), np.zeros((K, m, self.order))
        blank = AutoregressionParams(centre * ones, zeros, ones, centre)
        lasting = np.zeros((len(X), len(self.histories(K))))
        lasting[:, (self.histories(K) == self.histories(K)[:, :1]).all(axis=1)] = R
        return self.maximize(self.statistics(X, lasting, blank), blank)

    def log_density(self, X, params):
        """Return the log-density of each row for each history of states."""
        windows, observed = self._windows(X, params.centre)
        K, m = params.means.shape
        histories = self.histories(K)
        densities = np.zeros((len(X), len(histories)))
        means = params.means - params.centre
        for j in range(m):
            steps = np.column_stack([np.ones(K), -params.coefficients[:, j]])
            moved = windows[:, j] @ steps.T
            levels = (steps[histories[:, 0]] * means[histories, j]).sum(axis=1)
            for history, level in enumerate(levels):
                k = histories[history, 0]
                variance = params.variances[k, j]
                squares = (moved[:, k] - level) ** 2 / variance
                logs = squares + np.log(2 * np.pi * variance)
                densities[:, history] -= 0.5 * logs * observed[:, j]
        return densities

    def statistics(self, X, R, params):
        """Return masses and moments of the windows for each history of states."""
        windows, observed = self._windows(X, params.centre)
        sums = []
        for j in range(windows.shape[1]):
            both = np.concatenate([np.ones((len(X), 1)), windows[:, j]], axis=1)
            pairs = (both[:, :, None] * both[:, None]).reshape(len(X), -1)
            sums.append((R * observed[:, j : j + 1]).T @ pairs)
        return np.stack(sums, axis=1).ravel()

    def _moments(self, s, params):
        """Return the moments of (1, window), (n_histories, m, 2 + order, 2 + order)."""
        width = 2 + self.order
        return s.reshape(-1, params.means.shape[1], width, width)

    def maximize(self, s, params):
        """Return generalised least squares, by turns of means and coefficients."""
        moments = self._moments(s, params)
        K, m = params.means.shape
        first = self.histories(K)[:, 0]
        mass = np.zeros((K, m))
        np.add.at(mass, first, moments[..., 0, 0])
        alive, degenerate = left_alive(mass)
        columns = [self._of_column(moments[:, j], params, j) for j in range(m)]
        means, coefficients, left = (
            np.stack(parts, axis=1) for parts in zip(*columns, strict=True)
        )
        if self.switching_variance:
            variances = left / np.where(alive, mass, 1.0)
        else:
            total = np.maximum(np.where(alive, mass, 0.0).sum(axis=0), 1e-300)
            shared = np.where(alive, left, 0.0).sum(axis=0) / total
            variances = np.broadcast_to(shared, (K, m))
        variances = np.maximum(variances + self.reg_covar, LEAST_VARIANCE)
        return AutoregressionParams(
            np.where(alive, means, params.means),
            np.where(alive[..., None], coefficients, params.coefficients),
            np.where(
                alive | (not self.switching_variance), variances, params.variances
            ),
            params.centre,
            degenerate,
        )

    def _of_column(self, moments, params, j):
        """Return means, coefficients and sums of squared errors of a column."""
        first = self.histories(len(params.means))[:, 0]
        mass = np.bincount(first, moments[:, 0, 0])
        alive = left_alive(mass[:, None])[0][:, 0]
        means = params.means[:, j] - params.centre[j]
        coefficients, variances = params.coefficients[:, j], params.variances[:, j]
        left = _errors(self._about(moments, means), coefficients)
        best, least = (means, coefficients, left), np.inf
        for _ in range(TURNS.max_iter):
            before = means
            means = self._means(moments, before, coefficients, variances)
            about = self._about(moments, means)
            if not np.isfinite(about).all():
                break
            coefficients = self._coefficients(about, variances)
            left, short = _errors(about, coefficients), 0.0
            if self.switching_variance:
                own = left / np.where(alive, mass, 1.0) + self.reg_covar
                variances = np.where(alive, np.maximum(own, LEAST_VARIANCE), variances)
                short = mass @ np.log(variances)
            short += (left / variances).sum()
            if not short < least:  # of rounding errors, where a mean is open
                break
            best, least = (means, coefficients, left), short
            if (np.abs(means - before) <= TURNS.tol * np.sqrt(variances)).all():
                break
        means, coefficients, left = best
        return means + params.centre[j], coefficients, left

    def _means(self, moments, before, coefficients, variances):
        """Return the means of the states, given all else."""
        K = len(before)
        histories = self.histories(K)
        steps = np.column_stack([np.ones(K), -coefficients])[histories[:, 0]]
        share = 1.0 / variances[histories[:, 0]]
        # Errors of a history have the mean b' window - c' means.
        c = np.einsum("hw,hwk->hk", steps, np.eye(K)[histories])
        weights = share * moments[:, 0, 0]
        normal = (c * weights[:, None]).T @ c
        response = c.T @ (share * (steps * moments[:, 0, 1:]).sum(axis=1))
        # Where a unit root leaves a mean open, it stays about where it is.
        held = max(TURNS.held * weights.sum(), LEAST_VARIANCE) * np.eye(K)
        return np.linalg.solve(normal + held, response + held @ before)

    def _about(self, moments, means):
        """Return second moments of windows about the means, by the state of the row."""
        histories = self.histories(len(means))
        level = means[histories]
        cross = level[:, :, None] * moments[:, 0, None, 1:]
        about = moments[:, 1:, 1:] - cross - cross.swapaxes(1, 2)
        about = about + moments[:, :1, :1] * level[:, :, None] * level[:, None]
        of_state = np.zeros((len(means), *about.shape[1:]))
        np.add.at(of_state, histories[:, 0], about)
        return of_state

    def _coefficients(self, about, variances):
        """Return least squares, of all states together if they do not switch."""
        pooled = about
        if not self.switching_coefficients:
            pooled = (about / variances[:, None, None]).sum(axis=0)[None]
        inverse = np.linalg.pinv(pooled[:, 1:, 1:], rcond=TURNS.rcond, hermitian=True)
        found = np.einsum("kij,kj->ki", inverse, pooled[:, 1:, 0])
        return np.broadcast_to(found, (len(about), self.order))

    def project(self, s, params=None):
        """Return moments that data can have."""
        if params is None:
            raise ValueError("statistics of Autoregression are projected given params")
        moments, left = possible_moments(self._moments(s, params))
        return (moments.ravel(), True) if left else (s, False)

    def sample(self, params, states, rng):
        """Draw a row for each history of states, after rows at the means of these."""
        K = len(params.means)
        before = params.means[self.histories(K)[states, 1:]]
        return self.sample_after(params, states, before, rng)

    def sample_after(self, params, states, before, rng):
        """Draw a row for each history of states, given the rows before it."""
        histories = self.histories(len(params.means))[states]
        now = histories[:, 0]
        apart = before - params.means[histories[:, 1:]]
        means = params.means[now]
        means = means + np.einsum("nmi,nim->nm", params.coefficients[now], apart)
        deviations = np.sqrt(params.variances[now])
        return means + deviations * rng.standard_normal(means.shape)

    def mean(self, params):
        """Raise TypeError: what is missing depends on rows before and after it."""
        raise TypeError("Autoregression does not fill holes")

    def spreads(self, params):
        """Return the variances of the errors."""
        return error_spreads(params.variances, self.reg_covar)

    def free_directions(self, params, following, X):
        """Yield the directions of means, coefficients and variances.

        A mean counts in all histories that have the state: each has a slot of its own.
        """
        K, m, order = params.coefficients.shape
        for k, j in np.ndindex(K, m):
            size = np.sqrt(params.variances[k, j])
            yield Direction("means", (((k, j), 1.0),), size, ("mean", k, j))
        every = [((k,),) for k in range(K)]
        together = [tuple((k,) for k in range(K))]
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
        m = d // (1 + self.order)
        shared = K if self.switching_coefficients else 1
        return m * (K + shared * self.order + (K if self.switching_variance else 1))

    def marginal(self, params, columns):
        """Return the autoregressions of some columns."""
        columns = np.asarray(columns)
        return AutoregressionParams(
            params.means[:, columns],
            params.coefficients[:, columns],
            params.variances[:, columns],
            params.centre[columns],
        )


def _errors(about, coefficients):
    """Return sums of squared errors, of moments about the means."""
    steps = np.column_stack([np.ones(len(coefficients)), -coefficients])
    return np.maximum(np.einsum("ki,kij,kj->k", steps, about, steps), 0.0)
