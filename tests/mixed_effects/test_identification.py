"""Fits whose likelihood has no single maximum, or one that rounding hides, say so."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, gammaln
from sklearn.exceptions import ConvergenceWarning

from sktem import NonlinearMixedEffectsRegressor
from sktem.mixed_effects.differences import numerical_hessian
from sktem.mixed_effects.inference.louis import LouisInformation
from sktem.mixed_effects.inference.quadratic import is_quadratic
from sktem.mixed_effects.open_directions import exchanged
from tests.mixed_effects.test_estimator import NORMAL, linear_data, linear_deviance

TIMES = np.arange(6.0)
GROUPS = np.repeat(np.arange(30), len(TIMES))
X = np.tile(TIMES, 30)[:, None]


def decay(psi, X):
    return psi["A"] * np.exp(-psi["k"] * X[:, 0])


def decays(seed=0, n=30):
    rng = np.random.default_rng(seed)
    A, k = np.array([[10.0], [0.3]]) * np.exp([[0.3], [0.2]] * rng.normal(size=(2, n)))
    f = A[GROUPS] * np.exp(-k[GROUPS] * X[:, 0])
    return f + 0.3 * rng.normal(size=len(f))


def fitted(model, X, y, parameters, **options):
    """Fit, and return the fit and its warnings of convergence."""
    return fitted_on((X, y, GROUPS), model, parameters, **options)


def fitted_on(data, model, parameters, **options):
    """Fit X, y and groups, and return the fit and its warnings of convergence."""
    fit = NonlinearMixedEffectsRegressor(
        model, parameters=parameters, random_state=0, **options
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit.fit(*data[:2], groups=data[2])
    found = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    return fit, " ".join(str(w.message) for w in found)


def counts(psi, X, y):
    return y * np.log(psi["rate"]) - psi["rate"] - gammaln(y + 1)


def outcomes(psi, X, y):
    return -np.logaddexp(0, np.where(y > 0, -1, 1) * psi["t"])


AMPLITUDES = {"A": 5.0, "k": 1.0, "z": 1.0}
CASES = {
    "a product": (
        lambda psi, X: psi["z"] * decay(psi, X), decays(), AMPLITUDES, {}, ["A", "z"]
    ),
    "nothing": (decay, decays(), AMPLITUDES, {}, ["z"]),
    "a constant covariate": (
        decay, decays(), {"A": 5.0, "k": 1.0}, {"covariates": {"A": [1]}},
        ["A", "beta_x1(A)"],
    ),
    "no event": (None, np.zeros(180), {"rate": 1.0}, {"log_density": counts}, ["rate"]),
    "only events": (
        None, np.ones(180), {"t": 0.1},
        {"log_density": outcomes, "transforms": "normal"}, ["t"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_the_data_do_not_determine_is_named(case):
    model, y, parameters, options, names = CASES[case]
    inputs = np.column_stack([X, np.ones(180)])
    fit, told = fitted(model, inputs, y, parameters, **options)
    assert not fit.converged_
    assert f"The data do not determine {names}" in told


@pytest.mark.parametrize(("most", "told"), [(3.0, False), (0.3, True)])
def test_doses_on_a_line_do_not_determine_a_plateau(most, told):
    rng = np.random.default_rng(1)
    dose = X * most / TIMES[-1]
    slope, half = 10 * np.exp(0.2 * rng.normal(size=30)), 1.0 if most > 1 else np.inf
    y = 1 + slope[GROUPS] * dose[:, 0] / (1 + dose[:, 0] / half)
    y += 0.02 * rng.normal(size=180)
    parameters = {"E0": 1.0, "Emax": 5.0, "EC50": 2.0}
    fit, message = fitted("emax", dose, y, parameters)
    assert fit.converged_ != told
    assert ("The data do not determine ['Emax', 'EC50']" in message) == told


@pytest.mark.parametrize("offset", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("omega", ["full", ["intercept"]])
@pytest.mark.parametrize("seed", [0, 2])
def test_the_origin_of_the_input_does_not_matter_or_is_told(offset, omega, seed):
    """A line has the same likelihood from any origin, but for random slopes alone."""
    rows, y, groups = linear_data(seed=seed)
    fit = NonlinearMixedEffectsRegressor(**NORMAL, omega=omega, random_state=0)
    best = fit.fit(rows, y, groups=groups).log_likelihood()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit.fit(rows + offset, y, groups=groups)
    told = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert fit.converged_ == (not told)
    if offset <= 1e3:
        assert not told
    if told:
        assert "subtract a typical value" in told[0]
    else:
        np.testing.assert_allclose(fit.log_likelihood(), best, atol=1e-3)


def line(psi, X):
    return psi["intercept"] + psi["slope"] * X[:, 0]


@pytest.mark.parametrize("model", ["linear", line])
def test_random_intercepts_from_a_far_origin(model, global_random_seed):
    """Slopes, and their standard errors, are those from a near one."""
    rows, y, groups = linear_data(seed=global_random_seed)
    options = {**NORMAL, "model": model, "omega": ["intercept"], "random_state": 0}
    fit = NonlinearMixedEffectsRegressor(**options).fit(rows, y, groups=groups)
    known, errors = fit.population_parameters_, fit.standard_errors()
    best = fit.log_likelihood()
    fit.fit(rows + 1e4, y, groups=groups)
    assert fit.converged_
    np.testing.assert_allclose(fit.log_likelihood(), best, atol=1e-4)
    found = fit.population_parameters_["slope"]
    np.testing.assert_allclose(found, known["slope"], atol=1e-2 * errors["slope"])
    found = fit.standard_errors()["slope"]
    np.testing.assert_allclose(found, errors["slope"], rtol=5e-3)


def test_shares_of_a_slope_are_not_determined(global_random_seed):
    """Whole steps of exact differences find directions that are flat."""
    rows, y, groups = linear_data(seed=global_random_seed)

    def shared(psi, X):
        return psi["level"] + (psi["slope"] + psi["rest"]) * X[:, 0]

    fit, message = fitted_on(
        (rows, y, groups), shared, {"level": 0.0, "slope": 1.0, "rest": 0.5},
        transforms="normal", omega=["level"],
    )  # fmt: skip
    assert not fit.converged_
    assert "The data do not determine ['slope', 'rest']" in message


@pytest.mark.parametrize("curved", [False, True])
def test_what_is_quadratic(curved):
    """Differences take whole steps for lines, and short ones for curves."""
    rows, y, groups = linear_data()
    power = 1.1 if curved else 1.0

    def model(psi, X):
        return (
            psi["level"] + psi["slope"] * X[:, 0] + psi["bend"] ** power * X[:, 0] ** 2
        )

    fit = NonlinearMixedEffectsRegressor(
        model, parameters={"level": 0.0, "slope": 1.0, "bend": 1.0}, omega=["level"],
        transforms="normal", random_state=0, max_iter=1, tol=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the single pass
        fitted = fit.fit(rows, y + rows[:, 0] ** 2, groups=groups).fitted_
    assert is_quadratic(fitted.model, fitted.rows, fitted.params) != curved


@pytest.mark.parametrize("offset", [1e2, 1e6])
def test_an_offset_of_the_response_does_not_matter(offset):
    rows, y, groups = linear_data()
    fit = NonlinearMixedEffectsRegressor(**NORMAL, omega="full", random_state=0)
    fit.fit(rows, y, groups=groups)
    known, errors = fit.omega_, fit.standard_errors()
    parameters = {"intercept": offset, "slope": 1.0}
    fit.set_params(parameters=parameters).fit(rows, y + offset, groups=groups)
    assert fit.converged_
    np.testing.assert_allclose(fit.omega_, known, rtol=1e-5)
    for name, error in fit.standard_errors().items():
        np.testing.assert_allclose(error, errors[name], rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_of_a_covariate_do_not_matter(unit):
    y, weight = decays(), np.random.default_rng(3).normal(70, 10, 30)[GROUPS]
    options = {"covariates": {"A": [1]}, "random_state": 0}
    fit = NonlinearMixedEffectsRegressor(
        decay, parameters={"A": 5.0, "k": 1.0}, **options
    )
    fit.fit(np.column_stack([X, weight]), y, groups=GROUPS)
    known, best = fit.covariate_effects_["A", "x1"], fit.log_likelihood()
    fit.fit(np.column_stack([X, unit * weight]), y, groups=GROUPS)  # no warning
    found = fit.covariate_effects_["A", "x1"] * unit
    np.testing.assert_allclose(found, known, rtol=1e-4)
    np.testing.assert_allclose(fit.log_likelihood(), best, atol=1e-5)


@pytest.mark.parametrize("offset", [1e2, 7e2, 1.5e3])
def test_standard_errors_from_another_origin(offset):
    """Those of a line follow from its marginal law about the middle."""
    rows, y, groups = linear_data(seed=2)
    fit = NonlinearMixedEffectsRegressor(**NORMAL, omega="full", random_state=0)
    fit.fit(rows + offset, y, groups=groups)
    found = fit.standard_errors()
    # The same line about the middle, where the deviance has a Hessian.
    middle = fit.set_params(random_state=1).fit(rows, y, groups=groups)
    (a, b), omega = middle.population_parameters_.values(), middle.omega_
    log_a = np.log(middle.residual_error_["a"])
    theta = np.array([a, b, omega[0, 0], omega[1, 1], omega[0, 1], log_a])
    hessian = numerical_hessian(
        lambda t: 0.5 * linear_deviance(t, rows, y, groups, True), theta, 1e-3 * theta
    )
    # a' = a - offset b, and so for the covariance.
    turned = np.eye(6)
    turned[0, 1] = turned[4, 3] = -offset
    turned[2, 3:5] = offset**2, -2 * offset
    expected = np.sqrt(np.diag(turned @ np.linalg.inv(hessian) @ turned.T))
    names = ["intercept", "slope", "omega2_intercept", "omega2_slope",
             "cov_intercept_slope"]  # fmt: skip
    for name, error in zip(names, expected, strict=False):
        np.testing.assert_allclose(found[name], error, rtol=5e-3, err_msg=name)


@pytest.mark.parametrize("omega", [[], ["a"], ["c"]])
@pytest.mark.parametrize("transforms", ["normal", "log-normal"])
def test_products_are_not_determined(transforms, omega):
    rng = np.random.default_rng(0)
    effects = 0.3 * rng.normal(size=30)[GROUPS]
    y = 2 + 6 * X[:, 0] + effects + 0.1 * rng.normal(size=180)

    def product(psi, X):
        return psi["a"] * psi["b"] + psi["c"] * X[:, 0]

    def line(psi, X):
        return psi["a"] + psi["c"] * X[:, 0]

    for model, names in ((product, ["a", "b", "c"]), (line, ["a", "c"])):
        fit, told = fitted(
            model, X, y, dict.fromkeys(names, 1.0), transforms=transforms, omega=omega
        )
        assert fit.converged_ == (model is line)
        assert ("The data do not determine ['a', 'b']" in told) == (model is product)


def test_products_without_variance_are_not_determined(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    k = 0.5 * np.exp(0.3 * rng.normal(size=30))[GROUPS]
    y = 6 * np.exp(-k * X[:, 0]) + 0.2 * rng.normal(size=180)

    def product(psi, X):
        return psi["z"] * decay(psi, X)

    fit, told = fitted(product, X, y, {"A": 1.0, "z": 2.0, "k": 1.0})
    assert "The data do not determine ['A', 'z']" in told
    assert not fit.converged_
    fit, told = fitted(decay, X, y, {"A": 1.0, "k": 1.0})
    assert fit.converged_


@pytest.mark.parametrize(("complete", "told"), [(1e6, True), (2.0, False)])
def test_rounding_of_missing_information_determines_nothing(complete, told):
    """Where nearly all of the complete information is missing, it is their rounding."""
    observed = np.array([[1.0, 1 - 5e-9], [1 - 5e-9, 1.0]])
    complete = np.diag([complete, 2.0])
    information = LouisInformation(complete, complete - observed, np.zeros(2))
    held = np.zeros(2, dtype=bool)
    vector = SimpleNamespace(numeric=slice(2, 2))
    assert exchanged(vector, information, held, True).all() == told


@pytest.mark.parametrize(("first", "told"), [(0.0, False), (20.0, True)])
def test_what_drifts_to_infinity_is_named(first, told):
    """A rise that is over at the first observation may be as fast as it likes."""
    rng = np.random.default_rng(0)
    plateau = 10 * np.exp(0.3 * rng.normal(size=30))[GROUPS]
    X = first + np.tile(TIMES, 30)[:, None]
    y = plateau * (1 - np.exp(-X[:, 0])) + 0.3 * rng.normal(size=180)

    def rise(psi, X):
        return psi["A"] * (1 - np.exp(-psi["k"] * X[:, 0]))

    fit, message = fitted(rise, X, y, {"A": 5.0, "k": 0.3}, omega=["A"])
    assert fit.converged_ != told
    assert ("['k']" in message) == told


def proportional_odds(psi, X, y):
    steps = [psi["first"] + psi["slope"] * X["time"], *(psi[k] for k in "234")]
    below = expit(np.cumsum(steps, axis=0))
    below = np.concatenate([np.zeros((1, len(y))), below, np.ones((1, len(y)))])
    chosen = y.astype(int), np.arange(len(y))
    before = chosen[0] - 1, chosen[1]
    return np.log(np.maximum(below[chosen] - below[before], 1e-300))


def test_wide_effects_are_determined(shared_data):
    """The few nodes of first steps make the information of knee scores indefinite."""
    knee = pd.read_csv(shared_data("nlme/saemix_knee.csv.gz"))
    fit = NonlinearMixedEffectsRegressor(
        None,
        log_density=proportional_odds,
        parameters={"first": -10.0, "2": 4.0, "3": 6.0, "4": 8.0, "slope": 0.8},
        transforms={"first": "normal"},
        omega=["first", "slope"],
        omega_start={"first": 100.0, "slope": 1.0},
        random_state=0,
    )
    fit.fit(knee[["time"]].astype(float), knee.y.astype(float), groups=knee.id)
    assert fit.converged_
    # A maximum in the direction that was said to be none: all is wider, or narrower.
    narrow, at, wide = (knee_log_likelihood(fit, knee, s) for s in (0.8, 1.0, 1.25))
    assert at > max(narrow, wide) + 0.3


def knee_log_likelihood(fit, knee, scale):
    """Sum over a grid of random effects, all values and the first being scaled."""
    values, (wide, narrow) = fit.population_parameters_, np.sqrt(np.diag(fit.omega_))
    u, v = np.linspace(-5, 5, 401)[:, None], np.linspace(-4, 4, 31)[None, :]
    weights = np.exp(-(u**2 + v**2) / 2)
    weights /= weights.sum()
    logs = np.zeros((knee.id.nunique(), *weights.shape))
    for i, (_, subject) in enumerate(knee.groupby("id")):
        for time, y in zip(subject.time, subject.y.astype(int), strict=True):
            level = (
                values["first"] + wide * u + values["slope"] * np.exp(narrow * v) * time
            )
            steps = np.cumsum([0.0, *(values[k] for k in "234")])
            upper = 1.0 if y == 5 else expit(scale * (level + steps[y - 1]))
            lower = 0.0 if y == 1 else expit(scale * (level + steps[y - 2]))
            logs[i] += np.log(np.maximum(upper - lower, 1e-300))
    return np.log((weights * np.exp(logs)).sum(axis=(1, 2))).sum()
