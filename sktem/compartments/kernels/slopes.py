"""Slopes of amounts, with infusions and doses that enter over time."""

import math
from typing import Any, NamedTuple

from numba import njit

from sktem.kernels.borrowed import call, offset
from sktem.kernels.options import INNER


class Doses(NamedTuple):
    """Addresses of doses that enter over time.

    Attributes
    ----------
    time, amount : pointer
        When they were given, and how much, ``room`` of each lane.
    n_doses : pointer
        How many there are in each lane.
    room : int
        How many there may be.
    """

    time: Any
    amount: Any
    n_doses: Any
    room: int


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
def doses_of(doses, lane):
    """Return the addresses of the doses of a lane."""
    return Doses(
        offset(doses.time, lane * doses.room),
        offset(doses.amount, lane * doses.room),
        offset(doses.n_doses, lane),
        doses.room,
    )


@njit(**INNER, error_model="numpy")
def slopes(rhs, control, stage, node, lanes, amounts, psi, rates, doses, work):
    """Write slopes of a stage of some lanes, at a node of their steps.

    The slopes of all lanes at a stage lie behind those at the stage before.
    """
    first, last = lanes
    n = control.n_states
    out = offset(work.slopes, stage * n * work.lanes)
    for lane in range(first, last):
        t = work.start[lane] + work.done[lane] + node * work.length[lane]
        values = offset(psi, work.row[lane])
        call(rhs, t, offset(amounts, n * lane), values, offset(out, n * lane))
    for i in range(n * first, n * last):
        out[i] += rates[i]
    if not control.input_kind:
        return
    for lane in range(first, last):
        t = work.start[lane] + work.done[lane] + node * work.length[lane]
        values, own = offset(psi, work.row[lane]), doses_of(doses, lane)
        for k in range(own.n_doses[0]):
            out[n * lane] += own.amount[k] * input_density(
                control.input_kind, t - own.time[k], values, control.input_place
            )
