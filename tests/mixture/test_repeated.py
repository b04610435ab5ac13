"""Rows that repeat."""

from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktem import StochasticEMMixture
from sktem.emissions import Categorical, Poisson
from sktem.exceptions import FitWarning
from sktem.mixture.emission_model import EmissionMixtureModel
from sktem.mixture.fit_warnings import warn_of_components
from sktem.mixture.repeated import distinct_rows


def survey(n, rng):
    """Return answers of two classes to four questions, some missing."""
    rates = rng.dirichlet(np.ones(3), (2, 4)).cumsum(axis=2)
    state = rng.integers(2, size=n)
    X = (rng.random((n, 4, 1)) > rates[state]).sum(axis=2).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X[~np.isnan(X).all(axis=1)]


def em(X, R, weights, n_passes):
    """Do EM of latent classes row by row, holes left out."""
    L = int(np.nanmax(X)) + 1
    codes, seen = np.nan_to_num(X).astype(int), ~np.isnan(X)
    d = X.shape[1]
    one_hot = (codes[:, :, None] == np.arange(L)) * seen[:, :, None]
    for step in range(n_passes + 1):
        R = R * weights[:, None]
        shares = R.sum(axis=0) / R.sum()
        counts = np.einsum("nk,njl->kjl", R, one_hot)
        p = counts / counts.sum(axis=2, keepdims=True)
        if step == n_passes:
            return shares, p
        terms = np.log(p)[:, np.arange(d), codes] * seen
        joint = terms.sum(axis=2).T + np.log(shares)
        R = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))


@pytest.mark.parametrize("weighted", [False, True])
def test_latent_classes_are_those_of_em_over_all_rows(weighted):
    rng = np.random.default_rng(0)
    X = survey(2000, rng)
    R = rng.dirichlet(np.ones(2), len(X))
    weights = rng.integers(1, 4, len(X)).astype(float) if weighted else None
    mixture = StochasticEMMixture(
        2,
        emission=Categorical(3),
        init_params=lambda X, K, random_state: R,
        max_iter=20,
        tol=0.0,
    ).fit(X, sample_weight=weights)
    assert len(distinct_rows(X)[0]) < len(X) / 4
    given = np.ones(len(X)) if weights is None else weights
    shares, p = em(X, R, given, 20)
    assert_allclose(mixture.weights_, shares, rtol=1e-10)
    assert_allclose(mixture.params_.probabilities, p, rtol=1e-10)
    assert np.abs(em(X, R, given, 19)[1] - p).max() > 1e-6  # it would be seen
    assert mixture.n_samples_seen_ == len(X)
    assert mixture.n_iter_ == 20


def test_distinct_rows_and_their_weights():
    rows = np.array([[0.0, np.nan], [1.0, 2.0], [0.0, 1.0]])
    copies = np.repeat([0, 1, 2, 1, 0], [3, 1, 2, 2, 1])
    found, weights = distinct_rows(rows[copies])
    order = np.lexsort(np.nan_to_num(found, nan=-1).T[::-1])
    assert_array_equal(found[order], rows[[0, 2, 1]])
    assert_array_equal(weights[order], [4, 2, 3])
    _, halves = distinct_rows(rows[copies], np.full(9, 0.5))
    assert_array_equal(halves, weights / 2)


def test_rows_of_which_few_are_copies_stay():
    X = np.random.default_rng(0).normal(size=(100, 2))
    X[0] = X[1]
    assert distinct_rows(X) == (X, None)
    # Equal keys, of which the small numbers are no part, are no equal rows.
    Y = np.column_stack([np.full(100, 1e20), np.arange(100.0)])
    assert distinct_rows(Y)[0] is Y


def test_all_rows_count_after_passes_over_distinct_ones():
    """A component of ten rows that are one distinct row does not lack rows."""
    X = np.repeat([[0.0, 0.0], [2.0, 2.0]], [90, 10], axis=0)
    mixture = StochasticEMMixture(2, emission=Categorical(), random_state=0).fit(X)
    assert_allclose(np.sort(mixture.weights_), [0.1, 0.9], atol=0.01)
    assert mixture.n_samples_seen_ == 100
    assert mixture.partial_fit(X[:30]).n_samples_seen_ == 130


@pytest.mark.parametrize("weight", [0.008, 0.012])
def test_components_without_a_row_are_told(weight):
    X = np.zeros((100, 2))
    model = EmissionMixtureModel(Poisson(), 2)
    params = model.start_of(X, np.full((100, 2), 0.5))
    params = params._replace(weights=np.array([1 - weight, weight]))
    state = SimpleNamespace(params=params, history=SimpleNamespace(events=Counter()))
    told = weight < 0.01
    warned = pytest.warns(FitWarning, match=r"Component\(s\) 1 have less than one row")
    with warned if told else nullcontext():
        assert warn_of_components(model, state, X, None) is told
