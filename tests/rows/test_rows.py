"""Every source gives the rows of the array, on every pass, in aligned blocks."""

import numpy as np
import pytest

from sktem import StochasticEMGaussianMixture
from sktem.rows import Rows, as_rows
from sktem.rows.checked import CheckedRows, check_columns, checked_blocks
from sktem.rows.sources import found_rows
from tests.rows.adapters import ADAPTERS, Chunked, names_of, table

X = np.random.default_rng(0).normal(size=(517, 3))


@pytest.fixture(params=sorted(ADAPTERS))
def source(request, tmp_path):
    return as_rows(ADAPTERS[request.param](X, tmp_path))


def joined(blocks):
    return np.concatenate([np.asarray(block) for _, block in blocks])


def test_every_pass_gives_the_rows(source):
    for size in (100, 1, 10_000):
        blocks = [(first, np.array(block)) for first, block in source.blocks(size)]
        assert [first for first, _ in blocks] == list(range(0, 517, size))
        assert {len(block) for _, block in blocks[:-1]} <= {size}
        np.testing.assert_array_equal(joined(blocks), X)


def test_columns_and_number(source):
    assert source.n_columns == 3
    assert source.dtype == np.float64
    assert source.n_rows in (None, 517)
    assert source.names in (None, names_of(X))


def test_pieces_are_the_rows(source):
    pieces = [list(source.piece(index)) for index in range(source.n_pieces)]
    np.testing.assert_array_equal(np.concatenate([c for p in pieces for c in p]), X)
    assert all(isinstance(source.where(i), str) for i in range(source.n_pieces))


def test_take(source):
    rows = np.array([516, 3, 3, 200, 0])
    if source.can_take:
        np.testing.assert_array_equal(source.take(rows), X[rows])
    else:
        with pytest.raises(TypeError, match="in order only"):
            source.take(rows)


def test_checked_rows_stand_for_the_array(source):
    rows = CheckedRows(source)
    assert rows.shape == X.shape and len(rows) == 517 and rows.dtype == X.dtype
    np.testing.assert_array_equal(joined(rows.blocks(128)), X)
    chosen = np.array([[516, 3], [3, 200]])
    np.testing.assert_array_equal(rows.take(chosen), X[chosen])
    assert rows.digest() == CheckedRows(as_rows(X)).digest()
    assert rows.digest() != CheckedRows(as_rows(X[::-1])).digest()


def test_buffers_read_pieces_in_any_order(source):
    rows = CheckedRows(source)
    order = np.random.default_rng(1).permutation(source.n_pieces)
    sizes = (100, 17, 300, 100)
    seen = []
    for (indices, values), size in zip(rows.buffers(order, sizes), sizes, strict=True):
        assert len(indices) == size and (np.diff(indices) > 0).all()
        np.testing.assert_array_equal(values, X[indices])
        seen.append(indices)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(517))


@pytest.mark.parametrize(
    "X",
    [
        np.ones((3, 2)),
        [[1, 2], [3, 4]],
        [],
        [1, 2],
        None,
        3,
        np.ones(3),
        {"a": 1},
    ],
)
def test_what_scikit_learn_takes_is_left_to_it(X):
    assert found_rows(X) is None


def test_frames_in_memory_are_left_to_scikit_learn():
    for name in ("pandas", "polars"):
        frames = pytest.importorskip(name)
        assert found_rows(frames.DataFrame({"a": [1.0, 2.0]})) is None


def test_memory_map_is_read_by_blocks_only_if_it_would_be_copied(tmp_path):
    for dtype, order, by_blocks in (
        ("f4", "C", False),
        ("f8", "C", False),
        ("f4", "F", True),
        ("i2", "C", True),
    ):
        np.save(tmp_path / "rows.npy", np.asarray(X, dtype=dtype, order=order))
        rows = found_rows(np.load(tmp_path / "rows.npy", mmap_mode="r"))
        assert (rows is not None) == by_blocks


def test_iterators_are_refused():
    with pytest.raises(TypeError, match="only once.*partial_fit"):
        as_rows(iter([X]))
    reader = table(X).to_reader()
    with pytest.raises(TypeError, match="RecordBatchReader.*partial_fit"):
        as_rows(reader)


def test_function_that_returns_the_same_iterator():
    chunks = iter([X[:300], X[300:]])
    rows = CheckedRows(as_rows(lambda: chunks))
    with pytest.raises(ValueError, match="new iterator at each call"):
        list(rows.blocks())


@pytest.mark.parametrize("change", [-1, 1])
def test_length_that_changes_between_passes(change):
    parts = [X[:300], X[300:400]]
    rows = CheckedRows(Chunks(parts))
    parts[1] = X[300 : 400 + change]
    with pytest.raises(ValueError, match="piece 1 of X gave 100 rows at first"):
        list(rows.blocks())


class Chunks(Rows):
    def __init__(self, parts):
        self.parts, self.n_pieces = parts, len(parts)

    def piece(self, index):
        yield self.parts[index]


def test_files_that_change(tmp_path):
    np.save(tmp_path / "a.npy", X)
    rows = CheckedRows(as_rows(tmp_path / "a.npy"))
    np.save(tmp_path / "a.npy", X[:100])
    with pytest.raises(ValueError, match=r"a\.npy has changed its length"):
        list(rows.blocks())
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table(X), tmp_path / "a.parquet")
    rows = CheckedRows(as_rows(tmp_path / "a.parquet"))
    parquet.write_table(table(X[:100]), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet gave 517 rows at first and 100"):
        list(rows.blocks())


@pytest.mark.parametrize("value, what", [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_errors_name_the_row(value, what):
    wrong = X.copy()
    wrong[403, 1] = value
    message = f"Input X contains {what}: in row 403, column 1 \\(piece 2 of X\\)"
    source = Chunks([wrong[:100], wrong[100:400], wrong[400:]])
    with pytest.raises(ValueError, match=message):
        CheckedRows(source)
    with pytest.raises(ValueError, match=message):
        list(checked_blocks(source, 3))


def test_wrong_chunks():
    for parts, message in (
        ([X, X[:, :2]], "piece 1 of X has 2 columns, expected 3"),
        ([X, X[:, 0]], "chunks of shape .*expected 2 dimensions"),
        ([X, X.astype(complex)], "Complex data not supported"),
        ([X, X.astype(str).astype(object) + "a"], r"in the columns \[0, 1, 2\]"),
    ):
        with pytest.raises(ValueError, match=message):
            CheckedRows(Chunks(parts))


def test_missing_values_and_text_in_tables():
    pyarrow = pytest.importorskip("pyarrow")
    missing = pyarrow.table({"a": [1.0, 2.0, 3.0], "b": [1, None, 3]})
    with pytest.raises(ValueError, match="contains NaN: in row 1, column 1"):
        CheckedRows(as_rows(missing))
    text = pyarrow.table({"a": [1.0, 2.0], "b": ["x", "y"]})
    with pytest.raises(ValueError, match=r"columns \['b'\] of X do not hold numbers"):
        CheckedRows(as_rows(text))


def test_missing_values_of_pandas_in_chunks():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.array([1, None, 3]), "b": [1.5, 2.0, 2.5]})
    rows = CheckedRows(as_rows(lambda: iter([frame])), allow_nan=True)
    np.testing.assert_array_equal(rows.take([1, 2]), [[np.nan, 2.0], [3.0, 2.5]])
    with pytest.raises(ValueError, match="contains NaN: in row 1, column 0"):
        CheckedRows(as_rows(lambda: iter([frame])))
    words = frame.assign(c=list("xyz"))
    with pytest.raises(ValueError, match=r"numbers in the columns \['c'\]"):
        CheckedRows(as_rows(lambda: iter([words])))


def test_chunks_with_other_names():
    pandas = pytest.importorskip("pandas")
    parts = [pandas.DataFrame(X, columns=list(names)) for names in ("abc", "acb")]
    with pytest.raises(ValueError, match=r"chunk 1 has the columns \['a', 'c', 'b'\]"):
        CheckedRows(as_rows(parts))


def test_parquet_files_with_other_columns(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table(X), tmp_path / "a.parquet")
    parquet.write_table(table(X[:, :2]), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet has the columns \['x0', 'x1'\]"):
        as_rows(tmp_path)


def test_paths_that_name_nothing(tmp_path):
    with pytest.raises(ValueError, match="found no file"):
        as_rows(str(tmp_path / "*.parquet"))
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"found files ending with \['\.csv'\]"):
        as_rows(tmp_path / "a.csv")


def test_types_of_chunks_are_joined():
    single = X.astype(np.float32)
    for parts, dtype in (
        ([single, single], np.float32),
        ([single, X], np.float64),
        ([single.astype(int)], np.float64),
        ([single.astype(np.float16)], np.float64),
    ):
        rows = CheckedRows(Chunks(parts))
        assert rows.dtype == dtype
        assert {block.dtype for _, block in rows.blocks()} == {np.dtype(dtype)}


def test_reused_buffer():
    def chunks():
        buffer = np.empty((100, 3))
        for start in range(0, 500, 100):
            buffer[:] = X[start : start + 100]
            yield buffer

    rows = CheckedRows(as_rows(chunks))
    np.testing.assert_array_equal(rows.take(np.arange(500)), X[:500])
    blocks = [block.copy() for _, block in rows.blocks(70)]
    np.testing.assert_array_equal(np.concatenate(blocks), X[:500])


def test_names_are_those_of_fit(tmp_path):
    class Estimator:
        pass

    estimator = Estimator()
    check_columns(estimator, as_rows(table(X)), reset=True)
    assert list(estimator.feature_names_in_) == names_of(X)
    other = table(X).rename_columns(["x0", "x2", "x1"])
    with pytest.raises(ValueError, match="feature names should match"):
        check_columns(estimator, as_rows(other), reset=False)
    with pytest.raises(ValueError, match="X has 2 features, but Estimator is expecti"):
        check_columns(estimator, as_rows(X[:, :2]), reset=False)
    check_columns(estimator, as_rows(X), reset=True)
    assert not hasattr(estimator, "feature_names_in_")


def test_nothing_can_be_read():
    with pytest.raises(TypeError, match="rows cannot be read from object"):
        as_rows(object())


def test_a_dropped_piece_is_noticed():
    rows = CheckedRows(Chunked(X, dropped=1))
    assert len(rows) < 517


def test_lists_of_paths_are_read_in_their_order(tmp_path):
    for name, rows in (("b", X[:200]), ("a", X[200:300]), ("c", X[300:])):
        np.save(tmp_path / f"{name}.npy", rows)
    paths = [str(tmp_path / "b.npy"), tmp_path / "a.npy", str(tmp_path / "[c]*.npy")]
    np.testing.assert_array_equal(joined(as_rows(paths).blocks(100)), X)
    with pytest.raises(ValueError, match="do not exist: .*d.npy"):
        as_rows([*paths, tmp_path / "d.npy"])
    with pytest.raises(ValueError, match="all end with"):
        as_rows([tmp_path / "b.npy", __file__])


@pytest.mark.parametrize("spoilt", [b"", b"words", "short", "objects"])
def test_files_that_are_no_arrays_are_named(tmp_path, spoilt):
    path = tmp_path / "spoilt.npy"
    np.save(path, X.astype(object) if spoilt == "objects" else X)
    if isinstance(spoilt, bytes):
        path.write_bytes(spoilt)
    elif spoilt == "short":
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"spoilt\.npy is no \.npy file of numbers"):
        as_rows(path)


def test_out_has_the_shape_and_type_of_the_answers():
    mixture = StochasticEMGaussianMixture(2, random_state=0, tol=0.1).fit(X)
    chunks = [X[:200], X[200:]]
    for dtype in (np.uint8, np.float32, np.int64):
        labels = mixture.predict(chunks, out=np.empty(517, dtype))
        np.testing.assert_array_equal(labels, mixture.predict(X))
    with pytest.raises(ValueError, match="out holds int64, and answers are float64"):
        mixture.predict_proba(chunks, out=np.empty((517, 2), np.int64))
    for shape in ((517,), (517, 3), (517, 1)):
        with pytest.raises(ValueError, match=r"has shape \(2,\)"):
            mixture.predict_proba(chunks, out=np.empty(shape))
