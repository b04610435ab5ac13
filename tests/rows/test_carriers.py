"""The contract of rows of a fit: one set of tests for every kind of carrier."""

import numpy as np
import pytest

from sktem.arrays import TensorRows
from sktem.e_step.batches import new_selector
from sktem.rows import as_rows
from sktem.rows.checked import CheckedRows
from sktem.rows.held import carrier_of
from sktem.rows.partitions import PartitionedRows

X = np.random.default_rng(0).normal(size=(517, 3))
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, 517)
SIZE = 100


def of_array(folder):
    return X


def of_tensors(folder):
    strict = pytest.importorskip("array_api_strict")
    return TensorRows(strict.asarray(X))


def of_memory_map(folder):
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


def of_files(folder):
    np.save(folder / "a.npy", X[:200])
    np.save(folder / "b.npy", X[200:])
    return CheckedRows(as_rows(str(folder / "*.npy")))


def of_chunks(folder):
    chunks = [X[:90], X[90:91], X[91:]]
    return CheckedRows(as_rows(lambda: iter(chunks)))


def of_dask(folder):
    da = pytest.importorskip("dask.array")
    chunks = ((1, 0, 299, 217), -1)
    return PartitionedRows(as_rows(da.from_array(X, chunks=chunks)))


KINDS = [of_array, of_tensors, of_memory_map, of_files, of_chunks, of_dask]


@pytest.fixture(params=KINDS)
def rows(request, tmp_path):
    return carrier_of(request.param(tmp_path))


def moments(block, *, weights):
    block = np.asarray(block)
    weights = np.ones(len(block)) if weights is None else weights
    return weights @ block, float(weights.sum())


def test_shape_and_type(rows):
    assert len(rows) == 517 and tuple(rows.shape) == X.shape
    assert "float64" in str(rows.dtype) and not rows.has_nan
    assert carrier_of(rows) is rows
    assert (rows.array is None) or rows.in_memory


def test_blocks_and_taken_rows(rows):
    blocks = list(rows.blocks(SIZE))
    assert [first for first, _ in blocks] == [0, 100, 200, 300, 400, 500]
    together = np.concatenate([np.asarray(block) for _, block in blocks])
    np.testing.assert_array_equal(together, X)
    chosen = np.array([516, 3, 90, 3, 300])
    np.testing.assert_array_equal(np.asarray(rows.take(chosen)), X[chosen])


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_sums_have_the_bits_of_the_array(rows, weights):
    found = rows.summed(moments, weights, size=SIZE)
    expected = carrier_of(X).summed(moments, weights, size=SIZE)
    close = {"rtol": 1e-14} if rows.is_remote else {"rtol": 0}
    np.testing.assert_allclose(found[0], expected[0], **close)
    np.testing.assert_allclose(found[1], expected[1], **close)
    # The negative control: other weights.
    other = rows.summed(moments, 2 * WEIGHTS, size=SIZE)
    assert abs(other[1] - expected[1]) > 1


def scaled(block, factors=None):
    block = 2 * np.asarray(block)
    return block if factors is None else block * factors[:, None]


@pytest.mark.parametrize("beside", [None, WEIGHTS])
def test_mapped_rows(rows, beside):
    made = rows.mapped(scaled, beside)
    expected = scaled(X, beside)
    assert made.shape == X.shape and made.is_remote == rows.is_remote
    found = np.concatenate([np.asarray(block) for _, block in made.blocks(SIZE)])
    np.testing.assert_array_equal(found, expected)
    chosen = np.array([500, 2])
    np.testing.assert_array_equal(np.asarray(made.take(chosen)), expected[chosen])


def test_batches_visit_each_row_once(rows):
    """In the order of the array where single rows are taken, with values elsewhere."""
    selector, rng = new_selector(rows, 50, "shuffle", None), np.random.default_rng(0)
    seen = []
    for _ in range(11):
        batch = selector.next(rng, rows)
        values = rows.take(batch.rows) if batch.values is None else batch.values
        np.testing.assert_array_equal(np.asarray(values), X[batch.rows])
        assert (batch.values is None) == rows.can_take
        seen.append(batch.rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(517))
