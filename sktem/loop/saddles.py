"""Escape of EM from saddle points and edges at which it has nearly stopped."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
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
from sktem.solvers.squarem import SQUAREM

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
        Extrapolated passes from there, at most: near a saddle that is nearly neutral
        the first tens of them gain next to nothing.
    n_rows, per_statistic, share : int, int, float
        Where there are more rows, those that are disturbed first, in memory: rows, rows
        for each statistic, or the share of the visits so far that the passes over them
        may take, whichever are most.
    rounds : int
        Times that a run is disturbed, at most.
    """

    n_draws: int = 10_000
    passes: int = 60
    n_rows: int = 1500
    per_statistic: int = 4
    share: float = 0.05
    rounds: int = 5

    def size(self, state: RunState) -> int:
        """Return how many rows are disturbed first."""
        shared = int(self.share * state.rows_visited / self.passes)
        least = max(self.n_rows, self.per_statistic * len(state.returned))
        return min(state.n_rows, max(least, shared))


SADDLE_RULE = SaddleRule()


def full_passes(settings: RunSettings) -> RunSettings:
    """Return settings of exact passes over all rows, with steps of 1."""
    return replace(
        settings,
        sampler=ExactExpectation(),
        solver=FullBatch(),
        step_size=Constant(1.0),
        on_all_rows=True,
    )


class _Trials:
    """Passes from parameters that are disturbed, or as they are.

    Parameters
    ----------
    settings : RunSettings
        Those of the run.
    run_stage : callable
        Runs passes, given settings, a state and data.
    """

    def __init__(self, settings, run_stage):
        self.run_stage = run_stage
        quiet = replace(settings, max_passes=1, tol=0.0, monitor=True, stopping="gap")
        self.settings = full_passes(quiet)

    def passes(self, params, data, **changes) -> RunState:
        """Return the state after passes from some parameters, one of EM by default."""
        # Of its own: the generators of the run are as they were.
        trial = RunState(params, spawn_generators(0))
        self.run_stage(replace(self.settings, **changes), trial, data=data)
        return trial

    def disturbed(self, params, data, rule, tol) -> RunState:
        """Return the state after an M-step from draws, and passes from there."""
        draws = ExactDraws(-(-rule.n_draws // max(count_rows(data[0]), 1)))
        if not missing_methods(self.settings.model, draws):
            trial = self.passes(params, data, sampler=draws, monitor=False)
            if trial.interrupted:
                return trial
            params = trial.params
        passes = partial(self.passes, params, data, max_passes=rule.passes, tol=tol)
        try:
            with np.errstate(all="ignore"):
                return passes(solver=SQUAREM())
        except Exception:
            # No data give extrapolated statistics: without `project` a model may fail.
            return passes()


def passes_beyond(settings: RunSettings, state: RunState, run_stage, data):
    """Return the settings of passes from an edge or a saddle point, or None."""
    arguments = settings, state, run_stage, data
    return left_edge(*arguments) or left_saddle(*arguments)


def left_saddle(
    settings: RunSettings, state: RunState, run_stage, data: tuple[Any, Any],
    rule: SaddleRule = SADDLE_RULE,
) -> RunSettings | None:  # fmt: skip
    """Return the settings of further passes from a saddle point, or None.

    At a saddle point EM stands, as at components that are equal, and near one it
    creeps. An M-step from draws, which are not equal, disturbs the parameters of a run
    that has converged, and extrapolated passes follow from there. From near a maximum
    they lead to no more than it. Of many rows a part is disturbed, and one pass over
    all rows decides, where the part gains more than any fit to so few rows does. Where
    the objective is higher by more than ``tol`` the state has the parameters to which
    the passes have led; otherwise it is as it was.

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
        Settings of passes; None if the run has ended.
    """
    exact = settings.sampler.deterministic and settings.average is False
    if (
        not (settings.leaves_saddles and exact and state.converged)
        or (state.stopped or state.interrupted or state.failure)
        or state.saddle_checks >= rule.rounds
        or not np.isfinite(last := _last_objective(state))
    ):
        return None
    state.saddle_checks += 1
    trials, tol = _Trials(settings, run_stage), settings.tol
    part = _part_of(*data, rule.size(state))
    try:
        trial = trials.disturbed(state.params, part or data, rule, tol)
        if part is not None and not trial.interrupted:
            after, trial = trial, trials.passes(state.params, part)
            if not trial.interrupted:
                gain = _last_objective(after) - trial.history.objective[0]
                # Of the likelihood, as in Akaike's criterion, for each statistic.
                if not gain > tol + len(after.returned) / count_rows(part[0]):
                    return None
                trial = trials.passes(after.params, data)
    except NoParametersError:
        return None  # of draws
    state.interrupted = trial.interrupted
    if trial.interrupted or not _last_objective(trial) > last + tol:
        return None
    return _continued(settings, state, trial)


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
    trials = _Trials(settings, run_stage)

    def after_pass(where):
        pairs = zip(before, where, strict=True)
        raised = [_normalised(np.where(w, rule.share, p)) for p, w in pairs]
        params = model.with_shares(state.params, raised)
        return raised, trials.passes(params, data)

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
    return _continued(settings, state, trial)


def _last_objective(state):
    """Return the objective at which a run has ended."""
    return state.history.objective[-1] if np.isnan(state.objective) else state.objective


def _continued(settings, state, trial):
    """Return settings with which a run continues from where a trial has ended."""
    state.params = trial.params
    state.solver.s = state.solver.S_tts = trial.solver.s
    if state.accelerated:
        return settings
    state.ends_by_em = True
    return full_passes(settings)


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
