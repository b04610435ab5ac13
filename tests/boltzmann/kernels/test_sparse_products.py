"""Products that skip zeros against NumPy's."""

import numpy as np
import pytest

from sktem.boltzmann.kernels.sparse_products import (
    STRIPE,
    list_by_column,
    list_by_row,
    listed_product,
)
from sktem.boltzmann.machines.layer_operations import (
    COMPILED,
    SIZES,
    _sparse_product,
)

#: Share of entries that are not zero, at most.
LIMIT = SIZES.sparse_share


def problem(share, shape=(50, 400), width=130, seed=0):
    rng = np.random.default_rng(seed)
    a = np.where(rng.random(shape) < share, rng.random(shape), 0).astype(np.float32)
    a[3] = 0
    return a, rng.normal(size=(shape[1], width)).astype(np.float32)


@pytest.mark.parametrize("n", [50, 400])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.13])
def test_lists_and_products(share, n):
    a, b = problem(share, (n, 400))
    for listing, rows in ((list_by_row, a), (list_by_column, a.T.copy())):
        count = np.count_nonzero(a)
        starts = np.empty(n + 1, np.int64)
        places, values = np.empty(count + 401, np.int64), np.empty(count + 401, "f4")
        assert listing(rows, count, starts, places, values)
        np.testing.assert_array_equal(places[:count], np.nonzero(a)[1])
        np.testing.assert_array_equal(values[:count], a[np.nonzero(a)])
        counts = (a != 0).sum(axis=1)
        np.testing.assert_array_equal(starts, np.concatenate([[0], counts.cumsum()]))
        out = np.full((n, 130), np.nan, np.float32)
        listed_product(starts, places, values, b, out)
        np.testing.assert_allclose(out, a @ b, atol=1e-5)
        if count:
            assert not listing(rows, count - 1, starts, places, values)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("share", [0.1, 0.9 * LIMIT, 1.1 * LIMIT, 1.0])
def test_the_choice_does_not_show(share, order):
    a, b = problem(share)
    a = np.asarray(a, order=order)
    out = np.empty((50, 130), np.float32)
    assert _sparse_product(a, b, out) == (np.count_nonzero(a) <= LIMIT * a.size)
    np.testing.assert_allclose(COMPILED.product(a, b), a @ b, atol=1e-4)
    into = np.empty_like(out)
    assert COMPILED.product(a, b, into) is into
    np.testing.assert_allclose(into, a @ b, atol=1e-4)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(60, 700), (700, 60)])
def test_lists_that_are_too_long(shape, order):
    # Few entries at first, then all: a whole row may be listed beyond the limit.
    a, b = problem(0.0, shape)
    a[:, shape[1] // 8 :] = a[shape[0] // 8 :] = 1.0
    a = np.asarray(a, order=order)
    out = np.empty((shape[0], b.shape[1]), np.float32)
    a[:4], a[:, :4] = 0.0, 0.0
    assert not _sparse_product(a, b, out)
    np.testing.assert_allclose(COMPILED.product(a, b), a @ b, atol=1e-3)


@pytest.mark.parametrize("transposed", [False, True])
def test_lists_without_room(transposed):
    a, _ = problem(0.1)
    listing, rows = (list_by_column, a.T.copy()) if transposed else (list_by_row, a)
    room = 100 + rows.shape[1] - 1
    places, values = np.empty(room, np.int64), np.empty(room, np.float32)
    with pytest.raises(ValueError, match="no room"):
        listing(rows, 100, np.empty(51, np.int64), places, values)


@pytest.mark.parametrize("width", [STRIPE, STRIPE + 1, 2 * STRIPE, 3 * STRIPE - 1])
def test_widths(width):
    # NaN and infinity are not zero; what is beside the arrays is not touched.
    a, b = problem(0.1, (9, 70), width)
    a[5, 69], a[6, 2] = np.nan, np.inf
    starts, room = np.empty(10, np.int64), 9 * 70 + 71
    places, values = np.empty(room, np.int64), np.empty(room, np.float32)
    assert list_by_row(a, 9 * 70, starts, places, values)
    store = np.full((11, width), 7.0, np.float32)
    listed_product(starts, places, values, b, store[1:-1])
    with np.errstate(invalid="ignore"):
        expected = np.stack([row[row != 0] @ b[row != 0] for row in a])
    np.testing.assert_allclose(store[1:-1], expected, atol=1e-5)
    assert (store[[0, -1]] == 7.0).all()
    assert not store[4].any()


def test_shapes_that_do_not_fit():
    a, b = problem(0.1, (4, 10), STRIPE)
    starts, room = np.empty(5, np.int64), 51
    places, values = np.empty(room, np.int64), np.empty(room, np.float32)
    list_by_row(a, 40, starts, places, values)
    out = np.empty((4, STRIPE), np.float32)
    for other, into in (
        (b, out[:3]),
        (b, np.empty((4, STRIPE + 1), np.float32)),
        (b[:, :-1].copy(), out[:, :-1].copy()),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            listed_product(starts, places, values, other, into)


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
