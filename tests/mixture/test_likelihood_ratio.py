"""Bootstrap test of the number of components."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sktem import StochasticEMGaussianMixture, StochasticEMMixture


def test_one_cluster_is_seldom_taken_for_two():
    small = []
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(60, 1))
        options = {"covariance_type": "tied", "random_state": seed}
        mixture = StochasticEMGaussianMixture(2, **options).fit(X)
        found = mixture.likelihood_ratio_test(X, n_bootstrap=9)
        assert found.n_components == 1 and (found.bootstrap >= 0).all()
        above = (found.bootstrap >= found.statistic).sum()
        assert found.p_value == pytest.approx((1 + above) / 10)
        small.append(found.p_value <= 0.1)
    assert sum(small) <= 2  # in the mean a half


def test_statistic_is_twice_the_gain():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1)) + 6 * rng.integers(2, size=(80, 1))
    one, two = (StochasticEMGaussianMixture(K, random_state=0).fit(X) for K in (1, 2))
    found = two.likelihood_ratio_test(X, n_bootstrap=9)
    gain = 2 * len(X) * (two.score(X) - one.score(X))
    assert_allclose(found.statistic, gain, rtol=1e-3)
    assert found.p_value == 0.1
    again = two.likelihood_ratio_test(X, n_bootstrap=9)
    assert_allclose(again.bootstrap, found.bootstrap)


def test_latent_classes_with_holes():
    rng = np.random.default_rng(1)
    z = rng.integers(2, size=(150, 1))
    table = pd.DataFrame(np.where(rng.random((150, 4)) < 0.15 + 0.7 * z, "yes", "no"))
    table = table.mask(rng.random(table.shape) < 0.1).rename(columns=str)
    mixture = StochasticEMMixture(2, random_state=0).fit(table)
    assert mixture.likelihood_ratio_test(table, n_bootstrap=9).p_value == 0.1
    three = StochasticEMMixture(3, random_state=0).fit(table)
    assert three.likelihood_ratio_test(table, n_bootstrap=9).p_value > 0.1
    with pytest.raises(ValueError, match="one component"):
        one = StochasticEMMixture(1, random_state=0).fit(table)
        one.likelihood_ratio_test(table)
