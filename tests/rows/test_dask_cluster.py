"""Fits on a cluster of processes: equal to the array, also when workers are lost."""

import gc
import os
import pickle
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sktem import (
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.boltzmann import positive_phase
from sktem.e_step import snapshots
from sktem.graphs import grid_graph
from sktem.models import RandomInterceptModel
from sktem.rows import tasks
from sktem.samplers import MALA
from tests.mixed_effects.fits import bolus_rows

dask = pytest.importorskip("dask")
# Workers are forked off a process that has imported what they need.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings(
    "ignore::sktem.exceptions.FitWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)

N = 1200
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2)) + rng.choice([-4, 0, 4], size=(N, 1))
CHUNKS = ((N,), (400,) * 3, (1, 0, 1198, 1), (600, 0, 600), (120,) * 10)


@pytest.fixture(scope="module")
def client():
    distributed.utils.get_mp_context().set_forkserver_preload(
        [
            "distributed",
            "pandas",
            "sktem.boltzmann.estimator",
            "sktem.mixed_effects.estimator",
            "sktem.mixture.estimator",
            "sktem.regression.robust_poisson",
        ]
    )
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def two_workers(client):
    scale(client, 2)
    return client


def scale(client, n_workers):
    client.cluster.scale(n_workers)
    while len(client.nthreads()) != n_workers:
        time.sleep(0.05)


def dask_array(chunks, rows=X):
    return da.from_array(rows, chunks=(chunks, -1))


def mixture(**settings):
    settings = {"max_iter": 2, "tol": 0, "random_state": 0} | settings
    return StochasticEMGaussianMixture(3, **settings)


def assert_same(one, other):
    for name in ("weights_", "means_", "covariances_", "lower_bounds_"):
        found, expected = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_workers_and_chunks(client, n_workers):
    scale(client, n_workers)
    expected = mixture().fit(X)
    for chunks in CHUNKS if n_workers == 2 else CHUNKS[2::2]:
        found = mixture().fit(dask_array(chunks))
        assert_same(found, expected)
        assert found.history_.events["lost workers"] == 0
    answers = found.predict(dask_array(CHUNKS[1]))
    np.testing.assert_array_equal(answers.compute(), expected.predict(X))
    pickle.loads(pickle.dumps(found)).partial_fit(X)


def counted(block, folder, fatal, waiting):
    """Return a block, and count the calls; some of them kill their process."""
    number = 0
    while True:
        try:
            os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            number += 1
    if number in fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    while number in waiting and not Path(f"{folder}/ready").exists():
        time.sleep(0.05)
    return block


def fragile(folder, fatal=(), waiting=(), rows=X):
    """Return a Dask array whose blocks are read in each visit."""
    read = partial(counted, folder=str(folder), fatal=fatal, waiting=waiting)
    chunks = dask_array((-(-len(rows) // 3),) * 3, rows)
    return chunks.map_blocks(read, meta=rows[:0])


def number_of_reads(folder):
    return len(list(folder.iterdir()))


@pytest.mark.parametrize("solver", ["em", "isaem"])
def test_two_workers_are_killed(two_workers, tmp_path, monkeypatch, solver):
    """The fit is the same, and says so; what was remembered comes from files."""
    monkeypatch.setattr(snapshots, "VISITS_PER_SNAPSHOT", 3)
    settings = {"solver": solver, "batch_size": 600, "max_iter": 4}
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    quiet.mkdir()
    loud.mkdir()
    expected = mixture(**settings).fit(fragile(quiet))
    n_reads = number_of_reads(quiet)
    addresses = set(two_workers.nthreads())
    found = mixture(**settings).fit(
        fragile(loud, fatal=(n_reads // 2, n_reads * 3 // 4))
    )
    two_workers.wait_for_workers(2)  # they come back at another address
    assert set(two_workers.nthreads()) != addresses
    assert_same(found, expected)
    assert_same(found, mixture(**settings).fit(X))
    # The cluster is looked at between visits: a worker that is killed, comes back and
    # is killed again within one counts once.
    assert found.history_.events["lost workers"] in (1, 2)
    # Each loss costs the visits since the last snapshot, at most.
    most = 2 * 3 * (3 + 2)
    assert n_reads < number_of_reads(loud) <= n_reads + most


def bits(rows, **options):
    options = {
        "hidden_layer_sizes": (3, 2), "e_step": "gibbs", "batch_size": 400,
        "max_iter": 4, "step_size_m": 0.5, "tol": None, "random_state": 0,
        "n_gibbs_e": 1, **options,
    }  # fmt: skip
    return LatentBoltzmannMachine(**options).fit(rows)


def bits_in_parts(rows):
    return bits(rows, batch_size=N, max_iter=8)


def counts(rows):
    y = np.random.default_rng(2).poisson(np.exp(X[:, 0] / 4))
    return RobustPoissonRegressor(max_iter=6, random_state=0).fit(rows, y)


def subjects(rows):
    """Fit curves of subjects, of which each has five rows, one after the other."""
    return NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0}, max_iter=4,
        n_burn_in=2, random_state=0,
    ).fit(rows, 2, 3)  # fmt: skip


BITS = (rng.random((N, 6)) < rng.choice([0.2, 0.8], size=(N, 1))).astype(float)
MISSING = np.where(rng.random(BITS.shape) < 0.05, np.nan, BITS)
CURVES = np.column_stack(bolus_rows(n=24))
#: A fit, its rows, and names of what it has found.
FAMILIES = {
    "machine": (bits, BITS, ["params_", "chains_"]),
    "machine, in parts": (bits_in_parts, BITS, ["params_", "chains_"]),
    "robust Poisson": (counts, X, ["coef_", "sigma_"]),
    "mixed effects": (subjects, CURVES, ["omega_", "statistics_"]),
}


GRAPH = {"graph": grid_graph(3, 3), "hidden": [1, 4, 7], "hidden_layer_sizes": None}
#: Settings of machines, and their rows.
MACHINES = {
    "restricted": ({"hidden_layer_sizes": 3, "e_step": "auto"}, BITS),
    "restricted, cd": ({"hidden_layer_sizes": 3, "solver": "cd"}, BITS),
    "deep": ({}, BITS),
    "deep, in parts": ({"batch_size": N}, BITS),
    "graph": (GRAPH, BITS),
    "graph, missing, in parts": ({**GRAPH, "batch_size": N}, MISSING),
    "gaussian": ({"hidden_layer_sizes": 3, "visible": "gaussian"}, X),
}


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_workers_and_chunks_of_machines(client, n_workers, monkeypatch):
    """The bits are those of the array, also with what is remembered in files."""
    monkeypatch.setattr("sktem.boltzmann.rows.MOST_VALUES", 0)
    monkeypatch.setattr(snapshots, "VISITS_PER_SNAPSHOT", 3)
    monkeypatch.setattr(positive_phase, "ROWS_PER_PART", 500)
    scale(client, n_workers)
    for options, rows in MACHINES.values():
        options = {"max_iter": 4 if options.get("batch_size") == N else 2, **options}
        expected = bits(rows, **options)
        for chunks in CHUNKS if n_workers == 2 else CHUNKS[2::2]:
            found = bits(dask_array(chunks, rows), **options)
            np.testing.assert_array_equal(found.params_, expected.params_)
            np.testing.assert_array_equal(found.chains_, expected.chains_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_worker_of_another_family_is_killed(
    two_workers, tmp_path, monkeypatch, family
):
    monkeypatch.setattr("sktem.boltzmann.rows.MOST_VALUES", 0)
    monkeypatch.setattr(snapshots, "VISITS_PER_SNAPSHOT", 3)
    monkeypatch.setattr(positive_phase, "ROWS_PER_PART", 500)
    fit, rows, names = FAMILIES[family]
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    quiet.mkdir()
    loud.mkdir()
    expected = fit(fragile(quiet, rows=rows))
    found = fit(fragile(loud, fatal=(number_of_reads(quiet) // 2,), rows=rows))
    two_workers.wait_for_workers(2)
    for name in names:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.history_.events["lost workers"] >= 1


def test_a_worker_is_killed_before_it_is_asked_for_reports(two_workers, monkeypatch):
    """What it had is computed again, and nobody waits for it."""
    calls, asked = [], tasks._asked

    def late(client, held, part):
        calls.append(len(held))
        if len(calls) == 5:
            distributed.wait([one.value for one in held])
            pids = client.run(os.getpid)
            holder = next(iter(client.who_has([held[0].value]).values()))[0]
            os.kill(pids[holder], signal.SIGKILL)
        return asked(client, held, part)

    monkeypatch.setattr(tasks, "_asked", late)
    settings = {"solver": "isaem", "batch_size": 600, "max_iter": 4}
    rows = two_workers.persist(dask_array(CHUNKS[1]))
    found = mixture(**settings).fit(rows)
    assert len(calls) > 5
    two_workers.wait_for_workers(2)
    assert_same(found, mixture(**settings).fit(X))
    assert found.history_.events["lost workers"] == 1


def test_worker_that_joins_late(two_workers, tmp_path):
    scale(two_workers, 1)

    def join():
        while number_of_reads(tmp_path) < 12:
            time.sleep(0.05)
        scale(two_workers, 2)
        (tmp_path / "ready").touch()

    thread = threading.Thread(target=join)
    thread.start()
    found = mixture(max_iter=4).fit(fragile(tmp_path, waiting=(12, 13)))
    thread.join()
    assert_same(found, mixture(max_iter=4).fit(X))
    assert found.history_.events["new workers"] >= 1


def number_of_tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


def wait_for_no_tasks(client):
    end = time.monotonic() + 10
    while client.run_on_scheduler(number_of_tasks):
        assert time.monotonic() < end
        time.sleep(0.01)


class Interrupting(StochasticEM):
    def _after_epoch(self, state):
        raise self.model.error


@pytest.mark.parametrize("error", [None, RuntimeError("enough"), KeyboardInterrupt()])
def test_nothing_stays_with_the_workers(two_workers, error):
    """At the end of a fit, before anything collects reference cycles."""
    wait_for_no_tasks(two_workers)
    model = RandomInterceptModel()
    model.error = error
    estimator = (Interrupting if error else StochasticEM)(
        model, solver="isaem", sampler=MALA(step=0.5), batch_size=600, max_iter=3,
        tol=0, random_state=0,
    )  # fmt: skip
    gc.disable()
    try:
        if error is None:
            estimator.fit(dask_array(CHUNKS[3]))
        else:
            with pytest.raises(type(error)) as caught:
                estimator.fit(dask_array(CHUNKS[3]))
            assert caught.value is error
        wait_for_no_tasks(two_workers)
    finally:
        gc.enable()


@pytest.mark.parametrize("solver", ["em", "isaem"])
def test_graph_and_memory_of_many_iterations(two_workers, monkeypatch, solver):
    """What is remembered of rows does not grow a chain of tasks."""
    monkeypatch.setattr(snapshots, "VISITS_PER_SNAPSHOT", 4)
    wait_for_no_tasks(two_workers)
    largest, sizes = [], []
    settings, period = {
        "em": ({"max_iter": 200}, 10),
        "isaem": ({"batch_size": 600, "max_iter": 20, "sampler": MALA(step=0.5)}, 1),
    }[solver]

    class Watched(StochasticEM):
        def _after_epoch(self, state):
            if len(state.history) % period == 0:
                largest.append(two_workers.run_on_scheduler(number_of_tasks))
                sizes.append(len(two_workers.futures))
            return False

    Watched(
        RandomInterceptModel(), solver=solver, tol=0, random_state=0, **settings
    ).fit(dask_array(CHUNKS[3]))
    assert len(largest) >= 19
    # For two partitions: rows, reports, states and their tasks since the last snapshot.
    assert max(largest) < 40
    assert max(largest[10:]) <= max(largest[:10]) + 15
    assert max(sizes) <= 15


def test_n_jobs_on_the_cluster(two_workers):
    """``n_jobs`` goes through joblib."""
    joblib = pytest.importorskip("joblib")
    model_selection = pytest.importorskip("sklearn.model_selection")
    grid = {"covariance_type": ["diag", "full"]}
    scores = []
    for backend in ("dask", "sequential"):
        with joblib.parallel_config(backend=backend):
            search = model_selection.GridSearchCV(mixture(), grid, cv=2, n_jobs=2)
            scores.append(search.fit(X).cv_results_["mean_test_score"])
    np.testing.assert_array_equal(*scores)


def test_files_of_snapshots_are_gone(two_workers, tmp_path):
    settings = {"solver": "isaem", "batch_size": 600, "max_iter": 12}
    one = mixture(memory=str(tmp_path), **settings).fit(dask_array(CHUNKS[1]))
    assert_same(one, mixture(**settings).fit(X))
    assert not list(tmp_path.iterdir())
