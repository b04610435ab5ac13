"""What a stream says of itself after some hundred batches."""

import warnings

import numpy as np

from sktem import LatentBoltzmannMachine
from sktem.exceptions import FitWarning

CENTRES = np.random.default_rng(3).normal(0, 2, (4, 6))


def clusters(n, rng):
    return CENTRES[rng.integers(4, size=n)] + rng.normal(0, 0.3, (n, 6))


def coins(n, rng):
    """Two columns of three are often equal."""
    X = rng.random((n, 3)) < 0.5
    X[:, 1] ^= (X[:, 0] ^ X[:, 1]) & (rng.random(n) < 0.6)
    return X.astype(float)


def streamed(rows, begins_by_fit=False, n_chunks=3, **options):
    rng = np.random.default_rng(0)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=4, random_state=0, n_gibbs_m=1, **options
    )
    if begins_by_fit:
        machine.fit(rows(500, rng))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(n_chunks):
            machine.partial_fit(rows(20_000, rng))
    return machine, [str(one.message) for one in caught if one.category is FitWarning]


def test_real_numbers_without_a_fit_are_told():
    machine, said = streamed(clusters)
    assert len(said) == 1 and "Begin by fit to the first rows" in said[0]
    rng = np.random.default_rng(1)
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=4, random_state=0)
    new = clusters(1000, rng)
    # It is so: 60,000 rows of a stream are worth less than 1,000 of a fit.
    assert machine.score(new) < fitted.fit(clusters(1000, rng)).score(new) - 1.0


def test_chains_that_stay_in_a_mode_are_told():
    machine, said = streamed(clusters, begins_by_fit=True)
    assert len(said) == 1 and "stay in one of several modes" in said[0]
    assert machine.n_replicas_ == 5


def test_others_are_not():
    """Chains that mix, and short streams."""
    assert not streamed(coins)[1]
    assert not streamed(clusters, n_chunks=1)[1]
