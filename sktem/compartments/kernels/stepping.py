"""Integration steps of differential equations, with their settings and work arrays."""

import math
from typing import Any, NamedTuple

from numba import njit
from numba.extending import overload

from sktem.compartments.kernels import dormand_prince, rosenbrock
from sktem.compartments.kernels.matrix_exponential import propagate
from sktem.compartments.kernels.slopes import slopes
from sktem.compartments.kernels.transit import advance_exactly
from sktem.kernels.borrowed import is_none, offset
from sktem.kernels.options import INNER

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
    by_rosenbrock : int or None
        A number for steps of stiff equations, likewise.
    power : float
        Inverse order of the error of a step, by which its length changes.
    in_step : int
        Lanes that have the steps of the first of them.
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
    by_rosenbrock: int | None = None
    power: float = 0.125
    in_step: int = 1

    def for_stiff(self) -> "Control":
        """Return settings of the method for stiff equations."""
        return self._replace(by_rosenbrock=1, power=0.2)


class Work(NamedTuple):
    """Addresses of the work arrays of some subjects side by side, one in each lane.

    Stages of a step wait for each other; those of other subjects do not.

    Attributes
    ----------
    lanes : int
        How many there are.
    slopes : pointer
        Those of the stages of a step, 12 times those of all states of all lanes.
    trial, lengths, errors : pointer
        Amounts at a stage, lengths of the step, and two errors of it, of all states.
    row : pointer
        Where the parameters of each lane begin in psi.
    start, elapsed, done : pointer
        Begin and length of the interval of each lane, and how much of it is done.
    length, step, n_steps : pointer
        Length of a step, of the next one, 0 where it is not known, and how many there
        have been.
    largest : pointer
        Largest amount so far of each lane.
    matrices : pointer
        Work array of matrices.
    """

    lanes: int
    slopes: Any
    trial: Any
    lengths: Any
    errors: Any
    row: Any
    start: Any
    elapsed: Any
    done: Any
    length: Any
    step: Any
    n_steps: Any
    largest: Any
    matrices: Any


def step(rhs, control, amounts, psi, rates, doses, work):
    """Write the amounts after a step of all lanes, and its errors, by a method."""
    raise NotImplementedError("for compiled code")


@overload(step, jit_options={**INNER, "error_model": "numpy"})
def _step(rhs, control, amounts, psi, rates, doses, work):
    method = dormand_prince if is_none(control, "by_rosenbrock") else rosenbrock
    return method.step


@njit(**INNER, error_model="numpy")
def begin(rhs, control, lane, interval, amounts, psi, rates, doses, work):
    """Begin an interval of a lane, of which start and length are given.

    The first step has the length that the last interval left, and of lanes in step the
    share that the first of them has.
    """
    work.start[lane], work.elapsed[lane] = interval
    work.done[lane] = work.n_steps[lane] = 0.0
    n, elapsed = control.n_states, work.elapsed[lane]
    largest = max(work.largest[lane], 1e-300)
    for i in range(n * lane, n * lane + n):
        largest = max(largest, abs(amounts[i]))
    leader = lane - lane % control.in_step
    if lane > leader:
        work.largest[lane] = largest
        share = work.length[leader] / work.elapsed[leader]
        work.length[lane] = share * work.elapsed[lane]
        return
    if work.step[lane] == 0.0:
        lanes = (lane, lane + 1)
        slopes(rhs, control, 0, 0.0, lanes, amounts, psi, rates, doses, work)
        h, speed = elapsed, 0.0
        for i in range(n * lane, n * lane + n):
            speed = max(speed, abs(work.slopes[i]))
        if speed > 0.0:
            largest = max(largest, 1e-8 * speed * elapsed)
            h = min(h, FIRST_STEP * largest / speed)
        work.step[lane] = max(h, 1e-6 * elapsed)
    work.largest[lane] = largest
    work.length[lane] = _next_length(lane, work)


@njit(**INNER, error_model="numpy")
def _next_length(lane, work):
    """Return the length of the next step of a lane."""
    left, h = work.elapsed[lane] - work.done[lane], work.step[lane]
    return left if h >= left - 1e-12 * work.elapsed[lane] else h


@njit(**INNER, error_model="numpy")
def finished(control, lane, amounts, work):
    """Take the step of a lane if its error is small; return if its interval is over.

    Amounts are NaN where the step becomes too short or there are too many. Lanes in
    step with it do the same, whatever their errors.
    """
    n, length, h = control.n_states, work.length[lane], work.step[lane]
    group = range(n * lane, n * (lane + control.in_step))
    states, thirds = range(n * lane, n * lane + n), offset(work.errors, n * work.lanes)
    fifth = third = 0.0
    for i in states:
        size = max(abs(amounts[i]), abs(work.trial[i]))
        scale = control.relative * size + control.absolute * work.largest[lane]
        fifth += (work.errors[i] / scale) ** 2
        third += (thirds[i] / scale) ** 2
    error = 0.0
    if not (fifth == 0.0 and third == 0.0):
        error = length * fifth / math.sqrt((fifth + 0.01 * third) * n)
    is_last = work.done[lane] + length >= work.elapsed[lane] * (1 - 1e-12)
    work.n_steps[lane] += 1
    if error <= 1.0:
        work.done[lane] += length
        for i in group:
            amounts[i] = work.trial[i]
            work.largest[i // n] = max(work.largest[i // n], abs(amounts[i]))
        grown = length * min(10.0, 0.9 * max(error, 1e-10) ** -control.power)
        work.step[lane] = max(h, grown) if is_last else grown
        if is_last:
            return True
    elif error < math.inf:
        work.step[lane] = length * max(0.2, 0.9 * error**-control.power)
    else:
        work.step[lane] = 0.1 * length
    shortest = 1e-13 * max(work.elapsed[lane], abs(work.start[lane]))
    if work.n_steps[lane] >= control.most_steps or work.step[lane] < shortest:
        for i in group:
            amounts[i] = math.nan
        return True
    work.length[lane] = _next_length(lane, work)
    for other in range(lane + 1, lane + control.in_step):
        scale = work.elapsed[other] / work.elapsed[lane]
        work.done[other] = scale * work.done[lane]
        work.length[other] = scale * work.length[lane]
    return False


@njit(**INNER, error_model="numpy")
def moved(control, t, elapsed, amounts, psi, rates, doses, work):
    """Move amounts by a time, and return whether there is nothing to integrate."""
    if elapsed <= 0.0:
        return True
    if advance_exactly(control, t, elapsed, amounts, psi, rates, doses, work):
        return True
    if control.is_linear:
        propagate(control.n_states, elapsed, amounts, psi, rates, work.matrices)
    return control.is_linear == 1


@njit(**INNER, error_model="numpy")
def advance(rhs, control, t, elapsed, amounts, psi, rates, doses, work):
    """Move amounts by a time.

    With the method of Dormand and Prince as ``scipy.integrate.solve_ivp`` does.
    """
    if moved(control, t, elapsed, amounts, psi, rates, doses, work):
        return
    begin(rhs, control, 0, (t, elapsed), amounts, psi, rates, doses, work)
    while True:
        step(rhs, control, amounts, psi, rates, doses, work)
        if finished(control, 0, amounts, work):
            return


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
