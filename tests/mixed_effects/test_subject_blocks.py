"""Subjects that are read by blocks: the fit is that in memory."""

import pickle
from functools import cache

import numpy as np
import pytest

from sktem import NonlinearMixedEffectsRegressor
from sktem.mixed_effects.subject_blocks import SubjectRoles
from sktem.rows import Rows, as_rows
from sktem.rows.base import ChangedRowsError
from sktem.sequences.blocks import SequenceBlocks
from tests.mixed_effects.fits import bolus_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]

X, Y, GROUPS = bolus_rows(n=24)
TABLE = np.column_stack([X, Y, GROUPS])
NAMES = ["dose", "time", "conc", "id"]


def bolus(solver="saem", **options):
    options = {"max_iter": 8, "n_burn_in": 3, **options}
    return NonlinearMixedEffectsRegressor(
        "one_compartment_iv", parameters={"V": 10.0, "CL": 2.0}, solver=solver,
        random_state=0, **options,
    )  # fmt: skip


@cache
def in_memory():
    return bolus().fit(X, Y, groups=GROUPS)


def vector(fit):
    params = fit.params_
    return np.concatenate([params.coefficients, params.omega.ravel(), params.sigma])


@pytest.fixture
def small_blocks(memory_budget):
    """Blocks of few subjects, which are read again on every pass."""
    memory_budget(rows=32, kept=0)


def parquet(path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(NAMES, TABLE.T, strict=True))
    parquet.write_table(pa.table(columns), path / "rows.parquet", row_group_size=37)
    return path / "rows.parquet", "conc", "id"


def chunks(path):
    return [TABLE[:7], TABLE[7:60], TABLE[60:]], 2, 3


@pytest.mark.parametrize("source", [parquet, chunks])
def test_files_and_chunks(source, tmp_path, small_blocks):
    rows = source(tmp_path)
    fit, whole = bolus().fit(*rows), in_memory()
    assert len(list(fit.fitted_.rows.blocks())) > 2
    np.testing.assert_allclose(vector(fit), vector(whole), rtol=1e-10)
    np.testing.assert_array_equal(fit.groups_, whole.groups_)
    errors, expected = fit.standard_errors(), whole.standard_errors()
    assert errors == pytest.approx(expected, rel=1e-8)
    assert fit.log_likelihood() == pytest.approx(whole.log_likelihood(), rel=1e-10)
    linearized = [f.log_likelihood(method="linearized") for f in (fit, whole)]
    assert linearized[0] == pytest.approx(linearized[1], rel=1e-8)
    assert fit.log_likelihood(*rows) == pytest.approx(fit.log_likelihood(), rel=1e-8)
    found = fit.individual_parameters()["CL"]
    np.testing.assert_allclose(found, whole.individual_parameters()["CL"], rtol=1e-5)
    if source is parquet:
        predictions = np.concatenate(list(fit.predict(rows[0], groups="id")))
        expected = whole.predict(X, groups=GROUPS)
        np.testing.assert_allclose(predictions, expected, rtol=1e-5)
        copy = pickle.loads(pickle.dumps(fit))
        np.testing.assert_array_equal(copy.predict(X, GROUPS), fit.predict(X, GROUPS))


def text_rows():
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(TABLE[:, :3], columns=NAMES[:3])
    return rows.assign(id=[f"subject {label:03.0f}" for label in GROUPS])


def text_table():
    return pytest.importorskip("pyarrow").Table.from_pandas(text_rows())


def text_chunks():
    return [text_rows()[:7], text_rows()[7:60], text_rows()[60:]]


def text_partitions():
    pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    rows = text_rows()
    rows.index = rows["id"].to_numpy()
    return dd.from_pandas(rows, npartitions=5)


@pytest.mark.parametrize("source", [text_table, text_chunks])
def test_labels_may_be_text(source, small_blocks):
    """The fit is that with numbers, and answers name the labels."""
    rows, text = source(), text_rows()["id"].to_numpy()
    settings = {"max_iter": 3, "n_burn_in": 1, "tol": 0}
    fit = bolus(**settings).fit(rows, "conc", "id")
    whole = bolus(**settings).fit(X, Y, groups=GROUPS)
    np.testing.assert_allclose(vector(fit), vector(whole), rtol=1e-10)
    np.testing.assert_array_equal(fit.groups_, np.unique(text))
    expected = whole.predict(X, groups=GROUPS)
    dask = text_partitions()
    for answers in (fit.predict(rows, groups="id"), [fit.predict(dask, groups="id")]):
        predictions = np.concatenate([*map(np.asarray, answers)])
        np.testing.assert_allclose(predictions, expected, rtol=1e-5)
    found = fit.log_likelihood(dask, "conc", "id")
    assert found == pytest.approx(whole.log_likelihood(X, Y, GROUPS), rel=1e-9)
    np.testing.assert_allclose(fit.predict(X, groups=text), expected, rtol=1e-5)


def test_labels_that_are_text_are_checked(small_blocks):
    fit = bolus(max_iter=3, tol=0).fit(text_table(), "conc", "id")
    others = text_rows().assign(id="nobody")
    unknown = np.concatenate(list(fit.predict([others[:50], others[50:]], groups="id")))
    np.testing.assert_allclose(unknown, fit.predict(X))
    pieces = [text_rows()[60:], text_rows()[:60]]
    mixed = [pieces[0], pieces[1], text_rows()[60:70]]
    with pytest.raises(ValueError, match="subject 'subject 012' has rows in chunk 0"):
        bolus().fit(mixed, "conc", "id")
    missing = text_rows()
    missing.loc[70, "id"] = None
    with pytest.raises(ValueError, match="no label in 1 of"):
        bolus().fit([missing[:60], missing[60:]], "conc", "id")


@pytest.mark.parametrize("solver", ["isaem", "vrttem"])
def test_batches_of_subjects(solver, tmp_path, small_blocks):
    fit = bolus(solver, tol=0, batch_size=6).fit(*chunks(tmp_path))
    whole = bolus(solver, tol=0, batch_size=6).fit(X, Y, groups=GROUPS)
    np.testing.assert_allclose(vector(fit), vector(whole), rtol=1e-10)
    assert fit.n_iter_ == whole.n_iter_


def frame(n_partitions=5, by_subject=True):
    dd = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(TABLE, columns=NAMES).astype({"id": int})
    if by_subject:
        rows.index = rows["id"].to_numpy()
    return dd.from_pandas(rows, npartitions=n_partitions)


def test_partitions_of_dask(small_blocks):
    """A fit is refused; likelihoods and predictions are those of the array."""
    dask = pytest.importorskip("dask")
    table = frame().compute()
    fit = bolus(max_iter=3, n_burn_in=1, tol=0).fit([table], "conc", "id")
    expected = fit.log_likelihood()
    with dask.config.set(scheduler="sync"):
        partitions = frame()
        with pytest.raises(TypeError, match="Dask collection do not"):
            bolus().fit(partitions, "conc", "id")
        found = fit.log_likelihood(partitions, "conc", "id")
        assert found == pytest.approx(expected, rel=1e-9)
        # The negative control: partitions without rows.
        fewer = partitions[partitions["id"] > 5]
        assert abs(fit.log_likelihood(fewer, "conc", "id") - expected) > 1
        predictions = fit.predict(partitions, groups="id").compute()
        expected = np.concatenate([*fit.predict([table], groups="id")])
        np.testing.assert_allclose(predictions, expected, rtol=1e-5)


def test_a_subject_in_two_partitions():
    pytest.importorskip("dask")
    message = r"subject \d+ has rows in partition 0 and.*partition 1.*set_index\('id'\)"
    table = frame().compute()
    fit = bolus(max_iter=3, n_burn_in=1, tol=0).fit([table], "conc", "id")
    with pytest.raises(ValueError, match=message):
        fit.log_likelihood(frame(7, by_subject=False), "conc", "id")
    broken = frame()
    broken["time"] = broken["time"].where(broken["id"] != 20, np.nan)
    with pytest.raises(ValueError, match=r"NaN: in row 100, .*\(partition \d\)"):
        fit.log_likelihood(broken, "conc", "id")


def test_rows_of_a_subject_in_two_places(small_blocks):
    order = np.roll(np.arange(len(TABLE)), 3)
    pieces = np.array_split(TABLE[order], 6)
    with pytest.raises(ValueError, match=r"subject 23 has.*chunk 0.*chunk 5.*sort the"):
        bolus().fit(pieces, 2, 3)


class Changing(Rows):
    """Rows whose subjects are others on later passes."""

    def __init__(self):
        self.reads = 0

    def piece(self, index):
        self.reads += 1
        table = TABLE.copy()
        if self.reads > 3:
            table[:, 3] = np.roll(table[:, 3], 1)
        yield table


def test_subjects_that_change(small_blocks):
    layout = in_memory().fitted_.problem.layout
    roles = SubjectRoles(2, 3, np.arange(2), layout)
    blocks = SequenceBlocks(Changing(), roles)
    with pytest.raises(ChangedRowsError, match="subjects of the rows have changed"):
        for _ in range(3):
            list(blocks.blocks())


def test_columns_must_be_named():
    rows = as_rows(TABLE)
    with pytest.raises(TypeError, match="y must be the name or the index.*ndarray"):
        bolus().fit(rows, Y, GROUPS)
    with pytest.raises(TypeError, match="groups must be the name.*NoneType"):
        bolus().fit(rows, 2)
    with pytest.raises(ValueError, match="same column"):
        bolus().fit(rows, 2, 2)
    with pytest.raises(ValueError, match="X has 4 columns, got 7"):
        bolus().fit(rows, 7, 3)
    with pytest.raises(TypeError, match="partial_fit learns.*in memory"):
        bolus().partial_fit(rows, 2, 3)
    for method, arguments in (("score", (2, 3)), ("simulate", (3,))):
        with pytest.raises(TypeError, match="in memory"):
            getattr(in_memory(), method)(rows, *arguments)


def test_the_start_is_of_some_subjects():
    blocks = SequenceBlocks(as_rows(TABLE), SubjectRoles(2, 3, np.arange(2)))
    whole = in_memory().fitted_
    laid_out = blocks.with_roles(blocks.roles.laid_out(whole.problem.layout))
    for rows in (laid_out, whole.rows):
        few = rows.few(30)
        assert len(few) == 6 and few.n_rows == 30
        np.testing.assert_array_equal(few.y[-5:], Y[-5:])
        assert len(rows.few(1000)) == 24
