"""Products that skip zeros against NumPy's."""

import numpy as np
import pytest

from sktem.boltzmann.kernels.sparse_products import (
    list_by_column,
    list_by_row,
    listed_product,
)
from sktem.boltzmann.layer_operations import COMPILED, SPARSE_SHARE, _sparse_product


def problem(share, shape=(50, 400), width=130, seed=0):
    rng = np.random.default_rng(seed)
    a = np.where(rng.random(shape) < share, rng.random(shape), 0).astype(np.float32)
    a[3] = 0
    return a, rng.normal(size=(shape[1], width)).astype(np.float32)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.13])
def test_lists_and_products(share):
    a, b = problem(share)
    for listing, rows in ((list_by_row, a), (list_by_column, a.T.copy())):
        count = np.count_nonzero(a)
        starts = np.empty(51, np.int64)
        places, values = np.empty(count + 401, np.int64), np.empty(count + 401, "f4")
        assert listing(rows, count, starts, places, values)
        np.testing.assert_array_equal(places[:count], np.nonzero(a)[1])
        np.testing.assert_array_equal(values[:count], a[np.nonzero(a)])
        counts = (a != 0).sum(axis=1)
        np.testing.assert_array_equal(starts, np.concatenate([[0], counts.cumsum()]))
        out = np.full((50, 130), np.nan, np.float32)
        listed_product(starts, places, values, b, out)
        np.testing.assert_allclose(out, a @ b, atol=1e-5)
        if count:
            assert not listing(rows, count - 1, starts, places, values)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("share", [0.1, 0.9 * SPARSE_SHARE, 1.1 * SPARSE_SHARE, 1.0])
def test_the_choice_does_not_show(share, order):
    a, b = problem(share)
    a = np.asarray(a, order=order)
    out = np.empty((50, 130), np.float32)
    assert _sparse_product(a, b, out) == (np.count_nonzero(a) <= SPARSE_SHARE * a.size)
    np.testing.assert_allclose(COMPILED.product(a, b), a @ b, atol=1e-4)
    into = np.empty_like(out)
    assert COMPILED.product(a, b, into) is into
    np.testing.assert_allclose(into, a @ b, atol=1e-4)


def test_other_shapes_and_types():
    a, b = problem(0.1)
    for x, y in (
        (a[:3], b),
        (a.astype(float), b.astype(float)),
        (a.astype(float), b),
        (a[:, ::2], b[::2]),
        (a, b[:, 1:]),
    ):
        found = COMPILED.product(x, y)
        assert found.dtype == (x @ y).dtype
        np.testing.assert_allclose(found, x @ y, atol=1e-5)
