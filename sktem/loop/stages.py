"""The settings with which a run begins, and those with which it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sktem.loop.state import RunSettings, RunState
from sktem.schedules import Constant
from sktem.solvers.full_batch import FullBatch

__all__ = ["stages"]


def stages(settings: RunSettings, state: RunState) -> Iterator[RunSettings]:
    """Yield the settings of a run, then those of the EM passes at its end.

    Solvers with batches and without a memory of rows leave the noise of their last
    steps in the parameters. With exact expectations passes of EM take it out.

    Parameters
    ----------
    settings : RunSettings
        As they are given.
    state : RunState
        What the run changes; it may be resumed in either stage.

    Yields
    ------
    RunSettings
        Settings, with which to run until convergence.
    """
    solver = settings.solver
    noisy = solver.n_index_sets > 0 and not solver.remembers_rows
    exact = settings.sampler.deterministic
    ends_by_passes = noisy and exact and settings.average is False
    if not (ends_by_passes and state.last_passes_from):
        yield settings
        if not (ends_by_passes and state.converged):
            return
        state.last_passes_from = len(state.history)
        state.converged, state.best_objective = False, -np.inf
    yield replace(settings, solver=FullBatch(), step_size=Constant(1.0))
