"""Studies with odd data are fitted as far as they go, and what is odd is told."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, Responses, read_nonmem
from sktem.evaluation import compare, sampling_importance_resampling
from sktem.exceptions import FitWarning
from sktem.mixed_effects.ascent import Resolution, ascend
from sktem.mixed_effects.unusual_fits import inseparable
from tests.mixed_effects.fits import bolus_rows

MODEL = OneCompartment("first-order")


def study(n=16, times=(0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0)):
    """Return records of one dose, with errors of 10 % and random effects of .3."""
    rng = np.random.default_rng(0)
    m = len(times) + 1
    frame = pd.DataFrame({
        "ID": np.repeat(np.arange(1, n + 1), m),
        "TIME": np.tile([0.0, *times], n),
        "AMT": np.tile([100.0] + [0.0] * (m - 1), n),
        "CMT": np.tile([1] + [2] * (m - 1), n),
        "WT": np.repeat(rng.uniform(50, 90, n), m),
    })  # fmt: skip
    typical = {"CL": 4.0, "V": 30.0, "KA": 1.0}
    psi = {k: v * np.exp(0.3 * rng.standard_normal(n)) for k, v in typical.items()}
    f = MODEL.predict(frame, psi)
    frame["DV"] = f * np.exp(0.1 * rng.standard_normal(len(f)))
    return frame


def oral(**settings):
    settings = {"residual_error": "proportional", "random_state": 0, **settings}
    return NonlinearMixedEffectsRegressor(
        MODEL, parameters={"CL": 2.0, "V": 20.0, "KA": 1.5}, **settings
    )


def told(est, *data):
    """Return the fit, and all that it warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        est.fit(*data)
    return est, " ".join(str(one.message) for one in found)


@pytest.fixture(scope="module")
def fit():
    return oral().fit(read_nonmem(study()))


def test_columns_that_nobody_reads_may_hold_anything(fit):
    frame = study()
    frame["STAMP"] = 1.7e18 + 1e10 * np.arange(len(frame))
    frame.loc[frame.ID == 3, "WT"] = np.nan
    other = oral().fit(read_nonmem(frame))
    assert other.converged_
    assert other.population_parameters_ == fit.population_parameters_
    # Methods on new data do without them.
    new = frame.drop(columns=["STAMP", "WT"])
    np.testing.assert_array_equal(other.predict(new), fit.predict(study()))
    by_name = other.individual_parameters(new)
    np.testing.assert_array_equal(
        by_name["CL"], fit.individual_parameters(study())["CL"]
    )
    assert np.isfinite(other.simulate(new, random_state=0)[1:8]).all()
    # Covariates have to be there, and to be numbers.
    weighted = oral(covariates={"CL": "WT"}, max_iter=5, tol=0)
    with pytest.raises(ValueError, match=r"record 17 \(ID 3, TIME 0\): WT must be"):
        weighted.fit(read_nonmem(frame))
    weighted.fit(read_nonmem(study()))
    with pytest.raises(ValueError, match="no column 'WT', which the fit has"):
        weighted.predict(new)


def test_stamps_matter_where_a_function_reads_them():
    rng = np.random.default_rng(0)
    groups, time = np.repeat(np.arange(20), 5), np.tile(np.arange(5.0), 20)
    X = pd.DataFrame({"t": time, "stamp": 1.7e9 + time})
    size = np.exp(0.3 * rng.standard_normal(20))[groups]
    y = size * np.exp(-0.3 * time) + 0.02 * rng.standard_normal(100)
    settings = {"parameters": {"A": 1.0, "k": 0.3}, "omega": ["A"], "random_state": 0}

    def by_time(p, X):
        return p["A"] * np.exp(-p["k"] * X["t"])

    def by_stamp(p, X):
        return p["A"] * np.exp(-p["k"] * (X["stamp"] - 1.7e9))

    for function, is_read in ((by_time, False), (by_stamp, True)):
        est = NonlinearMixedEffectsRegressor(function, **settings)
        est, words = told(est, X, y, groups)
        assert est.converged_ != is_read
        assert ("An input hardly varies" in words) == is_read


def test_one_row_a_subject_is_told_at_once(monkeypatch):
    frame = study(60)
    one = frame[(frame.AMT > 0) | (frame.TIME == 4.0)]
    words = "Each subject has one row.*by fixed"
    est = oral(max_iter=400)
    started = []
    monkeypatch.setattr(
        type(est), "_after_epoch",
        lambda self, state: started.append(state) or state.run.after_epoch(state),
    )  # fmt: skip
    with pytest.raises(FitWarning, match=words):  # warnings are errors here
        est.fit(read_nonmem(one))
    assert not started
    est, found = told(est, read_nonmem(one))
    assert "Each subject has one row" in found
    assert est.n_iter_ == est.n_burn_in
    assert not est.converged_
    # With two rows of one subject, or an error that is known, there is an answer.
    two = frame[(frame.AMT > 0) | (frame.TIME == 4.0) | (frame.ID == 1)]
    known = {"max_iter": 5, "tol": 0}
    assert not inseparable(oral(**known).fit(read_nonmem(two)).fitted_.problem)
    known["fixed"] = {"b": 0.1}
    assert not inseparable(oral(**known).fit(read_nonmem(one)).fitted_.problem)


def test_one_occasion_a_subject_is_told_at_once():
    frame = study()
    frame["OCC"] = 1
    est, words = told(oral(occasions={"OCC": ["CL"]}), read_nonmem(frame))
    assert "Each subject has one occasion: the variances of ['CL']" in words
    assert est.n_iter_ == est.n_burn_in
    settings = {"occasions": {"OCC": ["CL"]}, "max_iter": 5, "tol": 0}
    only = oral(omega=["V", "KA"], **settings).fit(read_nonmem(frame))
    assert not inseparable(only.fitted_.problem)
    frame.loc[(frame.ID == 1) & (frame.TIME > 5), "OCC"] = 2
    two = oral(**settings).fit(read_nonmem(frame))
    assert not inseparable(two.fitted_.problem)


def test_a_covariate_of_zeros_has_no_effect():
    frame = study()
    frame["SEX"] = 0
    est, words = told(oral(covariates={"CL": "SEX"}), read_nonmem(frame))
    assert "does not depend on ['beta_SEX(CL)']" in words
    assert est.covariate_effects_ == {("CL", "SEX"): 0.0}
    frame["SEX"] = frame.ID % 2
    est = oral(covariates={"CL": "SEX"}).fit(read_nonmem(frame))
    assert est.converged_
    assert est.covariate_effects_["CL", "SEX"] != 0


def test_regressions_without_random_effects_have_to_be_determined():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (60, 1))
    y = 2 + 6 * X[:, 0] + 0.1 * rng.standard_normal(60)
    for function, is_known in (
        (lambda p, X: p["a"] * p["b"] * X[:, 0], False),
        (lambda p, X: p["a"] + p["b"] * X[:, 0], True),
    ):
        est = NonlinearMixedEffectsRegressor(
            function, parameters={"a": 1.0, "b": 1.0}, omega=[], random_state=0,
        )  # fmt: skip
        est, words = told(est, X, y)
        assert est.converged_ == is_known
        assert ("do not determine ['a', 'b']" in words) != is_known


def test_hazards_without_events_have_no_maximum():
    time = np.random.default_rng(0).exponential(10.0, 50)
    model = Responses(None, parameters=["h"], hazards={1: lambda p, r, c: p.h})
    for n_events in (0, 20):
        frame = {
            "ID": np.arange(50), "TIME": time, "DV": (np.arange(50) < n_events) * 1.0,
            "EVID": np.zeros(50), "CMT": np.ones(50),
        }  # fmt: skip
        est = NonlinearMixedEffectsRegressor(
            model, parameters={"h": 0.3}, omega=[], residual_error="event",
            random_state=0,
        )  # fmt: skip
        est, words = told(est, read_nonmem(frame))
        assert est.converged_ == bool(n_events)
        assert bool(words) != bool(n_events)
    found = est.population_parameters_["h"]
    assert found == pytest.approx(20 / time.sum(), rel=1e-5)


def test_fits_of_other_observations_do_not_compare(fit):
    pytest.importorskip("pandas")
    frame = study()
    smaller = oral(omega=["CL", "V"]).fit(read_nonmem(frame))
    assert len(compare(fit, smaller)) == 2
    frame["DV"] *= 2
    with pytest.raises(ValueError, match="got other observations"):
        compare(fit, oral().fit(read_nonmem(frame)))


def weight_is_coded(frame):
    frame.loc[frame.ID == 3, "WT"] = -99.0


def limits_are_zero(frame):
    low = (frame.AMT == 0) & (frame.DV < 0.5)
    frame.loc[low, ["CENS", "DV"]] = [1, 0.0]


def limits_are_given(frame):
    low = (frame.AMT == 0) & (frame.DV < 0.5)
    frame.loc[low, ["CENS", "DV"]] = [1, 0.5]


def one_is_all_zero(frame):
    frame.loc[(frame.ID == 4) & (frame.AMT == 0), "DV"] = 0.0


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        (weight_is_coded, {"covariates": {"CL": "WT"}}, "covariate 'WT' is -99 in"),
        (lambda frame: None, {"covariates": {"CL": "WT"}}, ""),
        (limits_are_zero, {}, "CENS is 1 where DV is zero or less"),
        (limits_are_given, {}, ""),
        (one_is_all_zero, {"residual_error": "combined"}, "subjects [4] are zero"),
        (lambda frame: None, {"residual_error": {2: "proportional", 3: "constant"}},
         "no observations of CMT [3]"),
    ],
)  # fmt: skip
def test_what_values_may_mean_is_told(change, settings, words):
    frame = study()
    frame["CENS"] = 0
    change(frame)
    found = told(oral(max_iter=5, tol=0, **settings), read_nonmem(frame))[1]
    assert words in found
    assert bool(words) == bool(found)


def test_new_patients_who_are_not_of_the_population():
    est = oral(omega_start={"CL": 0.09, "V": 0.09, "KA": 0.09}, fixed={"b": 0.1})
    frame = study(2)
    assert len(est.individual_parameters(frame)["CL"]) == 2
    other = frame.assign(DV=np.where(frame.ID == 2, 1000 * frame.DV, frame.DV))
    with pytest.warns(FitWarning, match=r"subjects \[2\] are farther.* units"):
        est.individual_parameters(other)
    overdosed = frame.assign(AMT=np.where(frame.ID == 2, 1000 * frame.AMT, frame.AMT))
    with pytest.warns(FitWarning, match=r"observations of the subjects \[2\] .* units"):
        est.individual_parameters(overdosed)
    zero = frame.assign(DV=np.where(frame.TIME == 8, 0.0, frame.DV))
    with pytest.warns(FitWarning, match="2 of 14 observations after a dose are zero"):
        est.individual_parameters(zero)
    undrawn = frame[(frame.ID == 1) | (frame.AMT > 0)]
    with pytest.warns(FitWarning, match=r"subjects \[2\] have no observations"):
        assert len(est.individual_parameters(undrawn)["CL"]) == 1


def test_subjects_without_observations_are_named():
    frame = study(7)
    undrawn = frame[(frame.ID > 1) | (frame.AMT > 0)]
    found = told(oral(max_iter=2, tol=0), undrawn)[1]
    assert "The subjects [1] have no observations and are left out" in found
    most = frame[(frame.ID > 6) | (frame.AMT > 0)]
    found = told(oral(omega=[], fixed={"CL": 4.0, "V": 30.0}, max_iter=2), most)[1]
    assert "6 subjects, such as [1, 2, 3, 4, 5] have no observations" in found


def test_zeros_before_a_dose_are_to_be_left_out():
    frame = study().assign(TIME=lambda table: table.TIME + 1)
    before = frame[frame.AMT > 0].assign(TIME=0.0, AMT=0.0, DV=0.0)
    both = pd.concat([frame, before]).sort_values(["ID", "TIME"], kind="stable")
    found = told(oral(max_iter=60), both)[1]
    assert "leave them out" in found and "combined" not in found
    found = told(oral(max_iter=60, residual_error="combined"), both)[1]
    assert "Leave out the rows whose observations and predictions are both" in found
    assert "Pass" not in found


def test_patients_of_the_population_are_not_named():
    est = oral(fixed={"b": 0.3}, omega=["CL"], omega_start={"CL": 0.3})
    frame, rng = study(400), np.random.default_rng(8)
    CL = 2 * np.exp(np.sqrt(0.3) * rng.standard_normal(400))
    f = MODEL.predict(frame, {"CL": CL, "V": 20.0, "KA": 1.5})
    # The largest of 400 x 7 errors is near 4.
    frame["DV"] = f * np.maximum(1 + 0.3 * rng.standard_normal(len(f)), 0.01)
    est.individual_parameters(frame)


@pytest.mark.parametrize("factor", [10.0, 2.5])
def test_slips_of_the_decimal_point_are_told(factor, global_random_seed):
    X, y, groups = bolus_rows(global_random_seed, n=30, m=8, error="exponential")
    est = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 5.0, "CL": 1.0},
        residual_error="proportional", random_state=0,
    )  # fmt: skip
    assert "decimal" not in told(est, X, y, groups)[1]
    is_slip = factor == 10
    # Of somebody else the population is known.
    other = y[:8] * np.where(np.arange(8) == 4, factor, 1.0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        est.individual_parameters(X=X[:8], y=other, groups=np.full(8, 77))
    assert any("of the subject 77" in str(w.message) for w in found) == is_slip
    wrong = y.copy()
    wrong[[12, 100]] *= factor, 1 / factor
    found = told(est, X, wrong, groups)[1]
    expected = f"{wrong[12]:.4g} of the subject 1, {wrong[100]:.4g} of the subject 12."
    assert (expected in found) == is_slip
    assert ("decimal" in found) == is_slip


@pytest.mark.parametrize("is_floor", [True, False])
def test_values_at_a_floor_are_no_slips(is_floor, global_random_seed):
    """Values below a limit are often replaced by one number."""
    X, y, groups = bolus_rows(global_random_seed, n=30, m=8, error="exponential")
    last = np.array([7, 15, 23])
    y[last] = 0.1 * y[last].min() * (1.0 if is_floor else np.array([1.0, 1.1, 1.2]))
    y = np.maximum(y, y[7])
    est = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 5.0, "CL": 1.0},
        residual_error="proportional", random_state=0,
    )  # fmt: skip
    assert ("decimal" in told(est, X, y, groups)[1]) == (not is_floor)


@pytest.mark.parametrize("y", [np.arange(200) // 5 % 2, np.ones(200)])
def test_probabilities_at_their_ends(y):
    est = NonlinearMixedEffectsRegressor(
        lambda p, X: p["p"], parameters={"p": 0.4}, transforms="logit",
        residual_error="bernoulli", random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FitWarning)
        est.fit(np.ones((200, 1)), y, groups=np.arange(200) // 5)
    assert not est.converged_


@pytest.mark.parametrize("has_lag", [False, True])
@pytest.mark.parametrize("steady", [0, 1, 2])
def test_compiled_predictions_with_and_without_steady_states(steady, has_lag):
    # Code for them, and for steps that depend on parameters, is compiled where needed.
    frame = study(4)
    first = frame.AMT > 0
    frame["SS"] = np.where(first & (frame.ID == 2), steady, 0)
    frame["II"] = np.where(first & (frame.ID == 2), 12.0, 0.0)
    starts = {"CL": 2.0, "V": 20.0, "KA": 1.5} | ({"ALAG": 0.3} if has_lag else {})
    est = NonlinearMixedEffectsRegressor(
        MODEL, parameters=starts, omega=["CL", "V"], residual_error="proportional",
        random_state=0, max_iter=2, tol=0,
    )  # fmt: skip
    fitted = est.fit(read_nonmem(frame)).fitted_
    model, rows = fitted.model, fitted.rows
    assert rows.events.records.has_steady_states == bool(steady)
    for some in (rows, rows[np.array([0, 2])], rows[np.array([1])]):
        means = model.prior_moments(some, fitted.params)[0]
        assert model.compiled(some, fitted.params) is not None
        found = model.predict_rows(some, means, fitted.params.numeric)
        psi = model.individual_parameters(some, means, fitted.params.numeric, True)
        data = some.events.records
        expected = MODEL.predict(data, psi)[data.observed]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def visits(variance, n=20):
    """Return records of two occasions each, between which clearances vary."""
    frame = pd.concat([
        study(n).assign(OCC=k, TIME=lambda x, k=k: x.TIME + 48 * k) for k in (0, 1)
    ])  # fmt: skip
    frame = frame.sort_values(["ID", "TIME"], kind="stable").reset_index(drop=True)
    rng = np.random.default_rng(1)
    psi = {k: v * np.exp(0.3 * rng.standard_normal(n))[frame.ID - 1]
           for k, v in {"CL": 4.0, "V": 30.0, "KA": 1.0}.items()}  # fmt: skip
    effects = np.sqrt(variance) * rng.standard_normal((n, 2))
    psi["CL"] = psi["CL"] * np.exp(effects[frame.ID - 1, frame.OCC])
    f = MODEL.predict(read_nonmem(frame), psi)
    frame["DV"] = f * np.exp(0.1 * rng.standard_normal(len(f))) * (frame.AMT == 0)
    return read_nonmem(frame)


def test_occasions_converge_where_few_nodes_are_enough():
    # Five effects: from three to five nodes of each the likelihood changes by .3, and
    # there cannot be more. Draws make the last steps.
    fit = oral(occasions={"OCC": ["CL"]}).fit(visits(0.05))
    assert fit.converged_
    few, many = (fit.log_likelihood(n_nodes=k) for k in (3, 5))
    assert abs(many - few) > 0.1
    exact = fit.log_likelihood(n_nodes=7)
    assert abs(exact - many) < 0.1
    # Steps with five nodes find next to nothing that is larger.
    fitted = fit.fitted_
    options = {"least_gain": 1e-3, "resolution": Resolution.of(5, 5)}
    finer = ascend(fitted.model, fitted.rows, fitted.params, 0, **options)
    assert finer.gain < 0.05


def test_exchanged_rates_are_told():
    """Few outliers lead to slow absorption; fits that begin there say nothing."""
    frame, rng = study(30), np.random.default_rng(0)
    psi = {k: v * np.exp(0.3 * rng.standard_normal(30))
           for k, v in {"CL": 4.0, "V": 30.0, "KA": 1.0}.items()}  # fmt: skip
    frame["DV"] = MODEL.predict(frame, psi)
    frame["DV"] *= 1 + 0.1 * rng.standard_normal(len(frame))
    rng.standard_normal(len(frame))
    values = np.flatnonzero(frame.AMT == 0)
    frame.loc[rng.choice(values, 3, replace=False), "DV"] *= 10
    start = {"CL": 6.0, "V": 45.0, "KA": 1.5}
    fit, words = told(oral().set_params(parameters=start), read_nonmem(frame))
    found = fit.population_parameters_
    assert found["KA"] < found["CL"] / found["V"]
    assert "Absorption is slower than elimination at the estimates" in words
    start = {"CL": 4.0, "V": 4.0, "KA": 0.13}
    again, words = told(oral().set_params(parameters=start), read_nonmem(frame))
    assert again.log_likelihood() == pytest.approx(fit.log_likelihood(), abs=0.01)
    assert "Absorption" not in words


def test_a_log_likelihood_with_a_large_error_is_told():
    fit = oral(max_iter=5, tol=0).fit(read_nonmem(study(60, (2.0, 8.0))))
    value, error = fit.log_likelihood(method="importance", n_draws=8, return_error=True)
    assert np.isfinite(value)
    assert error > 0.1
    with pytest.warns(FitWarning, match="known up to an error of about"):
        fit.log_likelihood(method="importance", n_draws=8)
    fit.log_likelihood()  # no warning


def test_variances_between_occasions_are_called_so():
    words = told(oral(occasions={"OCC": ["CL"]}), visits(0.0))[1]
    assert "['CL (between occasions)'] are at their lower bound" in words
    assert "not converged" not in words
    assert "integrated" not in words


@pytest.mark.parametrize(("n", "is_singular"), [(2, True), (16, False)])
def test_correlations_of_one_are_told(n, is_singular):
    # Two subjects differ along one line, however many effects there are.
    est, words = told(oral(omega="full"), read_nonmem(study(n)))
    spread = np.sqrt(np.diag(est.omega_))
    correlations = est.omega_ / spread[:, None] / spread
    assert (np.linalg.eigvalsh(correlations)[0] < 1e-4) == is_singular
    assert ("['CL', 'V', 'KA'] depend on each other" in words) == is_singular
    if is_singular:
        message = r"\['omega2_CL', 'cov_CL_V'.* have no standard errors"
        with pytest.raises(ValueError, match=message):
            sampling_importance_resampling(est, 10, 5)
    else:
        assert len(sampling_importance_resampling(est, 10, 5, random_state=0)) == 5
