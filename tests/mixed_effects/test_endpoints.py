"""Several kinds of observations, further residual errors, and other parameters."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.metrics import r2_score

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import (
    OneCompartment,
    Reparametrized,
    Responses,
    TwoCompartment,
    read_nonmem,
)
from sktem.evaluation import (
    kaplan_meier_check,
    output_table,
    population_residuals,
    visual_predictive_check,
)
from sktem.mixed_effects.endpoints import residual_error_of
from sktem.plotting import (
    GoodnessOfFitDisplay,
    IndividualFitDisplay,
    PredictionDisplay,
    ResidualDisplay,
)

PSI = {"CL": 1.0, "V1": 20.0, "Q": 2.0, "V2": 40.0}


def bolus(**settings):
    defaults = {
        "model": OneCompartment(), "parameters": {"CL": 2.0, "V": 20.0},
        "omega": ["CL"], "random_state": 0,
    }  # fmt: skip
    return NonlinearMixedEffectsRegressor(**{**defaults, **settings})


@pytest.fixture(scope="module")
def table():
    """Return records of 30 subjects with a bolus, and observations without error."""
    n, times = 30, np.array([0.0, 1, 2, 4, 8, 12])
    found = {
        "ID": np.repeat(np.arange(n), 6), "TIME": np.tile(times, n),
        "AMT": np.tile([100.0, 0, 0, 0, 0, 0], n),
    }  # fmt: skip
    CL = 2 * np.exp(0.2 * np.random.default_rng(1).standard_normal(n))
    curve = 5 * np.exp(-np.repeat(CL, 6) / 20 * found["TIME"])
    found["DV"] = curve * (found["AMT"] == 0)
    return found


def effect(**settings):
    return NonlinearMixedEffectsRegressor(
        OneCompartment(response="effect"),
        parameters={"CL": 2.0, "V": 20.0, "KE0": 0.5},
        omega=["CL"],
        random_state=0,
        **settings,
    )


def test_effect_compartment_reaches_the_maximum(shared_data):
    data = read_nonmem(shared_data("pk/pkpd_nonmem.csv.gz"))
    found = effect(residual_error={1: "proportional", 2: "additive"}).fit(data)
    assert found.converged_
    constant = data.observed.sum() * np.log(2 * np.pi)
    value = -2 * found.log_likelihood() - constant
    assert value == pytest.approx(-60.1249, abs=1e-3)
    wanted = {"b_1": 0.095868, "a_2": 0.53746}
    assert found.residual_error_ == pytest.approx(wanted, rel=1e-3)
    assert set(wanted) < set(found.standard_errors())
    # A simulated effect has the additive error, a concentration the proportional one.
    many = np.array([found.simulate(data, random_state=k) for k in range(400)])
    late = data.observed & (data["CMT"] == 2) & (data["TIME"] == data["TIME"].max())
    assert np.isnan(many[:, ~data.observed]).all()
    assert many[:, late].std() >= 0.9 * wanted["a_2"]


@pytest.mark.parametrize(
    ("name", "sigma", "deviation"),
    [
        ("combined1", (0.3, 0.2), lambda f: 0.3 + 0.2 * f),
        ("combined2", (0.3, 0.2), lambda f: np.hypot(0.3, 0.2 * f)),
        ("power", (0.3, 0.7), lambda f: 0.3 * f**0.7),
        ("additive", (0.3, 0.0), lambda f: 0.3 * np.ones_like(f)),
    ],
)
def test_log_densities(name, sigma, deviation):
    f, y = np.array([0.5, 2.0, 9.0]), np.array([0.6, 1.0, 12.0])
    error = residual_error_of(name)
    np.testing.assert_allclose(
        error.log_density(y, f, sigma, 1e-9), norm.logpdf(y, f, deviation(f))
    )


@pytest.mark.parametrize("name", ["combined1", "power"])
def test_errors_of_a_regression(name):
    # The maximum without random effects, by the scores of the likelihood.
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 10, 400)
    y = (
        1
        + 2 * x
        + residual_error_of(name).standard_deviation(
            1 + 2 * x, (0.3, 0.6 if name == "power" else 0.05), 1e-9
        )
        * rng.standard_normal(400)
    )
    fit = NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 1.0, "slope": 1.0},
        transforms="normal",
        omega=[],
        residual_error=name,
        random_state=0,
    ).fit(x[:, None], y)
    psi = list(fit.population_parameters_.values())
    theta = np.array(psi + list(fit.residual_error_.values()))

    def value(theta):
        f = theta[0] + theta[1] * x
        error = residual_error_of(name)
        return error.log_density(y, f, theta[2:], 1e-9).sum()

    steps = 1e-4 * np.diag(theta)
    slope = [(value(theta + s) - value(theta - s)) / 2e-4 for s in steps]
    assert np.abs(slope).max() < 0.5  # per relative change, of log-likelihoods
    assert fit.log_likelihood() == pytest.approx(value(theta), abs=1e-6)


def test_parameters_as_functions_of_covariates(shared_data):
    data = read_nonmem(shared_data("pk/covmuref_additive.csv.gz"))
    model = Reparametrized(
        OneCompartment(),
        lambda p, r: {"CL": (p.TH1 + p.TH2 * (r["CRCL"] - 90)) * p.FREE, "V": p.V},
        parameters=["TH1", "TH2", "V", "FREE"],
    )
    population = NonlinearMixedEffectsRegressor(
        model,
        parameters={"TH1": 4.9169, "TH2": 0.041774, "V": 48.08, "FREE": 1.0},
        omega=["V", "FREE"],
        omega_start={"V": 0.036039, "FREE": 0.040096},
        residual_error="proportional",
        fixed={"b": 0.099217},
    )
    value = population._as_given(data).log_likelihood()[0]
    constant = data.observed.sum() * np.log(2 * np.pi)
    assert -2 * value - constant == pytest.approx(-1178.4350, abs=1e-3)


def test_a_log_density_with_predictions():
    rng = np.random.default_rng(0)
    n, times = 20, np.array([0.0, 1, 2, 4, 8])
    table = {
        "ID": np.repeat(np.arange(n), 5),
        "TIME": np.tile(times, n),
        "AMT": np.tile([100.0, 0, 0, 0, 0], n),
    }
    psi = {"CL": 2 * np.exp(0.3 * rng.standard_normal(n)), "V": 20.0}
    f = OneCompartment().predict(table, psi)
    table["DV"] = (f + 0.3 * rng.standard_normal(5 * n)) * (table["AMT"] == 0)
    settings = {
        "parameters": {"CL": 2.0, "V": 20.0}, "omega": ["CL"], "random_state": 0,
    }  # fmt: skip
    plain = NonlinearMixedEffectsRegressor(OneCompartment(), **settings)
    plain.fit(read_nonmem(table))
    a = plain.residual_error_["a"]
    own = NonlinearMixedEffectsRegressor(
        OneCompartment(), log_density=lambda p, X, y, f: norm.logpdf(y, f, a),
        **settings,
    )  # fmt: skip
    own.fit(read_nonmem(table))
    assert own.log_likelihood() == pytest.approx(plain.log_likelihood(), abs=1e-3)
    records = read_nonmem(table)
    with pytest.raises(ValueError, match=r"pass draw, .*draw\(psi, X, rng, f\)"):
        visual_predictive_check(own, records)
    # With draws, checks are those of the same residual error.
    drawn = clone(own).set_params(draw=lambda p, X, rng, f: rng.normal(f, a))
    drawn.fit(records)
    checks = [
        visual_predictive_check(fit, records, random_state=0) for fit in (plain, drawn)
    ]
    for first, second in zip(checks[0][4:8], checks[1][4:8], strict=True):
        np.testing.assert_allclose(first, second, atol=0.15)
    npde = [
        population_residuals(fit, records, random_state=0).npde
        for fit in (plain, drawn)
    ]
    seen = records.observed
    assert np.corrcoef(npde[0][seen], npde[1][seen])[0, 1] > 0.99
    drawn.fitted_.model.draw = lambda p, X, rng, f: rng.normal(f[:3])
    with pytest.raises(ValueError, match=r"draw must return the shape \(100,\), got"):
        drawn.simulate(records)


def test_a_log_density_is_not_told_of_bounds(table):
    fit = bolus(log_density=lambda p, X, y, f: norm.logpdf(y, f, 0.3))
    with pytest.raises(ValueError, match=r"record 4 .*not know of bounds \(CENS\)"):
        fit.fit(read_nonmem({**table, "CENS": (table["TIME"] == 4) * 1}))


@pytest.fixture(scope="module")
def of_two_kinds(table):
    """Concentrations, and an event or the end of the study, of each subject."""
    rng = np.random.default_rng(5)
    time = np.minimum(rng.exponential(10, len(np.unique(table["ID"]))), 12.0)
    events = pd.DataFrame(
        {"ID": np.unique(table["ID"]), "TIME": time, "AMT": 0.0, "CMT": 2,
         "DV": (time < 12) * 1.0}
    )  # fmt: skip
    noise = 1 + 0.1 * rng.standard_normal(len(table["DV"]))
    plain = pd.DataFrame({**table, "DV": table["DV"] * noise, "CMT": 1})
    both = pd.concat([plain, events])
    return both.sort_values(["ID", "TIME"], kind="stable", ignore_index=True)


@pytest.fixture(scope="module")
def joint_fit(of_two_kinds):
    model = Responses(
        OneCompartment(),
        hazards={2: lambda p, records, c: p.H0 + 0 * c},
        parameters=["H0"],
    )
    return bolus(
        model=model, parameters={"CL": 2.0, "V": 20.0, "H0": 0.1}, max_iter=15, tol=0,
        residual_error={1: "proportional", 2: "event"},
    ).fit(of_two_kinds)  # fmt: skip


def test_checks_compare_observations_of_one_kind(of_two_kinds, joint_fit):
    options = {"n_simulations": 50, "random_state": 0}
    with pytest.raises(ValueError, match=r"among the CMT \[1, 2\], got 3"):
        visual_predictive_check(joint_fit, of_two_kinds, kind=3, **options)
    with pytest.raises(ValueError, match="are events: kaplan_meier_check"):
        visual_predictive_check(joint_fit, of_two_kinds, kind=2, **options)
    check = visual_predictive_check(joint_fit, of_two_kinds, **options)
    alone = of_two_kinds[(of_two_kinds.CMT == 1) & (of_two_kinds.AMT == 0)]
    for time, observed in zip(check.centres, check.observed.T, strict=True):
        values = alone.DV[alone.TIME == time]
        np.testing.assert_allclose(observed, np.quantile(values, [0.05, 0.5, 0.95]))
    events = kaplan_meier_check(joint_fit, of_two_kinds, **options)
    hazard = joint_fit.population_parameters_["H0"]
    np.testing.assert_allclose(events.median, np.exp(-hazard * events.times), atol=0.1)
    # The events are no part of the distribution that residuals are compared with.
    found = population_residuals(joint_fit, of_two_kinds, **options).npde
    is_event = of_two_kinds.CMT == 2
    assert np.isnan(found[is_event]).all()
    assert np.isfinite(found[~is_event & (of_two_kinds.AMT == 0)]).all()


def test_displays_show_observations_of_one_kind(of_two_kinds, joint_fit, pyplot):
    measured = (of_two_kinds.CMT == 1) & (of_two_kinds.AMT == 0)
    values = of_two_kinds.DV[measured].to_numpy()
    shown = PredictionDisplay.from_estimator(joint_fit, of_two_kinds)
    np.testing.assert_array_equal(shown.observed, values)
    page = GoodnessOfFitDisplay.from_estimator(joint_fit)
    np.testing.assert_array_equal(page.table["DV"], values)
    shown = ResidualDisplay.from_estimator(
        joint_fit, of_two_kinds, n_simulations=20, random_state=0
    )
    assert len(shown.time) == len(values)
    panels = IndividualFitDisplay.from_estimator(joint_fit, of_two_kinds, n_subjects=2)
    assert [panel.get_title() for panel in panels.axes_] == ["0", "1"]
    for display in (PredictionDisplay, ResidualDisplay):
        with pytest.raises(ValueError, match="events.*: kaplan_meier_check"):
            display.from_estimator(joint_fit, of_two_kinds, kind=2)
    with pytest.raises(ValueError, match="no means: kaplan_meier_check"):
        GoodnessOfFitDisplay.from_estimator(joint_fit, kind=2)


def test_displays_of_two_measurements(table, pyplot):
    """Kinds with means are shown one at a time, and curves in limits of their own."""
    second = pd.DataFrame(table)[table["AMT"] == 0].assign(CMT=2)
    second["DV"] *= 1000.0
    rows = pd.concat([pd.DataFrame({**table, "CMT": 1}), second])
    rows = rows.sort_values(["ID", "TIME"], kind="stable", ignore_index=True)
    fit = bolus(
        model=Responses(OneCompartment(), outcomes={2: lambda p, records, c: 1000 * c}),
        residual_error={1: "proportional", 2: "proportional"}, max_iter=5, tol=0,
    ).fit(rows)  # fmt: skip
    for display, data in ((PredictionDisplay, (rows,)), (GoodnessOfFitDisplay, ())):
        with pytest.raises(ValueError, match=r"of CMT \[1, 2\]: pass kind"):
            display.from_estimator(fit, *data)
        display.from_estimator(fit, *data, kind=2)
    panels = IndividualFitDisplay.from_estimator(fit, rows, n_subjects=1)
    low, high = (panel.get_ylim()[1] for panel in panels.axes_)
    assert high == pytest.approx(1000 * low)


def test_coefficients_of_determination_are_those_of_each_kind(of_two_kinds, joint_fit):
    used = ((of_two_kinds.CMT == 1) & (of_two_kinds.AMT == 0)).to_numpy()
    y, f = of_two_kinds.DV[used], joint_fit.predict(of_two_kinds)[used]
    wanted = r2_score(y, f)  # events have no means
    assert joint_fit.score(of_two_kinds) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match="predictions that are means"):
        joint_fit.score(of_two_kinds[of_two_kinds.CMT == 2])
    found = output_table(joint_fit, n_simulations=500, random_state=0)
    again = population_residuals(joint_fit, of_two_kinds, random_state=1)
    assert (np.isnan(found.CWRES) == (found.CMT == 2)).all()
    assert (np.isnan(found.NPDE) == (found.CMT == 2)).all()
    measured = found.CMT == 1
    assert np.corrcoef(found.NPDE[measured], again.npde[used])[0, 1] > 0.99
    assert 0.8 < found.CWRES[measured].std() < 1.2
    assert (np.isnan(found.RES) == (found.CMT == 2)).all()
    assert (np.isnan(found.IRES) == (found.CMT == 2)).all()
    # Two scales count alike.
    two = of_two_kinds.copy()
    late = used & (two.TIME >= 2)
    two.loc[late, "CMT"] = 7
    fit = bolus(residual_error={1: "constant", 7: "constant"}, max_iter=15, tol=0)
    two = two[two.CMT != 2]
    f, y = fit.fit(two).predict(two), two.DV.to_numpy()
    parts = [(two.AMT == 0) & (two.CMT == kind) for kind in (1, 7)]
    wanted = np.mean([r2_score(y[part], f[part]) for part in parts])
    assert fit.score(two) == pytest.approx(wanted, rel=1e-12)


def test_kinds_that_the_model_does_not_have(table):
    # Neither a depot nor a peripheral compartment is observed: in NONMEM these have
    # amounts, which would be concentrations here.
    for cmt, settings in ((3, {}), (2, {"model": TwoCompartment(), "parameters": PSI})):
        strange = {**table, "CMT": np.where(table["TIME"] == 4, cmt, 1)}
        name = r"record 4 \(ID 0, TIME 4\): CMT of an observation must be one of \[1"
        with pytest.raises(ValueError, match=name):
            bolus(**settings).fit(read_nonmem(strange))
    with pytest.raises(ValueError, match=name):
        TwoCompartment().predict(strange, PSI)
    unused = {**strange, "MDV": np.where(table["TIME"] == 4, 1, 0)}
    assert np.isfinite(TwoCompartment().predict(unused, PSI)).all()


def test_another_measurement_of_the_same(table):
    # Two assays with errors of .1 and .3, which CMT tells apart.
    rng = np.random.default_rng(0)
    second = (table["TIME"] > 0) & (rng.random(len(table["TIME"])) < 0.5)
    noise = np.where(second, 0.3, 0.1) * rng.standard_normal(len(second))
    both = {**table, "DV": table["DV"] * np.exp(noise), "CMT": np.where(second, 7, 1)}
    names = {1: "exponential", 7: "exponential"}
    fit = bolus(residual_error=names, max_iter=60).fit(read_nonmem(both))
    found = [fit.residual_error_[name] for name in ("a_1", "a_7")]
    n = np.array([(both["CMT"][both["AMT"] == 0] == k).sum() for k in (1, 7)])
    np.testing.assert_allclose(found, [0.1, 0.3], atol=4 * 0.3 / np.sqrt(2 * n.min()))
    with pytest.raises(ValueError, match="CMT of an observation must be one of .1, 7."):
        fit.predict(read_nonmem({**both, "CMT": np.where(second, 5, 1)}))


def test_wrong_kinds():
    table = pd.DataFrame(
        {"ID": [1, 1, 1], "TIME": [0.0, 1, 2], "AMT": [9.0, 0, 0], "DV": [0, 1.0, 1],
         "CMT": [1, 1, 2]}
    )  # fmt: skip
    with pytest.raises(ValueError, match="record 3 .* CMT must be one of \\[1\\]"):
        effect(residual_error={1: "constant"}).fit(read_nonmem(table))
    negative = {**table, "DV": [0, 1.0, -0.25], "CMT": [1, 1, 1]}
    name = r"record 3 \(ID 1, TIME 2\): the log-additive error needs .* got -0.25"
    for error in ("log-additive", {1: "log-additive"}):
        name = name.replace("log-additive", ".*log-additive.*")
        with pytest.raises(ValueError, match=name):
            effect(residual_error=error).fit(read_nonmem(negative))
    missing = {**table, "DV": [0, 1.0, np.nan], "CENS": [0, 0, 1], "CMT": [1, 1, 1]}
    with pytest.raises(ValueError, match="record 3 .* the limit of quantification"):
        effect().fit(read_nonmem(missing))
    with pytest.raises(ValueError, match="a name for each CMT"):
        effect(residual_error={"a": "constant"}).fit(read_nonmem(table))
    with pytest.raises(ValueError, match="for records of a compartment model"):
        NonlinearMixedEffectsRegressor(
            "linear", parameters={"intercept": 1.0, "slope": 1.0}, omega=[],
            residual_error={1: "constant"},
        ).fit(np.ones((4, 1)), np.ones(4))  # fmt: skip
    with pytest.raises(ValueError, match="'FREE'"):
        Reparametrized(
            OneCompartment(), lambda p, r: {}, parameters=["CL"]
        ).check_names(["FREE", "CL"])
