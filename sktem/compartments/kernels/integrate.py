"""Amounts by integration of differential equations, started anew at each event."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.integrate import DOP853

from sktem.compartments.kernels.elimination import solve
from sktem.compartments.kernels.matrix_exponential import propagate
from sktem.compartments.kernels.schedule import BOLUS, RATE, RECORD, RESET
from sktem.kernels.borrowed import address
from sktem.kernels.options import INNER, OUTER

#: Coefficients of Dormand and Prince's method of order 8 and of its errors.
STAGES, NODES, WEIGHTS = DOP853.A.copy(), DOP853.C.copy(), DOP853.B.copy()
ERRORS_5, ERRORS_3 = DOP853.E5[:12].copy(), DOP853.E3[:12].copy()
#: A first step, in which amounts change by this share of the largest.
FIRST_STEP = 0.1

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


class Control(NamedTuple):
    """Settings of the integrator, and how doses enter.

    Attributes
    ----------
    relative, absolute : float
        Tolerances of a step; the second is a share of the largest amount of the subject
        so far.
    most_steps : int
        Steps within an interval, at most.
    input_kind : int
        0 for doses that enter at once, 1 for transit compartments, 2 for a Weibull and
        3 for an inverse Gaussian density of the time of entry.
    input_place : int
        Where the parameters of the input begin in psi.
    split : int
        Where psi has the share of the first of two depots, -1 for no such.
    n_states : int
        Number of amounts.
    is_linear : int
        1 where psi has linear equations (:func:`propagate`), 0 with a function.
    """

    relative: float
    absolute: float
    most_steps: int
    input_kind: int
    input_place: int
    split: int
    n_states: int
    is_linear: int = 0


class Doses(NamedTuple):
    """Addresses of doses that enter over time.

    Attributes
    ----------
    time, amount : pointer
        When they were given, and how much.
    n_doses : pointer
        How many there are.
    """

    time: Any
    amount: Any
    n_doses: Any


class Work(NamedTuple):
    """Addresses of the work arrays of a subject.

    Attributes
    ----------
    slopes : pointer
        Those of the stages of a step, 12 for each state.
    trial, slope : pointer
        Amounts at a stage, and their slopes.
    largest, step : pointer
        Largest amount so far, and the length of the next step, 0 where it is not known.
    matrices : pointer
        Work array of linear equations.
    """

    slopes: Any
    trial: Any
    slope: Any
    largest: Any
    step: Any
    matrices: Any


@njit(**INNER, error_model="numpy")
def input_density(kind, t, psi, place):
    """Return the density of the time after a dose at which it enters.

    Transit compartments (Savic et al. 2007), ``scipy.stats.gamma.pdf``; Weibull,
    ``weibull_min.pdf``; inverse Gaussian (Freijer and Post 1997), ``invgauss.pdf``.
    """
    if t <= 0.0:
        return 0.0
    location, shape = psi[place], psi[place + 1]
    if kind == 1:
        rate = (shape + 1.0) / location
        log_value = shape * math.log(rate * t) - rate * t - math.lgamma(shape + 1.0)
        return rate * math.exp(log_value)
    if kind == 2:
        power = (t / location) ** shape
        return shape / t * power * math.exp(-power)
    scale = math.sqrt(location / (2.0 * math.pi * shape * t**3))
    return scale * math.exp(-((t - location) ** 2) / (2.0 * shape * location * t))


@njit(**INNER, error_model="numpy")
def _stage(rhs, control, t, amounts, psi, rates, doses, work, stage):
    """Write slopes of a stage: the right-hand side, infusions and what enters."""
    rhs(t, amounts, psi, work.slope)
    for j in range(control.n_states):
        work.slopes[12 * j + stage] = work.slope[j] + rates[j]
    if control.input_kind:
        for k in range(doses.n_doses[0]):
            work.slopes[stage] += doses.amount[k] * input_density(
                control.input_kind, t - doses.time[k], psi, control.input_place
            )


@njit(**INNER, error_model="numpy")
def _step(rhs, control, t, h, amounts, psi, rates, doses, work):
    """Write the amounts after a step, given the first slopes, and return its error."""
    slopes, trial, n = work.slopes, work.trial, control.n_states
    for s in range(1, 12):
        for j in range(n):
            total = 0.0
            for k in range(s):
                total += STAGES[s, k] * slopes[12 * j + k]
            trial[j] = amounts[j] + h * total
        _stage(rhs, control, t + NODES[s] * h, trial, psi, rates, doses, work, s)
    fifth = third = 0.0
    for j in range(n):
        total = of_fifth = of_third = 0.0
        for k in range(12):
            total += WEIGHTS[k] * slopes[12 * j + k]
            of_fifth += ERRORS_5[k] * slopes[12 * j + k]
            of_third += ERRORS_3[k] * slopes[12 * j + k]
        trial[j] = amounts[j] + h * total
        size = max(abs(amounts[j]), abs(trial[j]))
        scale = control.relative * size + control.absolute * work.largest[0]
        fifth += (of_fifth / scale) ** 2
        third += (of_third / scale) ** 2
    if fifth == 0.0 and third == 0.0:
        return 0.0
    return h * fifth / math.sqrt((fifth + 0.01 * third) * n)


@njit(**INNER, error_model="numpy")
def advance(rhs, control, t, elapsed, amounts, psi, rates, doses, work):
    """Move amounts by a time as ``scipy.integrate.solve_ivp`` does with "DOP853".

    They are NaN where the step becomes too short or there are too many. The first step
    has the length that the last time left.
    """
    if elapsed <= 0.0:
        return
    if control.is_linear:
        propagate(control.n_states, elapsed, amounts, psi, rates, work.matrices)
        return
    n, done = control.n_states, 0.0
    _stage(rhs, control, t, amounts, psi, rates, doses, work, 0)
    speed = 0.0
    for j in range(n):
        work.largest[0] = max(work.largest[0], abs(amounts[j]))
        speed = max(speed, abs(work.slopes[12 * j]))
    work.largest[0] = max(work.largest[0], 1e-300)
    h = work.step[0]
    if h == 0.0:
        h = elapsed
        if speed > 0.0:
            work.largest[0] = max(work.largest[0], 1e-8 * speed * elapsed)
            h = min(h, FIRST_STEP * work.largest[0] / speed)
        h = max(h, 1e-6 * elapsed)
    for _ in range(control.most_steps):
        last = done + h >= elapsed * (1 - 1e-12)
        length = elapsed - done if last else h
        error = _step(rhs, control, t + done, length, amounts, psi, rates, doses, work)
        if error <= 1.0:
            done += length
            for j in range(n):
                amounts[j] = work.trial[j]
                work.largest[0] = max(work.largest[0], abs(amounts[j]))
            grown = length * min(10.0, 0.9 * max(error, 1e-10) ** -0.125)
            if last:
                work.step[0] = max(h, grown)
                return
            h = grown
            _stage(rhs, control, t + done, amounts, psi, rates, doses, work, 0)
        elif error < math.inf:
            h = length * max(0.2, 0.9 * error**-0.125)
        else:
            h = 0.1 * length
        if h < 1e-13 * max(elapsed, abs(t)):
            break
    for j in range(n):
        amounts[j] = math.nan


@njit(**INNER, error_model="numpy")
def add(control, psi, values, compartment, value):
    """Add to the amounts, or to the rates, of a compartment as doses name them."""
    if control.split < 0:
        values[compartment] += value
    elif compartment == 0:
        values[0] += psi[control.split] * value
        values[1] += (1.0 - psi[control.split]) * value
    else:
        values[compartment + 1] += value


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


@njit(**OUTER, error_model="numpy")
def integrate(rhs, control, steps, psi, of_record, initial, start, stop, out):
    """Write the amounts at the records of some subjects.

    ``rhs(t, amounts, psi, result)`` writes the derivatives without infusions. psi and
    the amounts at the beginning, ``initial``, have one row for each record,
    ``psi[of_record]``.
    """
    n = initial.shape[1]
    longest = MOST_PAST
    for subject in range(start, stop):
        longest = max(longest, steps.offsets[subject + 1] - steps.offsets[subject])
    longest = longest + MOST_PAST if control.input_kind else 1
    times, given, n_given = np.empty(longest), np.empty(longest), np.zeros(1, np.int64)
    state, own = np.empty((14, n)), np.zeros(2)
    doses = Doses(address(times), address(given), address(n_given))
    amounts, rates, matrices = np.empty(n), np.empty(n), np.empty(6 * (n + 1) ** 2)
    work = Work(
        address(state), address(state[12]), address(state[13]), address(own),
        address(own[1:]), address(matrices),
    )  # fmt: skip
    x, r = address(amounts), address(rates)
    for subject in range(start, stop):
        begin, end = steps.offsets[subject], steps.offsets[subject + 1]
        if begin == end:
            continue
        amounts[:] = initial[of_record[steps.record[begin]]]
        rates[:] = 0.0
        n_given[0] = 0
        own[:] = 0.0
        for s in range(begin, end):
            record, place = steps.record[s], steps.compartment[s]
            row = of_record[record]
            values = address(psi[row])
            elapsed, time, action = steps.elapsed[s], steps.time[s], steps.action[s]
            advance(rhs, control, time - elapsed, elapsed, x, values, r, doses, work)
            if action == RECORD:
                for j in range(n):
                    out[record, j] = amounts[j]
                continue
            work.step[0] = 0.0
            if action == BOLUS:
                work.largest[0] = max(work.largest[0], abs(steps.value[s]))
                if control.input_kind and place == 0:
                    times[n_given[0]] = time
                    given[n_given[0]] = steps.value[s]
                    n_given[0] += 1
                else:
                    add(control, values, x, place, steps.value[s])
            elif action == RATE:
                add(control, values, r, place, steps.value[s])
            elif action == RESET:
                amounts[:] = initial[row]
                rates[:] = 0.0
                n_given[0] = 0
            else:
                step = (place, steps.value[s], steps.duration[s])
                if not steps.replaces[s]:
                    amounts += steady_state(
                        rhs, control, time, values, step, steps.interval[s],
                        steps.phase[s], np.zeros(n), doses, work,
                    )  # fmt: skip
                    work.step[0] = 0.0
                    continue
                n_given[0] = 0
                rates[:] = 0.0
                amounts[:] = steady_state(
                    rhs, control, time, values, step, steps.interval[s],
                    steps.phase[s], initial[row], doses, work,
                )  # fmt: skip
                work.step[0] = 0.0
    # A last use, until which the arrays live.
    state[0, 0] = own[0] = amounts[0] = rates[0] = times[0] = given[0] = n_given[0] = 0
    matrices[0] = 0.0
