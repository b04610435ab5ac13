"""Escape of EM from saddle points and edges at which it has nearly stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.random import spawn_generators
from sktem.loop.convergence import rounding_of
from sktem.loop.state import RunSettings, RunState
from sktem.models.contract import NoParametersError
from sktem.rows.held import carrier_of, count_rows
from sktem.samplers.compatibility import missing_methods
from sktem.samplers.exact import ExactDraws, ExactExpectation
from sktem.schedules import Constant
from sktem.solvers.full_batch import FullBatch

__all__ = ["EDGE_RULE", "SADDLE_RULE", "full_passes", "passes_beyond"]


class EdgeRule(NamedTuple):
    """Probabilities that are raised from near zero, to see whether they grow.

    Attributes
    ----------
    share : float
        The value to which smaller ones are raised.
    rounds : int
        Times that a run may leave an edge, at most.
    """

    share: float = 1e-3
    rounds: int = 5


EDGE_RULE = EdgeRule()


class SaddleRule(NamedTuple):
    """Perturbation of a run that has converged.

    Attributes
    ----------
    n_draws : int
        Latents that are drawn for the disturbed M-step, of all rows together, at least:
        the fewer, the larger is the disturbance.
    passes : int
        Passes of EM from there.
    n_rows, share : int, float
        Where there are more rows, those that are disturbed first, in memory: rows, or
        the share of the visits so far that all passes over them may take.
    """

    n_draws: int = 10_000
    passes: int = 3
    n_rows: int = 2000
    share: float = 0.02

    def size(self, n_rows: int, n_visits: int) -> int:
        """Return how many rows are disturbed first."""
        passes = 2 * self.passes + 1
        return min(n_rows, max(self.n_rows, int(self.share * n_visits / passes)))


SADDLE_RULE = SaddleRule()
EXACT = ExactExpectation()


def full_passes(settings: RunSettings, sampler, n_passes: float) -> RunSettings:
    """Return settings of passes over all rows, with steps of 1."""
    return replace(
        settings,
        sampler=sampler,
        solver=FullBatch(),
        step_size=Constant(1.0),
        max_passes=n_passes,
        on_all_rows=True,
    )


class _Trials:
    """Passes of EM from parameters that are disturbed, or as they are.

    Parameters
    ----------
    settings : RunSettings
        Those of the run.
    run_stage : callable
        Runs passes, given settings, a state and data.
    rule : SaddleRule
        How far, and how long.
    """

    def __init__(self, settings, run_stage, rule):
        self.run_stage, self.tol, self.rule = run_stage, settings.tol, rule
        self.quiet = replace(settings, tol=0.0, monitor=False)

    def passes(self, params, data, n_passes=None) -> RunState:
        """Return the state after passes from some parameters."""
        # Of its own: the generators of the run are as they were.
        trial = RunState(params, spawn_generators(0))
        settings = full_passes(self.quiet, EXACT, n_passes or self.rule.passes)
        self.run_stage(replace(settings, monitor=True), trial, data=data)
        return trial

    def disturbed(self, params, data) -> RunState:
        """Return the state after an M-step from draws, and passes from there."""
        n_draws = -(-self.rule.n_draws // max(count_rows(data[0]), 1))
        trial = RunState(params, spawn_generators(0))
        settings = full_passes(self.quiet, ExactDraws(n_draws), 1)
        self.run_stage(settings, trial, data=data)
        return trial if trial.interrupted else self.passes(trial.params, data)

    def rises(self, trial: RunState, objective: float) -> bool:
        """Return whether the gains grow, or lead to more than there was before."""
        values = trial.history.objective
        if len(values) < self.rule.passes or not np.isfinite(values).all():
            return False
        gains = np.diff(values)
        grows = gains[-1] > max(gains[0], self.tol)
        return not trial.interrupted and (grows or values[-1] > objective + self.tol)


def passes_beyond(settings: RunSettings, state: RunState, run_stage, data):
    """Return the settings of passes from an edge or a saddle point, or None."""
    arguments = settings, state, run_stage, data
    return left_edge(*arguments) or left_saddle(*arguments)


def left_saddle(
    settings: RunSettings, state: RunState, run_stage, data: tuple[Any, Any],
    rule: SaddleRule = SADDLE_RULE,
) -> RunSettings | None:  # fmt: skip
    """Return the settings of further passes from a saddle point, or None.

    An M-step from draws disturbs the parameters of a run that has converged.
    At a saddle point EM stands, as at components that are equal, and draws are not
    equal. From near a maximum the gains of a few passes become smaller, and lead to no
    more than the objective from which they began. Of many rows a part is disturbed
    first, and all of them where that seems to leave a saddle. Where it is one the
    state has the parameters to which the passes have led; otherwise it is as it was.

    Parameters
    ----------
    settings : RunSettings
        Those of the run.
    state : RunState
        Its state.
    run_stage : callable
        Runs passes, given settings, a state and data.
    data : tuple
        Rows and their weights.
    rule : SaddleRule
        How far, and how long.

    Returns
    -------
    RunSettings or None
        Settings of passes of EM; None if the run has ended.
    """
    exact = settings.sampler.deterministic and settings.average is False
    if (
        not (settings.leaves_saddles and exact and state.converged)
        or (state.stopped or state.disturbed or state.failure)
        or missing_methods(settings.model, ExactDraws())
    ):
        return None
    state.disturbed = True
    trials = _Trials(settings, run_stage, rule)
    try:
        part = _part_of(*data, rule.size(state.n_rows, state.rows_visited))
        if part is not None:
            # The maximum of a part is elsewhere.
            alone = trial = trials.passes(state.params, part)
            if not alone.interrupted:
                trial = trials.disturbed(alone.params, part)
            state.interrupted = trial.interrupted
            if trial.interrupted or not trials.rises(
                trial, alone.history.objective[-1]
            ):
                return None
        trial = trials.disturbed(state.params, data)
    except NoParametersError:
        return None  # of draws
    state.interrupted = trial.interrupted
    if not trials.rises(trial, _last_objective(state)):
        return None
    _take_over(trial, state)
    return full_passes(settings, EXACT, settings.max_passes)


def left_edge(
    settings: RunSettings, state: RunState, run_stage, data: tuple[Any, Any],
    rule: EdgeRule = EDGE_RULE,
) -> RunSettings | None:  # fmt: skip
    """Return the settings of further passes from an edge, or None.

    EM multiplies probabilities: one that is nearly zero and should not be needs
    hundreds of passes to grow, in which the objective seems to stand. Those that grow
    in a pass once they are raised stay so, if the objective is higher there, and the
    run continues.

    Parameters
    ----------
    settings : RunSettings
        Those of the run.
    state : RunState
        Its state.
    run_stage : callable
        Runs passes, given settings, a state and data.
    data : tuple
        Rows and their weights.
    rule : EdgeRule
        How far, and how often.

    Returns
    -------
    RunSettings or None
        Settings of passes; None if the run has ended.
    """
    if (
        not (settings.sampler.deterministic and settings.average is False)
        or not state.converged
        or (state.stopped or state.failure or state.edges_left >= rule.rounds)
    ):
        return None
    model, before = settings.model, settings.model.shares(state.params)
    low = [(p > 0) & (p < rule.share) for p in before]
    if not any(part.any() for part in low):
        return None
    trials = _Trials(settings, run_stage, SADDLE_RULE)

    def after_pass(where):
        pairs = zip(before, where, strict=True)
        raised = [_normalised(np.where(w, rule.share, p)) for p, w in pairs]
        params = model.with_shares(state.params, raised)
        return raised, trials.passes(params, data, 1)

    raised, trial = after_pass(low)
    if not trial.interrupted:
        after = model.shares(trial.params)
        parts = zip(low, raised, after, strict=True)
        grows = [w & (q > p) for w, p, q in parts]
        if not any(part.any() for part in grows):
            return None
        _, trial = after_pass(grows)
    state.interrupted, last = trial.interrupted, _last_objective(state)
    gained = np.nan if trial.interrupted else trial.history.objective[0] - last
    if not gained > rounding_of(last):
        return None
    state.edges_left += 1
    _take_over(trial, state)
    if state.accelerated:
        return settings
    return full_passes(settings, EXACT, settings.max_passes)


def _last_objective(state):
    """Return the objective at which a run has ended."""
    return state.history.objective[-1] if np.isnan(state.objective) else state.objective


def _take_over(trial, state):
    """Continue a run from where a trial has ended."""
    state.params = trial.params
    state.solver.s = state.solver.S_tts = trial.solver.s


def _normalised(shares):
    """Return shares whose sum over the last axis is 1."""
    return shares / shares.sum(axis=-1, keepdims=True)


def _part_of(X, sample_weight, size):
    """Return some of the rows, in memory, and their weights; None where that is all."""
    carrier = carrier_of(X)
    if size >= len(carrier):
        return None
    rows = np.sort(np.random.default_rng(0).choice(len(carrier), size, replace=False))
    return carrier.take(rows), None if sample_weight is None else sample_weight[rows]
