"""Products of zeros and ones against NumPy's, in float64."""

import os
import subprocess
import sys

import numpy as np
import pytest

from sktem.boltzmann.kernels.binary_products import (
    COLUMNS,
    ROWS,
    TABLES,
    code_rows,
    coded_product,
)
from sktem.boltzmann.machines.layer_operations import (
    COMPILED,
    SIZES,
    _coded_product,
    _suits_codes,
)

DEPTH = 4 * TABLES


def problem(n, k, m, seed=0):
    rng = np.random.default_rng(seed)
    a = (rng.random((n, k)) < 0.5).astype(np.float32)
    return a, rng.normal(size=(k, m)).astype(np.float32)


def coded(a):
    codes = np.full((len(a), -(-a.shape[1] // 4)), 255, np.uint8)
    return codes, code_rows(a, codes)


@pytest.mark.parametrize("k", [1, 4, 7, 64, 66])
def test_codes(k):
    a, _ = problem(20, k, 1)
    codes, binary = coded(a)
    assert binary
    padded = np.pad(a, ((0, 0), (0, -k % 4)))
    np.testing.assert_array_equal(codes, padded.reshape(20, -1, 4) @ [1, 2, 4, 8])


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0, 1e-30, 1e30, np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 3, 8, 9])
def test_what_is_no_zero_and_no_one_is_found(value, place):
    a, _ = problem(5, 10, 1)
    a[3, place] = value
    assert not coded(a)[1]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("n", "k", "m"),
    [
        (1, 1, 1),
        (3, DEPTH, COLUMNS),
        (5, DEPTH + 1, COLUMNS + 1),
        (2, 2 * DEPTH - 3, 2 * COLUMNS - 5),
        (7, DEPTH + 13, 9),
        (ROWS, 40, 8),
        (ROWS + 1, 3, 70),
        (2 * ROWS + 9, 3 * DEPTH, COLUMNS),
    ],
)
def test_products(n, k, m, transposed):
    a, b = problem(n, k, m)
    # What is beside the arrays is not touched, and does not count.
    store = np.full((n + 2, m), np.nan, np.float32)
    held = np.full((k + 2, m) if not transposed else (m + 2, k), np.nan, np.float32)
    held[1:-1] = b.T if transposed else b
    coded_product(coded(a)[0], held[1:-1], transposed, store[1:-1])
    np.testing.assert_allclose(store[1:-1], a @ b.astype(float), atol=2e-6 * k + 1e-5)
    assert np.isnan(store[[0, -1]]).all()


def test_shapes_that_do_not_fit():
    a, b = problem(6, 10, 8)
    codes, out = coded(a)[0], np.empty((6, 8), np.float32)
    coded_product(codes, b, False, out)
    for arguments in (
        (codes[:, :-1].copy(), b, False, out),
        (codes, b, True, out),
        (codes, b, False, out[:5]),
        (codes, b, False, np.empty((6, 9), np.float32)),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            coded_product(*arguments)


SIZES = (SIZES.fewest_coded, SIZES.shallowest_coded + 5, SIZES.narrowest_coded + 3)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_the_choice_does_not_show(order, share):
    a, b = problem(*SIZES)
    rng = np.random.default_rng(1)
    a = np.where(rng.random(a.shape) < share, rng.random(a.shape), a).astype("f4")
    b = np.asarray(b, order=order)
    out = np.full((len(a), b.shape[1]), np.nan, np.float32)
    assert _suits_codes(a, b, out)
    assert _coded_product(a, b, out) == (share == 0)
    expected = a @ b.astype(float)
    np.testing.assert_allclose(COMPILED.product(a, b), expected, atol=1e-4)
    # Every second column of wider states, and a part of larger results.
    wide = np.repeat(a, 2, axis=1)
    np.testing.assert_allclose(COMPILED.product(wide[:, ::2], b), expected, atol=1e-4)
    into = np.zeros((len(a), 2 * b.shape[1]), np.float32)
    COMPILED.product(a, b, into[:, 5 : 5 + b.shape[1]])
    np.testing.assert_allclose(into[:, 5 : 5 + b.shape[1]], expected, atol=1e-4)
    assert not into[:, :5].any() and not into[:, 5 + b.shape[1] :].any()


def test_other_kinds_are_left_to_blas():
    a, b = problem(*SIZES)
    out = np.zeros((len(a), b.shape[1]), np.float32)
    for x, y, z in (
        (a[:-1], b, out[:-1]),
        (a.astype(float), b, out),
        (a, b.astype(float), out),
        (a, b, out.astype(float)),
        (a, b[:, ::2], out[:, ::2]),
        (a[:, :100], b[:100], out),
        (a, b[:, :-4].copy(), out[:, :-4].copy()),
    ):
        assert not _suits_codes(x, y, z)
        np.testing.assert_allclose(COMPILED.product(x, y), x @ y, atol=1e-4)


CHURN = """
import threading
import numpy as np
from sktem.boltzmann.kernels.binary_products import TABLES, code_rows, coded_product

rng = np.random.default_rng(0)
a = (rng.random((256, 784)) < 0.5).astype(np.float32)
b = rng.normal(size=(784, 500)).astype(np.float32)
codes, out = np.empty((256, 196), np.uint8), np.empty((256, 500), np.float32)
code_rows(a, codes)

def multiply():
    for _ in range(20):
        coded_product(codes, b, False, out)

thread = threading.Thread(target=multiply)
thread.start()
while thread.is_alive():
    # As large as the tables of the product, or a little larger.
    others = [np.full(512 * TABLES + 16, 7.0, np.float32) for _ in range(20)]
    assert all((other == 7.0).all() for other in others)
np.testing.assert_allclose(out, a @ b, atol=1e-3)
"""


def test_tables_are_not_freed_while_they_are_used():
    # All threads get their memory from one arena of glibc: what one of them has freed
    # is what another one gets.
    env = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    subprocess.run([sys.executable, "-c", CHURN], check=True, env=env)
