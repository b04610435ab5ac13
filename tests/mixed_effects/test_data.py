"""The mixed-effects estimator: scales, names, groups, and data that say too little."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation import individual_residuals
from sktem.exceptions import FitWarning
from sktem.mixed_effects.columns import InputSettings
from sktem.mixed_effects.given_data import GivenData
from sktem.mixed_effects.inference.conditional import conditional_modes
from sktem.mixed_effects.inference.marginal_likelihood import quadrature_draws
from sktem.mixed_effects.inference.node_numbers import (
    covariance_of,
    log_likelihood_by_nodes,
)
from sktem.mixed_effects.structural import STRUCTURAL_MODELS
from tests.mixed_effects.fits import bolus_rows

N, M = 20, 5
GROUPS = np.repeat(np.arange(N), M)
TIME = np.tile(np.arange(1.0, 1.0 + M), N)


def decay(seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    level, rate = np.exp([0.3, 0.25] * rng.normal(size=(N, 2))).T
    f = 10 * level[GROUPS] * np.exp(-0.3 * rate[GROUPS] * TIME)
    return TIME[:, None], f + noise * rng.normal(size=N * M), GROUPS


def line(start=(1.0, 1.0), **options):
    return NonlinearMixedEffectsRegressor(
        "linear", parameters=dict(zip(("intercept", "slope"), start, strict=True)),
        transforms="normal", random_state=0, **options,
    )  # fmt: skip


def line_data(seed=0, n=N, m=M):
    rng = np.random.default_rng(seed)
    groups, x = np.repeat(np.arange(n), m), np.tile(np.linspace(-1, 1, m), n)
    effects = rng.normal(size=(n, 2)) @ [[1.0, 0.3], [0.0, 0.6]]
    y = 2 + effects[groups, 0] + (3 + effects[groups, 1]) * x
    return x[:, None], y + 0.5 * rng.normal(size=n * m), groups


# ------------------------------------------------------------------------------- scales


@cache
def plain_line():
    X, y, groups = line_data()
    return line(omega="full").fit(X, y, groups=groups)


@pytest.mark.filterwarnings("ignore:Standard errors")  # the correlation is one
@pytest.mark.filterwarnings("ignore:The random effects of")
@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("of", ["X", "y"])
def test_units_of_the_data_do_not_matter(of, factor):
    X, y, groups = line_data()
    plain = plain_line()
    X, y = (X * factor, y) if of == "X" else (X, y * factor)
    other = line(omega="full").fit(X, y, groups=groups)
    units = np.array([1.0, 1 / factor]) if of == "X" else np.full(2, factor)
    psi, found = (list(f.population_parameters_.values()) for f in (plain, other))
    np.testing.assert_allclose(found, psi * units, rtol=1e-6)
    np.testing.assert_allclose(
        other.omega_, plain.omega_ * units[:, None] * units, rtol=1e-4
    )
    errors = list(plain.standard_errors().values())[:2] * units
    np.testing.assert_allclose(list(other.standard_errors().values())[:2], errors, 1e-4)
    assert other.converged_


def bolus(psi, X):
    return X[:, 0] / psi["V"] * np.exp(-psi["CL"] / psi["V"] * X[:, 1])


def proportional_rows():
    X, y, groups = bolus_rows(error="proportional")
    X, y = np.vstack([X, [0.0, 1.0]]), np.append(y, 0.0)  # predicted by zero exactly
    return X, y, np.append(groups, 0)


@cache
def bolus_in_units(model, error, unit=1.0):
    X, y, groups = (
        proportional_rows()
        if error == "proportional"
        else bolus_rows(seed=1, error=error)
    )
    return NonlinearMixedEffectsRegressor(
        model, parameters={"V": 10.0, "CL": 2.0}, residual_error=error, random_state=0
    ).fit(X * [unit, 1.0], y * unit, groups=groups)


@pytest.mark.parametrize("factor", [1e-12, 1e-9, 1e9])
@pytest.mark.parametrize("model", ["one_compartment_iv", bolus])
def test_units_do_not_matter_to_a_proportional_error(model, factor):
    X, y, groups = proportional_rows()
    plain = bolus_in_units(model, "proportional")
    other = bolus_in_units(model, "proportional", factor)
    assert plain.converged_ and other.converged_
    for found, expected in (
        (other.population_parameters_, plain.population_parameters_),
        (other.residual_error_, plain.residual_error_),
    ):
        assert found == pytest.approx(expected, rel=1e-4)
    # Rounding may part the chains, and the last Newton step leaves up to 1e-9 nats,
    # which are sqrt(2e-9) standard errors.
    assert other.standard_errors() == pytest.approx(plain.standard_errors(), rel=1e-4)
    change = len(y) * np.log(factor)
    assert other.log_likelihood() == pytest.approx(
        plain.log_likelihood() - change, abs=0.01
    )
    residuals = [
        individual_residuals(fit, X * [unit, 1.0], y * unit, groups)
        for fit, unit in ((plain, 1.0), (other, factor))
    ]
    np.testing.assert_allclose(residuals[1], residuals[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_do_not_matter_to_a_combined_error(factor):
    found = []
    for unit in (1.0, factor):
        fit = bolus_in_units("one_compartment_iv", "combined", unit)
        errors = fit.standard_errors()
        assert fit.converged_ and errors["a"] < fit.residual_error_["a"]
        errors["a"] /= unit
        found.append([*errors.values(), fit.residual_error_["b"]])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_units_do_not_matter_to_an_error_without_its_second_part():
    """The larger predictions have the smaller errors: b is at its bound, and told."""
    X, _, groups = bolus_rows(n=30)
    rng = np.random.default_rng(0)
    V, CL = ([10.0, 2.0] * np.exp(0.3 * rng.normal(size=(30, 2))))[groups].T
    y = bolus({"V": V, "CL": CL}, X)
    y += 0.3 * np.exp(-0.1 * y) * rng.normal(size=len(y))
    found = []
    for error, unit in (("constant", 1.0), ("combined", 1.0), ("combined", 1e6)):
        fit = NonlinearMixedEffectsRegressor(
            "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0},
            residual_error=error, random_state=0,
        )  # fmt: skip
        data = X * [unit, 1.0], y * unit, groups
        if error == "constant":
            errors = fit.fit(*data).standard_errors()
        else:
            with pytest.warns(FitWarning, match=r"'b' is at its .*=\"constant\""):
                fit.fit(*data)
            with pytest.warns(FitWarning, match=r"\['b'\] are at their bounds and"):
                errors = fit.standard_errors()
            assert np.isnan(errors.pop("b"))
        assert fit.converged_
        errors["a"] /= unit
        found.append({**errors, "size": fit.residual_error_["a"] / unit})
    assert found[2] == pytest.approx(found[1], rel=1e-4)
    assert found[1] == pytest.approx(found[0], rel=1e-3)


def test_given_variances_are_the_start():
    X, y, groups = line_data()
    fit = line(omega_start={"intercept": 9.0}, max_iter=2, tol=0)
    fit.fit(X, y, groups=groups)
    assert (
        fit.fitted_.model.start.omega[0, 0]
        == 9.0
        != fit.fitted_.model.start.omega[1, 1]
    )


def overflows(psi, X):
    return psi["p"] * np.exp(psi["q"] * X[:, 0])


def picky(psi, X):
    if np.any(np.abs(psi["q"]) > 2):
        raise ValueError("far from what the equation can do")
    return overflows(psi, X)


@pytest.mark.parametrize("function", [overflows, picky])
def test_functions_that_fail_at_trial_points(function):
    X, y, groups = decay()
    fit = NonlinearMixedEffectsRegressor(
        function, parameters={"p": 1.0, "q": 0.0}, transforms="normal",
        omega=["p"], random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    assert fit.population_parameters_["q"] == pytest.approx(-0.3, abs=0.05)


# -------------------------------------------------------------------------------- names


def curve(first, second):
    def function(psi, X):
        return psi[first] * np.exp(-psi[second] * X[:, 0])

    return function


@pytest.mark.filterwarnings("ignore:The residual parameter")  # b is zero
@pytest.mark.filterwarnings("ignore:Standard errors")
@pytest.mark.parametrize("error", ["constant", "combined"])
def test_parameters_may_be_called_like_residual_errors(error):
    X, y, groups = decay()
    fits = [
        NonlinearMixedEffectsRegressor(
            curve(*names), parameters=dict.fromkeys(names, 1.0), residual_error=error,
            random_state=0,
        ).fit(X, y, groups=groups)
        for names in (("a", "b"), ("level", "rate"))
    ]  # fmt: skip
    found, expected = (list(fit.standard_errors().values()) for fit in fits)
    np.testing.assert_allclose(found, expected)
    assert fits[0].residual_error_ == fits[1].residual_error_
    for named in (
        fits[0].standard_errors(),
        fits[0].monte_carlo_errors_,
        fits[0].trace_,
    ):
        assert {"a", "b", "residual_a", "omega2_a"} <= set(named)
    assert ("residual_b" in fits[0].trace_) == (error == "combined")
    held = NonlinearMixedEffectsRegressor(
        curve("a", "b"), parameters={"a": 1.0, "b": 1.0}, residual_error=error,
        fixed={"a": 10.0, "residual_a": 0.2}, max_iter=5, tol=0, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    assert held.population_parameters_["a"] == pytest.approx(10.0)
    assert held.residual_error_["a"] == 0.2


def test_names_of_other_estimates_are_refused():
    X, y, groups = decay()
    names = ("omega2_b", "b")
    fit = NonlinearMixedEffectsRegressor(
        curve(*names), parameters=dict.fromkeys(names, 1.0)
    )
    with pytest.raises(ValueError, match=r"must not be called \['omega2_b'\]"):
        fit.fit(X, y, groups=groups)


def test_a_hundred_covariates():
    X, y, groups = line_data()
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(N, 100))[groups]])
    fit = line(
        omega=["intercept"], inputs=[0], covariates={"slope": list(range(1, 101))},
        max_iter=12, n_burn_in=5, tol=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    assert len(fit.covariate_effects_) == 100


# ------------------------------------------------------------------- groups and columns


def test_groups_must_be_given():
    X, y, groups = line_data()
    searches = [
        lambda: line().fit(X, y),
        lambda: line().partial_fit(X, y),
        lambda: GridSearchCV(line(), {"n_burn_in": [20]}, cv=GroupKFold(2)).fit(
            X, y, groups=groups
        ),
        lambda: cross_val_score(line(), X, y, cv=GroupKFold(2), groups=groups),
    ]
    for search in searches[:2]:
        with pytest.raises(ValueError, match=r"groups.*set_fit_request.*omega=\[\]"):
            search()
    # scikit-learn's own message is that all fits failed: a warning comes before it.
    for search in searches[2:]:
        with pytest.warns(UserWarning, match="enable_metadata_routing=True.*groups"):
            with pytest.raises(ValueError, match=r"set_fit_request.*omega=\[\]"):
                search()
    assert line(omega=[]).fit(X, y).random_effects_ == []


@pytest.mark.parametrize("missing", [None, np.nan, float("nan")])
def test_labels_must_not_be_missing(missing):
    X, y, groups = line_data()
    labels = np.array([missing, *groups[1:]], dtype=object)
    with pytest.raises(ValueError, match="no label in 1 of 100 rows"):
        line().fit(X, y, groups=labels)


def test_an_exception_leaves_no_data_behind():
    X, y, groups = decay()
    calls = []

    def breaks(psi, X):
        calls.append(1)
        if len(calls) > 1000:
            raise KeyError("the equation")
        return psi["p"] * np.exp(-psi["q"] * X[:, 0])

    fit = NonlinearMixedEffectsRegressor(breaks, parameters={"p": 1.0, "q": 1.0})
    with pytest.raises(KeyError):
        fit.fit(X, y, groups=groups)
    assert set(vars(fit)) == set(fit.get_params())


def test_columns_of_an_array_that_nobody_reads_are_told():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    x = np.tile(np.arange(5.0), 20)
    y = x + 0.5 * rng.normal(size=20)[groups] + 0.2 * rng.normal(size=100)
    X = np.column_stack([x, groups % 3, rng.normal(size=100)])
    settings = {
        "parameters": {"intercept": 0.5, "slope": 0.5}, "transforms": "normal",
        "omega": ["intercept"], "random_state": 0,
    }  # fmt: skip

    def fit(X, **more):
        line = NonlinearMixedEffectsRegressor("linear", **settings, **more)
        return line.fit(X, y, groups=groups)

    with pytest.warns(FitWarning, match=r"columns \[1, 2\] of X are not used"):
        fit(X)
    with pytest.warns(FitWarning, match=r"columns \[2\] of X are not used"):
        fit(X, covariates={"intercept": [1]})
    # Not where they have a use, or were left out on purpose.
    fit(X, inputs=[0])
    fit(X, covariates={"intercept": [1, 2]})
    fit(X[:, :1])


def test_columns_by_name():
    pandas = pytest.importorskip("pandas")
    X, y, groups = decay()
    frame = pandas.DataFrame({"time": X[:, 0], "dose": 100.0})
    frame["subject"] = [f"s{g}" for g in groups]
    bolus = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 8.0, "CL": 2.0}, tol=0, max_iter=5,
        n_burn_in=2, random_state=0,
    )  # fmt: skip
    expected = bolus.fit(frame[["dose", "time"]], y, groups=groups).params_
    for columns in (["time", "dose"], ["time", "dose", "subject"]):
        if "subject" in columns:
            bolus.set_params(inputs=["dose", "time"])
        found = bolus.fit(frame[columns], y, groups=groups).params_
        np.testing.assert_array_equal(found.coefficients, expected.coefficients)
    bolus.set_params(inputs=None)  # for the next fit, not for answers of this one
    assert bolus.predict(frame, groups=groups).shape == y.shape
    found = bolus.log_likelihood(frame, y, groups)
    assert found == pytest.approx(bolus.log_likelihood(), abs=1e-9)
    with pytest.raises(ValueError, match=r"inputs \['dose', 'time'\].*pass inputs"):
        bolus.fit(frame.drop(columns="subject").set_axis(["x", "y"], axis=1), y, groups)
    alone = line().set_params(max_iter=2, n_burn_in=1, tol=0)
    alone.fit(frame[["time"]], y, groups=groups)


@pytest.mark.parametrize(
    "names, covariates, expected",
    [
        (None, None, [0]),
        (("weight", "X"), None, [1]),  # whatever the case
        (("hours", "weight"), {"slope": ["weight"]}, [0]),  # the only one that is left
        (("weight", "hours"), {"slope": 0}, [1]),
        (("weight", "hours"), None, None),
    ],
)
def test_inputs_that_nobody_names(names, covariates, expected):
    settings = InputSettings("linear", None, covariates, None)
    data = GivenData(np.zeros((3, 2)), names=names)
    if expected is None:
        with pytest.raises(ValueError, match="pass inputs, a list of 1 of them"):
            settings.input_columns(STRUCTURAL_MODELS["linear"], data)
    else:
        found = settings.input_columns(STRUCTURAL_MODELS["linear"], data)
        assert found == expected


# ------------------------------------------------------------- data that say too little


@pytest.mark.parametrize(
    "rows, told",
    [
        (slice(0, M), "There is one subject"),
        (slice(0, None, M), "Each subject has one row"),
        (slice(0, 1), "There is one subject"),
    ],
)
def test_variances_that_cannot_be_learned(rows, told):
    X, y, groups = line_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(FitWarning, match=told):
            fit = line().fit(X[rows], y[rows], groups=groups[rows])
    found = list(fit.population_parameters_.values())
    assert np.abs(found).max() < 1e3


@pytest.mark.parametrize("value", [0.0, 4.0, -1e8])
def test_constant_observations(value):
    X, _, groups = line_data()
    with (
        pytest.warns(FitWarning, match="passes through all"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = line().fit(X, np.full(len(X), value), groups=groups)
    np.testing.assert_allclose(fit.predict(X), value, rtol=1e-6, atol=1e-6)
    assert not fit.converged_


def test_a_variance_at_its_bound_is_the_same_for_all_seeds():
    rng = np.random.default_rng(4)
    X, _, groups = line_data()
    x, noise = X[:M, 0], 0.5 * rng.normal(size=(N, M))
    noise -= np.outer(noise @ x / (x @ x), x)  # all subjects have the same slope
    y = 1 + 2 * X[:, 0] + rng.normal(size=N)[groups] + noise.ravel()
    found = []
    for seed in range(3):
        fit = line().set_params(random_state=seed)
        with pytest.warns(FitWarning, match=r"\['slope'\] are at their lower bound"):
            fit.fit(X, y, groups=groups)
        at_bound = r"\['omega2_slope'\] are at their bounds"
        with pytest.warns(FitWarning, match=at_bound) as caught:
            errors = fit.standard_errors()
        assert caught[0].filename == __file__
        found.append([*errors.values(), fit.log_likelihood()])
    assert np.isnan(errors.pop("omega2_slope"))
    assert np.isfinite(list(errors.values())).all()
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-3)


def test_modes_far_from_where_the_search_begins():
    """With next to no variance the modes are at the prior means, wherever it begins."""
    X, y, groups = line_data()
    fit = line(max_iter=20, tol=0).fit(X, y, groups=groups)
    model, rows = fit.fitted_.model, fit.fitted_.rows
    params = fit.params_._replace(omega=np.diag([1e-10, 1e-10]))
    far = fit.fitted_.modes()[0] + 5.0
    found = conditional_modes(model, rows, params, far)
    assert found.converged.all()
    means = model.prior_moments(rows, params)[0]
    np.testing.assert_allclose(found.modes, means, atol=1e-6)
    draws = quadrature_draws(found.modes, found.covariances, 5)
    log_joint = draws.log_joint(model, rows, params)
    near = model.log_conditional(rows, means, params)
    np.testing.assert_allclose(draws.log_likelihood(log_joint)[0], near, atol=1e-4)


def test_nodes_are_as_many_as_are_needed():
    """A large variance of binary outcomes needs many; their error is told."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 7)
    y = (rng.random(420) < 1 / (1 + np.exp(-4 * rng.normal(size=60)[groups]))) * 1.0

    def density(psi, X, y):
        return y * psi["m"] - np.logaddexp(0, psi["m"])

    fit = NonlinearMixedEffectsRegressor(
        None, parameters={"m": 0.0}, transforms="normal", log_density=density,
        tol=0, max_iter=100, random_state=0,
    ).fit(np.zeros((420, 1)), y, groups=groups)  # fmt: skip
    exact = fit.log_likelihood(method="quadrature", n_nodes=150)
    value, error = fit.log_likelihood(return_error=True)
    assert abs(value - exact) < max(5 * error, 1e-3) < 0.02
    assert abs(fit.log_likelihood(method="quadrature", n_nodes=5) - exact) > 0.05
    arguments = fit.fitted_.model, fit.fitted_.rows, fit.params_, *fit.fitted_.modes()
    assert log_likelihood_by_nodes(*arguments)[0].shape == (60,)


def test_covariance_where_information_is_singular():
    information = np.diag([4.0, 1.0, 1.0])
    information[1:, 1:] = 1.0
    found = covariance_of(information, np.zeros(3, dtype=bool))
    assert found[0, 0] == pytest.approx(0.25)
    assert np.isnan(found[1:, 1:]).all()
    found = covariance_of(information, np.array([False, False, True]))
    np.testing.assert_allclose(np.diag(found)[:2], [0.25, 1.0])
    assert np.isnan(covariance_of(-np.eye(2), np.zeros(2, dtype=bool))).all()


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_proportional_errors_where_the_model_is_zero(noise):
    """At the time of the dose an oral model has no proportional error to estimate."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.full(180, 100.0), np.tile([0, 1, 2, 4, 8, 12], 30)])
    groups = np.repeat(np.arange(30), 6)
    psi = [1.5, 10, 2] * np.exp([0.4, 0.2, 0.3] * rng.normal(size=(30, 3)))[groups]
    parameters = dict(zip(("ka", "V", "CL"), psi.T, strict=True))
    f = STRUCTURAL_MODELS["one_compartment_oral"].function(parameters, X)
    y = f * (1 + 0.1 * rng.normal(size=180))
    first = X[:, 1] == 0
    y[first] = noise * rng.random(first.sum())
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_oral", parameters={"ka": 1.0, "V": 5.0, "CL": 1.0},
        residual_error="proportional", random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(FitWarning, match="of 180 predictions are zero, where a pro"):
            fit.fit(X, y, groups=groups)
    fit.fit(X[~first], y[~first], groups=groups[~first])  # without a warning
    known, error = fit.residual_error_["b"], fit.standard_errors()["b"]
    assert abs(known - 0.1) < 3 * error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # a at its bound
        fit.set_params(residual_error="combined").fit(X, y, groups=groups)
    assert abs(fit.residual_error_["b"] - known) < 0.1 * error
