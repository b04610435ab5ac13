"""Regressions, and autoregressions, whose coefficients depend on the state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.base import left_alive
from sktem.emissions.directions import Direction
from sktem.emissions.lags import (
    TURNS,
    LaggedEmission,
    lagged,
    possible_moments,
    pseudo_inverse,
)

__all__ = ["Regression", "RegressionParams"]


class RegressionParams(NamedTuple):
    """Parameters of regressions.

    Attributes
    ----------
    coefficients : ndarray of shape (K, m, q)
        For each response, the intercept, the coefficients of the columns ``exog``, and
        those of the responses one row before, two rows before, and so on.
    variances : ndarray of shape (K, m)
        Variances of the errors.
    centre : ndarray of shape (m + q,)
        Fixed point relative to which the statistics of responses and regressors are
        kept.
    degenerate : int
        Number of states kept unchanged because they had lost all their data.
    """

    coefficients: np.ndarray
    variances: np.ndarray
    centre: np.ndarray
    degenerate: int = 0


class Regression(LaggedEmission):
    """Linear regression of responses on other columns and on previous rows.

    All columns that are not ``exog`` are responses, with independent errors. In state k
    the response j of row t is ``c_kj + b_kj' x_t + sum_i a_kij' y_{t-i} + e``, with
    errors of variance ``s_kj``. In a hidden Markov model this is a Markov-switching
    regression and, with ``order`` above 0, autoregression (Hamilton 1990).

    Parameters
    ----------
    order : int, default=0
        Number of previous rows of the same sequence that a row depends on. The first
        rows of a sequence are conditioned on.
    exog : sequence of int, default=()
        Columns that are regressors. Their distribution is not modelled.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    switching_variance : bool, default=True
        Whether each state has its own variances.
    reg_covar : float, default=1e-6
        Added to the variances.
    shared : sequence of int or "lags", default=()
        Regressors whose coefficients are shared by all states: columns of ``exog``, and
        "lags" for the previous rows.

    Notes
    -----
    A response is missing if it is NaN, or if one of its regressors is. A hole in the
    data is therefore followed by ``order`` rows that are treated as missing. The model
    is written with intercepts: ``y_t = c_k + a_k y_{t-1} + e``. For autoregressions
    around means, which depend on the states of previous rows as well, see
    :class:`Autoregression`.

    References
    ----------
    J. D. Hamilton, Analysis of time series subject to changes in regime, Journal of
    Econometrics 45, 1990.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import HiddenMarkovModel
    >>> from sktem.emissions import Regression
    >>> rng = np.random.default_rng(0)
    >>> states, x = np.repeat([0, 1, 0, 1], 100), rng.normal(size=400)
    >>> y = np.where(states == 0, 1.0 + x, -2.0 * x) + 0.1 * rng.normal(size=400)
    >>> hmm = HiddenMarkovModel(2, emission=Regression(exog=[1]), random_state=0)
    >>> coefficients = hmm.fit(np.column_stack([y, x])).emission_params_.coefficients
    >>> coefficients[np.argsort(coefficients[:, 0, 1]), 0].round(1) + 0.0
    array([[ 0., -2.],
           [ 1.,  1.]])
    """

    def __init__(
        self,
        order=0,
        exog=(),
        fit_intercept=True,
        switching_variance=True,
        reg_covar=1e-6,
        shared=(),
    ):
        self.order = order
        self.exog = exog
        self.fit_intercept = fit_intercept
        self.switching_variance = switching_variance
        self.reg_covar = reg_covar
        self.shared = shared

    # Rows -----------------------------------------------------------------------

    def _columns(self, width, plain=False):
        """Return indices of responses and of other columns, of rows with lags."""
        exog = [int(column) for column in self.exog]
        d = width if plain else self.n_columns(width)
        responses = [j for j in range(d) if j not in set(exog)]
        return responses, [*exog, *range(d, width)]

    def check(self, X):
        """Raise ValueError for settings that do not fit the columns."""
        super().check(X)
        exog = list(self.exog)
        if not set(self.shared) <= {*exog, *(["lags"] if self.order else [])}:
            raise ValueError(
                "shared of Regression must be columns of exog, or 'lags' if order is "
                f"above 0, got {self.shared!r}"
            )
        if not (self.fit_intercept or self.order or exog):
            raise ValueError("Regression needs an intercept, rows before or exog")

    def is_shared(self, q):
        """Return which of q regressors share their coefficients between states."""
        lags = q - int(self.fit_intercept) - len(self.exog)
        intercept = [False] * int(self.fit_intercept)
        columns = [column in self.shared for column in self.exog]
        return np.array(intercept + columns + ["lags" in self.shared] * lags)

    def with_lags(self, X, offsets):
        """Return rows with the responses of previous rows, NaN before the first one.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of sequences.
        offsets : ndarray of int of shape (n_sequences + 1,)
            Offsets at which sequences begin.

        Returns
        -------
        ndarray of shape (n, d + order * m)
            Rows.
        """
        responses, _ = self._columns(X.shape[1], plain=True)
        return lagged(X, responses, offsets, self.order)

    def _split(self, X, centre=None):
        """Return centred responses and regressors, and the mask of observed responses.

        Missing values are 0.
        """
        responses, others = self._columns(X.shape[1])
        y = X[:, responses]
        z = X[:, others]
        if self.fit_intercept:
            z = np.concatenate([np.ones((len(X), 1)), z], axis=1)
        observed = ~(np.isnan(y) | np.isnan(z).any(axis=1, keepdims=True))
        if centre is not None:
            y, z = y - centre[: y.shape[1]], z - centre[y.shape[1] :]
        has_response = observed.any(axis=1)
        return (
            np.where(observed, y, 0.0),
            np.where(has_response[:, None], z, 0.0),
            observed.astype(np.float64),
        )

    def features(self, X):
        """Return residuals of one regression, and their products with regressors.

        Parameters
        ----------
        X : ndarray of shape (n, width)
            Rows, with lags.

        Returns
        -------
        ndarray of shape (n, n_features)
            Features, NaN where a row is missing.
        """
        params = self.start(X, np.ones((len(X), 1)))
        y, z, observed = self._split(X, params.centre)
        residuals = (y - z @ self._shifted(params)[0].T) * observed
        z = z[:, 1:] if self.fit_intercept else z
        products = [residuals * column[:, None] for column in z.T]
        features = np.concatenate([residuals, *products], axis=1)
        return np.where((observed > 0).any(axis=1)[:, None], features, np.nan)

    # The contract ---------------------------------------------------------------

    def start(self, X, R):
        """Return the regressions of each state."""
        K, (responses, others) = R.shape[1], self._columns(X.shape[1])
        m, q = len(responses), len(others) + int(self.fit_intercept)
        centre = np.zeros(m + q)
        y, z, observed = self._split(X)
        if self.fit_intercept:
            has_response = observed.any(axis=1)
            centre[:m] = y.sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
            centre[m + 1 :] = z[:, 1:].sum(axis=0) / max(has_response.sum(), 1)
        blank = RegressionParams(np.zeros((K, m, q)), np.ones((K, m)), centre)
        pooled = np.repeat(R.sum(axis=1, keepdims=True) / K, K, axis=1)
        params = self.maximize(self.statistics(X, pooled, blank), blank)
        return self.maximize(self.statistics(X, R, params), params)

    def _shifted(self, params, back=False):
        """Return coefficients for values about the centre, or those of the values."""
        coefficients = params.coefficients
        if not self.fit_intercept:
            return coefficients
        m = coefficients.shape[1]
        coefficients = coefficients.copy()
        sign = -1.0 if back else 1.0
        moved = coefficients[..., 1:] @ params.centre[m + 1 :] - params.centre[:m]
        coefficients[..., 0] += sign * moved
        return coefficients

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        y, z, observed = self._split(X, params.centre)
        coefficients = self._shifted(params)
        log_densities = np.empty((len(X), len(coefficients)))
        for k, variances in enumerate(params.variances):
            squares = (y - (z @ coefficients[k].T)) ** 2 / variances
            logs = squares + np.log(2 * np.pi * variances)
            log_densities[:, k] = -0.5 * (logs * observed).sum(axis=1)
        return log_densities

    def statistics(self, X, R, params):
        """Return masses and second moments of responses with regressors."""
        y, z, observed = self._split(X, params.centre)
        K, m, q = params.coefficients.shape
        statistics = np.zeros((K, m, 1 + (1 + q) ** 2))
        for j in range(m):
            both = np.concatenate([y[:, j : j + 1], z], axis=1)
            for k in range(K):
                weights = R[:, k] * observed[:, j]
                statistics[k, j, 0] = weights.sum()
                statistics[k, j, 1:] = (both.T @ (weights[:, None] * both)).ravel()
        return statistics.ravel()

    def maximize(self, s, params):
        """Return weighted least-squares coefficients and residual variances."""
        K, m, q = params.coefficients.shape
        mass, moments = _moments(s, K, m, q)
        alive, degenerate = left_alive(mass)
        shared, variances = self.is_shared(q), params.variances
        for _ in range(TURNS.max_iter):
            coefficients = _least_squares(moments, shared, 1.0 / variances)
            left = _left(moments, coefficients)
            before = variances
            variances = self.variances_of(left, mass, alive, before)
            # Shared coefficients are weighted by the variances, which depend on them.
            done = np.abs(variances - before) <= TURNS.tol * variances
            if done.all() or not (shared.any() and self.switching_variance):
                break
        updated = params._replace(coefficients=coefficients, degenerate=degenerate)
        coefficients = self._shifted(updated, back=True)
        is_spare = ~alive[..., None]
        return RegressionParams(
            np.where(is_spare, params.coefficients, coefficients),
            variances,
            params.centre,
            degenerate,
        )

    def project(self, s, params=None):
        """Return masses that are not negative, and moments that data can have."""
        if params is None:
            raise ValueError("statistics of Regression are projected given params")
        mass, moments = _moments(s, *params.coefficients.shape)
        moments, left = possible_moments(moments)
        if not (left or (mass < 0).any()):
            return s, False
        mass = moments[..., 1, 1] if self.fit_intercept else np.maximum(mass, 0.0)
        flat = moments.reshape(*mass.shape, -1)
        return np.concatenate([mass[..., None], flat], axis=-1).ravel(), True

    def sample(self, params, states, rng):
        """Draw a row for each state, after rows at the mean of the data."""
        m = params.coefficients.shape[1]
        before = np.tile(params.centre[:m], (len(states), self.order, 1))
        return self.sample_after(params, states, before, rng)

    def sample_after(self, params, states, before, rng, exog=None):
        """Draw the responses of each state, given the responses before."""
        n = len(states)
        if exog is None:
            self.check_drawn()
            exog = np.empty((n, 0))
        ones = np.ones((n, int(self.fit_intercept)))
        z = np.concatenate([ones, exog, before.reshape(n, -1)], axis=1)
        means = np.einsum("njq,nq->nj", params.coefficients[states], z)
        deviations = np.sqrt(params.variances[states])
        return means + deviations * rng.standard_normal(means.shape)

    def latest(self, X):
        """Return the responses of each row and of previous ones, the latest first."""
        responses, others = self._columns(X.shape[1])
        responses_now, lags = X[:, None, responses], X[:, others[len(self.exog) :]]
        lags = lags.reshape(len(X), self.order, len(responses))
        return np.concatenate([responses_now, lags], axis=1)

    def mean(self, params):
        """Return the intercepts, of regressions without regressors."""
        if self.order or len(self.exog):
            raise TypeError(
                "Regression has no means of its own without values of the regressors"
            )
        return params.coefficients[..., 0] * np.ones(params.coefficients.shape[:2])

    def _means(self, X, params):
        """Return the means of the responses in each state, (n, K, m)."""
        if self.order:
            raise TypeError(
                "Regression does not fill holes where rows depend on rows before them "
                f"(order={self.order})"
            )
        z = X[:, self._columns(X.shape[1])[1]]
        if np.isnan(z).any():
            row, place = np.argwhere(np.isnan(z))[0]
            raise ValueError(
                "Regression fills holes of responses, and has no distribution of "
                f"regressors: column {self.exog[place]}, of exog, is NaN in row {row}"
            )
        if self.fit_intercept:
            z = np.concatenate([np.ones((len(X), 1)), z], axis=1)
        return np.einsum("kjq,nq->nkj", params.coefficients, z)

    def _filled(self, X, values):
        """Return rows with values of responses where these are not observed."""
        responses, filled = self._columns(X.shape[1])[0], X.copy()
        y = X[:, responses]
        filled[:, responses] = np.where(np.isnan(y), values, y)
        return filled

    def expected(self, X, R, params):
        """Return rows with missing responses replaced by conditional means."""
        means = self._means(X, params)
        return self._filled(X, np.einsum("nk,nkj->nj", R, means))

    def draw(self, X, states, params, rng):
        """Return rows with missing responses replaced by draws."""
        means = self._means(X, params)[np.arange(len(X)), states]
        deviations = np.sqrt(params.variances[states])
        noise = deviations * rng.standard_normal(means.shape)
        return self._filled(X, means + noise)

    def free_directions(self, params, following, X):
        """Yield the directions of coefficients and variances.

        Intercepts move with slopes, so that the regressions pivot about the centre.
        """
        K, m, q = params.coefficients.shape
        sizes = np.sqrt((self._split(X, params.centre)[1] ** 2).mean(axis=0))
        sizes = np.where(sizes > 0, sizes, 1.0)
        shared, centre = self.is_shared(q), params.centre[m:]
        for k, j, i in np.ndindex(K, m, q):
            states = range(K) if shared[i] else [k]
            if k > 0 and shared[i]:
                continue
            entries = tuple(((state, j, i), 1.0) for state in states)
            others = [("coefficients", (state, j, 0), -centre[i]) for state in states]
            size = np.sqrt(params.variances[k, j]) / sizes[i]
            yield Direction(
                "coefficients", entries, size, (j, i), None if shared[i] else k,
                others=tuple(others if centre[i] else ()),
            )  # fmt: skip
        for j in range(m):
            if self.switching_variance:
                for k in range(K):
                    size, entry = params.variances[k, j], ((k, j), 1.0)
                    yield Direction("variances", (entry,), size, (j,), k)
            else:
                places = tuple(((k, j), 1.0) for k in range(K))
                yield Direction("variances", places, params.variances[0, j], (j,))

    def n_parameters(self, K, d, params=None):
        """Return the number of coefficients and variances."""
        responses, others = self._columns(d)
        m, q = len(responses), len(others) + int(self.fit_intercept)
        shared = int(self.is_shared(q).sum())
        count = K * (q - shared) + shared + (K if self.switching_variance else 1)
        return m * count

    def marginal(self, params, columns):
        """Return the regressions of some responses, without regressors."""
        if self.order or len(self.exog):
            raise TypeError("Regression has a marginal only without regressors")
        columns = np.asarray(columns)
        m = params.coefficients.shape[1]
        return RegressionParams(
            params.coefficients[:, columns],
            params.variances[:, columns],
            np.concatenate([params.centre[columns], params.centre[m:]]),
        )


def _least_squares(moments, shared, weights):
    """Return coefficients (K, m, q); shared ones are the same in all states."""
    z_z, z_y = moments[..., 1:, 1:], moments[..., 1:, 0]
    if not shared.any():
        return np.einsum("kjab,kjb->kja", pseudo_inverse(z_z), z_y)
    K, m, q = z_y.shape
    n_own = K * int((~shared).sum())
    # Where each coefficient is among those of one system of equations.
    places = np.empty((K, q), dtype=np.intp)
    places[:, ~shared] = np.arange(n_own).reshape(K, -1)
    places[:, shared] = n_own + np.arange(shared.sum())
    normal = np.zeros((m, n_own + shared.sum(), n_own + shared.sum()))
    response = np.zeros(normal.shape[:2])
    for k in range(K):
        weighted = weights[k][:, None] * z_y[k]
        normal[:, places[k][:, None], places[k]] += weights[k][:, None, None] * z_z[k]
        response[:, places[k]] += weighted
    solution = np.einsum("jab,jb->ja", pseudo_inverse(normal), response)
    return solution[:, places].swapaxes(0, 1)


def _left(moments, coefficients):
    """Return sums of squared errors, (K, m)."""
    z_z, z_y = moments[..., 1:, 1:], moments[..., 1:, 0]
    fitted = np.einsum("kjab,kja,kjb->kj", z_z, coefficients, coefficients)
    left = moments[..., 0, 0] - 2 * (coefficients * z_y).sum(axis=-1) + fitted
    return np.maximum(left, 0.0)


def _moments(s, K, m, q):
    """Return masses (K, m) and moments (K, m, 1 + q, 1 + q) of statistics."""
    parts = s.reshape(K, m, 1 + (1 + q) ** 2)
    return parts[..., 0], parts[..., 1:].reshape(K, m, 1 + q, 1 + q)
