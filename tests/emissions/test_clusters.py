"""Clusters of points with holes."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from sktem import StochasticEMMixture
from sktem.emissions import Categorical, Columns, Gaussian, Poisson, VonMises
from sktem.emissions.clusters import settled, standardised


def problem(seed, K=8, d=4, n=800, counts=False):
    """Return points with holes about distant centres, and whose they are."""
    rng = np.random.default_rng(seed)
    labels, centres = rng.integers(K, size=n), rng.normal(size=(K, d))
    X = rng.normal(size=(n, d)) + 5 * centres[labels]
    if counts:
        X = rng.poisson(np.exp(3 + centres[labels])).astype(float)
    X[rng.random(X.shape) < 0.4] = np.nan
    used = ~np.isnan(X).all(axis=1)
    return X[used], labels[used]


def test_no_point_is_nearer_to_another_centre(global_random_seed):
    X, _ = problem(global_random_seed)
    weights = np.random.default_rng(0).uniform(1, 2, size=len(X))
    start = np.random.default_rng(1).integers(8, size=len(X))
    found = settled(X, start, 8, weights)
    centres = np.full((8, X.shape[1]), np.nan)
    for k in range(8):
        for j in range(X.shape[1]):
            rows = (found.labels == k) & ~np.isnan(X[:, j])
            centres[k, j] = np.average(X[rows, j], weights=weights[rows])
    squares = np.nansum((X[:, None] - centres) ** 2, axis=2)
    np.testing.assert_array_equal(found.labels, squares.argmin(axis=1))
    assert found.inertia == pytest.approx(weights @ squares.min(axis=1))
    assert (found.labels != start).any()


def test_observed_values_are_standardised():
    X = 5 + 3 * problem(0)[0]
    values = standardised(np.column_stack([X, np.full(len(X), 7.0)]))
    np.testing.assert_allclose(np.nanmean(values[:, :-1], axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanvar(values[:, :-1], axis=0), 1.0)
    assert not values[:, -1].any()
    weights = np.arange(len(X)) % 3
    copies = standardised(np.repeat(X, weights, axis=0))
    weighted = np.repeat(standardised(X, weights), weights, axis=0)
    np.testing.assert_allclose(weighted, copies)


def test_scales_of_points():
    X = np.array([[0.0, 3.0, 1.0, 9.0], [1.0, -3.0, 1.0, 4.0], [np.nan, 0.0, 3.0, 1.0]])
    blocks = [("label", Categorical(), [0]), ("angle", VonMises(), [1])]
    blocks += [("number", Gaussian(), [2]), ("count", Poisson(), [3])]
    found = Columns(blocks).points(X)
    assert found.shape == (3, 6)
    np.testing.assert_allclose(found[:2, :2], [[0.5, -0.5], [-0.5, 0.5]])
    circle = np.column_stack([np.cos(X[:, 1]), np.sin(X[:, 1])])
    np.testing.assert_allclose(found[:, 2:4], circle - circle.mean(axis=0))
    np.testing.assert_allclose(found[:, 4], np.array([-1, -1, 2]) / np.sqrt(2))
    np.testing.assert_allclose(found[:, 5], np.array([1, 0, -1]) * np.sqrt(1.5))
    assert np.isnan(found[2, :2]).all()


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")  # of few rows
@pytest.mark.parametrize("emission", [Gaussian("diag"), Gaussian(), Poisson()])
def test_fits_of_rows_with_holes_end_where_the_truth_leads(emission):
    behind = []
    for seed in range(10):
        X, labels = problem(seed, counts=isinstance(emission, Poisson))

        def score(init_params, X=X, seed=seed):
            mixture = StochasticEMMixture(
                8, emission=emission, random_state=seed, init_params=init_params
            )
            return mixture.fit(X).score(X)

        best = score(lambda *_, given=labels: given)
        # The negative control: points with means in their holes.
        filled = np.nan_to_num(standardised(X))
        clusters = KMeans(8, n_init=1, random_state=0).fit_predict(filled)
        found = [score("kmeans"), score(lambda *_, given=clusters: given)]
        behind.append(np.array(found) < best - 0.01)
    own, control = np.sum(behind, axis=0)
    assert own <= 2 and control >= 2 * own + 2
