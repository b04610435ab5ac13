"""The progress of an epoch: from a full pass, if it was one, or by a monitor."""

from __future__ import annotations

import numpy as np

from sktem.e_step.expectation import FullPass
from sktem.loop.monitor import Monitor, objective_of
from sktem.loop.state import RunSettings, RunState

__all__ = ["measured", "new_monitor"]


def new_monitor(state: RunState, size: int) -> Monitor:
    """Return a monitor of some rows, which counts on from the one before."""
    monitor = Monitor(state.n_rows, state.generators.monitoring, size)
    if state.monitor is not None:
        monitor.rows_visited = state.monitor.rows_visited
    return monitor


def measured(
    settings: RunSettings, state: RunState, expectation, full_pass: FullPass | None
) -> tuple[float, float, bool]:
    """Return objective, mean field, and whether they are of all rows and exact.

    Parameters
    ----------
    settings : RunSettings
        Settings of the run.
    state : RunState
        Its state; the monitor counts its visits.
    expectation : Expectation
        The E-step.
    full_pass : FullPass or None
        What the last pass over all rows has found, if its expectations were exact.
    """
    if not settings.monitor:
        return float("nan"), float("nan"), False
    monitor = state.monitor
    assert monitor is not None
    state.of_sample = full_pass is None and bool(monitor.halves)
    if full_pass is None:
        recursion = state.solver
        return *monitor.measure(
            expectation, state.params, recursion.s, recursion.iteration
        ), False
    model = settings.model
    objective = objective_of(model, full_pass.log_likelihood, full_pass.params)
    if full_pass.s is None:
        return objective, float("nan"), True
    field = full_pass.mean - full_pass.s
    with np.errstate(over="ignore"):  # the square of statistics of huge data
        return objective, float(field @ field), True
