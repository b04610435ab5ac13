"""Kaplan-Meier check: against the binomial law of known hazards, and wrong ones."""

import numpy as np
import pytest
from scipy.stats import binom

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import Responses, read_nonmem
from sktem.evaluation import kaplan_meier_check
from sktem.plotting import KaplanMeierDisplay

N, RATE, END = 120, 0.1, 20.0


def records_of(time, ended):
    """Return records of events, or of the ends of observation before them."""
    return read_nonmem({
        "ID": np.arange(len(time)), "TIME": np.minimum(time, ended),
        "DV": (time < ended) * 1.0,
    })  # fmt: skip


def constant(data):
    """Return a fit of a constant hazard."""
    hazards = {1: lambda p, records, c: p.H * (1 + 0 * c)}
    return NonlinearMixedEffectsRegressor(
        Responses(None, hazards=hazards, parameters=["H"]), parameters={"H": RATE},
        omega=[], residual_error="event",
    ).fit(data)  # fmt: skip


def exponential(seed=0):
    return np.random.default_rng(seed).exponential(1 / RATE, N)


def by_hand(time, happened, at):
    """Return the product of the shares that pass each event."""
    steps = [
        1 - (happened & (time == t)).sum() / (time >= t).sum()
        for t in np.unique(time[happened & (time <= at)])
    ]
    return np.prod(steps)


def greenwood(check, at):
    """Return the standard error of the estimate."""
    time, total = check.ends, 0.0
    for t in time[check.happened & (time <= at)]:
        n = (time >= t).sum()
        total += 1 / (n * (n - 1))
    return by_hand(time, check.happened, at) * np.sqrt(total)


def outside(check):
    return (check.observed < check.lower) | (check.observed > check.upper)


def test_band_is_binomial_where_all_are_followed():
    time = exponential()
    data = records_of(time, END)
    fit = constant(data)
    check = kaplan_meier_check(fit, data, n_simulations=400, n_times=9, random_state=0)
    survival = np.exp(-fit.population_parameters_["H"] * check.times)
    # Of all N subjects a binomial number has no event so far.
    for band, share in ((check.lower, 0.05), (check.upper, 0.95)):
        wanted = binom.ppf(share, N, survival) / N
        np.testing.assert_allclose(band, wanted, atol=1.5 / N)
    np.testing.assert_allclose(check.median, survival, atol=1.5 / N)
    assert check.happened.sum() == (time < END).sum()
    assert not outside(check).any()
    # Negative control: events that begin late are not those of a constant hazard.
    late = records_of(4 + 0.6 * time, END)
    assert outside(
        kaplan_meier_check(constant(late), late, n_times=9, random_state=0)
    ).any()


def test_ends_of_observation(pyplot):
    time = exponential()
    ended = np.minimum(np.random.default_rng(1).exponential(8.0, N), END)
    data = records_of(time, ended)
    fit = constant(data)
    display = KaplanMeierDisplay.from_estimator(
        fit, data, n_times=20, n_simulations=500, random_state=0
    )
    check, first = display.check, slice(14)  # few are left later
    at = check.times[first]
    wanted = [by_hand(check.ends, check.happened, t) for t in at]
    np.testing.assert_allclose(check.observed[first], wanted)
    survival = np.exp(-fit.population_parameters_["H"] * at)
    np.testing.assert_allclose(check.median[first], survival, atol=0.03)
    # As wide as Greenwood's variance of the estimate says, also where most have left:
    # those with an event are not followed longer than the others.
    width = (check.upper - check.lower)[10:14] / (2 * 1.645)
    errors = [greenwood(check, t) for t in at[10:]]
    assert np.mean(width / errors) == pytest.approx(1, abs=0.06)
    assert len(display.marks_.get_xdata()) == (time >= ended).sum()
    assert display.line_.get_ydata()[0] == 1.0


def test_first_events_count():
    time, again = exponential(), exponential(1)
    columns = {
        "ID": np.repeat(np.arange(N), 3),
        "TIME": np.column_stack([time, time + again, time + again + 1]).ravel(),
        "DV": np.tile([1.0, 1.0, 0.0], N),
    }  # fmt: skip
    data = read_nonmem(columns)
    check = kaplan_meier_check(constant(data), data, random_state=0)
    np.testing.assert_array_equal(check.ends, time)
    assert check.happened.all() and not outside(check).any()


def test_wrong_use():
    data = records_of(exponential(), END)
    fit = constant(data)
    with pytest.raises(ValueError, match="n_simulations must be an integer of at"):
        kaplan_meier_check(fit, data, n_simulations=10)
    with pytest.raises(ValueError, match="kind must be among the CMT"):
        kaplan_meier_check(fit, data, kind=2)
    before = read_nonmem({**data.columns, "CENS": data["DV"]})
    with pytest.raises(ValueError, match="events with CENS have no time"):
        kaplan_meier_check(fit, before)
