"""Mixtures of any emission on rows that are read by blocks: what the array gives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sktem import StochasticEMGaussianMixture, StochasticEMMixture
from sktem.emissions import Categorical, Columns, NegativeBinomial
from tests.rows.adapters import Chunked, npy_files, table

NAMES = ["a", "b", "c"]


def dask_array(X, folder):
    return pytest.importorskip("dask.array").from_array(X, chunks=(100, X.shape[1]))


SOURCES = {
    "chunks": lambda X, folder: np.array_split(X, 5),
    "own": lambda X, folder: Chunked(X),
    "files": npy_files,
    "Dask": dask_array,
    "table": lambda X, folder: table(X),
}
by_source = pytest.mark.parametrize("source", sorted(SOURCES))


def labels(seed=0, values=(1.0, 2.0, 4.0)):
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=300)
    X = rng.choice(values, size=(300, 3))
    X[(z == 1)[:, None] & (rng.random(X.shape) < 0.9)] = values[1]
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def mixture(n_components=2, emission="categorical", random_state=0, **options):
    options["random_state"] = random_state
    return StochasticEMMixture(n_components, emission=emission, **options)


@by_source
@pytest.mark.parametrize(
    ("emission", "right", "wrong"),
    [("exponential", 1.0, -1.0), ("poisson", 2.0, 0.5), ("categorical", 0.0, 7.0)],
)
def test_what_an_emission_cannot_have_is_refused(
    source, emission, right, wrong, tmp_path
):
    good, bad = np.full((300, 3), right), np.full((300, 3), right)
    good[1::2] = 1.0
    bad[1::2] = 1.0
    bad[234, 1] = wrong
    rows = SOURCES[source](bad, tmp_path)
    fitted = mixture(1, emission, max_iter=3, tol=0).fit(good)
    match = "row 234|row 34, counted in partition 2" if source == "Dask" else "row 234"
    calls = [
        lambda: fitted.score(rows),
        lambda: fitted.bic(rows),
        lambda: [np.asarray(part) for part in fitted.predict(rows)],
        lambda: fitted.partial_fit(rows),
    ]
    if emission != "categorical":  # which learns its labels from all rows
        calls.append(lambda: mixture(1, emission).fit(rows))
    for call in calls:
        with pytest.raises(ValueError, match=match):
            call()


@by_source
def test_labels_are_learned_from_all_rows(source, tmp_path):
    X = labels()
    one = mixture().fit(SOURCES[source](X, tmp_path))
    peer = mixture().fit(X)
    assert_array_equal(one.categories_[0], [1.0, 2.0, 4.0])
    assert_allclose(one.lower_bound_, peer.lower_bound_, rtol=1e-9)


@by_source
def test_labels_of_an_array_are_those_of_its_rows_by_blocks(source, tmp_path):
    X = labels()
    fitted = mixture().fit(X)
    few = X[~(X > 2).any(axis=1)]
    for part in (X, few):
        rows = SOURCES[source](part, tmp_path)
        assert fitted.score(rows) == pytest.approx(fitted.score(part), rel=1e-12)
        assert fitted.icl(rows) == pytest.approx(fitted.icl(part), rel=1e-12)
        answer = fitted.predict(rows)
        answer = answer.compute() if source == "Dask" else np.concatenate([*answer])
        assert_array_equal(answer, fitted.predict(part))


@by_source
@pytest.mark.parametrize("name", ["labels", "gaussian", "online"])
def test_rows_of_which_nothing_is_observed_count_for_nothing(source, name, tmp_path):
    rng = np.random.default_rng(1)
    X = labels() if name == "labels" else rng.normal(size=(300, 3))
    X[rng.random(300) < 0.3] = X[100:180] = np.nan
    n = np.count_nonzero(~np.isnan(X).all(axis=1))
    new = mixture()
    if name != "labels":
        new = StochasticEMGaussianMixture(2, random_state=0)
    if name == "online":
        new.set_params(solver="online", max_iter=5, tol=0)
    rows, weights = SOURCES[source](X, tmp_path), np.arange(1.0, 301.0)
    for weight in (None, weights) if name != "online" else (None,):
        one = clone(new).fit(rows, sample_weight=weight)
        peer = clone(new).fit(X, sample_weight=weight)
        assert one.n_samples_seen_ == peer.n_samples_seen_ == n
        if name == "online":  # whose batches depend on how rows are read
            continue
        assert_allclose(one.weights_, peer.weights_, rtol=1e-7)
        assert_allclose(one.lower_bound_, peer.lower_bound_, rtol=1e-9)
        assert one.bic(rows, weight) == pytest.approx(peer.bic(X, weight), rel=1e-9)
    with pytest.raises(ValueError, match="nothing has been observed of the columns"):
        clone(new).fit(SOURCES[source](np.full((300, 3), np.nan), tmp_path))


@by_source
@pytest.mark.parametrize("emission", ["gaussian", "categorical"])
def test_a_stream_may_begin_with_rows_by_blocks(source, emission, tmp_path):
    X = labels()
    rows = SOURCES[source](X, tmp_path)
    one = mixture(emission=emission).partial_fit(rows)
    peer = mixture(emission=emission).partial_fit(X)
    assert one.score(rows) == pytest.approx(peer.score(X), rel=1e-12)


@by_source
@pytest.mark.parametrize("least", [0, -1])
def test_integers_are_counts_by_auto(source, least, tmp_path):
    X = np.random.default_rng(0).poisson(3.0, size=(300, 3))
    X[200, 2] = least
    kinds = {
        repr(mixture(1, "auto").fit(rows).emission_)
        for rows in (X, X.tolist(), SOURCES[source](X, tmp_path))
    }
    assert len(kinds) == 1
    kind = kinds.pop()
    assert ("Gaussian()" in kind) == (least < 0) and "NegativeBinomial()" in kind


@pytest.mark.parametrize("kind", ["parquet", "polars", "Dask"])
def test_counts_are_found_by_column_as_in_a_frame(kind, tmp_path):
    pd, rng, n = pytest.importorskip("pandas"), np.random.default_rng(0), 300
    frame = pd.DataFrame(
        {
            "real": rng.normal(size=n),
            "count": rng.poisson(3.0, n),
            "holes": pd.array(rng.poisson(2.0, n), dtype="Int64"),
            "whole": rng.integers(1, 6, size=n).astype(float),
            "zeros": rng.integers(5, size=n).astype(float),
            "year": rng.integers(1990, 2021, size=n),
            "signed": rng.integers(-2, 3, size=n),
            "text": rng.choice(["x", "y"], n),
        }
    )
    frame.loc[210, "holes"] = pd.NA
    if kind == "Dask":
        rows = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    else:
        pytest.importorskip("pyarrow")
        path = tmp_path / "rows.parquet"
        frame.to_parquet(path, row_group_size=100)
        dataset = pytest.importorskip("pyarrow.dataset")
        rows = dataset.dataset(path) if kind == "parquet" else None
        if rows is None:
            rows = pytest.importorskip("polars").scan_parquet(path)
    wanted = [
        ["text"],
        ["count", "holes", "zeros"],
        ["real", "whole", "year", "signed"],
    ]
    for X in (frame, rows):
        blocks = mixture(1, "auto", max_iter=1, tol=0).fit(X).emission_.emissions
        names = [[frame.columns[j] for j in columns] for *_, columns in blocks]
        assert names == wanted


def test_columns_by_name_of_rows_by_blocks():
    X = np.random.default_rng(1).poisson(3.0, size=(300, 3)).astype(float)
    X[:, 0] = labels()[:, 0]

    def blocks(*columns):
        return Columns(
            [
                ("labels", Categorical(), columns[:1]),
                ("counts", NegativeBinomial(), columns[1:]),
            ]
        )

    rows = table(X)
    names = rows.column_names
    one = mixture(emission=blocks(names[0], names[1], names[2])).fit(rows)
    peer = mixture(emission=blocks(0, 1, 2)).fit(X)
    assert_allclose(one.score(rows), peer.score(X), rtol=1e-9)
    with pytest.raises(ValueError, match="columns"):
        mixture(emission=blocks("nobody", names[1])).fit(rows)


def arrow(frame, folder):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def dictionaries(frame, folder):
    pytest.importorskip("pyarrow")
    return arrow(frame.astype({"colour": "category"}), folder)


def parquet(frame, folder):
    pytest.importorskip("pyarrow")
    frame.to_parquet(folder / "rows.parquet", row_group_size=70)
    return folder / "rows.parquet"


def dask_frame(frame, folder):
    dataframe = pytest.importorskip("dask.dataframe")
    return dataframe.from_pandas(frame, npartitions=3)


def lazy_frame(frame, folder):
    lazy = pytest.importorskip("polars").from_pandas(frame).lazy()
    if not hasattr(lazy, "collect_batches"):
        pytest.skip("this polars does not collect in batches")
    return lazy


def chunks(frame, folder):
    return [frame.iloc[:100], frame.iloc[100:]]


FRAMES = [arrow, chunks, dask_frame, dictionaries, lazy_frame, parquet]


@pytest.mark.parametrize("kind", ["gaussian", "blocks"])
@pytest.mark.parametrize("source", FRAMES)
def test_text_is_labels_as_in_a_frame(source, kind, tmp_path):
    pandas = pytest.importorskip("pandas")
    rng, z = np.random.default_rng(0), np.arange(300) % 2
    colours = np.where(rng.random(300) < 0.8, np.where(z, "red", "blue"), "green")
    frame = pandas.DataFrame(
        {"x": rng.normal(size=300) + 3 * z, "colour": colours.astype(object),
         "flag": rng.random(300) < 0.3 + 0.4 * z, "k": rng.choice([1, 2, 5], 300)}
    )  # fmt: skip
    frame.loc[:80, "colour"] = None
    frame.loc[[8, 9], "x"] = np.nan
    emission = kind
    if kind == "blocks":  # "flag" is of none
        emission = Columns(
            [("l", Categorical(), ["colour", "k"]), ("x", "gamma", ["x"])]
        )
        frame["x"] = np.exp(frame["x"])
    rows = source(frame, tmp_path)
    peer = mixture(emission=emission).fit(frame)
    one = mixture(emission=emission).fit(rows)
    assert one.lower_bound_ == pytest.approx(peer.lower_bound_, rel=1e-9)
    assert one.categories_[1].tolist() == ["blue", "green", "red"]
    assert {k: v.tolist() for k, v in one.categories_.items()} == {
        k: v.tolist() for k, v in peer.categories_.items()
    }
    bic = peer.bic(frame)
    for fitted in (one, peer):
        assert fitted.bic(rows) == pytest.approx(bic, rel=1e-9)
        found = fitted.predict(rows)
        found = found.compute() if source is dask_frame else np.concatenate([*found])
        assert_array_equal(found, peer.predict(frame))
    stream = mixture(emission=emission).partial_fit(rows).partial_fit(frame[:50])
    assert set(stream.sample(50)[0]["colour"]) <= {"blue", "green", "red"}
    if source is arrow:
        batches = mixture(emission=emission).partial_fit(iter(rows.to_batches(150)))
        assert batches.score(frame) == pytest.approx(one.score(frame), abs=1e-4)
    new = source(frame.assign(colour="grey"), tmp_path)
    with pytest.raises(ValueError, match="column 'colour' has the label 'grey'"):
        peer.score(new)


@pytest.mark.parametrize("names", [None, ["a", "b"]])
def test_columns_in_errors_have_names_only_if_rows_have(names, tmp_path):
    pd = pytest.importorskip("pandas")
    counts, path = np.random.default_rng(0).poisson(3.0, (60, 2)), tmp_path / "rows.npy"
    np.save(path, counts)
    X = path if names is None else pd.DataFrame(counts, columns=names)
    fitted = mixture(1, "auto").fit(X)
    wrong = -counts if names is None else pd.DataFrame(-counts, columns=names)
    with pytest.raises(
        ValueError, match="column (0|1) has" if names is None else "'a' has"
    ):
        fitted.score(wrong)
