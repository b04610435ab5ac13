"""What happens around an epoch: a guard, a record, and the check of convergence."""

from __future__ import annotations

import time

import numpy as np

from sktem.loop.convergence import check_change, check_gap
from sktem.loop.iterates import IterateRule
from sktem.loop.monitor import objective_of
from sktem.models.contract import has_nan, nan_message
from sktem.schedules import in_phase

__all__ = ["end_epoch", "sound_epoch"]


def sound_epoch(loop) -> bool:
    """Run an epoch, and go back by one if the M-step has given NaN.

    Parameters
    ----------
    loop : object
        The loop, between two epochs.

    Returns
    -------
    bool
        False if no pass was left, or if the run cannot go on.

    Raises
    ------
    ValueError
        If the first M-step gives NaN.
    """
    state, model = loop.state, loop.settings.model
    error = None
    try:
        if not loop.epoch():
            return False
    except Exception as caught:
        error = caught
    if not has_nan(state.params):
        if error is not None:
            raise error
        return True
    message = nan_message(model, state.solver.s)
    if state.solver.iteration <= 1:
        raise ValueError(message) from error
    state.failure = (
        f"{message}, in iteration {state.solver.iteration} or before. The run has "
        f"stopped with the parameters after {len(state.history)} epochs."
    )
    state.params, state.solver.s = state.finished_epoch
    state.solver.S_tts = state.solver.s
    state.iterates = IterateRule(False)
    return False


def end_epoch(loop) -> None:
    """Record an epoch and set ``converged``.

    Parameters
    ----------
    loop : object
        The loop, between two epochs.
    """
    state, settings, expectation = loop.state, loop.settings, loop.expectation
    history, recursion = state.history, state.solver
    step_size = in_phase(settings.step_size, state.phase)
    objective, mean_field, exact = _measure(loop)
    accepted, bias, visits = expectation.acceptance
    expectation.acceptance = [0.0, 0.0, 0]
    history.events.update(expectation.events)
    expectation.events.clear()
    state.chains = expectation.chains
    state.rows_visited = expectation.rows_visited
    state.cpu_time = time.process_time() - loop.cpu_start
    history.append(
        passes=expectation.rows_visited / loop.n,
        monitor_passes=state.monitor.rows_visited / loop.n,
        n_iterations=recursion.iteration,
        step_size=float(step_size(max(recursion.iteration, 1))),
        objective=objective,
        mean_field=mean_field,
        acceptance_rate=accepted / visits if visits else float("nan"),
        bias=bias / visits if visits else float("nan"),
        cpu_time=state.cpu_time,
    )
    if settings.tol > 0:
        em = loop.full_batch and settings.sampler.deterministic
        if settings.stopping == "gap" and not np.isnan(objective):
            check_gap(state, settings, em)
        else:
            check_change(state, settings, objective, mean_field, exact or em)
    state.finished_epoch = (state.params, recursion.s)


def _measure(loop) -> tuple[float, float, bool]:
    """Return objective, mean field, and whether they are over all rows and exact."""
    state, expectation = loop.state, loop.expectation
    if not loop.settings.monitor:
        return float("nan"), float("nan"), False
    if not np.isfinite(expectation.objective):
        return *state.monitor.measure(
            expectation, state.params, state.solver.s, state.solver.iteration
        ), False
    # A full pass this epoch already computed both.
    params, s = loop.visited
    objective = objective_of(loop.settings.model, expectation.objective, params)
    expectation.objective = float("nan")
    if s is None:
        return objective, float("nan"), True
    field = expectation.full_mean - s
    with np.errstate(over="ignore"):  # the square of statistics of huge data
        return objective, float(field @ field), True
