"""Amounts by integration of differential equations, started anew at each event."""

import numpy as np
from numba import njit

from sktem.compartments.kernels.schedule import BOLUS, RATE, RECORD, RESET
from sktem.compartments.kernels.steady_states import MOST_PAST, begin_steady
from sktem.compartments.kernels.stepping import Doses, Work, add, advance
from sktem.compartments.kernels.transit import ROOM
from sktem.kernels.borrowed import address
from sktem.kernels.options import OUTER


@njit(**OUTER, error_model="numpy")
def integrate(rhs, control, steps, psi, of_record, initial, start, stop, out):
    """Write the amounts at the records of some subjects.

    ``rhs(t, amounts, psi, result)`` writes the derivatives without infusions. psi and
    the amounts at the beginning, ``initial``, have one row for each record,
    ``psi[of_record]``.
    """
    n = initial.shape[1]
    longest = MOST_PAST
    for subject in range(start, stop):
        longest = max(longest, steps.offsets[subject + 1] - steps.offsets[subject])
    longest = longest + MOST_PAST if control.input_kind else 1
    times, given, n_given = np.empty(longest), np.empty(longest), np.zeros(1, np.int64)
    state, own = np.empty((14, n)), np.zeros(2)
    doses = Doses(address(times), address(given), address(n_given))
    amounts, rates = np.empty(n), np.empty(n)
    matrices = np.empty(6 * (n + 1) ** 2 + ROOM)
    work = Work(
        address(state), address(state[12]), address(state[13]), address(own),
        address(own[1:]), address(matrices),
    )  # fmt: skip
    x, r = address(amounts), address(rates)
    for subject in range(start, stop):
        begin, end = steps.offsets[subject], steps.offsets[subject + 1]
        if begin == end:
            continue
        amounts[:] = initial[of_record[steps.record[begin]]]
        rates[:] = 0.0
        n_given[0] = 0
        own[:] = 0.0
        for s in range(begin, end):
            record, place = steps.record[s], steps.compartment[s]
            row = of_record[record]
            values = address(psi[row])
            elapsed, time, action = steps.elapsed[s], steps.time[s], steps.action[s]
            advance(rhs, control, time - elapsed, elapsed, x, values, r, doses, work)
            if action == RECORD:
                for j in range(n):
                    out[record, j] = amounts[j]
                continue
            work.step[0] = 0.0
            if action == BOLUS:
                work.largest[0] = max(work.largest[0], abs(steps.value[s]))
                if control.input_kind and place == 0:
                    times[n_given[0]] = time
                    given[n_given[0]] = steps.value[s]
                    n_given[0] += 1
                else:
                    add(control, values, x, place, steps.value[s])
            elif action == RATE:
                add(control, values, r, place, steps.value[s])
            elif action == RESET:
                amounts[:] = initial[row]
                rates[:] = 0.0
                n_given[0] = 0
            else:
                begin_steady(
                    rhs, control, steps, s, values, initial[row], rates, amounts,
                    doses, work,
                )  # fmt: skip
    # A last use, until which the arrays live.
    state[0, 0] = own[0] = amounts[0] = rates[0] = times[0] = given[0] = n_given[0] = 0
    matrices[0] = 0.0
