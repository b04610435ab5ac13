"""Images in a light and at a place that no training image has."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sktem import DeformedCopiesClassifier
from sktem.deformed_copies.light_and_place import LightAndPlace
from sktem.exceptions import FitWarning


@pytest.fixture(scope="module")
def digits():
    """Digits in the middle of larger images."""
    X, y = load_digits(n_class=4, return_X_y=True)
    return np.pad(X.reshape(-1, 8, 8) / 16, ((0, 0), (4, 4), (4, 4))), y


@pytest.fixture(scope="module")
def fitted(digits):
    X, y = digits
    return DeformedCopiesClassifier(max_rows=800, random_state=0).fit(X[:40], y[:40])


def as_they_are(fitted, X):
    """Return labels of images that nothing is done to."""
    Y = fitted._standardised(fitted._checked(X))
    return fitted.classes_[fitted._regression.judge(Y)[0].argmax(axis=1)]


@pytest.mark.parametrize("move", [(4, 0), (4, -4), (-4, 3)], ids=str)
def test_images_out_of_place(fitted, digits, move):
    X, y = digits[0][40:240], digits[1][40:240]
    moved = np.roll(X, move, axis=(1, 2))
    assert fitted.score(moved, y) >= fitted.score(X, y) - 0.02
    assert (fitted.outlier_proba(moved) > 0.5).mean() < 0.05
    # Negative control: without a look at their place.
    assert np.mean(as_they_are(fitted, moved) == y) < 0.8


@pytest.mark.parametrize(("gain", "offset"), [(0.2, 0.0), (3.0, 0.0), (255.0, 3.0)])
def test_images_in_another_light(fitted, digits, gain, offset):
    X, y = digits[0][40:240], digits[1][40:240]
    changed = fitted.predict(gain * X + offset)  # and no warning, which is an error
    assert np.mean(changed == y) >= fitted.score(X, y) - 0.02
    # All that are out of range are treated alike, whatever their contrast is.
    logs = fitted.predict_joint_log_proba(gain * X[:4] + offset)
    more = fitted.predict_joint_log_proba(2.0 * gain**2 * X[:4] + offset)
    if gain > 1:
        np.testing.assert_allclose(logs, more, atol=1e-5)


def test_the_brightest_light_is_lost_without(fitted, digits):
    """Negative control."""
    X, y = digits[0][40:240], digits[1][40:240]
    assert np.mean(as_they_are(fitted, 255 * X) == y) < 0.6


def test_images_within_the_ranges_stay_as_they_are(fitted, digits):
    X = digits[0][40:240]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        found = fitted.predict(X)
    assert np.mean(found == as_they_are(fitted, X)) > 0.99
    # Those that were learned from are in them all.
    judged = []

    def judge(Y):
        judged.append(len(Y))
        return fitted._regression.judge(Y)

    known = fitted._standardised(fitted._checked(digits[0][:40]))
    fitted._ranges.judged(known, judge, fitted._filler.fill, True)
    assert judged == [40]


def test_classes_that_differ_by_contrast_or_place():
    """What tells the classes apart in training images does so in new ones."""
    rng, labels = np.random.default_rng(0), np.arange(120) % 2
    y, x = np.mgrid[:16, :16] - 7.5
    noise = 0.05 * rng.normal(size=(120, 16, 16))
    moved = np.hypot(y, x - (3.0 * labels - 1.5)[:, None, None]) < 4
    bright = (1.0 + labels)[:, None, None] * (np.hypot(y, x) < 4)
    for X in (moved + noise, bright + noise):
        classifier = DeformedCopiesClassifier(max_rows=400, random_state=0)
        classifier.fit(X[:20], labels[:20])
        assert classifier.score(X[20:], labels[20:]) == 1.0


@pytest.mark.parametrize("shape", [(40,), (9, 12), (6, 7, 8)], ids=str)
def test_blank_images_and_channels(shape):
    """An image without contrast has no place; others go where they are nearest."""
    rng = np.random.default_rng(0)
    inner = tuple(slice(2, 4) for _ in shape)
    X = np.zeros((4, 2, *shape))
    values = rng.uniform(0.2, 2, (4, 2, *[2] * len(shape)))
    X[(slice(None), slice(None), *inner)] = values
    ranges = LightAndPlace.of(X.reshape(4, -1), shape, np.zeros(2), 0.0)
    assert (ranges.centres[0] >= 2).all() and (ranges.centres[1] <= 3).all()

    def judge(Y):
        gaps = ((Y[:, None] - X.reshape(1, 4, -1)) ** 2).sum(axis=2)
        return -gaps, gaps.min(axis=1)

    new = np.concatenate([np.zeros_like(X[:1]), 5.0 * np.roll(X, 2, axis=-1)])
    scores, distances = ranges.judged(
        new.reshape(5, -1).copy(), judge, np.nan_to_num, True
    )
    assert distances[0] == judge(np.zeros((1, X[0].size)))[1][0]
    np.testing.assert_array_equal(-scores.max(axis=1), distances)
    # Negative control: as they are.
    assert (distances[1:] < 0.1 * judge(new[1:].reshape(4, -1))[1]).all()
