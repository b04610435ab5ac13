"""What the mixtures have in common: fits, streams, scores and criteria."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import DensityMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice, check_number, is_auto
from sktem.e_step.random import drawing_generator, seed_sequence, spawn_generators
from sktem.estimators.base import (
    LoopEstimator,
    unchanged_by_errors,
    undone_if_refused,
    with_callbacks,
)
from sktem.estimators.by_blocks import answer, each_chunk, total_over, weighted_sum
from sktem.estimators.fit_warnings import warn_of_parameters, warn_of_run
from sktem.estimators.progress import final_objective
from sktem.loop.convergence import GAP_RULE
from sktem.loop.state import RunState
from sktem.mixture.component_search import check_n_components, found_components
from sktem.mixture.conditional import chosen_columns, conditioned, given_values
from sktem.mixture.emission_model import completed_rows, drawn_completions
from sktem.mixture.fit_warnings import warn_of_components
from sktem.mixture.likelihood_ratio import likelihood_ratio_test
from sktem.mixture.start import START_METHODS, chosen_rows
from sktem.mixture.stream import MixtureStream
from sktem.schedules import BurnInThenDecay
from sktem.solvers import OnlineEM

__all__ = ["Answers", "MixtureEstimator"]


class Forgetting(NamedTuple):
    """Steps of "saem" where statistics are completed at the current parameters.

    Attributes
    ----------
    most_passes : int
        Passes with steps of 1, at most, and at most half of all.
    alpha : float
        Exponent of the decay that follows.
    """

    most_passes: int = 50
    alpha: float = 0.6


FORGETTING = Forgetting()


class Answers(NamedTuple):
    """Functions of rows that a fitted mixture answers by.

    Attributes
    ----------
    log_density, labels, posterior : callable
        Log-densities, most probable components, and probabilities of components.
    """

    log_density: Callable
    labels: Callable
    posterior: Callable


class MixtureEstimator(DensityMixin, LoopEstimator):
    """Base of the mixtures.

    Subclasses check and convert rows (``_validate``), make the model (``_new_model``)
    and its start (``_start``), and turn parameters into fitted attributes
    (``_parameter_attributes``) and back (``_fitted_model``; ``_as_emissions`` and
    ``_of_columns`` for marginals and conditionals).
    """

    #: Fitted attributes of a stream that are computed when they are read.
    _parameter_names: ClassVar[tuple[str, ...]] = ()

    @property
    def _check_block(self):
        """Return a check of a block of rows, None for none."""
        return None

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: NaN is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the mixture.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            The data, or whatever :func:`sktem.rows.as_rows` takes, which is then read
            by blocks. Results of float32 data are float32.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights; a weight means repetition.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer rows than components, or a parameter is out of range.
        """
        self._check_parameters()
        if isinstance(self.n_components, str) and not self._is_warm():
            return self._with_found_components(X, sample_weight)
        X, sample_weight = self._validate(
            X, sample_weight, reset=True, ensure_min_samples=2
        )
        if len(X) < self._n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got n_components = "
                f"{self._n_components}, n_samples = {len(X)}"
            )
        inits = self._given(X.shape[1])
        model = self._new_model(X)
        settings = self._settings(model, batch_size=self._batch_size_of(X))
        warm = self._goes_on(X.shape[1])
        seed, starts = self._seed()

        def new_run(progress):
            if warm:
                params, s = self._continued(model)
            else:
                params, s = self._start(model, X, sample_weight, inits, progress.random)
            # By index, so that a fit resumed from a checkpoint has the same.
            run_seed = np.random.SeedSequence(seed.entropy, spawn_key=(progress.start,))
            state = RunState(params, spawn_generators(run_seed))
            state.generators.monitoring = np.random.default_rng(seed)
            state.solver.s = state.solver.S_tts = s
            if warm:
                state.best_objective = self._bound_to_beat(settings)
            return state

        n_init = 1 if warm else self.n_init

        def finish(state):
            total = float(len(X) if sample_weight is None else sample_weight.sum())
            self._stream = MixtureStream.after_fit(self, model, state, len(X), total)
            self.__dict__.pop("n_steps_", None)

        options = {"n_init": n_init, "starts": starts, "finish": finish}
        state = self._fit(settings, X, sample_weight, new_run, **options)
        warn_of_run(state, settings)
        if not warn_of_components(model, state, X, sample_weight):
            warn_of_parameters(self._n_parameters(), len(X), sample_weight)
        return self

    def fit_predict(self, X, y=None, sample_weight=None):
        """Learn the mixture and return the component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights.

        Returns
        -------
        ndarray of shape (n_samples,)
            Component labels, those of ``predict(X)``.
        """
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

    @undone_if_refused
    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a chunk of a stream, with constant memory.

        The chunk can have any number of rows. The first ``max(1024, 20 * n_components *
        (n_features + 1))`` rows are kept, and until then the parameters are those of EM
        on them. Starts are made of them as in ``fit`` and, for
        ``init_params="kmeans"``, about random rows; unless it is given, 20 EM passes
        take each on, and the best is kept. After that, rows are not kept. After
        ``fit``, the stream continues from the fitted mixture. A chunk without weight
        counts for nothing.

        Time is counted in rows: with batches of ``batch_size`` rows ("auto": 256 on a
        stream), the step of the k-th batch is ``step_size(k)``, with k counted from one
        row per parameter on; a constant step forgets the past and follows drifting
        data, "auto" is ``(k + 2) ** -0.5`` with the average of the last quarter of the
        iterates. Under "em", "saem", "mcem" and "online" the result does not depend on
        how the stream is cut into chunks. Under "iem", "isaem", "vrttem" and "fittem" a
        chunk is the population of the solver: two passes over it (one to fill the
        memory), then its statistics are merged into the running ones with the step of
        its rows. ``max_iter``, ``tol`` and ``warm_start`` play no part.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), iterator or rows
            Rows; or an iterator of such chunks, or what
            :func:`sktem.rows.as_rows` takes, which is read once to its end.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights; a weight means repetition.

        Returns
        -------
        object
            The estimator, ready to predict.
        """
        if self._begun() is None or not self._begun().is_settled(self):
            self._check_parameters()
            if isinstance(self.n_components, str) and not hasattr(
                self, "n_components_"
            ):
                raise ValueError(
                    f"n_components={self.n_components!r} needs rows that can be read "
                    "again: fit the first ones, then partial_fit goes on"
                )
        chunks = each_chunk(
            self, X, sample_weight, lambda: not self._begun(), self._check_block
        )
        for rows, weights in chunks:
            stream = self._begun() or MixtureStream(*self._seed())
            self._partial_fit(stream, rows, weights)
        return self

    def _publish_stream(self, stream):
        """Set what a stream has found; parameters are computed when they are read."""
        for name in self._parameter_names:
            self.__dict__.pop(name, None)
        self._publish(stream.counts())

    def _publish_parameters(self):
        """Compute the parameters of a stream that have not been read yet."""
        if "n_steps_" in self.__dict__ and "weights_" not in self.__dict__:
            self._publish(self._stream.published(self))

    def __getattr__(self, name):
        if name in self._parameter_names:
            self._publish_parameters()
            if name in self.__dict__:
                return self.__dict__[name]
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=self)

    def __dir__(self):
        self._publish_parameters()
        return super().__dir__()

    def __getstate__(self):
        self._publish_parameters()
        return super().__getstate__()

    def _begun(self):
        """Return the stream, None if there is none yet."""
        return getattr(self, "_stream", None)

    def score(self, X, y=None, sample_weight=None):
        """Return the mean log-likelihood per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the mean; a weight means repetition.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        total, n_samples = self._total_log_likelihood(X, sample_weight)
        return total / n_samples

    def score_samples(self, X, *, out=None):
        """Return the log-density of what is observed of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or rows
            Rows.
        out : array of shape (n_samples,) or None, default=None
            Where the result is written, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Log-densities, 0 for rows of which nothing is observed; an iterator of them
            by blocks if X is read by blocks and ``out`` is not given.
        """
        return self._answered(X, self._answers().log_density, out)

    def predict(self, X, *, out=None):
        """Return the most probable component of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or rows
            Rows.
        out : array of shape (n_samples,) or None, default=None
            Where the result is written, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Component labels; an iterator of them by blocks if X is read by blocks and
            ``out`` is not given.
        """
        return self._answered(X, self._answers().labels, out)

    def predict_proba(self, X, *, out=None):
        """Return the posterior probability of each component for each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or rows
            Rows.
        out : array of shape (n_samples, n_components) or None, default=None
            Where the result is written, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_components) or iterator
            Probabilities; an iterator of them by blocks if X is read by blocks and
            ``out`` is not given.
        """
        return self._answered(X, self._answers().posterior, out)

    def _answered(self, X, function, out):
        return answer(self, X, function, out, self._check_block)

    def _answers(self) -> Answers:
        """Return functions of rows that answer."""
        model, params = self._fitted_model()
        functions = model.log_likelihood, model.predict, model.posterior
        return Answers(*(partial(function, params=params) for function in functions))

    def _total_log_likelihood(self, X, sample_weight):
        """Return the log-likelihood of all rows, and how many rows that is."""
        model, params = self._fitted_model()
        terms = partial(_likelihood, model=model, params=params)
        return total_over(self, X, sample_weight, terms, self._check_block)

    def _n_parameters(self):
        model, _ = self._fitted_model()
        return model.n_parameters(self.n_features_in_)

    def impute(self, X, method="mean"):
        """Return a table with values in the place of what is missing.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; NaN (None, NA) is missing.
        method : {"mean", "draw", "mode"}, default="mean"
            "mean" is the conditional mean given what is observed of the row, averaged
            over the components (for labels their most probable one), "draw" a draw from
            the conditional distribution, "mode" the most probable label, or the
            conditional mean (for counts, the likeliest count) of the most probable
            component.

        Returns
        -------
        table of shape (n_samples, n_features)
            A data frame for a data frame, else an array.
        """
        check_choice("method", method, ("mean", "draw", "mode"))
        return self._completed(X, method, drawing_generator(self.random_state))

    def _completed(self, X, method, rng):
        """Return rows without holes, as given."""
        model, params = self._fitted_model()
        rows, _ = self._validate(X, reset=False)
        twin, unshifted = self._as_emissions()
        R = model.posterior(rows, params)
        filled = completed_rows(twin.emission, unshifted.emission, R, rows, method, rng)
        return self._filled(X, filled.astype(rows.dtype, copy=False))

    def sample(self, n_samples=1, *, given=None):
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows; with ``given``, of completions of each of its rows.
        given : table of shape (m, n_features) or None, default=None
            Rows with holes: what is missing is drawn given what is observed.

        Returns
        -------
        X : table of shape (n_samples, n_features) or (m * n_samples, n_features)
            Rows, sorted by component; with ``given`` the completions of its first row,
            then of the second, and so on. A data frame if the fit was to one with
            labels.
        y : ndarray of shape (n_samples,) or (m * n_samples,)
            Their components.

        Raises
        ------
        ValueError
            If ``n_samples`` is below 1.
        """
        check_is_fitted(self, "weights_")
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. The sampling requires at "
                "least one sample."
            )
        if given is None:
            rows, labels = self._drawn(n_samples)
        else:
            given, _ = self._validate(given, reset=False)
            twin, params = self._as_emissions()
            rng = drawing_generator(self.random_state)
            rows, labels = drawn_completions(twin, params, given, n_samples, rng)
        return self._as_table(rows), labels

    def _as_table(self, rows):
        """Return drawn rows as a table."""
        return rows

    def bic(self, X, sample_weight=None):
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a weight means repetition.

        Returns
        -------
        float
            The criterion.
        """
        total, n_samples = self._total_log_likelihood(X, sample_weight)
        return -2 * total + self._n_parameters() * float(np.log(n_samples))

    def aic(self, X, sample_weight=None):
        """Return Akaike's information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a weight means repetition.

        Returns
        -------
        float
            The criterion.
        """
        total, _ = self._total_log_likelihood(X, sample_weight)
        return -2 * total + 2 * self._n_parameters()

    def icl(self, X, sample_weight=None):
        """Return the integrated completed likelihood criterion; lower is better.

        It is BIC plus twice the entropy of the posterior probabilities, and so prefers
        well separated components (Biernacki, Celeux and Govaert 2000).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a weight means repetition.

        Returns
        -------
        float
            The criterion.
        """
        model, params = self._fitted_model()
        terms = partial(_likelihood, model=model, params=params, with_entropy=True)
        total, mass, entropy = total_over(
            self, X, sample_weight, terms, self._check_block
        )
        bic = -2 * total + self._n_parameters() * float(np.log(mass))
        return bic + 2 * entropy

    def likelihood_ratio_test(self, X, *, n_bootstrap=99, n_jobs=None):
        """Test whether one component less would do.

        The likelihood ratio of a fit with as many components as this one and of one
        with a component less is compared with those of samples of the smaller one
        (McLachlan 1987): the usual distribution does not hold, as the smaller mixture
        lies on the border of the larger one. Samples have the holes of the data.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            The rows of ``fit``.
        n_bootstrap : int, default=99
            Samples; the least p-value is ``1 / (n_bootstrap + 1)``.
        n_jobs : int or None, default=None
            Processes. The result does not depend on it.

        Returns
        -------
        LikelihoodRatioTest
            A tuple of ``statistic``, ``p_value``, ``n_components`` of the smaller
            mixture and ``bootstrap``, the statistics of the samples.

        Examples
        --------
        >>> import numpy as np
        >>> from sktem import StochasticEMGaussianMixture
        >>> X = np.append(np.arange(10.0), 50 + np.arange(10.0))[:, None]
        >>> mixture = StochasticEMGaussianMixture(2, random_state=0).fit(X)
        >>> mixture.likelihood_ratio_test(X, n_bootstrap=9).p_value
        0.1
        """
        check_number("n_bootstrap", n_bootstrap, Integral, 1)
        model, params = self._as_emissions()
        K = len(params.weights)
        if K < 2:
            raise ValueError("the mixture has one component: there is none less")
        rows, _ = self._validate(X, reset=False)
        settings = {"n_components": K - 1, "verbose": 0, "warm_start": False}
        smaller = clone(self).set_params(**settings, **self._settings_of_rows())
        seed, _ = self._seed()
        return likelihood_ratio_test(smaller, rows, n_bootstrap, seed, n_jobs)

    def _settings_of_rows(self):
        """Return settings with which rows of numbers are fitted like the table."""
        return {}

    def marginal(self, columns):
        """Return the mixture of some of the columns, the others integrated out.

        Parameters
        ----------
        columns : int, str, list, slice or mask
            Columns as in :class:`sklearn.compose.ColumnTransformer`; names are those of
            the data frame of ``fit``.

        Returns
        -------
        object
            A fitted estimator of the same class for these columns, in this order.

        Examples
        --------
        >>> import numpy as np
        >>> from sktem import StochasticEMGaussianMixture
        >>> X = np.array([[0.0, 2.0], [2.0, 4.0], [4.0, 9.0]])
        >>> mixture = StochasticEMGaussianMixture().fit(X)
        >>> mixture.marginal([1]).means_
        array([[5.]])
        """
        model, params = self._as_emissions()
        d, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        others = chosen_columns(columns, d, names)
        nothing = np.full(d, np.nan)
        return self._of_columns(*conditioned(model, params, nothing, others), others)

    def condition(self, columns, values):
        """Return the mixture of the other columns, given the values of some.

        Parameters
        ----------
        columns : int, str, list, slice or mask
            Columns as in :class:`sklearn.compose.ColumnTransformer`; names are those of
            the data frame of ``fit``.
        values : array-like of shape (n_columns,)
            Their values, or the value of one column; one that is NaN (None) is not
            known, and its column is integrated out.

        Returns
        -------
        object
            A fitted estimator of the same class for the other columns, in the order
            of the table. Its weights are the posterior probabilities of the components.

        Raises
        ------
        TypeError
            If the emission has no conditional distribution of its own kind.

        Examples
        --------
        >>> import numpy as np
        >>> from sktem import StochasticEMGaussianMixture
        >>> x = np.arange(10.0)
        >>> mixture = StochasticEMGaussianMixture().fit(np.column_stack([x, 2 * x]))
        >>> mixture.condition([0], [4.0]).means_.round(3)
        array([[8.]])
        """
        model, params = self._as_emissions()
        d, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        columns = chosen_columns(columns, d, names)
        others = np.setdiff1d(np.arange(d), columns)
        if not len(others):
            raise ValueError("values of all columns are given: none is left")
        row = self._given_row(columns, given_values(columns, values))
        return self._of_columns(*conditioned(model, params, row, others), others)

    def _twin_of_columns(self, columns):
        """Return an estimator with these settings, whose table has some columns."""
        twin = clone(self).set_params(warm_start=False)
        twin.n_features_in_ = len(columns)
        if hasattr(self, "feature_names_in_"):
            twin.feature_names_in_ = self.feature_names_in_[columns]
        return twin

    def _tolerance(self):
        return GAP_RULE.tol if is_auto(self.tol) else super()._tolerance()

    def _settings(self, model, n_rows=None, *, batch_size=None):
        settings = super()._settings(model, n_rows, batch_size=batch_size)
        settings = replace(settings, extrapolates=is_auto(self.tol))
        if isinstance(settings.solver, OnlineEM) and isinstance(self.step_size, str):
            # Steps average over at least one row per parameter: what fewer rows leave
            # of a component loses its last rows sooner or later.
            step_size = copy(settings.step_size)
            batches = model.n_parameters(self.n_features_in_) / settings.batch_size
            step_size.offset = max(step_size.offset, batches ** (1 / step_size.alpha))
            settings = replace(settings, step_size=step_size)
        draws = not settings.sampler.deterministic
        draws = draws and self._solver_name(model) == "saem"
        if draws and model.completes_rows and isinstance(self.step_size, str):
            # What was completed at the first parameters has to be forgotten first.
            passes = min(FORGETTING.most_passes, self.max_iter // 2)
            step_size = BurnInThenDecay(n_burn_in=passes, alpha=FORGETTING.alpha)
            settings = replace(settings, step_size=step_size)
        return settings

    @property
    def _n_components(self):
        """Number of components, that found by ``fit`` if it is not given."""
        n_components = self.n_components
        return self.n_components_ if isinstance(n_components, str) else n_components

    def _is_warm(self):
        return self.warm_start and hasattr(self, "weights_")

    def _with_found_components(self, X, sample_weight):
        """Become the mixture with the best number of components."""
        best, steps = found_components(self, X, sample_weight)
        settings = self.get_params(deep=False)
        attributes = {
            name: value for name, value in vars(best).items() if name not in settings
        }
        self.__dict__.update(attributes, component_search_=steps)
        self.__dict__.pop("n_steps_", None)
        return self

    def _goes_on(self, n_features):
        """Return whether ``fit`` continues a previous one, which must match."""
        if not self._is_warm():
            return False
        self._check_same(self._stream.current_model, n_features)
        return True

    def _check_same(self, model, n_features):
        """Check that the fitted mixture is of the same kind."""
        for name, (before, after) in self._kinds(model, n_features).items():
            if str(before) != str(after):
                raise ValueError(
                    f"Cannot continue from a mixture with {name}={before!r}: it is now "
                    f"{after!r}. Set warm_start=False, or fit a new estimator."
                )

    def _rows_of_start(self, X, weights, random_state):
        """Return the rows of which a start is made, on the host, and their weights."""
        chosen = chosen_rows(X, self._n_components, self.init_size, random_state)
        if chosen is not None:
            X = X.take(chosen, axis=0)
            weights = None if weights is None else weights[chosen]
        return np.asarray(X), weights

    def _bound_to_beat(self, settings):
        """Return the lower bound of the previous fit, where this one continues it."""
        # On other data or a sample of rows, the earlier bound has no meaning.
        comparable = settings.solver.n_index_sets == 0 and not hasattr(self, "n_steps_")
        return getattr(self, "lower_bound_", -np.inf) if comparable else -np.inf

    def _seed(self):
        """Return the root of the generators and the random state of the starts."""
        seed = seed_sequence(self.random_state)
        if self.random_state is None or isinstance(
            self.random_state, np.random.Generator
        ):
            return seed, np.random.RandomState(seed.generate_state(4))
        return seed, check_random_state(self.random_state)

    def _fitted_attributes(self, settings, state, X):
        history = state.history
        lower_bounds = [float(value) for value in history.objective]
        return {
            **self._parameter_attributes(settings.model, state.params, X),
            "n_features_in_": X.shape[1],
            "n_iter_": int(np.ceil(state.rows_visited / max(state.n_rows, 1) - 1e-9)),
            "converged_": state.converged,
            "lower_bound_": final_objective(state),
            "lower_bounds_": lower_bounds,
            "history_": history,
            "n_samples_seen_": len(X),
        }

    def _check_start(self):
        """Check the parameters of components and starts."""
        check_n_components(self.n_components)
        self._check_number("n_init", Integral, 1)
        if self.init_size is not None and self.init_size != "auto":
            self._check_number("init_size", Integral, 1)
        if not callable(self.init_params):
            known, other = START_METHODS, " or a callable"
            check_choice("init_params", self.init_params, known, other)

    def _given(self, n_features):
        """Return the parameters that the user gave for the start, checked."""
        return ()

    def _model_for(self, model, X):
        """Return the model for the next rows of a stream."""
        return model

    def _start_is_given(self):
        """Return whether the user gave all parameters of the start."""
        return False


def _likelihood(X, *, weights, model, params, with_entropy=False):
    """Return log-likelihood, number and perhaps entropy of rows, summed."""
    total = weighted_sum(model.log_likelihood(X, params), weights)
    mass = float(len(X) if weights is None else weights.sum())
    if not with_entropy:
        return total, mass
    terms = model.posterior(X, params)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(terms > 0, terms * np.log(terms), 0.0)
    if weights is not None:
        terms = terms * weights[:, None]
    return total, mass, -float(terms.sum())
