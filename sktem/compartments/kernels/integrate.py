"""Amounts by integration of differential equations, started anew at each event."""

import math

import numpy as np
from numba import njit

from sktem.compartments.kernels.schedule import BOLUS, RATE, RECORD, RESET
from sktem.compartments.kernels.slopes import Doses, doses_of
from sktem.compartments.kernels.steady_states import MOST_PAST, begin_steady
from sktem.compartments.kernels.stepping import Work, add, begin, finished, moved, step
from sktem.compartments.kernels.transit import ROOM
from sktem.kernels.borrowed import address, offset
from sktem.kernels.options import INNER, OUTER

#: Subjects that are integrated side by side, at most.
MOST_LANES = 8
#: Where a lane is: before an interval, within, or at its end.
BEFORE, WITHIN, BEHIND = 0, 1, 2


@njit(**INNER, error_model="numpy")
def _work_of(lanes, n, reals, row, matrices):
    """Return the addresses of work arrays of some lanes."""
    of_states, one = offset(reals, 7 * lanes), lanes * n
    return Work(
        lanes, of_states, offset(of_states, 12 * one), offset(of_states, 13 * one),
        offset(of_states, 14 * one), row, reals, offset(reals, lanes),
        offset(reals, 2 * lanes), offset(reals, 3 * lanes), offset(reals, 4 * lanes),
        offset(reals, 5 * lanes), offset(reals, 6 * lanes), matrices,
    )  # fmt: skip


@njit(**INNER, error_model="numpy")
def _act(rhs, control, steps, s, psi, initial, amounts, rates, own, works):
    """Apply the action of a step to the amounts and rates of a lane."""
    lane, work, alone = works
    place, value = steps.compartment[s], steps.value[s]
    action, x, r = steps.action[s], address(amounts), address(rates)
    work.step[lane] = 0.0
    if action == BOLUS:
        work.largest[lane] = max(work.largest[lane], abs(value))
        if control.input_kind and place == 0:
            own.time[own.n_doses[0]] = steps.time[s]
            own.amount[own.n_doses[0]] = value
            own.n_doses[0] += 1
        else:
            add(control, psi, x, place, value)
    elif action == RATE:
        add(control, psi, r, place, value)
    elif action == RESET:
        amounts[:] = initial
        rates[:] = 0.0
        own.n_doses[0] = 0
    else:
        alone.largest[0] = work.largest[lane]
        begin_steady(rhs, control, steps, s, psi, initial, rates, amounts, own, alone)
        work.largest[lane] = alone.largest[0]


@njit(**OUTER, error_model="numpy")
def integrate(rhs, control, steps, psi, of_record, initial, start, stop, out):
    """Write the amounts at the records of some subjects.

    ``rhs(t, amounts, psi, result)`` is the address of what writes the derivatives
    without infusions. psi and the amounts at the beginning, ``initial``, have one row
    for each record, ``psi[of_record]``.

    Consecutive subjects, as many as control says, have the same steps of integration,
    as shares of the intervals between their events: those of the first. They have the
    same events then, at times that may differ, and none at steady state.
    """
    n, group = initial.shape[1], control.in_step
    groups = (stop - start) // group
    rounds = math.ceil(groups / max(MOST_LANES // group, 1))
    lanes = group * max(math.ceil(groups / max(rounds, 1)), 1)
    room = MOST_PAST
    for subject in range(start, stop):
        room = max(room, steps.offsets[subject + 1] - steps.offsets[subject])
    room = room + MOST_PAST if control.input_kind else 1
    times, given = np.empty((lanes, room)), np.empty((lanes, room))
    amounts, rates = np.zeros((lanes, n)), np.zeros((lanes, n))
    # The last lane of these is of steady states, which are found one by one.
    reals, whole = np.zeros((lanes + 1, 7 + 16 * n)), np.zeros((4, lanes + 1), np.int64)
    matrices = np.empty(6 * (n + 1) ** 2 + ROOM)
    n_given, row, at, end = whole
    doses = Doses(address(times), address(given), address(n_given), room)
    m = address(matrices)
    work = _work_of(lanes, n, address(reals), address(row), m)
    alone = _work_of(1, n, address(reals[lanes]), address(row[lanes:]), m)
    phase = np.full(lanes, BEFORE)
    xs, rs, table = address(amounts), address(rates), address(psi)
    waiting, active = start, 1
    while active > 0:
        active = 0
        for lane in range(lanes):
            x, r = address(amounts[lane]), address(rates[lane])
            own = doses_of(doses, lane)
            while phase[lane] != WITHIN:
                if at[lane] == end[lane]:
                    work.length[lane] = 0.0
                    if waiting == stop:
                        break
                    at[lane], end[lane] = (
                        steps.offsets[waiting],
                        steps.offsets[waiting + 1],
                    )
                    waiting += 1
                    if at[lane] == end[lane]:
                        continue
                    amounts[lane] = initial[of_record[steps.record[at[lane]]]]
                    rates[lane] = 0.0
                    n_given[lane] = 0
                    work.largest[lane] = work.step[lane] = 0.0
                s, record = at[lane], steps.record[at[lane]]
                psi_row = of_record[record]
                values, elapsed = address(psi[psi_row]), steps.elapsed[s]
                t = steps.time[s] - elapsed
                if phase[lane] == BEFORE and not moved(
                    control, t, elapsed, x, values, r, own, work
                ):
                    row[lane] = psi_row * psi.shape[1]
                    begin(rhs, control, lane, (t, elapsed), xs, table, rs, doses, work)
                    phase[lane] = WITHIN
                    continue
                phase[lane] = BEFORE
                at[lane] += 1
                if steps.action[s] == RECORD:
                    out[record] = amounts[lane]
                else:
                    _act(
                        rhs, control, steps, s, values, initial[psi_row],
                        amounts[lane], rates[lane], own, (lane, work, alone),
                    )  # fmt: skip
            active += phase[lane] == WITHIN
        if active > 0:
            step(rhs, control, xs, table, rs, doses, work)
        for lane in range(0, lanes, group):
            if phase[lane] == WITHIN and finished(control, lane, xs, work):
                phase[lane : lane + group] = BEHIND
    # A last use, until which the arrays live.
    amounts[0] = rates[0] = reals[0] = times[0] = given[0] = whole[0] = 0
    matrices[0] = 0.0
