"""Pixels, landmarks and kernels of images."""

import pickle

import numpy as np
import pytest

from sktem.models import ImageGrid
from tests.template.oracles import SHAPES, Dense, grid_of, kernel, square

OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def test_coordinates_are_pixels_about_the_centre():
    grid = ImageGrid((4, 3), (5, 3), (4, 2), 1.0, 2.0)
    np.testing.assert_array_equal(grid.pixel_axes[0], [-1.5, -0.5, 0.5, 1.5])
    np.testing.assert_array_equal(grid.pixel_axes[1], [-1, 0, 1])
    # Displacements cover the image, the template half of its longest half more.
    np.testing.assert_allclose(grid.deformation_axes[0], [-1.5, -0.5, 0.5, 1.5])
    np.testing.assert_allclose(grid.deformation_axes[1], [-1, 1])
    np.testing.assert_allclose(grid.template_axes[0], np.linspace(-2.25, 2.25, 5))
    np.testing.assert_allclose(grid.template_axes[1], [-1.75, 0, 1.75])
    # The last axis is the fastest, as in the rows of images.
    np.testing.assert_array_equal(
        grid.pixels[:, :4], [[-1.5] * 3 + [-0.5], [-1, 0, 1, -1]]
    )
    sizes = (grid.n_pixels, grid.n_template, grid.n_places, grid.n_latents)
    assert sizes == (12, 15, 8, 16)
    alone = ImageGrid((1,), (1,), (1,), 1.0, 1.0)
    assert alone.template_axes[0] == alone.deformation_axes[0] == [0.0]


@OF_SHAPE
def test_kernels_are_those_of_dense_matrices(shape):
    grid, dense = grid_of(shape), Dense(grid_of(shape))
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3, grid.n_latents))
    fields = [(dense.pixels - dense.moved(z)).T.reshape(-1, *shape) for z in Z]
    np.testing.assert_allclose(grid.field(Z), fields, rtol=1e-12, atol=1e-13)
    positions = rng.normal(size=(grid.n_axes, 11))
    K = kernel(positions.T, dense.nodes, grid.template_scale)
    beta = rng.normal(size=grid.n_template)
    found = grid.template_at(beta, positions)
    np.testing.assert_allclose(found, K @ beta, rtol=1e-12, atol=1e-13)
    K = kernel(positions.T, dense.places, grid.deformation_width)
    expected = Z[0].reshape(grid.n_axes, -1) @ K.T
    np.testing.assert_allclose(grid.field_at(Z[0], positions), expected, rtol=1e-11)
    gram = kernel(dense.nodes, dense.nodes, grid.template_scale)
    np.testing.assert_allclose(square(grid.grams.of_landmarks), gram, atol=1e-12)


@OF_SHAPE
def test_fields_at_other_points(shape):
    grid = grid_of(shape)
    Z = np.random.default_rng(1).normal(size=(2, grid.n_latents))
    points = [np.linspace(-1, 1, 4 + axis) for axis in range(grid.n_axes)]
    found = grid.field(Z, points)
    assert found.shape == (2, grid.n_axes, *map(len, points))
    mesh = np.stack([a.ravel() for a in np.meshgrid(*points, indexing="ij")])
    for z, field in zip(Z, found, strict=True):
        np.testing.assert_allclose(
            field.reshape(grid.n_axes, -1), grid.field_at(z, mesh), atol=1e-12
        )


@OF_SHAPE
def test_jacobians(shape):
    """The determinants of finite differences of ``x - Phi(x)``."""
    grid = grid_of(shape)
    Z = np.random.default_rng(2).normal(size=(4, grid.n_latents))
    expected = []
    for z in Z:
        columns = []
        for axis in range(grid.n_axes):
            shift = 1e-5 * (np.arange(grid.n_axes) == axis)[:, None]
            right = grid.pixels + shift - grid.field_at(z, grid.pixels + shift)
            left = grid.pixels - shift - grid.field_at(z, grid.pixels - shift)
            columns.append((right - left) / 2e-5)
        expected.append(np.linalg.det(np.stack(columns, axis=-1).swapaxes(0, 1)).min())
    np.testing.assert_allclose(
        grid.jacobians(Z).min(axis=1), expected, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(grid.jacobians(np.zeros((1, grid.n_latents))), 1)


def test_a_fold_has_a_negative_jacobian():
    grid = ImageGrid((9,), (5,), (2,), 1.0, 2.0)
    Z = np.array([[-9.0, 9.0]])  # pixels of both halves cross over to the other
    moved = grid.pixel_axes[0] - grid.field(Z)[0, 0]
    assert (np.diff(moved) < 0).any()
    assert grid.jacobians(Z).min() < 0
    assert grid.jacobians(Z / 100).min() > 0.9


def test_pickles():
    grid = grid_of((7, 4))
    before = grid.compiled, grid.pairs, grid.smooth_covariance
    again = pickle.loads(pickle.dumps(grid))
    after = again.compiled, again.pairs, again.smooth_covariance
    for one, two in zip(before[0], after[0], strict=True):
        np.testing.assert_array_equal(one, two)
    assert type(after[0]).__name__ == "Grid"
