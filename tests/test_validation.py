"""What all estimators refuse: columns of text, parameters and weights out of range."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from sktem import (
    ARDLogisticClassifier,
    BoltzmannMachineClassifier,
    BoltzmannMachineRegressor,
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    DeformedCopiesClassifier,
    HiddenMarkovModel,
    LatentBoltzmannMachine,
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
#: Those too that check rows in another way.
ALL = [
    *ESTIMATORS,
    StochasticEMMixture(2),
    HiddenMarkovModel(2),
    BoltzmannMachineClassifier(2),
    BoltzmannMachineRegressor(2),
    DeformableTemplateClassifier(),
    DeformedCopiesClassifier(),
]
#: Values of parameters that several estimators have, and what is said of them.
REFUSED = {
    "tol": [(-1.0, "tol must be a number >"), (np.nan, "tol must be a number >")],
    "max_iter": [(wrong, "max_iter must be an int") for wrong in (-1, True, 2.5)],
    "n_init": [(0, "n_init must be an integer >= 1, got 0")],
    "batch_size": [(wrong, "batch_size must be an int") for wrong in (0, 2.5, "big")],
    "n_iter_no_change": [(0, "n_iter_no_change must be an integer >= 1")],
    "verbose_interval": [(0, "verbose_interval must be an integer >= 1, got 0")],
    "step_size": [(0.0, r"\(0, 1\]"), (1.5, r"\(0, 1\]"), ("fast", "must be a number")],
    "average": [(-1, "average must be"), ("always", "average must be")],
    "solver": [("sgd", "solver must be one of"), (3, "solver must be one of")],
    "sampler": [("nuts", "sampler must be one of"), (3, "sampler must be one of")],
    "random_state": [("x", "cannot be used to seed")],
}
WEIGHTS = {
    "zeros": (np.zeros(20), "(?i)sample.weights?.*zero"),
    "negative": (np.r_[-1.0, np.ones(19)], "(?i)negative"),
    "too few": (np.ones(19), "sample_weight.shape|sample_weight must have a weight"),
    "two columns": (np.ones((20, 2)), "must be 1D|sample_weight must have a weight"),
    "nan": (np.full(20, np.nan), "NaN"),
}


def refused(estimator, method, message, **given):
    """Call a method of an estimator with twenty rows, and expect an error."""
    rows = {"y": np.arange(20) % 2, "groups": np.repeat(np.arange(5), 4)}
    call = getattr(estimator, method)
    asked = inspect.signature(call).parameters
    given |= {name: rows[name] for name in rows if name in asked}
    if "classes" in asked:
        given["classes"] = [0, 1]
    with pytest.raises((ValueError, TypeError), match=message):
        call(np.random.default_rng(0).random((20, 4)), **given)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("estimator", ALL, ids=lambda one: type(one).__name__)
def test_parameters_out_of_range(estimator, name):
    if name in estimator.get_params(deep=False):
        for value, message in REFUSED[name]:
            one = clone(estimator).set_params(**{name: value})
            refused(one, "fit", message)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("estimator", ALL, ids=lambda one: type(one).__name__)
def test_wrong_weights(estimator, name):
    weights, message = WEIGHTS[name]
    for method in ("fit", "partial_fit", "fit_predict"):
        call = getattr(estimator, method, None)
        # A chunk without weight is one of a stream, and says nothing.
        if call is None or (name == "zeros" and method == "partial_fit"):
            continue
        if "sample_weight" in inspect.signature(call).parameters:
            refused(clone(estimator), method, message, sample_weight=weights)


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
