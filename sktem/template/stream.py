"""Deformable templates on a stream: the start, then steps with constant memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from sktem.e_step.random import spawn_generators
from sktem.estimators.stream import StreamDefaults, StreamRunner
from sktem.loop.drift import BatchLikelihoods
from sktem.loop.iterates import IterateRule, check_average
from sktem.loop.stream import Stream, StreamState
from sktem.schedules import Constant
from sktem.template.fitted import FittedTemplate
from sktem.template.judged import shares_of_folds

__all__ = ["TemplateStream"]

#: Attributes that are moving averages on a stream.
FOLDS = ("fold_rate_", "folded_pixels_")

#: Images of a chunk that are judged before they are learned, where there are no chains,
#: and how many of them have one likelihood.
JUDGED, TOGETHER = 50, 5

#: Images per component from which a start is made.
IMAGES_OF_A_START = 20

#: The default settings of streams.
STREAM = StreamDefaults(20, passes=2)


class TemplateStream(StreamRunner):
    """Images kept for the start, then running statistics."""

    def __init__(self):
        super().__init__()
        self.started_at = 0
        self.frame: Any = None
        self.attributes: dict[str, Any] = {}

    @classmethod
    def after_fit(cls, estimator) -> TemplateStream:
        """Return a stream that continues a fit."""
        stream, attributes = cls(), vars(estimator)
        stream.attributes = {name: attributes[name] for name in FOLDS}
        stream._continue(estimator, attributes)
        return stream

    def _continue(self, estimator, attributes):
        """Continue from fitted attributes."""
        self.frame, params = attributes["_fitted"].frame, attributes["_fitted"].params
        self.state = StreamState(
            params=params,
            s=attributes["_statistics"],
            generators=spawn_generators(estimator.random_state),
            iterates=IterateRule(check_average(estimator.average)),
            mass=attributes["_fitted"].mass,
            likelihoods=BatchLikelihoods(),
        )

    def update(self, estimator, X, sample_weight, task):
        """Learn from a chunk."""
        if self.state is not None:
            estimator._check_continues()
        super().update(estimator, X, sample_weight, task)

    def rows_of_start(self, estimator, X):
        """Return how many images a start needs."""
        return IMAGES_OF_A_START * estimator.n_components

    def collect(self, estimator, X, sample_weight, task):
        """Keep images; before there are enough, fit those there are."""
        X, sample_weight = super().collect(estimator, X, sample_weight, task)
        # A new start for every image that comes would cost more than it is worth.
        if self.state is None and self.kept.count >= 1.3 * self.started_at:
            rows, weights = self.kept.joined()
            self._fit(estimator, rows, weights, task)
        return X, sample_weight

    def begin(self, estimator, X, sample_weight, task):
        """Fit the kept images like a data set, and continue from there."""
        self._fit(estimator, X, sample_weight, task)
        self._continue(estimator, self.attributes)

    def _fit(self, estimator, X, sample_weight, task):
        self.started_at, X = len(X), np.asarray(X, dtype=np.float64)
        frame = estimator._template_settings().frame_of(X, sample_weight)
        state, fit, interrupted = estimator._run(frame, X, sample_weight, task=task)
        self.attributes = estimator._fitted_attributes(fit, state, X)
        if interrupted:
            raise interrupted

    def step(self, estimator, X, sample_weight, task):
        """Learn from images."""
        Y = self.frame.standardised(X)
        mass = float(len(X) if sample_weight is None else sample_weight.sum())
        stream = self._stream(estimator, self.state.mass + mass)
        model = stream.settings.model
        new = self._judge(model, Y)
        self.learn(stream, Y, sample_weight, task)
        if not isinstance(stream.settings.step_size, Constant):
            self.warn_of_order("images")
        params, s = stream.published(self.state)
        fitted = FittedTemplate.of(self.frame, estimator._layout, model, params)
        self.attributes |= {**fitted.attributes(), "_statistics": s}
        share = min(len(Y) / JUDGED, 1.0)
        for name, value in zip(FOLDS, new, strict=True):
            before = self.attributes[name]
            self.attributes[name] = before + share * (value - before)

    def _judge(self, model, Y):
        """Return shares of folds of images of a chunk, and note their likelihoods."""
        rows = np.linspace(0, len(Y) - 1, min(len(Y), JUDGED)).astype(int)
        modes, logs = model.searched(Y[rows], self.state.params)
        watched = self.state.likelihoods
        for value in logsumexp(logs, axis=1):
            watched.add(value, 1.0)
            if watched.pending_mass >= TOGETHER:
                watched.close()
        best = modes[np.arange(len(rows)), logs.argmax(axis=1)]
        return shares_of_folds(model.grid, best)

    def published(self, estimator):
        """Return the fitted attributes that count every image seen."""
        return {**self.attributes, "n_samples_seen_": self.n_rows}

    def _stream(self, estimator, mass):
        settings = estimator._template_settings()
        model = settings.model(self.frame.grid, mass, start_at_mode=True)
        return Stream(STREAM.settings(estimator, model))
