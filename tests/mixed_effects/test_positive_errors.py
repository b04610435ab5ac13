"""Residual errors given that observations are positive (M4)."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import kstest, norm, truncnorm

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.mixed_effects.endpoints import residual_error_of

TIMES, LIMIT = np.array([0.0, 1.0, 3.0, 6.0, 9.0, 12.0, 16.0]), 0.6


def bolus(error, **settings):
    return NonlinearMixedEffectsRegressor(
        OneCompartment(),
        parameters={"CL": 1.5, "V": 15.0},
        omega=["CL"],
        residual_error=error,
        random_state=0,
        **settings,
    )


@pytest.fixture(scope="module")
def table():
    """Return records of 30 subjects, whose observations are positive with a limit."""
    rng = np.random.default_rng(3)
    n, m = 30, len(TIMES)
    CL = 2.0 * np.exp(0.3 * rng.standard_normal(n))
    f = 10.0 * np.exp(-CL[:, None] / 10.0 * TIMES)
    y = truncnorm.rvs(-f / 0.8, np.inf, f, 0.8, random_state=rng)
    low = y < LIMIT
    return {
        "ID": np.repeat(np.arange(n), m),
        "TIME": np.tile(TIMES, n),
        "AMT": np.where(np.tile(TIMES, n) == 0, 100.0, 0.0),
        "DV": np.where(TIMES == 0, 0.0, np.where(low, LIMIT, y)).ravel(),
        "CENS": np.where(np.tile(TIMES, n) == 0, 0, low.ravel()),
    }


def exact(table, theta):
    """Return the log-likelihood by quadrature over the subjects' effects."""
    log_CL, log_V, log_omega, log_a = theta
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    CL = np.exp(log_CL + np.exp(log_omega) * nodes)[:, None, None]
    a, V = np.exp(log_a), np.exp(log_V)
    y, low = (table[name].reshape(-1, len(TIMES))[:, 1:] for name in ("DV", "CENS"))
    f = 100 / V * np.exp(-CL / V * TIMES[1:])
    values = norm.logpdf(y, f, a)
    below = np.log(norm.cdf((y - f) / a) - norm.cdf(-f / a))
    rows = np.where(low > 0, below, values) - norm.logcdf(f / a)
    return logsumexp(rows.sum(axis=2).T, b=weights / weights.sum(), axis=1).sum()


def logarithms(fit):
    psi, a = fit.population_parameters_, fit.residual_error_["a"]
    return np.log([psi["CL"], psi["V"], np.sqrt(fit.omega_[0, 0]), a])


def test_fit_is_at_the_maximum(table):
    found = bolus(("additive", "positive")).fit(read_nonmem(table))
    assert found.converged_
    theta = logarithms(found)
    value = exact(table, theta)
    assert found.log_likelihood() == pytest.approx(value, abs=1e-3)
    steps = 1e-3 * np.eye(4)
    slopes = [(exact(table, theta + h) - exact(table, theta - h)) / 2e-3 for h in steps]
    errors = found.standard_errors()
    hessian = np.empty((4, 4))
    for j, h in enumerate(steps):
        for k, g in enumerate(steps):
            four = [
                exact(table, theta + s * h + t * g) for s in (1, -1) for t in (1, -1)
            ]
            hessian[j, k] = (four[0] - four[1] - four[2] + four[3]) / 4e-6
    assert (np.array(slopes) ** 2 / -np.diag(hessian) < 1e-4).all()
    wanted = np.sqrt(np.diag(np.linalg.inv(-hessian))) * np.exp(theta)
    for name, error in zip(("CL", "V", "a"), wanted[[0, 1, 3]], strict=True):
        assert errors[name] == pytest.approx(error, rel=0.01)
    # Without the condition the same data have another maximum (M3).
    other = bolus("additive", max_iter=80).fit(read_nonmem(table))
    assert exact(table, logarithms(other)) < value - 0.1
    with pytest.raises(ValueError, match="no linearized likelihood"):
        found.log_likelihood(method="linearized")


@pytest.mark.parametrize("name", ["constant", "proportional", "combined"])
def test_probabilities_add_up(name):
    error, sigma, f = residual_error_of((name, "positive")), (0.7, 0.6), 0.9

    def density(y):
        return float(np.exp(error.log_density(np.array(y), f, sigma, 1e-9)))

    assert quad(density, 0, 10)[0] == pytest.approx(1.0, abs=1e-6)
    y, side = np.array([0.5, 0.5, 0.5]), np.array([1, -1, 1])
    limit = np.array([np.nan, np.nan, 0.2])
    with np.errstate(divide="ignore"):
        found = np.exp(error.log_likelihood(y, f, sigma, 1e-9, side, limit))
    wanted = [quad(density, *ends)[0] for ends in ((0, 0.5), (0.5, 10), (0.2, 0.5))]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert error.log_density(np.array(-0.1), f, sigma, 1e-9) == -np.inf


def test_draws_have_the_distribution():
    rng = np.random.default_rng(0)
    error = residual_error_of({1: ("constant", "positive"), 2: "constant"})
    kinds = np.repeat([1, 2], 4000)
    f, sigma = np.full(8000, 0.3), np.array([0.7, 0.0, 0.7, 0.0])
    on = type(error)(error.errors, kinds)
    drawn = on.draw(f, sigma, 1e-9, rng.standard_normal(8000))
    truth = truncnorm(-0.3 / 0.7, np.inf, 0.3, 0.7)
    assert drawn[:4000].min() > 0 > drawn[4000:].min()
    assert kstest(drawn[:4000], truth.cdf).pvalue > 1e-3
    assert kstest(drawn[4000:], truth.cdf).pvalue < 1e-6
    # Predictions far below zero leave positive values too.
    far = residual_error_of(("constant", "positive")).draw(
        np.array(-40.0), (1.0, 0.0), 1e-9, np.array([-1.0, 0.0, 1.0])
    )
    assert (np.diff(far) > 0).all() and far.min() > 0


def test_wrong_use(table):
    with pytest.raises(ValueError, match="cannot have the condition"):
        residual_error_of(("exponential", "positive"))
    with pytest.raises(ValueError, match='must be \\(name, "positive"\\)'):
        residual_error_of(("constant", "negative"))
    wrong = {
        **table,
        "DV": np.where(np.arange(len(table["DV"])) == 3, -0.1, table["DV"]),
    }
    wrong["CENS"] = np.zeros(len(table["DV"]))
    with pytest.raises(ValueError, match="needs positive y"):
        bolus(("constant", "positive")).fit(read_nonmem(wrong))
