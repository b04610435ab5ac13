"""What happens at the end of an epoch: a record, and the check of convergence."""

from __future__ import annotations

import time

import numpy as np

from sktem.monitor import objective_of

__all__ = ["end_epoch"]


def end_epoch(loop) -> None:
    """Record an epoch and set ``converged``.

    Parameters
    ----------
    loop : object
        The loop, between two epochs.
    """
    state, settings, expectation = loop.state, loop.settings, loop.expectation
    history, recursion = state.history, state.solver
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
        step_size=float(settings.step_size(recursion.iteration)),
        objective=objective,
        mean_field=mean_field,
        acceptance_rate=accepted / visits if visits else float("nan"),
        bias=bias / visits if visits else float("nan"),
        cpu_time=state.cpu_time,
    )
    if settings.tol > 0:
        full_batch = loop.full_batch and settings.sampler.deterministic
        _check_convergence(state, settings, objective, mean_field, exact or full_batch)
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
    # A full pass of this epoch has given both for nothing.
    params, s = loop.visited
    objective = objective_of(loop.settings.model, expectation.objective, params)
    expectation.objective = float("nan")
    if s is None:
        return objective, float("nan"), True
    field = expectation.full_mean - s
    with np.errstate(over="ignore"):  # the square of statistics of huge data
        return objective, float(field @ field), True


def _check_convergence(state, settings, objective, mean_field, exact) -> None:
    """Stop when the objective (or, without one, the mean field) says so."""
    if np.isnan(objective):
        scale = float(state.solver.s @ state.solver.s)
        # The estimate has noise and can be negative: far below zero it says as
        # little as far above.
        stale = abs(mean_field) < settings.tol**2 * scale
    elif exact:
        stale = abs(objective - state.best_objective) < settings.tol
        state.best_objective = objective
    else:
        stale = objective < state.best_objective + settings.tol
        state.best_objective = max(state.best_objective, objective)
    state.stale_epochs = state.stale_epochs + 1 if stale else 0
    state.converged = state.stale_epochs >= (1 if exact else settings.patience)
