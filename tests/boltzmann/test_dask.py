"""Machines learn from Dask collections where the rows are, as from the array."""

import pickle

import numpy as np
import pytest

from sktem import LatentBoltzmannMachine
from sktem.boltzmann import partitioned_batches, positive_phase
from sktem.e_step import batches
from sktem.graphs import grid_graph
from sktem.rows import tasks

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::sktem.exceptions.FitWarning",
)

N, D = 300, 6
rng = np.random.default_rng(0)
BITS = (rng.random((N, D)) < rng.choice([0.2, 0.8], size=(N, 1))).astype(float)
MISSING = np.where(rng.random(BITS.shape) < 0.05, np.nan, BITS)
VALUES = rng.normal(size=(N, D)) + rng.choice([-2.0, 2.0], size=(N, 1))
CHUNKS = ((N,), (100,) * 3, (1, 0, 298, 1), (150, 0, 150), (30,) * 10)
GRAPH = {"graph": grid_graph(3, 3), "hidden": [1, 4, 7], "hidden_layer_sizes": None}
#: Settings and rows.
KINDS = {
    "graph, exact": (GRAPH, BITS),
    "graph, Gibbs": ({**GRAPH, "e_step": "gibbs", "n_chains_e": 2}, BITS),
    "graph, missing": (GRAPH, MISSING),
    "graph, drawn": ({**GRAPH, "binarize": "sample", "solver": "pcd"}, BITS / 2),
    "graph, cd": ({**GRAPH, "solver": "cd"}, BITS),
    "restricted": ({}, BITS),
    "restricted, cd": ({"solver": "cd"}, BITS),
    "deep, Gibbs": ({"hidden_layer_sizes": (3, 2), "e_step": "gibbs"}, BITS),
    "deep, hybrid": ({"hidden_layer_sizes": (3, 2), "solver": "hapcd"}, BITS),
    "missing": ({}, MISSING),
    "gaussian": ({"visible": "gaussian"}, VALUES),
    "spins": ({"visible": "spin"}, 2 * BITS - 1),
}


@pytest.fixture(autouse=True)
def _many_values(monkeypatch):
    monkeypatch.setattr("sktem.boltzmann.rows.MOST_VALUES", 0)


def dask_array(chunks, rows):
    return da.from_array(rows, chunks=(chunks, -1))


def fitted(X, sample_weight=None, **options):
    options = {
        "hidden_layer_sizes": (3,), "max_iter": 3, "batch_size": 60, "n_chains": 20,
        "step_size_m": 0.5, "random_state": 0, "tol": None, "n_gibbs_e": 1, **options,
    }  # fmt: skip
    return LatentBoltzmannMachine(**options).fit(X, sample_weight=sample_weight)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.params_, expected.params_)
    np.testing.assert_array_equal(found.chains_, expected.chains_)


@pytest.mark.parametrize("size", [2048, 25])
@pytest.mark.parametrize("kind", KINDS)
def test_fit_is_that_to_the_array(kind, size, monkeypatch):
    """To the bit, also of batches that are worked on in parts."""
    monkeypatch.setattr(positive_phase, "ROWS_PER_PART", size)
    options, X = KINDS[kind]
    whole = fitted(X, **options)
    for chunks in CHUNKS:
        assert_same(fitted(dask_array(chunks, X), **options), whole)
    # The negative controls: other rows in one of the places, and a lost partition.
    other = X.copy()
    other[150] = other[0]
    assert np.abs(fitted(other, **options).params_ - whole.params_).max() > 1e-4
    chosen = partitioned_batches._chosen

    def losing(load, first, *arguments):
        values, chains = chosen(load, first, *arguments)
        return values * (first != 100), chains

    monkeypatch.setattr(partitioned_batches, "_chosen", losing)
    less = fitted(dask_array(CHUNKS[1], X), **options)
    assert np.abs(less.params_ - whole.params_).max() > 1e-4


@pytest.mark.parametrize("most", [7, 256])
def test_many_parts(most, monkeypatch):
    """Sums of more parts than a task takes are sums of sums, in the same order."""
    monkeypatch.setattr(positive_phase, "ROWS_PER_PART", 2)
    monkeypatch.setattr(positive_phase, "MOST_PARTS", most)
    options, X = KINDS["graph, cd"]
    whole = fitted(X, **options)
    for chunks in CHUNKS[1:3]:
        assert_same(fitted(dask_array(chunks, X), **options), whole)
    parts = positive_phase.parts_of(np.arange(60)[::-1], np.random.default_rng(0))
    assert len(parts) == min(most, 30)
    np.testing.assert_array_equal(np.concatenate([p for p, _ in parts]), np.arange(60))


@pytest.mark.parametrize("size", [2048, 25])
def test_weights_and_the_likelihood(size, monkeypatch):
    monkeypatch.setattr(positive_phase, "ROWS_PER_PART", size)
    # Heavy rows are often twice in a batch, and now and then in two parts of it.
    weights = np.where(np.arange(N) % 6, 1.0, 20.0)
    options = {**GRAPH, "tol": 0.02, "e_step": "gibbs", "sample_weight": weights}
    options["max_iter"] = 9
    whole = fitted(BITS, **options)
    found = fitted(dask_array(CHUNKS[2], BITS), **options)
    assert_same(found, whole)
    np.testing.assert_array_equal(found.history_.objective, whole.history_.objective)


@pytest.mark.parametrize("kind", ["graph, Gibbs", "graph, missing", "deep, Gibbs"])
def test_chains_of_rows_go_on(kind, monkeypatch):
    """The negative control of what is remembered: chains that come from nowhere."""
    options, X = KINDS[kind]
    chosen = partitioned_batches._chosen

    def forgetting(load, first, *arguments):
        values, chains = chosen(load, first, *arguments)
        return values, None if chains is None else np.zeros_like(chains)

    monkeypatch.setattr(partitioned_batches, "_chosen", forgetting)
    other = fitted(dask_array(CHUNKS[1], X), **options)
    assert np.abs(other.params_ - fitted(X, **options).params_).max() > 1e-4


def test_rows_stay_where_they_are(monkeypatch):
    """No task gives the client more than samples and sums."""
    sizes = []
    real = tasks.Graph.run

    def run(graph, wanted, keep=()):
        found = real(graph, wanted, keep)
        sizes.append(max((len(pickle.dumps(value)) for value in found[0]), default=0))
        return found

    monkeypatch.setattr(tasks.Graph, "run", run)
    X = np.tile(BITS, (20, 1))
    options = {"batch_size": 1500, "e_step": "gibbs", "tol": 0.02}
    machine = fitted(dask_array((1500,) * 4, X), **options)
    assert len(sizes) > 12
    # Of 288,000 bytes: a thousand rows by which the likelihood is measured, and sums.
    assert max(sizes) < 1000 * D * 4 + 1000
    assert machine.n_iter_ == 3
    # What stays with the partitions is not part of the estimator.
    assert len(pickle.dumps(machine)) < 30_000
    machine.set_params(warm_start=True, max_iter=1).fit(dask_array((6000,), X))
    assert machine.n_iter_ == 4
    machine.partial_fit(X[:100])


def test_shares_of_partitions(monkeypatch):
    """Of very many rows no order is held: each pass has each row in one batch."""
    monkeypatch.setattr(batches, "MOST_SHUFFLED", 100)
    seen = []
    real = partitioned_batches._chosen

    def chosen(load, first, piece, length, kept):
        seen.append(first + piece.positions(first, length))
        return real(load, first, piece, length, kept)

    monkeypatch.setattr(partitioned_batches, "_chosen", chosen)
    options = {**GRAPH, "e_step": "gibbs", "step_size_m": 0.05}
    with dask.config.set(scheduler="sync"):
        found = fitted(dask_array(CHUNKS[1], BITS), **options)
    rows = [np.concatenate(seen[k : k + 15]) for k in (0, 15, 30)]
    for visited in rows:
        np.testing.assert_array_equal(np.sort(visited), np.arange(N))
    assert len(seen) == 45 and (rows[0] != rows[1]).any()
    whole = fitted(BITS, **options)
    far = np.abs(found.params_ - whole.params_).max()
    assert 0 < far < 0.2


def test_values_that_are_refused():
    X = MISSING.copy()
    X[200, 3] = np.inf
    with pytest.raises(ValueError, match=r"infinity: in row 200, .*\(partition 2\)"):
        fitted(dask_array(CHUNKS[1], X))
    with pytest.raises(ValueError, match=r"X must be in \[0, 1\]"):
        fitted(dask_array(CHUNKS[1], VALUES))
    with pytest.raises(ValueError, match="pretrain needs X in memory"):
        fitted(dask_array(CHUNKS[1], BITS), hidden_layer_sizes=(3, 2), pretrain=1)
