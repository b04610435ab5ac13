"""Deformable templates on a stream: the start, then steps with constant memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from sktem.e_step.random import spawn_generators
from sktem.estimators.stream import StreamDefaults, StreamRunner, StreamSettings
from sktem.loop.drift import BatchLikelihoods
from sktem.loop.iterates import IterateRule, check_average
from sktem.loop.stream import StreamState
from sktem.template.fitted import FittedTemplate
from sktem.template.judged import BOUNDS, shares_of_folds
from sktem.template.settings import TemplateSettings

__all__ = ["STREAM", "TemplateStream", "TemplateStreamSettings"]

#: Attributes that are moving averages on a stream.
FOLDS = ("fold_rate_", "folded_pixels_")


class ImageStreamRule(NamedTuple):
    """Starts, judged images and default settings of streams of images.

    Attributes
    ----------
    images_of_start : int
        Images per component from which a start is made.
    growth : float
        Growth of the images before it at which those there are are fitted anew.
    together : int
        How many images, of those of a chunk that are judged before they are learned,
        have one likelihood.
    defaults : StreamDefaults
        Batches and steps.
    """

    images_of_start: int = 20
    growth: float = 1.3
    together: int = 5
    defaults: StreamDefaults = StreamDefaults(20, passes=2)


STREAM = ImageStreamRule()


class TemplateStreamSettings(NamedTuple):
    """Settings of a call of ``partial_fit``.

    Attributes
    ----------
    stream : StreamSettings
        Those of any stream.
    templates : TemplateSettings
        Parameters of the templates.
    fit : callable
        Function (images, weights, task) that fits images like a data set and returns
        fitted attributes, and what interrupted it or None.
    """

    stream: StreamSettings
    templates: TemplateSettings
    fit: Callable


class TemplateStream(StreamRunner):
    """Images kept for the start, then running statistics."""

    rows_name = "images"

    def __init__(self):
        super().__init__()
        self.started_at = 0
        self.attributes: dict[str, Any] = {}

    @classmethod
    def after_fit(cls, attributes, settings) -> TemplateStream:
        """Return a stream that continues fitted attributes."""
        stream = cls()
        names = *FOLDS, "fitted_", "_statistics"
        stream.attributes = {name: attributes[name] for name in names}
        stream.begin_after(settings)
        return stream

    @property
    def fitted(self) -> FittedTemplate:
        """The fitted template."""
        return self.attributes["fitted_"]

    def begin_after(self, settings):
        """Set the state to that after a fit, from its attributes."""
        rules = settings.stream
        self.state = StreamState(
            params=self.fitted.params,
            s=self.attributes["_statistics"],
            generators=spawn_generators(rules.seed),
            iterates=IterateRule(check_average(rules.average)),
            mass=self.fitted.mass,
            likelihoods=BatchLikelihoods(),
        )

    def update(self, settings, X, sample_weight, task):
        """Learn from a chunk."""
        if self.state is not None:
            settings.templates.check_continues(self.fitted)
        super().update(settings, X, sample_weight, task)

    def rows_of_start(self, settings, X):
        """Return how many images a start needs."""
        return STREAM.images_of_start * settings.templates.n_components

    def collect(self, settings, X, sample_weight, task):
        """Keep images; before there are enough, fit those there are."""
        X, sample_weight = super().collect(settings, X, sample_weight, task)
        # A new start for every image that comes would cost more than it is worth.
        if self.state is None and self.kept.count >= STREAM.growth * self.started_at:
            rows, weights = self.kept.joined()
            self._fit(settings, rows, weights, task)
        return X, sample_weight

    def begin(self, settings, X, sample_weight, task):
        """Fit the kept images like a data set, and continue from there."""
        self._fit(settings, X, sample_weight, task)
        self.begin_after(settings)

    def _fit(self, settings, X, sample_weight, task):
        self.started_at, X = len(X), np.asarray(X, dtype=np.float64)
        self.attributes, interrupted = settings.fit(X, sample_weight, task)
        if interrupted:
            raise interrupted

    def step(self, settings, X, sample_weight, task):
        """Learn from images."""
        frame, templates = self.fitted.frame, settings.templates
        Y = frame.standardised(X)
        mass = float(len(X) if sample_weight is None else sample_weight.sum())
        mass += self.state.mass
        model = templates.model(frame.grid, mass, start_at_mode=True)
        merger = settings.stream.merger_of(model)
        new = self._judge(model, Y)
        self.learn(merger, Y, sample_weight, task)
        params, s = merger.published(self.state)
        fitted = FittedTemplate.of(frame, templates.layout, model, params)
        self.attributes |= {**fitted.attributes(), "_statistics": s}
        share = min(len(Y) / BOUNDS.judged, 1.0)
        for name, value in zip(FOLDS, new, strict=True):
            before = self.attributes[name]
            self.attributes[name] = before + share * (value - before)

    def _judge(self, model, Y):
        """Return shares of folds of images of a chunk, and note their likelihoods."""
        rows = np.linspace(0, len(Y) - 1, min(len(Y), BOUNDS.judged)).astype(int)
        modes, logs = model.searched(Y[rows], self.state.params)
        watched = self.state.likelihoods
        for value in logsumexp(logs, axis=1):
            watched.add(value, 1.0)
            if watched.pending_mass >= STREAM.together:
                watched.close()
        best = modes[np.arange(len(rows)), logs.argmax(axis=1)]
        return shares_of_folds(model.grid, best)

    def published(self, settings):
        """Return the fitted attributes that count every image seen."""
        return {**self.attributes, "n_samples_seen_": self.n_rows}
