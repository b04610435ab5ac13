"""Draws of fitted mixtures by any seed, and answers after a search of components."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktem import (
    HiddenMarkovModel,
    MixtureImputer,
    StochasticEMGaussianMixture,
    StochasticEMMixture,
)
from sktem.emissions import Regression

ROWS = np.random.default_rng(0).normal(size=(200, 2))
HOLES = np.where(np.arange(400).reshape(200, 2) % 5 == 0, np.nan, ROWS)
TWO_CLUSTERS = ROWS + 8 * np.repeat([[0.0], [1.0]], 100, axis=0)
SEEDS = [
    lambda: 0,
    lambda: np.int64(0),
    lambda: np.random.RandomState(0),
    lambda: np.random.default_rng(0),
]


def sample(mixture):
    return mixture.fit(ROWS).sample(5)[0]


def completed(mixture):
    return mixture.fit(HOLES).impute(HOLES, "draw")


def gaussian(seed):
    return StochasticEMGaussianMixture(2, random_state=seed, tol=1e-3)


def emissions(seed):
    return StochasticEMMixture(2, random_state=seed, tol=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("new", [gaussian, emissions])
@pytest.mark.parametrize("draw", [sample, completed])
def test_a_seed_of_any_kind_gives_its_draws(new, draw, seed):
    assert_array_equal(draw(new(seed())), draw(new(seed())))


@pytest.mark.parametrize("new", [gaussian, emissions])
def test_a_generator_goes_on(new):
    mixture = new(np.random.default_rng(0)).fit(ROWS)
    assert not np.array_equal(mixture.sample(5)[0], mixture.sample(5)[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_of_an_imputer(seed):
    one, other = (
        MixtureImputer(1, n_draws=2, random_state=seed()).fit(HOLES).draws(HOLES)
        for _ in range(2)
    )
    assert_array_equal(one, other)
    assert not np.array_equal(one[0], one[1])


def test_a_file_has_the_components_of_its_rows(tmp_path):
    np.save(tmp_path / "rows.npy", TWO_CLUSTERS)
    mixture = StochasticEMGaussianMixture("bic", random_state=0)
    assert mixture.fit(str(tmp_path / "rows.npy")).n_components_ == 2
    assert mixture.to_sklearn().n_components == 2


@pytest.mark.parametrize("new", [gaussian, emissions])
def test_responsibilities_are_not_negative(new):
    mixture = new(0).set_params(
        init_params=lambda X, K, random_state: np.tile([1.5, -0.5], (len(X), 1))
    )
    with pytest.raises(ValueError, match="non-negative responsibilities"):
        mixture.fit(ROWS)


@pytest.mark.parametrize("n_draws", [0, 2])
def test_forecasts_have_the_columns_of_the_data(n_draws):
    hmm = HiddenMarkovModel(2, emission=Regression(order=1), random_state=0, tol=1e-3)
    forecast = hmm.fit(ROWS).forecast(ROWS, 3, n_draws=n_draws)
    assert forecast.draws.shape == (n_draws, 1, 3, 2)
