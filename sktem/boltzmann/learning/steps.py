"""Steps of the M-step: along the gradient, or adapted to the size of its entries."""

from __future__ import annotations

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.model import LARGEST_PARAMETER

__all__ = ["average", "m_step"]

#: Share of the past in the average of the squared gradient (Kingma and Ba 2015).
PAST_SQUARES = 0.999
#: Added to the root of the averaged squares: about that of a pair of frequent units in
#: a batch of 100. Rarer ones, whose gradients are mostly noise, get shorter steps.
TYPICAL_ROOT = 0.03
#: The average of the parameters is about one over the last tenth of the updates.
POWER = 8


def m_step(settings, state, negative) -> None:
    """Move the parameters along the difference of the statistics, (8)."""
    model, params, memory = settings.model, state.params, state.steps
    arrays = arrays_of(params)
    with np.errstate(over="ignore", invalid="ignore"):
        gradient = arrays.difference(state.mean, negative)
        settings.prior.descend(model, params, gradient)
        memory.gap = float(gradient @ gradient)
        step = (_adapted if settings.adaptive else _plain)(settings, state, gradient)
        params += step
        memory.reach += float(step @ step) ** 0.5
    # No parameter can be beyond the sum of the steps, so that few updates need a look.
    if model.gaussian or not memory.reach < LARGEST_PARAMETER:
        if model.project(params):
            state.history.events["diverged"] += 1
            if memory.velocity is not None:
                memory.velocity[:] = 0.0
        memory.reach = float(arrays.xp.max(arrays.xp.abs(params)))


def _plain(settings, state, step):
    """Return b_t times the gradient, about the centre and with momentum if wanted."""
    if settings.centering:
        settings.model.centred(step, state.centre)
    step *= _plain_rate(settings, state)
    if not settings.momentum:
        return step
    memory = state.steps
    memory.velocity *= settings.momentum
    memory.velocity += step
    return memory.velocity


def _plain_rate(settings, state):
    """Return b_t; count it, and prepare the momentum."""
    rate = settings.step_size_m(state.n_updates, state.rounds.fraction)
    state.rounds.travelled += rate / (1.0 - settings.momentum)
    if settings.momentum and state.steps.velocity is None:
        state.steps.velocity = arrays_of(state.params).xp.zeros_like(state.params)
    return rate


def _adapted(settings, state, gradient):
    """Return a step whose entries are about of one size, that of Kingma and Ba (2015).

    The averages are of the gradient along the parameters of the centred units, so that
    the step is along the gradient times a positive matrix.
    """
    model, memory = settings.model, state.steps
    xp = arrays_of(gradient).xp
    if settings.centering:
        model.centre_weights(gradient, state.centre)
    rate, share_squares = _adapted_rates(settings, state)
    past = settings.momentum
    memory.first *= past
    memory.first += (1.0 - past) * gradient
    gradient *= gradient
    gradient *= 1.0 - PAST_SQUARES
    memory.second *= PAST_SQUARES
    memory.second += gradient
    roots = xp.sqrt(memory.second / share_squares)
    roots += TYPICAL_ROOT
    step = memory.first / roots
    step *= rate
    if settings.centering:
        model.centre_biases(step, state.centre)
    return step


def _adapted_rates(settings, state):
    """Return the step size and the bias correction of averaged squares."""
    memory = state.steps
    if memory.first is None:
        zeros_like = arrays_of(state.params).xp.zeros_like
        memory.first, memory.second = zeros_like(state.params), zeros_like(state.params)
        memory.n_moments = 0
    memory.n_moments += 1
    # Averages that began at zero are too small by such a factor.
    share = 1.0 - settings.momentum**memory.n_moments
    rate = settings.step_size_m(state.n_updates, state.rounds.fraction)
    return rate * (state.rounds.shortened / share), 1.0 - PAST_SQUARES**memory.n_moments


def average(settings, state):
    """Average the parameters, the n-th with a weight of about n to the POWER."""
    memory = state.steps
    if not settings.averaging:
        memory.average, memory.n_averaged = None, 0
        return
    if memory.average is None:
        memory.average = arrays_of(state.params).copy(state.params)
        memory.n_averaged = 1
        return
    memory.n_averaged += 1
    share = (POWER + 1) / (memory.n_averaged + POWER)
    memory.average += share * (state.params - memory.average)
