"""Columns of text are named by the message that refuses them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sktem import (
    ARDLogisticClassifier,
    DeformableTemplateEstimator,
    HiddenMarkovModel,
    LatentBoltzmannMachine,
    MixtureOutlierDetector,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
)
from sktem.models import RandomInterceptModel

LINE = {"parameters": {"intercept": 1.0, "slope": 1.0}, "omega": []}
ESTIMATORS = [
    StochasticEMGaussianMixture(2, tol=0.1),
    StochasticEM(RandomInterceptModel(), tol=0.1),
    RobustPoissonRegressor(),
    ARDLogisticClassifier(),
    DeformableTemplateEstimator(),
    LatentBoltzmannMachine(visible="binary"),
    NonlinearMixedEffectsRegressor(lambda psi, X: psi["intercept"], **LINE),
]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_columns_of_text_are_named(library, estimator):
    frames = pytest.importorskip(library)
    numbers = np.arange(20.0)
    frame = frames.DataFrame(
        {"subject": [f"P{i}" for i in range(20)], "x": numbers, "site": ["a"] * 20}
    )
    with pytest.raises(
        ValueError, match=r"columns \['subject', 'site'\] of X"
    ) as error:
        estimator.fit(frame, numbers > 9)
    assert ("as groups" in str(error.value)) == hasattr(estimator, "omega")


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_dates_are_named(library, estimator):
    frames = pytest.importorskip(library)
    days = np.arange("2020-01-01", "2020-01-21", dtype="datetime64[D]")
    dates = days.astype("datetime64[ns]")
    numbers = np.arange(20.0)
    frame = frames.DataFrame({"x": numbers, "when": dates, "for": dates - dates[0]})
    with pytest.raises(ValueError, match=r"columns \['when', 'for'\] of X.*days"):
        estimator.fit(frame, numbers > 9)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["array", "map", "frame", "chunks"])
def test_values_that_are_not_finite_are_named(kind, value, tmp_path):
    X = np.random.default_rng(0).normal(size=(70_000, 3))
    X[69_000, 1] = value
    place = "row 69000, column 1"
    if kind == "map":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "frame":
        X = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
        place = "row 69000, column 'b'"
    elif kind == "chunks":
        X, place = iter(np.split(X, 7)), "Chunk 6: .* row 9000, column 1"
    estimator = RobustPoissonRegressor() if kind == "frame" else ESTIMATORS[1]
    with pytest.raises(ValueError, match=rf"(?s)(NaN|infinity).*{place}|{place}"):
        if kind == "chunks":
            estimator.partial_fit(X)
        else:
            estimator.fit(X, np.ones(len(X)))


def test_numbers_as_objects_pass():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(60, 2))
    frame = pandas.DataFrame(X, columns=["a", "b"])
    plain = StochasticEMGaussianMixture(2, random_state=0, tol=0.1).fit(frame)
    objects = StochasticEMGaussianMixture(2, random_state=0, tol=0.1)
    objects.fit(frame.astype(object))
    np.testing.assert_array_equal(plain.means_, objects.means_)


TABLES = [
    StochasticEMGaussianMixture(random_state=0),
    StochasticEMMixture(random_state=0),
    HiddenMarkovModel(1, random_state=0),
    MixtureOutlierDetector(1, random_state=0),
]


@pytest.mark.parametrize("estimator", TABLES, ids=lambda one: type(one).__name__)
def test_objects_and_lists(estimator):
    """NA of pandas is NaN, and columns of text are named by their index."""
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[::7, 1] = np.nan
    objects = X.astype(object)
    objects[np.isnan(X)] = pandas.NA
    scores = clone(estimator).fit(X).score_samples(X)
    for rows in (objects, objects.tolist()):
        found = clone(estimator).fit(rows)
        np.testing.assert_array_equal(found.score_samples(rows), scores)
    frame = pandas.DataFrame(objects, columns=["dose", "weight"])
    found = clone(estimator).fit(frame)
    assert list(found.feature_names_in_) == ["dose", "weight"]
    # Columns that lie one after the other are summed in another order.
    np.testing.assert_allclose(found.score_samples(frame), scores, rtol=1e-10)
    objects[3, 1] = "high"
    for rows in (objects, objects.tolist()):
        with pytest.raises(ValueError, match=r"columns \[1\] of X do not hold numbers"):
            clone(estimator).fit(rows)
    with pytest.raises(ValueError, match="contains NaN"):
        RobustPoissonRegressor().fit(objects[[0, 1]], [0, 1])


def test_dates_with_and_without_zones_get_the_same_advice():
    days = pd.date_range("2020-01-01", periods=30)
    for column in (days, days.tz_localize("UTC"), days - days[0]):
        frame = pd.DataFrame({"when": column, "x": np.arange(30.0)})
        with pytest.raises(ValueError, match=r"\['when'\].*dates for example as"):
            StochasticEMGaussianMixture().fit(frame)
    words = pd.DataFrame({"word": ["a", "b"] * 15, "x": np.arange(30.0)})
    with pytest.raises(ValueError) as error:
        StochasticEMGaussianMixture().fit(words)
    assert "dates" not in str(error.value)
