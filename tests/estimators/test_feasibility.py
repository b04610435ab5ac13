"""Fits by differences of statistics of models without a projection."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest

from sktem import StochasticEM
from sktem.exceptions import FitWarning
from sktem.models import LatentModel, RandomInterceptModel


class Lines(NamedTuple):
    weights: np.ndarray
    slopes: np.ndarray
    variances: np.ndarray


class TwoLines(LatentModel):
    """Rows (y, x) of two lines through the origin, without a projection."""

    averages_draws = True

    def initial_params(self, X, rng):
        slopes = rng.standard_normal(2)
        return Lines(np.full(2, 0.5), slopes, np.full(2, X[:, 0].var()))

    def mean_statistics(self, X, Z, sample_weight=None):
        y, x = X[:, :1], X[:, 1:]
        terms = np.hstack([Z, Z * y * y, Z * x * y, Z * x * x])
        return np.average(terms, axis=0, weights=sample_weight)

    def maximize(self, s, params):
        mass, yy, xy, xx = s.reshape(4, 2)
        mass = np.maximum(mass, 1e-10)
        slopes = xy / np.maximum(xx, 1e-10)
        variances = np.maximum((yy - slopes * xy) / mass, 1e-4)
        return Lines(mass / mass.sum(), slopes, variances)

    def _joint(self, X, params):
        squares = (X[:, :1] - X[:, 1:] * params.slopes) ** 2 / params.variances
        constants = np.log(params.weights) - 0.5 * np.log(2 * np.pi * params.variances)
        return constants - 0.5 * squares

    def posterior(self, X, params):
        joint = self._joint(X, params)
        return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])

    def log_likelihood(self, X, params):
        return np.logaddexp.reduce(self._joint(X, params), axis=1)


def two_lines(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    slopes = np.where(rng.random(n) < 0.4, 3.0, -1.0)
    return np.column_stack([slopes * x + rng.normal(0, 0.3, n), x])


def fitted(model, X, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        em = StochasticEM(model, **options).fit(X)
    return em, [w for w in caught if issubclass(w.category, FitWarning)]


@pytest.mark.parametrize("solver", ["vrttem", "fittem"])
def test_a_fit_far_below_em_is_told_and_others_are_not(solver):
    X, spoiled = two_lines(60), 0
    for seed in range(8):
        options = {"random_state": seed, "tol": 1e-4}
        best = StochasticEM(TwoLines(), solver="em", **options).fit(X).score(X)
        em, caught = fitted(TwoLines(), X, solver=solver, **options)
        lost = best - em.score(X)
        assert abs(lost) < 1e-3 or lost > 0.1  # the other lines, or one line
        assert len(caught) == (lost > 0.1)
        if caught:
            spoiled += 1
            assert "TwoLines has no method project" in str(caught[0].message)
    assert spoiled


def test_solvers_whose_statistics_are_means_and_many_rows_are_silent():
    X = two_lines(60)
    for solver in ("em", "iem", "isaem"):
        assert not fitted(TwoLines(), X, solver=solver, random_state=1)[1]
    X = two_lines(5000)
    weights = np.r_[np.zeros(100), np.ones(4900)]
    for solver in ("vrttem", "fittem"):
        for seed in range(3):
            em, caught = fitted(TwoLines(), X, solver=solver, random_state=seed)
            assert not caught
        em = StochasticEM(TwoLines(), solver=solver, random_state=0)
        em.fit(X, sample_weight=weights)


class NeedsManyRows(TwoLines):
    """A model that raises where the comparison has only some of the rows."""

    def mean_statistics(self, X, Z, sample_weight=None):
        if len(X) == 2048:
            raise np.linalg.LinAlgError("too few rows")
        return super().mean_statistics(X, Z, sample_weight)


def test_a_fit_is_not_lost_where_the_comparison_fails():
    X = two_lines(5000)
    em, caught = fitted(NeedsManyRows(), X, solver="vrttem", random_state=0)
    assert not caught
    plain, _ = fitted(TwoLines(), X, solver="vrttem", random_state=0)
    np.testing.assert_array_equal(em.params_.slopes, plain.params_.slopes)


def test_rows_that_are_read_in_order(tmp_path):
    pyarrow, parquet = (pytest.importorskip(f"pyarrow{p}") for p in ("", ".parquet"))
    path = tmp_path / "rows.parquet"
    for n, batch_size, is_told in ((60, 5, True), (5000, 500, False)):
        y, x = two_lines(n).T
        parquet.write_table(pyarrow.table({"y": y, "x": x}), path)
        options = {"solver": "vrttem", "sampling": "shuffle", "batch_size": batch_size}
        told = [
            len(fitted(TwoLines(), path, random_state=seed, **options)[1])
            for seed in range(6)
        ]
        assert any(told) == is_told


def test_rows_on_dask():
    pytest.importorskip("distributed")
    array = pytest.importorskip("dask.array")
    X = array.from_array(two_lines(600), chunks=(200, 2))
    em = StochasticEM(TwoLines(), solver="vrttem", random_state=0).fit(X)
    assert np.isfinite(em.score(X.compute()))


def test_a_model_with_a_projection_is_left_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) + rng.normal(size=(60, 4))
    assert type(RandomInterceptModel()).project is not LatentModel.project
    assert not fitted(RandomInterceptModel(), X, solver="fittem", random_state=0)[1]
