"""Amounts and observations at records by the closed form of compartments."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from sktem.compartments.kernels.linear import (
    MOST_AMOUNTS,
    SYSTEM_SIZE,
    Linear,
    add,
    advance,
    fill,
    linear_at,
    steady_state,
)
from sktem.compartments.kernels.schedule import BOLUS, RATE, RECORD, RESET
from sktem.kernels.borrowed import address, is_none, offset
from sktem.kernels.exponential import exponential
from sktem.kernels.options import INNER, OUTER

#: Difference of rates, as a share, from which their exponentials are added up.
APART = 1e-3
#: Numbers of the work of a system of the largest size.
WORK_SIZE = SYSTEM_SIZE + 10 * MOST_AMOUNTS


class Work(NamedTuple):
    """A system, and addresses of its state and work arrays.

    Attributes
    ----------
    system : Linear
        The system.
    amounts, rates, moved : pointer
        Amounts, rates of infusions, and a work array of as many.
    factors : pointer
        Work array of :func:`observe`.
    free : pointer
        Six more arrays, work of :func:`steady_state` and others.
    """

    system: Linear
    amounts: Any
    rates: Any
    moved: Any
    factors: Any
    free: Any


@njit(**INNER, error_model="numpy")
def work_at(place, n_depots, n_compartments, n_effects):
    """Return work for a system of some size, which lies at an address.

    It takes WORK_SIZE numbers.
    """
    behind = offset(place, SYSTEM_SIZE)
    return Work(
        linear_at(place, n_depots, n_compartments, n_effects),
        behind,
        offset(behind, MOST_AMOUNTS),
        offset(behind, 2 * MOST_AMOUNTS),
        offset(behind, 3 * MOST_AMOUNTS),
        offset(behind, 4 * MOST_AMOUNTS),
    )


@njit(**INNER, error_model="numpy")
def clear(work):
    """Begin without amounts and infusions."""
    system = work.system
    for j in range(system.n_depots + system.n_compartments + system.n_effects):
        work.amounts[j] = work.rates[j] = 0.0


def begin_steady(work, steps, s):
    """Add a steady state to the amounts, or replace them; nothing without any."""
    raise NotImplementedError("for compiled code")


@overload(begin_steady, jit_options={**INNER, "error_model": "numpy"})
def _begin_steady(work, steps, s):
    if is_none(steps, "phase"):
        return lambda work, steps, s: None

    def begun(work, steps, s):
        system = work.system
        steady_state(
            system, steps.compartment[s], steps.value[s], steps.duration[s],
            steps.interval[s], steps.phase[s], work.moved, work.free,
        )  # fmt: skip
        if steps.replaces[s]:
            clear(work)
        for j in range(system.n_depots + system.n_compartments + system.n_effects):
            work.amounts[j] += work.moved[j]

    return begun


@njit(**INNER, error_model="numpy")
def act(work, steps, s):
    """Apply the action of a step to the amounts and rates, after its advance."""
    system, amounts, rates = work.system, work.amounts, work.rates
    action = steps.action[s]
    if action == BOLUS:
        add(system, amounts, steps.compartment[s], steps.value[s])
    elif action == RATE:
        add(system, rates, steps.compartment[s], steps.value[s])
    elif action == RESET:
        clear(work)
    elif action != RECORD:
        begin_steady(work, steps, s)


@njit(**OUTER, error_model="numpy")
def solve(n_depots, n_compartments, n_effects, steps, psi, of_record, start, stop, out):
    """Write the amounts at the records of some subjects.

    psi has one row of parameters for each record, ``psi[of_record]``, and the amounts
    get the shape (n_records, n_depots + n_compartments + n_effects).
    """
    owned, width, n_psi = np.empty(WORK_SIZE), out.shape[1], psi.shape[1]
    work = work_at(address(owned), n_depots, n_compartments, n_effects)
    doing, values, amounts = address(steps), address(psi), address(out)
    line_of = address(of_record)
    for subject in range(start, stop):
        clear(work)
        filled = -1
        for s in range(doing.offsets[subject], doing.offsets[subject + 1]):
            record = doing.record[s]
            if line_of[record] != filled:
                filled = line_of[record]
                fill(work.system, offset(values, filled * n_psi))
            advance(work.system, work.amounts, work.rates, doing.elapsed[s], work.free)
            if doing.action[s] == RECORD:
                for j in range(width):
                    amounts[record * width + j] = work.amounts[j]
            else:
                act(work, doing, s)
    owned[0] = 0.0  # a last use, until which the work lives


@njit(**INNER, error_model="numpy", inline="always")
def weigh(work):
    """Write the factors of the exponentials of which the amount in the centre is a sum.

    Those of the modes come first, then those of the depots. The constant is returned,
    NaN where rates meet and the sum has too few digits.
    """
    system, amounts, rates = work.system, work.amounts, work.rates
    n_depots, n = system.n_depots, system.n_compartments
    constant, into_central = 0.0, 0.0
    for d in range(n_depots):
        work.factors[n + d] = 0.0
        into_central += rates[d]
    for i in range(n):
        decay, entry = system.decay[i], system.to_modes[i]
        start, rate = 0.0, entry * into_central
        for j in range(n):
            start += system.to_modes[j * n + i] * amounts[n_depots + j]
            rate += system.to_modes[j * n + i] * rates[n_depots + j]
        if rate != 0.0:
            rate /= decay
            start -= rate
            constant += system.from_modes[i] * rate
        for d in range(n_depots):
            ka = system.absorption[d]
            flux = ka * amounts[d] - rates[d]
            if flux == 0.0:
                continue
            if abs(ka - decay) < APART * ka:
                return math.nan
            factor = entry * flux / (ka - decay)
            start += factor
            work.factors[n + d] -= system.from_modes[i] * factor
        work.factors[i] = system.from_modes[i] * start
    return constant


@njit(**INNER, error_model="numpy", inline="always")
def _observe_alike(work, n_rows, since, is_effect, f):
    """Write the output of :func:`observe` by a method that is valid for all rates."""
    amounts, moved = work.amounts, work.moved
    central = work.system.n_depots
    last = central + work.system.n_compartments
    for i in range(n_rows):
        for j in range(last + work.system.n_effects):
            moved[j] = amounts[j]
        advance(work.system, moved, work.rates, since[i], work.free)
        if is_effect[i]:
            f[i] = moved[last]
        else:
            f[i] = moved[central] / work.system.roots[0] ** 2


@njit(**INNER, error_model="numpy", inline="always")
def observe(work, n_rows, since, is_effect, f):
    """Write concentrations, or effects, at times since the amounts were those of work.

    They equal ``amounts[central] / V`` and ``amounts[last]`` of :func:`advance`.
    """
    system = work.system
    n_depots, n = system.n_depots, system.n_compartments
    constant = math.nan if system.n_effects else weigh(work)
    if math.isnan(constant):
        _observe_alike(work, n_rows, since, is_effect, f)
        return
    volume = system.roots[0] ** 2
    for i in range(n_rows):
        f[i] = constant / volume
    for k in range(n + n_depots):
        rate = system.decay[k] if k < n else system.absorption[k - n]
        factor = work.factors[k] / volume
        for i in range(n_rows):
            f[i] += factor * exponential(-rate * since[i])


@njit(**INNER, error_model="numpy", inline="always")
def observe_subject(work, steps, subject, before, lines, psi, rows, since, effects, f):
    """Write the concentrations or effects at the rows of a subject.

    The steps are without records: ``before[s]`` rows come before one, of all subjects,
    and ``rows`` are the first of the subject and the one after its last. `since` are
    the times of its rows since the step before. ``lines`` are the line of parameters of
    each record, how many lines the subject has, and the length of one in psi: the
    parameters of a step are those of its record, and those of the last rows are the
    last ones.
    """
    of_record, n_lines, width = lines
    start, stop = rows
    clear(work)
    done, filled = start, -1
    begin, end = steps.offsets[subject], steps.offsets[subject + 1]
    for s in range(begin, end + 1):
        last = s == end
        line = n_lines - 1
        if line and not last:
            line = of_record[steps.record[s]] - of_record[steps.record[begin]]
        if line != filled:
            filled = line
            fill(work.system, offset(psi, line * width))
        until = stop if last else before[s]
        if until > done:
            a = done - start
            observe(
                work, until - done, offset(since, a), offset(effects, a), offset(f, a)
            )
            done = until
        if not last:
            advance(work.system, work.amounts, work.rates, steps.elapsed[s], work.free)
            act(work, steps, s)
