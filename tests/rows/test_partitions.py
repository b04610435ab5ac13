"""Fits to Dask collections are the fits to the array, run by the threads of Dask."""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from sktem import (
    ARDLogisticClassifier,
    DeformableTemplateEstimator,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.models import GaussianMixtureModel, RandomInterceptModel
from sktem.rows import partitions, tasks
from sktem.rows.partitions import PartSum, joined_sums, total_of
from sktem.samplers import MALA
from tests import oracles

da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")

N = 900
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2)) + rng.choice([-4, 0, 4], size=(N, 1))
CHUNKS = ((N,), (300,) * 3, (1, 0, 898, 1), (450, 0, 450), (90,) * 10)
linear = 0.3 + X @ [0.1, -0.2] + 0.6 * np.random.default_rng(4).normal(size=N)
counts = np.random.default_rng(5).poisson(np.exp(linear))
assert_same = partial(
    oracles.assert_same, rtol=1e-10, names=(*oracles.MIXTURE, "lower_bounds_")
)
SOLVERS = ("em", "mcem", "saem", "online", "vrttem")


def dask_array(chunks, rows=X):
    return da.from_array(rows, chunks=(chunks, -1))


def mixture(**settings):
    settings = {"max_iter": 3, "tol": 0, "random_state": 0} | settings
    return StochasticEMGaussianMixture(3, **settings)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_mixture_of_every_chunking(chunks, covariance_type):
    one, other = (
        mixture(covariance_type=covariance_type).fit(rows)
        for rows in (dask_array(chunks), X)
    )
    assert_same(one, other)
    assert one.history_.passes == other.history_.passes
    restored = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(restored.predict(X), one.predict(X))
    assert_same(restored.partial_fit(X), other.partial_fit(X))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("chunks", CHUNKS[1:3])
def test_every_solver(solver, chunks):
    settings = {"solver": solver, "batch_size": 300, "sampling": "shuffle"}
    one, other = (mixture(**settings).fit(rows) for rows in (dask_array(chunks), X))
    assert_same(one, other)
    assert one.history_.passes == other.history_.passes


def test_bits_of_aligned_partitions(monkeypatch):
    """Blocks are those of the array, and so are groups of blocks."""
    long = np.random.default_rng(1).normal(size=(40_000, 1))
    chunks = (16_384, 0, 16_384, 40_000 - 32_768)
    one, other = (mixture().fit(rows) for rows in (dask_array(chunks, long), long))
    np.testing.assert_array_equal(one.means_, other.means_)
    assert one.lower_bounds_ == other.lower_bounds_
    monkeypatch.setattr(partitions, "BLOCKS_PER_GROUP", 2)
    for size in (100, 128):
        values = np.random.default_rng(2).normal(size=1000)
        found = set()
        for cuts in ([], [size], [3 * size, 4 * size], range(size, 1000, size)):
            blocks = [
                [
                    PartSum(a, min(a + size, b), (values[a : min(a + size, b)].sum(),))
                    for a in range(start, b, size)
                ]
                for start, b in zip([0, *cuts], [*cuts, 1000], strict=True)
            ]
            parts = [joined_sums(size, part) for part in blocks]
            tree = [joined_sums(size, *parts[:2]), joined_sums(size, *parts[2:])]
            found.add(total_of(joined_sums(size, *tree), size, 1000))
        assert len(found) == 1


def test_sums_that_are_missing():
    parts = [PartSum(0, 100, (1.0,)), PartSum(200, 300, (1.0,))]
    with pytest.raises(RuntimeError, match="missing"):
        total_of(parts, 100, 300)


def test_a_dropped_partition_changes_the_fit(monkeypatch):
    """The comparison with the array sees what it is for."""

    def dropping(size, *parts):
        first, *others = parts
        if others:
            first = [part._replace(values=(0 * part.values[0], 0)) for part in first]
        return joined_sums(size, first, *others)

    expected = mixture().fit(X)
    monkeypatch.setattr(partitions, "joined_sums", dropping)
    with pytest.raises(AssertionError):
        assert_same(mixture().fit(dask_array(CHUNKS[1])), expected)


def test_many_partitions_are_joined_in_a_tree(monkeypatch):
    monkeypatch.setattr(tasks, "BRANCHES", 2)
    for settings in ({}, {"solver": "saem"}, {"solver": "online", "batch_size": 300}):
        one, other = (
            mixture(**settings).fit(rows) for rows in (dask_array(CHUNKS[4]), X)
        )
        assert_same(one, other)


@pytest.mark.parametrize("solver", ["em", "saem"])
def test_weights(solver):
    weights = rng.uniform(0.5, 2, N)
    given = da.from_array(weights, chunks=7), weights
    one, other = (
        mixture(solver=solver).fit(rows, sample_weight=part)
        for rows, part in zip((dask_array(CHUNKS[2]), X), given, strict=True)
    )
    assert_same(one, other)
    for name in ("score", "bic", "icl"):
        found = getattr(one, name)(dask_array(CHUNKS[1]), sample_weight=given[0])
        assert found == pytest.approx(getattr(one, name)(X, sample_weight=weights))


class Plain(GaussianMixtureModel):
    """Gets a block at a time."""

    reads_blocks = False


@pytest.mark.parametrize(
    "model, sampler, solver",
    [
        (Plain(2), "exact", "auto"),
        (Plain(2), "exact", "vrttem"),
        (RandomInterceptModel(), "mc", "saem"),
        (RandomInterceptModel(), "mc", "online"),
    ],
)
def test_own_models(model, sampler, solver):
    settings = {"solver": solver, "sampler": sampler, "batch_size": 300, "max_iter": 3}
    one, other = (
        StochasticEM(model, tol=0, random_state=0, **settings).fit(rows)
        for rows in (dask_array(CHUNKS[2]), X)
    )
    np.testing.assert_allclose(one.statistics_, other.statistics_, rtol=1e-10)
    names = ("objective", "mean_field", "acceptance_rate")
    for name in names:
        expected = getattr(other.history_, name)
        np.testing.assert_allclose(getattr(one.history_, name), expected, rtol=1e-8)
    score = one.score(dask_array(CHUNKS[1]))
    assert score == pytest.approx(other.score(X))


@pytest.mark.parametrize(
    "estimator",
    [
        mixture(solver="isaem"),
        mixture(solver="fittem"),
        mixture(solver="vrttem", sampler="mc"),
        StochasticEM(RandomInterceptModel(), solver="saem", sampler="mala"),
        StochasticEM(RandomInterceptModel(), solver="online", sampler=MALA(step=0.5)),
        RobustPoissonRegressor(solver="saem"),
        LatentBoltzmannMachine(hidden_layer_sizes=(2,)),
        DeformableTemplateEstimator(),
        NonlinearMixedEffectsRegressor("one_compartment_iv", parameters={"V": 1.0}),
    ],
)
def test_what_remembers_rows_says_what_works(estimator):
    """Before a start is made; the same fit to an array is possible."""
    target = {
        RobustPoissonRegressor: (counts,),
        NonlinearMixedEffectsRegressor: (0, 1),
    }.get(type(estimator), ())
    with pytest.raises(TypeError, match="Dask collection do.* not.*memory map"):
        estimator.fit(dask_array(CHUNKS[1]), *target)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples"])
def test_answers_are_dask_arrays(method):
    fitted = mixture().fit(X)
    expected = getattr(fitted, method)(X)
    for chunks in CHUNKS[1:3]:
        found = getattr(fitted, method)(dask_array(chunks))
        assert isinstance(found, da.Array)
        assert found.chunks[0] == chunks and found.dtype == expected.dtype
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)
    out = np.empty_like(expected)
    assert getattr(fitted, method)(dask_array(CHUNKS[2]), out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_data_frame_with_unknown_lengths():
    dd = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    frame = dd.from_pandas(pandas.DataFrame(X, columns=["a", "b"]), npartitions=3)
    frame = frame[frame.a > 0]
    expected = X[X[:, 0] > 0]
    one, other = mixture().fit(frame), mixture().fit(expected)
    assert_same(one, other)
    assert list(one.feature_names_in_) == ["a", "b"]
    assert len(one.predict(frame).compute()) == len(expected)
    assert one.score(frame) == pytest.approx(other.score(expected))
    with pytest.raises(ValueError, match="feature names"):
        one.predict(frame[["b", "a"]])
    empty = mixture().fit(frame[frame.a > 1])  # the partitions of low rows are empty
    assert empty.n_samples_seen_ == (X[:, 0] > 1).sum()


def test_types_of_partitions_are_mixed():
    parts = [
        dask_array((100,), X[:100].astype(np.float32)),
        dask_array((800,), X[100:]),
    ]
    lazy = [part.to_delayed()[0, 0] for part in parts]
    mixed = [
        da.from_delayed(part, shape=(length, 2), dtype=np.float64)
        for part, length in zip(lazy, (100, 800), strict=True)
    ]
    rounded = np.concatenate([X[:100].astype(np.float32).astype(float), X[100:]])
    one, other = mixture().fit(da.concatenate(mixed)), mixture().fit(rounded)
    assert one.means_.dtype == np.float64
    assert_same(one, other)
    halves = dask_array(CHUNKS[1], X.astype(np.float32))
    assert mixture().fit(halves).means_.dtype == np.float32


def test_errors_name_row_and_partition():
    wrong = X.copy()
    wrong[555, 1] = np.inf
    rows = dask_array(CHUNKS[1], wrong)
    message = r"contains infinity: in row 555, column 1 \(partition 1"
    fitted = mixture().fit(X)
    for call in (
        lambda: mixture().fit(rows),
        lambda: fitted.score(rows),
        lambda: fitted.predict(rows).compute(),
        lambda: mixture().partial_fit(rows),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_missing_values_are_those_of_an_array():
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    rows = dask_array(CHUNKS[1], holes)
    one, other = (
        mixture().set_params(tol=1e-7, max_iter=300).fit(data) for data in (holes, rows)
    )
    means = [np.sort(fitted.means_, axis=0) for fitted in (one, other)]
    np.testing.assert_allclose(*means, atol=1e-2)  # other rows make the start
    assert one.score(rows) == pytest.approx(one.score(holes), rel=1e-10)
    assert (one.predict(rows).compute() == one.predict(holes)).all()


def test_wrong_collections():
    with pytest.raises(ValueError, match=r"rows and columns, got shape \(10,\)"):
        mixture().fit(da.zeros(10))
    with pytest.raises(ValueError, match="0 sample"):
        mixture().fit(da.zeros((0, 2)))
    lengths = iter((300, 300, 200, 200))

    def changing(block):
        return block[: next(lengths, 200)]

    rows = dask_array((300, 300), X[:600]).map_blocks(changing, meta=X[:0])
    with pytest.raises(ValueError, match="gave 300 rows at first and 200 on a later"):
        mixture().fit(rows)


def test_default_batches_are_a_share_of_the_rows():
    """A thousand rows of a thousand partitions would be a thousand tasks for a row."""
    long = np.random.default_rng(1).normal(size=(60_000, 1))
    chunks = (30_000, 30_000)
    one = mixture(solver="online").fit(dask_array(chunks, long))
    assert one.history_.n_iterations == [20, 40, 60]
    other = mixture(solver="online", batch_size=3000).fit(long)
    assert_same(one, other)


def test_columns_in_chunks():
    one, other = mixture().fit(da.from_array(X, chunks=(400, 1))), mixture().fit(X)
    assert_same(one, other)


@pytest.mark.parametrize("chunks", CHUNKS)
def test_robust_poisson_of_every_chunking(chunks):
    rows, weights = dask_array(chunks), np.random.default_rng(6).uniform(0.5, 2, N)
    for given in (None, weights):
        expected = RobustPoissonRegressor(max_iter=30).fit(X, counts, given)
        found = RobustPoissonRegressor(max_iter=30).fit(rows, counts, given)
        for name in ("coef_", "intercept_", "sigma_"):
            one, other = getattr(found, name), getattr(expected, name)
            np.testing.assert_allclose(one, other, rtol=1e-9)
    predicted = found.predict(rows)
    assert isinstance(predicted, da.Array)
    np.testing.assert_allclose(predicted.compute(), expected.predict(X), rtol=1e-9)
    likelihood = found.log_likelihood(rows, da.from_array(counts, chunks=100))
    assert likelihood == pytest.approx(expected.log_likelihood(X, counts), rel=1e-9)
    assert found.score(rows, counts) == pytest.approx(expected.score(X, counts))


def test_robust_poisson_of_a_data_frame():
    dd = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "n": counts, "b": X[:, 1]})
    frame = dd.from_pandas(table, npartitions=3)
    found = RobustPoissonRegressor(max_iter=30).fit(frame, "n")
    expected = RobustPoissonRegressor(max_iter=30).fit(X, counts)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    assert list(found.feature_names_in_) == ["a", "b"]
    assert found.score(frame, "n") == pytest.approx(expected.score(X, counts))
    predicted = found.predict(frame).compute()
    np.testing.assert_allclose(predicted, expected.predict(X), rtol=1e-9)


def test_robust_poisson_with_a_wrong_row():
    wrong = X.copy()
    wrong[555, 1] = np.nan
    rows = dask_array(CHUNKS[1], wrong)
    fitted = RobustPoissonRegressor(max_iter=2).fit(X, counts)
    for call in (
        lambda: clone(fitted).fit(rows, counts),
        lambda: fitted.predict(rows).compute(),
        lambda: fitted.log_likelihood(rows, counts),
    ):
        with pytest.raises(ValueError, match="NaN: in row 555, column 1 .partition 1"):
            call()
    for value, what in ((-1, "negative"), (np.nan, "NaN")):
        y = counts.astype(float)
        y[555] = value
        rows = dask_array(CHUNKS[1])
        for call in (clone(fitted).fit, fitted.log_likelihood):
            with pytest.raises(ValueError, match=f"{what}.* row 555 .partition 1"):
                call(rows, y)


def test_answers_of_classification():
    kept = ARDLogisticClassifier(max_iter=2, random_state=0).fit(X, counts > 1)
    rows = dask_array(CHUNKS[3])
    for name in ("decision_function", "predict_proba", "predict"):
        answers = getattr(kept, name)(rows)
        assert isinstance(answers, da.Array)
        expected = getattr(kept, name)(X)
        np.testing.assert_allclose(answers.compute(), expected, rtol=1e-12)
    assert kept.score(rows, counts > 1) == kept.score(X, counts > 1)
