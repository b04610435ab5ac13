"""Louis' information against a closed form, and against differences."""

import re
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import ODE, OneCompartment, TwoCompartment, read_nonmem
from sktem.mixed_effects.differences import DIFFERENCES, numerical_hessian
from sktem.mixed_effects.fitted import FittedMixedEffects
from sktem.mixed_effects.given_data import given_records
from sktem.mixed_effects.inference import conditional
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.marginal_likelihood import (
    ImportanceDraws,
    quadrature_draws,
)
from sktem.mixed_effects.problem import Problem
from sktem.mixed_effects.settings import MixedEffectsSettings
from sktem.mixed_effects.vector import ParameterVector
from tests.oracles import LIMIT

BOLUS = {"model": "one_compartment_iv", "inputs": [0, 1]}


def bolus(n=25, m=5, **options):
    """A fit to data with two covariates."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n), m)
    time = np.tile(np.linspace(1, 12, m), n)
    psi = [10, 2] * np.exp([0.2, 0.4] * rng.normal(size=(n, 2)))[groups]
    f = 100 / psi[:, 0] * np.exp(-psi[:, 1] / psi[:, 0] * time)
    X = np.column_stack(
        [
            np.full(n * m, 100.0),
            time,
            rng.normal(size=n)[groups],
            rng.normal(size=n * m),
        ]
    )
    y = np.maximum(f + 0.3 * rng.normal(size=n * m), 0.01)
    options = {**BOLUS, "max_iter": 80, "tol": 0, "random_state": 0, **options}
    fit = NonlinearMixedEffectsRegressor(parameters={"V": 15.0, "CL": 1.5}, **options)
    return fit.fit(X, y, groups=groups)


def bolus_density(psi, X, y):
    f = X[:, 0] / psi["V"] * np.exp(-psi["CL"] / psi["V"] * X[:, 1])
    return -0.5 * (y - f) ** 2 / 0.09


def relative(found, expected):
    """Differences in units of the information about the two parameters."""
    scale = np.sqrt(np.abs(np.diag(expected)))
    return np.abs(found - expected) / scale / scale[:, None]


def observed_information(model, X, params, draws):
    """Return minus the Hessian of the log-likelihood, on points that stay fixed."""
    vector = ParameterVector(model)
    cache: dict[bytes, np.ndarray] = {}

    def log_likelihood(values):
        changed = vector.params(values, params)
        key = np.concatenate([changed.numeric, changed.sigma]).tobytes()
        if key not in cache:
            cache[key] = draws.log_conditional(model, X, changed)
        log_joint = cache[key] + draws.log_prior(model, X, changed)
        return draws.log_likelihood(log_joint)[0].sum()

    steps = DIFFERENCES.step(model.structure) * vector.units(params, X.covariates)
    steps[vector.coefficients] *= 10
    return -numerical_hessian(log_likelihood, vector.of(params), steps)


OPTIONS = [
    {"omega": "full"},
    {"residual_error": "proportional", "omega": ["CL"]},
    {"residual_error": "combined"},
    {"residual_error": "exponential"},
    {"covariates": {"V": [2], "CL": [2, 3]}, "omega": "full", "fixed": ["V"]},
    {"log_density": bolus_density, "model": None, "omega": ["V"], "inputs": None},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o))
def test_equals_differences_of_the_likelihood_on_the_same_points(options):
    """On fixed points Louis' formula is the Hessian of the logarithm of a sum."""
    fit = bolus(max_iter=20, **options)  # any parameters will do
    draws = quadrature_draws(*fit.fitted_.modes(), 5)
    arguments = (fit.fitted_.model, fit.fitted_.rows, fit.params_, draws)
    found, expected = louis_information(*arguments), observed_information(*arguments)
    assert relative(found.observed, expected).max() < 5e-4  # of the differences
    # What the latents hide is no rounding error, and is of one sign.
    assert relative(found.complete, expected).max() > 0.02
    assert np.linalg.eigvalsh(found.missing)[0] > -1e-8 * np.trace(found.missing)


def line(random_state=0, n=40, m=5):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n), m)
    x = rng.normal(size=(n * m, 1))
    effects = (rng.normal(size=(n, 2)) @ [[1.0, 0.3], [0.0, 0.6]])[groups]
    y = 2 + effects[:, 0] + (3 + effects[:, 1]) * x[:, 0]
    y = y + 0.5 * rng.normal(size=n * m)
    fit = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 1.0, "slope": 1.0}, transforms="normal",
        omega="full", max_iter=100, tol=0, random_state=random_state,
    )  # fmt: skip
    return fit.fit(x, y, groups=groups), x[:, 0].reshape(n, m), y.reshape(n, m)


def test_linear_mixed_model_by_its_marginal_law(global_random_seed):
    """Within Monte Carlo errors of the information of a Gaussian law."""
    fit, x, y = line(global_random_seed)

    vector = fit.fitted_.vector

    def log_likelihood(values):
        params = vector.params(values, fit.params_)
        Z = np.stack([np.ones_like(x), x], axis=-1)
        covariance = Z @ params.omega @ Z.transpose(0, 2, 1)
        covariance = covariance + params.sigma[0] ** 2 * np.eye(x.shape[1])
        rest = y - Z @ params.coefficients
        white = np.linalg.solve(covariance, rest[:, :, None])[:, :, 0]
        return -0.5 * ((rest * white).sum() + np.linalg.slogdet(covariance)[1].sum())

    place = vector.of(fit.params_)
    steps = 1e-3 * np.maximum(np.abs(place), 0.1)
    information = -numerical_hessian(log_likelihood, place, steps)
    exact = np.sqrt(np.diag(np.linalg.inv(information)))
    found, noise = fit.standard_errors(n_draws=400, return_error=True)
    found, noise = (np.array(list(part.values())) for part in (found, noise))
    assert (np.abs(found - exact) / noise).max() < LIMIT
    assert (noise / exact).max() < 0.02
    # The complete information would not do, nor would the wrong draws.
    draws, _ = fit.fitted_.draws(400)
    parts = louis_information(fit.fitted_.model, fit.fitted_.rows, fit.params_, draws)
    wrong = np.sqrt(np.diag(np.linalg.inv(parts.complete)))
    assert (np.abs(wrong - exact) / noise).max() > 2 * LIMIT
    draws.log_weights[...] = 0.0
    parts = louis_information(fit.fitted_.model, fit.fitted_.rows, fit.params_, draws)
    wrong = np.sqrt(np.abs(np.diag(np.linalg.inv(parts.observed))))
    assert (np.abs(wrong - exact) / noise).max() > 2 * LIMIT


def test_few_draws_hide_as_much_as_many():
    """The missing information of three draws is that of all points, in the mean."""
    fit = bolus(max_iter=20)
    model, rows, params = fit.fitted_.model, fit.fitted_.rows, fit.params_
    nodes = quadrature_draws(*fit.fitted_.modes(), 3)
    terms = nodes.log_joint(model, rows, params) + nodes.log_weights
    weights = np.exp(terms - logsumexp(terms, axis=0)).T
    expected = np.diag(louis_information(model, rows, params, nodes).missing)
    rng, found = np.random.default_rng(0), []
    subjects = np.arange(len(weights))
    for _ in range(200):
        chosen = np.array([rng.choice(len(w), size=3, p=w) for w in weights]).T
        points, equal = nodes.points[chosen, subjects], np.zeros(chosen.shape)
        draws = ImportanceDraws(points, equal, 2)
        given = (model, rows, params, draws, equal)
        found.append(np.diag(louis_information(*given).missing))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    mean = np.mean(found, axis=0)
    assert (np.abs(mean - expected) < LIMIT * error).all()
    # Neither without a correction for the mean of the draws, nor with its square.
    for factor in (2 / 3, 3 / 2):
        assert (np.abs(mean * factor - expected) > LIMIT * error).all()


def test_monte_carlo_errors_are_those_of_other_draws():
    fit = bolus()
    found, told = [], []
    for seed in range(10):
        fitted = FittedMixedEffects(fit.fitted_.problem, fit.params_, random_state=seed)
        values, noise, _ = fitted.standard_errors(n_draws=100)
        found.append(list(values.values()))
        told.append(list(noise.values()))
    ratio = np.sqrt(np.square(told).mean(axis=0)) / np.std(found, axis=0, ddof=1)
    assert ((ratio > 0.4) & (ratio < 2.5)).all()


def test_without_random_effects():
    """Nonlinear least squares: the inverse of the Gauss-Newton matrix, nearly."""
    fit = bolus()
    rows = fit.fitted_.rows
    fit.set_params(omega=[]).fit(rows.inputs[:, [0, 1, 0, 1]], rows.y)
    psi = fit.population_parameters_

    def curve(psi):
        return (
            rows.inputs[:, 0]
            / psi["V"]
            * np.exp(-psi["CL"] / psi["V"] * rows.inputs[:, 1])
        )

    slopes = []
    for name in psi:
        step = 1e-5 * psi[name]
        up = curve({**psi, name: psi[name] + step})
        down = curve({**psi, name: psi[name] - step})
        slopes.append((up - down) / (2 * step))
    J = np.array(slopes)
    expected = fit.residual_error_["a"] * np.sqrt(np.diag(np.linalg.inv(J @ J.T)))
    values, noise = fit.standard_errors(return_error=True)
    found = [values[name] for name in psi]
    np.testing.assert_allclose(found, expected, rtol=0.05)
    assert values["a"] == pytest.approx(
        fit.residual_error_["a"] / np.sqrt(2 * len(rows.y)), rel=1e-2
    )
    assert set(noise.values()) == {0.0}


def test_wrong_settings():
    fit = bolus()
    with pytest.raises(ValueError, match=r"method must be one of .*'louis'"):
        fit.standard_errors("sandwich")
    with pytest.raises(ValueError, match='return_error needs method="louis"'):
        fit.standard_errors("linearized", return_error=True)


def absorbed(t, A, p):
    flow = p.KA * A[0] + 0.0 * t  # of the time, so that it is integrated
    return -flow, flow - p.CL / p.V * A[1]


EQUATIONS = {
    "parameters": ["CL", "V", "KA"], "n_states": 2, "output": lambda A, p: A[1] / p.V,
}  # fmt: skip


def absorption(model):
    """The problem of ten subjects with an oral dose, and parameters."""
    # Steps of an integration, several between two records, change with parameters.
    n, times = 10, np.array([0.0, 1, 4, 24, 48, 72])
    rng, closed = np.random.default_rng(0), OneCompartment("first-order")
    frame = {
        "ID": np.repeat(np.arange(n), 6), "TIME": np.tile(times, n),
        "AMT": np.tile([100.0, 0, 0, 0, 0, 0], n),
    }  # fmt: skip
    CL = 1.5 * np.exp(0.3 * rng.standard_normal(n))
    f = closed.predict(frame, {"CL": CL, "V": 30.0, "KA": 1.5})
    frame["DV"] = f * (1 + 0.1 * rng.standard_normal(6 * n))
    estimator = NonlinearMixedEffectsRegressor(
        model, parameters={"CL": 1.5, "V": 30.0, "KA": 1.5}, omega=["CL"],
        residual_error="proportional", fixed={"b": 0.1},
    )  # fmt: skip
    settings = MixedEffectsSettings.of(vars(estimator))
    problem = Problem.of(settings, given_records(settings, read_nonmem(frame)))
    return problem, problem.model.start._replace(
        coefficients=np.log([1.5]), numeric=np.log([30.0, 1.5]),
        omega=np.array([[0.09]]), sigma=np.array([0.0, 0.1]),
    )  # fmt: skip


def test_errors_of_integrated_equations_are_those_of_the_closed_form():
    def errors_of(model, method="louis"):
        fitted = FittedMixedEffects(*absorption(model))
        errors, _, message = fitted.standard_errors(method)
        return errors, message

    wanted, _ = errors_of(OneCompartment("first-order"))
    for rtol, rel in ((1e-8, 1e-4), (1e-4, 1e-2)):
        coarse = ODE(absorbed, **EQUATIONS, rtol=rtol, atol=0.01 * rtol)
        found, message = errors_of(coarse)
        assert found == pytest.approx(wanted, rel=rel)
        assert "integrated" not in message
    # Differences compare likelihoods whose steps differ.
    assert "integrated too coarsely" in errors_of(coarse, "linearized")[1]


def exchanged(t, A, p):
    flow = p.Q * (A[0] / p.V1 - A[1] / p.V2) + 0.0 * t
    return -p.CL / p.V1 * A[0] - flow, flow


def test_fits_of_stiff_equations_are_those_of_the_closed_form():
    n, times = 12, np.array([0.0, 0.25, 0.5, 1, 2, 4, 8, 12, 24])
    rng, m = np.random.default_rng(0), len(times)
    frame = {
        "ID": np.repeat(np.arange(n), m), "TIME": np.tile(times, n),
        "AMT": np.tile([100.0] + [0.0] * (m - 1), n),
    }  # fmt: skip
    psi = {"V1": 10.0, "Q": 1e4, "V2": 10.0}
    CL = 2.0 * np.exp(0.3 * rng.standard_normal(n))
    f = TwoCompartment().predict(frame, psi | {"CL": CL})
    frame["DV"] = f * (1 + 0.1 * rng.standard_normal(n * m)) * (frame["AMT"] == 0)
    equations = ODE(
        exchanged, parameters=["CL", *psi], n_states=2, method="stiff",
        output=lambda A, p: A[0] / p.V1,
    )  # fmt: skip
    fits = [
        NonlinearMixedEffectsRegressor(
            model, parameters={"CL": 3.0} | psi, omega=["CL"], fixed=psi,
            residual_error="proportional", n_burn_in=10, max_iter=30, random_state=0,
        ).fit(read_nonmem(frame))
        for model in (TwoCompartment(), equations)
    ]  # fmt: skip
    wanted, found = fits
    np.testing.assert_allclose(
        found.summary_.estimate, wanted.summary_.estimate, rtol=1e-4
    )
    assert found.log_likelihood() == pytest.approx(wanted.log_likelihood(), abs=1e-5)


def test_searches_of_modes_end_where_differences_tell_no_more(monkeypatch):
    """Where an integration has errors, searches have no more steps than without."""
    calls = []

    def searched(model):
        problem, params = absorption(model)
        rows, derivatives = problem.rows, conditional._derivatives
        start = problem.model.prior_moments(rows, params)[0]

        def counted(*arguments):
            calls.append(arguments)
            return derivatives(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(conditional, "_derivatives", counted)
            found = conditional.conditional_modes(problem.model, rows, params, start)
        assert found.converged.all()
        deviations = np.sqrt(found.covariances[:, 0, 0])
        n_calls = len(calls)
        calls.clear()
        return found.modes[:, 0], deviations, n_calls

    exact, deviations, few = searched(OneCompartment("first-order"))
    modes, _, n_calls = searched(ODE(absorbed, **EQUATIONS))
    assert np.abs((modes - exact) / deviations).max() < 0.01
    assert n_calls <= few + 2


@pytest.mark.parametrize("omega", [["CL"], ["CL", "V"]])
def test_fits_of_coarse_integrations_are_those_of_the_closed_form(omega):
    """Differences in step have no noise, so that Newton steps need no fine tolerance.

    With steps of their own they lead to estimates that depend on the seed.
    """
    problem, _ = absorption(OneCompartment("first-order"))
    records = problem.rows.events.records
    settings = {
        "parameters": {"CL": 1.5, "V": 30.0, "KA": 1.5}, "omega": omega,
        "residual_error": "proportional", "n_burn_in": 10, "max_iter": 20,
        "fixed": {"omega2_V": 0.01} if "V" in omega else None,
    }  # fmt: skip
    coarse = ODE(absorbed, **EQUATIONS, rtol=1e-4, atol=1e-6)
    closed, *fits = (
        NonlinearMixedEffectsRegressor(model, **settings, random_state=seed).fit(
            records
        )
        for model, seed in (
            (OneCompartment("first-order"), 0), (coarse, 0), (coarse, 1),
        )
    )  # fmt: skip
    errors = np.array(list(closed.standard_errors().values()))
    for fit in fits:
        away = fit.summary_.estimate - closed.summary_.estimate
        assert (np.abs(away) < 0.01 * np.nan_to_num(errors, nan=1.0)).all()


def test_fits_of_integrations_that_do_not_end():
    problem, _ = absorption(OneCompartment("first-order"))
    records = problem.rows.events.records
    settings = {
        "parameters": {"CL": 1.5, "V": 30.0, "KA": 1.5}, "omega": ["CL"],
        "residual_error": "proportional", "n_burn_in": 10, "max_iter": 20,
    }  # fmt: skip
    hasty = ODE(absorbed, **EQUATIONS, max_steps=1)
    fit = NonlinearMixedEffectsRegressor(hasty, **settings)
    with pytest.raises(ValueError, match='not finite .* max_steps .* method="stiff"'):
        fit.fit(records)


def test_fits_of_equations_that_are_not_compiled_say_so():
    """Only the first: what may be compiled is no reason to say anything."""
    problem, _ = absorption(OneCompartment("first-order"))
    share = 1.0

    def of_outside(t, A, p):
        flow = share * p.KA * A[0] + 0.0 * t
        return -flow, flow - p.CL / p.V * A[1]

    few = problem.rows.events.records.take(np.arange(2))
    for rhs, told in (
        (of_outside, r"it uses \['share'\] from outside"),
        (absorbed, ""),
    ):
        fit = NonlinearMixedEffectsRegressor(
            ODE(rhs, **EQUATIONS, rtol=1e-4), fixed=["V", "KA"], omega=[], max_iter=1,
            parameters={"CL": 1.5, "V": 30.0, "KA": 1.5}, tol=0, random_state=0,
        )  # fmt: skip
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            fit.fit(few)
        messages = " ".join(str(one.message) for one in found)
        assert ("slower by orders of magnitude" in messages) == bool(told)
        assert re.search(told, messages)
