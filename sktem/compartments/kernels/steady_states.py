"""Steady states of equations that are integrated."""

import math

import numpy as np
from numba import njit
from numba.extending import overload

from sktem.compartments.kernels.elimination import solve
from sktem.compartments.kernels.slopes import input_density
from sktem.compartments.kernels.stepping import add, advance
from sktem.kernels.borrowed import address, is_none
from sktem.kernels.options import INNER

#: Newton steps to a steady state, plain periods before them, and the shift of their
#: differences as a share of the amounts.
NEWTON_STEPS, FIRST_PERIODS, SHIFT = 40, 3, 1e-3
#: Change of the amounts over a period, in tolerances, of a steady state. It counts from
#: no more than this multiple of the amounts after the first periods: amounts that grow
#: without end change little beside themselves. Changes that many times as large are of
#: none.
STEADY, MOST_GROWTH, NOT_STEADY = 10.0, 1e3, 10.0
#: Doses of the past that a steady state with an input function remembers, at most.
MOST_PAST = 2000


@njit(**INNER, error_model="numpy")
def _period(rhs, control, t, x, psi, step, running, rest, length, doses, work):
    """Move amounts from a dose on by a part of a period between doses."""
    compartment, value, duration = step
    owned = np.zeros(control.n_states)
    rates, amounts = address(owned), address(x)
    work.step[0] = 0.0
    if duration == 0.0 and not (control.input_kind and compartment == 0):
        add(control, psi, amounts, compartment, value)
    if duration > 0.0:
        add(control, psi, rates, compartment, (running + 1) * value)
    first = min(rest, length) if duration > 0.0 else 0.0
    advance(rhs, control, t, first, amounts, psi, rates, doses, work)
    owned[:] = 0.0
    if duration > 0.0:
        add(control, psi, rates, compartment, running * value)
    work.step[0] = 0.0
    advance(rhs, control, t + first, length - first, amounts, psi, rates, doses, work)
    owned[:] = 0.0  # a last use, until which the array lives


@njit(**INNER, error_model="numpy")
def _remember(control, doses, t, value, interval, psi):
    """Write the doses of the past that still enter, before one at a time."""
    doses.n_doses[0] = 0
    highest = 0.0
    for k in range(MOST_PAST):
        density = input_density(
            control.input_kind, k * interval, psi, control.input_place
        )
        highest = max(highest, density)
        if k > 2 and highest > 0.0 and density < 1e-13 * highest:
            break
        doses.time[k] = t - k * interval
        doses.amount[k] = value
        doses.n_doses[0] = k + 1


@njit(**INNER, error_model="numpy")
def steady_state(rhs, control, t, psi, step, interval, phase, start, doses, work):
    """Return the amounts at a time since the last of doses that have no beginning.

    They are the fixed point of a period, by Newton steps from some periods on; of a
    constant infusion, where the duration is infinite, the zero of the slopes, as the
    fixed point of periods that grow. They are NaN where there is none.
    """
    compartment, value, duration = step
    n = start.shape[0]
    t -= phase
    constant = duration == math.inf
    running, rest = 0, 0.0
    if constant:
        interval, phase, rest = 1.0, 0.0, math.inf
    elif duration > 0.0:
        running = int(math.floor(duration / interval + 1e-11))
        rest = max(duration - running * interval, 0.0)
    if control.input_kind and duration == 0.0 and compartment == 0:
        _remember(control, doses, t, value, interval, psi)
    x = start.copy()
    for k in range(12 if constant else FIRST_PERIODS):
        _period(rhs, control, t, x, psi, step, running, rest, interval, doses, work)
        if constant and k < 11:
            interval *= 2.0
    image, moved, newton = np.empty(n), np.empty(n), np.empty(n)
    jacobian, change, limit = np.empty((n, n)), 0.0, 0.0
    most = MOST_GROWTH * np.abs(x).max()
    for _ in range(NEWTON_STEPS):
        image[:] = x
        _period(rhs, control, t, image, psi, step, running, rest, interval, doses, work)
        size, change = 1e-300, 0.0
        for j in range(n):
            newton[j] = image[j] - x[j]
            size, change = max(size, abs(image[j])), max(change, abs(newton[j]))
        limit = STEADY * control.relative * min(size, max(most, 1e-300))
        if not change > limit:
            break
        for j in range(n):
            shift = SHIFT * max(abs(x[j]), 1e-3 * size)
            moved[:] = x
            moved[j] += shift
            _period(
                rhs, control, t, moved, psi, step, running, rest, interval, doses, work
            )
            for i in range(n):
                jacobian[i, j] = (image[i] - moved[i]) / shift
            jacobian[j, j] += 1.0
        known = solve(jacobian, newton)
        for j in range(n):
            x[j] = x[j] + newton[j] if known else image[j]
    if not change <= NOT_STEADY * limit:
        x[:] = math.nan
        return x
    # The last period is as good as the one that it came from, and a little better.
    x[:] = image
    if not constant:
        _period(rhs, control, t, x, psi, step, running, rest, phase, doses, work)
    return x


def begin_steady(rhs, control, steps, s, psi, initial, rates, amounts, doses, work):
    """Add a steady state to the amounts, or replace them; nothing without any."""
    raise NotImplementedError("for compiled code")


@overload(begin_steady, jit_options={**INNER, "error_model": "numpy"})
def _begin_steady(rhs, control, steps, s, psi, initial, rates, amounts, doses, work):
    if is_none(steps, "phase"):
        return (
            lambda rhs, control, steps, s, psi, initial, rates, amounts, doses, work: (
                None
            )
        )

    def begun(rhs, control, steps, s, psi, initial, rates, amounts, doses, work):
        start = np.zeros(len(amounts))
        if steps.replaces[s]:
            doses.n_doses[0] = 0
            rates[:] = 0.0
            start[:] = initial
        step = (steps.compartment[s], steps.value[s], steps.duration[s])
        steady = steady_state(
            rhs, control, steps.time[s], psi, step, steps.interval[s], steps.phase[s],
            start, doses, work,
        )  # fmt: skip
        for j in range(len(amounts)):
            amounts[j] = steady[j] if steps.replaces[s] else amounts[j] + steady[j]
        work.step[0] = 0.0

    return begun
