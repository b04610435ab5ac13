"""Mixtures of rows that are read by blocks: the fit to the array, to the bits."""

import subprocess
import sys
import textwrap
import warnings
from functools import partial

import numpy as np
import pytest

import sktem.e_step.batches
from sktem import StochasticEMGaussianMixture
from sktem.callbacks import Checkpoint
from sktem.exceptions import FitWarning
from sktem.mixture.start import StartRows
from sktem.rows import Rows, as_rows
from sktem.rows.checked import CheckedRows
from tests import oracles
from tests.rows.adapters import ADAPTERS, Chunked, names_of, table

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 3)) + rng.choice([-4, 0, 4], size=(3000, 1))
assert_same = partial(oracles.assert_same, names=(*oracles.MIXTURE, "lower_bounds_"))
SOLVERS = ["em", "saem", "mcem", "online", "isaem", "iem", "vrttem", "fittem"]


def fitted(rows, *, sample_weight=None, callback=None, **settings):
    settings = {"max_iter": 8, "tol": 0, "random_state": 0} | settings
    mixture = StochasticEMGaussianMixture(3, **settings)
    if callback is not None:
        mixture.set_callbacks(callback)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return mixture.fit(rows, sample_weight=sample_weight)


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_every_source_gives_the_fit_to_the_array(adapter, tmp_path):
    rows = ADAPTERS[adapter](X, tmp_path)
    for solver in ("em", "vrttem"):
        one = fitted(rows, solver=solver)
        assert_same(one, fitted(X, solver=solver))
        assert one.n_features_in_ == 3 and one.n_samples_seen_ == 3000


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("lengths", [(3000,), (1,) * 20, (1700, 0, 3, 1000)])
def test_every_solver_and_chunking(solver, lengths):
    assert_same(fitted(Chunked(X, lengths), solver=solver), fitted(X, solver=solver))


def test_many_blocks():
    """Blocks of the kernels and of the loop are those of the array."""
    many = np.tile(X, (60, 1)) * np.linspace(1, 1.2, 180_000)[:, None]
    for solver in ("em", "saem"):
        settings = {"solver": solver, "max_iter": 3, "n_jobs": 2}
        one = fitted(Chunked(many, (100_001, 7)), **settings)
        assert_same(one, fitted(many, **settings))


def test_dropped_piece_is_another_fit():
    one = fitted(Chunked(X, dropped=1))
    assert not np.allclose(one.means_, fitted(X).means_, rtol=1e-10)


@pytest.mark.parametrize("init_params", ["kmeans", "k-means++", "random"])
@pytest.mark.parametrize("init_size", [None, 500, "auto"])
def test_starts(init_params, init_size):
    settings = {"init_params": init_params, "init_size": init_size, "n_init": 2}
    assert_same(fitted(Chunked(X), **settings), fitted(X, **settings))


@pytest.mark.parametrize("init_params", ["kmeans", "k-means++", "random"])
def test_start_of_many_rows(init_params, monkeypatch, memory_budget):
    memory_budget(cached=3 * 400)
    rule = StartRows(per_parameter=1)
    monkeypatch.setattr("sktem.mixture.start.START_ROWS", rule)
    settings = {"init_params": init_params, "init_size": "auto"}
    sample_weight = rng.uniform(0.5, 2, size=3000)
    for weights in (None, sample_weight):
        one, other = (
            fitted(rows, sample_weight=weights, **settings) for rows in (Chunked(X), X)
        )
        assert_same(one, other)
    whole = fitted(X, init_params=init_params, init_size=None, max_iter=300, tol=1e-6)
    sample = fitted(X, max_iter=300, tol=1e-6, **settings)
    assert abs(whole.score(X) - sample.score(X)) < 0.05


def test_single_precision_and_weights():
    weights = rng.uniform(0.5, 2, size=3000)
    single = X.astype(np.float32)
    for solver in ("em", "saem"):
        settings = {"solver": solver, "sample_weight": weights}
        one = fitted(Chunked(single), **settings)
        assert_same(one, fitted(single, **settings))
        assert one.means_.dtype == np.float32


def test_rows_that_can_be_taken_have_every_sampling():
    weights = rng.uniform(0.5, 2, size=3000)
    rows = np.array_split(X, 4)
    for sampling in ("fixed", "inclusion", "shuffle"):
        for sample_weight in (None, weights):
            settings = {"solver": "vrttem", "sampling": sampling, "max_iter": 4}
            settings["sample_weight"] = sample_weight
            assert_same(fitted(rows, **settings), fitted(X, **settings))


def test_sweeps_with_batches_of_one():
    settings = {"solver": "isaem", "sampling": "fixed", "batch_size": 1, "max_iter": 2}
    settings["covariance_type"] = "diag"
    assert_same(fitted(np.array_split(X, 4), **settings), fitted(X, **settings))


def test_rows_in_order_refuse_what_they_cannot_do():
    for settings in ({"sampling": "fixed"}, {"sample_weight": np.ones(3000) * 2.0}):
        with pytest.raises(ValueError, match='in order, for which sampling="shuffle"'):
            fitted(Chunked(X), solver="online", **settings)
    weights = np.ones(3000)
    weights[4] = 0
    with pytest.raises(ValueError, match="must be positive where X is read by blocks"):
        fitted(Chunked(X), sample_weight=weights)


@pytest.fixture
def small_buffers(memory_budget):
    memory_budget(kept=3 * 700)


@pytest.mark.parametrize("solver", ["online", "isaem", "vrttem", "fittem"])
def test_buffers_do_not_depend_on_the_source(solver, small_buffers, tmp_path):
    """The order of rows is that of the buffers, whatever gives the rows."""
    one = fitted(as_rows(lambda: iter([X])), solver=solver)
    other = fitted(lambda: iter(np.array_split(X, 50)), solver=solver)
    assert_same(one, other)
    # It is another order of the same rows: the fit is as good.
    whole = fitted(X, solver=solver)
    assert abs(one.score(X) - whole.score(X)) < 0.01
    assert not np.array_equal(one.means_, whole.means_)


def test_a_pass_visits_every_row_once(small_buffers):
    rows = CheckedRows(Chunked(X, (1000, 500, 1, 9, 700)))
    selector = sktem.e_step.batches.BufferedSelector(rows, 90)
    rng = np.random.default_rng(0)
    orders = []
    for _ in range(3):
        visited = []
        for _ in range(selector.n_batches):
            batch = selector.next(rng, rows)
            np.testing.assert_array_equal(rows.take(batch.rows), X[batch.rows])
            assert np.isclose(batch.coefficients.sum(), 1)
            visited.append(batch.rows)
        orders.append(np.concatenate(visited))
        np.testing.assert_array_equal(np.sort(orders[-1]), np.arange(3000))
    assert not np.array_equal(orders[0], orders[1])
    # A batch mixes the rows of a buffer: without the buffer they would follow.
    assert np.abs(np.diff(orders[0][:90])).mean() > 50


def test_checkpoint_of_rows(small_buffers, tmp_path):
    """A fit that goes on from a checkpoint reads the buffers that it would have."""
    pytest.importorskip("sklearn.callback")
    whole = fitted(Chunked(X, (900, 900, 900)), solver="fittem", max_iter=9)
    path = tmp_path / "fit.pickle"
    fitted(
        Chunked(X, (900, 900, 900)),
        solver="fittem",
        max_iter=9,
        callback=_KilledCheckpoint(path, epochs=2),
    )
    resumed = fitted(
        Chunked(X, (900, 900, 900)),
        solver="fittem",
        max_iter=9,
        callback=Checkpoint(path),
    )
    assert_same(resumed, whole)


class _KilledCheckpoint(Checkpoint):
    """It saves a few epochs, and none of those that follow."""

    def __init__(self, path, epochs):
        super().__init__(path)
        self.epochs = epochs

    def on_fit_task_end(self, estimator, context):
        if self._epochs < self.epochs:
            super().on_fit_task_end(estimator, context)
        return False


def test_latents_on_disk(tmp_path):
    folder = tmp_path / "latents"
    for solver in ("isaem", "fittem"):
        for sampler in ("exact", "mc"):
            settings = {"solver": solver, "sampler": sampler}
            one = fitted(X, memory=str(folder), **settings)
            assert_same(one, fitted(X, **settings))
    assert folder.is_dir() and not list(folder.iterdir())


def test_disk_that_is_full(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    if not hasattr(sktem.e_step.memory.os, "posix_fallocate"):
        pytest.skip("the disk cannot be asked beforehand")
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space left.*" + tmp_path.name):
        fitted(X, solver="isaem", memory=str(tmp_path))


METHODS = ["predict", "predict_proba", "score_samples"]


@pytest.mark.parametrize("method", METHODS)
def test_answers_by_blocks(method, tmp_path):
    mixture = fitted(X)
    answer = getattr(mixture, method)
    expected = answer(X)
    np.testing.assert_array_equal(np.concatenate(list(answer(Chunked(X)))), expected)
    iterated = answer(iter(np.array_split(X, 7)))
    np.testing.assert_array_equal(np.concatenate(list(iterated)), expected)
    out = np.lib.format.open_memmap(
        tmp_path / "out.npy", "w+", dtype=expected.dtype, shape=expected.shape
    )
    assert answer(Chunked(X), out=out) is out
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    assert answer(X, out=out) is out
    for rows, message in ((X[:5], "X has 5"), (np.tile(X, (2, 1)), "X has more")):
        with pytest.raises(ValueError, match=f"out has 3000 rows, and {message}"):
            answer(Chunked(rows), out=out)
    # An array that would be copied gives an array nevertheless.
    np.save(tmp_path / "rows.npy", np.asfortranarray(X))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    np.testing.assert_array_equal(answer(mapped), expected)


def test_scores_by_blocks():
    mixture = fitted(X)
    weights = rng.integers(0, 3, size=3000).astype(float)
    for name in ("score", "bic", "aic", "icl"):
        score = getattr(mixture, name)
        one = score(iter(np.array_split(X, 7)))
        np.testing.assert_allclose(one, score(X), rtol=1e-12)
        np.testing.assert_allclose(score(Chunked(X)), score(X), rtol=1e-12)
        given = {"sample_weight": weights}
        one = score(Chunked(X), **given)
        np.testing.assert_allclose(one, score(X, **given), rtol=1e-12)
    with pytest.raises(ValueError, match="sample_weight has 7 entries, and X has 3000"):
        mixture.score(Chunked(X), sample_weight=np.ones(7))


def test_bad_rows_are_named():
    wrong = X.copy()
    wrong[2345, 2] = np.inf
    with pytest.raises(ValueError, match="infinity: in row 2345, column 2"):
        fitted(Chunked(wrong))
    with pytest.raises(ValueError, match="infinity: in row 2345, column 2"):
        list(fitted(X).predict(Chunked(wrong)))
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        fitted([X[:1]])
    with pytest.raises(ValueError, match="n_samples >= n_components"):
        fitted([X[:1], X[1:2]])
    with pytest.raises(TypeError, match="partial_fit"):
        fitted(iter([X]))
    wrong[2345, 2] = 1e200
    with pytest.raises(ValueError, match="in column 2 the largest is 1e\\+200"):
        fitted(Chunked(wrong))


@pytest.mark.parametrize("solver", ["em", "vrttem"])
def test_partial_fit_takes_what_brings_chunks(solver):
    def streamed():
        return StochasticEMGaussianMixture(3, solver=solver, random_state=0)

    one = streamed()
    for chunk in np.array_split(X, 6):
        one.partial_fit(chunk)
    iterated = streamed().partial_fit(iter(np.array_split(X, 6)))
    np.testing.assert_array_equal(one.means_, iterated.means_)
    assert iterated.n_samples_seen_ == 3000 and iterated.n_steps_ == one.n_steps_
    batches = streamed().partial_fit(table(X))
    np.testing.assert_array_equal(streamed().partial_fit(X).means_, batches.means_)
    assert list(batches.feature_names_in_) == names_of(X)
    with pytest.raises(ValueError, match="needs X to be a single array"):
        streamed().partial_fit(iter([X]), sample_weight=np.ones(3000))


def test_partial_fit_keeps_what_came_before_an_error():
    def broken():
        yield X[:2000]
        raise OSError("the line is down")

    mixture = StochasticEMGaussianMixture(3, random_state=0)
    with pytest.raises(OSError, match="line is down"):
        mixture.partial_fit(broken())
    assert mixture.n_samples_seen_ == 2000 and mixture.means_.shape == (3, 3)


LIMITED = """
import resource, sys
import numpy as np
from sktem import StochasticEMGaussianMixture

base = np.random.default_rng(0).normal(size=(20_000, 10))

def chunks(count=100):
    for _ in range(count):
        yield np.concatenate([base[:10_000] - 3, base[10_000:] + 3])

def data_in_use():
    with open("/proc/self/status") as status:
        return next(int(l.split()[1]) * 1024 for l in status if l.startswith("VmData"))

settings = dict(covariance_type="diag", random_state=0, tol=0, max_iter=1)
solvers = ("em", "online")
for solver in solvers:
    mixture = StochasticEMGaussianMixture(2, solver=solver, **settings)
    mixture.fit(lambda: chunks(1))
allowed = data_in_use() + 140 * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
if sys.argv[1] == "array":
    rows = np.concatenate(list(chunks()))
for solver in solvers:
    mixture = StochasticEMGaussianMixture(2, solver=solver, **settings).fit(chunks)
    assert mixture.n_samples_seen_ == 2_000_000
    assert np.allclose(np.sort(mixture.means_[:, 0]), [-3, 3], atol=0.05)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
@pytest.mark.parametrize("kind", ["chunks", "array"])
def test_memory_is_bounded(kind):
    """160 MB of rows do not fit under the limit, a fit that reads them by blocks does.

    The buffer of a stochastic solver has 32 MB, twice while it is filled.
    """
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(LIMITED), kind],
        capture_output=True,
        text=True,
        check=False,
    )
    if kind == "chunks":
        assert process.returncode == 0, process.stderr
    else:
        assert "MemoryError" in process.stderr


class Failing(Rows):
    """Rows that cannot be read again after some passes."""

    def __init__(self, X, passes, error):
        self.X, self.left, self.error = X, passes, error

    def piece(self, index):
        self.left -= 1
        yield self.X[:700]
        if self.left < 0:
            if self.error is None:
                return
            raise self.error
        yield self.X[700:]

    def where(self, index):
        return "stored.bin"


@pytest.mark.parametrize(
    "error, match",
    [(None, "stored.bin gave .* rows at first and 700"), (OSError("gone"), "gone")],
)
def test_rows_that_can_no_longer_be_read(error, match):
    """The estimator is as at the last finished epoch."""
    X = np.random.default_rng(0).normal(size=(900, 2))
    X += np.random.default_rng(1).choice([-1.5, 1.5], size=(900, 1))
    settings = {"solver": "em", "random_state": 0, "tol": 0}
    source = Failing(X, np.inf, error)
    before = Counted(source)
    one = StochasticEMGaussianMixture(2, max_iter=1, **settings)
    two = StochasticEMGaussianMixture(2, max_iter=2, **settings)
    counts = []
    for mixture in (one, two):
        mixture.fit(before)
        counts.append(before.passes)
        before.passes = 0
    per_epoch = counts[1] - counts[0]
    failing = Failing(X, counts[1] + 2 * per_epoch - 1, error)
    mixture = StochasticEMGaussianMixture(2, max_iter=50, **settings)
    with pytest.raises((ValueError, OSError), match=match):
        mixture.fit(failing)
    n_epochs = len(mixture.history_)
    assert 2 <= n_epochs <= 4
    same = StochasticEMGaussianMixture(2, max_iter=n_epochs, **settings).fit(X)
    np.testing.assert_array_equal(mixture.means_, same.means_)
    fresh = StochasticEMGaussianMixture(2, **settings)
    with pytest.raises((ValueError, OSError), match=match):
        fresh.fit(Failing(X, 2, error))
    assert not hasattr(fresh, "means_")


class Counted(Rows):
    passes = 0

    def __init__(self, source):
        self.source = source

    def piece(self, index):
        self.passes += 1
        yield from self.source.piece(index)


class Finished(Counted):
    """Counts how often rows are read to their end."""

    def piece(self, index):
        yield from self.source.piece(index)
        self.passes += 1


@pytest.mark.parametrize("solver", ["em", "online"])
@pytest.mark.parametrize("max_iter", [1, 4])
def test_reads_before_the_first_pass(solver, max_iter):
    """Three: for the checks, the centre and the start."""
    source = Finished(Failing(X, np.inf, None))
    fitted(source, solver=solver, max_iter=max_iter)
    # The sample on which progress is measured, and all rows at the last parameters.
    measured = 2 if solver == "online" else 0
    assert source.passes == 3 + max_iter + measured


def test_two_passes_at_a_time_over_one_connection(tmp_path, memory_budget):
    X = np.random.default_rng(0).normal(size=(900, 2))
    memory_budget(kept=400)
    relation = ADAPTERS["relation"](X, tmp_path)
    mixture = StochasticEMGaussianMixture(
        2, solver="fittem", batch_size=10, random_state=0
    )
    with pytest.raises(ValueError, match=r"fittem.*DuckDBPyRelation does not allow"):
        mixture.fit(relation)
