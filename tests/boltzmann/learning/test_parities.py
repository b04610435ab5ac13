"""What three columns gain by their parity, against tables of all their states."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.learning.parities import ParityLimits, gain_of_parities

NO_CHANCE = ParityLimits(sure=-np.log(4))  # four columns have four triples


def triples(n, n_triples, seed=0, noise=0.0):
    """Rows of coins, each third one of which is 1 where the two before differ."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, (n, n_triples, 2))
    third = coins.sum(axis=2) % 2 ^ (rng.random((n, n_triples)) < noise)
    return np.dstack([coins, third]).reshape(n, -1).astype(float)


def test_gains_are_those_of_the_tilted_distribution():
    rng = np.random.default_rng(1)
    X = np.column_stack([triples(300, 1, noise=0.1), rng.random(300) < 0.2]) * 1.0
    shares = rng.random(300)
    shares /= shares.sum()
    means = shares @ X
    logs = X @ np.log(means) + (1 - X) @ np.log1p(-means)
    states = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    of_states = np.where(states == 1, means[:3], 1 - means[:3]).prod(axis=1)
    odd = X[:, :3].sum(axis=1) % 2 == 1
    share, alone = shares[odd].sum(), of_states[states.sum(axis=1) % 2 == 1].sum()
    tilted = logs + np.where(
        odd, np.log(share / alone), np.log((1 - share) / (1 - alone))
    )
    found = gain_of_parities(X, shares, NO_CHANCE)
    assert found.columns == (0, 1, 2)
    assert_allclose(found.odd, share, rtol=1e-5)
    assert_allclose(found.gain, shares @ (tilted - logs), rtol=1e-5)
    # Less what the best of four triples gains by chance.
    chance = 7 * (shares @ shares) + np.log(4) * (shares @ shares)
    assert_allclose(gain_of_parities(X, shares).gain, found.gain - chance, rtol=1e-5)


def test_triples_without_common_columns_add_up():
    one, two = (gain_of_parities(triples(500, k)).gain for k in (1, 2))
    assert 1.9 * one < two < 2 * one  # there are more triples to choose from


@pytest.mark.parametrize("seed", range(5))
def test_independent_columns_gain_nothing(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n, d = rng.integers(20, 500), rng.integers(2, 20)
        X = (rng.random((n, d)) < rng.beta(0.5, 0.5, d)) * 1.0
        assert gain_of_parities(X) == gain_of_parities(X[:, :2])


def test_columns_that_were_not_found_to_depend_are_told():
    """And a smaller prior, as the message advises, finds them."""

    def fit(**options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = LatentBoltzmannMachine(random_state=0, **options).fit(X)
        told = [
            str(w.message) for w in caught if "depend on each other" in str(w.message)
        ]
        return fitted.score(triples(1000, 2, seed=1)), told

    X = triples(60, 2)
    score, told = fit()
    alone = -6 * np.log(2)
    assert score < alone + 0.05
    assert len(told) == 1 and "weight_decay (such as 0.0008)" in told[0]
    score, told = fit(weight_decay=0.0008)
    assert score > alone + 0.5 and not told
