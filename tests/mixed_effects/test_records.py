"""Fits of dosing records: the exact maximum, and the same numbers as by formulas."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.base import clone

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.evaluation import (
    individual_curves,
    individual_residuals,
    population_residuals,
    visual_predictive_check,
)
from sktem.exceptions import FitWarning
from sktem.mixed_effects.doubtful_values import doubtful_columns, doubtful_values
from sktem.mixed_effects.last_climb import ClimbRule, LastClimb, NodeRule
from sktem.plotting import IndividualFitDisplay, PredictionDisplay, ResidualDisplay
from tests.mixed_effects.fits import bolus_fit, bolus_rows


def oral(**settings):
    return NonlinearMixedEffectsRegressor(
        OneCompartment("first-order"),
        parameters={"CL": 0.2, "V": 10.0, "KA": 1.0},
        residual_error="proportional",
        random_state=0,
        **settings,
    )


#: Settings of fits that need not arrive anywhere.
QUICK = {
    "covariates": {"CL": "WT"}, "omega": ["CL", "V"], "max_iter": 15, "tol": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def table():
    """Return records of 12 subjects who get two doses, and a covariate."""
    rng = np.random.default_rng(1)
    n, times = 12, np.array([0.0, 1.0, 3.0, 8.0, 12.0, 14.0, 20.0])
    weight = rng.uniform(50, 90, n)
    m = len(times)
    found = {
        "ID": np.repeat(np.arange(n), m),
        "TIME": np.tile(times, n),
        "AMT": np.tile([100.0, 0, 0, 0, 80.0, 0, 0], n),
        "WT": np.repeat(np.log(weight / 70), m),
    }
    psi = {
        "CL": 0.3 * np.exp(0.75 * np.log(weight / 70) + 0.2 * rng.standard_normal(n)),
        "V": 8.0 * np.exp(0.1 * rng.standard_normal(n)),
        "KA": 0.9,
    }
    f = OneCompartment("first-order").predict(found, psi)
    drawn = f * (1 + 0.1 * rng.standard_normal(len(f)))
    found["DV"] = np.where(found["AMT"] > 0, np.nan, drawn)
    return found


@pytest.fixture(scope="module")
def fit(table):
    return oral(covariates={"CL": "WT"}, omega=["CL", "V"]).fit(read_nonmem(table))


def test_reaches_the_maximum_of_warfarin(shared_data):
    # By quadrature at the estimates of NONMEM: -285.977 without the constants.
    data = read_nonmem(shared_data("pk/warfarin.csv.gz"))
    found = oral().fit(data)
    assert found.converged_
    constant = data.observed.sum() * np.log(2 * np.pi)
    value = -2 * found.log_likelihood() - constant
    assert value == pytest.approx(-285.977, abs=0.02)
    errors = found.standard_errors()
    wanted = {"CL": 7.09746e-3, "V": 0.240053, "KA": 0.148649, "b": 8.35411e-4}
    for name, error in wanted.items():
        assert errors[name] == pytest.approx(error, rel=0.02)


def test_equals_a_formula_of_superposition(table, fit):
    records = read_nonmem(table)
    seen = records.observed

    def formula(psi, X):
        ka, k = psi["KA"], psi["CL"] / psi["V"]
        total = 0.0
        for start, dose in ((0.0, 100.0), (12.0, 80.0)):
            t = np.maximum(X[:, 0] - start, 0.0)
            curve = np.exp(-k * t) - np.exp(-ka * t)
            total = total + dose * ka / psi["V"] / (ka - k) * curve
        return total

    plain = NonlinearMixedEffectsRegressor(
        formula,
        parameters={"CL": 0.2, "V": 10.0, "KA": 1.0},
        covariates={"CL": 1},
        omega=["CL", "V"],
        residual_error="proportional",
        random_state=0,
    )
    X = np.column_stack([table["TIME"], table["WT"]])[seen]
    plain.fit(X, table["DV"][seen], groups=table["ID"][seen])
    assert fit.log_likelihood() == pytest.approx(plain.log_likelihood(), abs=1e-3)
    for name, value in plain.population_parameters_.items():
        assert fit.population_parameters_[name] == pytest.approx(value, rel=1e-3)
    assert fit.covariate_effects_[("CL", "WT")] == pytest.approx(
        plain.covariate_effects_[("CL", "x1")], rel=0.01
    )


def test_new_records(table, fit):
    records = read_nonmem(table)
    found = fit.predict(records)
    assert found.shape == (len(records),)
    psi = {**fit.individual_parameters(), "KA": fit.population_parameters_["KA"]}
    wanted = OneCompartment("first-order").predict(records, psi)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    new = read_nonmem({**table, "ID": table["ID"] + 100})
    typical = fit.predict(new)
    effect = fit.covariate_effects_[("CL", "WT")]
    CL = fit.population_parameters_["CL"] * np.exp(effect * table["WT"])
    wanted = OneCompartment("first-order").predict(
        new, {**fit.population_parameters_, "CL": CL}
    )
    np.testing.assert_allclose(typical, wanted, rtol=1e-9)
    again = fit.individual_parameters(X=new)
    np.testing.assert_allclose(again["CL"], psi["CL"], rtol=1e-5)
    assert fit.log_likelihood(new) == pytest.approx(fit.log_likelihood(), abs=1e-6)


def test_simulated_records(table, fit):
    records = read_nonmem(table)
    drawn = fit.simulate(records, random_state=0)
    assert np.isnan(drawn[~records.observed]).all()
    np.testing.assert_array_equal(drawn, fit.simulate(records, random_state=0))
    many = np.array([fit.simulate(records, random_state=k) for k in range(300)])
    some = many[:, records.observed]
    # A mean of log-normal clearances is near that of the typical subject.
    typical = fit.predict(read_nonmem({**table, "ID": table["ID"] + 100}))
    np.testing.assert_allclose(
        np.median(some, axis=0), typical[records.observed], rtol=0.12
    )


def test_covariates_that_vary(table):
    changing = {**table, "STATE": (table["TIME"] > 10).astype(float)}
    found = oral(covariates={"CL": "STATE"}, omega=["CL", "V"], max_iter=20, tol=0)
    found.fit(read_nonmem(changing))
    effect = found.covariate_effects_[("CL", "STATE")]
    psi = found.population_parameters_
    CL = psi["CL"] * np.exp(effect * changing["STATE"])
    new = read_nonmem({**changing, "ID": table["ID"] + 100})
    wanted = OneCompartment("first-order").predict(new, {**psi, "CL": CL})
    np.testing.assert_allclose(found.predict(new), wanted, rtol=1e-9)
    held = oral(
        covariates={"CL": "STATE"}, omega=["CL"], fixed={"beta_STATE(CL)": 0.4},
        omega_start={"CL": 0.04}, max_iter=5, tol=0,
    ).fit(read_nonmem(changing))  # fmt: skip
    psi = held.population_parameters_
    CL = psi["CL"] * np.exp(0.4 * changing["STATE"])
    wanted = OneCompartment("first-order").predict(new, {**psi, "CL": CL})
    np.testing.assert_allclose(held.predict(new), wanted, rtol=1e-9)
    assert held.covariate_effects_ == {("CL", "STATE"): 0.4}


@pytest.fixture(scope="module")
def quick(table):
    return oral(**QUICK).fit(read_nonmem(table))


def test_doses_apart(table, quick):
    frame = pd.DataFrame(table)
    dosed = frame.AMT > 0
    doses, own = frame.loc[dosed, ["ID", "TIME", "AMT", "WT"]], frame[~dosed]
    X = own[["TIME", "WT"]]
    fit, found = quick, oral(**QUICK)
    found.fit(X, own.DV, groups=own.ID, events=doses)
    assert found.log_likelihood() == fit.log_likelihood()
    assert found.population_parameters_ == fit.population_parameters_
    given = {"groups": own.ID, "events": doses}
    whole = fit.predict(read_nonmem(table))[~dosed]
    np.testing.assert_allclose(found.predict(X, **given), whole, rtol=1e-12)
    shuffled = X.index[np.random.default_rng(0).permutation(len(X))]
    again = found.predict(X.loc[shuffled], groups=own.ID[shuffled], events=doses)
    np.testing.assert_allclose(again, pd.Series(whole, X.index)[shuffled], rtol=1e-12)
    assert found.log_likelihood(X, own.DV, **given) == pytest.approx(
        fit.log_likelihood(), abs=1e-6
    )
    score = found.score(X, own.DV, **given)
    assert score > 0.9
    found.set_params(model="one_compartment_iv")  # for the next fit
    assert found.score(X, own.DV, **given) == score
    assert np.isfinite(found.log_likelihood(read_nonmem(table)))
    found.set_params(model=fit.model)
    drawn = found.simulate(X, random_state=0, **given)
    assert drawn.shape == (len(X),) and np.isfinite(drawn).all()
    one = found.individual_parameters(X, own.DV, **given)
    np.testing.assert_allclose(one["CL"], fit.individual_parameters()["CL"], rtol=1e-5)
    with pytest.raises(ValueError, match="groups is missing"):
        found.predict(X, events=doses)


def test_doses_as_columns(table, quick):
    frame = pd.DataFrame(table)
    X, y = frame[["TIME", "AMT", "WT"]], frame.DV.where(frame.AMT == 0)
    fit, found = quick, oral(**QUICK)
    found.fit(X, y, groups=frame.ID)
    assert found.population_parameters_ == fit.population_parameters_
    np.testing.assert_allclose(
        found.predict(X, groups=frame.ID), fit.predict(read_nonmem(table)), rtol=1e-12
    )


def test_intervals_hold_their_probability(table, fit):
    side, limit = np.zeros(len(table["DV"])), np.full(len(table["DV"]), np.nan)
    side[[2, 9]], limit[[2, 9]] = 1, 0.0
    side[10], limit[10] = -1, table["DV"][10] + 2.0
    records = read_nonmem({**table, "CENS": side, "LIMIT": limit})
    rows = fit._fitted_on(records, None, None, None, "").rows
    plain = fit._fitted_on(read_nonmem(table), None, None, None, "").rows
    model, params = fit.fitted_.model, fit.params_
    Z = model.prior_moments(rows, params)[0]
    f = model.predict_rows(rows, Z, params.numeric)
    given = Z, params.sigma, params.numeric
    found = model.row_log_likelihood(rows, *given)
    b, y = params.sigma[1], rows.y
    wanted = model.row_log_likelihood(plain, *given)
    for j in np.flatnonzero(rows.censored):
        ends = np.array(sorted([y[j], rows.limits[j]]))
        low, high = norm.cdf((ends - f[j]) / (b * f[j]))
        wanted[j] = np.log(high - low)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    # Far in the tail, where both probabilities are one up to rounding.
    far = model.error.log_likelihood(
        np.array([14.0]), np.array([1.0]), [0, 1.0], 1e-9, np.ones(1), np.array([13.0])
    )
    exact = norm.logsf(12) + np.log1p(-np.exp(norm.logsf(13) - norm.logsf(12)))
    np.testing.assert_allclose(far, exact, rtol=1e-9)
    with pytest.raises(ValueError, match="LIMIT must be below DV"):
        read_nonmem({**table, "CENS": np.abs(side), "LIMIT": limit})


def test_checks_of_records(table, fit):
    records = read_nonmem(table)
    check = visual_predictive_check(fit, records, n_simulations=100, random_state=0)
    assert check.counts.sum() == records.observed.sum()
    at = records.observed & (records["TIME"] == 3.0)
    wanted = np.quantile(records["DV"][at], [0.05, 0.5, 0.95])
    np.testing.assert_allclose(check.observed[:, check.centres == 3.0][:, 0], wanted)
    inside = (check.lower <= check.observed) & (check.observed <= check.upper)
    assert inside.mean() > 0.7
    corrected = visual_predictive_check(
        fit, records, n_simulations=50, prediction_corrected=True, random_state=0
    )
    assert corrected.counts.tolist() == check.counts.tolist()
    found = population_residuals(fit, records, n_simulations=200, random_state=0)
    assert np.isnan(found.npde[~records.observed]).all()
    seen = found.npde[records.observed]
    assert abs(seen.mean()) < 4 / np.sqrt(len(seen))
    assert 0.7 < seen.std() < 1.3
    b = fit.residual_error_["b"]
    seen, f = records.observed, fit.predict(records)
    wanted = (records["DV"][seen] / f[seen] - 1) / b
    np.testing.assert_allclose(individual_residuals(fit, records)[seen], wanted)


@pytest.fixture
def ways(table):
    """Return the same data as records, with AMT among the columns, and apart."""
    frame = pd.DataFrame(table)
    dosed = frame.AMT > 0
    apart = frame[~dosed]
    return ~dosed.to_numpy(), [
        {"X": read_nonmem(table)},
        {"X": frame[["TIME", "AMT", "WT"]], "y": frame.DV, "groups": frame.ID},
        {
            "X": apart[["TIME", "WT"]], "y": apart.DV, "groups": apart.ID,
            "events": frame.loc[dosed, ["ID", "TIME", "AMT", "WT"]],
        },
    ]  # fmt: skip


def test_every_check_takes_records_in_three_ways(ways, quick, pyplot):
    observed, data = ways
    found = []
    for given in data:
        options = {"n_simulations": 20, "random_state": 0}
        iwres = individual_residuals(quick, **given)
        npde = population_residuals(quick, **given, **options).npde
        check = visual_predictive_check(quick, **given, level=0.5, **options)
        (curve,) = individual_curves(quick, **given, subjects=[3], n_points=7)
        if "events" not in given:
            assert np.isnan(iwres[~observed]).all()
            iwres, npde = iwres[observed], npde[observed]
        residuals = ResidualDisplay.from_estimator(quick, **given, **options)
        np.testing.assert_allclose(residuals.residuals[0].values, iwres)
        np.testing.assert_allclose(residuals.residuals[1].values, npde)
        shown = PredictionDisplay.from_estimator(quick, **given).individual
        panels = IndividualFitDisplay.from_estimator(quick, **given, n_subjects=2)
        assert [panel.get_title() for panel in panels.axes_] == ["0", "1"]
        score = quick.score(**given)
        found.append([iwres, npde, *check[1:8], *curve[1:6], shown, score])
    for others in found[1:]:
        for value, other in zip(found[0], others, strict=True):
            np.testing.assert_allclose(other, value, rtol=1e-9)
    y, f = data[2]["y"], quick.predict(data[0]["X"])[observed]
    left = ((y - f) ** 2).mean() / y.var(ddof=0)
    assert found[0][-1] == pytest.approx(1 - left)


def test_curves_of_records(table, quick):
    grid = np.linspace(0, 20, 9)
    dense = {
        "ID": np.full(11, 3), "TIME": np.r_[0.0, grid[:5], 12.0, grid[5:]],
        "AMT": np.r_[100.0, np.zeros(5), 80.0, np.zeros(4)],
    }  # fmt: skip
    psi = {name: v[3] for name, v in quick.individual_parameters().items()}
    wanted = OneCompartment("first-order").predict(dense, psi)[dense["AMT"] == 0]
    curve = individual_curves(quick, read_nonmem(table), n_points=9)[3]
    np.testing.assert_array_equal(curve.grid, grid)
    np.testing.assert_allclose(curve.individual, wanted, rtol=1e-9)
    weight = table["WT"][table["ID"] == 3][0]
    psi = dict(quick.population_parameters_)
    psi["CL"] *= np.exp(quick.covariate_effects_["CL", "WT"] * weight)
    wanted = OneCompartment("first-order").predict(dense, psi)[dense["AMT"] == 0]
    np.testing.assert_allclose(curve.population, wanted, rtol=1e-9)
    own = (table["ID"] == 3) & (table["AMT"] == 0)
    np.testing.assert_array_equal(curve.time, table["TIME"][own])
    kinds = read_nonmem({**table, "CMT": np.where(table["TIME"] > 10, 2, 1)})
    kinds.columns["CMT"][table["AMT"] > 0] = 1
    found = individual_curves(quick, kinds, subjects=[3])
    assert [(c.label, c.kind, len(c.time)) for c in found] == [(3, 1, 3), (3, 2, 2)]
    with pytest.raises(ValueError, match="run along TIME"):
        individual_curves(quick, kinds, time="WT")


def test_wrong_data_of_checks(table, quick):
    with pytest.raises(ValueError, match="needs records"):
        quick.predict(np.ones((4, 2)))
    with pytest.raises(ValueError, match="needs records"):
        individual_residuals(quick, np.ones((4, 2)), np.ones(4), np.zeros(4))
    new = read_nonmem({**table, "ID": table["ID"] + 100})
    with pytest.raises(ValueError, match="that fit has seen, got .100"):
        individual_residuals(quick, new)
    doses = {"TIME": [0.0], "AMT": [1.0]}
    for method in (quick.individual_parameters, quick.log_likelihood):
        with pytest.raises(ValueError, match="needs X, y and groups"):
            method(events=doses)
    # A subject without observations has rows and no residuals.
    more = {name: np.append(column, column[0]) for name, column in table.items()}
    more["ID"][-1] = 99
    found = individual_residuals(quick, read_nonmem(more))
    assert len(found) == len(more["ID"]) and np.isnan(found[-1])


def test_checks_of_censored_records(table, fit):
    low = (table["AMT"] == 0) & (table["DV"] < 7.0)
    censored = read_nonmem(
        {**table, "CENS": low * 1, "DV": np.where(low, 7.0, table["DV"])}
    )
    check = visual_predictive_check(fit, censored, n_simulations=100, random_state=0)
    assert check.observed.min() == 7.0 and check.lower.min() == 7.0
    found = population_residuals(fit, censored, n_simulations=200, random_state=0)
    seen = found.npde[censored.observed]
    assert np.isfinite(seen).all() and 0.6 < seen.std() < 1.4
    assert np.isnan(individual_residuals(fit, censored)[low]).all()


def test_wrong_use(table):
    records = read_nonmem(table)
    with pytest.raises(ValueError, match="y and groups must be None"):
        oral().fit(records, table["DV"])
    with pytest.raises(ValueError, match="needs records"):
        oral().fit(np.ones((4, 2)), np.ones(4), groups=[0, 0, 1, 1])
    with pytest.raises(ValueError, match="needs the parameters"):
        NonlinearMixedEffectsRegressor(
            OneCompartment("first-order"), parameters={"CL": 1.0, "V": 1.0}
        ).fit(records)
    with pytest.raises(ValueError, match="has no doses"):
        NonlinearMixedEffectsRegressor(
            lambda psi, X: psi["a"] * X["TIME"], parameters={"a": 1.0}
        ).fit(records)
    blind = {name: values for name, values in table.items() if name != "DV"}
    with pytest.raises(ValueError, match="record 2 .*: DV is missing"):
        oral().fit(read_nonmem(blind))


def test_censored_observations_of_warfarin(shared_data):
    # By quadrature (M3): -216.8059 without the constants of what is not censored.
    data = read_nonmem(shared_data("pk/warfarin_bloq.csv.gz"))
    found = oral().fit(data)
    assert found.converged_
    value = -2 * found.log_likelihood() - 100 * np.log(2 * np.pi)
    assert value == pytest.approx(-216.8059, abs=2e-3)
    wanted = {"CL": 0.1328, "V": 7.7315, "KA": 0.80984}
    assert found.population_parameters_ == pytest.approx(wanted, rel=1e-3)
    with pytest.raises(ValueError, match="no linearized likelihood"):
        found.log_likelihood(method="linearized")


def below_quantification():
    """Return 12 oral studies with values below .5, one subject having no others."""
    rng, n, times = np.random.default_rng(1), 12, np.array([0, 0.5, 1, 2, 4, 8, 12, 24])
    m = len(times)
    table = {
        "ID": np.repeat(np.arange(n), m),
        "TIME": np.tile(times, n),
        "AMT": np.tile([100.0] + [0.0] * (m - 1), n),
        "CMT": np.tile([1] + [2] * (m - 1), n),
    }
    table["AMT"][0] = 5.0
    typical = {"CL": 4.0, "V": 30.0, "KA": 1.0}
    psi = {k: v * np.exp(0.7 * rng.standard_normal(n)) for k, v in typical.items()}
    f = OneCompartment("first-order").predict(table, psi)
    y = f * (1 + 0.1 * rng.standard_normal(len(f)))
    table["AMT"][0] = 100.0
    observed = table["AMT"] == 0
    drawn = np.where(observed, np.maximum(y, 0.5), 0.0)
    return table | {"DV": drawn, "CENS": (y < 0.5) & observed}


def test_nodes_rise_until_they_change_nothing():
    """With few nodes the steps end at another place, which is no maximum."""
    records = read_nonmem(below_quantification())
    fit = oral().set_params(parameters={"CL": 4.0, "V": 30.0, "KA": 1.0}).fit(records)
    assert fit.converged_
    fitted = fit.fitted_

    def exact(params):
        return fitted.at(params).log_likelihood("quadrature", n_nodes=25)[0]

    def ended(params, seed=0, **nodes):
        rule = ClimbRule(nodes=NodeRule(**nodes))
        climb = LastClimb(fitted.problem, fitted.vector, rule)
        ascent = climb.ascended(params, np.random.default_rng(seed))
        return ascent, exact(ascent.params), climb.doubt(ascent)

    value = exact(fitted.params)
    # Negative control: the first nodes are believed.
    huge = (1.0, 10.0, 10.0)
    _, found, _ = ended(fitted.model.start, same=huge, alike=huge)
    assert found < value - 0.2
    # Where there cannot be more nodes, steps with draws end near the maximum.
    few = {"most_of_subject": 400, "alike": (0.05, 0.2, 0.01)}
    drawn, found, doubt = ended(fitted.params, **few)
    assert drawn.by_nodes.shift == 0.0
    assert found == pytest.approx(value, abs=0.05)
    assert not doubt
    # Few draws are told, whatever they are.
    for seed in range(4):
        assert ended(fitted.params, seed, **few, n_draws=12)[2]


def test_censored_rows_are_probabilities(table, fit):
    side = np.zeros(len(table["DV"]))
    side[[2, 10]], side[11] = 1, -1
    records = read_nonmem({**table, "CENS": side})
    plain, other = fit._fitted_on(read_nonmem(table), None, None, None, ""), None
    other = fit._fitted_on(records, None, None, None, "")
    model, params, rows = other.model, other.params, other.rows
    Z = model.prior_moments(rows, params)[0]
    f = model.predict_rows(rows, Z, params.numeric)
    b = fit.residual_error_["b"]
    values = model.row_log_likelihood(rows, Z, params.sigma, params.numeric)
    before = model.row_log_likelihood(plain.rows, Z, params.sigma, params.numeric)
    seen = side[read_nonmem(table).observed]
    np.testing.assert_array_equal(values[seen == 0], before[seen == 0])
    for row in np.flatnonzero(seen):
        below = norm.cdf(rows.y[row], f[row], b * f[row])
        share = below if seen[row] > 0 else 1 - below
        assert values[row] == pytest.approx(np.log(share), rel=1e-9)


def test_patient_without_a_fit(table):
    patient = {name: values[:7] for name, values in table.items()}
    records = read_nonmem(patient)
    settings = {
        "parameters": {"CL": 0.3, "V": 8.0, "KA": 0.9},
        "omega": ["CL", "V"],
        "residual_error": "proportional",
        "covariates": {"CL": "WT"},
    }
    fixed = {"b": 0.1, "beta_WT(CL)": 0.75}
    variances = {"CL": 0.04, "V": 0.01}
    model = OneCompartment("first-order")
    published = NonlinearMixedEffectsRegressor(
        model, omega_start=variances, fixed=fixed, **settings
    )
    found = published.individual_parameters(records)
    assert not hasattr(published, "params_")
    mean = np.log([0.3, 8.0]) + [0.75 * patient["WT"][0], 0.0]
    seen = records.observed

    def minus_log_posterior(z):
        psi = {"CL": np.exp(z[0]), "V": np.exp(z[1]), "KA": 0.9}
        f = model.predict(records, psi)[seen]
        scaled = (patient["DV"][seen] - f) / (0.1 * f)
        prior = ((z - mean) ** 2 / [0.04, 0.01]).sum()
        return 0.5 * (scaled**2).sum() + np.log(f).sum() + 0.5 * prior

    best = minimize(minus_log_posterior, mean, method="Nelder-Mead",
                    options={"xatol": 1e-7, "fatol": 1e-10}).x  # fmt: skip
    np.testing.assert_allclose(found["CL"], np.exp(best[0]), rtol=1e-4)
    np.testing.assert_allclose(found["V"], np.exp(best[1]), rtol=1e-4)
    assert found["KA"] == pytest.approx(0.9)
    with pytest.raises(ValueError, match=r"variances of \['V'\]"):
        published.set_params(omega_start={"CL": 0.04}).individual_parameters(records)
    published.set_params(omega_start=variances, fixed={"beta_WT(CL)": 0.75})
    with pytest.raises(ValueError, match=r"residual error \['b'\]"):
        published.individual_parameters(records)
    published.set_params(fixed={"b": 0.1})
    with pytest.raises(ValueError, match=r"fixed must have the effects \['beta_WT.CL"):
        published.individual_parameters(records)


def test_patient_of_a_population_with_correlated_effects(table):
    patient = {name: values[:7] for name, values in table.items()}
    model, seen = OneCompartment("first-order"), patient["AMT"] == 0
    parameters = {"CL": 0.3, "V": 8.0, "KA": 0.9}
    fixed = {"omega2_CL": 0.09, "omega2_V": 0.04, "cov_CL_V": 0.05, "b": 0.3}
    published = NonlinearMixedEffectsRegressor(
        model, parameters=parameters, omega=[[1, 1, 0], [1, 1, 0], [0, 0, 0]],
        fixed=fixed, residual_error="proportional",
    )  # fmt: skip
    found = published.individual_parameters(read_nonmem(patient))
    precision = np.linalg.inv([[0.09, 0.05], [0.05, 0.04]])

    def minus_log_posterior(z):
        f = model.predict(patient, {"CL": np.exp(z[0]), "V": np.exp(z[1]), "KA": 0.9})
        scaled = (patient["DV"][seen] / f[seen] - 1) / 0.3
        rest = z - np.log([0.3, 8.0])
        return 0.5 * (scaled @ scaled + rest @ precision @ rest) + np.log(f[seen]).sum()

    best = minimize(minus_log_posterior, np.log([0.3, 8.0]), method="Nelder-Mead",
                    options={"xatol": 1e-7, "fatol": 1e-10}).x  # fmt: skip
    np.testing.assert_allclose([found["CL"][0], found["V"][0]], np.exp(best), rtol=1e-4)
    del fixed["cov_CL_V"], fixed["omega2_CL"], fixed["omega2_V"]
    published.set_params(omega_start=0.1, fixed=fixed)
    with pytest.raises(ValueError, match=r"must have the covariances \['cov_CL_V'\]"):
        published.individual_parameters(read_nonmem(patient))


def test_summary(fit):
    pytest.importorskip("pandas")
    table = fit.summary_
    assert table.loc["CL", "estimate"] == fit.population_parameters_["CL"]
    assert table.loc["omega2_V", "estimate"] == fit.omega_[1, 1]
    error = fit.standard_errors()["V"]
    assert table.loc["V", "standard_error"] == error
    relative = 100 * error / fit.population_parameters_["V"]
    assert table.loc["V", "relative_standard_error"] == pytest.approx(relative)
    assert table.loc["omega2_CL", "shrinkage"] == fit.shrinkage()["CL"]
    assert table.attrs["aic"] == fit.aic()
    assert table.attrs["n_observations"] == fit.fitted_.rows.n_rows


def test_values_before_any_dose_are_told(table):
    rows = pd.DataFrame(table)
    late = rows.copy()
    # The doses of one subject come after all of its samples.
    late.loc[(late.ID == 2) & (late.AMT > 0), "TIME"] += 100.0
    late = late.sort_values(["ID", "TIME"], kind="stable")
    message = r"ID 2, TIME 1\): no dose of this subject comes before.*combined"
    with pytest.raises(ValueError, match=message):
        oral(**QUICK).fit(read_nonmem(late))
    undosed = rows[(rows.ID != 3) | (rows.AMT == 0)]
    with pytest.raises(ValueError, match="no dose of this subject comes before"):
        oral(**QUICK).fit(read_nonmem(undosed))
    combined = {**QUICK, "residual_error": "combined"}
    with pytest.warns(FitWarning, match=r"1 of 12 subjects, such as \[3.*no dose"):
        NonlinearMixedEffectsRegressor(
            OneCompartment("first-order"),
            parameters={"CL": 0.2, "V": 10.0, "KA": 1.0}, random_state=0, **combined,
        ).fit(read_nonmem(undosed))  # fmt: skip
    # Samples before a dose that are zero are as predicted, and need no word.
    early = rows[rows.TIME == 0].assign(TIME=-1.0, AMT=0.0, DV=0.0)
    both = pd.concat([early, rows]).sort_values(["ID", "TIME"], kind="stable")
    records = read_nonmem(both)
    assert records.undosed.sum() == 12
    est = oral(**QUICK)
    with pytest.warns(FitWarning, match="12 of 72 predictions are zero"):
        est.fit(records)


def changed(table, change):
    rows = pd.DataFrame(table)
    rows["CENS"] = 0
    change(rows)
    return oral(omega=["CL", "V"]).fit(read_nonmem(rows))


def zero_at_the_end(rows):
    rows.loc[(rows.ID == 5) & (rows.TIME == 20), "DV"] = 0.0


def all_are_bounds(rows):
    rows.loc[rows.AMT == 0, ["CENS", "DV"]] = [1, 10.0]


def one_in_other_units(rows):
    rows.loc[rows.ID == 6, "DV"] *= 1000.0


def one_dose_in_other_units(rows):
    rows.loc[rows.ID == 6, "AMT"] *= 1000.0


def a_third_in_other_units(rows):
    rows.loc[rows.ID % 3 == 0, "DV"] *= 1000.0


def a_third_are_small(rows):
    rows.loc[rows.ID % 3 == 0, "DV"] *= 3.0


def one_is_censored(rows):
    rows.loc[(rows.ID == 5) & (rows.TIME == 20), "CENS"] = 1


def one_is_flagged(rows):
    rows["BLQ"] = ((rows.ID == 5) & (rows.TIME == 20)).astype(int)


@pytest.mark.parametrize(
    "change, told",
    [
        (one_is_flagged, "BLQ is 1 in 1 observations, .* call it CENS"),
        (zero_at_the_end, "1 of 60 observations after a dose are zero or less.*CENS"),
        (all_are_bounds, r"All observations are bounds \(CENS\)"),
        (one_in_other_units, r"subjects \[6(.0)?\] differ .* check the units"),
        (one_dose_in_other_units, r"subjects \[6(.0)?\] differ .* check the units"),
        (a_third_in_other_units, r"subjects \[.*9.*\] differ .* check the units"),
        (a_third_are_small, None),
        (one_is_censored, None),
    ],
)
def test_wrong_values_are_told(table, change, told):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        changed(table, change)
    messages = " ".join(str(one.message) for one in found)
    assert bool(messages) == bool(told), messages
    assert told is None or re.search(told, messages), messages


def test_columns_that_nothing_reads_are_told(table, fit):
    """Those that may change what DV is, and only where they do."""
    frame = pd.DataFrame(table)
    is_dose, late = frame.AMT > 0, frame.TIME == 20
    least = frame.DV[late].max()

    def told(fitted=fit, **columns):
        data = read_nonmem(frame.assign(**columns))
        return "".join(
            doubtful_columns(fitted._fitted_on(data, *[None] * 3, "").problem)
        )

    assert told() == ""
    below = late.astype(int)
    assert "BQL is 1 in 12 observations" in told(BQL=below)
    assert 'columns={"CENS": "blq"}' in told(blq=late)
    assert told(BQL=below, MDV=(late | is_dose).astype(int)) == ""
    assert told(BQL=below, CENS=below) == ""
    count = (frame.DV[~is_dose] <= least).sum()
    assert f"{count} observations are not above LLOQ" in told(LLOQ=least)
    assert told(LOQ=0.5 * frame.DV[~is_dose].min()) == ""
    limit = {"LLQ": 1e-3, "CENS": below}
    assert "12 observations whose DV is not LLQ" in told(**limit)
    assert told(**limit, DV=np.where(late, 1e-3, frame.DV)) == ""
    kinds = np.where(late, "pd", "pk")
    assert "one CMT have DVID ['pd', 'pk']" in told(DVID=kinds)
    assert told(DVID=kinds, MDV=(late | is_dose).astype(int)) == ""
    assert "call their duration DUR" in told(TINF=np.where(is_dose, 2.0, 0.0))
    assert told(TINF=0.0) == ""
    occasions = 1 + late.astype(int)
    assert "12 subjects are observed on several occasions (OCC)" in told(OCC=occasions)
    assert told(OCC=1) == ""
    assert told(OCC=frame.ID) == ""
    assert told(OCC=np.where(is_dose, 1, 2)) == ""
    assert told(OCC=np.where(late, np.nan, 1.0)) == ""  # not known is none
    assert "number them, and pass" in told(OCC=np.where(late, "two", "one"))
    assert told(OCC=np.where(late, ".", "one")) == ""
    assert told(OCC=frame.ID.map("visit {}".format)) == ""
    flagged = frame.assign(BQL=below)
    read = oral(**{**QUICK, "covariates": {"V": "BQL"}}).fit(flagged)
    assert doubtful_columns(read.fitted_.problem) == []
    X, y, groups = bolus_rows()
    X = pd.DataFrame(X, columns=["dose", "time"]).assign(CENS=(y < 1).astype(int))
    with pytest.warns(FitWarning, match="'CENS' of X is not read"):
        clone(bolus_fit()).fit(X, y, groups=groups)


def test_what_is_wrong_and_what_to_pass(table, quick):
    frame = pd.DataFrame(table)
    with pytest.raises(TypeError, match=r"an instance, OneCompartment\("):
        oral().set_params(model=OneCompartment).fit(frame)
    with pytest.raises(ValueError, match="one_compartment_oral'.*sktem.compartments"):
        oral().set_params(model="oral").fit(frame)
    text = frame.assign(OCC=np.where(frame.TIME > 10, "late", "early"))
    with pytest.raises(ValueError, match="'OCC' holds text: number the occasions"):
        oral(occasions={"OCC": "CL"}).fit(text)
    one = frame[frame.ID == 3].drop(columns="ID")
    with pytest.raises(ValueError, match="'ID', .* one patient has one label"):
        oral().fit(one)
    dosed = one.AMT > 0
    with pytest.raises(ValueError, match="groups is missing.* one patient has one"):
        oral().fit(one[~dosed], one.DV[~dosed], events=one[dosed])
    seen = frame[frame.AMT == 0]
    with pytest.raises(ValueError, match=r"set_score_request\(groups=True, events"):
        quick.score(seen[["TIME"]], seen.DV)


def test_text_is_no_covariate(table):
    rows = pd.DataFrame(table)
    rows["SEX"] = np.where(rows.ID % 2, "F", "M")
    with pytest.raises(ValueError, match="column 'SEX' holds text"):
        oral(covariates={"CL": ["WT", "SEX"]}, **{"omega": ["CL"]}).fit(
            read_nonmem(rows)
        )
    with pytest.raises(ValueError, match="sort the records by ID and TIME"):
        read_nonmem(rows.sample(frac=1.0, random_state=0).sort_values("ID"))


def doubts(fitted, frame):
    """Return what is said of the values of records."""
    problem = fitted._fitted_on(read_nonmem(frame), *[None] * 3, "").problem
    return " ".join(doubtful_values(problem.model, problem.rows))


def test_observations_in_records_of_doses_are_told(table, fit):
    frame = pd.DataFrame(table)
    is_dose = frame.AMT > 0
    assert doubts(fit, frame.assign(DV=np.where(is_dose, 0.0, frame.DV))) == ""
    assert doubts(fit, frame.assign(DV=np.where(is_dose, np.nan, frame.DV))) == ""
    late = frame.assign(DV=np.where(is_dose, 5.0, frame.DV))
    words = f"{is_dose.sum()} records of doses .* such as record 1 .* which is not read"
    assert re.search(words, doubts(fit, late))
    assert re.search(words, doubts(fit, late.assign(MDV=0)))
    assert doubts(fit, late.assign(MDV=is_dose.astype(int))) == ""
    # Copies of subjects have the messages of their records.
    half = read_nonmem(late).take([0, 1, 1])
    assert half.unread.sum() == (half["EVID"] == 1).sum()


def test_doses_that_stand_twice_are_told(table, fit):
    frame = pd.DataFrame(table)
    twice = pd.concat([frame, frame[frame.AMT > 0]])
    twice = twice.sort_values(["ID", "TIME", "AMT"], ascending=[True, True, False])
    count = (frame.AMT > 0).sum()
    assert f"{count} doses, such as record 2 " in doubts(fit, twice)
    # Doses that differ in a column, or in the subject, are several.
    assert doubts(fit, twice.assign(NUMBER=np.arange(len(twice)))) == ""
    assert doubts(fit, frame.assign(ID=frame.ID, TIME=frame.TIME)) == ""


def test_measured_values_are_no_limits(table, fit):
    frame = pd.DataFrame(table)
    late = (frame.TIME == 20) & (frame.AMT == 0)
    limit = frame.DV[late].max()
    frame["CENS"] = late.astype(int)
    assert f"CENS is 1 in {late.sum()} observations, each" in doubts(fit, frame)
    assert doubts(fit, frame.assign(DV=frame.DV.where(~late, limit))) == ""
    # Limits of two assays, and few censored values.
    two = np.where(frame.ID % 2 == 0, limit, 2 * limit)
    assert doubts(fit, frame.assign(DV=frame.DV.where(~late, two))) == ""
    few = (late & (frame.ID <= 3)).astype(int)
    assert doubts(fit, frame.assign(CENS=few)) == ""
