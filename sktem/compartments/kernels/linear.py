"""Closed forms of linear compartments: depots, a mammillary system, and an effect."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.compartments.kernels.exponentials import difference, integral, three, two
from sktem.kernels.exponential import exponential

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
    to_modes, from_modes : ndarray of shape (n_compartments, n_compartments)
        The modes over and times the roots: weights of amounts in modes, by columns, and
        of modes in amounts.
    rest : ndarray of shape (n_depots,)
        Work array, the shares that stay in the depots.
    """

    absorption: np.ndarray
    share: np.ndarray
    roots: np.ndarray
    decay: np.ndarray
    modes: np.ndarray
    effect: np.ndarray
    to_modes: np.ndarray
    from_modes: np.ndarray
    rest: np.ndarray


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
        np.empty((n_compartments, n_compartments)),
        np.empty((n_compartments, n_compartments)),
        np.empty(n_depots),
    )


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
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
        _weigh(system)
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
    _weigh(system)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _weigh(system):
    """Write the weights of amounts and modes, NaN where a rate is."""
    n = system.decay.shape[0]
    for i in range(n):
        bad = math.nan if math.isnan(system.decay[i]) else 0.0
        for j in range(n):
            system.to_modes[j, i] = system.modes[j, i] / system.roots[j] + bad
            system.from_modes[j, i] = system.modes[j, i] * system.roots[j]


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
    last = n_depots + n
    has_effect = system.effect.shape[0] > 0
    for j in range(amounts.shape[0]):
        new[j] = 0.0
    into_central = 0.0
    for d in range(n_depots):
        into_central += rates[d]
        system.rest[d] = exponential(-system.absorption[d] * t)
    for i in range(n):
        decay = system.decay[i]
        start = rate = 0.0
        for j in range(n):
            weight = system.to_modes[j, i]
            start += weight * amounts[n_depots + j]
            rate += weight * rates[n_depots + j]
        entry = system.to_modes[0, i]
        of_mode = exponential(-decay * t)
        value = start * of_mode
        rate += entry * into_central
        if rate != 0.0:
            value += rate * integral(decay, t)
        for d in range(n_depots):
            ka = system.absorption[d]
            flux = ka * amounts[d] - rates[d]
            if flux != 0.0:
                value += (
                    entry * flux * difference(decay, ka, t, of_mode, system.rest[d])
                )
        for j in range(n):
            new[n_depots + j] += system.from_modes[j, i] * value
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
            new[last] += ke * entry * inside
    for d in range(n_depots):
        new[d] = amounts[d] * system.rest[d]
        if rates[d] != 0.0:
            new[d] += rates[d] * integral(system.absorption[d], t)
    if has_effect:
        new[last] += amounts[last] * exponential(-system.effect[0] * t)
    for j in range(amounts.shape[0]):
        amounts[j] = new[j]


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
def _constant(system, rates, amounts):
    """Write the steady state of constant infusions."""
    n_depots, n = system.absorption.shape[0], system.decay.shape[0]
    amounts[:] = 0.0
    total = 0.0
    for d in range(n_depots):
        amounts[d] = rates[d] / system.absorption[d]
        total += rates[d]
    for i in range(n):
        rate = system.to_modes[0, i] * total
        for j in range(n):
            rate += system.to_modes[j, i] * rates[n_depots + j]
        for j in range(n):
            amounts[n_depots + j] += system.from_modes[j, i] * rate / system.decay[i]
    if system.effect.shape[0]:
        amounts[n_depots + n] = amounts[n_depots] / system.roots[0] ** 2


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
def steady_state(system, compartment, value, duration, interval, phase, amounts, new):
    """Write the amounts at a time since the last of doses that have no beginning.

    The amounts before a dose are the fixed point of a period, which is solved from the
    depots on: a period of theirs alone says what they pass on.
    """
    n_depots, n = system.absorption.shape[0], system.decay.shape[0]
    size = amounts.shape[0]
    rates = np.zeros(size)
    dose = np.zeros(size)
    if duration == 0.0:
        add(system, dose, compartment, value)
    else:
        add(system, rates, compartment, value)
    if duration == math.inf:
        _constant(system, rates, amounts)
        return
    running, rest = 0, 0.0
    if duration > 0.0:
        running = int(math.floor(duration / interval + 1e-11))
        rest = max(duration - running * interval, 0.0)
    end = dose.copy()
    _within(system, end, rates, new, running, rest, interval)
    amounts[:] = 0.0
    none = np.zeros(size)
    for d in range(n_depots):
        amounts[d] = end[d] / -math.expm1(-system.absorption[d] * interval)
    passed = amounts.copy()
    advance(system, passed, none, interval, new)
    for i in range(n):
        mode = 0.0
        for j in range(n):
            weight = system.to_modes[j, i]
            mode += weight * (end[n_depots + j] + passed[n_depots + j])
        mode /= -math.expm1(-system.decay[i] * interval)
        for j in range(n):
            amounts[n_depots + j] += system.from_modes[j, i] * mode
    if system.effect.shape[0]:
        last = n_depots + n
        passed[:] = amounts
        advance(system, passed, none, interval, new)
        whole = -math.expm1(-system.effect[0] * interval)
        amounts[last] = (end[last] + passed[last]) / whole
    for j in range(size):
        amounts[j] += dose[j]
    _within(system, amounts, rates, new, running, rest, phase)
