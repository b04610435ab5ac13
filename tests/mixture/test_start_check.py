"""Fits whose start has led to less than another would have."""

import time
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from sktem import StochasticEMGaussianMixture, StochasticEMMixture
from sktem.exceptions import FitWarning


def two_clusters(seed, n_features=2, n=800):
    rng = np.random.default_rng(seed)
    far = 4.0 / np.sqrt(n_features)
    return rng.normal(size=(n, n_features)) + far * rng.choice([-1, 1], (n, 1))


def fitted(X, n_components=2, **options):
    """Return a fit, and whether it says that another start leads to more."""
    options = {"random_state": 0, **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = StochasticEMGaussianMixture(n_components, **options).fit(X)
    hits = [w for w in caught if "short run from init_params" in str(w.message)]
    assert all(w.category is FitWarning and w.filename == __file__ for w in hits)
    return fit, bool(hits)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
@pytest.mark.parametrize("with_precisions", [False, True])
def test_means_that_start_together_part_or_are_told(covariance_type, with_precisions):
    n_told = 0
    for seed in range(6):
        X = two_clusters(seed, 2 + 3 * (seed % 2))
        direction = np.random.default_rng(seed).normal(size=X.shape[1])
        given = {"means_init": X.mean(axis=0) + 0.05 * np.outer([-1, 1], direction)}
        if with_precisions:
            precision = np.linalg.inv(np.cov(X.T))
            given["precisions_init"] = {
                "full": np.stack([precision] * 2),
                "tied": precision,
                "diag": np.stack([1 / X.var(axis=0)] * 2),
            }[covariance_type]
        options = {"covariance_type": covariance_type, **given}
        fit, is_told = fitted(X, **options)
        free, _ = fitted(X, covariance_type=covariance_type)
        assert is_told == (free.score(X) - fit.score(X) > 0.05)
        n_told += is_told
    # Covariances of all rows hide the clusters; those by column do not.
    assert n_told <= 2 * (covariance_type != "diag")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("start", ["means", "rows", "random", "clusters"])
def test_starts_that_do_no_harm_are_not_told(seed, start):
    X = two_clusters(seed, 1 + seed % 4, [60, 300, 3000][seed % 3])
    rng = np.random.default_rng(seed)
    given = {
        "means": {"means_init": X[[X[:, 0].argmin(), X[:, 0].argmax()]]},
        "rows": {"means_init": X[rng.choice(len(X), 2, replace=False)]},
        "random": {"init_params": "random", "n_init": 5},
        "clusters": {},
    }[start]
    fit, is_told = fitted(X, **given)
    free, _ = fitted(X, n_init=5)
    assert not is_told or free.score(X) - fit.score(X) > 0.05


def crossed(seed):
    """Return a function that draws rows of three long clusters that cross."""
    rng = np.random.default_rng(seed)
    turns = np.linalg.qr(rng.normal(size=(3, 2, 2)))[0]
    means = rng.normal(size=(3, 2))

    def draw(n):
        z = rng.integers(3, size=n)
        noise = rng.normal(size=(n, 2, 1))
        return (turns[z] * [4.0, 0.3] @ noise)[..., 0] + means[z]

    return draw


@pytest.mark.parametrize("n", [300, 8000])
def test_a_fit_goes_on_from_a_better_start(n):
    """Clusters led to less than rows at random, which a number as tol does not ask."""
    gains, of_others = [], []
    for seed in range(20):
        draw = crossed(seed)
        X, others = draw(n), draw(4000)
        fit, is_told = fitted(X, 3)
        alone, _ = fitted(X, 3, tol=1e-6, max_iter=1000)
        assert fit.converged_ and not is_told
        assert fit.lower_bound_ == pytest.approx(fit.score(X), abs=1e-4)
        gains.append(fit.score(X) - alone.score(X))
        if gains[-1] > 1e-3:
            of_others.append(fit.score(others) - alone.score(others))
    assert min(gains) > -1e-4
    assert len(of_others) >= 3
    assert np.mean(of_others) > 0.1


def test_a_gain_of_few_rows_is_left_alone():
    """Of noise the highest maximum is one of chance."""
    n_taken = 0
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(60, 2))
        fit, _ = fitted(X, 3)
        alone, _ = fitted(X, 3, tol=1e-6, max_iter=1000)
        n_taken += fit.score(X) > alone.score(X) + 1e-3
    assert n_taken <= 4


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_clusters_that_are_apart_are_not_told(seed, covariance_type):
    K = 2 + seed % 4
    X, _ = make_blobs(100 + 200 * seed, 1 + seed % 5, centers=K, random_state=seed)
    fit, is_told = fitted(X, K, covariance_type=covariance_type)
    options = {"init_params": "random_from_data", "n_init": 10}
    best, _ = fitted(X, K, covariance_type=covariance_type, **options)
    assert not is_told or best.score(X) - fit.score(X) > 0.01


def test_rows_with_weights_and_holes():
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [20.0, 6.0]])
    X, _ = make_blobs(600, centers=centres, random_state=0)
    # Two share a cluster, and one has two: a maximum, from which no pass leads.
    means = np.array([[-0.5, 0.0], [0.5, 0.0], [20.0, 3.0]])
    mixture = StochasticEMGaussianMixture(3, means_init=means, random_state=0)
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    with pytest.warns(FitWarning, match="short run from init_params"):
        mixture.fit(X, sample_weight=weights)
    X[::7, 0] = np.nan
    with pytest.warns(FitWarning, match="short run from init_params"):
        mixture.fit(X)


def test_random_starts_of_other_emissions():
    rng = np.random.default_rng(0)
    X = rng.poisson(np.repeat([[1.0, 30.0], [30.0, 1.0]], 300, axis=0))
    assert StochasticEMMixture(2, emission="poisson", init_params="random").fit(X)


def test_the_check_takes_a_bounded_time():
    X = two_clusters(0, 2, 400_000)
    seconds = []
    for given in ({"means_init": X[[0, 1]]}, {}):
        begun = time.process_time()
        fitted(X, **given)
        seconds.append(time.process_time() - begun)
    assert seconds[0] < 3 * seconds[1] + 1
