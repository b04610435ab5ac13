"""Gradient-orientation features against their definition, pixel by pixel."""

import numpy as np
import pytest
from scipy.ndimage import correlate1d, zoom
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

from sktem.deformed_copies.features import OF_IMAGES, OF_SIGNALS, OrientationFeatures

SHAPES = [(9,), (40,), (16, 8), (7, 1), (6, 5), (3, 20), (2, 3, 4), (8, 3, 2)]


def rule_of(shape):
    """Return the sizes of the features."""
    return OF_SIGNALS if len(shape) == 1 else OF_IMAGES


def cells_of(shape):
    """Return the number of cells of each axis."""
    most = rule_of(shape).cells
    return [min(most, n) for n in shape]


OF_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def slopes_of(image):
    """Return the derivatives of a smoothed image along each axis."""
    shape, n_axes = image.shape, image.ndim
    rule = rule_of(shape)
    sd = max(rule.gradient_sd * max(shape) / 16, rule.least_gradient_sd)
    slopes = []
    for along in range(n_axes):
        part = image
        for axis in range(n_axes):
            x = np.arange(-200, 201)
            weights = np.exp(-0.5 * (x / sd) ** 2) * (
                np.abs(x) <= np.ceil(rule.reach * sd)
            )
            weights /= weights.sum()
            if axis == along:
                weights = weights * x / (weights * x**2).sum()
            part = correlate1d(part, weights, axis=axis, mode="nearest")
        slopes.append(part)
    return np.stack(slopes, axis=-1)


def by_loops(image, noise=0.0):
    """Return the features of one image, from their definition."""
    shape, n_axes = image.shape, image.ndim
    slopes, variances = slopes_of(image), np.zeros(shape)
    for pixel in np.ndindex(*shape) if noise else ():
        impulse = np.zeros(shape)
        impulse[pixel] = noise
        variances += (slopes_of(impulse) ** 2).mean(axis=-1)
    directions = [np.array(d) - 1.0 for d in np.ndindex(*[3] * n_axes)]
    directions = [d / np.linalg.norm(d) for d in directions if d.any()]
    counts = cells_of(shape)
    rule, power = rule_of(shape), rule_of(shape).compression
    found, brightness = [], []
    for cell in np.ndindex(*counts):
        window = np.ones(())
        for place, count, n in zip(cell, counts, shape, strict=True):
            gap = np.arange(n) - ((place + 0.5) * n / count - 0.5)
            one = np.exp(-0.5 * (gap / (rule.cell_sd * n / count)) ** 2)
            window = np.multiply.outer(window, one / one.sum())
        brightness.append((window * image).sum())
        for direction in directions:
            amount = 0.0
            for pixel in np.ndindex(*shape):
                size = np.linalg.norm(slopes[pixel])
                if size > 0:
                    cosine = max(slopes[pixel] @ direction / size, 0.0)
                    size *= size**2 / (
                        size**2 + rule.noise_variances * variances[pixel]
                    )
                    amount += window[pixel] * size * cosine**rule.sharpness
            found.append(amount**power)
    brightness = np.array(brightness)
    found = np.array(found) / np.linalg.norm(found)
    if max(shape) < rule.least_side:
        values = brightness if n_axes == 1 else image.ravel()
        values = values - values.mean()
        values *= np.sqrt(rule.values) / np.linalg.norm(values)
        found = np.append(np.sqrt(1 - rule.values) * found, values)
    return np.append(found, rule.brightness * brightness / np.sqrt(len(brightness)))


@OF_SHAPE
def test_features(shape):
    images = np.random.default_rng(0).normal(size=(3, *shape))
    found = OrientationFeatures(shape).transform(images.reshape(3, -1))
    expected = [by_loops(image) for image in images]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("shape", [(9,), (6, 5), (2, 3, 4)], ids=str)
def test_noise_makes_gradients_smaller(shape):
    images = np.random.default_rng(0).normal(size=(3, *shape))
    rows = images.reshape(3, -1)
    found = OrientationFeatures(shape, noise=0.3).transform(rows)
    expected = [by_loops(image, 0.3) for image in images]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    clean = OrientationFeatures(shape).transform(rows)
    assert np.abs(found - clean).max() > 0.01
    none = OrientationFeatures(shape, noise=1e-9).transform(rows)
    np.testing.assert_allclose(none, clean, atol=1e-9)


def test_noise_of_each_channel():
    """Two channels, of which only the clean one counts."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 80))
    both = OrientationFeatures((8, 5), 2, [0.0, 1e9]).transform(rows)
    one = OrientationFeatures((8, 5)).transform(rows[:, :40])
    n = one.shape[1] - 25
    np.testing.assert_allclose(both[:, :n], one[:, :n], atol=1e-4)
    with pytest.raises(AssertionError):
        other = OrientationFeatures((8, 5), 2, [1e9, 0.0]).transform(rows)
        np.testing.assert_allclose(other[:, :n], one[:, :n], atol=1e-4)


@OF_SHAPE
def test_offset_and_gain_change_brightness_only(shape):
    images = np.random.default_rng(0).normal(size=(300, int(np.prod(shape))))
    features = OrientationFeatures(shape)
    n_cells = np.prod(cells_of(shape))
    found = features.transform(images)
    np.testing.assert_allclose(features.transform(images[:3]), found[:3], atol=1e-12)
    changed = features.transform(7 * images - 100)
    size, shift = OF_IMAGES.brightness / np.sqrt(n_cells), found[:, -n_cells:]
    np.testing.assert_allclose(changed[:, -n_cells:], 7 * shift - 100 * size)
    changed, edges = changed[:, :-n_cells], found[:, :-n_cells]
    np.testing.assert_allclose(changed, edges, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(edges, axis=1), 1)
    inverted = features.transform(-images)[:, :-n_cells]
    assert np.abs(inverted - edges).max() > 0.01
    flat = features.transform(np.full((1, images.shape[1]), 3.0))
    np.testing.assert_allclose(flat, [[0] * edges.shape[1] + [3 * size] * n_cells])


def test_a_ramp_has_one_direction():
    features = OrientationFeatures((20, 20))
    ramp = np.add.outer(np.arange(20.0), np.zeros(20)).reshape(1, -1)
    channels = features.transform(ramp)[0, :200].reshape(5, 5, 8)[2, 2]
    assert features.directions[channels.argmax()] @ [1, 0] == pytest.approx(1)
    # Of the others only the neighbours, at 45 degrees, have a share.
    shares = (channels / channels.max()) ** (1 / OF_IMAGES.compression)
    expected = np.maximum(features.directions @ [1, 0], 0) ** OF_IMAGES.sharpness
    np.testing.assert_allclose(shares, expected, atol=1e-6)


def test_values_help_where_pixels_are_few():
    """Nearest neighbours of digits of 6 x 6 pixels with noise, over splits."""
    rng, (X, y) = np.random.default_rng(0), load_digits(return_X_y=True)
    X = zoom(X.reshape(-1, 8, 8), (1, 0.75, 0.75), order=1).reshape(len(X), -1)
    X = X / X.std() + 0.5 * rng.normal(size=X.shape)
    features, without = OrientationFeatures((6, 6)), OrientationFeatures((6, 6))
    without.rule = OF_IMAGES._replace(least_side=0)
    gains = []
    for _ in range(10):
        order = rng.permutation(len(X))
        known, new = order[:100], order[100:600]
        right = [
            np.mean(y[known][rbf_kernel(Z[new], Z[known]).argmax(axis=1)] == y[new])
            for Z in (features.transform(X), without.transform(X))
        ]
        gains.append(right[0] - right[1])
    assert np.mean(gains) > 3 * np.std(gains, ddof=1) / np.sqrt(10)
