"""Residuals of mixed-effects fits by their formulas and by their laws."""

import numpy as np
import pytest
from scipy import stats

from sktem import NonlinearMixedEffectsRegressor
from sktem.compartments import OneCompartment, read_nonmem
from sktem.evaluation import individual_residuals, output_table, population_residuals
from sktem.mixed_effects.checks import residuals as mixed_effects_residuals
from sktem.mixed_effects.endpoints import residual_error_of
from tests.mixed_effects.fits import bolus_fit, bolus_rows, line_fit, line_rows
from tests.oracles import LIMIT, standard_errors, student_limit


def bolus_by_hand(fit, X, groups):
    psi = fit.individual_parameters(method="mode")
    V, CL = psi["V"][groups], psi["CL"][groups]
    return X[:, 0] / V * np.exp(-CL / V * X[:, 1])


@pytest.mark.parametrize(
    "error", ["constant", "proportional", "combined", "exponential"]
)
def test_individual_residuals_by_hand(error):
    X, y, groups = bolus_rows(error=error)
    fit = bolus_fit(error)
    f, sigma = bolus_by_hand(fit, X, groups), fit.residual_error_
    expected = {
        "constant": lambda: (y - f) / sigma["a"],
        "proportional": lambda: (y - f) / (sigma["b"] * f),
        "combined": lambda: (y - f) / np.sqrt(sigma["a"] ** 2 + (sigma["b"] * f) ** 2),
        "exponential": lambda: (np.log(y) - np.log(f)) / sigma["a"],
    }[error]()
    found = individual_residuals(fit, X, y, groups)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_rows_without_an_observation_are_nan():
    X, y, groups = bolus_rows()
    whole = individual_residuals(bolus_fit(), X, y, groups)
    # Nor is it asked what the other columns hold there.
    X, y = X.copy(), y.copy()
    y[[3, 40]], X[3, 1] = np.nan, np.nan
    found = individual_residuals(bolus_fit(), X, y, groups)
    assert np.flatnonzero(np.isnan(found)).tolist() == [3, 40]
    seen = ~np.isnan(found)
    np.testing.assert_array_equal(found[seen], whole[seen])
    npde = population_residuals(bolus_fit(), X, y, groups, n_simulations=20).npde
    assert np.flatnonzero(np.isnan(npde)).tolist() == [3, 40]


def test_without_random_effects_residuals_are_those_of_the_regression():
    X, y, _ = line_rows()
    fit = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 1.0, "slope": 1.0}, transforms="normal",
        omega=[], tol=0, max_iter=100, random_state=0,
    ).fit(X, y)  # fmt: skip
    expected = (y - fit.predict(X)) / fit.residual_error_["a"]
    np.testing.assert_allclose(individual_residuals(fit, X, y), expected)
    found = population_residuals(fit, X, y, n_simulations=4000, random_state=0)
    # Rows are subjects of one row, so that residuals are weighted by one scale.
    assert np.abs(found.weighted - expected).max() < LIMIT * 3 / np.sqrt(4000)


def marginal_law(fit, x):
    """Mean and covariance of a subject of the line at the places x."""
    Z = np.column_stack([np.ones_like(x), x])
    noise = fit.residual_error_["a"] ** 2 * np.eye(len(x))
    mean = Z @ list(fit.population_parameters_.values())
    return mean, Z @ fit.omega_ @ Z.T + noise


def test_weighted_residuals_of_a_gaussian_law():
    X, y, groups = line_rows(n=12)
    groups = groups[::-1].copy()  # sorted the other way round
    fit = line_fit()
    expected = np.empty(len(y))
    means = np.empty(len(y))
    for i in range(12):
        own = groups == i
        mean, covariance = marginal_law(fit, X[own, 0])
        root = np.linalg.cholesky(covariance)
        expected[own] = np.linalg.solve(root, y[own] - mean)
        means[own] = mean
    runs = [
        population_residuals(fit, X, y, groups, n_simulations=500, random_state=seed)
        for seed in range(15)
    ]
    limit = student_limit(15)
    weighted = [run.weighted for run in runs]
    assert standard_errors(weighted, expected).max() < limit
    assert standard_errors([run.mean for run in runs], means).max() < limit
    # Negative control: residuals that are not made uncorrelated.
    scale = np.sqrt(np.diag(marginal_law(fit, X[:5, 0])[1]))
    plain = (y - means) / np.resize(scale[::-1], len(y))
    assert standard_errors(weighted, plain).max() > 2 * limit


def npde_p(fit, rows, seed, n_simulations=300):
    """Return the p-value of Kolmogorov and Smirnov for data of a seed."""
    X, _, groups = rows
    y = fit.simulate(X, groups, random_state=1000 + seed)
    found = population_residuals(
        fit, X, y, groups, n_simulations=n_simulations, random_state=seed
    )
    return stats.kstest(found.npde, "norm").pvalue


def test_npde_are_standard_normal_under_the_model():
    p_values = [npde_p(line_fit(), line_rows(n=30), seed) for seed in range(30)]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    # Uncorrelated, but not quite independent where the model is not linear.
    p_values = [npde_p(bolus_fit(), bolus_rows(n=30), seed) for seed in range(10)]
    assert min(p_values) > 1e-4


def test_npde_are_exactly_normal_with_few_simulations():
    X, _, groups = line_rows(n=600)
    y = line_fit().simulate(X, groups, random_state=5)
    npde = population_residuals(
        line_fit(), X, y, groups, n_simulations=7, random_state=0
    ).npde
    for place in range(5):  # the rows of different subjects are independent
        assert stats.kstest(npde[place::5], "norm").pvalue > 1e-4


@pytest.mark.parametrize("wrong", ["error", "spread", "mean"])
def test_npde_tell_of_a_wrong_model(wrong):
    X, y, groups = bolus_rows(n=120)
    if wrong == "error":
        y = bolus_rows(n=120, error="proportional")[1]
    elif wrong == "mean":
        y = 1.3 * y
    else:
        factors = np.exp(0.5 * np.random.default_rng(0).normal(size=120))
        y = factors[groups] * y
    npde = population_residuals(bolus_fit(), X, y, groups, random_state=0).npde
    assert stats.kstest(npde, "norm").pvalue < 1e-4


def test_subjects_in_blocks(monkeypatch):
    """However few fit into memory at once, each is compared with its own copies."""
    X, y, groups = line_rows(n=12)
    monkeypatch.setattr(mixed_effects_residuals, "ROWS_AT_ONCE", 1600)
    groups = groups[::-1].copy()
    runs = [
        population_residuals(
            line_fit(), X, y, groups, n_simulations=200, random_state=seed
        ).weighted
        for seed in range(10)
    ]
    monkeypatch.undo()
    whole = population_residuals(
        line_fit(), X, y, groups, n_simulations=20_000, random_state=0
    ).weighted
    assert standard_errors(runs, whole).max() < student_limit(10)


def test_seeds():
    X, y, groups = line_rows(n=5)
    one, same, other = (
        population_residuals(
            line_fit(), X, y, groups, n_simulations=50, random_state=seed
        ).npde
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


def test_labels_and_order_do_not_matter():
    X, y, groups = bolus_rows()
    order = np.random.default_rng(0).permutation(len(y))
    found = individual_residuals(bolus_fit(), X[order], y[order], groups[order])
    np.testing.assert_allclose(
        found, individual_residuals(bolus_fit(), X, y, groups)[order]
    )


def density(psi, X, y):
    return -0.5 * (y - psi["level"]) ** 2


def infinite(psi, X):
    return np.where(psi["level"] > 3, np.nan, psi["level"])


def constant_at_zero(psi, X):
    return psi["slope"] * X[:, 0]


def test_errors():
    X, y, groups = line_rows(n=10)
    with pytest.raises(ValueError, match="above the rows of a subject, here 5, got 5"):
        population_residuals(line_fit(), X, y, groups, n_simulations=5)
    with pytest.raises(ValueError, match="fit has seen, got \\[100, 101"):
        individual_residuals(line_fit(), X, y, groups + 100)
    # Of new subjects the population is known.
    population_residuals(line_fit(), X, y, groups + 100, n_simulations=20)
    with pytest.raises(ValueError, match="y must be positive"):
        bolus = bolus_rows(error="exponential")
        individual_residuals(bolus_fit("exponential"), bolus[0], -bolus[1], bolus[2])

    options = {"tol": 0, "max_iter": 2, "n_burn_in": 1, "random_state": 0}
    level = {"parameters": {"level": 2.0}, "transforms": "normal"}
    fit = NonlinearMixedEffectsRegressor(None, log_density=density, **level, **options)
    fit.fit(X, y, groups=groups)
    for function in (individual_residuals, population_residuals):
        with pytest.raises(ValueError, match="log_density"):
            function(fit, X, y, groups)
    counts = NonlinearMixedEffectsRegressor(
        infinite, residual_error="poisson", omega=[], **level, **options
    ).fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="residual_error='poisson' has no residual"):
        individual_residuals(counts, X, np.ones(len(X)))
    fit = NonlinearMixedEffectsRegressor(infinite, **level, **options)
    fit.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match=r"not finite for \d+ of 5000 simulated"):
        population_residuals(fit, X, y, groups, n_simulations=100)
    fit = NonlinearMixedEffectsRegressor(
        constant_at_zero, parameters={"slope": 3.0}, residual_error="exponential",
        **options,
    ).fit(X + 2, np.exp(y), groups=groups)  # fmt: skip
    X = X + 2
    X[7] = 0
    with pytest.raises(ValueError, match="of subject 1 do not vary"):
        population_residuals(fit, X, np.exp(y), groups, n_simulations=100)


def bounded_study(seed, side):
    """Return a population, and records with bounds of one side, in part intervals."""
    rng, n = np.random.default_rng(seed), 150
    times = np.array([0.0, 1.0, 3.0, 6.0, 12.0])
    table = {
        "ID": np.repeat(np.arange(n), 5),
        "TIME": np.tile(times, n),
        "AMT": np.tile([100.0, 0, 0, 0, 0], n),
    }
    effects = rng.standard_normal((n, 2)) * (0.3, 0.2)
    psi = {"CL": 3 * np.exp(effects[:, 0]), "V": 20 * np.exp(effects[:, 1])}
    f = OneCompartment().predict(table, psi)
    y = f + 0.3 * rng.standard_normal(len(f))
    bound = 1.2 if side > 0 else 3.0
    beyond = (side * (bound - y) > 0) & (table["AMT"] == 0)
    other = bound - 0.4 * side
    inside = beyond & (side * (y - other) > 0) & (rng.random(len(y)) < 0.5)
    table |= {
        "DV": np.where(beyond, bound, y) * (table["AMT"] == 0),
        "CENS": np.where(beyond, side, 0),
        "LIMIT": np.where(inside, other, np.nan),
    }
    known = {"CL": 3.0, "V": 20.0, "omega2_CL": 0.09, "omega2_V": 0.04, "a": 0.3}
    fit = NonlinearMixedEffectsRegressor(
        OneCompartment(), parameters={"CL": 3.0, "V": 20.0}, fixed=known, random_state=0
    )
    records = read_nonmem(table)
    return fit.fit(records), records


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("seed", [0, 1])
def test_npde_in_place_of_bounds_are_standard_normal(side, seed):
    """Draws in their place follow the other observations of a subject."""
    fit, records = bounded_study(seed, side)
    assert 0.1 < np.abs(records["CENS"][records.observed]).mean() < 0.5
    tables = output_table(fit, n_simulations=400, random_state=seed)
    npde = population_residuals(fit, records, n_simulations=400, random_state=seed).npde
    for values in (npde[records.observed], tables["NPDE"].to_numpy()):
        assert abs(values.var() - 1) < LIMIT * np.sqrt(2 / len(values))
        assert stats.kstest(values, "norm").pvalue > 1e-3
    # Negative control: another clearance.
    wrong = fit.set_params(
        parameters={"CL": 3.6, "V": 20.0}, fixed=dict(fit.fixed) | {"CL": 3.6}
    ).fit(records)
    npde = population_residuals(wrong, records, n_simulations=400, random_state=seed)
    assert stats.kstest(npde.npde[records.observed], "norm").pvalue < 1e-3


@pytest.mark.parametrize("limit", [np.nan, 0.9])
@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize(
    "spec", ["constant", "exponential", ("constant", "positive"), "proportional"]
)
def test_draws_beyond_bounds(spec, side, limit):
    """They are those of all draws that are there."""
    rng, n = np.random.default_rng(0), 20_000
    error, sigma = residual_error_of(spec), np.array([0.5, 0.4])
    f, normal, y = np.full(n, 1.0), rng.standard_normal(n), 1.2 if side > 0 else 0.6
    drawn = error.draw(f, sigma, 1e-8, normal)
    there = side * (y - drawn) > 0
    if not np.isnan(limit):
        there &= side * (drawn - limit) > 0
    found = error.draw_beyond(
        np.full(n, y), f, sigma, 1e-8, side, np.full(n, limit), 1 - rng.random(n)
    )
    assert stats.ks_2samp(found, drawn[there]).pvalue > 1e-3
    assert stats.ks_2samp(found, drawn).pvalue < 1e-3
