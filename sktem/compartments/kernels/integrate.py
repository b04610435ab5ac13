"""Amounts by integration of differential equations, started anew at each event."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.compartments.kernels.schedule import BOLUS, RATE, RECORD, RESET

#: Newton steps to a steady state, plain periods before them, and the shift of their
#: differences as a share of the amounts.
NEWTON_STEPS, FIRST_PERIODS, SHIFT = 40, 3, 1e-3
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
    """

    relative: float
    absolute: float
    most_steps: int
    input_kind: int
    input_place: int
    split: int


class Doses(NamedTuple):
    """Doses that enter over time.

    Attributes
    ----------
    time, amount : ndarray
        When they were given, and how much.
    n_doses : ndarray of int of shape (1,)
        How many there are.
    """

    time: np.ndarray
    amount: np.ndarray
    n_doses: np.ndarray


class Work(NamedTuple):
    """Work arrays of a subject.

    Attributes
    ----------
    slopes : ndarray of shape (7, n_states)
        Stages of a step.
    trial : ndarray of shape (n_states,)
        Amounts at a stage.
    largest : ndarray of shape (1,)
        Largest amount so far.
    """

    slopes: np.ndarray
    trial: np.ndarray
    largest: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def slope(rhs, control, t, amounts, psi, rates, doses, result):
    """Write the derivatives: the right-hand side, infusions and what enters."""
    rhs(t, amounts, psi, result)
    for j in range(result.shape[0]):
        result[j] += rates[j]
    if control.input_kind:
        for k in range(doses.n_doses[0]):
            result[0] += doses.amount[k] * input_density(
                control.input_kind, t - doses.time[k], psi, control.input_place
            )


@njit(cache=True, nogil=True, error_model="numpy")
def _step(rhs, control, t, h, amounts, psi, rates, doses, work):
    """Write the amounts after a step of Dormand and Prince, return its error."""
    k, new, n = work.slopes, work.trial, amounts.shape[0]
    for j in range(n):
        new[j] = amounts[j] + h * 0.2 * k[0, j]
    slope(rhs, control, t + 0.2 * h, new, psi, rates, doses, k[1])
    for j in range(n):
        new[j] = amounts[j] + h * (3 / 40 * k[0, j] + 9 / 40 * k[1, j])
    slope(rhs, control, t + 0.3 * h, new, psi, rates, doses, k[2])
    for j in range(n):
        new[j] = amounts[j] + h * (
            44 / 45 * k[0, j] - 56 / 15 * k[1, j] + 32 / 9 * k[2, j]
        )
    slope(rhs, control, t + 0.8 * h, new, psi, rates, doses, k[3])
    for j in range(n):
        new[j] = amounts[j] + h * (
            19372 / 6561 * k[0, j] - 25360 / 2187 * k[1, j]
            + 64448 / 6561 * k[2, j] - 212 / 729 * k[3, j]
        )  # fmt: skip
    slope(rhs, control, t + 8 / 9 * h, new, psi, rates, doses, k[4])
    for j in range(n):
        new[j] = amounts[j] + h * (
            9017 / 3168 * k[0, j] - 355 / 33 * k[1, j] + 46732 / 5247 * k[2, j]
            + 49 / 176 * k[3, j] - 5103 / 18656 * k[4, j]
        )  # fmt: skip
    slope(rhs, control, t + h, new, psi, rates, doses, k[5])
    for j in range(n):
        new[j] = amounts[j] + h * (
            35 / 384 * k[0, j] + 500 / 1113 * k[2, j] + 125 / 192 * k[3, j]
            - 2187 / 6784 * k[4, j] + 11 / 84 * k[5, j]
        )  # fmt: skip
    slope(rhs, control, t + h, new, psi, rates, doses, k[6])
    total = 0.0
    for j in range(n):
        error = h * (
            71 / 57600 * k[0, j] - 71 / 16695 * k[2, j] + 71 / 1920 * k[3, j]
            - 17253 / 339200 * k[4, j] + 22 / 525 * k[5, j] - 1 / 40 * k[6, j]
        )  # fmt: skip
        size = max(abs(amounts[j]), abs(new[j]))
        scale = control.relative * size + control.absolute * work.largest[0]
        total += (error / scale) ** 2
    return math.sqrt(total / n)


@njit(cache=True, nogil=True, error_model="numpy")
def advance(rhs, control, t, elapsed, amounts, psi, rates, doses, work):
    """Move amounts by a time as ``scipy.integrate.solve_ivp`` does with "RK45".

    They are NaN where the step becomes too short or there are too many.
    """
    if elapsed <= 0.0:
        return
    n, done = amounts.shape[0], 0.0
    k = work.slopes
    slope(rhs, control, t, amounts, psi, rates, doses, k[0])
    speed = 0.0
    for j in range(n):
        work.largest[0] = max(work.largest[0], abs(amounts[j]))
        speed = max(speed, abs(k[0, j]))
    work.largest[0] = max(work.largest[0], 1e-300)
    h = elapsed
    if speed > 0.0:
        work.largest[0] = max(work.largest[0], 1e-8 * speed * elapsed)
        h = min(h, 0.01 * work.largest[0] / speed)
    h = max(h, 1e-6 * elapsed)
    for _ in range(control.most_steps):
        last = done + h >= elapsed * (1 - 1e-12)
        if last:
            h = elapsed - done
        error = _step(rhs, control, t + done, h, amounts, psi, rates, doses, work)
        if error <= 1.0:
            done += h
            for j in range(n):
                amounts[j] = work.trial[j]
                k[0, j] = k[6, j]
                work.largest[0] = max(work.largest[0], abs(amounts[j]))
            if last:
                return
            h *= min(5.0, 0.9 * max(error, 1e-10) ** -0.2)
        elif error < math.inf:
            h *= max(0.1, 0.9 * error**-0.2)
        else:
            h *= 0.1
        if h < 1e-13 * max(elapsed, abs(t)):
            break
    amounts[:] = math.nan


@njit(cache=True, nogil=True, error_model="numpy")
def add(control, psi, values, compartment, value):
    """Add to the amounts, or to the rates, of a compartment as doses name them."""
    if control.split < 0:
        values[compartment] += value
    elif compartment == 0:
        values[0] += psi[control.split] * value
        values[1] += (1.0 - psi[control.split]) * value
    else:
        values[compartment + 1] += value


@njit(cache=True, nogil=True, error_model="numpy")
def _period(rhs, control, t, x, psi, step, running, rest, length, doses, work):
    """Move amounts from a dose on by a part of a period between doses."""
    compartment, value, duration = step
    rates = np.zeros(x.shape[0])
    if duration == 0.0 and not (control.input_kind and compartment == 0):
        add(control, psi, x, compartment, value)
    if duration > 0.0:
        add(control, psi, rates, compartment, (running + 1) * value)
    first = min(rest, length) if duration > 0.0 else 0.0
    advance(rhs, control, t, first, x, psi, rates, doses, work)
    rates[:] = 0.0
    if duration > 0.0:
        add(control, psi, rates, compartment, running * value)
    advance(rhs, control, t + first, length - first, x, psi, rates, doses, work)


@njit(cache=True, nogil=True, error_model="numpy")
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
        if doses.n_doses[0] < doses.time.shape[0]:
            doses.time[doses.n_doses[0]] = t - k * interval
            doses.amount[doses.n_doses[0]] = value
            doses.n_doses[0] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def steady_state(rhs, control, t, psi, step, interval, phase, start, doses, work):
    """Return the amounts at a time since the last of doses that have no beginning.

    They are the fixed point of a period, by Newton steps from some periods on; of a
    constant infusion, where the duration is infinite, the zero of the slopes, as the
    fixed point of periods that grow.
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
    image = np.empty(n)
    moved, jacobian = np.empty(n), np.empty((n, n))
    for _ in range(NEWTON_STEPS):
        image[:] = x
        _period(rhs, control, t, image, psi, step, running, rest, interval, doses, work)
        size = max(np.abs(image).max(), 1e-300)
        change = np.abs(image - x).max()
        if not change > 10 * control.relative * size:
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
        finite = True
        for i in range(n):
            for j in range(n):
                if not math.isfinite(jacobian[i, j]):
                    finite = False
        if finite and abs(np.linalg.det(jacobian)) > 0.0:
            x = x + np.linalg.solve(jacobian, image - x)
        else:
            x[:] = image
    # The last period is as good as the one that it came from, and a little better.
    x[:] = image
    if not constant:
        _period(rhs, control, t, x, psi, step, running, rest, phase, doses, work)
    return x


@njit(cache=True, nogil=True, error_model="numpy")
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
    doses = Doses(np.empty(longest), np.empty(longest), np.zeros(1, dtype=np.int64))
    work = Work(np.empty((7, n)), np.empty(n), np.zeros(1))
    amounts, rates = np.empty(n), np.empty(n)
    for subject in range(start, stop):
        begin, end = steps.offsets[subject], steps.offsets[subject + 1]
        if begin == end:
            continue
        amounts[:] = initial[of_record[steps.record[begin]]]
        rates[:] = 0.0
        doses.n_doses[0] = 0
        work.largest[0] = 0.0
        for s in range(begin, end):
            record, place = steps.record[s], steps.compartment[s]
            row = of_record[record]
            values = psi[row]
            elapsed, time, action = steps.elapsed[s], steps.time[s], steps.action[s]
            advance(
                rhs, control, time - elapsed, elapsed, amounts, values, rates, doses,
                work,
            )  # fmt: skip
            if action == RECORD:
                out[record] = amounts
            elif action == BOLUS:
                work.largest[0] = max(work.largest[0], abs(steps.value[s]))
                if control.input_kind and place == 0:
                    doses.time[doses.n_doses[0]] = time
                    doses.amount[doses.n_doses[0]] = steps.value[s]
                    doses.n_doses[0] += 1
                else:
                    add(control, values, amounts, place, steps.value[s])
            elif action == RATE:
                add(control, values, rates, place, steps.value[s])
            elif action == RESET:
                amounts[:] = initial[row]
                rates[:] = 0.0
                doses.n_doses[0] = 0
            else:
                step = (place, steps.value[s], steps.duration[s])
                if not steps.replaces[s]:
                    amounts += steady_state(
                        rhs, control, time, values, step, steps.interval[s],
                        steps.phase[s], np.zeros(n), doses, work,
                    )  # fmt: skip
                    continue
                doses.n_doses[0] = 0
                rates[:] = 0.0
                amounts[:] = steady_state(
                    rhs, control, time, values, step, steps.interval[s],
                    steps.phase[s], initial[row], doses, work,
                )  # fmt: skip
