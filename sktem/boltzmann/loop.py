"""Adiabatic persistent contrastive divergence and its relatives: the loop.

Algorithm 1 of Jang et al. (2016), on batches. E: posterior expectations of the batch
and their average over iterations (E.1 to E.3). What is remembered of a sample is its
chain, as bits. The average is one over batches; it is the mean of the averages of the
paper, one for each sample, only if a batch has all of them. M: chains of the model and
a step along the difference (M.1, M.2).
"""

from __future__ import annotations

import time
from itertools import pairwise

from sktem.arrays import arrays_of
from sktem.boltzmann.e_steps import draw_seed
from sktem.boltzmann.positive_phase import Batches
from sktem.boltzmann.rounds import (
    FEWEST_UPDATES,
    Measure,
    has_converged,
    has_learned_nothing,
    is_worse,
    rise,
    round_ends,
)
from sktem.boltzmann.row_weights import RowOrder
from sktem.boltzmann.steps import average, m_step
from sktem.boltzmann.tempering import Replicas, free_moments
from sktem.e_step.batches import BufferedSelector, batch_edges
from sktem.loop.runner import run_epochs as run
from sktem.rows.checked import CheckedRows

__all__ = ["run_epochs", "update"]

#: Share of a batch in the moving average of the units' means.
CENTRE_RATE = 0.01
#: Sum of given steps below which a run is never called converged: the gradient of a
#: weight is at most a sixteenth of its distance from the maximum.
SHORTEST_WAY = 16.0
#: Rise of the log-likelihood of a row by an ascent that has arrived at the maximum of
#: a concave one, and the chains' transitions from fair coins to there.
ARRIVED = 1e-7
TRANSITIONS = 1000
#: Size of the weights of a second start, that of the first being 0.5.
FURTHER = 4.0
#: Factor of the adapted steps after a round that has lost likelihood.
SHORTER = 0.3


def run_epochs(settings, X, state, on_epoch=None, watch=None, shares=None) -> None:
    """Run until the last epoch, convergence, or until `on_epoch` says to stop.

    Ctrl-C ends the run with the parameters of the last finished epoch.
    """
    run(ContrastiveEpochs(settings, X, state, watch, shares), state, on_epoch)


class ContrastiveEpochs:
    """The epochs of a run: batches in random order, rounds, measures of likelihood."""

    def __init__(self, settings, X, state, watch, shares=None):
        self.settings, self.X, self.state, self.watch = settings, X, state, watch
        self.order = RowOrder(X.shape[0], shares)
        self.edges = batch_edges(X.shape[0], settings.batch_size)
        ascends = watch is not None and watch.ascent is not None
        self.climbs = ascends and watch.ascent.is_concave
        self.ends = round_ends(
            settings.n_epochs, len(self.edges) - 1, settings.adaptive, ascends
        )
        self.batches = Batches(X)
        self.begun = time.process_time() - state.cpu_time
        self.copy = arrays_of(state.params).copy
        self._finish_epoch()

    def start(self) -> None:
        """Measure where the run begins, unless it is resumed."""
        state = self.state
        if self.settings.posterior.keeps_chains:
            self.batches.start(state)
        if self.watch is not None and not state.measures:
            _measure(state, self.watch)

    def epoch(self) -> bool:
        """Update on each batch once; False if no epoch is left."""
        settings, state = self.settings, self.state
        if state.epoch >= state.begin + settings.n_epochs:
            return False
        if self.climbs:
            self._climb()
            return True
        begin, end = _round(self.ends, state.epoch - state.begin)
        done, span = state.epoch - state.begin - begin, end - begin
        state.fraction = done / max(span - 1, 1)
        state.progress = (done + 1) / span
        n_updates = len(self.edges) - 1
        for batch_number, rows in enumerate(self._batches()):
            if settings.adaptive:
                state.fraction = (done + batch_number / n_updates) / span
            update(settings, state, self.batches, rows)
        state.epoch += 1
        state.cpu_time = time.process_time() - self.begun
        return True

    def _batches(self):
        """Yield the rows of each batch of an epoch."""
        X, rng = self.X, self.state.generators.indices
        if isinstance(X, CheckedRows) and not X.can_take:
            if self.order.shares is not None:
                raise ValueError(
                    "sample_weight needs rows that can be taken one by one, as from "
                    "arrays and .npy files; this X is read in order"
                )
            selector = BufferedSelector(X, self.settings.batch_size, "batches")
            for _ in range(selector.n_batches):
                yield selector.next(rng).rows
            return
        order = self.order.draw(rng)
        for first, after in pairwise(self.edges):
            yield order[first:after]

    def _climb(self):
        """Ascend towards the maximum of a concave likelihood."""
        state, ascent = self.state, self.watch.ascent
        state.params[...] = ascent.climb(state.params)
        gradient = ascent.evaluate(state.params)[1]
        state.gap = float(gradient @ gradient)
        state.reach = float("inf")
        state.first = state.second = None
        state.epoch += 1
        state.n_updates += 1
        state.cpu_time = time.process_time() - self.begun

    def end_epoch(self) -> None:
        """Measure where a round ends, and record the epoch."""
        state = self.state
        if self.climbs:
            _measure(state, self.watch)
            state.converged = rise(state.measures) <= ARRIVED
            self._move_chains()
        elif self.watch is not None:
            _close_epoch(self.settings, state, self.watch, self.ends)
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
        seed = draw_seed(rng)
        moved = model.free_gibbs(state.params, state.chains, TRANSITIONS, seed, False)
        state.chains = moved.chains

    def finish(self, on_epoch) -> None:
        """Leave the state as it is."""

    def go_back(self) -> None:
        """Return to the parameters of the last finished epoch."""
        self.state.params, self.state.average = self.state.finished

    def _finish_epoch(self):
        """Keep the parameters and their average."""
        state = self.state
        average = None if state.average is None else self.copy(state.average)
        state.finished = self.copy(state.params), average


def update(settings, state, batches, rows=None) -> None:
    """Do one E-step, on a batch, and one M-step."""
    model, rng = settings.model, state.generators.sampling
    state.n_updates += 1
    positive = batches.expect(settings, state, rows)
    if settings.centering:
        _move_centre(model, state, positive.values)
    if settings.solver.averages and state.mean is not None:
        a = settings.step_size_e(state.n_updates, state.fraction)
        state.mean += a * (positive.values - state.mean)
    else:
        state.mean = positive.values
    chains = positive.starts
    if settings.solver.persistent:
        if state.chains is None:
            state.chains = model.new_chains(settings.n_chains, rng, state.params)
        chains = state.chains
    negative = free_moments(
        model, state.params, chains, _replicas(settings, state, chains),
        settings.n_gibbs_m, rng, settings.rao_blackwell,
    )  # fmt: skip
    if settings.solver.persistent:
        state.chains = negative.chains
    m_step(settings, state, negative.values)
    average(settings, state)


def _move_centre(model, state, values):
    """Average the posterior means of the units, over all updates and later the last."""
    means = values[: model.weights_from]
    if state.centre is None:
        state.centre = arrays_of(means).copy(means)
    else:
        state.centre += max(1 / state.n_updates, CENTRE_RATE) * (means - state.centre)


def _replicas(settings, state, chains):
    """Return the warmer replicas of the chains of the model, None if there are none."""
    n_warm = settings.n_replicas - 1
    if not n_warm:
        return None
    if state.replicas is None or len(state.replicas.chains) != n_warm:
        rng, n = state.generators.sampling, settings.model.pack(chains).shape[0]
        state.replicas = Replicas.of(
            settings.model, state.params, settings.n_replicas, n, rng
        )
    return state.replicas


def _round(ends, epoch):
    """Return the first epoch of the round of an epoch, and that after its last."""
    number = next(k for k, end in enumerate(ends) if epoch < end)
    return (ends[number - 1] if number else 0), ends[number]


def _measure(state, watch):
    """Measure the log-likelihood, and keep the parameters if they are the best."""
    value, error = watch.measure(state.estimate, state.n_updates, state)
    state.seen = value
    n_updates = state.n_updates - state.begin_updates
    state.measures.append(Measure(n_updates, value, error))
    if state.best is None or value > state.best[0]:
        copy = arrays_of(state.params).copy
        chains = None if state.chains is None else copy(state.chains)
        state.best = (value, copy(state.params), chains)
        state.anchor = None if state.track is None else state.track.copy()


def _close_epoch(settings, state, watch, ends):
    """Measure where a round ends, and decide whether there is another one."""
    epoch = state.epoch - state.begin
    outcome = (state.measures, watch.base, settings.tol, settings.model.n_visible)
    # With given steps the middle of the run is a measure of what its length is worth.
    if epoch in ends or (not settings.adaptive and epoch == settings.n_epochs // 2):
        _climb_and_measure(state, watch)
    elif state.track is not None and state.track.is_due(state.n_updates):
        state.seen, _ = watch.measure(
            state.estimate, state.n_updates, state, ends=False
        )
    if epoch not in ends:
        return
    if watch.ascent is not None and is_worse(*outcome):
        # The round has led away from a summit; whether it is one is seen from there.
        state.shortened *= SHORTER
        _take_best(state)
        _climb_and_measure(state, watch)
    state.converged = has_converged(*outcome)
    if settings.adaptive:
        n_updates = state.measures[-1].n_updates
        few = watch.ascent is None and n_updates < FEWEST_UPDATES[watch.is_exact]
    else:
        few = state.travelled < SHORTEST_WAY
    state.converged = state.converged and not few
    if not settings.adaptive:
        return
    may_start = epoch < settings.n_epochs and not state.started_further
    if state.converged and may_start and _starts_further(settings, state, watch):
        state.converged = False
        return
    if is_worse(*outcome):
        # The steps were too long: the next round is from the best one, by shorter ones.
        state.shortened *= SHORTER
        _take_best(state)
    elif state.converged or epoch == settings.n_epochs:
        _take_best(state)


def _starts_further(settings, state, watch) -> bool:
    """Start anew from larger weights if that may be better, and return whether it may.

    Where units are independent the gradient vanishes, up to the third order of the
    weights, if no two columns are dependent, though three may be, or single ones have
    several modes. Ascents, where they are, show whether there is a higher maximum.
    """
    state.started_further = True
    logits, rng = watch.units.logits, state.generators.initialisation
    outcome = watch.base, settings.tol, settings.model.n_visible
    if watch.ascent is None:
        if not has_learned_nothing(state.measures, watch.base, outcome[-1]):
            return False
        params = watch.model.initial_params(logits, rng, FURTHER)
    else:
        starts = [
            watch.model.initial_params(logits, rng, FURTHER)
            for _ in range(watch.ascent.n_starts)
        ]
        tops = [watch.ascent.climb(start) for start in starts]
        values = [watch.measure(top, state.n_updates)[0] for top in tops]
        best = values.index(max(values))
        with_it = [*state.measures, Measure(0, values[best], 0.0)]
        if is_worse(with_it, *outcome) or has_converged(with_it, *outcome):
            return False
        params = tops[best]
    state.params[...] = params
    state.first = state.second = None
    state.reach = float("inf")
    return True


def _climb_and_measure(state, watch):
    """Climb where there are ascents, and measure the log-likelihood."""
    if watch.ascent is not None:
        state.params[...] = watch.ascent.climb(state.params)
        state.reach = float("inf")
        state.first = state.second = None
    _measure(state, watch)


def _take_best(state):
    """Go back to the best of the measured parameters."""
    _, params, chains = state.best
    state.params[...] = params
    state.first = state.second = None
    if chains is not None:
        state.chains[...] = chains


def _record(settings, state, climbs):
    """Write an epoch into the history."""
    state.history.append(
        passes=float(state.epoch),
        n_iterations=state.n_updates,
        gradient_norm=state.gap**0.5,
        cpu_time=state.cpu_time,
    )
    if not climbs:
        step_size = settings.step_size_m(state.n_updates, state.fraction)
        state.history.append(step_size=step_size)
    measured = state.history.objective
    if state.measures or measured:
        # Fits before a warm start need not have measured it.
        unknown = len(state.history) - 1 - len(measured)
        now = state.seen if state.measures else float("nan")
        measured.extend([float("nan")] * unknown + [now])
