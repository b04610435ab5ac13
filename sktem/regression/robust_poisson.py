"""Robust Poisson regression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from sktem.e_step.random import spawn_generators
from sktem.estimators.base import LoopEstimator, unchanged_by_errors, with_callbacks
from sktem.estimators.by_blocks import answer, checked_rows, each_block, weighted_sum
from sktem.estimators.fit_warnings import equal_rows, warn_user
from sktem.estimators.parameters import (
    Average,
    BatchSize,
    SamplerLike,
    Seed,
    SolverLike,
    StepSize,
)
from sktem.estimators.targets import features_of, split_target
from sktem.estimators.weights import checked_weights, positive_rows
from sktem.exceptions import FitWarning
from sktem.loop.state import RunState
from sktem.regression.feature_scaling import Scaling
from sktem.regression.robust_poisson_ascent import ascend, best_start, has_maximum
from sktem.regression.robust_poisson_model import (
    RobustPoissonModel,
    RobustPoissonParams,
)
from sktem.rows.answers import in_memory
from sktem.rows.checked import check_columns, not_finite
from sktem.rows.sources import checked_carrier, found_rows
from sktem.samplers import ULA
from sktem.validation import validate_data

__all__ = ["RobustPoissonRegressor"]

#: The unadjusted sampler by name: its bias at this step is negligible.
ULA_OPTIONS = {"step": 0.02, "n_steps": 5}
#: What is said where coefficients have run off.
NO_MAXIMUM = (
    "The likelihood has no maximum: features separate rows whose counts are all "
    "zero, and their rates run off to zero. Leave these rows or features out, or take "
    "a penalty (scikit-learn's PoissonRegressor)."
)


@dataclass(kw_only=True)
class ScaledState(RunState):
    """State of a run on features that have been scaled."""

    scaling: Scaling


class RobustPoissonRegressor(RegressorMixin, LoopEstimator):
    """Poisson regression for overdispersed counts.

    ``y_i ~ Poisson(exp(z_i))`` with ``z_i ~ N(alpha + x_i beta, sigma^2)``: a row that
    does not fit moves its own z instead of the coefficients. Features are centred and
    scaled internally. With a positive ``tol``, Newton steps on the marginal likelihood
    follow the solver, and with "exact" moments also precede it, so that the result is
    the maximum of the marginal likelihood. Counts without overdispersion get a
    ``sigma_`` close to zero and the coefficients of a Poisson regression.

    Parameters
    ----------
    solver : str or Solver, default="auto"
        "em", "saem", "online", "iem", "isaem", "vrttem", "fittem", "biased-saem" (SAEM
        with the unadjusted Langevin sampler), or an instance of a class of
        :mod:`sktem.solvers`. "auto" is "em" with "exact" moments, else "saem".
    sampler : str or Sampler, default="auto"
        "exact" (moments by quadrature), "rwm", "mala", "hmc", "ula", or an instance.
        "auto" is what the solver implies, "mala" for "saem", else "exact".
    batch_size : int or "auto", default="auto"
        Rows per iteration, for solvers that do not visit all of them. "auto" is a
        twentieth of the rows, at most 1024.
    step_size : float, Schedule, callable or "auto", default="auto"
        Steps of the stochastic approximation. "auto" is 1 with exact moments, else ``k
        ** -0.5``.
    average : bool, int or "random", default=False
        Which iterate is returned, see :class:`sktem.StochasticEM`.
    max_iter : int, default=500
        Maximum number of passes over the data.
    tol : float, default=1e-6
        The fit stops when the mean log-likelihood changes by less than this, and has
        converged if a Newton step would gain less than this. 0 means never, and no
        Newton steps.
    n_iter_no_change : int, default=10
        Number of epochs without progress after which solvers with noise stop.
    random_state : int, RandomState, Generator or None, default=None
        Seed.
    verbose : int, default=0
        1 prints epochs, 2 also the change of the objective. For progress bars see
        :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of epochs between prints.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Slopes beta.
    intercept_ : float
        Intercept alpha.
    sigma_ : float
        Standard deviation of the latents.
    history_ : History
        Record of the run.
    n_iter_ : int
        Passes over the data.
    converged_ : bool
        Whether the maximum has been reached, judged by the gain of a Newton step.
        False, with a warning, if there is no maximum because features separate rows
        that have only counts of zero.
    n_features_in_ : int
        Number of features.

    References
    ----------
    S. Gruffaz, K. Kim, A. Durmus and J. Gardner, Stochastic Approximation with Biased
    MCMC for Expectation Maximization, AISTATS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import RobustPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> z = 1 + X @ [0.5, -0.3] + 0.6 * rng.normal(size=1000)
    >>> model = RobustPoissonRegressor().fit(X, rng.poisson(np.exp(z)))
    >>> round(model.sigma_, 1)
    0.6
    """

    def __init__(
        self,
        *,
        solver: SolverLike = "auto",
        sampler: SamplerLike = "auto",
        batch_size: BatchSize = "auto",
        step_size: StepSize = "auto",
        average: Average = False,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_iter_no_change: int = 10,
        random_state: Seed = None,
        verbose: int = 0,
        verbose_interval: int = 10,
    ):
        self.solver = solver
        self.sampler = sampler
        self.batch_size = batch_size
        self.step_size = step_size
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    #: Column of the target in rows that have it.
    _target_name: str | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _best_sampler(self, model, solver):
        return "mala" if solver == "saem" else "exact"

    def _with_settings(self, sampler, model):
        if sampler is ULA:
            return ULA(**ULA_OPTIONS)
        return super()._with_settings(sampler, model)

    def _checked_by_blocks(self, source, y, sample_weight):
        """Return rows of scaled features for a fit, with weights and scaling."""
        source, y, self._target_name = split_target(source, y)
        X, sample_weight = checked_rows(self, source, sample_weight, dtype=np.float64)
        y = _checked_counts(y, X)
        _warn_of_fractions(y)
        scaling = Scaling.of(X, sample_weight)
        return X.mapped(partial(_scaled_rows, scaling), y), sample_weight, scaling

    def _checked_in_memory(self, X, y, sample_weight):
        """Return rows of scaled features for a fit, with weights and scaling."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._target_name = None
        y = np.asarray(y, dtype=np.float64)
        _warn_of_fractions(y)
        data, sample_weight = positive_rows(_rows(X, y), sample_weight)
        scaling = Scaling.of(data[:, 2:], sample_weight)
        rows = _scaled_rows(scaling, data[:, 2:], data[:, 0])
        return rows, sample_weight, scaling

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Learn the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features, or anything that :func:`sktem.rows.as_rows` accepts, which is then
            read in blocks.
        y : array-like of shape (n_samples,) or str
            Counts, or the name of their column if X is read in blocks.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two equal rows.

        Returns
        -------
        RobustPoissonRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If y has negative entries.
        """
        source = found_rows(X)
        if source is None:
            checked = self._checked_in_memory(X, y, sample_weight)
        else:
            checked = self._checked_by_blocks(source, y, sample_weight)
        rows, sample_weight, scaling = checked
        model = RobustPoissonModel()
        settings = self._settings(model, len(rows))
        weights = np.ones(len(rows)) if sample_weight is None else sample_weight

        climbs = settings.tol > 0

        def new_run(progress):
            generators = spawn_generators(self.random_state)
            start = best_start(rows, weights)
            if climbs and settings.sampler.deterministic:
                start = ascend(rows, start, weights)[0]
            return ScaledState(start, generators, scaling=scaling)

        def finish(state):
            """Climb by Newton steps for the gain left by solvers with noise."""
            if not climbs or state.interrupted:
                return
            if state.converged or not state.stopped:
                state.params, left = ascend(rows, state.params, weights)
                state.converged = bool(left <= self.tol * weights.sum())
                if state.converged and not has_maximum(rows, state.params, weights):
                    state.converged, state.failure = False, NO_MAXIMUM

        state = self._fit(settings, rows, sample_weight, new_run, finish=finish)
        self._warn(state, settings)
        if not state.failure:
            self._warn_of_few(weights)
        return self

    def _warn_of_few(self, weights):
        """Warn where the coefficients can follow every count."""
        effective, n = equal_rows(weights), 1 + self.n_features_in_
        if effective <= n:
            equal = np.ptp(weights) == 0
            rows = f"{effective:.3g} rows" if equal else (
                f"weights that are worth {effective:.3g} equal rows"
            )  # fmt: skip
            warn_user(
                f"{rows} are too few for {n} coefficients: they can follow every "
                "count, and sigma_ says nothing. Take fewer features, or a penalty "
                "(scikit-learn's PoissonRegressor).",
                FitWarning,
            )

    def _fitted_attributes(self, settings, state, X):
        scaled = state.params
        coefficients = state.scaling.undo(scaled.coefficients[None])[0]
        return {
            "coef_": coefficients[1:],
            "intercept_": float(coefficients[0]),
            "sigma_": float(np.sqrt(scaled.variance)),
            "params_": RobustPoissonParams(coefficients, scaled.variance),
            "history_": state.history,
            "n_iter_": int(np.ceil(state.rows_visited / state.n_rows - 1e-9)),
            "converged_": state.converged,
        }

    def predict(self, X, *, out=None):
        """Return the mean count, ``exp(alpha + x beta + sigma^2 / 2)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Means; an iterator over blocks of them if X is read in blocks and ``out`` is
            not given.
        """
        check_is_fitted(self)

        def means(X):
            with np.errstate(over="ignore"):
                return np.exp(self.intercept_ + X @ self.coef_ + 0.5 * self.sigma_**2)

        return answer(self, features_of(X, self._target_name), means, out)

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination of the predicted means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features.
        y : array-like of shape (n_samples,) or str
            Counts, or the name of their column if X is read in blocks.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        float
            R^2 of ``predict(X)``.
        """
        source = found_rows(X)
        if source is None:
            return super().score(X, y, sample_weight)
        source, y, _ = split_target(source, y)
        predicted = in_memory(self.predict(source))
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def log_likelihood(self, X, y, sample_weight=None):
        """Return the log-likelihood of data, with the latents integrated out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features.
        y : array-like of shape (n_samples,) or str
            Counts, or the name of their column if X is read in blocks.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        float
            Sum over the rows, by adaptive quadrature.
        """
        check_is_fitted(self)
        source = found_rows(X)
        if source is None:
            options = {"reset": False, "dtype": np.float64, "y_numeric": True}
            X, y = validate_data(self, X, y, **options)
        else:
            X, y, _ = split_target(source, y)
        weights = sample_weight
        if weights is not None:
            weights = checked_weights(weights, y)
        if source is not None and source.is_remote:
            check_columns(self, X, reset=False)
            rows = checked_carrier(X)
            rows = rows.mapped(_rows, _checked_counts(y, rows))
            function = partial(_log_likelihood, params=self.params_)
            return float(rows.summed(function, weights)[0])
        counts = _checked_counts(y)
        total, first = 0.0, 0
        for block, _ in each_block(self, X):
            some = counts[first : first + len(block)]
            check_consistent_length(block, some)
            part = None if weights is None else weights[first : first + len(block)]
            total += _log_likelihood(_rows(block, some), part, self.params_)[0]
            first += len(block)
        check_consistent_length(range(first), counts)
        return float(total)

    def log_density(self, X, y):
        """Return the log-likelihood of each row, with its latent integrated out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, in memory.
        y : array-like of shape (n_samples,)
            Counts.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-likelihoods, by adaptive quadrature; their sum is
            :meth:`log_likelihood`.
        """
        check_is_fitted(self)
        options = {"reset": False, "dtype": np.float64, "y_numeric": True}
        X, y = validate_data(self, X, y, **options)
        return RobustPoissonModel().log_likelihood(_rows(X, y), self.params_)

    def _validate(self, X, sample_weight, *, reset):
        X = validate_data(self, X, reset=reset, dtype=np.float64)
        return X, sample_weight


def _rows(X, y):
    """Return rows of the model: counts, ones and features."""
    if (y < 0).any():
        raise ValueError("y must not be negative: Poisson counts are asked for")
    return np.column_stack([y, np.ones(len(X)), X])


def _scaled_rows(scaling, X, y):
    return _rows(scaling.apply(X), y)


def _log_likelihood(rows, weights, params):
    values = RobustPoissonModel().log_likelihood(rows, params)
    return (weighted_sum(values, weights),)


def _checked_counts(y, X=None):
    """Return finite numbers; of rows, as many as these, and not negative."""
    options = {"ensure_2d": False, "dtype": np.float64}
    if X is None:
        return column_or_1d(check_array(y, **options), warn=True)
    y = column_or_1d(check_array(y, ensure_all_finite=False, **options), warn=True)
    check_consistent_length(X, y)
    if place := not_finite(y[:, None])[1]:
        raise ValueError(f"Input y contains {place[2]}: in {X.place(place[0])}.")
    if len(wrong := np.flatnonzero(y < 0)):
        raise ValueError(
            "y must not be negative: Poisson counts are asked for, got "
            f"{y[wrong[0]]:g} in {X.place(wrong[0])}"
        )
    return y


def _warn_of_fractions(y):
    """Warn where y holds other than whole numbers, such as rates."""
    if len(others := np.flatnonzero(y != np.rint(y))):
        warn_user(
            f"y holds numbers that are not whole, such as {y[others[0]]:.3g}: of rates "
            "or means the likelihood and sigma_, the scatter beyond that of counts, "
            "say nothing. Give the counts, or take scikit-learn's PoissonRegressor "
            "with exposures as sample_weight.",
            FitWarning,
        )
