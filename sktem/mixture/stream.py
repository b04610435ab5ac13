"""A Gaussian mixture on a stream: the start, then steps with constant memory."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from sktem.e_step.random import spawn_generators
from sktem.estimators.fit_warnings import event_message, warn_of_unused
from sktem.estimators.kept_rows import KeptRows
from sktem.exceptions import FitWarning
from sktem.loop.iterates import IterateRule
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.loop.stream import Stream, StreamState
from sktem.samplers import ExactExpectation
from sktem.schedules import Constant, Polynomial, check_schedule
from sktem.solvers import FullBatch

__all__ = ["PASSES_OF_A_START", "MixtureStream", "rows_of_a_start"]

#: EM passes over the first rows, by which a start settles near one of the optima, and
#: by which several starts are compared.
PASSES_OF_A_START = 20

#: Rows per batch on a stream, whatever the size of the chunks.
STREAM_BATCH = 256


class MixtureStream:
    """Rows kept for the start, then the state of the stream."""

    def __init__(self, seed, starts):
        self.seed = seed
        self.starts = starts
        self.kept = KeptRows()
        self.published_at = 0
        self.preview = None
        self.model = None
        self.state: StreamState | None = None
        self.n_rows = 0
        self.warned = False

    @classmethod
    def after_fit(cls, estimator, model, state, total_weight):
        """Return a stream that continues a fit."""
        stream = cls(None, None)
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

    @property
    def n_steps(self):
        """Steps done."""
        return 0 if self.state is None else self.state.n_steps

    def update(self, estimator, X, sample_weight):
        """Learn from a chunk."""
        if self.state is not None:
            estimator._check_same(self.model, X.shape[1])
        self.n_rows += len(X)
        if self.state is not None:
            self._stream(estimator).update(self.state, X, sample_weight)
            self._warn_once()
            return
        enough = rows_of_a_start(estimator.n_components, X.shape[1])
        X, sample_weight = self.kept.add(X, sample_weight, enough)
        if self.kept.count < enough:
            return
        rows, first_weights = self.kept.joined()
        self._begin(estimator, rows, first_weights)
        self.kept, self.preview = KeptRows(), None
        stream = self._stream(estimator)
        stream.update(self.state, rows, first_weights)
        if len(X):
            stream.update(self.state, X, sample_weight)
        self._warn_once()

    def _begin(self, estimator, rows, weights):
        """Make the start from the kept rows."""
        self.model, params, s = self._best_start(estimator, rows, weights)
        settings = _settings(estimator, self.model)
        warn_of_unused(estimator, settings, 4, on_stream=True)
        self.state = StreamState(
            params=params,
            s=s,
            generators=spawn_generators(self.seed),
            iterates=IterateRule(_stream_average(estimator)),
            # Time starts at one row per parameter, so that the first steps are not so
            # long that what they average over cannot determine the parameters.
            mass=float(min(len(rows), self.model.n_parameters(rows.shape[1]))),
        )

    def _best_start(self, estimator, rows, weights):
        """Return the start that a few EM passes take furthest, after these passes.

        A start that the user has given is taken as it is.
        """
        best = None
        for _ in range(estimator.n_init):
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
            run(settings, rows, state, sample_weight=weights)
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

    def _stream(self, estimator):
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
        """Return the model and the parameters that count every row seen."""
        if self.state is not None:
            params, _ = self._stream(estimator).published(self.state)
            return self.model, params
        # A start for every row that comes would cost more than the rows are worth.
        if self.preview is None or self.kept.count >= 1.1 * self.published_at:
            rows, weights = self.kept.joined()
            starts = np.random.RandomState(self.seed.generate_state(4))
            model, params, _ = self._started(estimator, rows, weights, starts)
            self.preview, self.published_at = (model, params), self.kept.count
        return self.preview

    def _warn_once(self):
        message = event_message("The stream", self.state.events)
        if message and not self.warned:
            self.warned = True
            warnings.warn(message, FitWarning, stacklevel=4)


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
    # Whoever sets the step wants its last iterate, as a rule: a constant one, to
    # follow a drift.
    automatic = isinstance(estimator.step_size, str)
    return "tail" if automatic else False
