"""Gaussian mixtures of rows with holes, against the mixture of Gaussian emissions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktem import StochasticEMGaussianMixture, StochasticEMMixture, emissions
from tests.emissions.structures import KINDS


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))
    X += 6 * rng.integers(2, size=(n, 1))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_the_mixture_of_emissions(kind):
    X = rows()
    options = {"random_state": 0, "tol": 0.0, "max_iter": 8}
    own = StochasticEMGaussianMixture(2, covariance_type=kind, **options).fit(X)
    peer = StochasticEMMixture(2, emission=emissions.Gaussian(kind), **options).fit(X)
    assert_allclose(own.means_, peer.params_.means, rtol=1e-8, atol=1e-8)
    assert_allclose(own.lower_bounds_, peer.lower_bounds_, rtol=1e-8)
    assert_allclose(own.predict_proba(X), peer.predict_proba(X), atol=1e-8)
    assert_allclose(own.score_samples(X), peer.score_samples(X), atol=1e-8)
    assert_allclose(own.impute(X), peer.impute(X), atol=1e-7)
    assert_array_equal(own.predict(X), peer.predict(X))
    assert own.bic(X) == pytest.approx(peer.bic(X))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_pattern_together_and_one_by_one(kind):
    rng = np.random.default_rng(0)
    X = 3 + rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
    X[:100, 1], X[100:200, [0, 2]] = np.nan, np.nan
    mixture = StochasticEMGaussianMixture(3, covariance_type=kind, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture.set_params(max_iter=2).fit(X)
    fitted = mixture.fitted_
    model, params = fitted.model, fitted.params
    together, value = model.expected_statistics(X, params)
    alone = [model.expected_statistics(X[i : i + 1], params) for i in range(len(X))]
    assert_allclose(together, np.mean([s for s, _ in alone], axis=0), atol=1e-12)
    assert value == pytest.approx(np.mean([v for _, v in alone]), abs=1e-12)
    filled = model.expected_statistics(mixture.impute(X), params)[0]
    if kind != "unit":  # completed by means alone, second moments are too small
        assert np.abs(together - filled).max() > 0.01


def test_streams_and_frames():
    X = rows(n=1500, seed=2)
    stream = StochasticEMGaussianMixture(2, random_state=0)
    for start in range(0, 1500, 300):
        stream.partial_fit(X[start : start + 300])
    whole = StochasticEMGaussianMixture(2, random_state=0).fit(X)
    assert stream.score(X) > whole.score(X) - 0.05
    frame = pd.DataFrame(X, columns=list("abc"))
    filled = StochasticEMGaussianMixture(2, random_state=0).fit(frame).impute(frame)
    assert not filled.isna().any().any() and list(filled.columns) == list("abc")


def test_a_start_that_is_given_is_taken():
    X = rows(seed=3)
    given = {
        "weights_init": [0.9, 0.1],
        "means_init": np.array([[0.0, 0, 0], [5, 5, 5]]),
        "precisions_init": np.array([np.eye(3), 2 * np.eye(3)]),
    }
    for name, value in given.items():
        mixture = StochasticEMGaussianMixture(2, random_state=0, **{name: value})
        mixture.max_iter = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixture.fit(X)
        found = getattr(mixture, name.replace("init", ""))
        assert_allclose(found, value, atol=1e-5)


@pytest.mark.parametrize("solver", ["em", "isaem", "mcem"])
@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_holes_come_after_the_first_rows(solver, first):
    X, holes = np.nan_to_num(rows(n=1500, seed=4)), rows(n=1500, seed=4)
    stream = StochasticEMGaussianMixture(2, solver=solver, random_state=0)
    getattr(stream, first)(X)
    before = stream.means_.copy()
    stream.partial_fit(holes)
    assert np.isfinite(stream.score(holes))
    assert not np.array_equal(stream.means_, before)


def test_completions_are_drawn_given_what_is_observed():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1.0, 0.8], [0.8, 1.0]], size=2000)
    mixture = StochasticEMGaussianMixture(1, random_state=0).fit(X.astype(np.float32))
    given = np.array([[2.0, np.nan], [-1.0, 3.0]], dtype=np.float32)
    drawn, labels = mixture.sample(4000, given=given)
    assert drawn.shape == (8000, 2) and drawn.dtype == np.float32
    assert_array_equal(labels, 0)
    assert_array_equal(drawn[:4000, 0], 2.0)
    assert_array_equal(drawn[4000:], np.repeat(given[1:], 4000, axis=0))
    error = 0.6 / np.sqrt(4000)
    slope = mixture.covariances_[0, 0, 1] / mixture.covariances_[0, 0, 0]
    mean = mixture.means_[0, 1] + slope * (2.0 - mixture.means_[0, 0])
    assert abs(drawn[:4000, 1].mean() - mean) < 4 * error
    assert drawn[:4000, 1].std() == pytest.approx(0.6, rel=0.1)
