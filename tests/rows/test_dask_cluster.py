"""Fits on a cluster of processes: equal to the array, also when workers are lost."""

import gc
import logging
import os
import pickle
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sktem import StochasticEM, StochasticEMGaussianMixture
from sktem.models import RandomInterceptModel
from tests.rows.test_partitions import assert_same

dask = pytest.importorskip("dask")
# Workers are forked off a process that has imported what they need.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings(
        "ignore::sktem.exceptions.FitWarning",
        "ignore::ResourceWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]

#: Seconds in which processes have to start, also on a machine with much to do.
PATIENCE = 120

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
            "sktem.mixture.estimator",
        ]
    )
    with (
        dask.config.set({"distributed.comm.timeouts.connect": f"{PATIENCE}s"}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.fixture
def two_workers(client):
    scale(client, 2)
    return client


def wait_until(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "another process is late"
        time.sleep(0.02)


def scale(client, n_workers):
    client.cluster.scale(n_workers)
    wait_until(lambda: len(client.nthreads()) == n_workers)


def dask_array(chunks, rows=X):
    return da.from_array(rows, chunks=(chunks, -1))


def mixture(**settings):
    settings = {"max_iter": 2, "tol": 0, "random_state": 0} | settings
    return StochasticEMGaussianMixture(3, **settings)


@pytest.mark.parametrize("n_workers", [1, 2])
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
    end = time.monotonic() + PATIENCE
    while number in waiting and not Path(f"{folder}/ready").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    return block


def fragile(folder, fatal=(), waiting=(), rows=X):
    """Return a Dask array whose blocks are read in each visit."""
    read = partial(counted, folder=str(folder), fatal=fatal, waiting=waiting)
    chunks = dask_array((-(-len(rows) // 3),) * 3, rows)
    return chunks.map_blocks(read, meta=rows[:0])


def number_of_reads(folder):
    return len(list(folder.iterdir()))


#: Passes with draws, and batches with an anchor.
FITS = {
    "passes": {"solver": "mcem"},
    "batches": {"solver": "vrttem", "batch_size": 600},
}


@pytest.mark.parametrize("name", FITS)
def test_two_workers_are_killed(two_workers, tmp_path, name):
    """The fit is the same, and says so."""
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    quiet.mkdir()
    loud.mkdir()
    expected = mixture(**FITS[name]).fit(fragile(quiet))
    n_reads = number_of_reads(quiet)
    fatal = (n_reads // 2, n_reads * 3 // 4)
    found = mixture(**FITS[name]).fit(fragile(loud, fatal=fatal))
    assert_same(found, expected)
    # The cluster is looked at between visits: a worker that is killed, comes back and
    # is killed again within one counts once.
    assert found.history_.events["lost workers"] in (1, 2)
    # Each loss costs what the worker had of one visit.
    assert n_reads < number_of_reads(loud) <= n_reads + 2 * 3


def test_no_worker_is_left(two_workers, tmp_path, caplog):
    """A fit that nobody works on says so, and gives up after a stated time."""
    workers = list(two_workers.nthreads())
    rows = fragile(tmp_path, waiting=(9, 10, 11))

    def leave():
        wait_until(lambda: number_of_reads(tmp_path) > 9)
        two_workers.cluster.scale(0)

    thread = threading.Thread(target=leave)
    limits = {"distributed.scheduler.no-workers-timeout": "3s"}
    thread.start()
    with (
        dask.config.set(limits),
        caplog.at_level(logging.WARNING, "sktem.rows"),
        pytest.raises(TimeoutError, match="has had no worker for 3 seconds"),
    ):
        mixture(max_iter=20).fit(rows)
    thread.join()
    assert workers and not two_workers.nthreads()
    assert "no workers" in caplog.text
    (tmp_path / "ready").touch()
    scale(two_workers, 2)
    assert_same(mixture().fit(rows), mixture().fit(X))


def test_worker_that_joins_late(two_workers, tmp_path):
    scale(two_workers, 1)

    def join():
        wait_until(lambda: number_of_reads(tmp_path) >= 12)
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
    wait_until(lambda: not client.run_on_scheduler(number_of_tasks), 20)


class Interrupting(StochasticEM):
    def _after_epoch(self, state):
        raise self.model.error


@pytest.mark.parametrize("error", [None, RuntimeError("enough"), KeyboardInterrupt()])
def test_nothing_stays_with_the_workers(two_workers, error):
    """At the end of a fit, before anything collects reference cycles."""
    gc.collect()  # what earlier tests have left
    wait_for_no_tasks(two_workers)
    model = RandomInterceptModel()
    model.error = error
    estimator = (Interrupting if error else StochasticEM)(
        model, solver="vrttem", batch_size=600, max_iter=3, tol=0, random_state=0
    )
    weights = np.linspace(0.5, 2, N)
    gc.disable()
    try:
        if error is None:
            estimator.fit(dask_array(CHUNKS[3]), sample_weight=weights)
        else:
            with pytest.raises(type(error)) as caught:
                estimator.fit(dask_array(CHUNKS[3]), sample_weight=weights)
            assert caught.value is error
        wait_for_no_tasks(two_workers)
    finally:
        gc.enable()


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
