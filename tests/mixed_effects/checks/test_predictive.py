"""Visual predictive checks: percentiles by hand, and bands that keep their level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.evaluation import bin_times, prediction_factors, visual_predictive_check
from sktem.mixed_effects.checks import predictive as predictive_check
from tests.mixed_effects.fits import bolus_fit, bolus_rows, line_fit, line_rows
from tests.oracles import LIMIT, standard_errors, student_limit

# ------------------------------------------------------------------------------- bins


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.one_of(st.integers(1, 12), st.just("auto")),
)
def test_bins(values, bins):
    time = np.array(values, dtype=float)
    edges, numbers = bin_times(time, bins)
    n_bins = len(edges) - 1
    assert (np.diff(edges) > 0).all()
    assert sorted(set(numbers.tolist())) == list(range(n_bins))
    assert ((edges[numbers] <= time) & (time <= edges[numbers + 1])).all()
    distinct = len(np.unique(time))
    if bins == "auto":
        assert n_bins <= 12
        assert n_bins == distinct or distinct > 12
    else:
        assert n_bins == min(bins, distinct)
    # Later rows are in later bins, and rows of one time in one.
    order = np.argsort(time, kind="stable")
    steps, moves = np.diff(time[order]), np.diff(numbers[order])
    assert (moves >= 0).all() and (moves[steps == 0] == 0).all()


@pytest.mark.parametrize("n, n_bins", [(60, 7), (100, 10), (8, 8), (23, 5)])
def test_bins_have_about_as_many_rows(n, n_bins):
    time = np.random.default_rng(0).permutation(np.sqrt(np.arange(n)))
    counts = np.bincount(bin_times(time, n_bins)[1])
    assert len(counts) == n_bins and np.ptp(counts) <= 1


def test_given_edges():
    time = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    edges, numbers = bin_times(time, [1, 2.5, 4])
    assert edges.tolist() == [1, 2.5, 4]
    assert numbers.tolist() == [-1, 0, 0, 1, 1, -1]


@pytest.mark.parametrize("bins", ["even", 0, True, [1.0], [2, 1], [[1, 2]], None, 1.5])
def test_wrong_bins(bins):
    with pytest.raises(ValueError, match="bins must be"):
        bin_times(np.arange(5.0), bins)


def test_empty_bins():
    with pytest.raises(ValueError, match=r"bins that begin at \[10.0\]"):
        bin_times(np.arange(5.0), [0, 10, 20])


# ------------------------------------------------------------------------- correction


def test_correction_by_hand():
    prediction = np.array([2.0, 4.0, 10.0, 5.0, 5.0, 1.0, 3.0])
    numbers = np.array([0, 0, 0, 1, 1, 1, 1])
    # Medians 4 and 4; with the bound 1: 3 and 3.
    np.testing.assert_allclose(
        prediction_factors(prediction, numbers), [2, 1, 0.4, 0.8, 0.8, 4, 4 / 3]
    )
    np.testing.assert_allclose(
        prediction_factors(prediction, numbers, 1.0), [3, 1, 1 / 3, 0.75, 0.75, 1, 1.5]
    )
    with pytest.raises(ValueError, match=r"at least lower_bound=1.5, the least is .*1"):
        prediction_factors(prediction, numbers, 1.5)


@pytest.mark.parametrize("corrected", [False, True])
def test_percentiles_by_hand(corrected):
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    y[::7] = np.nan
    check = visual_predictive_check(
        fit, X, y, groups, quantiles=[0.25, 0.5], n_simulations=19,
        prediction_corrected=corrected, lower_bound=-1.0, random_state=0,
    )  # fmt: skip
    seen = ~np.isnan(y)
    X, y = X[seen], y[seen]
    np.testing.assert_array_equal(check.centres, np.linspace(1, 9, 5))
    psi = fit.population_parameters_
    typical = X[:, 0] / psi["V"] * np.exp(-psi["CL"] / psi["V"] * X[:, 1])
    for b, time in enumerate(check.centres):
        own = X[:, 1] == time
        values = y[own]
        if corrected:
            pred = typical[own]
            values = -1 + (values + 1) * (np.median(pred) + 1) / (pred + 1)
        np.testing.assert_allclose(check.values[own], values)
        np.testing.assert_allclose(
            check.observed[:, b], np.quantile(values, [0.25, 0.5])
        )
        assert check.counts[b] == own.sum()


def test_bands_by_hand():
    """The bands are order statistics of the percentiles of data sets."""
    fit, (X, y, groups) = line_fit(), line_rows()
    check = visual_predictive_check(
        fit, X, y, groups, quantiles=[0.1], level=0.8, n_simulations=9, random_state=3
    )
    copies = np.concatenate([groups + 100 * k for k in range(9)])
    rng = np.random.default_rng(np.random.SeedSequence(3))
    drawn = fit.fitted_.simulate(np.tile(X, (9, 1)), copies, rng).reshape(9, -1, 5)
    found = np.sort(np.quantile(drawn, 0.1, axis=1), axis=0)
    np.testing.assert_allclose(check.lower[0], found[0])
    np.testing.assert_allclose(check.median[0], found[4])
    np.testing.assert_allclose(check.upper[0], found[8])


def coverage(fit, rows, simulate, n_data_sets, **options):
    """Return how many of the percentiles are in their bands, by data set."""
    X, _, groups = rows
    found = []
    for seed in range(n_data_sets):
        y = simulate(seed)
        check = visual_predictive_check(
            fit, X, y, groups, n_simulations=99, random_state=seed, **options
        )
        inside = (check.lower <= check.observed) & (check.observed <= check.upper)
        found.append(inside.mean())
    return found


@pytest.mark.parametrize("corrected, level", [(False, 0.8), (True, 0.9)])
def test_bands_keep_their_level_under_the_model(corrected, level):
    fit, rows = bolus_fit("exponential"), bolus_rows(n=30)
    options = {"prediction_corrected": corrected, "level": level}

    def simulate(seed):
        return fit.simulate(rows[0], rows[2], random_state=10_000 + seed)

    found = coverage(fit, rows, simulate, 120, **options)
    assert standard_errors(found, level)[0] < LIMIT
    # Negative control: a residual error that does not grow with the prediction.
    wrong = bolus_fit()
    found = coverage(wrong, rows, simulate, 20, **options)
    assert (level - np.mean(found)) / (np.std(found) / np.sqrt(20)) > LIMIT


def test_correction_takes_away_what_doses_differ():
    """Doses that differ by four widen the percentiles, unless they are corrected."""
    fit, (X, y, groups) = bolus_fit("proportional"), bolus_rows(error="proportional")
    options = {"n_simulations": 19, "random_state": 0}
    wide = visual_predictive_check(fit, X, y, groups, **options).observed
    narrow = visual_predictive_check(
        fit, X, y, groups, prediction_corrected=True, **options
    ).observed
    assert (wide[2] / wide[0] > 1.5 * narrow[2] / narrow[0]).all()
    # With one dose, each time in a bin of its own, there is nothing to correct.
    same = X[:, 0] == 100
    plain, corrected = (
        visual_predictive_check(
            fit, X[same], y[same], groups[same], prediction_corrected=option, **options
        )
        for option in (False, True)
    )
    np.testing.assert_allclose(plain.upper, corrected.upper)
    np.testing.assert_allclose(plain.observed, corrected.observed)


def test_data_sets_in_parts(monkeypatch):
    fit, (X, y, groups) = line_fit(), line_rows()
    options = {"bins": [-1, 0.2, 0.6], "n_simulations": 400, "level": 0.5}
    runs = [
        visual_predictive_check(fit, X, y, groups, random_state=seed, **options).upper
        for seed in range(8)
    ]
    monkeypatch.setattr(predictive_check, "ROWS_AT_ONCE", 900)
    parts = [
        visual_predictive_check(fit, X, y, groups, random_state=seed, **options).upper
        for seed in range(8)
    ]
    difference = np.array(runs) - parts
    assert standard_errors(difference, 0.0).max() < student_limit(8)
    assert np.abs(difference).min() > 0


def test_bins_leave_out_rows():
    X, y, groups = line_rows()
    check = visual_predictive_check(
        line_fit(), X, y, groups, bins=[-0.6, 0.2, 0.6], n_simulations=19
    )
    assert check.counts.tolist() == [80, 40]
    np.testing.assert_allclose(check.centres, [-0.25, 0.5])
    assert len(check.time) == len(check.values) == 120
    assert (check.level, check.prediction_corrected) == (0.9, False)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"quantiles": [0.0, 0.5]}, "quantiles must be"),
        ({"quantiles": [[0.5]]}, "quantiles must be"),
        ({"level": 1.0}, "level must be"),
        ({"n_simulations": 18}, "at least 19 for level=0.9"),
        ({"n_simulations": 100.0}, "n_simulations must be an integer"),
        ({"time": 5}, "time must name"),
        ({"bins": "many"}, "bins must be"),
        ({"prediction_corrected": True}, "needs predictions of at least"),
    ],
)
def test_wrong_settings(options, message):
    with pytest.raises(ValueError, match=message):
        visual_predictive_check(line_fit(), *line_rows(), **options)


@pytest.mark.parametrize("clearance", [3.0, 2.2])
@pytest.mark.parametrize("seed", [0, 2])
def test_limits_of_two_laboratories(seed, clearance):
    """Values below the larger limit are at it, also where the other one measures."""
    rng, n = np.random.default_rng(seed), 120
    table = {
        "ID": np.repeat(np.arange(n), 4),
        "TIME": np.tile([0.0, 1.0, 6.0, 12.0], n),
        "AMT": np.tile([100.0, 0, 0, 0], n),
    }
    effects = rng.standard_normal((n, 2)) * (0.3, 0.2)
    psi = {"CL": 3 * np.exp(effects[:, 0]), "V": 20 * np.exp(effects[:, 1])}
    f = OneCompartment().predict(table, psi)
    y = f * (1 + 0.1 * rng.standard_normal(4 * n))
    limit = np.where(table["ID"] % 2, 0.5, 1.5)
    below = (y < limit) & (table["AMT"] == 0)
    observed = table["AMT"] == 0
    table |= {"DV": np.where(below, limit, y) * observed, "CENS": below * 1}
    known = {"CL": clearance, "V": 20.0, "omega2_CL": 0.09, "omega2_V": 0.04, "b": 0.1}
    fit = NonlinearMixedEffectsRegressor(
        OneCompartment(),
        parameters={"CL": 3.0, "V": 20.0},
        fixed=known,
        residual_error="proportional",
        random_state=0,
    ).fit(read_nonmem(table))
    check = visual_predictive_check(
        fit, read_nonmem(table), quantiles=(0.1, 0.25, 0.5, 0.9), level=0.99,
        n_simulations=300, random_state=0,
    )  # fmt: skip
    inside = (check.lower <= check.observed) & (check.observed <= check.upper)
    assert inside.all() == (clearance == 3.0)
