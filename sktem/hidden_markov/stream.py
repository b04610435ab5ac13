"""Hidden Markov models on streams of sequences, or of pieces of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.e_step.random import spawn_generators
from sktem.estimators.stream import StreamDefaults, StreamRunner
from sktem.hidden_markov.fitted import FittedSequences
from sktem.hidden_markov.given import TableReader
from sktem.hidden_markov.model import SequenceModel
from sktem.hidden_markov.rows import ObservedSequences
from sktem.hidden_markov.settings import SequenceSettings
from sktem.loop.drift import BatchLikelihoods
from sktem.loop.iterates import IterateRule
from sktem.loop.stream import StreamState

__all__ = ["SequenceStream"]


class StreamRule(NamedTuple):
    """Starts and default settings of streams.

    Attributes
    ----------
    defaults : StreamDefaults
        Batches and steps, in sequences.
    rows_of_start : int
        Rows of each state that a start should see: until there are as many, a stream
        starts again from all rows so far.
    growth : float
        By how much their number grows between two starts, at least.
    judged : int
        Sequences of a chunk, at most, whose likelihoods are compared with those before.
    together : int
        Sequences whose mean is compared, at least.
    """

    defaults: StreamDefaults = StreamDefaults(10, passes=10)
    rows_of_start: int = 100
    growth: float = 1.3
    judged: int = 32
    together: int = 10


class FirstSequences(NamedTuple):
    """The first sequences of a stream, too few for a start.

    Attributes
    ----------
    X : ObservedSequences
        The sequences; pieces of one are joined.
    weights : ndarray of shape (n_sequences,)
        Their weights.
    n_started : int
        Rows of the last start.
    """

    X: ObservedSequences
    weights: np.ndarray
    n_started: int = 0

    def and_then(self, X, weights, continues: bool) -> FirstSequences:
        """Return the same with sequences that follow."""
        joined = ObservedSequences.joined([self.X, X])
        if not continues:
            weights = np.concatenate([self.weights, weights])
            return self._replace(X=joined, weights=weights)
        offsets = np.delete(joined.offsets, len(self.X))
        joined = ObservedSequences(offsets, joined.X, None, joined.covariates)
        weights = np.concatenate([self.weights, weights[1:]])
        return self._replace(X=joined, weights=weights)


class SequenceStream(StreamRunner):
    """A model that learns from sequences as they come.

    Parameters
    ----------
    begun : FittedSequences or None, default=None
        The fit that it continues.
    n_begun : int, default=0
        Sequences of this fit.
    rule : StreamRule, default=StreamRule()
        How it learns.
    """

    rows_name, unit = "sequences", "a row"
    sequences: SequenceSettings
    reader: TableReader
    model: SequenceModel
    continues: bool

    def __init__(self, begun: FittedSequences | None = None, n_begun=0, rule=None):
        super().__init__()
        self.begun, self.n_begun = begun, n_begun
        self.rule = StreamRule() if rule is None else rule
        self.first: FirstSequences | None = None
        self.carried: np.ndarray | None = None

    def prepare(self, sequences, reader, continues) -> None:
        """Set the settings of the next sequences, which may continue the last one."""
        self.sequences, self.reader, self.continues = sequences, reader, continues

    def begin(self, settings, X, sample_weight, task):
        """Start from the parameters of a fit, or from the first sequences."""
        generators = spawn_generators(settings.seed)
        s, mass = None, 0.0
        self.model = self.sequences.model(X, sample_weight, self.begun)
        if self.begun is None:
            given = self.sequences.given
            params = given.best(self.model, X, generators.initialisation).params
        else:
            params = self.begun.params
            s, _ = self.model.expected_statistics(X, params, sample_weight)
            mass = float(self.n_begun)
            self.n_rows += self.n_begun
        self.model.set_params(start=params)
        self.state = StreamState(
            params=params,
            s=s,
            generators=generators,
            iterates=IterateRule(False),
            mass=mass,
            likelihoods=BatchLikelihoods(),
        )

    def collect(self, settings, X, sample_weight, task):
        """Begin, and keep the first sequences of a stream that begins without a fit."""
        self.begin(settings, X, sample_weight, task)
        if self.begun is None:
            blank = X[np.arange(0)]
            self.first = FirstSequences(blank, np.empty(0), X.n_rows)
        return X, sample_weight

    def step(self, settings, X, sample_weight, task):
        """Learn from sequences."""
        if self.first is not None:
            args = (self.first, X, sample_weight, task)
            X, sample_weight = self._with_first(settings, *args)
        elif self.carried is not None and self.continues:
            X = X.continued(self.carried)
        elif not self.continues:
            self._watch(X)
        self.learn(settings.merger_of(self.model), X, sample_weight, task)
        fitted = FittedSequences(self.model, self.state.params)
        self.carried = fitted.carried(X)
        share = 1.0 / (self.model.rows_per_sequence * max(self.n_rows, 1))
        self.model.chain.prior_share = share
        self.warn_once()

    def _watch(self, X) -> None:
        """Note how likely a row of each sequence is before they are learned.

        Those of pieces of one sequence follow its states, in no random order.
        """
        some = X[np.linspace(0, len(X) - 1, min(len(X), self.rule.judged)).astype(int)]
        values = self.model.log_likelihood_of_sequences(some, self.state.params)
        values = values / np.maximum(np.diff(some.offsets), 1)
        watched = self.state.likelihoods
        watched.add(values.mean(), len(some), lambda: values)
        if watched.pending_mass >= self.rule.together:
            watched.close()

    def _with_first(self, settings, first, X, sample_weight, task):
        """Return sequences to learn: all so far, if the stream starts again from them.

        Otherwise those that came now; pieces of one continue what is carried.
        """
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        continues = self.continues and len(first.X) > 0
        first = first.and_then(X, weights, continues)
        n_rows, rule = first.X.n_rows, self.rule
        enough = rule.rows_of_start * self.model.chain.n_states
        again = n_rows >= min(rule.growth * first.n_started, enough)
        if again and n_rows > first.n_started:
            X, weights = first.X, first.weights
            sample_weight = None if (weights == 1).all() else weights
            self.begin(settings, X, sample_weight, task)
            first = first._replace(n_started=n_rows)
        elif continues:
            X = X.continued(self.carried)
        self.first = first if n_rows < enough else None
        return X, sample_weight

    def published(self, settings):
        """Return the fitted attributes that count every sequence seen."""
        params, _ = settings.merger_of(self.model).published(self.state)
        return {
            **FittedSequences(self.model, params).attributes(),
            "categories_": self.reader.categories,
            "n_sequences_seen_": self.n_rows,
            "n_steps_": self.state.n_steps,
        }
