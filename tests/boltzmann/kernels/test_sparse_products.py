"""The product that skips zeros against NumPy's."""

import numpy as np
import pytest

from sktem.boltzmann.kernels.sparse_products import sparse_product
from sktem.boltzmann.machines.layer_operations import (
    COMPILED,
    SPARSE_SHARE,
    _sparse_product,
)


def problem(share, shape=(50, 400), width=130, seed=0):
    rng = np.random.default_rng(seed)
    a = np.where(rng.random(shape) < share, rng.random(shape), 0).astype(np.float32)
    a[3] = 0
    return a, rng.normal(size=(shape[1], width)).astype(np.float32)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.13, 1.0])
@pytest.mark.parametrize("width", [1, 130])
def test_products_up_to_a_limit(share, width):
    a, b = problem(share, width=width)
    count = np.count_nonzero(a)
    # What is beside the arrays is not touched.
    store = np.full((len(a) + 2, width), 7.0, np.float32)
    if count:
        assert not sparse_product(a, b, store[1:-1], count - 1)
        assert (store == 7.0).all()
    assert sparse_product(a, b, store[1:-1], count)
    np.testing.assert_allclose(store[1:-1], a @ b, atol=1e-4)
    assert (store[[0, -1]] == 7.0).all()


def test_nan_and_infinity_are_not_zero():
    a, b = problem(0.1, (9, 70), 64)
    a[5, 69], a[6, 2] = np.nan, np.inf
    out = np.empty((9, 64), np.float32)
    assert sparse_product(a, b, out, a.size)
    with np.errstate(invalid="ignore"):
        expected = np.stack([row[row != 0] @ b[row != 0] for row in a])
    np.testing.assert_allclose(out, expected, atol=1e-5)


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


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_that_begin_with_zeros(order):
    # Few entries where the choice looks first, then all.
    a, b = problem(0.0, (60, 700))
    a[8:, 100:] = 1.0
    a = np.asarray(a, order=order)
    assert not _sparse_product(a, b, np.empty((60, 130), np.float32))
    np.testing.assert_allclose(COMPILED.product(a, b), a @ b, atol=1e-3)


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
