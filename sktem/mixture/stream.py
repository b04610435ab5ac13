"""A Gaussian mixture on a stream: the start, then steps with constant memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sktem.e_step.random import spawn_generators
from sktem.estimators.fit_warnings import warn_of_unused
from sktem.estimators.stream import StreamRunner
from sktem.loop.iterates import IterateRule
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.loop.stream import Stream, StreamState
from sktem.mixture.tensors import no_rows
from sktem.progress import counted
from sktem.samplers import ExactExpectation
from sktem.schedules import Constant, Polynomial, check_schedule
from sktem.solvers import FullBatch

__all__ = ["PASSES_OF_A_START", "MixtureStream", "rows_of_a_start"]

#: EM passes over the first rows, by which a start settles near one of the optima, and
#: by which several starts are compared.
PASSES_OF_A_START = 20

#: Types of parameters that cannot be changed in place.
PLAIN = {type(None), bool, int, float, str}

#: Rows per batch on a stream, whatever the size of the chunks.
STREAM_BATCH = 256


class MixtureStream(StreamRunner):
    """Rows kept for the start, then running statistics."""

    def __init__(self, seed=None, starts=None):
        super().__init__()
        self.seed = seed
        self.starts = starts
        self.published_at = 0
        self.preview: Any = None
        self.model = None
        self.like = None
        self.settled: Any = None

    @classmethod
    def after_fit(cls, estimator, model, state, total_weight) -> MixtureStream:
        """Return a stream that continues a fit."""
        stream = cls()
        stream.model = model
        stream.n_rows = state.n_rows
        stream.state = StreamState(
            params=state.params,
            s=state.returned,
            generators=state.generators,
            iterates=IterateRule(_stream_average(estimator)),
            mass=total_weight,
        )
        return stream

    @property
    def current_model(self):
        """Model of the published parameters."""
        return self.preview[0] if self.model is None else self.model

    def update(self, estimator, X, sample_weight, task):
        """Learn from a chunk."""
        if self.state is not None:
            estimator._check_same(self.model, X.shape[1])
        self.like = no_rows(X)
        # The start is made on the host.
        X = np.asarray(X) if self.state is None else X
        super().update(estimator, X, sample_weight, task)

    def rows_of_start(self, estimator, X):
        """Return how many rows a start needs."""
        return rows_of_a_start(estimator.n_components, X.shape[1])

    def begin(self, estimator, rows, weights, task):
        """Make the start from the kept rows, and learn them."""
        self.model, params, s = self._best_start(estimator, rows, weights, task)
        settings = _settings(estimator, self.model)
        warn_of_unused(estimator, settings, on_stream=True)
        self.state = StreamState(
            params=params,
            s=s,
            generators=spawn_generators(self.seed),
            iterates=IterateRule(_stream_average(estimator)),
            # Time starts at one row per parameter, so that the first steps are not so
            # long that what they average over cannot determine the parameters.
            mass=float(min(len(rows), self.model.n_parameters(rows.shape[1]))),
        )
        self.preview = None
        self.step(estimator, rows, weights, task)

    def step(self, estimator, X, sample_weight, task):
        """Learn from rows."""
        self.learn(self._stream(estimator), X, sample_weight, task)
        self.warn_once()

    def _best_start(self, estimator, rows, weights, task):
        """Return the start that a few EM passes take furthest, after these passes.

        A start that the user has given is taken as it is.
        """
        best: Any = None
        label = f"{type(estimator).__name__}: starts from the first rows"
        for _ in counted(range(estimator.n_init), label):
            model, params, s = self._started(estimator, rows, weights, self.starts)
            if _is_given(estimator):
                return model, params, s
            state = RunState(params, spawn_generators(self.seed))
            state.solver.s = state.solver.S_tts = s
            settings = RunSettings(
                model,
                ExactExpectation(),
                FullBatch(),
                Constant(1.0),
                batch_size=len(rows),
                sampling="fixed",
                max_passes=PASSES_OF_A_START,
                tol=0.0,
            )
            one = task.subtask("start", PASSES_OF_A_START)
            run(
                settings,
                rows,
                state,
                sample_weight=weights,
                on_epoch=_pass_report(one),
            )
            one.end()
            objective = state.history.objective[-1]
            if best is None or objective > best[0]:
                best = objective, (model, state.params, state.solver.s)
        return best[1]

    @staticmethod
    def _started(estimator, rows, weights, starts):
        # Repeating the rows gives every component something to start from.
        copies = -(-estimator.n_components // len(rows))
        rows = np.tile(rows, (copies, 1))
        weights = None if weights is None else np.tile(weights, copies)
        model = estimator._new_model(rows)
        given = estimator._given(rows.shape[1])
        params, s = estimator._start(model, rows, weights, given, starts)
        return model, params, s

    def __getstate__(self):
        return {**self.__dict__, "settled": None}

    def _stream(self, estimator):
        """Return what learns; the same one while the parameters stay as they are."""
        if not self.is_settled(estimator):
            names = estimator._get_param_names()
            values = [getattr(estimator, name) for name in names]
            self.settled = (names, values, self._new_stream(estimator))
        return self.settled[2]

    def is_settled(self, estimator) -> bool:
        """Return whether the parameters are those with which rows were learned."""
        if self.settled is None:
            return False
        names, before, _ = self.settled
        values = list(map(vars(estimator).__getitem__, names))
        # A part or an array can be changed in place.
        return PLAIN.issuperset(map(type, values)) and values == before

    def _new_stream(self, estimator):
        settings = _settings(estimator, self.model)
        step_size = settings.step_size
        if isinstance(estimator.step_size, str):
            step_size = Polynomial(alpha=0.5, offset=2.0)
        # The passes of a population solver over a chunk: one fills the memory.
        return Stream(
            replace(
                settings,
                step_size=check_schedule(step_size),
                max_passes=2.0,
            )
        )

    def published(self, estimator):
        """Return the fitted attributes that count every row seen."""
        if self.state is not None:
            model = self.model
            # With the settings of the last chunk, whatever has been set since.
            settled = self.settled
            learner = self._stream(estimator) if settled is None else settled[2]
            params, _ = learner.published(self.state)
        else:
            model, params = self._preview(estimator)
        attributes = estimator._parameter_attributes(model, params, self.like)
        return {**attributes, **self.counts()}

    def counts(self):
        """Return the fitted attributes that cost nothing."""
        n_steps = 0 if self.state is None else self.state.n_steps
        return {"n_samples_seen_": self.n_rows, "n_steps_": n_steps}

    def _preview(self, estimator):
        """Return model and parameters of a start from the rows kept so far."""
        # A start for every row that comes would cost more than the rows are worth.
        if self.preview is None or self.kept.count >= 1.1 * self.published_at:
            rows, weights = self.kept.joined()
            starts = np.random.RandomState(self.seed.generate_state(4))
            model, params, _ = self._started(estimator, rows, weights, starts)
            self.preview, self.published_at = (model, params), self.kept.count
        return self.preview


def _pass_report(task):
    """Return a function that ends a subtask after each pass of a start."""

    def on_epoch(state):
        task.subtask("pass").end()
        return False

    return on_epoch


def _settings(estimator, model):
    """Return the settings of a run with the batches of a stream."""
    batch_size = estimator._given_batch_size(STREAM_BATCH)
    return estimator._settings(model, batch_size=batch_size)


def _is_given(estimator):
    given = (estimator.weights_init, estimator.means_init, estimator.precisions_init)
    return all(value is not None for value in given)


def rows_of_a_start(n_components, n_features):
    """Return the number of rows from which every component gets a sound start."""
    return max(1024, 20 * n_components * (n_features + 1))


def _stream_average(estimator):
    """Return which iterate a stream publishes."""
    if estimator.average != "auto":
        return estimator.average
    # A user who sets the step usually wants the last iterate: a constant one, to
    # follow a drift.
    automatic = isinstance(estimator.step_size, str)
    return "tail" if automatic else False
