"""Sums over displaced pixels against dense kernels."""

import numpy as np
import pytest

from sktem.models import ImageGrid
from sktem.template.kernels import statistics
from sktem.template.kernels.statistics import template_sums
from tests.template.oracles import SHAPES, Dense, gram_of, grid_of, kernel, points_of

#: Stated error of a kernel.
ERROR = 1e-11

OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def sums(grid, Y, Z, masses):
    counts = grid.template_nodes[:, 2].astype(int)
    cross, middle, head = np.zeros(counts), np.zeros(2 * counts - 1), np.zeros(2)
    template_sums(
        Y, Z, masses, grid.pixels, grid.compiled, grid.template_nodes,
        grid.template_scale**-2, cross, middle, head,
    )  # fmt: skip
    return cross.ravel(), middle.ravel(), head


def images(grid, n, seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, grid.n_pixels))
    Y[rng.random(Y.shape) < missing] = np.nan
    # Columns after the landmarks are not the kernel's business.
    return Y, 0.5 * rng.normal(size=(n, grid.n_latents + 3)), rng.uniform(0.1, 2, n)


def middles(grid):
    return points_of(
        [
            np.sort(np.concatenate([nodes, (nodes[:-1] + nodes[1:]) / 2]))
            for nodes in grid.template_axes
        ]
    )


@OF_SHAPE
def test_sums_are_those_of_the_docstring(shape):
    grid = grid_of(shape)
    Y, Z, masses = images(grid, 4)
    cross, middle, head = sums(grid, Y, Z, masses)
    dense, stated = Dense(grid), [0.0, 0.0, 0.0]
    for y, z, w in zip(Y, Z, masses, strict=True):
        seen = ~np.isnan(y)
        K, seen_y = dense.design(z)[seen], y[seen]
        half = grid.template_scale / np.sqrt(2)
        stated[0] += w * K.T @ seen_y
        stated[1] += w * kernel(dense.moved(z)[seen], middles(grid), half).sum(axis=0)
        stated[2] += w * np.array([seen_y @ seen_y, len(seen_y)])
    for found, expected in zip((cross, middle, head), stated, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.3, 6.0, 25.0])
def test_each_kernel_has_the_stated_error(scale):
    """Images of one pixel each: the sums are its kernels."""
    grid = ImageGrid((67,), (23,), (3,), scale, 20.0)
    Y = np.where(np.eye(67), 1.0, np.nan)
    _, Z, _ = images(grid, 67)
    dense, half = Dense(grid), scale / np.sqrt(2)
    for y, z, place in zip(Y, Z, range(67), strict=True):
        cross, middle, _ = sums(grid, y[None], z[None], np.ones(1))
        moved = dense.moved(z)[place : place + 1]
        np.testing.assert_allclose(cross, dense.design(z)[place], rtol=0, atol=ERROR)
        expected = kernel(moved, middles(grid), half)[0]
        np.testing.assert_allclose(middle, expected, rtol=0, atol=ERROR)


def test_many_places_are_taken_in_parts(monkeypatch):
    grid = ImageGrid((13, 11), (5, 4), (2, 2), 3.0, 5.0)
    Y, Z, masses = images(grid, 2)
    whole = sums(grid, Y, Z, masses)
    monkeypatch.setattr(statistics, "MOST_PLACES", 700)
    for one, two in zip(whole, sums(grid, Y, Z, masses), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-13 * np.abs(one).max())


@OF_SHAPE
@pytest.mark.parametrize("scale", [0.4, 1.6, 20.0])
def test_mid_points_give_the_gram_matrix(shape, scale):
    grid = grid_of(shape, template_scale=scale)
    Y, Z, masses = images(grid, 3)
    _, middle, _ = sums(grid, Y, Z, masses)
    dense, expected = Dense(grid), 0.0
    for y, z, w in zip(Y, Z, masses, strict=True):
        K = dense.design(z)[~np.isnan(y)]
        expected = expected + w * K.T @ K
    found = gram_of(grid, middle)
    bound = ERROR * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)
    assert found.shape == (grid.n_template,) * 2


def test_landmarks_far_apart():
    """Kernels that do not overlap: the products vanish, and nothing overflows."""
    grid = ImageGrid((5,), (3,), (2,), 0.02, 3.0)
    Y, Z, masses = np.ones((1, 5)), np.zeros((1, 2)), np.ones(1)
    _, middle, _ = sums(grid, Y, Z, masses)
    gram = gram_of(grid, middle)
    assert np.isfinite(gram).all()
    K = Dense(grid).design(np.zeros(2))
    np.testing.assert_allclose(gram, K.T @ K, atol=1e-12)
