"""A Gaussian mixture on a stream: the start, then steps with constant memory."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from sktem.choices import is_auto
from sktem.e_step.random import spawn_generators
from sktem.estimators.stream import StreamDefaults, StreamRunner
from sktem.loop.drift import BatchLikelihoods
from sktem.loop.iterates import IterateRule
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.loop.stream import StreamState
from sktem.mixture.fit_warnings import doubt_of_components
from sktem.mixture.short_runs import suits_short_runs
from sktem.mixture.start_check import better_start
from sktem.mixture.tensors import no_rows
from sktem.progress import counted
from sktem.samplers import ExactExpectation
from sktem.schedules import Constant, Polynomial
from sktem.solvers import FullBatch

__all__ = ["FIRST_ROWS", "STREAM", "FirstRows", "MixtureStream", "stream_average"]

#: Types of parameters that cannot be changed in place.
PLAIN = {type(None), bool, int, float, str}

#: The default settings of streams.
STREAM = StreamDefaults(256, Polynomial(alpha=0.5, offset=2.0), passes=2)


class FirstRows(NamedTuple):
    """Number and passes of the first rows of a stream, which are kept.

    Attributes
    ----------
    least : int
        Rows that are kept, at least.
    per_parameter : int
        Rows that are kept for each parameter of the means, so that every component
        gets a sound start.
    passes : int
        EM passes of a start, by which it settles near one of the optima, and by which
        several starts are compared.
    preview_passes : int
        EM passes, at most, to what is published before the stream starts.
    growth : float
        Growth of the rows at which that is computed anew.
    random : int
        Starts about random rows beside those of ``init_params="kmeans"``: rows that
        come later cannot improve a poor start.
    """

    least: int = 1024
    per_parameter: int = 20
    passes: int = 20
    preview_passes: int = 100
    growth: float = 1.1
    random: int = 4

    def needed(self, n_components, n_features):
        """Return how many rows a start needs."""
        return max(self.least, self.per_parameter * n_components * (n_features + 1))


FIRST_ROWS = FirstRows()


class MixtureStream(StreamRunner):
    """Rows kept for the start, then running statistics."""

    def __init__(self, seed=None, starts=None):
        super().__init__()
        self.random = seed, starts
        self.published_at = 0
        self.preview: Any = None
        self.model = None
        self.mixture: Any = None
        self.like = None
        self.parameters: dict[str, Any] = {}
        self.merger: Any = None

    @classmethod
    def after_fit(cls, mixture, model, state, average, n_rows, mass) -> MixtureStream:
        """Return a stream that continues a fit to rows of some weight."""
        stream = cls()
        stream.model, stream.mixture = model, mixture
        stream.n_rows = n_rows
        stream.state = StreamState(
            params=state.params,
            s=state.returned,
            generators=state.generators,
            iterates=average,
            mass=mass,
            likelihoods=BatchLikelihoods(),
        )
        return stream

    def prepare(self, mixture, n_features, parameters):
        """Set the settings of the next rows, which must be those of the stream.

        They were made of parameters of an estimator, by their names.
        """
        if self.state is not None:
            mixture.check_same(self.model, n_features)
        self.mixture, self.parameters, self.merger = mixture, parameters, None

    @property
    def current_model(self):
        """Model of the published parameters."""
        return self.preview[0] if self.model is None else self.model

    def update(self, settings, X, sample_weight, task):
        """Learn from a chunk."""
        if self.state is not None:
            model = self.mixture.model_for(self.model, X)
            if model is not self.model:
                self.model, self.merger = model, None
        self.like = no_rows(X)
        # The start is made on the host.
        X = np.asarray(X) if self.state is None else X
        super().update(settings, X, sample_weight, task)

    def rows_of_start(self, settings, X):
        """Return how many rows a start needs."""
        self.mixture.given(X.shape[1])  # errors come with the first rows
        return FIRST_ROWS.needed(self.mixture.n_components, X.shape[1])

    def begin(self, settings, rows, weights, task):
        """Start from the kept rows, and learn them."""
        if self.mixture.has_start:
            self.model, params, s = self._started(rows, weights, self.random[1])
        else:
            # Short runs have compared starts about random rows already.
            compared = suits_short_runs(self.mixture.new_model(rows), rows)
            limits = FIRST_ROWS.passes, 0 if compared else FIRST_ROWS.random
            self.model, params, s = self._best_start(
                settings.name, rows, weights, self.random, *limits, task=task
            )
        self._merger(settings)  # a wrong setting is an error before there is a state
        self.state = StreamState(
            params=params,
            s=s,
            generators=spawn_generators(self.random[0]),
            iterates=stream_average(settings.average, settings.step_is_automatic),
            # Time starts at one row per parameter, so that the first steps are not so
            # long that what they average over cannot determine the parameters.
            mass=float(min(len(rows), self.model.n_parameters(rows.shape[1]))),
        )
        self.preview = None
        self.step(settings, rows, weights, task)
        # Of the rows of the start, likelihoods are too high.
        self.state.likelihoods = BatchLikelihoods()

    def step(self, settings, X, sample_weight, task):
        """Learn from rows."""
        self.count_means(X, sample_weight, STREAM.batch_size)
        self.learn(self._merger(settings), X, sample_weight, task)
        self.warn_once()

    def _best_start(
        self, name, rows, weights, random, passes, n_random=0, tol=0.0, task=None
    ):
        """Return the start that a few EM passes take furthest, after these passes.

        A component on a few rows can have any likelihood: such starts come last.
        """
        best: Any = None
        seed, starts = random
        mixture = self.mixture
        method, is_given = mixture.init_params, mixture.has_start
        methods = [method] * (1 if is_given else mixture.n_init)
        if method == "kmeans" and mixture.n_components > 1 and not is_given:
            methods += ["random_from_data"] * n_random
        for method in counted(methods, f"{name}: starts from the first rows"):
            start = self._started(rows, weights, starts, method)
            data, limits, model = (rows, weights), (passes, tol), start[0]
            if task is None:
                state = _after_passes(start, data, seed, limits)
            else:
                subtask = task.subtask("start", passes)
                state = _after_passes(start, data, seed, limits, _pass_report(subtask))
                subtask.end()
            start = model, state.params, state.solver.s
            if len(methods) == 1:
                return start
            doubt = doubt_of_components(model, state.params, rows, weights)
            rank = doubt is None, state.history.objective[-1]
            if best is None or rank > best[0]:
                best = rank, start
        return best[1]

    def _started(self, rows, weights, starts, method=None):
        mixture = self.mixture
        mixture.check_columns(rows)
        # Repeating the rows gives every component something to start from.
        copies = -(-mixture.n_components // len(rows))
        rows = np.tile(rows, (copies, 1))
        weights = None if weights is None else np.tile(weights, copies)
        model = mixture.new_model(rows)
        inits = mixture.given(rows.shape[1])
        params, s = mixture.start(model, rows, weights, inits, starts, method)
        return model, params, s

    def __getstate__(self):
        return {**self.__dict__, "merger": None, "parameters": {}}

    def _merger(self, settings):
        """Return the merger of rows, the same one until there are other settings."""
        if self.merger is None:
            self.merger = settings.merger_of(self.model)
        return self.merger

    def is_settled(self, parameters) -> bool:
        """Return whether the parameters are those with which rows were learned."""
        if self.merger is None or not self.parameters:
            return False
        values = list(map(parameters.__getitem__, self.parameters))
        # A part or an array can be changed in place.
        is_plain = PLAIN.issuperset(map(type, values))
        return is_plain and values == list(self.parameters.values())

    def published(self, settings):
        """Return model and parameters that count every row seen, and rows like them.

        They are those of the settings of the last chunk, whatever has been set since.
        """
        if self.state is None:
            return *self._preview(settings), self.like
        params, _ = self._merger(settings).published(self.state)
        return self.model, params, self.like

    def counts(self):
        """Return the fitted attributes that need no computation."""
        n_steps = 0 if self.state is None else self.state.n_steps
        return {"n_samples_seen_": self.n_rows, "n_steps_": n_steps}

    def _preview(self, settings):
        """Return model and parameters of EM on the rows kept so far."""
        # EM for every row that comes would cost more than the rows are worth.
        if self.preview is None or (
            self.kept.count >= FIRST_ROWS.growth * self.published_at
        ):
            rows, weights = self.kept.joined()
            # The start that `fit` would make of the same rows.
            random, most = deepcopy(self.random), FIRST_ROWS.preview_passes
            model, params, _ = self._best_start(
                settings.name, rows, weights, random, most, tol=settings.tol
            )
            if is_auto(self.parameters.get("tol", "auto")):
                fit = self.mixture, model, params
                if better := better_start(*fit, rows, weights):
                    start, data = (model, better.params, better.s), (rows, weights)
                    limits = most, settings.tol
                    params = _after_passes(start, data, random[0], limits).params
            self.preview, self.published_at = (model, params), self.kept.count
        return self.preview


def _after_passes(start, data, seed, limits, on_epoch=None):
    """Return the state after passes of EM from a start, at most, or to a tolerance."""
    (model, params, s), (rows, weights), (most, tol) = start, data, limits
    state = RunState(params, spawn_generators(seed))
    state.solver.s = state.solver.S_tts = s
    parts = ExactExpectation(), FullBatch(), Constant(1.0)
    options = {"sampling": "fixed", "max_passes": most, "tol": tol}
    settings = RunSettings(model, *parts, batch_size=len(rows), **options)
    return run(settings, rows, state, sample_weight=weights, on_epoch=on_epoch)


def _pass_report(task):
    """Return a function that ends a subtask after each pass of a start."""

    def on_epoch(state):
        task.subtask("pass").end()
        return False

    return on_epoch


def stream_average(average, step_is_automatic):
    """Return the average that a stream publishes."""
    # A user who sets the step usually wants the last iterate: a constant one, to
    # follow a drift.
    automatic = "tail" if step_is_automatic else False
    return IterateRule(automatic if average == "auto" else average)
