"""Generators: chunks, offsets, memory, forgetting, weights, small beginnings."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.mixture import GaussianMixture

from sktem import StochasticEMGaussianMixture
from sktem.exceptions import FitWarning
from sktem.mixture.stream import FIRST_ROWS
from sktem.models import GaussianMixtureModel
from sktem.schedules import Constant, Polynomial
from tests import oracles
from tests.emissions.structures import KINDS, reduced

SOLVERS = ["em", "online", "saem", "mcem", "iem", "isaem", "vrttem", "fittem"]
BATCH = 256  # rows per step of a stream
START = 1024  # rows from which a stream of few components starts
assert_same = partial(oracles.assert_same, rtol=1e-10)


def simulate(n, seed, K=5, d=3):
    """Draw from a mixture of five overlapping Gaussians, the same for all seeds."""
    rng = np.random.default_rng(99)
    weights = rng.dirichlet(np.full(K, 8.0))
    means = 4 * rng.normal(size=(K, d))
    factors = 0.7 * (rng.normal(size=(K, d, d)) + np.eye(d))
    rng = np.random.default_rng(seed)
    labels = rng.choice(K, size=n, p=weights)
    return means[labels] + np.einsum(
        "nij,nj->ni", factors[labels], rng.normal(size=(n, d))
    )


def chunks(X, size):
    """Yield pieces that nobody may write to, such as those of a memory map."""
    for start in range(0, len(X), size):
        chunk = X[start : start + size]
        chunk.flags.writeable = False
        yield chunk


def streamed(X, size, **settings):
    mixture = StochasticEMGaussianMixture(random_state=0).set_params(**settings)
    for chunk in chunks(X, size):
        mixture.partial_fit(chunk)
    return mixture


def shares(n, n_components, d, kind="full"):
    """Weights of rows under steps 1 / k: the start counts as a row per parameter."""
    weights = np.ones(n)
    model = GaussianMixtureModel(n_components, covariance_type=kind)
    weights[:START] += model.n_parameters(d) / START
    return weights


# --------------------------------------------------------------------------- chunks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["online", "em"])
def test_chunks_do_not_matter(solver, kind):
    X = simulate(2500, seed=1)
    settings = {"n_components": 3, "covariance_type": kind, "solver": solver}
    whole = streamed(X, len(X), **settings)
    sizes = (1, 17, 1000) if (solver, kind) == ("online", "full") else (17, 1000)
    for size in sizes:
        cut = streamed(X, size, **settings)
        assert_same(cut, whole)
        assert cut.n_steps_ == whole.n_steps_ == len(X) // BATCH
        assert cut.n_samples_seen_ == len(X)


def test_chunks_do_not_matter_before_the_first_step():
    X = simulate(1700, seed=1)
    whole = streamed(X, 1700, n_components=3)
    for size in (1, 17, 100):
        cut = streamed(X[:700], size, n_components=3)
        # What is published before the start is a preview, made anew now and then.
        assert np.isfinite(cut.score(X))
        assert_same(cut.partial_fit(X[700:]), whole)


def test_chunks_are_copied():
    """The caller may use its buffer again."""
    X = simulate(1500, seed=1)
    expected = streamed(X, 50, n_components=3)
    mixture = StochasticEMGaussianMixture(3, random_state=0)
    buffer = np.empty((50, 3))
    for chunk in chunks(X, 50):
        buffer[:] = chunk
        mixture.partial_fit(buffer)
        buffer[:] = 1e9
    assert_same(mixture, expected)


@pytest.fixture(scope="module")
def long_stream():
    X, held_out = simulate(200_000, seed=1), simulate(20_000, seed=2)
    batch = StochasticEMGaussianMixture(5, random_state=0).fit(X)
    return X, held_out, batch.score(held_out)


@pytest.mark.parametrize("solver", ["online", "mcem", "iem", "vrttem", "fittem"])
def test_a_stream_comes_near_batch_em(long_stream, solver):
    X, held_out, best = long_stream
    mixture = streamed(X, 1000, n_components=5, solver=solver)
    assert best - mixture.score(held_out) < 1e-2
    assert mixture.n_samples_seen_ == len(X)
    few = streamed(X[:200], 100, n_components=5, solver=solver)
    assert best - few.score(held_out) > 2e-2  # the margin means something


@pytest.mark.parametrize(
    "names", [("online", "em"), ("mcem", "saem"), ("iem", "isaem")]
)
def test_solvers_that_mean_the_same_on_a_stream(names):
    X = simulate(3000, seed=3)
    first, *others = (streamed(X, 500, n_components=3, solver=name) for name in names)
    for other in others:
        assert_same(other, first, rtol=0)
    different = streamed(X, 500, n_components=3, solver="fittem")
    assert np.abs(first.means_ - different.means_).max() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_and_structure(solver, kind):
    """Separate clusters, whose moments are known."""
    rng = np.random.default_rng(3)
    labels = rng.choice(3, size=4 * START, p=[0.2, 0.3, 0.5])
    X = rng.normal(size=(len(labels), 2)) + 20 * labels[:, None]
    mixture = streamed(
        X,
        START,
        n_components=3,
        solver=solver,
        covariance_type=kind,
        step_size=Polynomial(alpha=1.0),
    )
    order = np.argsort(mixture.means_[:, 0])
    shared = shares(len(X), 3, 2, kind)
    weights = np.bincount(labels, shared) / shared.sum()
    assert_allclose(mixture.weights_[order], weights, rtol=1e-9)
    groups = [(X[labels == k], shared[labels == k]) for k in range(3)]
    expected = [np.average(rows, axis=0, weights=w) for rows, w in groups]
    assert_allclose(mixture.means_[order], expected, rtol=1e-6, atol=1e-6)
    matrices = [np.cov(rows.T, bias=True, aweights=w) for rows, w in groups]
    found = mixture.covariances_ if kind == "tied" else mixture.covariances_[order]
    expected = reduced(kind, np.array(matrices), weights)
    assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------- the recursion, for one component


def recursion(X, start, schedule, step_rows=BATCH):
    """Follow the running mean of the rows by hand; return it after each step."""
    # Time starts at one row per parameter.
    mean, k, means = start, 1 + (2 + 3) / step_rows, []
    while len(X):
        rows, X = X[:step_rows], X[step_rows:]
        share = len(rows) / step_rows
        step = 1 - (1 - schedule(k)) ** share
        mean = mean + step * (rows.mean(axis=0) - mean)
        means.append(mean)
        k += 1
    return means


def tail_average(means):
    """Return the average in which the k-th iterate enters with weight 4 / (k + 3)."""
    average = means[0]
    for k, mean in enumerate(means[1:], start=2):
        average = average + 4 / (k + 3) * (mean - average)
    return average


SCHEDULES = {
    "constant": lambda k: 0.1,
    "paper": Polynomial(alpha=0.5),
    "default": lambda k: (k + 2.0) ** -0.5,
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [1024, 1500, 4096, 5000])
def test_steps_count_rows(schedule, n):
    X = np.random.default_rng(0).normal(size=(n, 2)) + np.arange(n)[:, None] / n
    step_size = SCHEDULES[schedule] if schedule != "default" else "auto"
    mixture = streamed(X, 333, step_size=step_size)
    means = recursion(X, X[:START].mean(axis=0), SCHEDULES[schedule])
    expected = means[-1]
    if schedule == "default":  # an average, over full batches
        expected = tail_average(means[: n // BATCH])
    assert_allclose(mixture.means_[0], expected, rtol=1e-10)


def test_batch_size_of_a_stream():
    X = np.random.default_rng(0).normal(size=(3000, 2)) + np.arange(3000)[:, None] / 3e3
    mixture = streamed(X, 333, step_size=0.1, batch_size=100)
    start = X[:START].mean(axis=0)
    expected = recursion(X, start, SCHEDULES["constant"], step_rows=100)
    assert_allclose(mixture.means_[0], expected[-1], rtol=1e-10)
    assert mixture.n_steps_ == 30


def drifting(seed=0):
    """Twenty batches about 0, then twenty about 10."""
    X = np.random.default_rng(seed).normal(size=(40 * BATCH, 1))
    X[20 * BATCH :] += 10
    return X


def test_a_constant_step_forgets():
    X = drifting()
    mixture = streamed(X, 500, step_size=0.3)
    last = X[20 * BATCH :]
    # What is left of the past is 0.7 ** 20 of a distance of ten.
    error = (mixture.means_[0, 0] - last.mean()) / np.sqrt(0.3 / 1.7 / BATCH)
    assert abs(error) < 4.5 + 10 * 0.7**20 / np.sqrt(0.3 / 1.7 / BATCH)
    assert mixture.covariances_[0, 0, 0] == pytest.approx(1.0, abs=0.2)


def test_a_decreasing_step_averages():
    X = drifting()
    # Before they are learned, rows at a distance of ten are 10**2 / 2 less likely.
    with pytest.warns(FitWarning, match=r"by (49|50)[.\d]* nats .* random order"):
        mixture = streamed(X, 500, step_size=Polynomial(alpha=1.0))
    weights = shares(len(X), 1, 1)
    expected = np.average(X, axis=0, weights=weights)
    assert_allclose(mixture.means_[0], expected, rtol=1e-10)
    expected = np.cov(X.T, bias=True, aweights=weights) + 1e-6
    assert_allclose(mixture.covariances_[0], expected, rtol=1e-9)


def test_a_slow_drift_is_told():
    """Random order is not, though some rows are far out."""
    rng, n = np.random.default_rng(0), 80 * BATCH
    means = 5 * rng.integers(2, size=(n, 1))
    streamed(means + rng.standard_t(2, size=(n, 3)), 500, n_components=2)
    X = means + rng.normal(size=(n, 3))
    streamed(X, 500, n_components=2)
    with pytest.warns(FitWarning, match="random order") as caught:
        streamed(X + np.linspace(0, 100, n)[:, None], 500, n_components=2)
    assert len(caught) == 1


@pytest.mark.parametrize("size", [37, 500])
@pytest.mark.parametrize("seed", range(3))
def test_sorted_rows_are_told(seed, size):
    """Components follow the next class within two batches; random order is silent."""
    rng, n = np.random.default_rng(seed), 24 * BATCH
    means, state = 4 * rng.normal(size=(4, 3)), rng.integers(4, size=n)
    X = means[state] + rng.normal(size=(n, 3))
    far = np.where(np.arange(n) % 1000 == BATCH, 1e3, 0.0)[:, None]
    streamed(X + far, size, n_components=4, random_state=seed)
    with pytest.warns(FitWarning, match="random order") as caught:
        streamed(X[np.argsort(state)], size, n_components=4, random_state=seed)
    assert len(caught) == 1


def test_rows_sorted_by_a_column_are_told():
    """Each batch is as unlikely as the one before: means of batches tell."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(4000, 1))
    rows = np.column_stack([X, np.sin(2 * X) + 0.1 * rng.normal(size=X.shape)])
    streamed(rows, 200, n_components=4, random_state=0)
    with pytest.warns(FitWarning, match="come in an order") as caught:
        streamed(rows[np.argsort(X[:, 0])], 200, n_components=4, random_state=0)
    assert len(caught) == 1


@pytest.mark.parametrize("average", [True, 3])
def test_average_of_a_stream(average):
    """The mean of the statistics after that many batches have passed."""
    X = np.random.default_rng(0).normal(size=(5 * BATCH, 1))
    mean, means = X[:START].mean(), []
    for rows in chunks(X, BATCH):
        mean += 0.5 * (rows.mean() - mean)
        means.append(mean)
    averaged = streamed(X, 700, step_size=0.5, average=average)
    expected = np.mean(means[int(average) :])
    assert averaged.means_[0, 0] == pytest.approx(expected, rel=1e-10)
    last = streamed(X, 700, step_size=0.5)
    assert last.means_[0, 0] == pytest.approx(means[-1], rel=1e-10)


# --------------------------------------------------------------------- after a fit


def test_goes_on_after_a_fit():
    """With steps 1 / k the mean is that of the fit's rows and the new ones."""
    X = (
        np.random.default_rng(0).normal(size=(5 * BATCH, 2))
        + np.arange(5 * BATCH)[:, None]
    )
    mixture = StochasticEMGaussianMixture(
        solver="online", step_size=Polynomial(alpha=1.0), random_state=0
    ).fit(X[: 2 * BATCH])
    assert mixture.n_samples_seen_ == 2 * BATCH
    before = mixture.means_[0]
    with pytest.warns(FitWarning, match="come in an order"):
        for chunk in chunks(X[2 * BATCH :], 300):
            mixture.partial_fit(chunk)
    share = 2 / 5
    expected = share * before + (1 - share) * X[2 * BATCH :].mean(axis=0)
    assert_allclose(mixture.means_[0], expected, rtol=1e-12)
    assert mixture.n_samples_seen_ == 5 * BATCH


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_data_after_a_fit_change_little(solver):
    X = simulate(6000, seed=4)
    mixture = StochasticEMGaussianMixture(5, solver=solver, random_state=0, tol=1e-5)
    mixture.fit(X)
    before = mixture.score(X)
    mixture.partial_fit(X)
    # Not started anew: labels and likelihood are as before.
    assert mixture.score(X) > before - 5e-3
    fitted = StochasticEMGaussianMixture(5, solver=solver, random_state=0, tol=1e-5)
    assert (mixture.predict(X) == fitted.fit(X).predict(X)).mean() > 0.97


def test_fit_forgets_the_stream():
    X = simulate(2000, seed=5)
    used = streamed(X + 50, 500, n_components=3, tol=1e-3)
    used.fit(X)
    fresh = StochasticEMGaussianMixture(3, tol=1e-3, random_state=0).fit(X)
    for name in oracles.MIXTURE:
        assert_array_equal(getattr(used, name), getattr(fresh, name))
    assert vars(used).keys() == vars(fresh).keys()
    more = simulate(1000, seed=6)
    assert_same(used.partial_fit(more), fresh.partial_fit(more), rtol=0)


# ----------------------------------------------------------- memory and small starts


@pytest.mark.parametrize("solver", ["online", "em", "mcem", "vrttem", "fittem", "iem"])
def test_state_does_not_grow(solver):
    X = simulate(30 * BATCH, seed=7)
    mixture = StochasticEMGaussianMixture(3, solver=solver, random_state=0)
    sizes = []
    for i, chunk in enumerate(chunks(X, BATCH)):
        mixture.partial_fit(chunk)
        if i in (5, 29):  # past the start
            sizes.append(len(pickle.dumps(mixture)))
    # Counters may need some more bytes.
    assert sizes[1] <= sizes[0] + 200
    assert sizes[0] < 20_000 < X[:START].nbytes


@pytest.mark.parametrize("solver", SOLVERS)
def test_first_chunk_of_one_row(solver):
    X = simulate(1500, seed=8)
    mixture = StochasticEMGaussianMixture(3, solver=solver, random_state=0)
    mixture.partial_fit(X[:1])
    assert_allclose(np.average(mixture.means_, axis=0, weights=mixture.weights_), X[0])
    assert np.isfinite(mixture.score(X[:1]))
    assert mixture.predict(X[:5]).shape == (5,)
    assert mixture.n_samples_seen_ == 1 and mixture.n_steps_ == 0
    mixture.partial_fit(X[1:3])  # fewer rows than components in all
    assert np.isfinite(mixture.score(X[:3]))
    mixture.partial_fit(X[3:])
    assert_same(mixture, streamed(X, 1500, n_components=3, solver=solver), rtol=1e-9)


def narrow_and_wide(n, seed):
    """Two crossed components, which k-means does not find."""
    rng = np.random.default_rng(seed)
    rare = rng.random(n)[:, None] < 0.15
    shapes = np.where(rare, [4.0, 0.3], [0.5, 2.0])
    return shapes * rng.normal(size=(n, 2))


@pytest.mark.parametrize("n", [60, 1000, START - 1])
def test_a_stream_that_ends_early_is_fitted(n, global_random_seed):
    """Before a stream starts, it publishes what `fit` would of the same rows."""
    X = narrow_and_wide(n, global_random_seed)
    held_out = narrow_and_wide(4000, 10_000)
    settings = {"n_components": 2, "random_state": 0}
    stream = streamed(X, n // 5, **settings)
    batch = StochasticEMGaussianMixture(**settings).fit(X)
    # Iterations end at the same tol, or at a hundred.
    assert abs(stream.score(X) - batch.score(X)) < 1e-3
    start = StochasticEMGaussianMixture(**settings, max_iter=0, tol=0.0).fit(X)
    if n > 60:
        assert stream.score(held_out) - start.score(held_out) > 0.3


def test_a_given_start_is_used_from_the_first_rows():
    X = narrow_and_wide(500, 0)
    given = {
        "weights_init": [0.5, 0.5],
        "means_init": [[0.0, 0.0], [1.0, 1.0]],
        "precisions_init": [np.eye(2)] * 2,
    }
    stream = StochasticEMGaussianMixture(2, **given).partial_fit(X)
    batch = StochasticEMGaussianMixture(2, **given).fit(X)
    assert_allclose(stream.means_, batch.means_, atol=1e-2)
    assert np.abs(stream.means_ - given["means_init"]).max() > 0.3
    with pytest.raises(ValueError, match="means.*shape"):
        StochasticEMGaussianMixture(2, means_init=np.zeros((2, 3))).partial_fit(X)


@pytest.mark.parametrize("solver", ["online", "vrttem", "fittem"])
def test_single_precision_stays(solver):
    X = simulate(3000, seed=10)
    narrow = streamed(X.astype(np.float32), 700, n_components=3, solver=solver)
    for name in (*oracles.MIXTURE, "precisions_cholesky_"):
        assert getattr(narrow, name).dtype == np.float32
    assert narrow.score_samples(X.astype(np.float32)).dtype == np.float32
    wide = streamed(
        X.astype(np.float32).astype(float), 700, n_components=3, solver=solver
    )
    assert_allclose(narrow.means_, wide.means_, rtol=1e-4, atol=1e-4)


# -------------------------------------------------------------------------- weights


def given_start(X):
    return {
        "n_components": 2,
        "weights_init": [0.4, 0.6],
        "means_init": X[:2],
        "precisions_init": np.tile(np.eye(3), (2, 1, 1)),
    }


@pytest.mark.parametrize("solver", ["online", "em"])
def test_weights_are_repetition(solver):
    """Weights that fill each batch exactly, from the same start."""
    X = simulate(3 * START, seed=11)
    repeats = np.tile([1, 3, 2, 2], len(X) // 4)
    settings = {"solver": solver, "step_size": 0.5, **given_start(X)}
    weighted = StochasticEMGaussianMixture(**settings)
    weighted.partial_fit(X, sample_weight=repeats)
    repeated = streamed(np.repeat(X, repeats, axis=0), 999, **settings)
    assert_same(weighted, repeated)
    assert weighted.n_steps_ == repeated.n_steps_ == 6 * START // BATCH
    plain = streamed(X, 999, **settings)
    assert np.abs(plain.means_ - weighted.means_).max() > 1e-4


@pytest.mark.parametrize("solver", SOLVERS)
def test_zero_weights_are_removal(solver):
    X = simulate(4000, seed=12)
    keep = np.arange(len(X)) % 3 != 0
    settings = {"n_components": 3, "solver": solver, "random_state": 0}
    weighted = StochasticEMGaussianMixture(**settings)
    removed = StochasticEMGaussianMixture(**settings)
    for part in (slice(0, 2000), slice(2000, 4000)):
        weighted.partial_fit(X[part], sample_weight=keep[part].astype(float))
        removed.partial_fit(X[part][keep[part]])
    assert_same(weighted, removed, rtol=0)


def test_chunks_without_weight_count_for_nothing():
    X = simulate(2000, seed=13)
    streams = [StochasticEMGaussianMixture(3, random_state=0) for _ in range(2)]
    streams[0].partial_fit(X[:5], sample_weight=np.zeros(5))
    for rows in np.split(X, [300, 1500]):
        for stream in streams:
            stream.partial_fit(rows)
        streams[0].partial_fit(X[:7] + 9, sample_weight=np.zeros(7))
    assert_same(*streams, rtol=0)
    assert streams[0].n_samples_seen_ == 2000
    with pytest.raises(ValueError, match="infinity"):
        streams[0].partial_fit([[np.inf] * 3], sample_weight=[0.0])


def test_bad_weights():
    X = simulate(50, seed=13)
    mixture = StochasticEMGaussianMixture()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        mixture.partial_fit(X, sample_weight=np.zeros(49))
    with pytest.raises(ValueError, match="Negative values in data passed to"):
        mixture.partial_fit(X, sample_weight=-np.ones(50))
    with pytest.raises(ValueError, match="sample_weight.shape"):
        mixture.partial_fit(X, sample_weight=np.ones(49))


# -------------------------------------------------------------------------- offsets

# Rounded so that the offset, a power of two, changes no digit of the data.
OFFSETS = {np.float64: (2.0**27, 2.0**-20), np.float32: (2.0**13, 2.0**-8)}


def with_offset(dtype, n=3000):
    offset, unit = OFFSETS[dtype]
    X = (np.round(simulate(n, seed=14) / unit) * unit).astype(dtype)
    moved = X + dtype(offset)
    assert_array_equal(moved - dtype(offset), X)
    return X, moved, offset


def learned(X, learn, **settings):
    mixture = StochasticEMGaussianMixture(3, random_state=0, **settings)
    if learn == "fit":
        return mixture.set_params(max_iter=20, tol=0.0).fit(X)
    for chunk in chunks(X, 700):
        mixture.partial_fit(chunk)
    return mixture


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("dtype", list(OFFSETS), ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(
    "solver, kind",
    [
        *(("em", kind) for kind in KINDS),
        *((solver, "full") for solver in ("online", "vrttem", "fittem")),
    ],
)
def test_an_offset_costs_no_digits(solver, kind, dtype, learn):
    X, moved, offset = with_offset(dtype)
    settings = {"solver": solver, "covariance_type": kind}
    plain, shifted = (learned(rows, learn, **settings) for rows in (X, moved))
    # The means themselves are rounded at the size of the offset.
    tolerance = 4 * np.finfo(dtype).eps * offset
    difference = shifted.means_.astype(float) - offset - plain.means_
    assert np.abs(difference).max() < tolerance
    rtol = 1e-5 if dtype == np.float32 else 1e-8
    assert_allclose(shifted.weights_, plain.weights_, rtol=rtol)
    assert_allclose(shifted.covariances_, plain.covariances_, rtol=rtol, atol=rtol)
    likely = np.abs(shifted.score_samples(moved) - plain.score_samples(X))
    # A mean off by one digit moves a score by the distance times the precision.
    assert likely.max() < 100 * tolerance


@pytest.mark.parametrize("kind", ["tied", "diag", "spherical"])
def test_statistics_about_the_origin_fail_with_an_offset(kind):
    """Negative control: scikit-learn, and this model without its centre."""
    X, moved, offset = with_offset(np.float64)
    settings = {"covariance_type": kind, "random_state": 0, "max_iter": 5, "tol": 1e9}
    expected = GaussianMixture(3, **settings).fit(X)
    try:
        peer = GaussianMixture(3, **settings).fit(moved)
        error = np.abs(peer.covariances_ - expected.covariances_).max()
    except ValueError:  # "ill-defined empirical covariance"
        error = np.inf
    assert error > 1e-2
    posterior = expected.predict_proba(X)
    found = []
    for rows, centre in ((X, None), (moved, None), (moved, np.full(3, offset))):
        model = GaussianMixtureModel(3, covariance_type=kind, centre=centre)
        found.append(
            model.maximize(model.mean_statistics(rows, posterior), None).covariances
        )
    assert np.abs(found[1] - found[0]).max() > 1e-2
    assert_allclose(found[2], found[0], rtol=1e-9, atol=1e-12)


def test_a_stream_that_leaves_its_centre():
    """The centre is fixed by the first rows; a drift of 1e4 costs few digits."""
    X = simulate(2 * START, seed=15)
    X[START:] += 1e4
    mixture = streamed(X, 500, n_components=1, step_size=1.0)
    last = X[-BATCH:]
    assert_allclose(mixture.means_[0], last.mean(axis=0), rtol=1e-10)
    expected = np.cov(last.T, bias=True) + 1e-6 * np.eye(3)
    assert_allclose(mixture.covariances_[0], expected, rtol=1e-6)


@pytest.mark.parametrize("step_size", [0.5, Constant(0.5)])
def test_parameters_that_change_between_chunks(step_size):
    """The settings of a stream are made again when a parameter has changed."""
    X = np.random.default_rng(0).normal(size=(3000, 2))
    mixture = StochasticEMGaussianMixture(2, random_state=0).partial_fit(X[:2100])
    text = pickle.dumps(mixture)
    before = mixture.partial_fit(X[2100:]).means_
    changed = pickle.loads(text).set_params(step_size=step_size)
    assert not np.array_equal(changed.partial_fit(X[2100:]).means_, before)
    later = pickle.loads(text).partial_fit(X[2100:2101])
    later.set_params(step_size=step_size).partial_fit(X[2101:])
    assert_allclose(later.means_, changed.means_, rtol=1e-12)
    with pytest.raises(ValueError, match="reg_covar"):
        later.set_params(reg_covar=-1).partial_fit(X[:1])


def test_rows_of_a_stream_are_checked():
    X = np.random.default_rng(0).normal(size=(1500, 2))
    model = StochasticEMGaussianMixture(2, random_state=0).partial_fit(X)
    before = model.means_.copy()
    for wrong, match in (
        (np.array([[1.0, np.inf]]), "infinity"),
        (np.array([[np.inf, 1.0]]), "infinity"),
        (np.ones((1, 3)), "3 features"),
        (np.ones(2), "1D array"),
        (np.ones((0, 2)), "0 sample"),
    ):
        with pytest.raises(ValueError, match=match):
            model.partial_fit(wrong)
    np.testing.assert_array_equal(model.means_, before)
    for accepted in ([[1, 2]], np.ones((1, 2), dtype=np.float32), np.ones((1, 2), int)):
        assert np.isfinite(model.partial_fit(accepted).means_).all()


def test_parameters_are_computed_when_they_are_read():
    X = simulate(1100, 0)
    settings = {"n_components": 2, "random_state": 0}
    read, unread = (StochasticEMGaussianMixture(**settings) for _ in range(2))
    for start in (0, *range(1030, 1040)):
        chunk = X[start : start + (1 if start else 1030)]
        read.partial_fit(chunk)
        unread.partial_fit(chunk)
        assert "means_" in dir(read)
    copied = pickle.loads(pickle.dumps(unread))
    # What is set afterwards is for the next chunk.
    unread.set_params(step_size=0.9)
    assert not hasattr(unread, "nothing_")
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        expected = getattr(read, name)
        assert_array_equal(getattr(copied, name), expected)
        assert_array_equal(getattr(unread, name), expected)
    assert_array_equal(unread.predict_proba(X), read.predict_proba(X))


def test_streams_of_long_components_begin_where_fits_end(monkeypatch):
    """Clusters of k-means are round; components are not."""
    lost = {4: [], 0: []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        K, d = 4, 3
        factors, centres = rng.normal(size=(K, d, d)), 3 * rng.normal(size=(K, d))
        labels = rng.integers(K, size=3000)
        noise = np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(3000, d)))
        X = centres[labels] + noise
        mixture = StochasticEMGaussianMixture(K, random_state=seed)
        best = clone(mixture).set_params(init_params=lambda *_, z=labels: z).fit(X)
        for n_random, losses in lost.items():  # none is the negative control
            rule = FIRST_ROWS._replace(random=n_random)
            monkeypatch.setattr("sktem.mixture.stream.FIRST_ROWS", rule)
            stream = clone(mixture)
            for first in range(0, len(X), 300):
                stream.partial_fit(X[first : first + 300])
            losses.append(best.score(X) - stream.score(X))
    behind = {n_random: np.sum(np.array(v) > 0.02) for n_random, v in lost.items()}
    assert behind[4] <= 1 < behind[0], behind
