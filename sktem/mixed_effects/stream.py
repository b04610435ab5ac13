"""Learning of mixed-effects models from batches of subjects."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sktem.e_step.random import spawn_generators
from sktem.estimators.stream import StreamDefaults, StreamRunner
from sktem.loop.batch_means import OrderRule
from sktem.loop.iterates import IterateRule
from sktem.loop.stream import Stream, StreamState
from sktem.mixed_effects.fitted import FittedMixedEffects
from sktem.mixed_effects.problem import Problem
from sktem.schedules import Polynomial

__all__ = ["SubjectStream"]


class StreamRule(NamedTuple):
    """Settings of streams of subjects.

    Attributes
    ----------
    sweeps : int
        Sweeps per draw: chains of new subjects start at their prior mean.
    defaults : StreamDefaults
        Batches and steps, in subjects.
    together : int
        Subjects whose observations are compared with those of others.
    """

    sweeps: int = 30
    defaults: StreamDefaults = StreamDefaults(5, Polynomial(alpha=0.7, offset=2.0))
    together: int = 10


#: The rule of every stream.
STREAM = StreamRule()


class SubjectStream(StreamRunner):
    """A model that learns from chunks of subjects; its problem is the latest chunk.

    Parameters
    ----------
    problem : Problem
        The first subjects.
    fitted : FittedMixedEffects or None, default=None
        The fit that it continues.
    s : ndarray or None, default=None
        Statistics of this fit.
    rule : StreamRule, default=STREAM
        How it learns.
    """

    rows_name = "subjects"
    order = OrderRule(share=0.4)

    def __init__(self, problem, fitted=None, s=None, rule: StreamRule = STREAM):
        super().__init__()
        self.problem, self.rule = problem, rule
        self.continued = fitted, s
        if problem.layout.design.priors is not None:
            raise ValueError(
                "fixed has priors, which need fit: a stream of subjects does not know "
                "how many there will be"
            )

    def on(self, problem: Problem) -> SubjectStream:
        """Return the stream with the subjects of another chunk."""
        stream = copy.copy(self)
        stream.problem, stream.means = problem, copy.deepcopy(self.means)
        return stream

    def begin(self, settings, rows, sample_weight, task):
        """Start from the parameters of the problem, or from those of a fit."""
        fitted, s = self.continued
        self.state = StreamState(
            params=self.problem.model.start if fitted is None else fitted.params,
            s=s,
            generators=spawn_generators(settings.seed),
            iterates=IterateRule(False),
            mass=0.0 if fitted is None else float(len(fitted.rows)),
        )
        self.continued = None, None

    def step(self, settings, rows, sample_weight, task):
        """Learn from the rows of subjects."""
        counts = np.bincount(rows.subject_of_row, minlength=len(rows))
        sums = np.bincount(rows.subject_of_row, rows.y, len(rows))
        with np.errstate(invalid="ignore"):
            self.count_means((sums / counts)[:, None], None, self.rule.together)
        self.learn(self._merger(settings), rows, None, task)

    def _merger(self, settings):
        settings = settings.merger_of(self.problem.model).settings
        steps = max(self.rule.sweeps, settings.sampler.n_steps)
        parameters = {**settings.sampler.get_params(), "n_steps": steps}
        sampler = type(settings.sampler)(**parameters)
        return Stream(replace(settings, sampler=sampler))

    def published(self, settings):
        """Return the fitted attributes, which are about the subjects of this chunk."""
        params, s = self._merger(settings).published(self.state)
        fitted = FittedMixedEffects(self.problem, params, None, settings.seed)
        return {**fitted.attributes(), "statistics_": s}


def check_same_columns(layout, old) -> None:
    """Raise an error if covariates are used in another way than before."""
    same = layout.subject_columns == old.subject_columns
    if not same or layout.row_columns != old.row_columns:
        raise ValueError(
            "a covariate that was constant within subjects is not any more, or the "
            "other way round; or groups was given in some calls only"
        )
