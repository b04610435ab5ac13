"""Hidden Markov models on streams of sequences, or of pieces of one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sktem.e_step.random import spawn_generators
from sktem.estimators.stream import StreamRunner
from sktem.hidden_markov.fitted import FittedSequences
from sktem.loop.iterates import IterateRule
from sktem.loop.stream import Stream, StreamState
from sktem.schedules import Polynomial

__all__ = ["SequenceStream"]

#: Sequences per step, and the schedule of the steps, where the user leaves them open.
BATCH, STEPS = 10, Polynomial(alpha=0.6, offset=2.0)


class SequenceStream(StreamRunner):
    """A model that learns from sequences as they come.

    Parameters
    ----------
    estimator : HiddenMarkovModel
        The estimator.
    X : ObservedSequences
        The first sequences.
    weights : ndarray or None
        Their weights.
    """

    def __init__(self, estimator, X, weights):
        super().__init__()
        fitted = hasattr(estimator, "emission_params_")
        begun = estimator._fitted().params if fitted else None
        self.model = estimator._new_model(X, weights, begun)
        self.continues = False
        self.carried: np.ndarray | None = None

    def carry(self, continues: bool) -> None:
        """Say whether the next sequence continues the last one."""
        self.continues = continues

    def begin(self, estimator, X, sample_weight, task):
        """Start from the parameters of a fit, or from the first sequences."""
        generators = spawn_generators(estimator.random_state)
        fitted = hasattr(estimator, "emission_params_")
        if fitted:
            params = estimator._fitted().params
        else:
            start = estimator._start(self.model, X, generators.initialisation)
            params = start.params
        self.model.set_params(start=params)
        s = None
        mass = 0.0
        if fitted:
            s, _ = self.model.expected_statistics(X, params, sample_weight)
            mass = float(estimator.n_sequences_seen_)
            self.n_rows += int(mass)
        self.state = StreamState(
            params=params,
            s=s,
            generators=generators,
            iterates=IterateRule(False),
            mass=mass,
        )

    def step(self, estimator, X, sample_weight, task):
        """Learn from sequences."""
        if self.carried is not None and self.continues:
            X = X.continued(self.carried)
        self.learn(self._stream(estimator), X, sample_weight, task)
        fitted = FittedSequences(self.model, self.state.params)
        self.carried = fitted.filter(X[[len(X) - 1]])[-1]
        self.warn_once()

    def _stream(self, estimator):
        batch_size = estimator._given_batch_size(BATCH)
        settings = estimator._settings(self.model, batch_size=batch_size)
        automatic = isinstance(estimator.step_size, str)
        step_size = STEPS if automatic else settings.step_size
        return Stream(replace(settings, step_size=step_size))

    def published(self, estimator):
        """Return the fitted attributes that count every sequence seen."""
        params, _ = self._stream(estimator).published(self.state)
        return {
            **estimator._parameter_attributes(self.model, params),
            "n_sequences_seen_": self.n_rows,
            "n_steps_": self.state.n_steps,
        }
