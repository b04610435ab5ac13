"""The number of components found by splits and merges."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from sktem import StochasticEMGaussianMixture, StochasticEMMixture
from sktem.emissions import Categorical, Columns, Gaussian, Poisson
from sktem.exceptions import FitWarning


def blobs(K, seed, n=400):
    """Return clusters on a grid with distances of eight standard deviations."""
    rng = np.random.default_rng(seed)
    places = 8.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1]])[:K]
    return places[rng.integers(K, size=n)] + rng.normal(size=(n, 2))


@pytest.mark.parametrize("K", [1, 2, 4])
@pytest.mark.parametrize("criterion", ["auto", "icl"])
def test_separated_clusters_are_counted(K, criterion):
    for seed in range(3):
        X = blobs(K, seed)
        mixture = StochasticEMGaussianMixture(criterion, random_state=seed).fit(X)
        assert mixture.n_components_ == K == len(mixture.weights_)
        name = "bic" if criterion == "auto" else "icl"
        lowest = min(mixture.component_search_, key=lambda step: step.criterion)
        assert lowest.n_components == K
        assert getattr(mixture, name)(X) == pytest.approx(lowest.criterion)
        again = StochasticEMGaussianMixture(criterion, random_state=seed).fit(X)
        assert_array_equal(again.means_, mixture.means_)


def test_no_grid_of_starts_finds_a_lower_criterion():
    X = np.random.default_rng(0).uniform(size=(500, 2))
    found = StochasticEMGaussianMixture("bic", random_state=0).fit(X)
    grid = [
        StochasticEMGaussianMixture(K, random_state=0, n_init=3).fit(X).bic(X)
        for K in range(1, 5)
    ]
    assert found.bic(X) < min(grid) + 1.0


def test_tables_with_holes_and_weights():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=600)
    table = pd.DataFrame(
        {
            "size": rng.normal(6.0 * z, 1.0),
            "count": rng.poisson(np.array([1.0, 30.0, 1.0])[z]).astype(float),
            "kind": np.where(rng.random(600) < 0.1 + 0.4 * z, "a", "b"),
        }
    )
    table = table.mask(rng.random(table.shape) < 0.1)
    weights = rng.integers(1, 3, size=600)
    emission = Columns(
        [("g", Gaussian(), [0]), ("c", Poisson(), [1]), ("k", Categorical(), [2])]
    )
    mixture = StochasticEMMixture("auto", emission=emission, random_state=0)
    mixture.fit(table, sample_weight=weights)
    assert mixture.n_components_ == 3
    labels = mixture.predict(table)
    assert all(np.mean(z[labels == k] == z[labels == k][0]) > 0.7 for k in range(3))


def test_spikes_on_equal_values_are_refused():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.poisson(1.0, size=500)])
    mixture = StochasticEMMixture("auto", random_state=0).fit(X)
    assert mixture.params_.covariances[:, 1, 1].min() > 1e-3
    with pytest.warns(FitWarning, match="no variance but reg_covar=1e-06"):
        StochasticEMMixture(6, random_state=0).fit(X)


def test_few_rows_have_few_components():
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(12, 3))
        assert StochasticEMGaussianMixture("auto").fit(X).n_components_ == 1
    copies = np.repeat([[0.0], [1.0]], 30, axis=0)
    with pytest.warns(FitWarning, match="mixtures of 2 components were refused"):
        mixture = StochasticEMGaussianMixture("auto", random_state=0).fit(copies)
    assert mixture.n_components_ == 1


def test_what_comes_after_the_search(capsys):
    X = blobs(3, seed=0)
    mixture = StochasticEMGaussianMixture("auto", random_state=0, verbose=1).fit(X)
    assert "split: 3 components" in capsys.readouterr().out
    mixture.set_params(verbose=0)
    before = mixture.n_samples_seen_
    mixture.partial_fit(blobs(3, seed=1))
    assert mixture.n_samples_seen_ == before + 400 and len(mixture.means_) == 3
    mixture.set_params(warm_start=True).fit(X)
    assert mixture.n_components_ == 3
    assert mixture.marginal([0]).means_.shape == (3, 1)


def test_what_does_not_go_together():
    X = blobs(2, seed=0)
    with pytest.raises(ValueError, match="needs rows that can be read again"):
        StochasticEMGaussianMixture("auto").partial_fit(X)
    with pytest.raises(ValueError, match="an integer >= 1 or one of"):
        StochasticEMGaussianMixture("best").fit(X)
    with pytest.raises(ValueError, match="means_init is for a number"):
        StochasticEMGaussianMixture("auto", means_init=X[:2]).fit(X)
    with pytest.raises(ValueError, match="init_params is for a number"):
        StochasticEMMixture("auto", init_params="random").fit(X)
