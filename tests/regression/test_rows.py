"""Regressions on rows that are read by blocks are those on the array."""

import numpy as np
import pytest

from sktem import ARDLogisticClassifier, RobustPoissonRegressor
from tests.rows.adapters import ADAPTERS, Chunked

rng = np.random.default_rng(0)
X = rng.normal(3, 2, size=(700, 3))
y = rng.poisson(np.exp(0.5 + X @ [0.2, -0.1, 0] + 0.5 * rng.normal(size=700)))
SOURCES = ("own", "npy files", "parquet", "list of frames", "hdf5")


def same(one, other, names=("coef_", "intercept_", "sigma_", "n_iter_")):
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.fixture(scope="module")
def whole():
    return RobustPoissonRegressor().fit(X, y)


@pytest.mark.parametrize("source", SOURCES)
def test_poisson_fit_and_answers(source, whole, tmp_path):
    rows = ADAPTERS[source](X, tmp_path)
    fitted = RobustPoissonRegressor().fit(rows, y)
    same(fitted, whole)
    blocks = list(fitted.predict(rows))
    np.testing.assert_array_equal(np.concatenate(blocks), whole.predict(X))
    out = np.empty(700)
    assert fitted.predict(rows, out=out) is out
    np.testing.assert_array_equal(out, whole.predict(X))
    assert fitted.score(rows, y) == whole.score(X, y)
    assert fitted.log_likelihood(rows, y) == whole.log_likelihood(X, y)


@pytest.mark.parametrize("solver", ["vrttem", "saem"])
def test_poisson_solvers_and_weights(solver, tmp_path):
    weights = rng.uniform(0.5, 2, size=700)
    machine = RobustPoissonRegressor(solver=solver, max_iter=2, tol=0, random_state=0)
    rows = ADAPTERS["npy files"](X, tmp_path)
    for given in (None, weights):
        expected = machine.fit(X, y, given)
        coefficients, sigma = expected.coef_, expected.sigma_
        machine.fit(rows, y, given)
        np.testing.assert_array_equal(machine.coef_, coefficients)
        assert machine.sigma_ == sigma


def test_many_blocks_are_the_array(memory_budget):
    memory_budget(rows=128)
    same(
        RobustPoissonRegressor(max_iter=20).fit(Chunked(X), y),
        RobustPoissonRegressor(max_iter=20).fit(X, y),
    )


def test_blocks_have_the_maximum_of_the_array(whole, memory_budget):
    memory_budget(rows=100)
    fitted = RobustPoissonRegressor().fit(X, y)
    np.testing.assert_allclose(fitted.coef_, whole.coef_, rtol=1e-6)
    np.testing.assert_allclose(fitted.sigma_, whole.sigma_, rtol=1e-5)


def test_counts_in_a_column(whole, tmp_path):
    table = np.column_stack([X[:, :1], y, X[:, 1:]])
    rows = ADAPTERS["parquet"](table, tmp_path)
    fitted = RobustPoissonRegressor().fit(rows, "x1")
    same(fitted, whole)
    assert list(fitted.feature_names_in_) == ["x0", "x2", "x3"]
    predicted = np.concatenate(list(fitted.predict(rows)))
    np.testing.assert_array_equal(predicted, whole.predict(X))
    assert fitted.score(rows, "x1") == whole.score(X, y)
    assert fitted.log_likelihood(rows, "x1") == whole.log_likelihood(X, y)
    with pytest.raises(ValueError, match=r"y='n'.*\['x0', 'x1'"):
        fitted.fit(rows, "n")


def test_wrong_counts():
    machine = RobustPoissonRegressor()
    with pytest.raises(ValueError, match="inconsistent numbers"):
        machine.fit(Chunked(X), y[1:])
    with pytest.raises(ValueError, match="negative"):
        machine.fit(Chunked(X), -1.0 * y)
    with pytest.raises(ValueError, match="NaN"):
        machine.fit(Chunked(X), np.append(y[1:], np.nan))
    machine.fit(Chunked(X), y)
    for wrong in (y[1:], np.append(y, 1)):
        with pytest.raises(ValueError, match="inconsistent numbers"):
            machine.log_likelihood(Chunked(X), wrong)


def test_classifier_learns_in_memory_and_answers_by_blocks(tmp_path):
    labels = np.where(X[:, 0] + rng.normal(size=700) > 3, "high", "low")
    classifier = ARDLogisticClassifier(max_iter=20, tol=0, random_state=0)
    rows = ADAPTERS["npy files"](X, tmp_path)
    with pytest.raises(TypeError, match="ARDLogisticClassifier needs X in memory"):
        classifier.fit(rows, labels)
    classifier.fit(X, labels)
    for name in ("predict", "predict_proba", "decision_function"):
        answer = getattr(classifier, name)
        blocks = list(answer(rows))
        np.testing.assert_array_equal(np.concatenate(blocks), answer(X))
        out = np.empty_like(answer(X))
        np.testing.assert_array_equal(answer(rows, out=out), answer(X))
    assert classifier.score(rows, labels) == classifier.score(X, labels)


@pytest.mark.parametrize("source", ["array", "npy files", "dask"])
def test_weighted_log_likelihood(source, whole, tmp_path):
    """Weights are repetition, as in fit and score."""
    weights = rng.integers(0, 3, size=700)
    rows = X
    if source == "dask":
        rows = pytest.importorskip("dask.array").from_array(X, chunks=(100, -1))
    elif source != "array":
        rows = ADAPTERS[source](X, tmp_path)
    found = whole.log_likelihood(rows, y, sample_weight=weights)
    repeated = np.repeat(np.arange(700), weights)
    assert found == pytest.approx(whole.log_likelihood(X[repeated], y[repeated]))
    with pytest.raises(ValueError, match="Negative values"):
        whole.log_likelihood(rows, y, sample_weight=weights - 1)
