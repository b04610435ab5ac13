"""Transforms of parameters onto intervals."""

import numpy as np
import pytest
from scipy.special import expit

from sktem import NonlinearMixedEffectsRegressor
from sktem.mixed_effects.transforms import TRANSFORMS


@pytest.mark.parametrize(
    "key", [*TRANSFORMS, ("logit", -1.0, 3.0), ("probit", 2.0, 2.5)]
)
def test_inverse_and_derivative(key):
    transform = TRANSFORMS[key]
    phi = np.array([-2.0, -0.3, 0.0, 1.1])
    psi = transform.forward(phi)
    np.testing.assert_allclose(transform.inverse(psi), phi, atol=1e-12)
    slope = (transform.forward(phi + 1e-6) - transform.forward(phi - 1e-6)) / 2e-6
    np.testing.assert_allclose(transform.derivative(phi), slope, rtol=1e-7)
    low, high = transform.support
    assert (psi > low).all() and (psi < high).all()


def test_a_bounded_parameter_equals_its_formula():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 6)
    x = np.tile(np.linspace(0, 3, 6), 30)
    level = (1 + 2 * expit(0.3 + 0.8 * rng.standard_normal(30)))[groups]
    y = level * x + 0.2 * rng.standard_normal(180)
    settings = {"parameters": {"s": 2.0}, "random_state": 0}
    bounded = NonlinearMixedEffectsRegressor(
        lambda p, X: p["s"] * X[:, 0], transforms=("logit", 1.0, 3.0), **settings
    ).fit(x[:, None], y, groups=groups)
    settings["parameters"] = {"s": 0.5}
    unit = NonlinearMixedEffectsRegressor(
        lambda p, X: (1 + 2 * p["s"]) * X[:, 0], transforms="logit", **settings
    ).fit(x[:, None], y, groups=groups)
    assert bounded.log_likelihood() == pytest.approx(unit.log_likelihood(), abs=1e-3)
    s = bounded.population_parameters_["s"]
    assert s == pytest.approx(1 + 2 * unit.population_parameters_["s"], rel=1e-3)
    error = unit.standard_errors()["s"]
    assert bounded.standard_errors()["s"] == pytest.approx(2 * error, rel=0.01)


@pytest.mark.parametrize(
    "wrong",
    [("logit", 1.0), ("normal", 0.0, 1.0), ("logit", 2.0, 1.0), ("logit", 0, "1")],
)
def test_wrong_bounds(wrong):
    fit = NonlinearMixedEffectsRegressor(
        "linear", parameters={"intercept": 1.0, "slope": 1.0}, transforms=wrong
    )
    with pytest.raises(ValueError, match="kind, low, high"):
        fit.fit(np.ones((4, 1)), np.ones(4), groups=[0, 0, 1, 1])
