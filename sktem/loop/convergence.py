"""Criteria of convergence of a run."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np

__all__ = ["GAP_RULE", "GapRule", "check_change", "check_gap", "creeps", "rounding_of"]


class GapRule(NamedTuple):
    """Settings by which the remaining gain of a run is estimated.

    Attributes
    ----------
    markov_window : int
        Epochs of a window, at least, where chains depend on their past.
    exact_window : int
        Epochs of a window, at least, where expectations are exact and steps constant.
    errors : float
        Standard errors below which the difference of two windows is noise.
    most_passes : int
        Passes of a run of EM that nobody would wait for.
    creep : float
        Times ``tol`` that may be left, by extrapolation, of a run of EM whose change
        is below ``tol``.
    tol : float
        Nats per row where ``tol`` is left to the rule.
    paces : tuple of float
        Paces at which a run may approach its limit, as shares of the steps that it
        has done.
    """

    markov_window: int = 10
    exact_window: int = 4
    errors: float = 2.0
    most_passes: int = 10_000
    creep: float = 5.0
    tol: float = 1e-6
    paces: tuple[float, ...] = tuple(np.geomspace(0.02, 4.0, 18))


GAP_RULE = GapRule()


def check_change(state, settings, objective, mean_field, exact) -> None:
    """Set ``converged`` when the objective or else the mean field is stable.

    Estimates of a squared mean field that are not positive are noise of draws:
    ``hidden_by_noise`` says whether there are some in the last third of the epochs.
    """
    if np.isnan(objective):
        scale = float(state.solver.s @ state.solver.s)
        # The estimate has noise and can be negative: far below zero it says as
        # little as far above.
        stale = abs(mean_field) < settings.tol**2 * scale
        fields = np.array(state.history.mean_field[state.judged_from :])
        noisy = fields[-len(fields) // 3 :].min() <= 0.0
        state.hidden_by_noise = bool(noisy and not settings.sampler.deterministic)
    elif exact:
        # Of fewer epochs nothing can be extrapolated.
        few = settings.extrapolates and len(state.history) - state.judged_from < 3
        stale = not few and abs(objective - state.best_objective) < settings.tol
        state.best_objective = objective
    else:
        stale = objective < state.best_objective + settings.tol
        state.best_objective = max(state.best_objective, objective)
    state.stale_epochs = state.stale_epochs + 1 if stale else 0
    state.converged = state.stale_epochs >= (1 if exact else settings.patience)


def check_gap(
    state, settings, monotone: bool, rule: GapRule = GAP_RULE, *, whole: bool = False
) -> None:
    """Set ``converged`` when the remaining gain is estimated to be below ``tol``.

    A small change from epoch to epoch can mean slow progress. For EM, whose changes
    fall geometrically in the end, the rest of the series is extrapolated (Aitken), and
    must be below ``tol`` for a window of epochs: where fast directions have just died
    out and slow ones are left, two changes alone look as if all had. Where rises and
    falls take turns the changes are rounding errors, which singular covariances make
    large, and there is nothing to gain but their sum; and no more is to come than a run
    of ``most_passes`` would gain at the pace of the last ones.
    Solvers with batches whose expectations are exact and whose steps are constant
    approach their limit geometrically too, but by jumps: the largest changes of the
    last two windows of epochs take the place of the last two changes, so that a run
    whose last epochs jump has not converged. Schemes that extrapolate EM steps, of the
    ``whole`` data, do so too, and are as easily deceived as EM.
    Otherwise the means of the objective over the last third of the epochs and over
    the third before are compared. Their difference, which small steps make small, is
    divided by the steps between and multiplied by all steps so far: the gain of
    a run that continued as long again. Only epochs in which the step averages are
    compared. Where that is below ``tol``, or the difference below twice its standard
    error, ``patience`` epochs in a row (all those with Markov chains), the run has
    converged, unless its history says otherwise: an exponential in the steps is fitted
    to all epochs, and what is left of it must be below ``tol`` too.
    Where the noise could hide ``tol`` (the standard error is above half of it), that
    must hold for every exponential that the epochs do not exclude; otherwise it is
    not known, and ``hidden_by_noise`` says so. So it does where steps average and an
    earlier epoch was higher than the last by more than ``tol``: draws that depend on
    those before have led away.
    """
    judged = state.history.objective[state.judged_from :]
    if monotone:
        window = max(rule.exact_window, isqrt(len(judged)))
        last = np.array(judged[-rule.exact_window - 1 :])
        left = _left_to_gain(last, rule) if len(judged) > 2 else np.inf
        _settle(state, left < settings.tol, window)
        return
    values = np.array(judged)
    steps = np.array(state.history.step_size[state.judged_from :])
    averages = float(settings.step_size(10**9)) < 1
    if settings.sampler.deterministic and not averages:
        window = max(rule.exact_window, settings.patience, isqrt(len(values)))
        left = _left_of_jumps(values, window, np.max)
        if whole:
            # EM steps between extrapolations can grow, where a saddle is passed.
            left = max(left, _left_of_jumps(values, window, np.min))
        _settle(state, left < settings.tol, window if whole else 1)
        return
    total = steps.sum()
    epochs = values, np.cumsum(steps)
    # Of all rows the likelihood is known at each epoch's parameters.
    fallen = not state.of_sample and values.max() - values[-1] > settings.tol
    if averages:
        values, steps = values[steps < 1], steps[steps < 1]
    least = rule.markov_window if settings.sampler.markov else 1
    window = max(settings.patience, least, len(values) // 3)
    if len(values) < 2 * window:
        return
    before, last = values[-2 * window : -window], values[-window:]
    error = np.sqrt((before.var() + last.var()) / window)
    rise = abs(last.mean() - before.mean())
    # Between the centres of the windows lie half of the steps in both.
    left = rise * total / (0.5 * steps[-2 * window :].sum())
    stale = bool(left < settings.tol or rise < rule.errors * error)
    state.hidden_by_noise = False
    if stale:
        to_come, at_most = _left_of_approach(*epochs, rule.paces)
        known = error < 0.5 * settings.tol or at_most < settings.tol
        known = known and not (averages and fallen)
        state.hidden_by_noise = not known
        stale = bool(known and to_come < settings.tol)
    state.stale_epochs = state.stale_epochs + 1 if stale else 0
    patience = settings.patience if settings.sampler.markov else 1
    state.converged = state.stale_epochs >= patience


def creeps(settings, state, rule: GapRule = GAP_RULE) -> bool:
    """Return whether EM has ended by a small change although much is left to gain.

    Extrapolation says nearly what is left, or, where a run passes a saddle, far less.
    """
    em = settings.solver.is_monotone and settings.solver.n_index_sets == 0
    em = em and settings.sampler.deterministic and settings.extrapolates
    values = np.array(state.history.objective[state.judged_from :])
    if not em or len(values) < 3 or np.isnan(values[-3:]).any():
        return False
    return bool(_left_to_gain(values, rule) > rule.creep * settings.tol)


def _settle(state, settled, window) -> None:
    """Set ``converged`` where a run has been settled for a window of epochs."""
    state.stale_epochs = state.stale_epochs + 1 if settled else 0
    state.converged = state.stale_epochs >= window


def _left_of_approach(values, steps, paces):
    """Return the remainder of an exponential approach, and its upper limit."""
    steps = steps - steps[0]
    decays = np.exp(-steps / (np.array(paces)[:, None] * steps[-1]))
    centred = decays - decays.mean(axis=1, keepdims=True)
    squares = (centred**2).sum(axis=1)
    values = values - values.mean()
    size = -(centred @ values) / squares
    residual = values @ values - size**2 * squares
    best = residual.argmin()
    variance = max(residual[best], 0.0) / max(len(values) - 3, 1)
    left = size * decays[:, -1]
    error = decays[:, -1] * np.sqrt(variance / squares)
    possible = residual <= residual[best] + 9 * variance
    return left[best], (left + 3 * error)[possible].max()


def _left_to_gain(values, rule):
    """Return the sum of the changes to come, of a geometric series."""
    changes = np.diff(values[-rule.exact_window - 1 :])
    if len(changes) == rule.exact_window:
        if (changes[1:] * changes[:-1] < 0).sum() > 1:
            return np.abs(changes).sum()
        # Small changes that only grow are those of a run that leaves a saddle.
        grows = (np.diff(changes) > 0).all() and changes[0] > 0
        at_most = np.inf if grows else rule.most_passes * np.abs(changes).max()
    else:
        at_most = np.inf
    before, last = changes[-2:]
    remainder = _geometric_rest(abs(last), last / before if before else np.inf, values)
    return min(remainder, at_most)


def _left_of_jumps(values, window, size_of):
    """Return the sum of the changes to come, if those of windows fall geometrically."""
    if len(values) <= 2 * window:
        return np.inf
    sizes = np.abs(np.diff(values))
    before, last = size_of(sizes[-2 * window : -window]), size_of(sizes[-window:])
    rate = (last / before) ** (1 / window) if before else np.inf
    return _geometric_rest(last, rate, values)


#: Changes by this share of an objective, or less, are rounding errors: terms of a
#: likelihood, such as logarithms of gamma functions, are larger than their sum.
ROUNDING = 64 * np.finfo(float).eps


def rounding_of(objective) -> float:
    """Return the changes of an objective that are rounding errors."""
    return ROUNDING * max(abs(objective), 1.0)


def _geometric_rest(change, rate, values):
    """Return the sum of a geometric series from a change on, infinite if it grows."""
    if change <= rounding_of(values[-1]):
        return 0.0
    return change / (1 - rate) if 0 < rate < 1 else np.inf
