"""The regression of all subjects together, from which a fit starts."""

import numpy as np
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.mixed_effects import optima, pooled, start

GROUPS = np.repeat(np.arange(6), 8)
TIME = np.tile(np.linspace(100.0, 1500.0, 8), 6)


def logistic(psi, X):
    with np.errstate(over="ignore"):
        return psi["A"] / (1 + np.exp((psi["m"] - X[:, 0]) / psi["s"]))


def polynomial(psi, X):
    return psi["A"] + psi["m"] * X[:, 0] + psi["s"] * X[:, 0] ** 2


@pytest.mark.parametrize("value", [1.0, 300.0])
@pytest.mark.parametrize("model", [polynomial, logistic])
def test_other_optima_are_looked_for_unless_the_model_is_linear(
    model, value, monkeypatch
):
    """At the start of 1 the logistic curve is flat, and two parameters do nothing."""
    rng = np.random.default_rng(0)
    truth = {"A": 200.0, "m": 700.0, "s": 300.0}
    y = logistic(truth, TIME[:, None]) + rng.normal(size=48) + 10 * (GROUPS - 2.5)
    looked, places = [], optima._places
    monkeypatch.setattr(
        optima, "_places", lambda *args: looked.append(1) or places(*args)
    )
    fit = NonlinearMixedEffectsRegressor(
        model, parameters=dict.fromkeys("Ams", value), transforms="normal",
        omega=["A"], max_iter=1, tol=0, random_state=0,
    ).fit(TIME[:, None], y, groups=GROUPS)  # fmt: skip
    assert bool(looked) == (model is logistic)
    if model is polynomial:
        found = fit.fitted_.model.start
        expected = np.linalg.lstsq(np.vander(TIME, 3), y, rcond=None)[0][::-1]
        np.testing.assert_allclose(
            [*found.coefficients, *found.numeric], expected, rtol=1e-3
        )


@pytest.mark.parametrize("factor", [0.01, 1.0, 1e3])
def test_both_rates_of_oral_doses_are_found(factor, monkeypatch):
    """Absorption and elimination can change places: (CL / V, CL / ka, CL) fits as well.

    Hence for each optimum the other one is known exactly.
    """
    rng = np.random.default_rng(1)
    time = np.tile([0.25, 0.5, 1, 2, 4, 7, 12, 24], 20)
    groups, X = np.repeat(np.arange(20), 8), np.column_stack([0 * time + 320, time])
    ka, V, CL = ([1.5, 30.0, 2.5] * np.exp(0.2 * rng.normal(size=(20, 3))))[groups].T
    k = CL / V
    y = 320 * ka / (V * (ka - k)) * (np.exp(-k * time) - np.exp(-ka * time))
    found = []
    monkeypatch.setattr(
        start, "optima", lambda *args: found.extend(optima.optima(*args)) or found
    )
    NonlinearMixedEffectsRegressor(
        "one_compartment_oral", max_iter=1, tol=0, random_state=0,
        parameters={"ka": factor, "V": 20 * factor, "CL": factor},
    ).fit(X, y + 0.4 * rng.normal(size=160), groups=groups)  # fmt: skip
    least = min(one.value for one in found)
    best = [one.vector for one in found if one.value < 1.001 * least]
    assert len(best) == 2
    log_ka, log_V, log_CL = best[0]
    other = [log_CL - log_V, log_CL - log_ka, log_CL]
    np.testing.assert_allclose(best[1], other, atol=1e-3)


def test_covariance_of_coordinates_that_are_alike():
    x = 2000 + np.random.default_rng(0).normal(size=50)
    far = np.stack([np.ones(50), x])
    expected = 1.5**2 * np.linalg.inv(far @ far.T / 50)
    np.testing.assert_allclose(pooled._covariance(far, 1.5), expected, rtol=1e-6)
    assert pooled._covariance(np.stack([np.ones(50), x - 2000]), 1.5) is None
    assert pooled._covariance(np.stack([x, 3 * x]), 1.5) is None
    assert pooled._covariance(np.stack([x, 0 * x]), 1.5) is None
