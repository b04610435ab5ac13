"""Closed forms of transit compartments before a linear system with a depot.

A second implementation, beside integration: see the table in CONTRIBUTING.md.
"""

import math

from numba import njit
from numba.extending import overload

from sktem.compartments.kernels import linear
from sktem.compartments.kernels import mammillary as places
from sktem.kernels.borrowed import is_none, offset
from sktem.kernels.options import INNER

#: Terms of a series at most, beyond which it is NaN, and relative size of the last.
MOST_TERMS, SMALL = 50_000, 1e-17
#: Negative logarithm of the share of a dose that has yet to enter and counts as none.
ENTERED = 40.0
#: Mean of Poisson variables from which two terms of a series in it are exact.
LARGE = 1e5
#: Difference of rates, times the time, below which they count as one.
CLOSE = 1e-4
#: Rate from which predictions are NaN.
FASTEST = 1e100
#: Numbers that the system and its parameters take.
ROOM = linear.SYSTEM_SIZE + 16


@njit(**INNER, error_model="numpy")
def _poisson_mean(shape, mean):
    """Equal the mean of ``shape / (shape + n)`` of a Poisson variable n."""
    if mean > LARGE:
        whole = shape + mean
        return shape / whole * (1.0 + mean / (whole * whole))
    middle = math.floor(mean)
    first = math.exp(middle * math.log(mean) - mean - math.lgamma(middle + 1.0))
    total, term, n = shape / (shape + middle) * first, first, middle
    while term > SMALL:
        n += 1.0
        term *= mean / n
        total += shape / (shape + n) * term
    term, n = first, middle
    while term > SMALL and n > 0.0:
        term *= n / mean
        n -= 1.0
        total += shape / (shape + n) * term
    return total


@njit(**INNER, error_model="numpy")
def _upper(shape, x):
    """Equal ``gammaincc(shape, x)`` times ``gamma(shape) * exp(x) / x**shape``."""
    b = x + 1.0 - shape
    c, d = 1e300, 1.0 / b
    fraction = d
    for n in range(1, MOST_TERMS):
        factor = n * (shape - n)
        b += 2.0
        d = 1.0 / (factor * d + b)
        c = b + factor / c
        fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return fraction


@njit(**INNER, error_model="numpy")
def entered(shape, rate, decay, t):
    """Return the share of a dose that has entered and not decayed.

    It equals the integral of ``gamma.pdf(s, shape, scale=1/rate) exp(-decay (t - s))``
    from 0 to t.
    """
    if t <= 0.0:
        return 0.0
    if not rate < FASTEST:
        return math.nan
    x = (rate - decay) * t
    log_front = shape * math.log(rate * t) - rate * t - math.lgamma(shape + 1.0)
    if x < 0.0:
        return math.exp(log_front) * _poisson_mean(shape, -x)
    if x > shape + 1.0:
        whole = math.exp(shape * math.log(rate / (rate - decay)) - decay * t)
        left = math.exp(log_front)
        return whole - left * shape * _upper(shape, x) if left > 0.0 else whole
    total = term = 1.0
    for n in range(1, MOST_TERMS):
        term *= x / (shape + n)
        total += term
        if not term > SMALL * total:
            return math.exp(log_front) * total
    return math.nan


@njit(**INNER, error_model="numpy")
def _within(shape, rate, decay, age, elapsed):
    """Return the share that enters within a time and has not decayed at its end."""
    left = entered(shape, rate, decay, age) * math.exp(-decay * elapsed)
    return entered(shape, rate, decay, age + elapsed) - left


@njit(**INNER, error_model="numpy")
def _advance(control, t, elapsed, amounts, psi, rates, doses, work):
    """Move amounts of a depot and a mammillary system by a time."""
    n = control.n_states - 1
    system = linear.linear_at(work.matrices, 1, n, 0)
    values = offset(work.matrices, linear.SYSTEM_SIZE)
    values[0] = psi[places.CL]
    for j in range(2 * n - 1):
        values[1 + j] = psi[places.V1 + j]
    ka = values[2 * n] = psi[places.KA1]
    linear.fill(system, values)
    linear.advance(system, amounts, rates, elapsed, offset(values, 8))
    shape = psi[control.input_place + 1] + 1.0
    rate = shape / psi[control.input_place]
    for k in range(doses.n_doses[0]):
        age, dose = t - doses.time[k], doses.amount[k]
        x = rate * age
        if x > shape and x - shape - shape * math.log(x / shape) > ENTERED:
            continue
        depot = _within(shape, rate, ka, age, elapsed)
        amounts[0] += dose * depot
        for i in range(n):
            decay = system.decay[i]
            if abs(ka - decay) * (age + elapsed) > CLOSE:
                inside = _within(shape, rate, decay, age, elapsed) - depot
                inside /= ka - decay
            else:
                middle, half = 0.5 * (ka + decay), CLOSE / (age + elapsed)
                inside = _within(shape, rate, middle - half, age, elapsed)
                inside -= _within(shape, rate, middle + half, age, elapsed)
                inside /= 2.0 * half
            passed = dose * ka * inside * system.to_modes[i]
            for j in range(n):
                amounts[1 + j] += system.from_modes[j * n + i] * passed


def advance_exactly(control, t, elapsed, amounts, psi, rates, doses, work):
    """Move amounts by a time and return whether that was done: if control says so."""
    raise NotImplementedError("for compiled code")


@overload(advance_exactly, jit_options={**INNER, "error_model": "numpy"})
def _advance_exactly(control, t, elapsed, amounts, psi, rates, doses, work):
    if is_none(control, "by_transit"):
        return lambda control, t, elapsed, amounts, psi, rates, doses, work: False

    def advanced(control, t, elapsed, amounts, psi, rates, doses, work):
        _advance(control, t, elapsed, amounts, psi, rates, doses, work)
        return True

    return advanced
