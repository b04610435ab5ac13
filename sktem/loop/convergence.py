"""When a run has converged."""

from __future__ import annotations

import numpy as np

__all__ = ["check_change", "check_gap"]

#: Least epochs of a window where chains depend on their past.
MARKOV_WINDOW = 10


def check_change(state, settings, objective, mean_field, exact) -> None:
    """Set ``converged`` when the objective (or, without one, the mean field) stands.

    Parameters
    ----------
    state : RunState
        The state, with the last epoch recorded.
    settings : RunSettings
        Holds ``tol`` and ``patience``.
    objective, mean_field : float
        What was measured.
    exact : bool
        Whether that is over all rows and without noise.
    """
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


def check_gap(state, settings, monotone: bool) -> None:
    """Set ``converged`` when what is left to gain is estimated to be below ``tol``.

    A small change from epoch to epoch can mean slow progress. For EM, whose changes
    fall geometrically in the end, the rest of the series is extrapolated (Aitken).
    Otherwise the means of the objective over the last third of the epochs and over
    the third before are compared. Their difference, which small steps make small, is
    divided by the steps between and multiplied by all steps so far: what the run would
    gain if it went on as long again. Where that is below ``tol``, or the difference
    below twice its standard error, ``patience`` epochs in a row (all those with
    Markov chains), the run has converged. Only epochs in which the step averages are
    compared.

    Parameters
    ----------
    state : RunState
        The state, with the last epoch recorded.
    settings : RunSettings
        Holds ``tol`` and ``patience``.
    monotone : bool
        Whether every epoch is an iteration of EM.
    """
    values = np.array(state.history.objective)
    if monotone:
        state.converged = len(values) > 2 and _left_to_gain(values) < settings.tol
        return
    steps = np.array(state.history.step_size)
    total = steps.sum()
    if float(settings.step_size(10**9)) < 1:
        values, steps = values[steps < 1], steps[steps < 1]
    least = MARKOV_WINDOW if settings.sampler.markov else 1
    window = max(settings.patience, least, len(values) // 3)
    if len(values) < 2 * window:
        return
    before, last = values[-2 * window : -window], values[-window:]
    error = np.sqrt((before.var() + last.var()) / window)
    rise = abs(last.mean() - before.mean())
    # Between the centres of the windows lie half of the steps in both.
    left = rise * total / (0.5 * steps[-2 * window :].sum())
    stale = bool(left < settings.tol or rise < 2 * error)
    state.stale_epochs = state.stale_epochs + 1 if stale else 0
    patience = settings.patience if settings.sampler.markov else 1
    state.converged = state.stale_epochs >= patience


def _left_to_gain(values):
    """Return the sum of the changes to come, of a geometric series."""
    before, last = np.diff(values[-3:])
    if abs(last) <= 8 * np.finfo(float).eps * max(abs(values[-1]), 1.0):
        return 0.0
    rate = last / before if before else np.inf
    return abs(last) / (1 - rate) if 0 < rate < 1 else np.inf
