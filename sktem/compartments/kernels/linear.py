"""Closed forms of linear compartments: depots, a mammillary system, and an effect."""

import math
from typing import Any, NamedTuple

from numba import njit

from sktem.compartments.kernels.exponentials import difference, integral, three, two
from sktem.kernels.borrowed import offset
from sktem.kernels.exponential import exponential
from sktem.kernels.options import INNER

#: Numbers of a system, and amounts, of the largest size.
SYSTEM_SIZE, MOST_AMOUNTS = 49, 6
#: Sweeps of Jacobi rotations, more than three compartments need.
MOST_SWEEPS = 30


class Linear(NamedTuple):
    """A linear system with the parameters of one record.

    Amounts are in the order: depots, central and peripheral compartments, effect. All
    but the first three are addresses; matrices lie row by row.

    Attributes
    ----------
    n_depots, n_compartments, n_effects : int
        Numbers of depots, compartments and effects.
    absorption, share, rest : pointer
        Rates from the depots into the central compartment, shares of a dose that the
        depots get, and a work array: the shares that stay in the depots.
    roots, decay : pointer
        Square roots of the volumes, and rates of the modes of the mammillary system.
    effect : pointer
        Rate of the effect compartment, if there is one.
    modes, to_modes, from_modes : pointer
        The modes as columns, orthonormal, of amounts over roots of volumes; these over
        and times the roots: weights of amounts in modes, by columns, and of modes in
        amounts.
    matrix : pointer
        Work array of :func:`fill`.
    """

    n_depots: int
    n_compartments: int
    n_effects: int
    absorption: Any
    share: Any
    rest: Any
    roots: Any
    decay: Any
    effect: Any
    modes: Any
    to_modes: Any
    from_modes: Any
    matrix: Any


@njit(**INNER, error_model="numpy")
def linear_at(place, n_depots, n_compartments, n_effects):
    """Return a system of some size without values, which lies at an address."""
    return Linear(
        n_depots,
        n_compartments,
        n_effects,
        place,
        offset(place, 2),
        offset(place, 4),
        offset(place, 6),
        offset(place, 9),
        offset(place, 12),
        offset(place, 13),
        offset(place, 22),
        offset(place, 31),
        offset(place, 40),
    )


@njit(**INNER, error_model="numpy", forceinline=True)
def fill(system, psi):
    """Fill a system with the parameters of a record.

    psi has CL and V of the central compartment, Q and V of each other one, the rates of
    absorption, with two of them the share of the first, and the rate of the effect.
    """
    n, n_depots = system.n_compartments, system.n_depots
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
    if system.n_effects:
        system.effect[0] = psi[place]
    if n == 1:
        system.decay[0] = psi[0] / psi[1]
        system.modes[0] = 1.0
        _weigh(system)
        return
    work = system.matrix
    for j in range(n * n):
        work[j] = 0.0
    total = psi[0]
    for j in range(1, n):
        flow = psi[2 * j]
        total += flow
        work[j * n + j] = flow / psi[2 * j + 1]
        work[j] = work[j * n] = -flow / (system.roots[0] * system.roots[j])
    work[0] = total / psi[1]
    _eigen(n, work, system.decay, system.modes)
    # A mode that hardly decays is the product of all less rounding: CL = 0 has one.
    for j in range(n):
        system.decay[j] = max(system.decay[j], 0.0)
    _weigh(system)


@njit(**INNER, error_model="numpy", forceinline=True)
def _weigh(system):
    """Write the weights of amounts and modes, NaN where a rate is."""
    n = system.n_compartments
    for i in range(n):
        bad = math.nan if math.isnan(system.decay[i]) else 0.0
        for j in range(n):
            system.to_modes[j * n + i] = system.modes[j * n + i] / system.roots[j] + bad
            system.from_modes[j * n + i] = system.modes[j * n + i] * system.roots[j]


@njit(**INNER, error_model="numpy")
def _eigen(n, matrix, values, vectors):
    """Equal ``np.linalg.eigh(matrix)`` in any order, by rotations in place."""
    for i in range(n):
        for j in range(n):
            vectors[i * n + j] = 1.0 if i == j else 0.0
    for _ in range(MOST_SWEEPS):
        off = 0.0
        for i in range(n):
            for j in range(i):
                size = abs(matrix[i * n + i] * matrix[j * n + j])
                if matrix[i * n + j] * matrix[i * n + j] > 1e-36 * size:
                    off = 1.0
        if off == 0.0:
            break
        for i in range(n):
            for j in range(i):
                if matrix[i * n + j] == 0.0:
                    continue
                half = 0.5 * (matrix[j * n + j] - matrix[i * n + i]) / matrix[i * n + j]
                root = math.sqrt(half * half + 1.0)
                tangent = 1.0 / (half + root) if half >= 0 else 1.0 / (half - root)
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for k in range(n):
                    x, y = matrix[k * n + i], matrix[k * n + j]
                    matrix[k * n + i] = cosine * x - sine * y
                    matrix[k * n + j] = sine * x + cosine * y
                for k in range(n):
                    x, y = matrix[i * n + k], matrix[j * n + k]
                    matrix[i * n + k] = cosine * x - sine * y
                    matrix[j * n + k] = sine * x + cosine * y
                for k in range(n):
                    x, y = vectors[k * n + i], vectors[k * n + j]
                    vectors[k * n + i] = cosine * x - sine * y
                    vectors[k * n + j] = sine * x + cosine * y
    for i in range(n):
        values[i] = matrix[i * n + i]


@njit(**INNER, error_model="numpy")
def advance(system, amounts, rates, t, new):
    """Move amounts by a time under constant infusions; `new` is a work array.

    The amounts follow ``scipy.linalg.expm`` of the matrix of the system with a last
    column of the rates.
    """
    if t <= 0.0:
        return
    n_depots, n = system.n_depots, system.n_compartments
    last = n_depots + n
    has_effect = system.n_effects > 0
    size = last + system.n_effects
    for j in range(size):
        new[j] = 0.0
    into_central = 0.0
    for d in range(n_depots):
        into_central += rates[d]
        system.rest[d] = exponential(-system.absorption[d] * t)
    for i in range(n):
        decay = system.decay[i]
        start = rate = 0.0
        for j in range(n):
            weight = system.to_modes[j * n + i]
            start += weight * amounts[n_depots + j]
            rate += weight * rates[n_depots + j]
        entry = system.to_modes[i]
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
            new[n_depots + j] += system.from_modes[j * n + i] * value
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
    for j in range(size):
        amounts[j] = new[j]


@njit(**INNER, error_model="numpy")
def add(system, values, compartment, value):
    """Add to the amounts, or to the rates, of a compartment as doses name them."""
    n_depots = system.n_depots
    if n_depots == 2 and compartment == 0:
        values[0] += system.share[0] * value
        values[1] += system.share[1] * value
    else:
        values[compartment + max(n_depots - 1, 0)] += value


@njit(**INNER, error_model="numpy")
def _constant(system, rates, amounts):
    """Write the steady state of constant infusions, over zeros."""
    n_depots, n = system.n_depots, system.n_compartments
    total = 0.0
    for d in range(n_depots):
        amounts[d] = rates[d] / system.absorption[d]
        total += rates[d]
    for i in range(n):
        rate = system.to_modes[i] * total
        for j in range(n):
            rate += system.to_modes[j * n + i] * rates[n_depots + j]
        for j in range(n):
            amounts[n_depots + j] += (
                system.from_modes[j * n + i] * rate / system.decay[i]
            )
    if system.n_effects:
        amounts[n_depots + n] = amounts[n_depots] / system.roots[0] ** 2


@njit(**INNER, error_model="numpy")
def _within(system, amounts, rates, more, new, running, rest, t):
    """Move by a part of a period, in which one infusion more runs up to `rest`."""
    size = system.n_depots + system.n_compartments + system.n_effects
    for j in range(size):
        more[j] = rates[j] * (running + 1)
    advance(system, amounts, more, min(rest, t), new)
    for j in range(size):
        more[j] = rates[j] * running
    advance(system, amounts, more, t - min(rest, t), new)


@njit(**INNER, error_model="numpy")
def steady_state(system, compartment, value, duration, interval, phase, amounts, free):
    """Write the amounts at a time since the last of doses that have no beginning.

    The amounts before a dose are the fixed point of a period, which is solved from the
    depots on: a period of theirs alone says what they pass on. ``free`` are six work
    arrays, one behind the other.
    """
    n_depots, n = system.n_depots, system.n_compartments
    size = n_depots + n + system.n_effects
    new, rates, dose = free, offset(free, size), offset(free, 2 * size)
    end, passed = offset(free, 3 * size), offset(free, 4 * size)
    more = none = offset(free, 5 * size)
    for j in range(size):
        amounts[j] = rates[j] = dose[j] = 0.0
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
    for j in range(size):
        end[j] = dose[j]
    _within(system, end, rates, more, new, running, rest, interval)
    for j in range(size):
        none[j] = 0.0
    for d in range(n_depots):
        amounts[d] = end[d] / -math.expm1(-system.absorption[d] * interval)
    for j in range(size):
        passed[j] = amounts[j]
    advance(system, passed, none, interval, new)
    for i in range(n):
        mode = 0.0
        for j in range(n):
            weight = system.to_modes[j * n + i]
            mode += weight * (end[n_depots + j] + passed[n_depots + j])
        mode /= -math.expm1(-system.decay[i] * interval)
        for j in range(n):
            amounts[n_depots + j] += system.from_modes[j * n + i] * mode
    if system.n_effects:
        last = n_depots + n
        for j in range(size):
            passed[j] = amounts[j]
        advance(system, passed, none, interval, new)
        whole = -math.expm1(-system.effect[0] * interval)
        amounts[last] = (end[last] + passed[last]) / whole
    for j in range(size):
        amounts[j] += dose[j]
    _within(system, amounts, rates, more, new, running, rest, phase)
