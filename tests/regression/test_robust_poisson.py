"""Robust Poisson regression against direct maximisation of its likelihood."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from sklearn.linear_model import PoissonRegressor

from sktem import RobustPoissonRegressor
from sktem.exceptions import FitWarning
from sktem.regression.robust_poisson_ascent import _derivatives
from sktem.regression.robust_poisson_model import (
    LEAST_VARIANCE,
    RobustPoissonModel,
    RobustPoissonParams,
)


def make_data(seed=0, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) + [1.0, 0.0]
    z = 0.7 + X @ [0.5, -0.3] + 0.6 * rng.normal(size=n)
    return X, rng.poisson(np.exp(z)).astype(float)


def log_likelihood(theta, X, y):
    """Plain Gauss-Hermite over the prior with many nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    z = (theta[0] + X @ theta[1:-1])[:, None] + np.exp(theta[-1]) * nodes
    return np.log(stats.poisson.pmf(y[:, None], np.exp(z)) @ weights) - 0.5 * np.log(
        2 * np.pi
    )


@pytest.fixture(scope="module")
def exact():
    X, y = make_data()
    start = [0.7, 0.5, -0.3, np.log(0.6)]
    return optimize.minimize(lambda t: -log_likelihood(t, X, y).sum(), start).x


def theta_of(fit):
    return np.array([fit.intercept_, *fit.coef_, np.log(fit.sigma_)])


def test_default_finds_the_maximum(exact):
    X, y = make_data()
    fit = RobustPoissonRegressor(tol=1e-11).fit(X, y)
    np.testing.assert_allclose(theta_of(fit), exact, atol=1e-3)
    assert fit.converged_
    expected = log_likelihood(theta_of(fit), X, y).sum()
    assert fit.log_likelihood(X, y) == pytest.approx(expected, abs=1e-6)
    mean = np.exp(fit.intercept_ + X @ fit.coef_ + fit.sigma_**2 / 2)
    np.testing.assert_allclose(fit.predict(X), mean)


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": "mala"},
        {"sampler": "rwm"},
        {"sampler": "hmc"},
        {"solver": "saem"},
        {"solver": "isaem", "batch_size": 40},
        {"solver": "vrttem", "batch_size": 40},
        {"solver": "fittem", "batch_size": 40, "sampler": "mala"},
        {"solver": "biased-saem"},
    ],
    ids=str,
)
def test_solvers_and_samplers(options, exact):
    X, y = make_data()
    settings = {"max_iter": 150, "tol": 0, "average": 50, **options}
    # Of one run with "fittem" the last coordinate has a standard deviation of 0.03.
    found = [
        theta_of(RobustPoissonRegressor(**settings, random_state=seed).fit(X, y))
        for seed in range(4 if options.get("solver") == "fittem" else 1)
    ]
    tolerance = 0.1 if options == {"solver": "biased-saem"} else 0.05
    np.testing.assert_allclose(np.mean(found, axis=0), exact, atol=tolerance)


@pytest.mark.parametrize(
    "options, names",
    [
        ({}, ("em", "exact")),
        ({"solver": "saem"}, ("saem", "mala")),
        ({"sampler": "ula"}, ("saem", "ula")),
        ({"solver": "isaem"}, ("isaem", "exact")),
    ],
    ids=str,
)
def test_a_name_means_its_algorithm(options, names):
    X, y = make_data(n=60)
    fit = RobustPoissonRegressor(**options, max_iter=3, tol=0, random_state=0).fit(X, y)
    assert (fit.history_.solver, fit.history_.sampler) == names


def test_weights_are_repetitions():
    X, y = make_data(n=60)
    weights = np.arange(60) % 3
    options = {"tol": 0, "max_iter": 30}
    one = RobustPoissonRegressor(**options).fit(X, y, sample_weight=weights)
    two = RobustPoissonRegressor(**options)
    two.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(theta_of(one), theta_of(two), atol=1e-3)


def test_posterior_moments_are_integrals():
    params = RobustPoissonParams(np.array([0.5]), 0.8)
    rows = np.array([[0.0, 1.0], [3.0, 1.0], [400.0, 1.0]])
    points = RobustPoissonModel().posterior(rows, params)[:, :, 0]
    for (y, _), found in zip(rows, points, strict=True):
        middle = np.log(y + 0.5)

        def density(z, y=y, middle=middle):
            log = y * (z - middle) - np.exp(z) + np.exp(middle)
            return np.exp(log - 0.5 * ((z - 0.5) ** 2 - (middle - 0.5) ** 2) / 0.8)

        moments = [
            integrate.quad(lambda z, k=k: z**k * density(z), middle - 9, middle + 6,
                           points=[middle], limit=200)[0]
            for k in range(3)
        ]  # fmt: skip
        mean, second = moments[1] / moments[0], moments[2] / moments[0]
        assert found.mean() == pytest.approx(mean, abs=1e-6)
        assert (found**2).mean() == pytest.approx(second, abs=1e-5)


def test_m_step_is_joint_least_squares():
    rng = np.random.default_rng(0)
    X, y = make_data(n=50)
    rows = np.column_stack([y, np.ones(50), X])
    Z, weights = rng.normal(size=(50, 1)), rng.uniform(0.1, 2, 50)
    model = RobustPoissonModel()
    start = RobustPoissonParams(np.zeros(3), 1.0)
    params = model.maximize(model.mean_statistics(rows, Z, weights), start)
    root = np.sqrt(weights)[:, None]
    best = np.linalg.lstsq(rows[:, 1:] * root, Z * root, rcond=None)[0][:, 0]
    np.testing.assert_allclose(params.coefficients, best, rtol=1e-9)
    rest = Z[:, 0] - rows[:, 1:] @ best
    assert params.variance == pytest.approx(np.average(rest**2, weights=weights))


def test_negative_counts():
    with pytest.raises(ValueError, match="y must not be negative"):
        RobustPoissonRegressor().fit(np.ones((3, 1)), [1, 2, -1])


def test_units_of_the_features_do_not_matter():
    X, y = make_data()
    one = RobustPoissonRegressor().fit(X, y)
    for scale in (1e-6, 1e6, np.array([1e-6, 1e6])):
        two = RobustPoissonRegressor().fit(X * scale + 7 * scale, y)
        np.testing.assert_allclose(two.coef_ * scale, one.coef_, rtol=1e-6)
        assert two.sigma_ == pytest.approx(one.sigma_, rel=1e-6)
        np.testing.assert_allclose(
            two.predict(X * scale + 7 * scale), one.predict(X), rtol=1e-6
        )


@pytest.mark.parametrize("level", [-2.0, 2.0, 12.0])
def test_counts_with_less_scatter_are_a_poisson_regression(level):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = np.round(np.exp(level + X @ [0.5, -0.3]))
    fit = RobustPoissonRegressor().fit(X, y)
    peer = PoissonRegressor(
        alpha=0, tol=1e-10, max_iter=10_000, solver="newton-cholesky"
    )
    peer.fit(X, y)
    assert fit.converged_ and fit.sigma_ < 1e-3
    np.testing.assert_allclose(fit.coef_, peer.coef_, atol=1e-5)
    assert fit.intercept_ == pytest.approx(peer.intercept_, abs=1e-5)


def test_derivatives_are_those_of_the_likelihood():
    X, y = make_data(n=30)
    rows = np.column_stack([y, np.ones(30), X])
    weights = np.random.default_rng(0).uniform(0.5, 2, 30)
    theta = np.array([0.5, 0.4, -0.2, np.log(0.5)])

    def at(theta):
        params = RobustPoissonParams(theta[:-1], np.exp(theta[-1]))
        return _derivatives(rows, params, weights)

    value, gradient, hessian = at(theta)
    own = log_likelihood(np.append(theta[:-1], theta[-1] / 2), X, y)
    assert value == pytest.approx(weights @ own, abs=1e-7)
    for j, shift in enumerate(1e-4 * np.eye(4)):
        above, below = at(theta + shift), at(theta - shift)
        assert gradient[j] == pytest.approx((above[0] - below[0]) / 2e-4, abs=1e-5)
        np.testing.assert_allclose(
            hessian[j], (above[1] - below[1]) / 2e-4, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    "among", ["all", "a group", "no excess", "many features", "blocks"]
)
def test_rates_that_run_off_to_zero_are_said(among):
    X, y = make_data()
    group = np.arange(len(y)) < 40
    if among == "all":
        y = np.zeros(len(y))
    elif among == "many features":
        X = np.random.default_rng(1).normal(size=(len(y), len(y) + 50))
    else:
        y = np.round(np.exp(0.7 + X @ [0.5, -0.3])) if among == "no excess" else y
        X, y = np.column_stack([X, group]), np.where(group, 0.0, y)
    rows = [X[:90], X[90:]] if among == "blocks" else X
    with pytest.warns(FitWarning, match="has no maximum: features separate rows"):
        fit = RobustPoissonRegressor().fit(rows, y)
    assert not fit.converged_ and np.isfinite(fit.coef_).all()
    if among != "many features":
        assert (fit.predict(X)[y == 0 if among == "all" else group] < 1e-3).all()


@pytest.mark.parametrize(
    "kind", ["one event", "small weights", "collinear", "low rates", "leverage"]
)
def test_a_maximum_that_is_there_is_not_denied(kind):
    X, y = make_data()
    group, weights = np.arange(len(y)) < 40, np.ones(len(y))
    if kind in ("one event", "small weights"):
        X, y = np.column_stack([X, group]), np.where(group, 0.0, y)
        y[0] = 1.0
        weights *= 1.0 if kind == "one event" else 1e-5
    elif kind == "collinear":
        X = np.column_stack([X, X[:, 0], np.ones(len(y))])
    elif kind == "low rates":
        y = y * 1e-5
    else:
        X[0, 0] = 1e6
    rates = pytest.warns(FitWarning, match="numbers that are not whole, such as .*e-05")
    with rates if kind == "low rates" else nullcontext():  # no other warning
        fit = RobustPoissonRegressor().fit(X, y, sample_weight=weights)
    assert fit.converged_


@pytest.mark.parametrize("max_iter", [2, 500])
@pytest.mark.parametrize("solver", ["saem", "biased-saem"])
def test_chains_end_at_the_maximum(solver, max_iter, exact, global_random_seed):
    """By the progress of the chains a fit said converged 1e-3 nats per row below."""
    options = {"max_iter": max_iter, "random_state": global_random_seed}
    fit = RobustPoissonRegressor(solver=solver, **options).fit(*make_data())
    assert fit.converged_
    np.testing.assert_allclose(theta_of(fit), exact, atol=1e-3)
    raw = RobustPoissonRegressor(solver=solver, tol=0, **options).fit(*make_data())
    assert not raw.converged_
    assert np.abs(theta_of(raw) - exact).max() > 1e-3


def test_project_gives_statistics_of_a_positive_variance():
    """Beyond the floor of the M-step, which would hide a projection that is none."""
    X, y = make_data()
    data = np.column_stack([y, np.ones(len(X)), X])
    model = RobustPoissonModel()
    s = model.mean_statistics(data, np.log(y + 0.5)[:, None])
    gram, cross = s[:9].reshape(3, 3), s[9:-1]
    explained = cross @ np.linalg.solve(gram, cross)
    for second in (explained - 1.0, explained - LEAST_VARIANCE, 0.0):
        inside, left = model.project(np.append(s[:-1], second))
        assert left and inside[-1] - explained > 0.9 * LEAST_VARIANCE
        np.testing.assert_array_equal(inside[:-1], s[:-1])
    same, left = model.project(s)
    assert not left
    np.testing.assert_array_equal(same, s)


def test_log_likelihoods_of_rows():
    X, y = make_data(n=200)
    fit = RobustPoissonRegressor(tol=1e-4).fit(X, y)
    found = fit.log_density(X, y)
    theta = [fit.intercept_, *fit.coef_, np.log(fit.sigma_)]
    np.testing.assert_allclose(found, log_likelihood(np.array(theta), X, y), atol=1e-5)
    np.testing.assert_allclose(found.sum(), fit.log_likelihood(X, y), rtol=1e-12)
    with pytest.raises(ValueError, match="negative"):
        fit.log_density(X, -y)


def test_an_offset_takes_no_feature_away():
    X = np.random.default_rng(0).normal(size=(200, 2)).round(2)
    y = np.random.default_rng(1).poisson(np.exp(1 + X[:, 0]))
    plain = RobustPoissonRegressor().fit(X, y)
    far = RobustPoissonRegressor().fit(X + 1e12, y)
    np.testing.assert_allclose(far.coef_, plain.coef_, rtol=1e-2, atol=1e-3)
    constant = np.column_stack([X, np.full(200, 0.1 + 1e12)])
    assert RobustPoissonRegressor().fit(constant, y).coef_[2] == 0


def test_rows_that_are_too_few_are_told():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.random.default_rng(1).poisson(np.exp(1 + X[:, 0]))
    with pytest.warns(FitWarning, match="3 rows are too few for 3 coefficients"):
        RobustPoissonRegressor().fit(X[:3], y[:3] + 1)
    heavy = np.append(1e8, np.ones(59))
    with pytest.warns(FitWarning, match="weights that are worth 1 equal rows"):
        RobustPoissonRegressor().fit(X, y, sample_weight=heavy)
    RobustPoissonRegressor().fit(X, y, sample_weight=np.full(60, 1e8))
