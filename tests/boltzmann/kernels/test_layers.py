"""The elementwise kernels of layers against the NumPy expressions that they state."""

import numpy as np
import pytest

from sktem.boltzmann.kernels.layers import (
    draw_from_means,
    draw_normals,
    draw_units,
    mean_units,
    softplus_differences,
)
from tests.kernels.test_counter import reference_hashed, reference_mixed

SEED, STEP, FIRST = 5, 2, 3


def uniforms(n, m):
    keys = [reference_mixed(SEED, STEP, FIRST + row) for row in range(n)]
    hashes = np.array([reference_hashed(key, np.arange(m)) for key in keys])
    return (hashes + 0.5) / 2**24


def arguments(n):
    return np.uint64(SEED), np.uint64(STEP), FIRST + np.arange(n)


def fields(n=20, m=37):
    rng = np.random.default_rng(0)
    values = rng.normal(0, 3, (n, m)).astype(np.float32)
    return values, rng.normal(size=m).astype(np.float32)


@pytest.mark.parametrize("first", [0, 5])
def test_draws(first):
    values, biases = fields()
    p = 1 / (1 + np.exp(-(values[:, first:].astype(float) + biases[first:])))
    u = uniforms(*p.shape)
    assert np.abs(u - p).min() > 1e-6
    found = values.copy()
    draw_units(found, first, biases[first:], *arguments(len(values)))
    np.testing.assert_array_equal(found[:, first:], u < p)
    np.testing.assert_array_equal(found[:, :first], values[:, :first])


def test_means_and_draws_from_them():
    values, biases = fields()
    expected = 1 / (1 + np.exp(-(values.astype(float) + biases)))
    mean_units(values, biases)
    np.testing.assert_allclose(values, expected, atol=1e-6)
    out = np.empty_like(values)
    draw_from_means(out, values, *arguments(len(values)))
    np.testing.assert_array_equal(out, uniforms(*values.shape) < values)


def test_normal_draws_have_their_moments():
    n = 40_000
    values = np.tile(np.float32([0.5, -1.0, 7.0]), (n, 1))
    biases, precisions = np.float32([0.5, 0.0]), np.float32([4.0, 0.25])
    draw_normals(values, biases, precisions, *arguments(len(values)))
    assert (values[:, 2] == 7).all()
    mean, sd = np.array([0.25, -4.0]), np.array([0.5, 2.0])
    z = (values[:, :2] - mean) / sd
    assert (np.abs(z.mean(axis=0)) < 4 / np.sqrt(n)).all()
    assert (np.abs((z**2).mean(axis=0) - 1) < 4 * np.sqrt(2 / n)).all()
    assert (np.abs((z**4).mean(axis=0) - 3) < 4 * np.sqrt(96 / n)).all()
    assert abs((z[:, 0] * z[:, 1]).mean()) < 4 / np.sqrt(n)
    assert (np.abs((z[1:] * z[:-1]).mean(axis=0)) < 4 / np.sqrt(n)).all()


def test_differences_of_softplus():
    rng = np.random.default_rng(0)
    one, other = rng.normal(0, 10, (2, 8, 45)).astype(np.float32)
    old, new = np.float32([0.2, 0.8]), np.float32([0.9, 0.1])
    sums = [
        np.logaddexp(0, a * one.astype(float) + b * other).sum(axis=1)
        for a, b in (old, new)
    ]
    found = softplus_differences(one, other, old, new)
    np.testing.assert_allclose(found, sums[1] - sums[0], atol=2e-4)
