"""Newton steps on the likelihood: exact maxima, and fits where EM would be too slow."""

import numpy as np
import pytest
from scipy import optimize

from sktem import NonlinearMixedEffectsRegressor
from sktem.exceptions import FitWarning
from sktem.mixed_effects import run as mixed_effects_run
from sktem.mixed_effects import start as mixed_effects_start
from sktem.mixed_effects.ascent import (
    QUICK,
    Resolution,
    ascend,
    can_climb,
)
from sktem.mixed_effects.last_climb import ClimbRule, LastClimb, NodeRule


def line(n=30, m=5):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n), m)
    x = np.tile(np.linspace(-1, 1, m), n)
    effects = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.3], [0.0, 0.6]])
    y = 2 + effects[groups, 0] + (3 + effects[groups, 1]) * x
    y = y + 0.5 * rng.normal(size=n * m)
    fit = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 1.0, "slope": 1.0}, transforms="normal",
        omega="full", max_iter=15, n_burn_in=0, tol=0, random_state=0,
    )  # fmt: skip
    return fit.fit(x[:, None], y, groups=groups), x[:m], y.reshape(n, m)


def line_log_likelihood(theta, x, y):
    """By the marginal Gaussian law; theta has a root of omega and log sigma."""
    root = np.array([[theta[2], 0.0], [theta[3], theta[4]]])
    Z = np.column_stack([np.ones_like(x), x])
    covariance = Z @ root @ root.T @ Z.T + np.exp(2 * theta[5]) * np.eye(len(x))
    rest = y - Z @ theta[:2]
    squares = np.einsum("ij,jk,ik", rest, np.linalg.inv(covariance), rest)
    constant = np.linalg.slogdet(covariance)[1] + len(x) * np.log(2 * np.pi)
    return -0.5 * (squares + len(y) * constant)


def of_params(params):
    root = np.linalg.cholesky(params.omega)
    return [*params.coefficients, root[0, 0], root[1, 0], root[1, 1],
            np.log(params.sigma[0])]  # fmt: skip


def model_and_rows(fit):
    return fit.fitted_.model, fit.fitted_.rows


def test_climbs_to_the_maximum_of_a_linear_mixed_model():
    fit, x, y = line()
    before = line_log_likelihood(of_params(fit.params_), x, y)
    found, gain, *_ = ascend(*model_and_rows(fit), fit.params_, 0)
    after = line_log_likelihood(of_params(found), x, y)
    best = optimize.minimize(
        lambda theta: -line_log_likelihood(theta, x, y), of_params(found)
    )
    assert gain == pytest.approx(after - before, abs=1e-3) and gain > 0.1
    assert after + best.fun == pytest.approx(0.0, abs=1e-2)
    np.testing.assert_allclose(of_params(found), best.x, atol=0.03)


def test_does_not_leave_a_maximum():
    fit, _, _ = line()
    best, *_ = ascend(*model_and_rows(fit), fit.params_, 0)
    best, *_ = ascend(*model_and_rows(fit), best, 0)
    again, gain, *_ = ascend(*model_and_rows(fit), best, 0)
    assert 0 <= gain < 1e-3
    np.testing.assert_allclose(of_params(again), of_params(best), atol=1e-2)


def log_weibull(t, event, scale, shape):
    """Log-density of an event, or of none up to a time."""
    log_hazard = np.log(shape / scale) + (shape - 1) * np.log(t / scale)
    return event * log_hazard - (t / scale) ** shape


def weibull(psi, X, y):
    return log_weibull(X[:, 0], y, psi["scale"], psi["shape"])


def events(n=150):
    rng = np.random.default_rng(3)
    time = 400 * rng.weibull(1.4, size=n)
    return np.minimum(time, 800.0)[:, None], (time < 800) * 1.0, np.arange(n)


def events_deviance(theta, X, y):
    """-2 log-likelihood by a fine grid over the random effect."""
    scale, shape, log_variance = theta
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    scale = np.exp(scale + np.exp(0.5 * log_variance) * nodes)
    terms = log_weibull(X, y[:, None], scale, np.exp(shape))
    return -2 * np.log(np.exp(terms) @ weights / np.sqrt(2 * np.pi)).sum()


@pytest.mark.filterwarnings("ignore:The Monte Carlo error")
@pytest.mark.parametrize("climbs", [True, False])
def test_one_event_per_subject_hardly_tells_of_a_variance(climbs, monkeypatch):
    """EM alone stops on the way to a variance of zero."""
    X, y, groups = events()
    fit = NonlinearMixedEffectsRegressor(
        None, parameters={"scale": 200.0, "shape": 2.0}, log_density=weibull,
        omega=["scale"], random_state=1,
    )  # fmt: skip
    if not climbs:
        for module in (mixed_effects_run, mixed_effects_start):
            monkeypatch.setattr(module, "can_climb", lambda n, d, k=0: False)
    fit.fit(X, y, groups=groups)
    psi = fit.population_parameters_
    theta = [np.log(psi["scale"]), np.log(psi["shape"]), np.log(fit.omega_[0, 0])]
    start = [theta[0], theta[1], -6.0]
    best = min(
        optimize.minimize(events_deviance, s, (X, y), method="Nelder-Mead").fun
        for s in (start, theta)
    )
    gap = events_deviance(theta, X, y) - best
    # The negative control: without Newton steps it is twenty times too large, at least.
    assert (gap < 1e-3) if climbs else (gap > 0.02)


def test_steps_with_draws_are_below_the_maximum_by_what_they_say():
    X, y, groups = events()
    fit = NonlinearMixedEffectsRegressor(
        None, parameters={"scale": 200.0, "shape": 2.0}, log_density=weibull,
        omega=["scale"], random_state=1,
    ).fit(X, y, groups=groups)  # fmt: skip

    def deviance(theta):
        return events_deviance(theta, X, y)

    def theta(params):
        scale, shape, variance = fit.fitted_.vector.of(params)
        return [scale, shape, np.log(variance)]

    best = optimize.minimize(deviance, theta(fit.params_), method="Nelder-Mead").fun
    vector, problem = fit.fitted_.vector, fit.fitted_.problem
    away = vector.params(1.2 * vector.of(fit.params_), fit.params_)
    said, told = [], []
    for n_draws in (8, 400):
        rule = ClimbRule(nodes=NodeRule(n_draws=n_draws))
        climb = LastClimb(problem, vector, rule)
        start = climb.ascended(fit.params_, np.random.default_rng(0))
        start = start._replace(params=away)
        ends = [
            climb._ascend_by_draws(start, np.random.default_rng(k)) for k in range(8)
        ]
        lost = [0.5 * (deviance(theta(end.params)) - best) for end in ends]
        said.append(np.mean([end.by_nodes.gain for end in ends]))
        told.append(np.mean([bool(climb.doubt(end)) for end in ends]))
        assert np.mean(lost) < said[-1] + rule.least_rough_gain
    assert said[1] < 0.05 < said[0]
    assert told[1] == 0 < told[0]


@pytest.mark.parametrize("d", range(1, 9))
def test_number_of_points(d):
    """A grid of fewer points for more subjects; draws for more than five effects."""
    subjects = 2 ** np.arange(20)
    nodes = [QUICK.nodes(int(n), d) for n in subjects]
    counts = [QUICK.n_points(int(n), d) for n in subjects]
    assert counts == sorted(counts, reverse=True) and min(counts) > 1
    assert all((number == 0) == (d > 5) for number in nodes)
    assert all(
        count == number**d
        for number, count in zip(nodes, counts, strict=True)
        if number
    )
    fine = Resolution(per_subject=1000)
    for n, count in zip(subjects, counts, strict=True):
        assert can_climb(int(n), d) == (n * count <= 100_000)
        assert fine.n_points(int(n), d) <= max(1000, count)
    assert not can_climb(12, 0)
    assert can_climb(100, 2, 3) and not can_climb(100, 2, 100)


def test_more_effects_than_quadrature_can_do():
    """Six random effects: importance draws."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 12)
    X = rng.normal(size=(480, 6))
    y = (X * (1 + 0.7 * rng.normal(size=(40, 6)))[groups]).sum(axis=1)
    y = y + 0.5 * rng.normal(size=480)
    names = [f"b{j}" for j in range(6)]
    fit = NonlinearMixedEffectsRegressor(
        lambda psi, X: sum(psi[f"b{j}"] * X[:, j] for j in range(6)),
        parameters=dict.fromkeys(names, 0.5), transforms="normal", max_iter=10,
        n_burn_in=0, tol=0, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    before = fit.log_likelihood(n_draws=1000)
    found, gain, *_ = ascend(*model_and_rows(fit), fit.params_, 0)
    after, error = fit.fitted_.at(found).log_likelihood(n_draws=1000)
    assert gain > 1 and after - before == pytest.approx(gain, abs=0.5 + 6 * error)


def oral(n, m, error, seed, deviations=(0.4, 0.25, 0.3)):
    """Concentrations after an oral dose of 100 in one compartment."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), m)
    time = np.exp(rng.uniform(np.log(0.3), np.log(24), len(groups)))
    psi = [1.2, 20.0, 2.0] * np.exp(deviations * rng.normal(size=(n, 3)))
    y = bateman(*psi[groups].T, time) * (1 + error * rng.normal(size=len(groups)))
    return np.column_stack([np.full(len(groups), 100.0), time]), y, groups


def bateman(ka, V, CL, time):
    k = CL / V
    return 100 * ka / V / (ka - k) * (np.exp(-k * time) - np.exp(-ka * time))


def score(mu, omega, sigma, X, y, groups, n_nodes=24):
    """Slope of the log-likelihood in the means by nodes of the prior, in its errors."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    grid = np.array(np.meshgrid(nodes, nodes, nodes)).reshape(3, -1).T
    prior = np.prod(np.meshgrid(weights, weights, weights), axis=0).ravel()
    spread = np.sqrt(np.diag(omega))
    total, square = np.zeros(3), np.zeros(3)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    for rows in np.split(np.arange(len(y)), starts[1:]):
        psi = np.exp(mu + spread * grid)[:, :, None]
        f = bateman(*psi.transpose(1, 0, 2), X[rows, 1])
        with np.errstate(over="ignore"):
            log = (-0.5 * (y[rows] / (sigma * f) - 1 / sigma) ** 2).sum(axis=1)
        log -= np.log(f).sum(axis=1)
        posterior = prior * np.exp(log - log.max())
        mean = posterior @ grid / posterior.sum()
        total, square = total + mean, square + mean**2
    return total / np.sqrt(square)


def test_enough_nodes_for_many_subjects_with_few_rows():
    """Five nodes are too few here: their slope at their maximum is 0.17."""
    X, y, groups = oral(400, 2, 0.2, seed=1)
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_oral", parameters={"ka": 1.2, "V": 20.0, "CL": 2.0},
        residual_error="proportional", n_burn_in=30, max_iter=60, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    assert fit.converged_

    def slope(changes=0.0):
        mu = np.log([fit.population_parameters_[name] for name in ("ka", "V", "CL")])
        sigma = fit.residual_error_["b"]
        return score(mu + changes, fit.omega_, sigma, X, y, groups)

    assert np.abs(slope()).max() < 0.06
    # A control: a change by a fraction of the standard errors.
    assert np.abs(slope([0.0, 0.0, 0.005])).max() > 0.1


def test_a_better_maximum_far_from_the_start_is_told():
    """Rates of absorption and elimination have changed places."""
    X, y, groups = oral(20, 50, 0.05, seed=6)

    def fit(**parameters):
        return NonlinearMixedEffectsRegressor(
            "one_compartment_oral", parameters=parameters,
            residual_error="proportional", random_state=0,
        ).fit(X, y, groups=groups)  # fmt: skip

    right = fit(ka=1.2, V=20.0, CL=2.0)
    with pytest.warns(FitWarning, match="another one has a log-likelihood") as caught:
        other = fit(ka=0.1, V=1.67, CL=2.0)
    gap = right.log_likelihood() - other.log_likelihood()
    told = float(str(caught[0].message).split("by about ")[1].split(":")[0])
    assert gap > 4 and told == pytest.approx(gap, rel=0.2)
