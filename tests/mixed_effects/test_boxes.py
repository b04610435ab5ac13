"""Parameters between hard bounds."""

import numpy as np
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation import profile_likelihood
from sktem.exceptions import FitWarning

N, M, A, V = 15, 5, 0.4, 0.5


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    groups, X = np.repeat(np.arange(N), M), np.tile(np.arange(float(M)), N)[:, None]
    y = 1 + 0.6 * X[:, 0] + (np.sqrt(V) * rng.normal(size=N))[groups]
    return X, y + A * rng.normal(size=N * M), groups


def line(kind, random=("intercept",), **settings):
    fixed = {"a": A, **{f"omega2_{name}": V for name in random}}
    return NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 0.5, "slope": 0.3},
        transforms={"intercept": "normal", "slope": kind},
        omega=list(random),
        fixed=fixed,
        random_state=0,
        **settings,
    )


def closed_form(rows, slope=None, variance=V):
    """Return generalised least squares and errors, with the slope at its bound."""
    X, y, _ = rows
    precision = np.linalg.inv(variance * np.ones((M, M)) + A**2 * np.eye(M))
    precision = np.kron(np.eye(N), precision)
    design = np.column_stack([np.ones(N * M), X[:, 0]])
    if slope is not None:
        y, design = y - slope * X[:, 0], design[:, :1]
    normal = design.T @ precision @ design
    values = np.linalg.solve(normal, design.T @ precision @ y)
    return values, np.sqrt(np.diag(np.linalg.inv(normal)))


@pytest.mark.parametrize("bounds", [(0.2, 0.45), (0.8, np.inf)])
@pytest.mark.parametrize("random", [("intercept",), ()])
def test_the_best_value_is_at_a_bound(rows, bounds, random):
    X, y, groups = rows
    found = line(("box", *bounds), random).set_params(
        parameters={"intercept": 0.5, "slope": bounds[0] + 0.1}
    )
    found.fit(X, y, groups=groups)
    assert found.converged_
    at = 0.45 if bounds[0] == 0.2 else 0.8
    values, errors = closed_form(rows, at, V if random else 0.0)
    psi = found.population_parameters_
    assert psi["slope"] == pytest.approx(at, abs=1e-9)
    exact = 1e-4 if random else 2e-3
    assert abs(psi["intercept"] - values[0]) < exact * errors[0]
    with pytest.warns(FitWarning, match="'slope'\\] are at their bounds"):
        given = found.standard_errors()
    assert np.isnan(given["slope"])
    assert given["intercept"] == pytest.approx(errors[0], rel=1e-4)


@pytest.mark.parametrize("start", [0.0, 2.9, 3.0])
def test_inside_a_box_it_is_a_plain_parameter(rows, start):
    X, y, groups = rows
    found = line(("box", 0.0, 3.0))
    found.set_params(parameters={"intercept": 0.5, "slope": start})
    found.fit(X, y, groups=groups)
    assert found.converged_
    values, errors = closed_form(rows)
    psi = found.population_parameters_
    assert (np.abs([psi["intercept"], psi["slope"]] - values) < 1e-4 * errors).all()
    given = found.standard_errors()
    np.testing.assert_allclose([given["intercept"], given["slope"]], errors, rtol=1e-4)
    low, high = profile_likelihood(found, "slope").interval
    assert high - low == pytest.approx(2 * 1.96 * errors[1], rel=0.01)


def test_a_function_that_is_not_defined_outside():
    # The best exponent of a root would be negative: it stays at zero.
    rng = np.random.default_rng(1)
    groups, x = np.repeat(np.arange(20), 5), np.tile(np.arange(1.0, 6.0), 20)
    y = 3 + 0.3 * rng.normal(size=20)[groups] - 0.1 * x + 0.1 * rng.normal(size=100)
    found = NonlinearMixedEffectsRegressor(
        lambda psi, X: psi["level"] + np.sqrt(psi["k"]) * X[:, 0],
        parameters={"level": 2.0, "k": 0.5},
        transforms={"level": "normal", "k": ("box", 0.0, np.inf)},
        omega=["level"],
        random_state=0,
    ).fit(x[:, None], y, groups=groups)
    assert found.population_parameters_["k"] == pytest.approx(0.0, abs=1e-6)
    mean = y.mean()
    assert found.population_parameters_["level"] == pytest.approx(mean, abs=0.01)


def test_wrong_use(rows):
    X, y, groups = rows
    with pytest.raises(ValueError, match="without random effects and covariates"):
        line(("box", 0.0, 1.0), ("intercept", "slope")).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="must be in \\(0, 0.2\\)"):
        line(("box", 0.0, 0.2)).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="kind, low, high"):
        line(("box", 0.0)).fit(X, y, groups=groups)
