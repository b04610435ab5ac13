"""The settings with which a run begins, and those with which it is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sktem.loop.state import RunSettings, RunState
from sktem.samplers.compatibility import missing_methods
from sktem.samplers.exact import ExactExpectation
from sktem.schedules import Constant
from sktem.solvers.full_batch import FullBatch

__all__ = ["first_stage", "has_last_stage", "last_stage"]


def first_stage(settings: RunSettings, state: RunState) -> RunSettings:
    """Return the settings with which a run begins, or is resumed."""
    return _judged(settings) if state.judged_from else settings


def has_last_stage(settings: RunSettings, state: RunState) -> bool:
    """Return whether a run that seems to have converged is still to be judged.

    Solvers with batches and without a memory of rows leave the noise of their last
    steps in the parameters: with exact expectations passes of EM take it out. So they
    do with the noise of draws, in which slow progress is not seen, where a model has
    exact expectations too and the change of an epoch decides. Other solvers whose
    progress was measured on a sample of rows go on, measured on all.
    """
    unjudged = state.converged and not (state.judged_from or state.stopped)
    return unjudged and (_ends_by_passes(settings) or state.of_sample)


def last_stage(settings: RunSettings, state: RunState) -> RunSettings:
    """Return the settings with which a run is judged, from where it stands."""
    state.judged_from, state.stale_epochs = len(state.history), 0
    state.converged, state.best_objective = False, -np.inf
    return _judged(settings)


def _ends_by_passes(settings):
    if settings.average is not False:
        return False
    if settings.sampler.deterministic:
        return settings.solver.n_index_sets > 0 and not settings.solver.remembers_rows
    draws = not settings.sampler.markov and settings.stopping == "change"
    return draws and not missing_methods(settings.model, ExactExpectation())


def _judged(settings):
    """Return settings with which progress is measured on all rows."""
    if _ends_by_passes(settings):
        exact = ExactExpectation()
        settings = replace(
            settings, sampler=exact, solver=FullBatch(), step_size=Constant(1.0)
        )
    return replace(settings, on_all_rows=True)
