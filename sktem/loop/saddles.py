"""Escape of EM from saddle points of its objective."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sktem.e_step.random import spawn_generators
from sktem.loop.state import RunSettings, RunState
from sktem.samplers.compatibility import missing_methods
from sktem.samplers.exact import ExactDraws, ExactExpectation
from sktem.schedules import Constant
from sktem.solvers.full_batch import FullBatch

__all__ = ["SADDLE_RULE", "SaddleRule", "full_passes", "left_saddle"]


class SaddleRule(NamedTuple):
    """Perturbation of a run that has converged.

    Attributes
    ----------
    n_draws : int
        Latents that are drawn for the disturbed M-step, of all rows together, at least:
        the fewer, the larger is the disturbance.
    passes : int
        Passes of EM from there.
    """

    n_draws: int = 10_000
    passes: int = 3


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


def left_saddle(
    settings: RunSettings, state: RunState, run_stage, rule: SaddleRule = SADDLE_RULE
) -> RunSettings | None:
    """Return the settings of further passes from a saddle point, or None.

    An M-step from draws disturbs the parameters of a run that has converged.
    At a saddle point EM stands, as at components that are equal, and draws are not
    equal. From near a maximum the gains of a few passes become smaller, and lead to no
    more than the objective from which they began. Where it is a saddle the state has
    the parameters to which they have led; otherwise it is as it was.

    Parameters
    ----------
    settings : RunSettings
        Those of the run.
    state : RunState
        Its state.
    run_stage : callable
        Runs passes, given settings and a state.
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
    n_draws = -(-rule.n_draws // max(state.n_rows, 1))
    quiet = replace(settings, tol=0.0, monitor=False)
    # Of its own: the generators of the run are as they were.
    trial = RunState(state.params, spawn_generators(0))
    try:
        run_stage(full_passes(quiet, ExactDraws(n_draws), 1), trial)
        trial = RunState(trial.params, trial.generators)
        run_stage(full_passes(replace(quiet, monitor=True), EXACT, rule.passes), trial)
    except ValueError:
        return None  # no parameters follow from draws
    state.interrupted = trial.interrupted
    values = trial.history.objective
    if len(values) < rule.passes or trial.interrupted or not np.isfinite(values).all():
        return None
    last = state.history.objective[-1] if np.isnan(state.objective) else state.objective
    gains = np.diff(values)
    grows = gains[-1] > max(gains[0], settings.tol)
    if not (grows or values[-1] > last + settings.tol):
        return None
    state.params = trial.params
    state.solver.s = state.solver.S_tts = trial.solver.s
    return full_passes(settings, EXACT, settings.max_passes)
