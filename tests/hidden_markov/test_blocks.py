"""Sequences from files and with Dask: the same numbers as in memory."""

import numpy as np
import pandas as pd
import pytest

from sktem import HiddenMarkovModel
from sktem.emissions import Categorical, Columns, Regression
from sktem.hidden_markov import blocks
from tests.hidden_markov.chains import draw_sequences

LENGTHS = np.tile([30, 12, 1, 25], 10)
X, _ = draw_sequences(
    LENGTHS, [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.0, 0.0], [3.0, 1.0]],
    np.random.default_rng(1),
)  # fmt: skip
X[5] = np.nan
Z = np.random.default_rng(2).normal(size=(len(X), 1))
GROUPS = np.repeat([f"s{k:03d}" for k in range(len(LENGTHS))][::-1], LENGTHS)
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(key=GROUPS, z=Z)
START = {
    "start_init": [0.5, 0.5], "transitions_init": [[0.8, 0.2], [0.3, 0.7]],
    "emission_init": {"means": [[1.0, 0.0], [2.0, 1.0]],
                      "covariances": np.stack([np.eye(2)] * 2)},
}  # fmt: skip


@pytest.fixture
def small_blocks(memory_budget):
    memory_budget(rows=100, kept=0)


def parquet(path, frame=FRAME):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.Table.from_pandas(frame)
    parquet.write_table(table, path / "rows.parquet", row_group_size=37)
    return path / "rows.parquet"


def partitions(path, frame=FRAME):
    dd = pytest.importorskip("dask.dataframe")
    places = np.cumsum(LENGTHS)[[9, 19, 29]].tolist()
    parts = np.split(np.arange(len(frame)), places)
    return dd.concat([dd.from_pandas(frame.iloc[one], npartitions=1) for one in parts])


quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def model(**options):
    return HiddenMarkovModel(2, random_state=0, max_iter=5, tol=1e-6, **options)


@quiet
@pytest.mark.parametrize("source", [parquet, partitions])
@pytest.mark.parametrize(
    "options",
    [{}, {"covariates": "z"}, {"solver": "online", **START}],
    ids=["plain", "covariates", "online"],
)
def test_the_same_as_in_memory(source, options, small_blocks, tmp_path):
    dask = pytest.importorskip("dask")
    options = dict(options)
    covariates = options.pop("covariates", None)
    frame = FRAME if covariates else FRAME.drop(columns="z")
    given = {"groups": "key", "covariates": covariates}
    expected = model(**options).fit(frame, **given)
    with dask.config.set(scheduler="sync"):
        rows = source(tmp_path)
        if not covariates:
            rows = rows[["a", "b", "key"]] if source is partitions else _without_z(rows)
        hmm = model(**options).fit(rows, **given)
        for name in ("start_", "transitions_", "transition_coefficients_"):
            np.testing.assert_allclose(
                getattr(hmm, name), getattr(expected, name), rtol=1e-9, atol=1e-12
            )
        np.testing.assert_allclose(
            hmm.score_samples(rows, **given), expected.score_samples(frame, **given)
        )
        assert hmm.score(rows, **given) == pytest.approx(expected.score(frame, **given))
        for name in ("bic", "icl"):
            value = getattr(expected, name)(frame, **given)
            assert getattr(hmm, name)(rows, **given) == pytest.approx(value)
        np.testing.assert_array_equal(
            np.concatenate([*hmm.predict(rows, **given)]),
            expected.predict(frame, **given),
        )
        np.testing.assert_allclose(
            np.concatenate([*hmm.predict_proba(rows, **given)]),
            expected.predict_proba(frame, **given), atol=1e-9,
        )  # fmt: skip
    assert list(hmm.feature_names_in_) == ["a", "b"]
    assert hmm.n_sequences_seen_ == len(LENGTHS)


def _without_z(path):
    """Return the file without covariates."""
    table = pd.read_parquet(path).drop(columns="z")
    table.to_parquet(path, row_group_size=37)
    return path


@quiet
def test_weights_and_rows_before(small_blocks, tmp_path):
    path = parquet(tmp_path)
    weights = np.random.default_rng(0).integers(1, 3, size=len(LENGTHS))
    options = {"emission": Regression(order=1, exog=[1])}
    given = {"groups": "key", "covariates": ["z"], "sample_weight": weights}
    hmm = model(**options).fit(path, **given)
    expected = model(**options).fit(FRAME, **given)
    np.testing.assert_allclose(
        hmm.emission_params_.coefficients, expected.emission_params_.coefficients,
        rtol=1e-8,
    )  # fmt: skip
    with pytest.raises(ValueError, match="must be positive where"):
        given["sample_weight"] = np.append(0, weights[1:])
        hmm.fit(path, **given)


@quiet
@pytest.mark.filterwarnings("ignore:Only one of")  # the labels repeat every four rows
@pytest.mark.parametrize("source", [parquet, partitions])
@pytest.mark.parametrize("labels", [[7, 7, -2, np.nan], ["wet", "wet", "dry", None]])
def test_labels_and_names_of_columns(source, labels, small_blocks, tmp_path):
    """Columns are named as in a frame, and labels are those of all rows."""
    dask = pytest.importorskip("dask")
    frame = FRAME.assign(z=np.resize(labels, len(X)))
    emission = Columns([("l", Categorical(), ["z"]), ("x", "gaussian", ["b", "a"])])
    expected = model(emission=emission).fit(frame, groups="key")
    with dask.config.set(scheduler="sync"):
        rows = source(tmp_path, frame)
        hmm = model(emission=emission).fit(rows, groups="key")
        assert hmm.categories_[2].tolist() == sorted({*labels[:3]})
        bic = expected.bic(frame, groups="key")
        assert hmm.bic(rows, groups="key") == pytest.approx(bic, rel=1e-9)
        np.testing.assert_array_equal(
            np.concatenate([*hmm.predict(rows, groups="key")]),
            expected.predict(frame, groups="key"),
        )
        lost = source(tmp_path, frame.assign(b=np.nan))
        with pytest.raises(ValueError, match=r"columns \['b'\]: leave them out"):
            hmm.fit(lost, groups="key")
        fewer = Columns(emission.emissions[:1])  # which does not look at it
        model(emission=fewer).fit(lost, groups="key")
        with pytest.raises(ValueError, match="columns"):
            model(emission=Columns([("x", "gaussian", ["c"])])).fit(rows, groups="key")


@quiet
def test_what_is_refused(tmp_path):
    path, hmm = parquet(tmp_path), model()
    with pytest.raises(TypeError, match="name or the index"):
        hmm.fit(path, groups=GROUPS)
    with pytest.raises(ValueError, match="a column of X"):
        hmm.fit(path, groups="key", lengths=LENGTHS)
    with pytest.raises(ValueError, match="must be different columns"):
        hmm.fit(path, groups="key", covariates="key")
    with pytest.raises(TypeError, match="fit reads X by blocks"):
        hmm.partial_fit(path, groups="key")
    with pytest.raises(TypeError, match="pass rows in memory"):
        hmm.fit(path, groups="key").forecast(path, groups="key")
    broken = FRAME.assign(key=np.roll(GROUPS, 3))
    broken.to_parquet(path)
    with pytest.raises(ValueError, match="not next to each other"):
        hmm.fit(path, groups="key")
    dd = pytest.importorskip("dask.dataframe")
    parts = dd.from_pandas(FRAME.reset_index(drop=True), npartitions=3, sort=False)
    with pytest.raises(ValueError, match="a Dask collection needs groups"):
        hmm.fit(parts[["a", "b"]])
    with pytest.raises(ValueError, match="a partition must have all rows"):
        hmm.fit(parts, groups="key")
    assert blocks.source_of([X[:5], X[5:9]]) is None
