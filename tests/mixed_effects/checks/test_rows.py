"""The data that checks of mixed-effects fits get: what is told, what is left out."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from sktem import NonlinearMixedEffectsRegressor
from sktem.evaluation import (
    individual_curves,
    individual_residuals,
    population_residuals,
    visual_predictive_check,
)
from sktem.mixed_effects.checks.rows import (
    check_rows,
    time_column,
    time_name,
)
from tests.mixed_effects.fits import bolus_fit, bolus_rows, line_fit, line_rows

CHECKS = [
    individual_curves,
    individual_residuals,
    population_residuals,
    visual_predictive_check,
]


def bolus_by_name(psi, X):
    return X["dose"] / psi["V"] * np.exp(-psi["CL"] / psi["V"] * X["time"])


@pytest.mark.parametrize("check", CHECKS)
def test_wrong_data(check):
    fit, (X, y, groups) = bolus_fit(), bolus_rows()
    infinite = y.copy()
    infinite[0] = np.inf
    for arguments, message in [
        ((X[:, 1], y, groups), "Expected 2D array, got 1D array"),
        ((X[:, :1], y, groups), "X has 1 features, but"),
        ((X, y[:-1], groups), "inconsistent numbers of samples"),
        ((X, y, groups[:-1]), "inconsistent numbers of samples"),
        ((X, y[:, None], groups), "y must have shape"),
        ((X, y, groups[:, None]), "groups must have shape"),
        ((X, infinite, groups), "y contains infinity"),
        ((X, np.full(len(y), np.nan), groups), "no row has an observation"),
        ((np.where(X > 8, np.nan, X), y, groups), "Input X contains NaN"),
        ((X, y, None), "groups must be given"),
    ]:
        with pytest.raises(ValueError, match=message):
            check(fit, *arguments)


@pytest.mark.parametrize("check", CHECKS)
def test_wrong_estimators(check):
    X, y, groups = bolus_rows()
    blank = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 1.0, "CL": 1.0}
    )
    with pytest.raises(NotFittedError):
        check(blank, X, y, groups)
    with pytest.raises(TypeError, match="got LinearRegression"):
        check(LinearRegression().fit(X, y), X, y, groups)


def test_rows_that_are_kept():
    X, y, _ = line_rows(n=2)
    y[2] = np.nan
    groups = np.repeat(["b", "a"], 5)
    rows = check_rows(line_fit(), X, y, groups)
    assert rows.subjects.tolist() == [1] * 4 + [0] * 5
    assert rows.groups.tolist() == ["b"] * 4 + ["a"] * 5
    np.testing.assert_array_equal(rows.X[:, 0], np.delete(X[:, 0], 2))
    spread = rows.spread_out(np.arange(9.0))
    np.testing.assert_array_equal(spread, [0, 1, np.nan, *range(2, 9)])


def test_time_column():
    assert time_column(bolus_fit().fitted_) == 1
    assert time_column(bolus_fit().fitted_, 0) == 0
    assert time_column(line_fit().fitted_) == 0
    for wrong in (2, -1, True, "time", 1.0):
        with pytest.raises(ValueError, match="time must name a column of X: numbers"):
            time_column(bolus_fit().fitted_, wrong)


def test_names_of_columns_without_a_data_frame():
    X, y, groups = bolus_rows()
    fit = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", inputs=[2, 0], parameters={"V": 10.0, "CL": 2.0}, tol=0,
        max_iter=2, n_burn_in=1, random_state=0,
    ).fit(X[:, [1, 0, 0]], y, groups=groups)  # fmt: skip
    assert time_column(fit.fitted_) == 0
    names = [time_name(fit.fitted_, column) for column in range(3)]
    assert names == ["time", "column 1", "dose"]


def test_columns_by_name():
    """A data frame gives what an array gives, without a warning on names."""
    pandas = pytest.importorskip("pandas")
    X, y, groups = bolus_rows()
    frame = pandas.DataFrame({"weight": 1.0, "time": X[:, 1], "dose": X[:, 0]})
    names = pandas.Series(groups).map("s{:02d}".format)
    options = {"parameters": {"V": 10.0, "CL": 2.0}, "tol": 0, "max_iter": 100}
    library = NonlinearMixedEffectsRegressor(
        "one_compartment_iv", inputs=["dose", "time"], random_state=0, **options
    ).fit(frame, y, groups=names)
    own = NonlinearMixedEffectsRegressor(
        bolus_by_name, n_burn_in=2, random_state=0, **options | {"max_iter": 4}
    ).fit(frame, y, groups=names)
    assert time_column(library.fitted_) == time_column(own.fitted_, "time") == 1
    assert [time_name(own.fitted_, column) for column in range(3)] == list(
        frame.columns
    )
    with pytest.raises(ValueError, match="time must name one of the 3 columns"):
        time_column(own.fitted_)
    with pytest.raises(ValueError, match=r"a column of X: \['weight', 'time'"):
        time_column(own.fitted_, "hours")

    data = frame, y, names
    np.testing.assert_allclose(
        individual_residuals(library, *data),
        individual_residuals(bolus_fit(), X, y, groups),
    )
    by_name = visual_predictive_check(library, *data, n_simulations=20, random_state=0)
    plain = visual_predictive_check(
        bolus_fit(), X, y, groups, n_simulations=20, random_state=0
    )
    np.testing.assert_allclose(by_name.upper, plain.upper)
    curve = individual_curves(own, *data, time="time", subjects=["s03"])[0]
    (alone,) = individual_curves(library, *data, subjects=["s03"])
    assert curve.label == alone.label == "s03"
    np.testing.assert_array_equal(curve.observed, y[groups == 3])
    assert np.isfinite(population_residuals(own, *data, n_simulations=9).npde).all()
