"""Base class of the mixtures: fits and streams."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from numbers import Integral
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice, is_auto
from sktem.e_step.random import seed_sequence, spawn_generators
from sktem.estimators.base import (
    LoopEstimator,
    unchanged_by_errors,
    undone_if_refused,
    with_callbacks,
)
from sktem.estimators.by_blocks import each_chunk
from sktem.estimators.copies import warn_of_copied_rows
from sktem.estimators.fit_warnings import warn_of_parameters, warn_of_run
from sktem.estimators.progress import final_objective
from sktem.loop.convergence import GAP_RULE
from sktem.loop.state import RunState
from sktem.mixture.answers import MixtureAnswers
from sktem.mixture.component_search import check_n_components, found_components
from sktem.mixture.fit_warnings import warn_of_components, warn_of_equal
from sktem.mixture.incomplete import observed_rows
from sktem.mixture.start import START_METHODS
from sktem.mixture.start_check import better_start, warned_of_start
from sktem.mixture.stream import STREAM, MixtureStream, stream_average
from sktem.rows.sources import found_rows, is_stream
from sktem.schedules import BurnInThenDecay
from sktem.solvers import OnlineEM

__all__ = ["MixtureEstimator"]


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


class MixtureEstimator(MixtureAnswers, DensityMixin, LoopEstimator):
    """Base of the mixtures.

    Subclasses check and convert rows (``_validate``), give their parameters as settings
    (``_mixture``), and turn parameters into fitted attributes
    (``_parameter_attributes``) and back (``_fitted``; ``_settings_of_columns`` and
    ``_attributes_of_columns`` for marginals and conditionals).
    """

    #: Fitted attributes of a stream that are computed when they are read.
    _parameter_names: ClassVar[tuple[str, ...]] = ()

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: NaN is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _learn_table(self, source):
        """Learn how the columns of rows that are read by blocks become numbers."""

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the mixture.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            The data, or anything that :func:`sktem.rows.as_rows` accepts, which is then
            read in blocks. Results of float32 data are float32.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights; a row of weight 2 counts as two equal rows.

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
        X, sample_weight = self._rows_of_fit(X, sample_weight)
        mixture = self._mixture()
        if len(X) < mixture.n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got n_components = "
                f"{mixture.n_components}, n_samples = {len(X)}"
            )
        inits = mixture.given(X.shape[1])
        model = mixture.new_model(X)
        settings = self._settings(model, batch_size=self._batch_size_of(X))
        warm = self._is_warm()
        if warm:
            mixture.check_same(self._stream.current_model, X.shape[1])
        seed, starts = self._seed()

        def new_run(progress):
            if warm:
                params, s = self._continued(model)
            else:
                rows = X, sample_weight, inits, progress.random
                params, s = mixture.start(model, *rows)
            state = begun(progress, params, s)
            if warm:
                state.best_objective = self._bound_to_beat(settings)
            return state

        def begun(progress, params, s):
            # By index, so that a fit resumed from a checkpoint has the same.
            run_seed = np.random.SeedSequence(seed.entropy, spawn_key=(progress.start,))
            state = RunState(params, spawn_generators(run_seed))
            state.generators.monitoring = np.random.default_rng(seed)
            state.solver.s = state.solver.S_tts = s
            return state

        def further_run(progress):
            if not progress.best.converged:
                return None
            fit = mixture, model, progress.best.params
            better = better_start(*fit, X, sample_weight)
            return better and begun(progress, better.params, better.s)

        n_init = 1 if warm else self.n_init

        def finish(state):
            total = float(len(X) if sample_weight is None else sample_weight.sum())
            average = stream_average(self.average, isinstance(self.step_size, str))
            args = average, len(X), total
            self._stream = MixtureStream.after_fit(mixture, model, state, *args)
            self.__dict__.pop("n_steps_", None)

        options = {"n_init": n_init, "starts": starts, "finish": finish}
        # A number as tol stops where scikit-learn does, near a maximum or not.
        if settings.extrapolates and not warm:
            options["further_run"] = further_run
        state = self._fit(settings, X, sample_weight, new_run, **options)
        warn_of_run(state, settings)
        if sample_weight is None:
            warn_of_copied_rows(X)
        names = getattr(self, "feature_names_in_", None)
        if not warn_of_components(model, state, X, sample_weight, names):
            warn_of_parameters(self._n_parameters(), len(X), sample_weight)
            if settings.leaves_saddles and state.converged:
                fit = mixture, model, state.params
                if warm or not warned_of_start(*fit, X, sample_weight):
                    warn_of_equal(model, state.params, X)
        return self

    def _rows_of_fit(self, X, sample_weight):
        """Return checked rows of which something is observed, and their weights."""
        rows = self._validate(X, sample_weight, reset=True, ensure_min_samples=2)
        self._mixture().check_columns(rows[0])
        return observed_rows(*rows)

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
        (n_features + 1))`` rows are kept; until there are that many, the parameters are
        those of EM on the rows so far. Starts are made from these rows as in ``fit``
        and, for ``init_params="kmeans"``, around random rows as well. Unless the start
        is given, each is improved by 20 EM passes and the best is kept. After that,
        rows are not kept. After ``fit``, the stream continues from the fitted mixture.
        A chunk whose weights are all zero changes nothing.

        Time is counted in rows. With batches of ``batch_size`` rows ("auto": 256 on a
        stream), the step of the k-th batch is ``step_size(k)``, where k starts as if
        one row per parameter had been seen before. A constant step forgets the past and
        follows drifting data; "auto" is ``(k + 2) ** -0.5`` with the average of the
        last quarter of the iterates. With "em", "saem", "mcem" and "online" the result
        does not depend on how the stream is cut into chunks. With "iem", "isaem",
        "vrttem" and "fittem" a chunk is the population of the solver: two passes are
        made over it (one to fill the memory), and its statistics are then merged into
        the running ones with the step of its rows. ``max_iter``, ``tol`` and
        ``warm_start`` are not used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), iterator or rows
            Rows, an iterator of such chunks, or anything that
            :func:`sktem.rows.as_rows` accepts, which is read once to its end.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights; a row of weight 2 counts as two equal rows.

        Returns
        -------
        object
            The estimator, ready to predict.
        """
        if self._begun() is None or not self._begun().is_settled(vars(self)):
            self._check_parameters()
            is_selected = isinstance(self.n_components, str)
            if is_selected and not hasattr(self, "n_components_"):
                raise ValueError(
                    f"n_components={self.n_components!r} needs rows that can be read "
                    "again: fit the first ones, then call partial_fit"
                )
        if not (self._begun() or is_stream(X)) and (source := found_rows(X)):
            self._learn_table(source)
        chunks = each_chunk(
            self, X, sample_weight, lambda: not self._begun(), self._check_block
        )
        settings = self._stream_settings(STREAM)
        for chunk in chunks:
            rows, weights = observed_rows(*chunk)
            if len(rows):
                stream = self._begun() or MixtureStream(*self._seed())
                if not stream.is_settled(vars(self)):
                    parameters = self.get_params(deep=False)
                    stream.prepare(self._mixture(), rows.shape[1], parameters)
                self._partial_fit(stream, settings, rows, weights)
        return self

    def _stream_attributes(self, stream, settings):
        """Return the fitted attributes that a stream gives."""
        attributes = self._parameter_attributes(*stream.published(settings))
        return {**attributes, **stream.counts()}

    def _publish_stream(self, stream, settings):
        """Set the attributes of a stream; parameters are computed when read."""
        for name in self._parameter_names:
            self.__dict__.pop(name, None)
        self._publish(stream.counts())

    def _publish_parameters(self):
        """Compute the parameters of a stream that have not been read yet."""
        if "n_steps_" in self.__dict__ and "weights_" not in self.__dict__:
            settings = self._stream_settings(STREAM)
            self._publish(self._stream_attributes(self._stream, settings))

    def __getattr__(self, name):
        if name in self._parameter_names:
            self._publish_parameters()
            if name in self.__dict__:
                return self.__dict__[name]
        if name == "fitted_":  # the property has raised
            check_is_fitted(self, "weights_")
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

    def _tolerance(self):
        return GAP_RULE.tol if is_auto(self.tol) else super()._tolerance()

    def _settings(self, model, n_rows=None, *, batch_size=None):
        settings = super()._settings(model, n_rows, batch_size=batch_size)
        settings = replace(
            settings, extrapolates=is_auto(self.tol),
            leaves_saddles=self._mixture().may_start_at_saddle,
        )  # fmt: skip
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
        """Number of components, given or selected by ``fit``."""
        n_components = self.n_components
        return self.n_components_ if isinstance(n_components, str) else n_components

    def _is_warm(self):
        return self.warm_start and hasattr(self, "weights_")

    def _with_found_components(self, X, sample_weight):
        """Set the attributes of the mixture with the best number of components."""
        settings, seed = self.get_params(deep=False), self._seed()[0]
        data = X, sample_weight, seed
        best, steps = found_components(self._trial, settings, *data)
        attributes = {
            name: value for name, value in vars(best).items() if name not in settings
        }
        self.__dict__.update(attributes, component_search_=steps)
        self.__dict__.pop("n_steps_", None)
        return self

    def _bound_to_beat(self, settings):
        """Return the lower bound of the previous fit, where this one continues it."""
        # On other data or a sample of rows, the earlier bound has no meaning.
        comparable = settings.solver.n_index_sets == 0 and not hasattr(self, "n_steps_")
        return getattr(self, "lower_bound_", -np.inf) if comparable else -np.inf

    def _seed(self):
        """Return the root of the generators and the random state of the starts."""
        seed = seed_sequence(self.random_state)
        if isinstance(self.random_state, np.random.Generator | None):
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
