"""What a stream says of itself after some hundred batches."""

import warnings

import numpy as np

from sktem import LatentBoltzmannMachine
from sktem.boltzmann.stream import BoltzmannStream, StreamPace
from sktem.exceptions import FitWarning

CENTRES = np.random.default_rng(3).normal(0, 2, (4, 6))


def clusters(n, rng):
    return CENTRES[rng.integers(4, size=n)] + rng.normal(0, 0.3, (n, 6))


def coins(n, rng):
    """Two columns of three are often equal."""
    X = rng.random((n, 3)) < 0.5
    X[:, 1] ^= (X[:, 0] ^ X[:, 1]) & (rng.random(n) < 0.6)
    return X.astype(float)


def streamed(rows, begins_by_fit=False, n_chunks=3, size=8_000, n_hidden=20):
    """Return a machine after a stream, of 20 units that are too many to sum over."""
    rng = np.random.default_rng(0)
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=n_hidden, random_state=0, n_gibbs_m=1
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if begins_by_fit:
            machine.fit(rows(500, rng))
        caught.clear()  # of the fit, whose end depends on the last bits of a processor
        for _ in range(n_chunks):
            machine.partial_fit(rows(size, rng))
    return machine, [str(one.message) for one in caught if one.category is FitWarning]


def test_real_numbers_without_a_fit_are_told():
    machine, said = streamed(clusters)
    assert len(said) == 1 and "Begin by fit to the first rows" in said[0]
    rng = np.random.default_rng(1)
    fitted = LatentBoltzmannMachine(hidden_layer_sizes=4, random_state=0)
    new = clusters(1000, rng)
    best = fitted.fit(clusters(1000, rng)).score(new)
    # It is so: 24,000 rows of a stream are worth less than 1,000 of a fit (by .4 or
    # 1.2, as the chains go on this or that processor).
    assert machine.score(new) < best - 0.2
    # Where the states of the machine can be summed, nothing is said.
    machine, said = streamed(clusters, n_hidden=4)
    assert not said and machine.score(new) > best - 0.5


def test_chains_that_stay_in_a_mode_are_told():
    machine, said = streamed(clusters, begins_by_fit=True, size=20_000)
    assert len(said) == 1 and "stay in one of several modes" in said[0]
    assert machine.n_replicas_ == 5


def in_parts(n, rng):
    """Rows of four kinds, one after another."""
    return (rng.random((n, 6)) < np.repeat(np.eye(4, 6), n // 4, axis=0)).astype(float)


def test_rows_in_an_order_are_told():
    machine, said = streamed(in_parts, n_chunks=1, n_hidden=4)
    assert len(said) == 1 and "Shuffle the rows" in said[0]
    # It is so, and what it advises helps.
    shuffled = streamed(
        lambda n, rng: rng.permutation(in_parts(n, rng)), n_chunks=1, n_hidden=4
    )
    assert not shuffled[1]
    new = in_parts(2000, np.random.default_rng(1))
    assert machine.score(new) < shuffled[0].score(new) - 1.0


def test_others_are_not():
    """Chains that mix, short streams, and columns that are nearly equal or rare."""
    assert not streamed(coins)[1]
    assert not streamed(clusters, n_chunks=1, size=300)[1]
    rng = np.random.default_rng(2)
    for _ in range(3):
        common = rng.random((3000, 1)) < 0.5
        same = (common ^ (rng.random((3000, 20)) < 0.01)).astype(float)
        assert not streamed(lambda *_, rows=same: rows, n_chunks=1, n_hidden=2)[1]
        rare = (rng.random((3000, 30)) < 0.005).astype(float)
        assert not streamed(lambda *_, rows=rare: rows, n_chunks=1, n_hidden=2)[1]


def test_a_few_hundred_rows_are_not_lost(monkeypatch):
    rng = np.random.default_rng(0)
    machine = LatentBoltzmannMachine(hidden_layer_sizes=4, random_state=0)
    new = coins(3000, rng)
    p = new.mean(axis=0)
    alone = (new * np.log(p) + (1 - new) * np.log1p(-p)).sum(axis=1).mean()
    rows = coins(400, rng)
    gain = machine.partial_fit(rows).score(new) - alone
    whole = LatentBoltzmannMachine(hidden_layer_sizes=4, random_state=0).fit(rows)
    assert gain > 0.7 * (whole.score(new) - alone) > 0.1
    # The negative control: one update by each batch.
    monkeypatch.setattr(BoltzmannStream, "pace", StreamPace(visits=1))
    machine = LatentBoltzmannMachine(hidden_layer_sizes=4, random_state=0)
    assert machine.partial_fit(rows).score(new) - alone < 0.3 * gain
