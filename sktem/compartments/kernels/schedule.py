"""Conversion of event records to timed steps, each with an action on the amounts."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.borrowed import address
from sktem.kernels.options import INNER, OUTER

#: Actions of steps, and arguments of functions: literal numbers would have functions
#: compiled for each of them.
RECORD, BOLUS, RATE, RESET, STEADY = (np.int64(k) for k in range(5))
NONE, ONE = np.int64(0), np.int64(1)
#: Events less apart than this share of their time are simultaneous.
SAME = 1e-11


class Events(NamedTuple):
    """The columns of records that describe doses and their times.

    Attributes
    ----------
    time : ndarray of shape (n_records,)
        Times.
    kind : ndarray of int of shape (n_records,)
        0 observation, 1 dose, 2 other, 3 reset, 4 reset and dose.
    amount, rate, interval : ndarray of shape (n_records,)
        Amount of a dose, rate of its infusion, and time between additional doses.
    additional, steady, compartment : ndarray of int of shape (n_records,)
        How many additional doses, 0 or the kind of steady state, and the index of the
        compartment.
    offsets : ndarray of int of shape (n_subjects + 1,)
        Where the records of each subject begin.
    """

    time: np.ndarray
    kind: np.ndarray
    amount: np.ndarray
    rate: np.ndarray
    interval: np.ndarray
    additional: np.ndarray
    steady: np.ndarray
    compartment: np.ndarray
    offsets: np.ndarray


class Dosing(NamedTuple):
    """Parameters of doses, one value for each record.

    Attributes
    ----------
    bioavailability, lag, duration, rate : ndarray of shape (n_records,)
        Share that arrives, delay, and modelled durations and rates of infusions.
    """

    bioavailability: np.ndarray
    lag: np.ndarray
    duration: np.ndarray
    rate: np.ndarray


class Steps(NamedTuple):
    """Steps of all subjects, each an advance in time and then an action.

    Attributes
    ----------
    elapsed, time : ndarray of shape (n_steps,)
        Length of the advance, and the time after it.
    action : ndarray of int of shape (n_steps,)
        RECORD, BOLUS, RATE (a change of it), RESET or STEADY.
    record : ndarray of int of shape (n_steps,)
        The record whose parameters hold.
    compartment : ndarray of int of shape (n_steps,)
        Where a dose goes.
    value : ndarray of shape (n_steps,)
        Amount, or change of the rate.
    duration, interval, phase : ndarray of shape (n_steps,) or None
        Of a steady state: duration of infusions (infinite for a constant one), time
        between doses, and time since the last of them. None where data have none, so
        that no code for them is compiled.
    replaces : ndarray of int of shape (n_steps,) or None
        1 where a steady state replaces the amounts.
    offsets : ndarray of int of shape (n_subjects + 1,)
        Where the steps of each subject begin.
    """

    elapsed: np.ndarray
    time: np.ndarray
    action: np.ndarray
    record: np.ndarray
    compartment: np.ndarray
    value: np.ndarray
    duration: np.ndarray | None
    interval: np.ndarray | None
    phase: np.ndarray | None
    replaces: np.ndarray | None
    offsets: np.ndarray

    def without_steady_states(self) -> "Steps":
        """Return steps without the fields of steady states."""
        return self._replace(duration=None, interval=None, phase=None, replaces=None)


class Pending(NamedTuple):
    """Doses and ends of infusions to come.

    Attributes
    ----------
    first, interval : ndarray
        Time of the first dose of a series (of the end), and time between its doses.
    done, most : ndarray of int
        How many have been given, and how many there are.
    value, duration : ndarray
        Amount, or rate of an infusion, and the duration of that: 0 for a bolus, -1
        where an infusion ends.
    compartment : ndarray of int
        Where it goes.
    room : int
        Series and steps that there is room for.
    """

    first: np.ndarray
    interval: np.ndarray
    done: np.ndarray
    most: np.ndarray
    value: np.ndarray
    duration: np.ndarray
    compartment: np.ndarray
    room: int


@njit(**INNER, error_model="numpy")
def _push(pending, count, first, interval, most, value, duration, compartment):
    """Append a series and return the new count, -1 where there is no room."""
    if count < 0 or count >= pending.room:
        return -1
    pending.first[count] = first
    pending.interval[count] = interval
    pending.done[count] = 0
    pending.most[count] = most
    pending.value[count] = value
    pending.duration[count] = duration
    pending.compartment[count] = compartment
    return count + 1


@njit(**INNER, error_model="numpy")
def _emit(steps, room, n, elapsed, time, action, record, compartment, value):
    """Append a step and return the new number of them, -1 where there is no room."""
    if n < 0 or n >= room:
        return -1
    steps.elapsed[n] = elapsed
    steps.time[n] = time
    steps.action[n] = action
    steps.record[n] = record
    steps.compartment[n] = compartment
    steps.value[n] = value
    return n + 1


@njit(**INNER, error_model="numpy")
def _fire(steps, n, pending, count, clock, until, record):
    """Take the pending events up to a time in order; return (n, count, clock)."""
    limit = until + SAME * max(1.0, abs(until))
    while count > 0 and n >= 0:
        best = -1
        soonest = math.inf
        for j in range(count):
            due = pending.first[j] + pending.done[j] * pending.interval[j]
            if due < soonest:
                soonest = due
                best = j
        if soonest > limit:
            break
        place, value = pending.compartment[best], pending.value[best]
        duration = pending.duration[best]
        elapsed = max(min(soonest, until) - clock, 0.0)
        clock = max(clock, min(soonest, until))
        action = BOLUS if duration == 0.0 else RATE
        sign = -1.0 if duration < 0.0 else 1.0
        n = _emit(
            steps, pending.room, n, elapsed, clock, action, record, place, sign * value
        )
        pending.done[best] += 1
        if pending.done[best] >= pending.most[best]:
            count -= 1
            pending.first[best] = pending.first[count]
            pending.interval[best] = pending.interval[count]
            pending.value[best] = pending.value[count]
            pending.duration[best] = pending.duration[count]
            pending.done[best] = pending.done[count]
            pending.most[best] = pending.most[count]
            pending.compartment[best] = pending.compartment[count]
        if duration > 0.0:
            end = soonest + duration
            count = _push(pending, count, end, 0.0, ONE, value, -1.0, place)
    return n, count, clock


@njit(**INNER, error_model="numpy")
def _steady(steps, n, pending, count, events, i, lag, value, duration):
    """Take a dose at steady state; return the numbers of steps and pending series."""
    time, interval = events.time[i], events.interval[i]
    place = events.compartment[i]
    replaces = events.steady[i] == 1
    if replaces:
        count = NONE
    constant = events.amount[i] == 0.0
    behind = 0 if constant else int(math.ceil(lag / interval - SAME))
    last = time + lag - behind * interval
    n = _emit(steps, pending.room, n, 0.0, time, STEADY, i, place, value)
    if n < 0:
        return n, count
    steps.duration[n - 1] = math.inf if constant else duration
    steps.interval[n - 1] = interval
    steps.phase[n - 1] = max(time - last, 0.0)
    steps.replaces[n - 1] = replaces
    if constant:
        return n, count
    start = last
    while start + duration > time + SAME * max(1.0, abs(time)):
        n = _emit(steps, pending.room, n, 0.0, time, RATE, i, place, value)
        count = _push(pending, count, start + duration, 0.0, ONE, value, -1.0, place)
        start -= interval
        if n < 0 or count < 0:
            return n, count
    more = behind + events.additional[i]
    if more > 0:
        count = _push(
            pending, count, last + interval, interval, more, value, duration, place
        )
    return n, count


@njit(**INNER, error_model="numpy")
def _dose(events, dosing, i):
    """Return the amount of a dose, or the rate of its infusion, with duration and lag.

    The first is NaN where a share or lag is negative, or a modelled rate or duration
    not positive.
    """
    share, lag, rate = dosing.bioavailability[i], dosing.lag[i], events.rate[i]
    value, duration = events.amount[i] * share, 0.0
    known = share >= 0.0 and lag >= 0.0
    if rate == -2.0:
        duration = dosing.duration[i]
        known = known and duration > 0.0
        value /= duration
    elif rate != 0.0 and (value != 0.0 or events.amount[i] == 0.0):
        rate = dosing.rate[i] if rate == -1.0 else rate
        known = known and rate > 0.0
        duration, value = value / rate, rate
    return (value, duration, lag) if known else (math.nan, 0.0, 0.0)


@njit(**INNER, error_model="numpy", forceinline=True)
def schedule_subject(events, dosing, subject, n, steps, pending):
    """Append the steps of a subject to n others.

    The new number is returned, -1 where there is no room.
    """
    count = NONE
    clock = -math.inf
    for i in range(events.offsets[subject], events.offsets[subject + 1]):
        time, kind = events.time[i], events.kind[i]
        if clock == -math.inf:
            clock = time
        if kind >= 3:
            count = NONE
            n = _emit(steps, pending.room, n, 0.0, time, RESET, i, NONE, 0.0)
            clock = time
        n, count, clock = _fire(steps, n, pending, count, clock, time, i)
        elapsed = max(time - clock, 0.0)
        clock = max(clock, time)
        if kind == 1 or kind == 4:
            # What is due has been given; the rest of the way comes before the dose.
            if elapsed > 0.0:
                n = _emit(steps, pending.room, n, elapsed, time, RATE, i, NONE, 0.0)
                elapsed = 0.0
            value, duration, lag = _dose(events, dosing, i)
            if events.steady[i] > 0:
                n, count = _steady(
                    steps, n, pending, count, events, i, lag, value, duration
                )
            elif value != 0.0:
                count = _push(
                    pending, count, time + lag, events.interval[i],
                    1 + events.additional[i], value, duration, events.compartment[i],
                )  # fmt: skip
                n, count, clock = _fire(steps, n, pending, count, clock, time, i)
        n = _emit(steps, pending.room, n, elapsed, time, RECORD, i, NONE, 0.0)
        if n < 0 or count < 0:
            return -1
    return n


@njit(**INNER, error_model="numpy", forceinline=True)
def drop_records(steps, n, is_row, of_record, before, since, start):
    """Equal ``between_observations(...)`` of the schedules for the steps of a subject.

    They are dropped in place, and how many are left is returned. ``start`` rows come
    before the subject. A step stays where the parameters of another ``of_record``
    follow.
    """
    left, rows, elapsed = 0, 0, 0.0
    for s in range(n):
        record = steps.record[s]
        elapsed += steps.elapsed[s]
        if steps.action[s] == RECORD:
            if is_row[record]:
                since[rows] = elapsed
                rows += 1
            if s + 1 == n or of_record[steps.record[s + 1]] == of_record[record]:
                continue
        before[left] = start + rows
        steps.elapsed[left] = elapsed
        steps.action[left] = steps.action[s]
        steps.record[left] = record
        steps.compartment[left] = steps.compartment[s]
        steps.value[left] = steps.value[s]
        steps.duration[left] = steps.duration[s]
        steps.interval[left] = steps.interval[s]
        steps.phase[left] = steps.phase[s]
        steps.replaces[left] = steps.replaces[s]
        left += 1
        elapsed = 0.0
    return left


@njit(**OUTER, error_model="numpy")
def schedule(events, dosing, steps, pending):
    """Write the steps of all subjects and return whether there was room for them."""
    n, n_subjects = NONE, events.offsets.shape[0] - 1
    at, doses, written, room = address((events, dosing, steps, pending))
    written.offsets[0] = 0
    for subject in range(n_subjects):
        n = schedule_subject(at, doses, subject, n, written, room)
        if n < 0:
            return False
        written.offsets[subject + 1] = n
    return True
