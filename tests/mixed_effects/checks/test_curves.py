"""Curves of subjects: they pass through the predictions, columns are carried on."""

import numpy as np
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation import individual_curves
from tests.mixed_effects.fits import DOSES, bolus_fit, bolus_rows


def test_curves_pass_through_the_predictions():
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    y[1] = np.nan
    curves = individual_curves(fit, X, y, groups, n_points=9)
    assert [curve.label for curve in curves] == list(range(40))
    for curve in curves[:3]:
        own = (groups == curve.label) & ~np.isnan(y)
        np.testing.assert_array_equal(curve.time, X[own, 1])
        np.testing.assert_array_equal(curve.observed, y[own])
        np.testing.assert_array_equal(curve.grid, np.arange(1.0, 10.0))
        places = np.searchsorted(curve.grid, X[own, 1])
        np.testing.assert_array_equal(
            curve.individual[places], fit.predict(X[own], groups[own])
        )
        np.testing.assert_array_equal(curve.population[places], fit.predict(X[own]))


def test_curves_by_hand():
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    curves = individual_curves(fit, X, y, groups, subjects=[7, 2], n_points=4)
    assert [curve.label for curve in curves] == [7, 2]
    psi, typical = fit.individual_parameters(method="mode"), fit.population_parameters_
    for curve in curves:
        dose = DOSES[curve.label % 3]
        V, CL = psi["V"][curve.label], psi["CL"][curve.label]
        np.testing.assert_allclose(
            curve.individual, dose / V * np.exp(-CL / V * curve.grid)
        )
        V, CL = typical["V"], typical["CL"]
        np.testing.assert_allclose(
            curve.population, dose / V * np.exp(-CL / V * curve.grid)
        )


def shifted(psi, X):
    return psi["level"] + X[:, 1]


def test_other_columns_are_carried_forward():
    time, level = np.array([4.0, 0.0, 2.0, 1.0]), np.array([5.0, 1.0, 9.0, 7.0])
    X = np.column_stack([np.tile(time, 3), np.tile(level, 3)])
    groups = np.repeat(["a", "b", "c"], 4)
    y = X[:, 1] + 1 + 0.1 * np.random.default_rng(0).normal(size=12)
    fit = NonlinearMixedEffectsRegressor(
        shifted, parameters={"level": 1.0}, transforms="normal", tol=0, max_iter=20,
        n_burn_in=5, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    (curve,) = individual_curves(fit, X, y, groups, time=0, subjects=["b"], n_points=9)
    typical = fit.population_parameters_["level"]
    np.testing.assert_allclose(
        curve.population - typical, [1, 1, 7, 7, 9, 9, 9, 9, 5], atol=1e-12
    )
    np.testing.assert_array_equal(curve.time, [0, 1, 2, 4])
    # A subject that begins later has its first row carried back.
    X, y, groups = X[:-3], y[:-3], groups[:-3]
    (curve,) = individual_curves(fit, X, y, groups, time=0, subjects=["c"], n_points=3)
    np.testing.assert_allclose(curve.population - typical, [5, 5, 5], atol=1e-12)


def test_errors():
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    with pytest.raises(ValueError, match="must have a row .* got \\[99\\]"):
        individual_curves(fit, X, y, groups, subjects=[1, 99])
    with pytest.raises(ValueError, match="must have a row .* got \\[99\\]"):
        individual_curves(fit, X, y, np.where(groups == 1, 99, groups), subjects=[99])
    with pytest.raises(ValueError, match="fit has seen, got \\[99\\]"):
        individual_curves(fit, X, y, np.where(groups == 1, 99, groups))
    with pytest.raises(ValueError, match="n_points must be"):
        individual_curves(fit, X, y, groups, n_points=1)
