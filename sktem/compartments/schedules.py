"""Steps of records: one schedule for closed forms and integrators."""

from __future__ import annotations

import numpy as np

from sktem.compartments.records import Records

__all__ = [
    "arrivals_of",
    "between_observations",
    "dosing_of",
    "dosing_places",
    "events_of",
    "most_steps",
    "no_steps",
    "steps_of",
]

#: Names of the parameters of doses, and their values where they are not given. A
#: compartment's own one has its number, such as F2.
DOSING = {"F": 1.0, "ALAG": 0.0, "D": np.nan, "R": np.nan}
#: Infusions at steady state that run at once, at most, where parameters say how long.
OVERLAPPING = 200


def events_of(records: Records):
    """Return the columns of records that describe doses and their times."""
    from sktem.compartments.kernels.schedule import Events

    columns = records.columns
    doses = (columns["EVID"] == 1) | (columns["EVID"] == 4)
    place = np.maximum(columns["CMT"].astype(np.int64) - 1, 0)
    return Events(
        columns["TIME"],
        columns["EVID"].astype(np.int64),
        columns["AMT"],
        columns["RATE"],
        columns["II"],
        columns["ADDL"].astype(np.int64),
        columns["SS"].astype(np.int64),
        np.where(doses, place, 0),
        records.offsets.astype(np.int64),
    )


def dosing_of(records: Records, parameters, defaults=DOSING):
    """Return the parameters of doses, one value for each record.

    ``parameters`` are arrays of shape (n_records,) by the names of DOSING, with the
    number of a compartment for one of its own.
    """
    from sktem.compartments.kernels.schedule import Dosing

    columns, n = records.columns, len(records)
    place = np.maximum(columns["CMT"].astype(np.int64), 1)
    dosing = {}
    for name, default in defaults.items():
        values = np.full(n, default)
        if name in parameters:
            values = parameters[name].copy()
        for numbered, own_values in parameters.items():
            if numbered.rstrip("0123456789") == name and numbered != name:
                here = place == int(numbered[len(name) :])
                values[here] = own_values[here]
        dosing[name] = values
    doses = (columns["EVID"] == 1) | (columns["EVID"] == 4)
    for rate, name, noun in ((-1, "R", "rate"), (-2, "D", "duration")):
        missing = doses & (columns["RATE"] == rate) & np.isnan(dosing[name])
        records.refuse(
            missing,
            f"RATE is {rate}, so that the {noun} of this infusion is a parameter: pass "
            f"{name!r}, or {name!r} with the number of the compartment",
        )
    return Dosing(dosing["F"], dosing["ALAG"], dosing["D"], dosing["R"])


def dosing_places(records: Records, places):
    """Return the place of each record's parameters of doses, -1 for the defaults.

    ``places`` are numbers by the names of parameters that :func:`dosing_of` takes.
    """
    numbers = {name: np.full(len(records), float(k)) for name, k in places.items()}
    found = np.array(dosing_of(records, numbers, dict.fromkeys(DOSING, np.nan)))
    return np.where(np.isnan(found), -1, found).astype(np.int64)


def arrivals_of(records: Records, dosing=None, rate=None):
    """Return the lag of the dose of each record, and how long it lasts: 0 for a bolus.

    ``dosing`` are its parameters, None without any, and ``rate`` is that of the dose
    where the column RATE does not have it.
    """
    rate = records["RATE"] if rate is None else rate
    lag, duration, share = np.zeros(len(records)), 0.0, 1.0
    if dosing is not None:
        lag, duration, share = dosing.lag, dosing.duration, dosing.bioavailability
        rate = np.where(rate == -1, dosing.rate, rate)
    lasts = records["AMT"] * share / np.where(rate > 0, rate, np.inf)
    return lag, np.where(rate == -2, duration, lasts)


def most_steps(events) -> int:
    """Return how many steps a subject may have, whatever the parameters of doses.

    Infusions at steady state that overlap are counted up to a number that no data have.
    """
    n_doses = np.where(events.amount != 0, 1 + events.additional, 1)
    steady = events.steady > 0
    last = np.repeat(events.time[events.offsets[1:] - 1], np.diff(events.offsets))
    way = np.divide(
        last - events.time,
        events.interval,
        out=np.zeros(len(last)),
        where=steady & (events.interval > 0),
    )
    per_record = 4 + 2 * n_doses + np.where(steady, OVERLAPPING + 2 * way, 0)
    return int(np.add.reduceat(per_record, events.offsets[:-1]).max())


def steps_of(records: Records, dosing, events=None):
    """Return the steps of all records."""
    from sktem.compartments.kernels import schedule

    if events is None:
        events = events_of(records)
    room = 2 * len(records) + 64
    while True:
        steps = no_steps(room, records.n_subjects)
        pending = schedule.Pending(
            np.empty(room),
            np.empty(room),
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int64),
            np.empty(room),
            np.empty(room),
            np.empty(room, dtype=np.int64),
            room,
        )
        if schedule.schedule(events, dosing, steps, pending):
            return steps
        room *= 2


def no_steps(room=0, n_subjects=0):
    """Return steps without values."""
    from sktem.compartments.kernels.schedule import Steps

    reals = [np.zeros(room) for _ in range(6)]
    whole = [np.zeros(room, dtype=np.int64) for _ in range(4)]
    return Steps(
        elapsed=reals[0],
        time=reals[1],
        action=whole[0],
        record=whole[1],
        compartment=whole[2],
        value=reals[2],
        duration=reals[3],
        interval=reals[4],
        phase=reals[5],
        replaces=whole[3],
        offsets=np.zeros(n_subjects + 1, dtype=np.int64),
    )


def between_observations(steps, observed, has_steady_states=True):
    """Return the steps without records, rows before each, and times of rows since.

    ``observed`` says which records are observations, the rows.
    """
    from sktem.compartments.kernels.schedule import RECORD

    n = steps.offsets[-1]
    is_record = steps.action[:n] == RECORD
    is_row = is_record & observed[steps.record[:n]]
    clock = np.cumsum(steps.elapsed[:n])
    # Of each step the one before that stays, or the first of the subject.
    index = np.repeat(steps.offsets[:-1], np.diff(steps.offsets))
    stays = np.where(is_record, index, np.arange(n))
    last = np.maximum.accumulate(stays)
    previous = np.maximum(np.r_[0, last[:-1]], index)
    since = clock - clock[previous]
    others = np.flatnonzero(~is_record)
    fields = {name: getattr(steps, name)[others] for name in steps._fields[:-1]}
    fields["elapsed"] = since[others]
    offsets = np.searchsorted(others, steps.offsets)
    before = np.cumsum(is_row)[others]
    between = type(steps)(**fields, offsets=offsets)
    if not has_steady_states:
        between = between.without_steady_states()
    return between, before, since[is_row]
