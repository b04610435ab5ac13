"""The noise of pixels: found again where it was put, and nowhere else."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from sktem import DeformedCopiesClassifier
from sktem.deformed_copies.deformations import Sizes
from sktem.deformed_copies.pixel_noise import pixel_noise


def noise_share(X, image_shape, n_channels=1) -> float:
    """Return the noise as a share of the standard deviation of the pixels."""
    noise = pixel_noise(X, image_shape, n_channels)
    parts = np.split(X, n_channels, axis=1)
    spread = np.array([0.0 if np.isnan(one).all() else np.nanstd(one) for one in parts])
    shares = noise / np.where(spread > 0, spread, np.inf)
    return float(np.sqrt(np.mean(shares**2)))


@pytest.mark.parametrize("shape", [(400,), (20, 20), (8, 8, 8)], ids=str)
def test_noise_share(shape):
    """Of noise, of what is smooth or has few edges, and of their sum."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(20, *shape))
    flat = np.zeros_like(noise)
    flat[:, : shape[0] // 2] = 1.0
    smooth = np.broadcast_to(np.sin(np.linspace(0, 3, shape[-1])), noise.shape)

    def share(X, lost=0.0):
        rows = X.reshape(len(X), -1).copy()
        rows[rng.random(rows.shape) < lost] = np.nan
        return noise_share(rows, shape)

    assert share(flat) < 0.01 and share(smooth) < 0.05
    for size in (0.1, 1.0):
        X = 1e3 * (flat + size * noise)
        expected = size / np.sqrt(size**2 + 0.25)
        assert share(X) == pytest.approx(expected, rel=0.15)
        assert share(X, lost=0.05) == pytest.approx(expected, rel=0.15)
    assert noise_share(np.zeros((3, flat[0].size)), shape) == 0
    assert noise_share(np.full((3, flat[0].size), np.nan), shape) == 0


def test_noise_of_channels():
    rng = np.random.default_rng(3)
    X = np.cumsum(rng.normal(size=(9, 40)), axis=1)
    share = noise_share(X, (40,))
    assert noise_share(np.hstack([X, X]), (40,), 2) == pytest.approx(share)
    noise = rng.normal(size=X.shape)
    both = np.hstack([X, noise])
    expected = np.hypot(share, noise_share(noise, (40,))) / 2**0.5
    assert noise_share(both, (40,), 2) == pytest.approx(expected)
    apart = [pixel_noise(one, (40,))[0] for one in (X, noise)]
    np.testing.assert_array_equal(pixel_noise(both, (40,), 2), apart)


def test_edges_and_texture_in_most_places_are_no_noise():
    """Stripes over three quarters of an image, beside white noise of the same size."""
    X = np.zeros((5, 20, 20))
    X[:, :15, ::2] = 1.0
    assert noise_share(X.reshape(5, -1), (20, 20)) == 0
    X = np.random.default_rng(0).normal(size=X.shape)
    assert noise_share(X.reshape(5, -1), (20, 20)) > 0.8


def gratings(n, noise, rng):
    """Return patches of lines in four directions, which are shifted, with noise."""
    labels = np.arange(n) % 4
    angles = labels * np.pi / 4 + 0.15 * rng.normal(size=n)
    y, x = np.indices((12, 12)) - 5.5
    along = np.cos(angles)[:, None, None] * x + np.sin(angles)[:, None, None] * y
    X = np.exp(-0.5 * ((along - rng.normal(size=(n, 1, 1))) / 1.2) ** 2)
    return gaussian_filter(X, (0, 0.3, 0.3)) + noise * rng.normal(size=X.shape), labels


def test_noise_is_told_from_lines(monkeypatch):
    """Images of few pixels with noise as large as their lines.

    Taking them for clean, the control, errs more often, over five draws.
    """

    usual = {**Sizes.usual((12, 12))._asdict(), "values": 0.0}

    def errors():
        found = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            X, y = gratings(12, 0.5, rng)
            other, labels = gratings(300, 0.5, rng)
            machine = DeformedCopiesClassifier(**usual, max_rows=600, random_state=0)
            machine.fit(X, y)
            found.append(1 - machine.score(other, labels))
        return np.array(found)

    told = errors()
    where = "sktem.deformed_copies.estimator.pixel_noise"
    monkeypatch.setattr(where, lambda *_: np.zeros(1))
    gain = errors() - told
    assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(5)
