"""Kaplan-Meier check: times to events in the data and in simulations."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.stats import CensoredData, ecdf

from sktem.choices import check_number
from sktem.e_step.random import seed_sequence
from sktem.mixed_effects.checks.rows import (
    ROWS_AT_ONCE,
    check_level,
    check_rows,
    rows_of_kind,
    rows_of_records,
    with_times,
)
from sktem.progress import counted

__all__ = ["KaplanMeierCheck", "kaplan_meier_check"]

#: Points at which a hazard is integrated for a simulated record, about.
NODES = 10


class KaplanMeierCheck(NamedTuple):
    """Share of subjects without an event, in the data and in simulated data.

    Attributes
    ----------
    times : ndarray of shape (n_times,)
        Times, from 0 on.
    observed : ndarray of shape (n_times,)
        Kaplan-Meier estimate of the data.
    lower, median, upper : ndarray of shape (n_times,)
        Band and median of the estimates of simulated data.
    level : float
        Probability of the band at each time.
    ends : ndarray of shape (n_subjects,)
        Time of the first event of each subject, or end of its observation.
    happened : ndarray of bool of shape (n_subjects,)
        Whether it is an event.
    """

    times: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    median: np.ndarray
    upper: np.ndarray
    level: float
    ends: np.ndarray
    happened: np.ndarray

    @property
    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Times from which the estimate of the data has a value, and these values."""
        last = self.ends.max()
        times = np.unique(np.r_[0.0, self.ends[self.happened], last])
        return times, _survival(self.ends, self.happened, times)


def kaplan_meier_check(
    estimator,
    X,
    y=None,
    groups=None,
    *,
    events=None,
    kind=None,
    n_times=50,
    level=0.9,
    n_simulations=200,
    random_state=None,
):
    """Compare times to events with those of simulated data sets.

    This is a visual predictive check for events. With repeated events, the first one of
    each subject counts. Simulated subjects have the doses and covariates of the
    observed ones, and are followed to the end of their observation. If an event was the
    last that is known about a subject, the end is drawn from those of the others (from
    the Kaplan-Meier estimate of the ends). Doses planned for the time after such an
    event have to be among the records.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator with events, such as by the ``hazards`` of
        :class:`sktem.compartments.Responses`.
    X : array-like of shape (n_rows, n_features) or Records
        Records with their observations, or inputs and covariates.
    y : array-like of shape (n_rows,) or None, default=None
        Observations. None with records.
    groups : array-like of shape (n_rows,) or None, default=None
        Subjects, which may be new ones. None with records.
    events : Doses, data frame, dict or None, default=None
        Doses of the subjects, as in ``fit``.
    kind : int or None, default=None
        CMT of the events; None means the only one there is.
    n_times : int, default=50
        Number of times at which estimates are compared, and up to which it is simulated
        whether an event has happened.
    level : float, default=0.9
        Probability of the band.
    n_simulations : int, default=200
        Number of simulated data sets, at least ``2 / (1 - level) - 1``.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    KaplanMeierCheck
        Estimates and the band.

    Raises
    ------
    ValueError
        If the level is outside (0, 1), there are too few simulations, or there are no
        events of one kind whose times are known.

    References
    ----------
    E. L. Kaplan and P. Meier, Nonparametric estimation from incomplete observations,
    Journal of the American Statistical Association, 1958.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.compartments import Responses, read_nonmem
    >>> from sktem.evaluation import kaplan_meier_check
    >>> time = np.random.default_rng(0).exponential(10.0, 80)
    >>> records = read_nonmem({
    ...     "ID": np.arange(80), "TIME": time.clip(max=20), "DV": time < 20
    ... })
    >>> hazard = Responses(
    ...     None, hazards={1: lambda p, records, c: p.H + 0 * c}, parameters=["H"]
    ... )
    >>> fit = NonlinearMixedEffectsRegressor(
    ...     hazard, parameters={"H": 0.2}, omega=[], residual_error="event"
    ... ).fit(records)
    >>> check = kaplan_meier_check(fit, records, random_state=0)
    >>> inside = (check.lower <= check.observed) & (check.observed <= check.upper)
    >>> bool(inside.mean() > 0.5)
    True
    """
    check_level(level, n_simulations)
    check_number("n_times", n_times, Integral, 1)
    rows = check_rows(estimator, X, y, groups, events)
    chosen = rows_of_kind(rows.kinds, kind, rows.is_event())
    if rows.records is None or not chosen.any():
        raise ValueError("there are no records of events")
    rows = rows.where(chosen)
    if len(np.unique(rows.kinds)) > 1:
        raise ValueError(f"kind must be one CMT, got {kind!r}")
    if rows.censored.any():
        raise ValueError("events with CENS have no time that could be compared")
    ends, happened, last, is_end = _first_events(rows)
    times = np.linspace(0.0, last.max(), n_times + 1)
    seen = np.where(is_end, last, last.max())
    design = _design(rows, seen, times[1:])
    rng = np.random.default_rng(seed_sequence(random_state))
    at_once = max(1, ROWS_AT_ONCE // (NODES * len(design.records)))
    shares = []
    label = "Kaplan-Meier check: blocks of simulated data sets"
    for first in counted(range(0, int(n_simulations), at_once), label):
        n_copies = min(at_once, int(n_simulations) - first)
        everything = np.arange(len(design.y))
        drawn = design.simulated(everything, n_copies, rng)
        passed = _simulated_events(design, drawn == 1, rng)
        followed = _drawn_ends(last, is_end, rng.random(passed.shape))
        shares += [
            _survival(np.minimum(event, end), event <= end, times)
            for event, end in zip(passed, followed, strict=True)
        ]
    tail = (1 - level) / 2
    lower, median, upper = np.quantile(
        shares, [tail, 0.5, 1 - tail], axis=0, method="weibull"
    )
    observed = _survival(ends, happened, times)
    return KaplanMeierCheck(
        times, observed, lower, median, upper, float(level), ends, happened
    )


def _time(rows):
    return rows.records["TIME"][rows.used]


def _first_events(rows):
    """Return ends, whether they are events, last times, and whether these are ends."""
    time = _time(rows)
    first = np.flatnonzero(np.r_[True, rows.subjects[1:] != rows.subjects[:-1]])
    last = np.r_[first[1:], len(time)] - 1
    places = np.where(rows.y == 1, np.arange(len(time)), len(time))
    place = np.minimum.reduceat(places, first)
    happened = place < len(time)
    ends = time[np.where(happened, place, last)]
    return ends, happened, time[last], rows.y[last] != 1


def _drawn_ends(last, is_end, uniforms):
    """Return ends of observation, drawn by the others' where they are not known."""
    if not is_end.any():
        return np.full(uniforms.shape, last.max())
    longer = ecdf(CensoredData(uncensored=last[is_end], right=last[~is_end])).sf
    levels = uniforms * longer.evaluate(last)
    place = np.searchsorted(-longer.probabilities, -levels)
    drawn = np.r_[longer.quantiles, last.max()][place]
    return np.where(is_end, last, drawn)


def _design(rows, followed, times):
    """Return records that ask for events up to times, as long as subjects are seen."""
    records = rows.records.take(np.unique(rows.subjects))
    own_times = [np.r_[times[times < end], end] for end in followed]
    source, is_new, offsets, time = with_times(records, own_times)
    kind = float(rows.kinds[0])
    was_event = (np.maximum(records["CMT"], 1) == kind) & (records["EVID"] == 0)
    new = dict.fromkeys(("EVID", "AMT", "RATE", "II", "ADDL", "SS", "CENS"), 0.0)
    new |= {"MDV": 0.0, "DV": 0.0, "CMT": kind}
    changes = {
        name: np.where(is_new, value, records[name][source])
        for name, value in new.items()
    }
    without_dose = ~is_new & was_event[source]  # no more than the covariates there
    changes["EVID"] = np.where(without_dose, 2.0, changes["EVID"])
    changes["MDV"] = np.where(without_dose, 1.0, changes["MDV"])
    changes["TIME"] = time
    records = records.copied(source, offsets, records.labels, changes)
    designed = rows_of_records(rows.fitted, records, None)
    return designed.where(designed.kinds == kind)


def _simulated_events(design, passed, rng):
    """Return times of simulated events, infinity for none."""
    time, n = _time(design), len(design.y)
    is_first = np.r_[True, design.subjects[1:] != design.subjects[:-1]]
    first = np.flatnonzero(is_first)
    begin = np.where(is_first, 0.0, np.r_[0.0, time[:-1]])
    place = np.minimum.reduceat(np.where(passed, np.arange(n), n), first, axis=1)
    happened, place = place < n, np.minimum(place, n - 1)
    # Somewhere between two times.
    since = rng.random(place.shape) * (time - begin)[place]
    return np.where(happened, begin[place] + since, np.inf)


def _survival(ends, happened, times):
    """Return the Kaplan-Meier estimate at times."""
    sample = CensoredData(uncensored=ends[happened], right=ends[~happened])
    return ecdf(sample).sf.evaluate(times)
