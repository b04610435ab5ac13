"""Closed forms of linear compartments: depots, a mammillary system, and an effect."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.compartments.kernels.exponentials import integral, three, two
from sktem.compartments.kernels.schedule import BOLUS, RATE, RECORD, RESET

#: Sweeps of Jacobi rotations, more than three compartments need.
MOST_SWEEPS = 30


class Linear(NamedTuple):
    """A linear system with the parameters of one record.

    Amounts are in the order: depots, central and peripheral compartments, effect.

    Attributes
    ----------
    absorption : ndarray of shape (n_depots,)
        Rates from the depots into the central compartment.
    share : ndarray of shape (n_depots,)
        Shares of a dose that the depots get.
    roots : ndarray of shape (n_compartments,)
        Square roots of the volumes.
    decay : ndarray of shape (n_compartments,)
        Rates of the modes of the mammillary system.
    modes : ndarray of shape (n_compartments, n_compartments)
        The modes as columns, orthonormal, of amounts over roots of volumes.
    effect : ndarray of shape (n_effects,)
        Rate of the effect compartment, if there is one.
    """

    absorption: np.ndarray
    share: np.ndarray
    roots: np.ndarray
    decay: np.ndarray
    modes: np.ndarray
    effect: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def new_linear(n_depots, n_compartments, n_effects):
    """Return a system of some size without values."""
    return Linear(
        np.empty(n_depots),
        np.ones(n_depots),
        np.empty(n_compartments),
        np.empty(n_compartments),
        np.empty((n_compartments, n_compartments)),
        np.empty(n_effects),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def fill(system, psi, work):
    """Take the parameters of a record.

    psi has CL and V of the central compartment, Q and V of each other one, the rates of
    absorption, with two of them the share of the first, and the rate of the effect.
    """
    n, n_depots = system.decay.shape[0], system.absorption.shape[0]
    for j in range(n):
        system.roots[j] = math.sqrt(psi[2 * j + 1])
    place = 2 * n
    for d in range(n_depots):
        system.absorption[d] = psi[place + d]
    place += n_depots
    if n_depots == 2:
        system.share[0] = psi[place]
        system.share[1] = 1.0 - psi[place]
        place += 1
    if system.effect.shape[0]:
        system.effect[0] = psi[place]
    if n == 1:
        system.decay[0] = psi[0] / psi[1]
        system.modes[0, 0] = 1.0
        return
    work[:] = 0.0
    total = psi[0]
    for j in range(1, n):
        flow = psi[2 * j]
        total += flow
        work[j, j] = flow / psi[2 * j + 1]
        work[0, j] = work[j, 0] = -flow / (system.roots[0] * system.roots[j])
    work[0, 0] = total / psi[1]
    _eigen(work, system.decay, system.modes)
    # A mode that hardly decays is the product of all less rounding: CL = 0 has one.
    for j in range(n):
        system.decay[j] = max(system.decay[j], 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _eigen(matrix, values, vectors):
    """Equal ``np.linalg.eigh(matrix)`` in any order, by rotations in place."""
    n = values.shape[0]
    for i in range(n):
        for j in range(n):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(MOST_SWEEPS):
        off = 0.0
        for i in range(n):
            for j in range(i):
                size = abs(matrix[i, i] * matrix[j, j])
                if matrix[i, j] * matrix[i, j] > 1e-36 * size:
                    off = 1.0
        if off == 0.0:
            break
        for i in range(n):
            for j in range(i):
                if matrix[i, j] == 0.0:
                    continue
                half = 0.5 * (matrix[j, j] - matrix[i, i]) / matrix[i, j]
                root = math.sqrt(half * half + 1.0)
                tangent = 1.0 / (half + root) if half >= 0 else 1.0 / (half - root)
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for k in range(n):
                    x, y = matrix[k, i], matrix[k, j]
                    matrix[k, i] = cosine * x - sine * y
                    matrix[k, j] = sine * x + cosine * y
                for k in range(n):
                    x, y = matrix[i, k], matrix[j, k]
                    matrix[i, k] = cosine * x - sine * y
                    matrix[j, k] = sine * x + cosine * y
                for k in range(n):
                    x, y = vectors[k, i], vectors[k, j]
                    vectors[k, i] = cosine * x - sine * y
                    vectors[k, j] = sine * x + cosine * y
    for i in range(n):
        values[i] = matrix[i, i]


@njit(cache=True, nogil=True, error_model="numpy")
def advance(system, amounts, rates, t, new):
    """Move amounts by a time under constant infusions; `new` is a work array.

    The amounts follow ``scipy.linalg.expm`` of the matrix of the system with a last
    column of the rates.
    """
    if t <= 0.0:
        return
    n_depots, n = system.absorption.shape[0], system.decay.shape[0]
    central = n_depots
    has_effect = system.effect.shape[0] > 0
    new[:] = 0.0
    for i in range(n):
        decay = system.decay[i]
        start = rate = 0.0
        for j in range(n):
            weight = system.modes[j, i] / system.roots[j]
            start += weight * amounts[central + j]
            rate += weight * rates[central + j]
        entry = system.modes[0, i] / system.roots[0]
        value = start * math.exp(-decay * t)
        for d in range(n_depots):
            rate += entry * rates[d]
        if rate != 0.0:
            value += rate * integral(decay, t)
        for d in range(n_depots):
            ka = system.absorption[d]
            flux = ka * amounts[d] - rates[d]
            if flux != 0.0:
                value += entry * flux * two(decay, ka, t)
        for j in range(n):
            new[central + j] += system.modes[j, i] * system.roots[j] * value
        if has_effect:
            ke = system.effect[0]
            inside = start * two(decay, ke, t)
            if rate != 0.0:
                inside += rate * three(decay, ke, 0.0, t)
            for d in range(n_depots):
                ka = system.absorption[d]
                flux = ka * amounts[d] - rates[d]
                if flux != 0.0:
                    inside += entry * flux * three(decay, ka, ke, t)
            new[central + n] += ke * entry * inside
    for d in range(n_depots):
        ka = system.absorption[d]
        new[d] = amounts[d] * math.exp(-ka * t)
        if rates[d] != 0.0:
            new[d] += rates[d] * integral(ka, t)
    if has_effect:
        new[central + n] += amounts[central + n] * math.exp(-system.effect[0] * t)
    amounts[:] = new


@njit(cache=True, nogil=True, error_model="numpy")
def add(system, values, compartment, value):
    """Add to the amounts, or to the rates, of a compartment as doses name them."""
    n_depots = system.absorption.shape[0]
    if n_depots == 2 and compartment == 0:
        values[0] += system.share[0] * value
        values[1] += system.share[1] * value
    else:
        values[compartment + max(n_depots - 1, 0)] += value


@njit(cache=True, nogil=True, error_model="numpy")
def _constant(system, rates, found):
    """Write the steady state of constant infusions."""
    n_depots, n = system.absorption.shape[0], system.decay.shape[0]
    found[:] = 0.0
    total = 0.0
    for d in range(n_depots):
        found[d] = rates[d] / system.absorption[d]
        total += rates[d]
    for i in range(n):
        rate = system.modes[0, i] / system.roots[0] * total
        for j in range(n):
            rate += system.modes[j, i] / system.roots[j] * rates[n_depots + j]
        for j in range(n):
            weight = system.modes[j, i] * system.roots[j]
            found[n_depots + j] += weight * rate / system.decay[i]
    if system.effect.shape[0]:
        found[n_depots + n] = found[n_depots] / system.roots[0] ** 2


@njit(cache=True, nogil=True, error_model="numpy")
def _within(system, amounts, rates, new, running, rest, t):
    """Move by a part of a period, in which one infusion more runs up to `rest`."""
    size = rates.shape[0]
    more = np.empty(size)
    for j in range(size):
        more[j] = rates[j] * (running + 1)
    advance(system, amounts, more, min(rest, t), new)
    for j in range(size):
        more[j] = rates[j] * running
    advance(system, amounts, more, t - min(rest, t), new)


@njit(cache=True, nogil=True, error_model="numpy")
def steady_state(system, compartment, value, duration, interval, phase, found, new):
    """Write the amounts at a time since the last of doses that have no beginning.

    The amounts before a dose are the fixed point of a period, which is solved from the
    depots on: a period of theirs alone says what they pass on.
    """
    n_depots, n = system.absorption.shape[0], system.decay.shape[0]
    size = found.shape[0]
    rates = np.zeros(size)
    dose = np.zeros(size)
    if duration == 0.0:
        add(system, dose, compartment, value)
    else:
        add(system, rates, compartment, value)
    if duration == math.inf:
        _constant(system, rates, found)
        return
    running, rest = 0, 0.0
    if duration > 0.0:
        running = int(math.floor(duration / interval + 1e-11))
        rest = max(duration - running * interval, 0.0)
    end = dose.copy()
    _within(system, end, rates, new, running, rest, interval)
    found[:] = 0.0
    none = np.zeros(size)
    for d in range(n_depots):
        found[d] = end[d] / -math.expm1(-system.absorption[d] * interval)
    passed = found.copy()
    advance(system, passed, none, interval, new)
    for i in range(n):
        mode = 0.0
        for j in range(n):
            weight = system.modes[j, i] / system.roots[j]
            mode += weight * (end[n_depots + j] + passed[n_depots + j])
        mode /= -math.expm1(-system.decay[i] * interval)
        for j in range(n):
            found[n_depots + j] += system.modes[j, i] * system.roots[j] * mode
    if system.effect.shape[0]:
        last = n_depots + n
        passed[:] = found
        advance(system, passed, none, interval, new)
        whole = -math.expm1(-system.effect[0] * interval)
        found[last] = (end[last] + passed[last]) / whole
    for j in range(size):
        found[j] += dose[j]
    _within(system, found, rates, new, running, rest, phase)


@njit(cache=True, nogil=True, error_model="numpy")
def solve(n_depots, n_compartments, n_effects, steps, psi, of_record, start, stop, out):
    """Write the amounts at the records of some subjects.

    psi has one row of parameters for each record, ``psi[of_record]``, and the amounts
    get the shape (n_records, n_depots + n_compartments + n_effects).
    """
    system = new_linear(n_depots, n_compartments, n_effects)
    size = n_depots + n_compartments + n_effects
    work = np.empty((n_compartments, n_compartments))
    amounts, rates, new, found = (
        np.empty(size),
        np.empty(size),
        np.empty(size),
        (np.empty(size)),
    )
    for subject in range(start, stop):
        amounts[:] = 0.0
        rates[:] = 0.0
        filled = -1
        for s in range(steps.offsets[subject], steps.offsets[subject + 1]):
            record = steps.record[s]
            if of_record[record] != filled:
                filled = of_record[record]
                fill(system, psi[filled], work)
            advance(system, amounts, rates, steps.elapsed[s], new)
            action = steps.action[s]
            if action == RECORD:
                out[record] = amounts
            elif action == BOLUS:
                add(system, amounts, steps.compartment[s], steps.value[s])
            elif action == RATE:
                add(system, rates, steps.compartment[s], steps.value[s])
            elif action == RESET:
                amounts[:] = 0.0
                rates[:] = 0.0
            else:
                steady_state(
                    system, steps.compartment[s], steps.value[s], steps.duration[s],
                    steps.interval[s], steps.phase[s], found, new,
                )  # fmt: skip
                if steps.replaces[s]:
                    amounts[:] = found
                    rates[:] = 0.0
                else:
                    amounts += found
