"""Rows in registers, and the NumPy expressions that they equal."""

import numpy as np
import pytest
from numba import njit

from sktem.kernels import vectors


@njit
def every(like, arrays, matrices, found):
    """Store results of all functions of two rows."""
    x, y = vectors.load(like, arrays, 0), vectors.load(like, arrays, 1)
    vectors.store(found, 0, vectors.multiply(x, y))
    vectors.store(found, 1, vectors.scaled(x, 3.0))
    vectors.store(found, 2, vectors.times(x, matrices, 1))
    vectors.store(found, 3, vectors.counted(y, x, 0.2, y, 0.1))
    vectors.store(found, 4, vectors.add(x, vectors.multiply(y, y)))
    vectors.store(found, 5, vectors.zeros(like))
    vectors.store(found, 6, vectors.shifted(x, 3.0))
    return vectors.total(x), vectors.largest(y)


@pytest.mark.parametrize("width", [4, 8])
def test_rows(width):
    rng = np.random.default_rng(0)
    x, y = arrays = rng.normal(size=(2, width))
    y[0], x[0] = np.nan, 0.1  # NaN is not below
    matrices, found = rng.normal(size=(2, 3, width, width)), np.empty((7, width))
    total, largest = every((0.0,) * width, arrays, matrices, found)
    count = (x < 0.2) & ~(y < 0.1)
    assert 0 < count.sum() < width and count[0]
    expected = [x * y, 3 * x, x @ matrices[1, 0], y + count]
    expected += [x + y * y, 0 * x, x - 3]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    assert largest == np.nanmax(y)
    assert total == pytest.approx(x.sum(), rel=1e-13)


@njit
def exponentials(like, arrays, found):
    """Store the exponentials of rows."""
    for t in range(len(arrays)):
        vectors.store(found, t, vectors.exponentials(vectors.load(like, arrays, t)))


@pytest.mark.parametrize("width", [4, 8])
def test_exponentials(width):
    special = [-np.inf, np.nan, -800.0, -0.0]
    values = np.concatenate([np.linspace(-707, 0, 1020), special])
    rows, found = values.reshape(-1, width), np.empty((len(values) // width, width))
    exponentials((0.0,) * width, rows, found)
    expected = np.nan_to_num(np.exp(rows), nan=0.0)
    np.testing.assert_allclose(found, expected, rtol=3e-16, atol=0)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(found, expected * (1 + 1e-15), rtol=3e-16, atol=0)
