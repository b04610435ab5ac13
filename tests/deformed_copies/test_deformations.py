"""Random deformations of images, against their law and their definition."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.ndimage import map_coordinates

from sktem.deformed_copies.deformations import Deformations, Sizes, kept_variance
from tests.oracles import LIMIT

OF_SHAPE = pytest.mark.parametrize("shape", [(5,), (7, 4), (3, 4, 5)], ids=str)
STILL = Sizes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def covariance_of_linear_maps(law):
    """Return the covariance of the displacements, entry by entry of the maps."""
    sizes, points = law.sizes, law.points
    d = len(points)
    entries = np.zeros((d, d, d, d))
    for i in range(d):
        for j in range(d):
            entries[i, i, j, j] += sizes.scale**2
            entries[i, i, j, j] += sizes.stretch**2 * ((i == j) - 1 / d)
            if i != j:
                entries[i, j, i, j] += sizes.rotation**2 + sizes.shear**2
                entries[i, j, j, i] += sizes.shear**2 - sizes.rotation**2
    found = np.einsum("abcd,bu,dv->aucv", entries, points, points)
    return found.reshape(d * points.shape[1], -1)


@OF_SHAPE
def test_displacements_have_the_covariance_of_their_law(shape):
    sizes = Sizes(0.1, 0.2, 0.15, 0.12, 0.3, 0.4)
    law, n = Deformations(shape, sizes, 2.0), 4000
    drawn = law.displacements(n, np.random.default_rng(0)).reshape(n, -1)
    gaps = law.points[:, :, None] - law.points[:, None]
    smooth = sizes.field**2 * np.exp(-0.5 * (gaps**2).sum(axis=0) / 2.0**2)
    smooth = block_diag(*[smooth + sizes.shift**2] * len(shape))
    expected = covariance_of_linear_maps(law) + smooth
    variances = np.diag(expected)
    error = np.sqrt((np.outer(variances, variances) + expected**2) / n)
    found = drawn.T @ drawn / n
    assert (np.abs(found - expected) < LIMIT * error).all()
    # Negative control: without the linear maps.
    assert (np.abs(found - smooth) > LIMIT * error).any()
    assert np.abs(drawn.mean(axis=0)).max() < LIMIT * np.sqrt(variances.max() / n)


def test_draws_do_not_depend_on_the_sizes():
    one, two = (
        Deformations((6, 5), STILL._replace(shift=size), 2.0).displacements(
            4, np.random.default_rng(0)
        )
        for size in (1.0, 3.0)
    )
    np.testing.assert_allclose(3 * one, two)


def test_given_fields_are_combined():
    rng = np.random.default_rng(0)
    fields = rng.normal(size=(3, 2, 6, 5))
    law = Deformations((6, 5), STILL._replace(field=0.7), 2.0, fields)
    drawn = law.displacements(3000, rng)
    assert np.sqrt(np.mean(drawn**2)) == pytest.approx(0.7, rel=0.05)
    basis = fields.reshape(3, -1).T
    flat = drawn.reshape(3000, -1).T
    rest = flat - basis @ np.linalg.lstsq(basis, flat, rcond=None)[0]
    assert np.abs(rest).max() < 1e-10


def test_copies_show_the_image_elsewhere():
    """A ramp, read at x - Phi(x), differs from itself by the displacement."""
    law = Deformations((12, 12), STILL._replace(shift=0.2, field=0.2), 3.0)
    ramp = np.add.outer(np.arange(12.0), np.zeros(12)).ravel()
    found = law.copies(np.stack([ramp] * 5), [0.0], np.random.default_rng(1))
    shift = law.displacements(5, np.random.default_rng(1))[:, 0]
    inner = np.zeros((12, 12), dtype=bool)
    inner[4:8, 4:8] = True
    inside = inner.ravel()
    np.testing.assert_allclose(found[:, inside], (ramp - shift)[:, inside], atol=1e-9)
    images = np.random.default_rng(0).normal(size=(300, 144))
    still = Deformations((12, 12), STILL, 3.0)
    np.testing.assert_array_equal(
        still.copies(images, [0.0], np.random.default_rng(0)), images
    )


@OF_SHAPE
def test_variance_that_interpolation_keeps(shape):
    """Against the weight that each pixel has at each position."""
    sides = np.array(shape)[:, None]
    positions = np.random.default_rng(0).uniform(-2.0, sides + 1.0, (len(shape), 200))
    positions[:, :2] = 0.0, sides[0, 0] - 1.0  # on pixels of corners
    mode = "nearest" if len(shape) == 1 else "grid-constant"
    weights = []
    for pixel in np.ndindex(*shape):
        impulse = np.zeros(shape)
        impulse[pixel] = 1.0
        weights.append(map_coordinates(impulse, positions, order=1, mode=mode))
    expected = np.square(weights).sum(axis=0)
    np.testing.assert_allclose(kept_variance(positions, shape), expected, atol=1e-12)


@OF_SHAPE
def test_copies_are_as_noisy_as_images(shape):
    law = Deformations(shape, Sizes.usual(shape), 2.0)
    n, size = 3000, np.prod(shape)
    noise = 2.0 * np.random.default_rng(0).normal(size=(n, size))
    variances, error = [], np.sqrt(2 / n)
    for given in (2.0, 0.0):
        found = law.copies(noise, [given], np.random.default_rng(1))
        variances.append(np.mean(found**2, axis=0) / 4)
    assert np.abs(variances[0] - 1).max() < LIMIT * error
    assert variances[1].mean() < 0.8
