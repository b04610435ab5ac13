"""Gaussian mixtures of rows with holes, against the mixture of Gaussian emissions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktem import StochasticEMGaussianMixture, StochasticEMMixture, emissions
from sktem.exceptions import FitWarning

KINDS = ["full", "tied", "diag", "spherical", "unit"]


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


@pytest.mark.parametrize("solver", ["online", "iem", "vrttem", "fittem", "mcem"])
def test_solvers(solver):
    X = rows(seed=1)
    best = StochasticEMGaussianMixture(2, random_state=0).fit(X)
    options = {"random_state": 0, "tol": 0.0, "max_iter": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # of a step that was projected
        own = StochasticEMGaussianMixture(2, solver=solver, **options).fit(X)
    assert own.score(X) > best.score(X) - 5e-3


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
    with pytest.raises(ValueError, match="nothing has been observed.*'b'"):
        StochasticEMGaussianMixture(2).fit(frame.assign(b=np.nan))
