"""Machines learn from Dask collections where the rows are, as from the array."""

import pickle

import numpy as np
import pytest

from sktem import LatentBoltzmannMachine
from sktem.boltzmann import positive_phase
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
        "step_size_m": 0.05, "random_state": 0, "tol": None, **options,
    }  # fmt: skip
    return LatentBoltzmannMachine(**options).fit(X, sample_weight=sample_weight)


@pytest.mark.parametrize("kind", KINDS)
def test_fit_is_that_to_the_array(kind):
    """In one partition to the bit; in several, sums of float32 are rounded by it."""
    options, X = KINDS[kind]
    whole = fitted(X, **options)
    for chunks in CHUNKS if kind == "graph, Gibbs" else CHUNKS[:3:2]:
        found = fitted(dask_array(chunks, X), **options)
        np.testing.assert_allclose(found.params_, whole.params_, rtol=0, atol=1e-6)
        if len(chunks) == 1:
            np.testing.assert_array_equal(found.params_, whole.params_)
            np.testing.assert_array_equal(found.chains_, whole.chains_)
    # The negative control: other rows in one of the places.
    other = X.copy()
    other[150] = other[0]
    assert np.abs(fitted(other, **options).params_ - whole.params_).max() > 1e-4


def test_weights_and_the_likelihood():
    weights = rng.integers(1, 4, size=N).astype(float)
    options = {"tol": 0.02, "e_step": "gibbs", "sample_weight": weights}
    whole = fitted(BITS, **options)
    found = fitted(dask_array(CHUNKS[2], BITS), **options)
    np.testing.assert_allclose(found.params_, whole.params_, rtol=0, atol=1e-6)
    objective = whole.history_.objective
    np.testing.assert_allclose(found.history_.objective, objective, atol=1e-5)


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
    real = positive_phase._expected_part

    def expected_part(load, first, kept, rows, places, length, *arguments):
        seen.append((first + rows.of(first, length), places))
        return real(load, first, kept, rows, places, length, *arguments)

    monkeypatch.setattr(positive_phase, "_expected_part", expected_part)
    with dask.config.set(scheduler="sync"):
        found = fitted(dask_array(CHUNKS[1], BITS), **GRAPH, e_step="gibbs")
    rows = [np.concatenate([rows for rows, _ in seen[k : k + 15]]) for k in (0, 15, 30)]
    for visited in rows:
        np.testing.assert_array_equal(np.sort(visited), np.arange(N))
    assert len(seen) == 45 and (rows[0] != rows[1]).any()
    for k in range(0, 45, 3):
        places = np.concatenate([places for _, places in seen[k : k + 3]])
        np.testing.assert_array_equal(places, np.arange(60))
    whole = fitted(BITS, **GRAPH, e_step="gibbs")
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
