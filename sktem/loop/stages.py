"""Stages of a run: settings of its beginning, and of the check of its convergence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sktem.loop.convergence import GAP_RULE, creeps
from sktem.loop.saddles import full_passes
from sktem.loop.state import RunSettings, RunState
from sktem.samplers.compatibility import missing_methods
from sktem.samplers.exact import ExactExpectation
from sktem.solvers.accelerated import Acceleration
from sktem.solvers.squarem import SQUAREM

__all__ = ["enter_stage", "first_stage", "next_stage"]


def first_stage(settings: RunSettings, state: RunState) -> RunSettings:
    """Return the settings with which a run begins, or is resumed."""
    if state.accelerated:
        return _accelerated(settings)
    return _judged(settings, state.ends_by_em) if state.judged_from else settings


def next_stage(settings: RunSettings, state: RunState) -> RunSettings | None:
    """Return the settings of the next stage of a run that seems to have converged.

    Solvers with batches and without a memory of rows leave the noise of their last
    steps in the parameters: with exact expectations passes of EM take it out. So they
    do with the noise of draws, in which slow progress is not seen, where a model has
    exact expectations too. Other solvers whose progress was measured on a sample of
    rows go on, measured on all. EM whose small changes hardly become smaller continues
    with extrapolated steps, if asked to.

    Parameters
    ----------
    settings : RunSettings
        Those of the present stage.
    state : RunState
        The state, at the end of the stage.

    Returns
    -------
    RunSettings or None
        The settings; None if the run has ended.
    """
    if not state.converged or state.stopped:
        return None
    if not state.judged_from and (_ends_by_passes(settings) or state.of_sample):
        return _judged(settings)
    return _accelerated(settings) if creeps(settings, state) else None


def enter_stage(settings: RunSettings, state: RunState) -> None:
    """Prepare the state for a stage that is not the first one."""
    state.judged_from, state.stale_epochs = len(state.history), 0
    state.converged, state.best_objective = False, -np.inf
    if settings.solver.n_index_sets == 0:
        # Batches of the stage before would be drawn, and read, in vain.
        state.selectors = []
    if isinstance(settings.solver, SQUAREM):
        state.accelerated, state.solver.own = True, Acceleration()


def _ends_by_passes(settings):
    if settings.average is not False:
        return False
    if settings.sampler.deterministic:
        return settings.solver.n_index_sets > 0 and not settings.solver.remembers_rows
    markov = settings.sampler.markov
    return not markov and not missing_methods(settings.model, ExactExpectation())


def _judged(settings, ends_by_em=False):
    """Return settings with which progress is measured on all rows."""
    if ends_by_em or _ends_by_passes(settings):
        return full_passes(settings)
    return replace(settings, on_all_rows=True)


def _accelerated(settings):
    """Return settings with which EM is extrapolated until little is left to gain."""
    tol = GAP_RULE.creep * settings.tol
    return replace(
        _judged(settings), solver=SQUAREM(), stopping="gap", tol=tol, extrapolates=False
    )
