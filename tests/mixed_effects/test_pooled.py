"""The regression of all subjects together, from which a fit starts."""

import numpy as np
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.mixed_effects import pooled

GROUPS = np.repeat(np.arange(6), 8)
TIME = np.tile(np.linspace(100.0, 1500.0, 8), 6)


def logistic(psi, X):
    with np.errstate(over="ignore"):
        return psi["A"] / (1 + np.exp((psi["m"] - X[:, 0]) / psi["s"]))


def polynomial(psi, X):
    return psi["A"] + psi["m"] * X[:, 0] + psi["s"] * X[:, 0] ** 2


@pytest.mark.parametrize("start", [1.0, 300.0])
@pytest.mark.parametrize("model", [polynomial, logistic])
def test_other_optima_are_looked_for_unless_the_model_is_linear(
    model, start, monkeypatch
):
    """At the start of 1 the logistic curve is flat, and two parameters do nothing."""
    rng = np.random.default_rng(0)
    truth = {"A": 200.0, "m": 700.0, "s": 300.0}
    y = logistic(truth, TIME[:, None]) + rng.normal(size=48) + 10 * (GROUPS - 2.5)
    looked, places = [], pooled._places
    monkeypatch.setattr(
        pooled, "_places", lambda *args: looked.append(1) or places(*args)
    )
    fit = NonlinearMixedEffectsRegressor(
        model, parameters=dict.fromkeys("Ams", start), transforms="normal",
        omega=["A"], max_iter=1, tol=0, random_state=0,
    ).fit(TIME[:, None], y, groups=GROUPS)  # fmt: skip
    assert bool(looked) == (model is logistic)
    if model is polynomial:
        found = fit.fitted_.model.start
        expected = np.linalg.lstsq(np.vander(TIME, 3), y, rcond=None)[0][::-1]
        np.testing.assert_allclose(
            [*found.coefficients, *found.numeric], expected, rtol=1e-3
        )
