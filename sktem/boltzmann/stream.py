"""A Boltzmann machine on a stream: batches of a fixed size, whatever the chunks."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of
from sktem.boltzmann.fitted import FittedMachine
from sktem.boltzmann.learning.loop import update
from sktem.boltzmann.learning.positive_phase import Batches
from sktem.boltzmann.learning.prior import Prior
from sktem.boltzmann.learning.state import ContrastiveState, RowChains
from sktem.boltzmann.learning.tempering import correlation_of_chains
from sktem.boltzmann.units import VisibleUnits
from sktem.e_step.random import spawn_generators
from sktem.estimators.stream import StreamRunner
from sktem.history import History
from sktem.loop.batch_means import BatchMeans, OrderRule
from sktem.rows.held import carrier_of

__all__ = ["BoltzmannStream", "StreamPace"]

#: Key of the generator that rounds weights of rows, beyond those of the others.
REPEATS = 1 << 20


class StreamPace(NamedTuple):
    """Steps of a stream, and the schedule of checks of its chains.

    Attributes
    ----------
    fall : int
        Batches after which adapted steps are half as long as at first; they fall as
        one over the number of batches, down to a hundredth.
    visits : int
        Updates by the first batch, by the second half of them and so on down to one: a
        few hundred rows would otherwise leave a stream where it began.
    look, next_look : int
        Updates after which chains are looked at first, and how many times as many
        batches there are at the next look.
    long : int
        Batches from which on a stream of real numbers that began without a fit warns.
    nanoseconds : float
        What exact sums over the states of the machine may cost at an update.
    order : OrderRule
        When rows come in an order.
    """

    fall: int = 250
    visits: int = 200
    look: int = 400
    next_look: int = 2
    long: int = 200
    nanoseconds: float = 1e6
    order: OrderRule = OrderRule(apart=3.0)


class BoltzmannStream(StreamRunner):
    """Rows that wait for a full batch, and the state of the learning."""

    pace = StreamPace()

    def __init__(self, seed, kind):
        super().__init__()
        self.seed, self.kind = seed, kind
        self.model: Any = None
        self.units: Any = None
        self.repeats: Any = None
        if seed is not None:
            key = (*seed.spawn_key, REPEATS)
            of_repeats = np.random.SeedSequence(seed.entropy, spawn_key=key)
            self.repeats = np.random.default_rng(of_repeats)
        self.waiting: list = []
        self.n_learned, self.prior = 0.0, Prior(0.0)
        self.after_whole_fit = self.stays_in_modes = False
        self.n_batches = self.next_look = 0
        self.events: Counter = Counter()
        self.means: BatchMeans | None = None
        self.sums = False

    @classmethod
    def after_fit(cls, settings, units, state, mass):
        """Return a stream that continues a fit to rows of this weight."""
        stream = cls(None, units.kind)
        stream.model, stream.units = settings.model, units
        stream.n_learned, stream.prior = mass, settings.prior
        stream.repeats = copy.deepcopy(state.generators.indices)
        stream.state = replace(
            state.mapped(arrays_of(state.params).copy),
            rounds=state.rounds.restarted(state),
            replicas=copy.deepcopy(state.replicas),
            history=History(),
        )
        stream.after_whole_fit = True
        return stream

    def __sklearn_array_api_convert__(self, converter):
        """Return the stream with arrays that a converter has moved."""
        moved = copy.copy(self)
        moved.waiting = [converter(part) for part in self.waiting]
        if self.units is not None:
            moved.units = self.units.__sklearn_array_api_convert__(converter)
        if self.model is not None:
            moved.model = self.model.__sklearn_array_api_convert__(converter)
        if self.state is not None:
            # Replicas begin anew.
            moved.state = replace(self.state.mapped(converter), replicas=None)
        return moved

    def update(self, settings, X, sample_weight, task):
        """Learn from a chunk, and count its numerical problems."""
        if settings.solver.name == "hapcd" and not self.after_whole_fit:
            raise ValueError(
                "solver='hapcd' changes over max_iter epochs and cannot begin on a "
                "stream: use fit first, or 'apcd' or 'mfpcd'"
            )
        table = None if self.units is None else self.units.table
        fresh = settings.model(X.shape[1], arrays_of(X), table, self.kind)
        if self.model is not None and fresh.n_parameters != self.model.n_parameters:
            raise ValueError("the machine cannot change on a stream: use fit")
        self.model = fresh if self.model is None else self.model
        self.events.clear()
        super().update(settings, X, sample_weight, task)

    def collect(self, settings, X, sample_weight, task):
        """Return the rows, which `step` gathers until a batch is full."""
        return X, sample_weight

    def begin(self, settings, X, sample_weight, task):
        """Start from the first batch."""
        self.units, self.state = self._start(X)

    def step(self, settings, X, sample_weight, task):
        """Learn from the batches that are full."""
        arrays = arrays_of(X)
        # Copies, since the caller may reuse its buffer.
        X = X.toarray() if sparse.issparse(X) else arrays.copy(X)
        if sample_weight is not None:
            X = arrays.take(X, self._repeated(sample_weight))
        self.waiting.append(X)
        rows = sum(part.shape[0] for part in self.waiting)
        size = int(settings.batch_size)
        if rows < size:
            return
        data = arrays.concat(self.waiting)
        full = rows // size * size
        self.waiting = [data[full:, :]]
        run = self._run_settings(settings, carrier_of(data).has_nan)
        if self.state is None:
            self.begin(settings, data[:size, :], None, task)
        self.state.history.events.clear()
        with task.chunk(full // size, "batch") as on_step:
            for begin in range(0, full, size):
                rows = data[begin : begin + size, :]
                batch = self.units.inputs(rows, arrays.xp.float32)
                self.n_learned += size
                self.prior = settings.prior(self.model, self.n_learned)
                now = replace(run, prior=self.prior)
                n_visits = 1
                if self._adapts(run):
                    self.state.rounds.step_fraction = self.n_batches / (
                        self.n_batches + self.pace.fall
                    )
                    n_visits = max(1, self.pace.visits // (self.n_batches + 1))
                for _ in range(n_visits):
                    update(now, self.state, Batches(batch))
                self._look_at_chains(now)
                if arrays.is_numpy:
                    if self.means is None:
                        self.means = BatchMeans(size, self.pace.order)
                    self.means.add(batch)
                on_step()
        self.events.update(self.state.history.events)

    def _adapts(self, run):
        """Return whether steps decrease in the course of the stream."""
        return run.adaptive and not self.after_whole_fit

    def _run_settings(self, settings, missing):
        """Return the settings of updates.

        Steps that are long for as long as there may be more to learn are as noisy: what
        is published is an average over the last tenth of the updates.
        """
        run = settings.of_run(self.model, missing)
        numpy = self.state is None or arrays_of(self.state.params).is_numpy
        cheap = numpy and self.model.exact_cost(0) <= self.pace.nanoseconds
        averaging = run.averaging or self._adapts(run)
        self.sums = cheap and run.adaptive and run.solver.persistent
        return replace(run, averaging=averaging, sums=self.sums)

    def _look_at_chains(self, settings):
        """Find out now and then whether chains stay in one of several modes."""
        self.n_batches += 1
        state = self.state
        n_updates = state.n_updates - state.rounds.updates_before
        early = n_updates < self.pace.look or self.n_batches < self.next_look
        if settings.sums or early or state.chains is None:
            return
        self.next_look = self.pace.next_look * self.n_batches
        policy, rng = state.rounds.policy, np.random.default_rng(self.n_batches)
        correlation = correlation_of_chains(
            settings.model, state.params, state.chains, policy.most_transitions, rng
        )
        self.stays_in_modes = correlation > policy.stuck
        if self.stays_in_modes and settings.n_replicas is None:
            state.rounds.n_replicas = max(state.rounds.n_replicas, policy.n_replicas)

    @property
    def is_ordered(self) -> bool:
        """Whether rows come in an order, as sorted ones do."""
        return self.means is not None and self.means.is_ordered

    @property
    def is_slow(self) -> bool:
        """Whether real numbers that began without a fit are many, or in clusters."""
        if self.after_whole_fit or self.sums or not self.model.gaussian:
            return False
        return self.stays_in_modes or self.n_batches >= self.pace.long

    def _repeated(self, weights):
        """Return indices of rows, each as often as its weight; fractions are drawn."""
        counts = np.floor(weights)
        counts += self.repeats.random(len(weights)) < weights - counts
        return np.repeat(np.arange(len(weights)), counts.astype(np.int64))

    def _start(self, rows):
        units = VisibleUnits.of(rows, self.kind)
        generators = spawn_generators(
            np.random.SeedSequence(self.seed.entropy, spawn_key=self.seed.spawn_key)
        )
        params = self.model.initial_params(units.logits, generators.initialisation)
        return units, ContrastiveState(params, generators)

    def resumed(self, params, history, shape, averaging):
        """Return the state that a fit continues."""
        arrays = arrays_of(params)
        state = self.state.mapped(arrays.copy)
        average = state.steps.average
        if not (averaging and average is not None and arrays.xp.all(average == params)):
            state.params, state.steps.average, state.steps.n_averaged = params, None, 0
        chains, state.row_chains = state.row_chains, RowChains()
        if chains.packed is not None and tuple(chains.packed.shape[:2]) == shape:
            state.row_chains = RowChains(chains.packed, chains.started.copy())
        return replace(
            state,
            history=history,
            rounds=state.rounds.restarted(state),
            replicas=copy.deepcopy(state.replicas),
            stopped=False,
            interrupted=None,
        )

    def published(self, settings):
        """Return the fitted attributes; before a batch is full, those of a start."""
        units, state = self.units, self.state
        if state is None:
            waiting = arrays_of(self.waiting[0]).concat(self.waiting)
            units, state = self._start(waiting)
        return {
            **FittedMachine.of(self.model, units, state).attributes(),
            "weight_decay_": self.prior.strength,
            "n_samples_seen_": self.n_rows,
        }
