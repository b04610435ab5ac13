"""Steps of the M-step: along the gradient, or adapted to the size of its entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.arrays import arrays_of

__all__ = ["AdaptedSteps", "average", "m_step"]


class AdaptedSteps(NamedTuple):
    """Steps that are about as long for each parameter (Kingma and Ba 2015).

    Attributes
    ----------
    past_squares : float
        Share of the past in the average of the squared gradient.
    root : float
        Added to the root of the averaged squares: about that of a pair of frequent
        units in a batch of 100. Rarer ones, whose gradients are mostly noise, get
        shorter steps.
    """

    past_squares: float = 0.999
    root: float = 0.03

    def direction(self, memory, gradient, past):
        """Return the direction of a step, and Adam's bias correction of the average.

        That is the average of the gradient, with a share of the past, over the root of
        that of its square; averages that began at zero are too small. The gradient is
        overwritten.
        """
        xp = arrays_of(gradient).xp
        if memory.first is None:
            memory.first, memory.second = (
                xp.zeros_like(gradient),
                xp.zeros_like(gradient),
            )
            memory.n_moments = 0
        memory.n_moments += 1
        memory.first *= past
        memory.first += (1.0 - past) * gradient
        gradient *= gradient
        gradient *= 1.0 - self.past_squares
        memory.second *= self.past_squares
        memory.second += gradient
        roots = xp.sqrt(memory.second / (1.0 - self.past_squares**memory.n_moments))
        roots += self.root
        return memory.first / roots, 1.0 - past**memory.n_moments


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
    if model.gaussian or not memory.reach < model.largest_parameter:
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
    rate = settings.step_size_m(state.n_updates, state.rounds.step_fraction)
    state.rounds.total_step += rate / (1.0 - settings.momentum)
    if settings.momentum and state.steps.velocity is None:
        state.steps.velocity = arrays_of(state.params).xp.zeros_like(state.params)
    return rate


def _adapted(settings, state, gradient):
    """Return a step whose entries are about of one size.

    The averages are of the gradient along the parameters of the centred units, so that
    the step is along the gradient times a positive matrix.
    """
    model = settings.model
    if settings.centering:
        model.centre_weights(gradient, state.centre)
    step, share = settings.steps.direction(state.steps, gradient, settings.momentum)
    rate = settings.step_size_m(state.n_updates, state.rounds.step_fraction)
    step *= rate * (state.rounds.shortened / share)
    if settings.centering:
        model.centre_biases(step, state.centre)
    return step


def average(settings, state):
    """Average the parameters, the n-th with a weight of about n to a power."""
    memory = state.steps
    if not settings.averaging:
        memory.average, memory.n_averaged = None, 0
        return
    if memory.average is None:
        memory.average = arrays_of(state.params).copy(state.params)
        memory.n_averaged = 1
        return
    memory.n_averaged += 1
    power = settings.power_of_average
    share = (power + 1) / (memory.n_averaged + power)
    memory.average += share * (state.params - memory.average)
