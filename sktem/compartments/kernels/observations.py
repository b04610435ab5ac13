"""Amounts at records, and what is observed, by the closed form of compartments."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.compartments.kernels.linear import (
    Linear,
    add,
    advance,
    fill,
    new_linear,
    steady_state,
)
from sktem.compartments.kernels.schedule import BOLUS, RATE, RECORD, RESET
from sktem.kernels.borrowed import borrowed
from sktem.kernels.exponential import exponential

#: Difference of rates, as a share, from which their exponentials are added up.
APART = 1e-3


class Work(NamedTuple):
    """A system, its state and work arrays.

    Attributes
    ----------
    system : Linear
        The system.
    matrix : ndarray of shape (n_compartments, n_compartments)
        Work array of :func:`fill`.
    amounts, rates, new, moved : ndarray of shape (n_states,)
        Amounts, rates of infusions, and work arrays.
    factors : ndarray of shape (n_compartments + n_depots,)
        Work array of :func:`observe`.
    """

    system: Linear
    matrix: np.ndarray
    amounts: np.ndarray
    rates: np.ndarray
    new: np.ndarray
    moved: np.ndarray
    factors: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def new_work(n_depots, n_compartments, n_effects):
    """Return work arrays for a system of some size."""
    size = n_depots + n_compartments + n_effects
    return Work(
        new_linear(n_depots, n_compartments, n_effects),
        np.empty((n_compartments, n_compartments)),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(n_depots + n_compartments),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def act(work, steps, s):
    """Do to the amounts and rates what a step does after its advance."""
    system, amounts, rates = work.system, work.amounts, work.rates
    action = steps.action[s]
    if action == BOLUS:
        add(system, amounts, steps.compartment[s], steps.value[s])
    elif action == RATE:
        add(system, rates, steps.compartment[s], steps.value[s])
    elif action == RESET:
        amounts[:] = 0.0
        rates[:] = 0.0
    elif action != RECORD:
        steady_state(
            system, steps.compartment[s], steps.value[s], steps.duration[s],
            steps.interval[s], steps.phase[s], work.moved, work.new,
        )  # fmt: skip
        if steps.replaces[s]:
            amounts[:] = work.moved
            rates[:] = 0.0
        else:
            amounts += work.moved


@njit(cache=True, nogil=True, error_model="numpy")
def solve(n_depots, n_compartments, n_effects, steps, psi, of_record, start, stop, out):
    """Write the amounts at the records of some subjects.

    psi has one row of parameters for each record, ``psi[of_record]``, and the amounts
    get the shape (n_records, n_depots + n_compartments + n_effects).
    """
    owned = new_work(n_depots, n_compartments, n_effects)
    work, steps = borrowed((owned, steps))
    for subject in range(start, stop):
        work.amounts[:] = 0.0
        work.rates[:] = 0.0
        filled = -1
        for s in range(steps.offsets[subject], steps.offsets[subject + 1]):
            record = steps.record[s]
            if of_record[record] != filled:
                filled = of_record[record]
                fill(work.system, psi[filled], work.matrix)
            advance(work.system, work.amounts, work.rates, steps.elapsed[s], work.new)
            if steps.action[s] == RECORD:
                out[record] = work.amounts
            else:
                act(work, steps, s)
    owned.rates[:] = 0.0  # a last use, until which the work arrays live


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def weigh(work):
    """Write the factors of the exponentials of which the amount in the centre is a sum.

    Those of the modes come first, then those of the depots. The constant is returned,
    NaN where rates meet and the sum has too few digits.
    """
    system, amounts, rates = work.system, work.amounts, work.rates
    n_depots, n = system.absorption.shape[0], system.decay.shape[0]
    constant, into_central = 0.0, 0.0
    for d in range(n_depots):
        work.factors[n + d] = 0.0
        into_central += rates[d]
    for i in range(n):
        decay, entry = system.decay[i], system.to_modes[0, i]
        start, rate = 0.0, entry * into_central
        for j in range(n):
            start += system.to_modes[j, i] * amounts[n_depots + j]
            rate += system.to_modes[j, i] * rates[n_depots + j]
        if rate != 0.0:
            rate /= decay
            start -= rate
            constant += system.from_modes[0, i] * rate
        for d in range(n_depots):
            ka = system.absorption[d]
            flux = ka * amounts[d] - rates[d]
            if flux == 0.0:
                continue
            if abs(ka - decay) < APART * ka:
                return math.nan
            factor = entry * flux / (ka - decay)
            start += factor
            work.factors[n + d] -= system.from_modes[0, i] * factor
        work.factors[i] = system.from_modes[0, i] * start
    return constant


@njit(cache=True, nogil=True, error_model="numpy")
def _observe_alike(work, since, is_effect, f):
    """Write what :func:`observe` does, by the way that is right for all rates."""
    amounts, moved = work.amounts, work.moved
    central, last = work.system.absorption.shape[0], amounts.shape[0] - 1
    for i in range(since.shape[0]):
        moved[:] = amounts
        advance(work.system, moved, work.rates, since[i], work.new)
        if is_effect[i]:
            f[i] = moved[last]
        else:
            f[i] = moved[central] / work.system.roots[0] ** 2


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def observe(work, since, is_effect, f):
    """Write concentrations, or effects, at times since the amounts were those of work.

    They equal ``amounts[central] / V`` and ``amounts[last]`` of :func:`advance`.
    """
    system = work.system
    n_depots, n = system.absorption.shape[0], system.decay.shape[0]
    constant = math.nan if system.effect.shape[0] else weigh(work)
    if math.isnan(constant):
        _observe_alike(work, since, is_effect, f)
        return
    volume = system.roots[0] ** 2
    for i in range(since.shape[0]):
        f[i] = constant / volume
    for k in range(n + n_depots):
        rate = system.decay[k] if k < n else system.absorption[k - n]
        factor = work.factors[k] / volume
        for i in range(since.shape[0]):
            f[i] += factor * exponential(-rate * since[i])


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def observe_subject(
    work, steps, subject, before, of_record, psi, start, since, effects, f
):
    """Write what is observed in the rows of a subject, before which there are start.

    The steps are without records: ``before[s]`` rows come before one. `since` are the
    times of rows since the step before. Line ``of_record[...]`` of psi has the
    parameters of the record of a step, the last one those of the last rows.
    """
    stop = start + effects.shape[0]
    work.amounts[:] = 0.0
    work.rates[:] = 0.0
    done, filled = start, -1
    for s in range(steps.offsets[subject], steps.offsets[subject + 1] + 1):
        last = s == steps.offsets[subject + 1]
        line = psi.shape[0] - 1
        if line and not last:
            line = of_record[steps.record[s]] - of_record[steps.record[0]]
        if line != filled:
            filled = line
            fill(work.system, psi[line], work.matrix)
        rows = stop if last else before[s]
        if rows > done:
            a, b = done - start, rows - start
            observe(work, since[a:b], effects[a:b], f[a:])
            done = rows
        if not last:
            advance(work.system, work.amounts, work.rates, steps.elapsed[s], work.new)
            act(work, steps, s)
