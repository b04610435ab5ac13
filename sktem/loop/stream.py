"""Learning from a stream of chunks with constant memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.chains import ChainTable
from sktem.e_step.expectation import Batch, Expectation
from sktem.e_step.random import Generators
from sktem.kernels.blocks import plain
from sktem.loop.drift import BatchLikelihoods
from sktem.loop.iterates import IterateRule, towards
from sktem.loop.loop import run
from sktem.loop.state import RunSettings, RunState
from sktem.models.contract import has_nan, maximized, no_parameters
from sktem.rows.held import carrier_of, count_rows
from sktem.samplers.compatibility import check_compatible
from sktem.schedules import Schedule

__all__ = ["BatchGrowth", "Stream", "StreamState"]


@dataclass
class StreamState:
    """State of a stream between chunks; its size does not depend on their number.

    Attributes
    ----------
    params : object
        Parameters of the running model.
    s : ndarray or None
        Averaged statistics; None until the first batch is full.
    generators : Generators
        Random generators.
    mass : float
        Weight of the rows that have entered ``s``.
    pending : ndarray or None
        Sum of the statistics of rows that wait for their batch to be full.
    pending_mass : float
        Their weight.
    n_steps : int
        Steps done.
    iterates : IterateRule
        Average of the iterates, if asked for.
    events : dict
        Infeasible proxies, degenerate M-steps, and steps left out because the M-step
        gave NaN, counted.
    n_rows : int
        Rows so far.
    learned : object
        What a Markov sampler has learned of all chains together.
    likelihoods : BatchLikelihoods or None
        Log-likelihoods of batches, where they are watched.
    """

    params: Any
    s: np.ndarray | None
    generators: Generators
    iterates: IterateRule
    mass: float = 0.0
    pending: np.ndarray | None = None
    pending_mass: float = 0.0
    n_steps: int = 0
    events: dict[str, int] = field(
        default_factory=lambda: {"infeasible": 0, "degenerate": 0, "nan": 0}
    )
    n_rows: int = 0
    learned: Any = None
    likelihoods: BatchLikelihoods | None = None


class BatchGrowth(NamedTuple):
    """Batches that grow with the stream: many M-steps at first, cheap passes later.

    Attributes
    ----------
    first : int
        Rows of the first batches, of which the steps of the schedule are.
    share : float
        Rows of a batch, as a share of those so far.
    largest : int
        Rows of a batch, at most.
    """

    first: int = 50
    share: float = 0.1
    largest: int = 1024

    def size(self, mass: float) -> float:
        """Return the rows of a batch after rows of a total weight."""
        return min(max(self.first, self.share * mass), self.largest)


class Stream:
    """Merges chunks into running statistics.

    Time is counted in rows, not in calls: with batches of ``batch_size`` rows, the
    step of a batch is ``step_size(k)`` with k the number of batches so far. Batches
    that grow take the steps that their rows would have taken in batches of that size.

    *Solvers without a memory of rows* (EM, Monte Carlo EM, SAEM, online EM) all mean
    online EM here. Rows are gathered until a batch is full; then the statistics take
    a step and the parameters an M-step. How the stream is cut into chunks makes no
    difference, except to Markov samplers that learn a step, which they do at every
    draw. The published parameters also count the rows of an unfinished batch, with
    their share of a step.

    *Solvers with a memory of rows* (incremental EM, iSAEM, vrTTEM, fitTEM) treat a
    chunk as their population: they pass over it, with every M-step made from the
    running statistics merged with the chunk's, and the chunk's final statistics are
    merged for good. A chunk merges with the weight that its batches would have had one
    after the other, so that here too the weight depends on the rows.
    """

    def __init__(self, settings: RunSettings, growth: BatchGrowth | None = None):
        check_compatible(settings.model, settings.sampler)
        self.settings = settings
        self.growth = growth

    @property
    def step_name(self) -> str:
        """The unit of work after which ``on_step`` is called."""
        return "pass" if self.settings.solver.remembers_rows else "batch"

    def steps_of(self, state: StreamState, X, sample_weight=None) -> int | None:
        """Return how many steps a chunk makes, at most; None if it is not known."""
        if self.settings.solver.remembers_rows:
            return None
        mass = float(count_rows(X) if sample_weight is None else sample_weight.sum())
        return int((state.pending_mass + mass) / self.settings.batch_size * (1 + 1e-9))

    def update(
        self,
        state: StreamState,
        X,
        sample_weight=None,
        on_step: Callable[[], object] = lambda: None,
    ) -> None:
        """Update the state with rows; ``on_step`` is called after batches or passes."""
        if self.settings.solver.remembers_rows:
            self._update_population(state, X, sample_weight, on_step)
        else:
            self._update_batches(state, X, sample_weight, on_step)
        state.n_rows += count_rows(X)

    def _step(self, state: StreamState, mass: float) -> float:
        """Step for rows of weight ``mass`` that come next."""
        batch, step_size = self.settings.batch_size, self.settings.step_size
        k = state.mass / batch + 1.0
        if not isinstance(step_size, Schedule):
            # Functions of users take whole numbers, as a fit gives them.
            k = int(k * (1 + 1e-12))
        if mass == batch:
            return float(step_size(k))
        # The share left of the past is the product over the batches that the rows make.
        full = int(mass / batch * (1 + 1e-12))
        gammas = [float(step_size(k + j)) for j in range(full)]
        rest = max(mass / batch - full, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log1p(-np.array(gammas)).sum()
            if rest > 1e-12:
                left += rest * np.log1p(-float(step_size(k + full)))
        return float(-np.expm1(left))

    def _advance(self, state: StreamState, s: np.ndarray, mass: float, gamma: float):
        """Take over merged statistics and do the M-step, unless it gives NaN."""
        model = self.settings.model
        params = self._maximizer(state)(s, state.params)
        if has_nan(params):
            if state.n_steps == 0:
                raise no_parameters(model, s)
            state.events["nan"] += 1
            return
        state.params = params
        state.events["degenerate"] += model.degeneracies(params)
        state.s = s
        state.mass += mass
        state.n_steps += 1
        taken = state.iterates.segment(np.array([gamma]), state.generators.termination)
        if taken is not None:
            state.iterates.chosen = s.copy()
        if state.iterates.averaging(state.n_steps - 1):
            state.iterates.add(s)

    def _maximizer(self, state):
        """Return the M-step, checked until the first is done."""
        model = self.settings.model
        return model.maximize if state.n_steps else partial(maximized, model)

    def _update_batches(self, state, X, sample_weight, on_step):
        settings = self.settings
        expectation = Expectation(
            settings.model, settings.sampler, X, None, state.generators, state.n_rows
        )
        expectation.chains = self._chains(state, X)
        n_rows = count_rows(X)
        weights = np.ones(n_rows) if sample_weight is None else sample_weight
        expectation.checked = state.n_steps > 0
        ends = np.cumsum(weights)
        start = 0
        while start < n_rows:
            size = float(settings.batch_size)
            if self.growth is not None:
                size = self.growth.size(state.mass)
            room = size - state.pending_mass
            before = ends[start - 1] if start else 0.0
            # A row whose weight overfills the batch still enters it whole.
            stop = int(np.searchsorted(ends, before + room * (1 - 1e-12))) + 1
            stop = min(stop, n_rows)
            batch = Batch(np.arange(start, stop), weights[start:stop])
            expectation.start_chains_of(batch.rows, state.params)
            total = expectation.statistics(batch, state.params, state.n_steps + 1)
            if expectation.chains is not None:
                state.learned = expectation.chains.shared
            state.pending = total if state.pending is None else state.pending + total
            added = float(weights[start:stop].sum())
            state.pending_mass += added
            watched = state.likelihoods
            if watched is not None and expectation.batch_likelihood is not None:
                of_rows = partial(self._row_likelihoods, X, batch, state.params)
                watched.add(expectation.batch_likelihood, added, of_rows)
            if state.pending_mass >= size * (1 - 1e-12):
                mass = state.pending_mass
                gamma = self._step(state, mass)
                merged = towards(state.s, state.pending / mass, gamma)
                state.pending, state.pending_mass = None, 0.0
                self._advance(state, merged, mass, gamma)
                if watched is not None and watched.pending_mass > 0:
                    watched.close()
                on_step()
            start = stop

    def _row_likelihoods(self, X, batch, params):
        """Return the log-likelihoods of rows of a batch that count."""
        counted = batch.rows[batch.coefficients > 0]
        rows = carrier_of(X).take(counted)
        return plain(self.settings.model.log_likelihood(rows, params))

    def _chains(self, state, X):
        """Return where the chains of a chunk are kept, None for exact samplers."""
        markov = self.settings.sampler.markov
        return ChainTable(count_rows(X), state.learned) if markov else None

    def _update_population(self, state, X, sample_weight, on_step):
        mass = float(count_rows(X) if sample_weight is None else sample_weight.sum())
        gamma = self._step(state, mass)
        settings = self.settings
        chunk = replace(
            settings,
            step_size=settings.solver.default_step_size(settings.sampler),
            batch_size=max(1, min(settings.batch_size, count_rows(X) // 10)),
            max_passes=max(1, settings.max_passes),
            tol=0.0,
            average=False,
            monitor=False,
        )

        def on_epoch(_):
            on_step()
            return False

        inner = RunState(
            state.params,
            state.generators,
            chains=self._chains(state, X),
            first_row=state.n_rows,
        )
        inner = run(
            chunk,
            X,
            inner,
            sample_weight=sample_weight,
            on_epoch=on_epoch,
            merge=lambda s: towards(state.s, s, gamma),
        )
        for name in state.events:
            state.events[name] += inner.history.events.get(name, 0)
        if inner.chains is not None:
            state.learned = inner.chains.shared
        if inner.interrupted:
            raise inner.interrupted
        if inner.failure or inner.solver.s is None:
            state.events["nan"] += 1
            return
        merged = towards(state.s, inner.solver.s, gamma)
        self._advance(state, merged, mass, gamma)

    def published(self, state: StreamState) -> tuple[Any, np.ndarray | None]:
        """Return parameters and statistics that count every row seen."""
        s = state.s
        if state.pending is not None:
            gamma = self._step(state, state.pending_mass)
            s = towards(s, state.pending / state.pending_mass, gamma)
        chosen = state.iterates.result(s)
        params = self._maximizer(state)(chosen, state.params)
        if has_nan(params):
            if state.s is None:
                raise no_parameters(self.settings.model, chosen)
            return state.params, state.s
        return params, chosen
