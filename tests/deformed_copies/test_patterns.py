"""Patterns of signals against their definition, and the kernel that they are in."""

import numpy as np
import pytest
from scipy.fft import dct

from sktem.deformed_copies.features import OrientationFeatures
from sktem.deformed_copies.patterns import PatternFeatures, PatternRule
from sktem.deformed_copies.similarity import Similarity

TAPS, COSINES, BOUNDS, _ = PatternRule()


def by_loops(signal):
    """Return the features of one signal, from their definition."""
    n = len(signal)
    bank = dct(np.eye(TAPS), axis=0)[1 : 1 + COSINES]
    bounds = [-np.inf, *BOUNDS, np.inf]
    shares, sizes = [], []
    distance = 1
    while distance == 1 or distance * (TAPS - 1) < n:
        for weights in bank:
            responses = []
            for t in range(n):
                places = t + distance * (np.arange(TAPS) - TAPS // 2)
                responses.append(weights @ signal[np.clip(places, 0, n - 1)])
            size = np.sqrt(np.mean(np.square(responses)))
            counts = np.histogram(np.array(responses) / size, bounds)[0]
            shares.extend(np.sqrt(counts / n))
            sizes.append(size)
        distance *= 2
    parts = [np.array(part) / np.linalg.norm(part) for part in (shares, sizes)]
    return parts[0] / np.sqrt(2), parts[1] / np.sqrt(2)


@pytest.mark.parametrize("n", [2, 8, 9, 17, 40, 130])
def test_patterns(n):
    signals = np.random.default_rng(0).normal(size=(70, n)).cumsum(axis=1)
    features = PatternFeatures(n)
    found = features.transform(signals)
    assert found.shape == (70, features.n_features)
    # On both sides of where signals are cut into blocks.
    rows = [0, 1, 63, 64, 69]
    found, n_rows = found[rows], len(rows)
    shares, sizes = zip(*[by_loops(signals[row]) for row in rows], strict=True)
    n_sizes = sizes[0].size
    np.testing.assert_allclose(found[:, -n_sizes:], sizes, atol=1e-12)
    # Ranges are before filters there.
    ours = found[:, :-n_sizes].reshape(n_rows, -1, len(BOUNDS) + 1, COSINES)
    theirs = np.reshape(shares, (n_rows, -1, COSINES, len(BOUNDS) + 1))
    np.testing.assert_allclose(ours.swapaxes(2, 3), theirs, atol=1e-12)


def test_offset_gain_and_place_change_nothing():
    """A bump far from the ends, against a bump of another width."""
    t = np.arange(200.0)
    bumps = [
        np.exp(-(((t - place) / width) ** 2))
        for place, width in ((80, 3), (100, 3), (100, 6))
    ]
    features = PatternFeatures(200)
    # Distances whose filters see both ends of no signal with a bump.
    features.distances = [1, 2, 4]
    one, shifted, wide = features.transform(np.array(bumps))
    np.testing.assert_allclose(shifted, one, atol=1e-9)
    assert np.linalg.norm(wide - one) > 0.1
    places = OrientationFeatures((200,)).transform(np.array(bumps))
    assert np.linalg.norm(places[0] - places[1]) > 0.5
    changed = features.transform(7 * bumps[0][None] - 100)
    np.testing.assert_allclose(changed[0], one, atol=1e-9)
    assert np.linalg.norm(features.transform(-bumps[0][None]) - one) > 0.05


def test_flat_signals_have_no_pattern():
    features = PatternFeatures(30)
    found = features.transform(np.full((1, 30), 0.1))[0]
    n_sizes = len(features.distances) * COSINES
    assert (found[-n_sizes:] == 0).all()
    shares = found[:-n_sizes].reshape(-1, len(BOUNDS) + 1, COSINES)
    assert (shares[:, [0, 1, 3, 4]] == 0).all() and (shares[:, 2] > 0).all()


def test_channels_are_kept_apart():
    signals = np.random.default_rng(0).normal(size=(5, 2, 20))
    both = PatternFeatures(20, 2).transform(signals.reshape(5, -1))
    apart = [PatternFeatures(20).transform(signals[:, k]) for k in (0, 1)]
    n = len(PatternFeatures(20).distances) * COSINES * (len(BOUNDS) + 1)
    np.testing.assert_allclose(
        both[:, : 2 * n], np.hstack([one[:, :n] for one in apart]) / np.sqrt(2)
    )
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1)


@pytest.mark.parametrize("values", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("shape", "n_channels"), [((40,), 1), ((9,), 2), ((6, 5), 1)])
def test_kernel(shape, n_channels, values):
    """A Gaussian kernel of images, a sum of two of signals, and that of values."""
    alike = Similarity(shape, n_channels, values=values)
    X = np.random.default_rng(0).normal(size=(8, n_channels * int(np.prod(shape))))
    rows = alike.features(X)

    def gaussian(features, gamma):
        gaps = features[:, None] - features[None]
        return np.exp(-gamma * (gaps**2).sum(axis=-1))

    expected = gaussian(OrientationFeatures(shape, n_channels).transform(X), 3.0)
    if len(shape) == 1:
        patterns = PatternFeatures(shape[0], n_channels).transform(X)
        patterns = gaussian(patterns, alike.widths.patterns)
        share = alike.widths.share
        expected = (1 - share) * expected + share * patterns
    pixels = gaussian(X, alike.widths.values / X.shape[1])
    expected = (1 - values) * expected + values * pixels
    found = alike.kernel(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(np.diag(found), 1, rtol=1e-15)
    few = [features[:3] for features in rows]
    np.testing.assert_allclose(alike.kernel(few, rows), found[:3], rtol=1e-9)
    distances = alike.distances(found[:3, 3:])
    np.testing.assert_allclose(
        distances, -np.log(found[:3, 3:].max(axis=1)) / alike.widths.places
    )
