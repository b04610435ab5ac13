"""The mixed-effects estimator: estimates against exact answers, and bad input."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from numba import njit
from scipy import optimize, stats
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold

from sktem import NonlinearMixedEffectsRegressor
from sktem.exceptions import FitWarning
from sktem.mixed_effects.differences import numerical_hessian
from sktem.samplers import MALA, ULA, ComponentWalk, RandomWalk
from tests.mixed_effects.fits import line_rows
from tests.oracles import LIMIT, standard_errors, student_limit

LINE = {"intercept": 1.0, "slope": 1.0}
NORMAL = {"model": "linear", "parameters": LINE, "transforms": "normal"}
BOLUS = {"model": "one_compartment_iv", "parameters": {"V": 15.0, "CL": 1.5}}


def linear_data(seed=0, n=30, m=5):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    x = np.tile(np.linspace(-1, 1, m), n) + 0.2 * rng.normal(size=n * m)
    effects = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.3], [0.0, 0.6]])
    y = 2 + effects[groups, 0] + (3 + effects[groups, 1]) * x
    return x[:, None], y + 0.5 * rng.normal(size=n * m), groups


def bolus_data(seed=0, n=30, m=5):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    X = np.column_stack([np.full(n * m, 100.0), np.tile(np.linspace(1, 12, m), n)])
    psi = [10, 2] * np.exp([0.2, 0.4] * rng.normal(size=(n, 2)))[groups]
    f = X[:, 0] / psi[:, 0] * np.exp(-psi[:, 1] / psi[:, 0] * X[:, 1])
    return X, f + 0.3 * rng.normal(size=n * m), groups


def linear_deviance(theta, X, y, groups, full):
    """-2 log-likelihood of the linear mixed model, by its marginal Gaussian law."""
    a, b, s00, s11, s01, log_sigma = theta
    omega = np.array([[s00, s01 * full], [s01 * full, s11]])
    if np.linalg.eigvalsh(omega)[0] <= 0:
        return 1e10
    m = np.bincount(groups)[0]  # balanced, so that all groups are done at once
    Z = np.stack([np.ones_like(X[:, 0]), X[:, 0]], axis=-1).reshape(-1, m, 2)
    covariance = Z @ omega @ Z.transpose(0, 2, 1) + np.exp(2 * log_sigma) * np.eye(m)
    rest = y.reshape(-1, m) - Z @ [a, b]
    white = np.linalg.solve(covariance, rest[:, :, None])[:, :, 0]
    log_det = np.linalg.slogdet(covariance)[1]
    return (rest * white).sum() + log_det.sum() + len(y) * np.log(2 * np.pi)


@pytest.fixture(scope="module")
def bolus():
    return NonlinearMixedEffectsRegressor(**BOLUS, random_state=0).fit(
        *bolus_data()[:2], groups=bolus_data()[2]
    )


# -------------------------------------------------------------------- exact estimates


@pytest.mark.parametrize("omega", ["diagonal", "full"])
def test_linear_mixed_model(omega):
    X, y, groups = linear_data()
    start = [2, 3, 1, 0.4, 0.1, -0.7]
    full = omega == "full"
    best = optimize.minimize(
        linear_deviance, start, (X, y, groups, full), method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-8, "maxiter": 4000, "maxfev": 4000},
    )  # fmt: skip
    fit = NonlinearMixedEffectsRegressor(
        **NORMAL, omega=omega, n_chains=40, max_iter=1200, tol=0, random_state=0
    ).fit(X, y, groups=groups)
    psi, o = fit.population_parameters_, fit.omega_
    found = [psi["intercept"], psi["slope"], o[0, 0], o[1, 1], o[0, 1]]
    found = np.array([*found, np.log(fit.residual_error_["a"])])
    if not full:
        best.x[4] = 0.0
    np.testing.assert_allclose(found, best.x, atol=3e-3)
    # The gain in likelihood of the exact maximum is next to nothing.
    ours = linear_deviance(found, X, y, groups, full)
    assert ours - best.fun < 1e-3
    for method in ("quadrature", "linearized"):
        assert -2 * fit.log_likelihood(method=method) == pytest.approx(ours, abs=1e-4)
    value, error = fit.log_likelihood(method="importance", return_error=True)
    assert abs(-2 * value - ours) < 2 * LIMIT * error < 1.0
    value, error = fit.log_likelihood(return_error=True)
    assert -2 * value == pytest.approx(ours, abs=1e-6) and error < 1e-6


# The maximum of the exact likelihood and the standard errors of its Hessian, as
# `test_theophylline_by_other_quadrature` finds them.
THEOPHYLLINE = {
    "ka": 1.579396, "V": 31.62598, "CL": 2.747989, "omega2_ka": 0.394725,
    "omega2_V": 0.017888, "omega2_CL": 0.070751, "a": 0.737977,
}  # fmt: skip
ERRORS = {
    "ka": 0.302802, "V": 1.47072, "CL": 0.234706, "omega2_ka": 0.189507,
    "omega2_V": 0.011017, "omega2_CL": 0.036195, "a": 0.056271,
}  # fmt: skip


def values_of(fit):
    found = dict(fit.population_parameters_)
    for j, name in enumerate(fit.random_effects_):
        found[f"omega2_{name}"] = fit.omega_[j, j]
    return {**found, **fit.residual_error_}


def theophylline(shared_data, **options):
    pandas = pytest.importorskip("pandas")
    data = pandas.read_csv(shared_data("nlme/saemix_theo.csv.gz"))
    options = {"model": "one_compartment_oral", "inputs": ["Dose", "Time"], **options}
    fit = NonlinearMixedEffectsRegressor(
        parameters={"ka": 1.0, "V": 20.0, "CL": 0.5}, **options
    )
    X = data[["Time", "Dose", "Weight"]]
    return fit.fit(X, data.Concentration, groups=data.Id), X, data


def test_theophylline(shared_data, global_random_seed):
    fits = [
        theophylline(shared_data, random_state=100 * global_random_seed + s)[0]
        for s in range(8)
    ]
    found = np.array([list(values_of(fit).values()) for fit in fits])
    assert list(values_of(fits[0])) == list(THEOPHYLLINE)
    exact = np.array(list(THEOPHYLLINE.values()))
    errors = np.array(list(ERRORS.values()))
    # Newton steps at the end leave nothing to the seed.
    assert (np.abs(found - exact) / errors).max() < 5e-3
    assert all(fit.converged_ for fit in fits)
    deviance = -2 * fits[0].log_likelihood()
    assert deviance == pytest.approx(345.43483, abs=1e-3)
    value, error = fits[0].log_likelihood(method="importance", return_error=True)
    assert abs(-2 * value - deviance) < 2 * LIMIT * error < 1
    for name, exact in ERRORS.items():
        assert fits[0].standard_errors()[name] == pytest.approx(exact, rel=5e-3)


def test_theophylline_by_other_quadrature(shared_data):
    """Deviance, slope and curvature at the estimate, by nodes of this file."""
    pandas = pytest.importorskip("pandas")
    data = pandas.read_csv(shared_data("nlme/saemix_theo.csv.gz"))
    subjects = [
        rows[["Dose", "Time", "Concentration"]].to_numpy().T[:, None]
        for _, rows in data.groupby("Id")
    ]

    def log_joint(phi, theta, subject):
        dose, time, y = subject
        (ka, V, CL), omega2, sigma = np.exp(phi.T)[:, :, None], theta[3:6], theta[6]
        k = CL / V
        f = dose * ka / (V * (ka - k)) * (np.exp(-k * time) - np.exp(-ka * time))
        prior = stats.norm.logpdf(phi, np.log(theta[:3]), np.sqrt(omega2))
        return stats.norm.logpdf(y, f, sigma).sum(axis=1) + prior.sum(axis=1)

    exact = np.array(list(THEOPHYLLINE.values()))
    nodes, weights = np.polynomial.hermite_e.hermegauss(11)
    white = np.stack(np.meshgrid(*[nodes] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    log_weights = np.log(weights)[np.indices([11] * 3).reshape(3, -1)].sum(axis=0)
    log_weights += 0.5 * (white**2).sum(axis=1)
    places = []
    for subject in subjects:
        mode = optimize.minimize(
            lambda phi, subject=subject: -log_joint(phi[None], exact, subject)[0],
            np.log(exact[:3]),
        )
        root = np.linalg.cholesky(mode.hess_inv)
        places.append((mode.x + white @ root.T, np.linalg.slogdet(root)[1]))

    def deviance(theta):
        total = 0.0
        for subject, (phi, log_det) in zip(subjects, places, strict=True):
            terms = log_joint(phi, theta, subject) + log_weights
            total += np.log(np.exp(terms - terms.max()).sum()) + terms.max() + log_det
        return -2 * total

    errors = np.array(list(ERRORS.values()))
    steps = 0.05 * np.diag(errors)
    slope = [(deviance(exact + h) - deviance(exact - h)) / 0.1 for h in steps]
    # The slope of 0.01 standard errors from the maximum is 0.02.
    assert np.abs(slope).max() < 0.02
    assert deviance(exact) == pytest.approx(345.43483, abs=1e-3)
    hessian = numerical_hessian(lambda theta: deviance(theta) / 2, exact, steps.sum(0))
    found = np.sqrt(np.diag(np.linalg.inv(hessian)))
    np.testing.assert_allclose(found, errors, rtol=5e-3)


def test_theophylline_by_draws_alone(shared_data, global_random_seed):
    """Without the Newton steps, within Monte Carlo errors."""
    options = {"tol": 0, "max_iter": 300}
    fits = [
        theophylline(shared_data, random_state=100 * global_random_seed + s, **options)
        for s in range(8)
    ]
    found = np.array([list(values_of(fit).values()) for fit, *_ in fits])
    exact = np.array(list(THEOPHYLLINE.values()))
    spread = np.array(list(ERRORS.values()))
    assert standard_errors(found, exact).max() < student_limit(8)
    assert (found.std(axis=0) / spread).max() < 0.2
    assert (np.abs(found.mean(axis=0) - exact) / spread).max() < 0.1


def test_theophylline_by_mala(shared_data):
    """The named sampler needs no tuning."""
    exact = np.array(list(THEOPHYLLINE.values()))
    options = {"sampler": "mala", "tol": 0, "max_iter": 200}
    fits = [theophylline(shared_data, random_state=s, **options)[0] for s in range(3)]
    found = np.array([list(values_of(fit).values()) for fit in fits])
    assert standard_errors(found, exact).max() < student_limit(3)
    errors = np.array(list(ERRORS.values()))
    assert (np.abs(found.mean(axis=0) - exact) / errors).max() < 0.15
    for fit in fits:
        rates = fit.history_.acceptance_rate
        assert np.mean(rates[-50:]) == pytest.approx(0.574, abs=0.06)


def test_the_estimate_is_a_fixed_point(bolus):
    """E-step identity: the score, an expectation over the latents, is zero."""
    rows, params = bolus.fitted_.rows, bolus.params_
    draws, log_joint = bolus.fitted_.draws(2000)
    terms = log_joint + draws.log_weights
    weights = np.exp(terms - terms.max(axis=0))
    weights /= weights.sum(axis=0)
    means = np.mean(
        [
            np.einsum("q,qd->d", weights[:, i], draws.points[:, i])
            for i in range(len(rows))
        ],
        axis=0,
    )
    errors = np.sqrt(np.diag(bolus.omega_) / len(rows))
    np.testing.assert_allclose((means - params.coefficients) / errors, 0, atol=0.1)


def test_likelihood_with_correlated_effects():
    """Importance sampling, quadrature and brute force on a grid agree."""
    X, y, groups = bolus_data(n=6)
    fit = NonlinearMixedEffectsRegressor(
        **BOLUS, omega="full", max_iter=60, tol=0, random_state=0
    ).fit(X, y, groups=groups)
    omega = np.array([[0.05, 0.06], [0.06, 0.1]])
    fitted = fit.fitted_.at(fit.params_._replace(omega=omega))
    model, rows, params = fitted.model, fitted.rows, fitted.params
    grid = np.linspace(-6, 6, 401)
    white = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    points = params.coefficients + white @ np.linalg.cholesky(omega).T
    mass = (
        np.exp(-0.5 * (white**2).sum(axis=1)) / (2 * np.pi) * (grid[1] - grid[0]) ** 2
    )
    total = 0.0
    for i in range(6):
        copies = rows[np.full(len(points), i)]
        values = model.log_conditional(copies, points, params)
        total += np.log(np.exp(values) @ mass)
    value, _ = fitted.log_likelihood("quadrature", n_nodes=15)
    assert value == pytest.approx(total, abs=1e-4)
    value, error = fitted.log_likelihood(n_draws=5000)
    assert abs(value - total) < LIMIT * error < 0.2


def test_log_likelihood_of_other_data():
    """Subjects are independent: parts of the data add up, in any order of rows."""
    X, y, groups = bolus_data(n=12)
    X = np.column_stack([X, np.linspace(-1, 1, 12)[groups]])
    fit = NonlinearMixedEffectsRegressor(
        **BOLUS, covariates={"CL": [2]}, max_iter=20, tol=0, random_state=0
    ).fit(X, y, groups=groups)
    total = fit.log_likelihood()
    assert fit.log_likelihood(X, y, groups) == pytest.approx(total, abs=1e-3)
    shuffled = np.random.default_rng(0).permutation(len(y))
    first = shuffled[groups[shuffled] < 5]
    rest = np.flatnonzero(groups >= 5)
    parts = [fit.log_likelihood(X[i], y[i], groups[i]) for i in (first, rest)]
    assert sum(parts) == pytest.approx(total, abs=1e-3)
    value, error = fit.log_likelihood(
        X, y, groups, method="importance", return_error=True
    )
    assert abs(value - total) < LIMIT * error
    worse = fit.log_likelihood(X, y + 1.0, groups, method="linearized")
    assert worse < total - 10
    for wrong, match in [
        ((X,), "needs X, y and groups as fit does"),
        (("importance",), "needs X, y and groups as fit does"),
        ((X, y), r"groups must be given: \['V', 'CL'\] have random effects"),
        ((X, y, np.arange(60) % 3), "covariate 'x2' varies within subjects"),
        ((X[:, :2], y, groups), "X has 2 features"),
    ]:
        with pytest.raises(ValueError, match=match):
            fit.log_likelihood(*wrong)


def test_standard_errors_are_those_of_the_observed_information(bolus):
    params, vector = bolus.params_, bolus.fitted_.vector

    def log_likelihood(values):
        other = bolus.fitted_.at(vector.params(values, params))
        return other.log_likelihood("quadrature", n_nodes=9)[0]

    place = vector.of(params)
    information = -numerical_hessian(log_likelihood, place, 0.01 * np.abs(place))
    exact = np.sqrt(np.diag(np.linalg.inv(information)))
    exact[:2] *= list(bolus.population_parameters_.values())
    values, noise = bolus.standard_errors(return_error=True)
    assert values == bolus.standard_errors()
    found, noise = np.array(list(values.values())), np.array(list(noise.values()))
    assert (np.abs(found - exact) / np.hypot(noise, 1e-3 * exact)).max() < LIMIT
    assert (noise / exact).max() < 0.01
    linearized = np.array(list(bolus.standard_errors("linearized").values()))
    np.testing.assert_allclose(linearized, exact, rtol=0.3)


# ----------------------------------------------------------- solvers, samplers, models


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "isaem", "batch_size": 10},
        {"solver": "vrttem", "batch_size": 10},
        {"solver": "fittem", "batch_size": 10},
        {"sampler": "mala"},
        {"solver": "biased-saem"},
        {"sampler": RandomWalk(scale=0.15, n_steps=4, n_chains=4)},
        {"n_jobs": 2, "n_chains": 6},
    ],
    ids=str,
)
def test_every_solver_and_sampler_finds_the_estimate(options, bolus):
    X, y, groups = bolus_data()
    fit = NonlinearMixedEffectsRegressor(
        **BOLUS, **options, max_iter=250, tol=0, random_state=1
    ).fit(X, y, groups=groups)
    found, expected = values_of(fit), values_of(bolus)
    for name, error in bolus.standard_errors().items():
        assert abs(found[name] - expected[name]) < 0.5 * error, name
    assert 0.1 < np.mean(fit.history_.acceptance_rate[-50:]) <= 1


def test_history_tells_of_the_bias_of_ula():
    X, y, groups = bolus_data()
    told = []
    for sampler in (ULA(0.01, 5, 4, "prior"), ULA(0.0025, 5, 4, "prior"), MALA(0.01)):
        fit = NonlinearMixedEffectsRegressor(
            **BOLUS, sampler=sampler, max_iter=150, tol=0, random_state=0
        ).fit(X, y, groups=groups)
        assert len(fit.history_.bias) == len(fit.history_.acceptance_rate) == 150
        told.append(np.mean(fit.history_.bias[75:]))
    assert 4 < told[0] / told[1] < 16  # a step to the power of 1.5: eight
    assert 0 < told[1] < told[0] < 1 and np.isnan(told[2])


def bolus_function(psi, X):
    return X[:, 0] / psi["V"] * np.exp(-psi["CL"] / psi["V"] * X[:, 1])


def bolus_density(psi, X, y):
    return stats.norm.logpdf(y, bolus_function(psi, X), psi["a"])


def test_a_function_equals_the_library(bolus):
    X, y, groups = bolus_data()
    options = {**BOLUS, "model": bolus_function, "max_iter": 30, "tol": 0}
    fits = [
        NonlinearMixedEffectsRegressor(**{**options, "model": model}, random_state=0)
        for model in (bolus_function, BOLUS["model"])
    ]
    found = [list(values_of(fit.fit(X, y, groups=groups)).values()) for fit in fits]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    same = pickle.loads(pickle.dumps(fits[0]))
    np.testing.assert_array_equal(same.predict(X, groups), fits[0].predict(X, groups))


def test_parameters_are_attributes_too(bolus):
    X, y, groups = bolus_data()
    settings = {**BOLUS, "max_iter": 5, "tol": 0, "random_state": 0}
    by_key, by_attribute = (
        NonlinearMixedEffectsRegressor(**{**settings, "model": model})
        .fit(X, y, groups=groups)
        .params_
        for model in (
            lambda p, X: X[:, 0] / p["V"] * np.exp(-p["CL"] / p["V"] * X[:, 1]),
            lambda p, X: X[:, 0] / p.V * np.exp(-p.CL / p.V * X[:, 1]),
        )
    )
    np.testing.assert_array_equal(by_key.omega, by_attribute.omega)
    misread = NonlinearMixedEffectsRegressor(
        **{**settings, "model": lambda p, X: p.K * X[:, 0]}
    )
    with pytest.raises(AttributeError, match=r"there are \['V', 'CL'\], and no 'K'"):
        misread.fit(X, y, groups=groups)


def test_a_log_density_equals_the_residual_error(bolus):
    """A parameter without random effect stands for the residual error."""
    X, y, groups = bolus_data()
    fit = NonlinearMixedEffectsRegressor(
        bolus_function, parameters={**BOLUS["parameters"], "a": 1.0},
        log_density=bolus_density, omega=["V", "CL"], max_iter=200, tol=0,
        random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    found, errors = values_of(fit), bolus.standard_errors()
    for name, expected in values_of(bolus).items():
        assert abs(found[name] - expected) < 0.25 * errors[name], name
    assert fit.residual_error_ == {}
    with pytest.raises(ValueError, match="log_density has no residual error"):
        fit.log_likelihood(method="linearized")
    with pytest.raises(ValueError, match=r"are drawn: pass draw, .*psi, X, rng\)"):
        fit.simulate(X)
    with pytest.raises(TypeError, match="draw must be callable, with log_density"):
        clone(bolus).set_params(draw=np.random.normal).fit(X, y, groups=groups)


def log_odds(psi, X, y):
    logit = psi["b0"] + psi["b1"] * X[:, 0]
    return y * logit - np.logaddexp(0, logit)


def test_binary_outcomes_by_quadrature():
    rng = np.random.default_rng(0)
    groups, X = np.repeat(np.arange(80), 6), rng.normal(size=(480, 1))
    y = rng.random(480) < expit(0.5 + X[:, 0] + 1.5 * rng.normal(size=80)[groups])
    fit = NonlinearMixedEffectsRegressor(
        None, parameters={"b0": 0.0, "b1": 0.0}, transforms="normal", omega=["b0"],
        log_density=log_odds, tol=0, max_iter=400, random_state=0,
    ).fit(X, y * 1.0, groups=groups)  # fmt: skip
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)

    def deviance(theta):
        logit = theta[0] + theta[1] * X + np.exp(theta[2]) * nodes
        terms = y[:, None] * logit - np.logaddexp(0, logit)
        sums = np.add.reduceat(terms, np.arange(0, 480, 6))
        return -2 * np.log(np.exp(sums) @ weights / np.sqrt(2 * np.pi)).sum()

    best = optimize.minimize(deviance, [0.5, 1.0, 0.4])
    psi = fit.population_parameters_
    found = [psi["b0"], psi["b1"], 0.5 * np.log(fit.omega_[0, 0])]
    assert deviance(found) - best.fun < 0.05
    assert -2 * fit.log_likelihood(method="quadrature", n_nodes=30) == pytest.approx(
        deviance(found), abs=1e-3
    )
    with pytest.raises(ValueError, match="there is no function to predict with"):
        fit.predict(X)


def test_without_burn_in_the_estimates_are_averaged_all_the_same():
    """The intercept is linear in the statistics: it is the mean of its path."""
    X, y, groups = linear_data()
    options = {"n_burn_in": 0, "tol": 0, "max_iter": 30, "random_state": 0}
    fit = NonlinearMixedEffectsRegressor(**NORMAL, **options).fit(X, y, groups=groups)
    path = fit.trace_["intercept"]
    mean = fit.population_parameters_["intercept"]
    assert mean == pytest.approx(path[10:].mean(), rel=1e-10)
    assert mean != pytest.approx(path[-1], rel=1e-6)


@pytest.mark.parametrize("error", ["proportional", "combined", "exponential"])
def test_residual_errors(error):
    X, _, groups = bolus_data(n=40, m=8)
    fit = NonlinearMixedEffectsRegressor(**BOLUS, residual_error=error, random_state=0)
    f = bolus_function({"V": 10.0, "CL": 1.0}, X)
    rng = np.random.default_rng(0)
    f = f * np.exp(0.3 * rng.normal(size=40))[groups]
    noise = rng.normal(size=len(f))
    y = f * np.exp(0.1 * noise) if error == "exponential" else f + noise * {
        "proportional": 0.1 * f, "combined": np.hypot(0.2, 0.1 * f)}[error]  # fmt: skip
    fit.fit(X, y, groups=groups)
    truth = {"proportional": {"b": 0.1}, "exponential": {"a": 0.1}}
    truth = truth.get(error, {"a": 0.2, "b": 0.1})
    for name, value in truth.items():
        error = fit.standard_errors()[name]
        assert abs(fit.residual_error_[name] - value) < 3 * error < 0.3
    again = fit.simulate(X, groups, random_state=0)
    assert np.isfinite(again).all() and again.std() == pytest.approx(y.std(), rel=0.5)


def test_covariates_by_subject_and_by_row():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n, m = 60, 6
    groups = np.repeat(np.arange(n), m)
    frame = pandas.DataFrame(
        {
            "x": rng.normal(size=n * m),
            "weight": rng.normal(size=n)[groups],
            "food": rng.integers(0, 2, n * m),
        }
    )
    effects = 0.5 * rng.normal(size=(n, 2))[groups]
    intercept = 1 + 0.8 * frame.weight - 1.5 * frame.food + effects[:, 0]
    y = intercept + (2 + effects[:, 1]) * frame.x + 0.2 * rng.normal(size=n * m)
    fit = NonlinearMixedEffectsRegressor(
        **NORMAL,
        inputs=["x"],
        covariates={"intercept": ["weight", "food"]},
        random_state=0,
    ).fit(frame, y, groups=groups)
    effects = fit.covariate_effects_
    assert effects["intercept", "weight"] == pytest.approx(0.8, abs=0.25)
    assert effects["intercept", "food"] == pytest.approx(-1.5, abs=0.1)
    names = set(fit.standard_errors())
    assert {"beta_weight(intercept)", "beta_food(intercept)", "omega2_slope"} <= names
    assert fit.score(frame, y, groups=groups) > fit.score(frame, y) > 0.5


def test_a_known_covariance():
    X, y, groups = line_rows(n=20)
    omega, a = np.array([[1.0, -0.3], [-0.3, 0.4]]), 0.5
    fixed = {"omega2_intercept": 1.0, "cov_intercept_slope": -0.3, "omega2_slope": 0.4}
    settings = {**NORMAL, "omega": "full", "random_state": 0}
    fit = NonlinearMixedEffectsRegressor(**settings, fixed={**fixed, "a": a})
    fit.fit(X, y, groups=groups)
    # All subjects have the same rows: generalised least squares are those of means.
    design = np.column_stack([np.ones(5), X[:5, 0]])
    best = np.linalg.lstsq(design, y.reshape(20, 5).mean(axis=0), rcond=None)[0]
    found = list(fit.population_parameters_.values())
    np.testing.assert_allclose(found, best, rtol=1e-6)
    np.testing.assert_array_equal(fit.omega_, omega)
    law = stats.multivariate_normal(
        design @ best, design @ omega @ design.T + a**2 * np.eye(5)
    )
    assert fit.log_likelihood() == pytest.approx(law.logpdf(y.reshape(20, 5)).sum())
    assert set(fit.standard_errors()) == {"intercept", "slope"} and fit.converged_
    part = {**fixed, "cov_intercept_slope": 0.9}
    with pytest.raises(ValueError, match="must be positive definite"):
        fit.set_params(fixed=part).fit(X, y, groups=groups)
    del part["omega2_slope"]
    with pytest.raises(ValueError, match=r"as a whole: fix \['omega2_slope'\] too"):
        fit.set_params(fixed=part).fit(X, y, groups=groups)


def test_a_known_effect_of_a_covariate_that_varies():
    X, y, groups = line_rows(n=20)
    food = np.random.default_rng(0).integers(0, 2, len(y))
    settings = {**NORMAL, "random_state": 0, "inputs": [0], "omega": ["intercept"]}
    plain = NonlinearMixedEffectsRegressor(**settings).fit(X, y, groups=groups)
    held = NonlinearMixedEffectsRegressor(
        **settings, covariates={"intercept": [1]}, fixed={"beta_x1(intercept)": -1.5}
    ).fit(np.column_stack([X, food]), y - 1.5 * food, groups=groups)
    assert held.log_likelihood() == pytest.approx(plain.log_likelihood(), abs=1e-6)
    assert held.covariate_effects_ == {("intercept", "x1"): -1.5}
    assert set(held.standard_errors()) == set(plain.standard_errors())
    shift = held.predict(np.array([[0.5, 1.0], [0.5, 0.0]]))
    assert np.diff(shift) == pytest.approx(1.5, rel=1e-9)


def test_fixed_parameters():
    X, y, groups = bolus_data()
    fit = NonlinearMixedEffectsRegressor(
        **BOLUS, fixed=["V"], max_iter=60, tol=0, random_state=0
    ).fit(X, y, groups=groups)
    assert fit.population_parameters_["V"] == pytest.approx(15.0)
    assert "V" not in fit.standard_errors() and "omega2_V" in fit.standard_errors()
    assert fit.omega_[0, 0] > 0.1  # it takes what the fixed mean leaves


def test_everything_can_be_fixed():
    """At its estimate, nothing else moves; elsewhere it stays, the rest gives way."""
    rng = np.random.default_rng(1)
    X, y, groups = bolus_data()
    y = y * (1 + 0.15 * rng.normal(size=len(y)))
    X = np.column_stack([X, rng.normal(size=30)[groups]])
    options = {**BOLUS, "inputs": [0, 1], "covariates": {"CL": [2]}, "random_state": 0}
    options["residual_error"] = "combined"
    whole = NonlinearMixedEffectsRegressor(**options).fit(X, y, groups=groups)
    errors = whole.standard_errors()
    psi, effects = whole.population_parameters_, whole.covariate_effects_
    at = {
        "V": psi["V"], "beta_x2(CL)": effects["CL", "x2"],
        "omega2_V": whole.omega_[0, 0], "a": whole.residual_error_["a"],
    }  # fmt: skip
    held = NonlinearMixedEffectsRegressor(**options, fixed=at)
    held.fit(X, y, groups=groups)
    assert set(held.standard_errors()) == set(errors) - set(at)
    assert held.bic() - whole.bic() == pytest.approx(-4 * np.log(30), abs=0.3)
    for name, value in values_of(held).items():
        assert abs(value - values_of(whole)[name]) < 0.1 * errors[name], name
        if name in at:
            assert value == pytest.approx(at[name], rel=1e-12)
    assert held.covariate_effects_["CL", "x2"] == at["beta_x2(CL)"]
    away = clone(held).set_params(fixed={"omega2_V": 0.5, "a": 1.0})
    with pytest.warns(FitWarning, match="'b' is at its lower bound"):
        away.fit(X, y, groups=groups)  # an error of 1 leaves nothing to b
    assert away.omega_[0, 0] == 0.5 and away.residual_error_["a"] == 1.0
    assert away.log_likelihood() < held.log_likelihood() - 5
    assert away.residual_error_["b"] < whole.residual_error_["b"]


def test_nothing_is_left_to_estimate():
    X, y, groups = line_rows(n=8)
    fixed = {"intercept": 1.5, "slope": 2.5, "omega2_intercept": 1.2, "a": 0.7}
    fit = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 1.0, "slope": 1.0},
        transforms="normal", omega=["intercept"], fixed=fixed, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    mean = 1.5 + 2.5 * X[:5, 0]
    law = stats.multivariate_normal(mean, 1.2 + 0.7**2 * np.eye(5))
    assert fit.log_likelihood() == pytest.approx(law.logpdf(y.reshape(8, 5)).sum())
    assert fit.converged_ and fit.n_iter_ == 1
    assert fit.standard_errors() == fit.trace_ == fit.monte_carlo_errors_ == {}


def test_fixed_without_random_effect():
    X, y, groups = bolus_data()
    X = np.column_stack([X, np.linspace(-1, 1, 30)[groups]])
    fit = NonlinearMixedEffectsRegressor(
        **BOLUS, inputs=[0, 1], omega=["CL"], covariates={"V": [2]}, random_state=0,
        fixed={"V": 10.0, "beta_x2(V)": 0.2, "a": 0.4}, max_iter=60, tol=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    assert fit.population_parameters_["V"] == pytest.approx(10.0)
    assert fit.covariate_effects_ == {("V", "x2"): 0.2}
    assert set(fit.standard_errors()) == {"CL", "omega2_CL"}
    V = fit.individual_parameters()["V"]
    np.testing.assert_allclose(V, 10 * np.exp(0.2 * np.linspace(-1, 1, 30)))


# --------------------------------------------------------------------- after the fit


def test_individual_parameters(bolus):
    X, y, groups = bolus_data()
    modes, means = (bolus.individual_parameters(method=m) for m in ("mode", "mean"))
    draws = bolus.individual_parameters(method="draws", n_draws=500)
    assert draws["V"].shape == (500, 30) and means["V"].shape == (30,)
    spread = draws["CL"].std(axis=0)
    assert standard_errors(draws["CL"], means["CL"]).max() < LIMIT
    assert (np.abs(modes["CL"] - means["CL"]) < spread).all()
    assert all(0 < share < 1 for share in bolus.shrinkage().values())
    with pytest.raises(ValueError, match=r"method must be one of \['draws', 'mean'"):
        bolus.individual_parameters(method="median")


def test_individual_parameters_of_new_subjects(bolus):
    X, y, groups = bolus_data()
    known = bolus.individual_parameters()
    some = np.isin(groups, [3, 11])
    new = bolus.individual_parameters(X=X[some], y=y[some], groups=groups[some] + 100)
    for name, values in known.items():
        np.testing.assert_allclose(new[name], values[[3, 11]], rtol=1e-4)
    with pytest.raises(ValueError, match="individual_parameters needs X, y and groups"):
        bolus.individual_parameters(X=X)


def test_prediction_of_known_and_unknown_subjects(bolus):
    X, y, groups = bolus_data()
    population, individual = bolus.predict(X), bolus.predict(X, groups)
    psi = {name: np.array([v]) for name, v in bolus.population_parameters_.items()}
    np.testing.assert_allclose(population, bolus_function(psi, X))
    modes = bolus.individual_parameters()
    own = {name: value[groups] for name, value in modes.items()}
    np.testing.assert_allclose(individual, bolus_function(own, X), rtol=1e-8)
    mixed = bolus.predict(X, np.where(groups < 10, groups, -5))
    np.testing.assert_allclose(mixed, np.where(groups < 10, individual, population))
    assert bolus.score(X, y, groups=groups) > bolus.score(X, y)
    with pytest.raises(ValueError, match="groups must have one label per row"):
        bolus.predict(X, groups[:3])
    with pytest.warns(UserWarning, match="all subjects count as new ones"):
        text = bolus.predict(X, groups.astype(str))
    np.testing.assert_array_equal(text, population)
    np.testing.assert_array_equal(bolus.predict(X, groups.astype(float)), individual)


def test_criteria(bolus):
    deviance = -2 * bolus.log_likelihood()
    assert bolus.aic() == pytest.approx(deviance + 10)
    assert bolus.bic() == pytest.approx(deviance + 5 * np.log(30))
    with pytest.raises(ValueError, match=r"method must be one of \['auto', 'imp"):
        bolus.log_likelihood(method="laplace")
    with pytest.raises(ValueError, match=r"method must be one of \['linearized'"):
        bolus.standard_errors("sandwich")


def test_monte_carlo_errors(bolus):
    """They tell how far averages with other seeds are, up to a factor of three."""
    X, y, groups = bolus_data()
    found, told = [], []
    for seed in range(12):
        fit = clone(bolus).set_params(random_state=seed, tol=0, max_iter=200)
        fit.fit(X, y, groups=groups)
        found.append(fit.fitted_.vector.of(fit.params_))
        told.append(list(fit.monte_carlo_errors_.values()))
    ratio = np.sqrt(np.square(told).mean(axis=0)) / np.std(found, axis=0, ddof=1)
    assert ((ratio > 1 / 3) & (ratio < 3)).all()


# ------------------------------------------------------------------------------ data


def test_order_and_labels_of_groups_do_not_matter(bolus):
    X, y, groups = bolus_data()
    expected = list(values_of(bolus).values())
    labels = np.array([f"subject {g:02d}" for g in groups])
    order = np.argsort(np.tile(np.arange(5), 30), kind="stable")
    fit = clone(bolus).fit(X[order], y[order], groups=labels[order])
    np.testing.assert_allclose(list(values_of(fit).values()), expected, rtol=1e-6)
    assert fit.groups_[3] == "subject 03"


def test_unbalanced_groups_and_one_row():
    X, y, groups = bolus_data()
    keep = (groups != 0) | (np.arange(len(y)) == 0)
    keep &= ~((groups == 3) & (np.arange(len(y)) % 5 > 1))
    fit = NonlinearMixedEffectsRegressor(**BOLUS, random_state=0)
    fit.fit(X[keep], y[keep], groups=groups[keep])
    assert np.isfinite(list(fit.standard_errors().values())).all()
    assert fit.individual_parameters()["V"].shape == (30,)


def test_constant_response():
    X, y, groups = linear_data()
    fit = NonlinearMixedEffectsRegressor(**NORMAL, max_iter=60, tol=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.fit(X, np.full(len(y), 4.0), groups=groups)
    assert np.isfinite(list(values_of(fit).values())).all()
    np.testing.assert_allclose(fit.predict(X), 4.0, atol=0.3)


def test_without_groups_it_is_nonlinear_regression():
    X, y, _ = bolus_data()
    fit = NonlinearMixedEffectsRegressor(**BOLUS, omega=[], random_state=0).fit(X, y)
    best, _ = optimize.curve_fit(
        lambda x, V, CL: bolus_function({"V": V, "CL": CL}, x), X, y, [15, 1.5]
    )
    np.testing.assert_allclose(
        list(fit.population_parameters_.values()), best, rtol=1e-3
    )
    assert fit.random_effects_ == [] and fit.converged_
    assert np.isfinite(fit.bic())


def test_grid_search_over_groups():
    X, y, groups = bolus_data()
    with sklearn.config_context(enable_metadata_routing=True):
        fit = NonlinearMixedEffectsRegressor(**BOLUS, max_iter=20, tol=0)
        fit.set_fit_request(groups=True).set_score_request(groups=True)
        search = GridSearchCV(
            fit, {"residual_error": ["constant", "proportional"]}, cv=GroupKFold(3)
        ).fit(X, y, groups=groups)
    assert search.best_params_ == {"residual_error": "constant"}
    assert len(search.best_estimator_.random_effects_) == 2


def test_partial_fit_on_batches_of_subjects():
    X, y, groups = bolus_data(n=1200)
    fit = NonlinearMixedEffectsRegressor(**BOLUS, random_state=0)
    for part in np.split(np.arange(1200), 8):
        rows = np.isin(groups, part)
        fit.partial_fit(X[rows], y[rows], groups=groups[rows])
    whole = NonlinearMixedEffectsRegressor(**BOLUS, random_state=0, tol=0, max_iter=80)
    whole.fit(X, y, groups=groups)
    for name, error in whole.standard_errors().items():
        assert abs(values_of(fit)[name] - values_of(whole)[name]) < 2.5 * error, name
    with pytest.raises(ValueError, match="X has 3 features, but"):
        fit.partial_fit(np.ones((4, 3)), np.ones(4), groups=np.arange(4))


def test_sorted_subjects_of_a_stream_are_told():
    """They pull the estimates along; in random order nothing is said."""
    X, y, groups = bolus_data(n=200)

    def streamed(order):
        fit = NonlinearMixedEffectsRegressor(**BOLUS, random_state=0)
        for part in np.split(order, 10):
            rows = np.concatenate([np.flatnonzero(groups == i) for i in part])
            fit.partial_fit(X[rows], y[rows], groups=groups[rows])
        return fit.log_likelihood(X, y, groups=groups)

    mixed = streamed(np.random.default_rng(0).permutation(200))
    means = np.bincount(groups, y) / np.bincount(groups)
    with pytest.warns(FitWarning, match="subjects .* come in an order") as caught:
        apart = streamed(np.argsort(means))
    assert len(caught) == 1 and apart < mixed - 5


def half_missing(psi, X):
    return np.where(psi["V"] > 12, np.nan, bolus_function(psi, X))


def raises(psi, X):
    if np.any(psi["CL"] != 1.5):
        raise FloatingPointError("the solver of the equation failed")
    return bolus_function(psi, X)


def test_model_functions_that_fail():
    X, y, groups = bolus_data()
    options = {**BOLUS, "parameters": {"V": 8.0, "CL": 1.5}, "max_iter": 30, "tol": 0}
    fit = NonlinearMixedEffectsRegressor(
        **{**options, "model": half_missing}, random_state=0
    ).fit(X, y, groups=groups)
    assert fit.individual_parameters()["V"].max() < 12.1
    with pytest.raises(ValueError, match="not finite at the start values"):
        NonlinearMixedEffectsRegressor(
            half_missing, parameters=BOLUS["parameters"]
        ).fit(X, y, groups=groups)
    with pytest.raises(FloatingPointError, match="the equation failed"):
        NonlinearMixedEffectsRegressor(**{**options, "model": raises}).fit(
            X, y, groups=groups
        )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"model": "bateman"}, "model must be one of .*'emax'.* or a callable"),
        ({"parameters": {"V": 1.0}}, r"has the parameters \['V', 'CL'\]"),
        ({"parameters": {}}, "parameters must be a dict"),
        ({"parameters": {"V": -1.0, "CL": 1.0}}, r"must be in \(0, inf\)"),
        ({"parameters": {"V": "1", "CL": 1.0}}, "must be a number, got '1'"),
        ({"inputs": [0]}, r"has the inputs \['dose', 'time'\]"),
        ({"inputs": [0, 5]}, "X has 2 columns, got 5"),
        ({"inputs": ["dose", "time"]}, "X has no column names"),
        ({"transforms": "log"}, "transforms must be one of"),
        ({"transforms": {"k": "normal"}}, r"unknown parameters \['k'\]"),
        ({"covariates": {"k": [0]}}, r"unknown parameters \['k'\]"),
        ({"fixed": ["k"]}, r"unknown parameters \['k'\]"),
        ({"fixed": "slope"}, r"unknown parameters \['slope'\]"),
        ({"fixed": {"b": 1.0}}, r"unknown parameters \['b'\]"),
        ({"fixed": ["a"]}, "'a' has no start value"),
        ({"fixed": {"a": -1.0}}, "must be positive"),
        ({"fixed": {"V": "1"}}, "must be a number"),
        ({"fixed": ["omega2_V"], "omega": "full"}, "one of a block of covariances"),
        ({"fixed": {"V": -2.0}}, r"must be in \(0, inf\)"),
        ({"omega": "block"}, "omega must be"),
        ({"omega": ["k"]}, r"unknown parameters \['k'\]"),
        ({"omega": [[1, 1], [0, 1]]}, "omega must be symmetric"),
        ({"omega": [[1, 1], [1, 0]]}, "omega must be symmetric"),
        ({"omega_start": -1.0}, "omega_start must be positive"),
        ({"omega_start": {"k": 1.0}}, "that are not random"),
        ({"residual_error": "gaussian"}, "residual_error must be one of"),
        ({"solver": "newton"}, "solver must be one of"),
        ({"sampler": "nuts"}, "sampler must be one of"),
        ({"sampler": ComponentWalk(), "n_chains": 3}, "n_chains is a parameter of"),
        ({"solver": "biased-saem", "sampler": "rwm"}, "means the sampler 'ula'"),
        ({"n_chains": 0}, "n_chains must be an integer >= 1"),
        ({"n_burn_in": -1}, "n_burn_in must be an integer >= 0"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"model": None}, "model=None needs log_density"),
        ({"fixed": ["V", "CL"], "omega": [[0, 0], [0, 0]]}, "all parameters are fixed"),
    ],
    ids=str,
)
def test_wrong_settings(options, message):
    X, y, groups = bolus_data()
    with pytest.raises(ValueError, match=message):
        NonlinearMixedEffectsRegressor(**{**BOLUS, **options}).fit(X, y, groups=groups)


def test_wrong_data():
    X, y, groups = bolus_data()
    fit = NonlinearMixedEffectsRegressor(**BOLUS)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fit.fit(X, np.where(groups == 2, np.nan, y), groups=groups)  # a dose row
    with pytest.raises(ValueError, match="groups must have one label per row"):
        fit.fit(X, y, groups=groups[1:])
    with pytest.raises(ValueError, match="needs positive y"):
        fit.set_params(residual_error="exponential").fit(X, y - y.max(), groups=groups)
    with pytest.raises(ValueError, match="one value per row"):
        NonlinearMixedEffectsRegressor(
            lambda psi, X: np.ones(3), parameters={"V": 1.0}
        ).fit(X, y, groups=groups)
    for wrong in ({"model": 3}, {"log_density": 3}):
        with pytest.raises(TypeError, match="must be .*callable"):
            NonlinearMixedEffectsRegressor(**{**BOLUS, **wrong}).fit(
                X, y, groups=groups
            )


def test_running_out_of_passes_is_told():
    X, y, groups = bolus_data()
    fit = NonlinearMixedEffectsRegressor(**BOLUS, max_iter=20)
    with pytest.warns(ConvergenceWarning, match="Monte Carlo error"):
        fit.fit(X, y, groups=groups)
    assert not fit.converged_ and np.isnan(fit.monte_carlo_errors_["V"])


def test_same_seed_same_bits():
    X, y, groups = bolus_data(n=20)
    fits = [
        NonlinearMixedEffectsRegressor(
            **BOLUS, sampler=sampler, max_iter=30, tol=0, random_state=3, n_jobs=jobs
        ).fit(X, y, groups=groups)
        for sampler, jobs in (("rwm", None), ("rwm", 2), (MALA(0.01), None))
    ]
    assert values_of(fits[0]) == values_of(fits[1]) != values_of(fits[2])


def line(psi, X):
    return psi.slope * X[:, 0]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x, a, b: a * x, r"model\(psi, X\) .* missing a required argument: 'b'"),
        (lambda psi: psi.slope, r"model\(psi, X\) .* too many positional arguments"),
        (njit(line), r"numba.*pass the Python function, model.py_func"),
    ],
)
def test_functions_that_are_no_models_are_errors_that_say_what_is(model, message):
    X, y, groups = line_rows()
    with pytest.raises(TypeError, match=message):
        NonlinearMixedEffectsRegressor(model, parameters={"slope": 1.0}).fit(
            X, y, groups=groups
        )
