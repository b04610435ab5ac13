"""Priors of population parameters: posterior modes and their curvature."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation import (
    likelihood_ratio_test,
    profile_likelihood,
    sampling_importance_resampling,
)
from sktem.mixed_effects.differences import numerical_hessian

N, M, A = 12, 4, 0.5


@pytest.fixture(scope="module")
def rows():
    """Return X with a covariate of the subjects, y, and the subjects."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(N), M)
    X = np.column_stack([np.tile(np.arange(float(M)), N), rng.normal(size=N)[groups]])
    effects = rng.normal(size=(N, 2)) * [0.8, 0.3]
    y = 1.0 + effects[groups, 0] + (0.7 + effects[groups, 1]) * X[:, 0]
    return X, y + A * rng.normal(size=N * M), groups


def line(fixed, omega, **settings):
    return NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 0.5, "slope": 0.5},
        transforms="normal",
        inputs=[0],
        covariates={"intercept": 1},
        omega=omega,
        fixed=fixed,
        random_state=0,
        **settings,
    )


NAMES = ["intercept", "beta_x1(intercept)", "slope"]
PRIORS = {
    "intercept": (2.0, 0.2),
    "beta_x1(intercept)": (-0.5, 0.3),
    "slope": (0.0, 0.1),
}


def covariance(omega, X):
    """Return the covariance of the observations of a subject."""
    Z = np.column_stack([np.ones(M), X[:M, 0]])
    return Z @ omega @ Z.T + A**2 * np.eye(M)


def closed_form(rows, omega):
    """Return posterior means and deviations with known variances."""
    X, y, _ = rows
    design = np.column_stack([np.ones(N * M), X[:, 1], X[:, 0]])
    precision = np.kron(np.eye(N), np.linalg.inv(covariance(omega, X)))
    means, widths = np.array([PRIORS[name] for name in NAMES]).T
    normal = design.T @ precision @ design + np.diag(widths**-2.0)
    right = design.T @ precision @ y + means / widths**2
    return np.linalg.solve(normal, right), np.sqrt(np.diag(np.linalg.inv(normal)))


@pytest.mark.parametrize("random", [[], ["intercept"], ["intercept", "slope"]])
def test_closed_form_of_a_linear_model(rows, random):
    variances = {"intercept": 0.64, "slope": 0.09}
    fixed = {f"omega2_{name}": variances[name] for name in random}
    found = line({**PRIORS, **fixed, "a": A}, random).fit(
        rows[0], rows[1], groups=rows[2]
    )
    assert found.converged_
    omega = np.diag([variances[n] if n in random else 0.0 for n in variances])
    wanted, errors = closed_form(rows, omega)
    psi = found.population_parameters_
    values = psi["intercept"], found.covariate_effects_["intercept", "x1"], psi["slope"]
    exact = 1e-5 if random else 2e-3
    assert (np.abs(values - wanted) < exact * errors).all()
    given = found.standard_errors()
    np.testing.assert_allclose([given[name] for name in NAMES], errors, rtol=1e-4)
    if random:
        given = found.standard_errors("linearized")
        np.testing.assert_allclose([given[n] for n in NAMES], errors, rtol=0.05)
    # The likelihood alone has its maximum elsewhere.
    plain = line({**fixed, "a": A}, random)
    plain.fit(rows[0], rows[1], groups=rows[2])
    assert abs(plain.population_parameters_["slope"] - psi["slope"]) > errors[2]


def test_the_m_step_without_newton_steps(rows):
    fixed = {"omega2_intercept": 0.64, "omega2_slope": 0.09, "a": A}
    found = line({**PRIORS, **fixed}, ["intercept", "slope"], tol=0, max_iter=150)
    found.fit(rows[0], rows[1], groups=rows[2])
    wanted, errors = closed_form(rows, np.diag([0.64, 0.09]))
    psi = found.population_parameters_
    values = np.array([psi["intercept"], psi["slope"]])
    assert (np.abs(values - wanted[[0, 2]]) < 0.1 * errors[[0, 2]]).all()


def test_priors_of_variances(rows):
    # Posterior mode and curvature of the marginal model, by another optimiser.
    X, y, groups = rows
    priors = {"omega2_intercept": (0.2, 30), "slope": (0.0, 0.1)}
    found = line({**priors, "a": A}, ["intercept"]).fit(X, y, groups=groups)
    assert found.converged_

    def posterior(theta):
        mu, beta, slope, v = theta
        mean = mu + beta * X[:, 1] + slope * X[:, 0]
        of_data = multivariate_normal(
            np.zeros(M), covariance(np.diag([v, 0.0]), X)
        ).logpdf((y - mean).reshape(N, M))
        of_v = -15 * (np.log(v) + 0.2 / v)
        return -of_data.sum() - of_v + 0.5 * (slope / 0.1) ** 2

    start = [1.0, 0.0, 0.5, 0.3]
    best = minimize(posterior, start, method="Nelder-Mead", tol=1e-12).x
    hessian = numerical_hessian(posterior, best, np.full(4, 1e-3))
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    psi = found.population_parameters_
    values = [
        psi["intercept"],
        found.covariate_effects_["intercept", "x1"],
        psi["slope"],
        found.omega_[0, 0],
    ]
    assert (np.abs(values - best) < 1e-4 * errors).all()
    given = found.standard_errors()
    names = [*NAMES, "omega2_intercept"]
    np.testing.assert_allclose([given[n] for n in names], errors, rtol=1e-3)
    # Profiles and draws are those of the posterior.
    low, high = profile_likelihood(found, "slope").interval
    assert (high - low) / 2 == pytest.approx(1.96 * errors[2], rel=0.02)
    drawn = sampling_importance_resampling(found, 400, 200, random_state=0)
    assert drawn.slope.std() == pytest.approx(errors[2], rel=0.25)
    with pytest.raises(ValueError, match="a fit has priors"):
        likelihood_ratio_test(found, found)


@pytest.mark.parametrize("kind", ["half-normal", "inverse-wishart"])
def test_priors_of_deviations_and_blocks(rows, kind):
    # The mode and curvature of the marginal Gaussian, times the prior.
    X, y, groups = rows
    full, M0 = kind == "inverse-wishart", np.array([[0.3, 0.05], [0.05, 0.2]])
    fixed = {"a": ("half-normal", 0.2)}
    if full:
        fixed[("intercept", "slope")] = (M0, 15)
    else:
        fixed["omega2_intercept"] = ("half-normal", 0.3)
    omega = "full" if full else ["intercept"]
    found = line(fixed, omega).fit(X, y, groups=groups)
    assert found.converged_
    table = found.summary_.estimate
    names = ["intercept", "beta_x1(intercept)", "slope", "a", "omega2_intercept"]
    names += ["cov_intercept_slope", "omega2_slope"] if full else []
    theta = table[names].to_numpy()

    def posterior(theta, with_prior=True):
        mu, beta, slope, a, v, *others = theta
        c, w = others or (0.0, 0.0)
        own = np.array([[v, c], [c, w]])
        Z = np.column_stack([np.ones(M), X[:M, 0]])
        whole = Z @ own @ Z.T + a**2 * np.eye(M)
        rest = y - mu - beta * X[:, 1] - slope * X[:, 0]
        value = multivariate_normal(np.zeros(M), whole).logpdf(rest.reshape(N, M)).sum()
        if with_prior:
            value -= 0.5 * (a / 0.2) ** 2
            if full:
                inverse = np.trace(M0 @ np.linalg.inv(own))
                value -= 7.5 * (np.linalg.slogdet(own)[1] + inverse)
            else:
                value -= 0.5 * v / 0.3**2
        return -value

    steps = 1e-3 * np.maximum(np.abs(theta), 0.1)

    def decrement(function):
        slope = [function(theta + h) - function(theta - h) for h in np.diag(steps)]
        slope = np.array(slope) / (2 * steps)
        return 0.5 * slope @ np.linalg.solve(hessian, slope)

    hessian = numerical_hessian(posterior, theta, steps)
    assert decrement(posterior) < 1e-5
    assert decrement(lambda theta: posterior(theta, False)) > 0.05
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    given = found.standard_errors()
    np.testing.assert_allclose([given[name] for name in names], errors, rtol=2e-3)
    # M-steps alone lead there too.
    slow = line(fixed, omega, tol=0, max_iter=150).fit(X, y, groups=groups)
    moved = slow.fitted_.vector.of(slow.params_) - found.fitted_.vector.of(
        found.params_
    )
    order = [found.fitted_.vector.names.index(name) for name in names]
    assert (np.abs(moved[order]) < 0.25 * errors).all()


def test_what_the_data_do_not_determine():
    # A dose of one size tells the ratio of two parameters only, here CL / V of a curve
    # whose height is unknown; the prior is on the logarithm.
    rng = np.random.default_rng(0)
    groups, time = np.repeat(np.arange(25), 5), np.tile(np.arange(1.0, 6.0), 25)
    rate = 0.2 * np.exp(0.2 * rng.normal(size=25))[groups]
    y = np.exp(-rate * time) + 0.02 * rng.normal(size=125)
    found = NonlinearMixedEffectsRegressor(
        lambda psi, X: np.exp(-psi["CL"] / psi["V"] * X[:, 0]),
        parameters={"CL": 1.0, "V": 10.0},
        omega=["CL"],
        fixed={"V": (8.0, 0.3)},
        random_state=0,
    ).fit(time[:, None], y, groups=groups)
    assert found.converged_
    assert found.population_parameters_["V"] == pytest.approx(8.0, rel=1e-3)
    assert found.standard_errors()["V"] == pytest.approx(8.0 * 0.3, rel=1e-3)


@pytest.mark.parametrize(
    ("fixed", "match"),
    [
        ({"intercept": (1.0, 0.0)}, "a positive deviation"),
        ({"intercept": (1.0,)}, "a prior \\(value, deviation\\)"),
        ({"a": (1.0, 0.1)}, "no such prior.*half-normal"),
        ({"slope": ()}, "a prior \\(value, deviation\\)"),
        ({"omega2_intercept": (-1.0, 5)}, "must be positive"),
        ({"height": (1.0, 0.1)}, "height"),
        ({"a": ("half-normal", -1.0)}, "a positive scale"),
        ({"a": ("normal", 1.0)}, "half-normal"),
        ({"slope": ("half-normal", 1.0)}, "are for variances"),
        ({("slope",): (np.eye(1), 3)}, "names all random effects"),
        ({("intercept",): (-np.eye(1), 3)}, "positive definite 1 x 1"),
    ],
)
def test_wrong_use(rows, fixed, match):
    X, y, groups = rows
    with pytest.raises(ValueError, match=match):
        line(fixed, ["intercept"]).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="has covariances"):
        line({"omega2_slope": (1.0, 5)}, "full").fit(X, y, groups=groups)


def test_wrong_scales(rows):
    X, y, groups = rows
    positive = line({"slope": (-1.0, 0.1)}, ["intercept"])
    positive.set_params(transforms="log-normal")
    with pytest.raises(ValueError, match="must be in \\(0, inf\\)"):
        positive.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="which need fit"):
        line(PRIORS, ["intercept"]).partial_fit(X, y, groups=groups)
