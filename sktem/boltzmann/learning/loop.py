"""Adiabatic persistent contrastive divergence and its relatives: the loop.

Algorithm 1 of Jang et al. (2016), on batches. E: posterior expectations of the batch
and their average over iterations (E.1 to E.3). What is remembered of a sample is its
chain, as bits. The average is one over batches; it is the mean of the averages of the
paper, one for each sample, only if a batch has all of them. M: chains of the model and
a step along the difference (M.1, M.2).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.learning.objective import Objective
from sktem.boltzmann.learning.positive_phase import Batches
from sktem.boltzmann.learning.row_weights import RowOrder
from sktem.boltzmann.learning.state import ContrastiveSettings
from sktem.boltzmann.learning.steps import average, m_step
from sktem.boltzmann.learning.tempering import Replicas, free_moments
from sktem.boltzmann.machines.model import draw_seed
from sktem.boltzmann.units import VisibleUnits
from sktem.e_step.batches import BufferedSelector, batch_edges
from sktem.loop.runner import run_epochs
from sktem.rows.held import carrier_of

__all__ = ["ContrastiveEpochs", "MachineFit", "update"]


@dataclass(frozen=True)
class MachineFit:
    """Fixed parts of a fit.

    Attributes
    ----------
    settings : ContrastiveSettings
        Settings of the run.
    units : VisibleUnits
        The visible units.
    inputs : array or sparse matrix of shape (n_rows, n_visible)
        Visible values.
    n_mean_field : int
        Mean-field iterations of the likelihood that is watched where values are
        missing.
    shares : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows, whose sum is 1.
    verbose : int, default=0
        Whether measurements of the likelihood print how far they are.
    is_warm : bool, default=False
        Whether the start is that of a fit before.
    """

    settings: ContrastiveSettings
    units: VisibleUnits
    inputs: Any
    n_mean_field: int
    shares: Any = None
    verbose: int = 0
    is_warm: bool = False

    def run(self, state, on_epoch) -> None:
        """Run the loop from a state, which is changed."""
        watch = self._watch(state)
        epochs = ContrastiveEpochs(
            self.settings, self.inputs, state, watch, self.shares
        )
        run_epochs(epochs, state, on_epoch)

    def _watch(self, state):
        """Return the measure of the likelihood, or None."""
        settings = self.settings
        if settings.tol is None or not settings.n_epochs:
            return None
        rounds = state.rounds
        if rounds.seed is None:
            rounds.seed = int(state.generators.monitoring.integers(2**63))
        watch = Objective(
            settings, self.units, self.inputs, rounds.seed, self.n_mean_field,
            self.shares, self.verbose, rounds.policy,
        )  # fmt: skip
        if not self.is_warm and watch.is_estimated(state.params):
            # Small random weights: independent units, nearly.
            watch.value_of_start = watch.reference.base
        return watch


class ContrastiveEpochs:
    """The epochs of a run: batches in random order, rounds, measures of likelihood."""

    def __init__(self, settings, X, state, watch, shares=None):
        self.settings, self.X, self.state, self.watch = settings, X, state, watch
        left_out = None if watch is None else watch.left_out
        self.order = RowOrder(X.shape[0], shares, left_out)
        self.edges = batch_edges(len(self.order), settings.batch_size)
        ascends = watch is not None and watch.ascent is not None
        self.climbs = ascends and watch.ascent.is_concave
        self.rounds = state.rounds
        self.rounds.begin(settings, len(self.edges) - 1, ascends, watch)
        self.batches = Batches(X)
        self.begun = time.process_time() - state.cpu_time
        self.copy = arrays_of(state.params).copy
        self._finish_epoch()

    def start(self) -> None:
        """Measure where the run begins, unless it is resumed."""
        state = self.state
        if self.settings.posterior.keeps_chains:
            self.batches.start(state)
        if self.watch is not None and not self.rounds.measures:
            self.rounds.measure(state, self.watch, self.watch.value_of_start)

    def epoch(self) -> bool:
        """Update on each batch once; False if no epoch is left."""
        settings, state = self.settings, self.state
        epoch = self.rounds.epochs_of(state)
        if epoch >= self.rounds.n_epochs:
            return False
        if self.climbs:
            self._climb()
            return True
        begin, end = self.rounds.of_epoch(epoch)
        done, span = epoch - begin, end - begin
        self.rounds.step_fraction = done / max(span - 1, 1)
        self.rounds.run_fraction = (epoch + 1) / self.rounds.n_epochs
        n_updates = len(self.edges) - 1
        for batch_number, rows in enumerate(self._batches()):
            if settings.adaptive:
                self.rounds.step_fraction = (done + batch_number / n_updates) / span
            update(settings, state, self.batches, rows)
        state.epoch += 1
        state.cpu_time = time.process_time() - self.begun
        return True

    def _batches(self):
        """Yield the rows of each batch of an epoch."""
        X, rng = self.X, self.state.generators.indices
        if not carrier_of(X).can_take:
            if self.order.shares is not None:
                raise ValueError(
                    "sample_weight needs rows that can be taken one by one, as from "
                    "arrays and .npy files; this X is read in order"
                )
            selector = self.batches.buffer = BufferedSelector(
                X, self.settings.batch_size
            )
            for _ in range(selector.n_batches):
                yield selector.next(rng, X).rows
            return
        order = self.order.draw(rng)
        for first, after in pairwise(self.edges):
            yield order[first:after]

    def _climb(self):
        """Ascend towards the maximum of a concave likelihood."""
        state, ascent = self.state, self.watch.ascent
        state.move_to(ascent.climb(state.params))
        gradient = ascent.evaluate(state.params)[1]
        state.steps.gap = float(gradient @ gradient)
        state.epoch += 1
        state.n_updates += 1
        state.cpu_time = time.process_time() - self.begun

    def end_epoch(self) -> None:
        """Measure where a round ends, and record the epoch."""
        state = self.state
        if self.climbs:
            self.rounds.close_ascent(state, self.watch)
            self._move_chains()
        elif self.watch is not None:
            self.rounds.close_epoch(self.settings, state, self.watch)
        _record(self.settings, state, self.climbs)
        self._finish_epoch()

    def _move_chains(self):
        """Move chains of the model to where an ascent has led."""
        settings, state = self.settings, self.state
        if not settings.solver.persistent:
            return
        model, rng = settings.model, state.generators.sampling
        if state.chains is None:
            state.chains = model.new_chains(settings.n_chains, rng, state.params)
        n_sweeps, seed = self.rounds.policy.to_the_maximum, draw_seed(rng)
        state.chains = model.moved(state.params, state.chains, n_sweeps, seed)

    def finish(self, on_epoch) -> None:
        """Finish the run; the state stays as it is."""

    def go_back(self) -> None:
        """Return to the parameters of the last finished epoch."""
        self.state.params, self.state.steps.average = self.finished

    def _finish_epoch(self):
        """Keep the parameters and their average."""
        average = self.state.steps.average
        average = None if average is None else self.copy(average)
        self.finished = self.copy(self.state.params), average


def update(settings, state, batches, rows=None) -> None:
    """Do one E-step, on a batch, and one M-step."""
    model, rng = settings.model, state.generators.sampling
    state.n_updates += 1
    positive = batches.expect(settings, state, rows)
    if settings.centering:
        _move_centre(settings, state, positive.values)
    if settings.solver.averages and state.mean is not None:
        a = settings.step_size_e(state.n_updates, state.rounds.step_fraction)
        state.mean += a * (positive.values - state.mean)
    else:
        state.mean = positive.values
    chains = positive.starts
    if settings.solver.persistent:
        if state.chains is None:
            state.chains = model.new_chains(settings.n_chains, rng, state.params)
        chains = state.chains
    replicas, n_sweeps = _replicas(settings, state, chains), settings.n_gibbs_m
    if replicas is not None and settings.n_replicas is None:
        n_sweeps = min(n_sweeps, state.rounds.policy.tempered)
    negative = free_moments(
        model, state.params, chains, replicas, n_sweeps, rng, settings.rao_blackwell
    )
    if settings.solver.persistent:
        state.chains = negative.chains
    values = negative.values
    if settings.sums:
        exact = model.free_exact(state.params.astype(np.float64))[1]
        values = exact.astype(values.dtype)
    m_step(settings, state, values)
    average(settings, state)


def _move_centre(settings, state, values):
    """Average the posterior means of the units, over all updates and later the last."""
    means = values[: settings.model.weights_from]
    if state.centre is None:
        state.centre = arrays_of(means).copy(means)
    else:
        share = max(1 / state.n_updates, settings.centre_rate)
        state.centre += share * (means - state.centre)


def _replicas(settings, state, chains):
    """Return the warmer replicas of the chains of the model, None if there are none."""
    n_warm = (settings.n_replicas or state.rounds.n_replicas) - 1
    if not n_warm:
        return None
    if state.replicas is None or len(state.replicas.chains) != n_warm:
        rng, n = state.generators.sampling, settings.model.pack(chains).shape[0]
        state.replicas = Replicas.of(settings.model, state.params, n_warm + 1, n, rng)
    return state.replicas


def _record(settings, state, climbs):
    """Write an epoch into the history."""
    state.history.append(
        passes=float(state.epoch),
        n_iterations=state.n_updates,
        gradient_norm=state.steps.gap**0.5,
        cpu_time=state.cpu_time,
    )
    if not climbs:
        step_size = settings.step_size_m(state.n_updates, state.rounds.step_fraction)
        state.history.append(step_size=step_size)
    measured = state.history.objective
    if state.rounds.measures or measured:
        # Fits before a warm start need not have measured it.
        unknown = len(state.history) - 1 - len(measured)
        measured.extend([float("nan")] * unknown + [state.rounds.seen])
