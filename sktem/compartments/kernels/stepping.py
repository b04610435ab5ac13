"""Steps of integration of differential equations, and records of what they need."""

import math
from typing import Any, NamedTuple

from numba import njit
from scipy.integrate import DOP853

from sktem.compartments.kernels.matrix_exponential import propagate
from sktem.compartments.kernels.transit import advance_exactly
from sktem.kernels.options import INNER

#: Coefficients of Dormand and Prince's method of order 8 and of its errors.
STAGES, NODES, WEIGHTS = DOP853.A.copy(), DOP853.C.copy(), DOP853.B.copy()
ERRORS_5, ERRORS_3 = DOP853.E5[:12].copy(), DOP853.E3[:12].copy()
#: The first column, but for column 0, of each row of stages that is not zero, and of
#: weights.
FIRST = (1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3)
FIRST_WEIGHT = 5
#: A first step, in which amounts change by this share of the largest.
FIRST_STEP = 0.1


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
    by_transit : int or None
        A number where transit compartments and a linear system have a closed form
        (:func:`advance_exactly`), so that other code does without it.
    """

    relative: float
    absolute: float
    most_steps: int
    input_kind: int
    input_place: int
    split: int
    n_states: int
    is_linear: int = 0
    by_transit: int | None = None


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
            total = STAGES[s, 0] * slopes[12 * j]
            for k in range(FIRST[s], s):
                total += STAGES[s, k] * slopes[12 * j + k]
            trial[j] = amounts[j] + h * total
        _stage(rhs, control, t + NODES[s] * h, trial, psi, rates, doses, work, s)
    fifth = third = 0.0
    for j in range(n):
        total = WEIGHTS[0] * slopes[12 * j]
        of_fifth, of_third = ERRORS_5[0] * slopes[12 * j], ERRORS_3[0] * slopes[12 * j]
        for k in range(FIRST_WEIGHT, 12):
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
    if advance_exactly(control, t, elapsed, amounts, psi, rates, doses, work):
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
