"""Classification of images with several channels, such as colours."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from sktem import (
    DeformableTemplateClassifier,
    DeformedCopiesClassifier,
)
from sktem.deformed_copies.deformations import Sizes
from sktem.deformed_copies.features import OrientationFeatures
from sktem.exceptions import FitWarning
from sktem.template.likelihoods import Likelihoods

KINDS = pytest.mark.parametrize("kind", ["copies", "likelihood"])


def grey_digits(n=12, classes=(0, 1, 3), seed=0):
    """Return training images of each class, and other images, with labels."""
    X, y = load_digits(return_X_y=True)
    chosen = [np.flatnonzero(y == k)[: n + 10] for k in classes]
    train = np.concatenate([rows[:n] for rows in chosen])
    test = np.concatenate([rows[n:] for rows in chosen])
    return X[train].reshape(-1, 8, 8), y[train], X[test].reshape(-1, 8, 8), y[test]


def classifier(kind, **parameters):
    settings = {"temperature": 1.0, "random_state": 0, **parameters}
    if kind == "copies":
        # Given, since what images left out would choose is tested elsewhere.
        sizes = Sizes.usual((8, 8))._asdict() | {"brightness": "relative"}
        return DeformedCopiesClassifier(max_rows=900, **sizes, **settings)
    return DeformableTemplateClassifier(max_iter=8, **settings)


@KINDS
def test_one_channel_is_a_grey_image(kind):
    X, y, other, _ = grey_digits()
    grey = classifier(kind, channel_axis=None).fit(X, y)
    one = classifier(kind, channel_axis=-1).fit(X[..., None], y)
    assert_array_equal(
        one.predict_joint_log_proba(other[..., None]),
        grey.predict_joint_log_proba(other),
    )


@KINDS
def test_axis_of_the_channels_and_rows_make_no_difference(kind):
    X, y, other, _ = grey_digits()
    X, other = (np.stack([part, 20 - part**2 / 9], axis=-1) for part in (X, other))
    last = classifier(kind, channel_axis=-1).fit(X, y)
    expected = last.predict_joint_log_proba(other)
    first = classifier(kind, channel_axis=1).fit(np.moveaxis(X, -1, 1), y)
    found = first.predict_joint_log_proba(np.moveaxis(other, -1, 1))
    assert_array_equal(found, expected)
    rows = classifier(kind, image_shape=(8, 8), channel_axis=-1)
    rows.fit(X.reshape(len(X), -1), y)
    found = rows.predict_joint_log_proba(other.reshape(len(other), -1))
    assert_array_equal(found, expected)
    if kind == "copies":
        return
    # The models of the classes take the same images.
    assert last.estimators_[0].templates_.shape == (1, 8, 8, 2)
    assert np.isfinite(last.estimators_[0].score_samples(other)).all()


@KINDS
def test_order_of_the_channels_makes_no_difference(kind):
    rng = np.random.default_rng(0)
    X, y, other, _ = grey_digits()
    # Copies of noisy images have noise of their own, one channel after the other.
    noise = 0.1 if kind == "likelihood" else 0.0
    X, other = (
        np.stack([part, 0.3 * part[:, ::-1], 16 - part], axis=-1)
        + noise * rng.normal(size=(*part.shape, 3))
        for part in (X, other)
    )
    found = [
        classifier(kind, channel_axis=-1)
        .fit(X[..., order], y)
        .predict_joint_log_proba(other[..., order])
        for order in ([0, 1, 2], [2, 0, 1])
    ]
    # Of classes that are out of the question modes are sought roughly only.
    assert_array_equal(found[0].argmax(axis=1), found[1].argmax(axis=1))
    best = [part.max(axis=1) for part in found]
    assert_allclose(best[0], best[1], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(9, 8), (30,), (4, 5, 6)], ids=str)
def test_equal_channels_are_as_far_apart_as_one(shape):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(7, *shape))
    one = OrientationFeatures(shape).transform(X.reshape(7, -1))
    copies = np.repeat(X[:, None], 3, axis=1)
    three = OrientationFeatures(shape, 3).transform(copies.reshape(7, -1))
    assert_allclose(three @ three.T, one @ one.T, rtol=1e-12)


def test_equal_channels_with_their_noise_have_the_same_likelihood_ratios():
    """C equal channels with C times the variance of the noise say what one does."""
    X, y, other, _ = grey_digits()
    n = 3
    grey = classifier("likelihood").fit(X, y)
    many = classifier("likelihood", channel_axis=1)
    with pytest.warns(FitWarning, match="All 3 channels are equal"):
        many.fit(np.repeat(X[:, None], n, axis=1), y)
    for one, three in zip(grey.estimators_, many.estimators_, strict=True):
        one.offset_, one.scale_, one.noise_variances_ = 0.0, 5.0, np.array([4.0])
        three.offset_, three.scale_ = np.zeros(n), np.full(n, 5.0)
        three.noise_variances_ = np.full((1, n), 4.0 * n)
        three.covariances_ = one.covariances_
        panels = np.zeros((1, *three.grid_.template_landmarks))
        size = one.grid_.template_landmarks[0]
        gap = (panels.shape[1] - n * size) // (n + 1)
        for channel in range(n):
            part = one.coefficients_.reshape(one.grid_.template_landmarks)
            first = gap + channel * (size + gap)
            panels[0, first : first + size] = part
        three.coefficients_ = panels.reshape(1, -1)
        three.mean_deformations_ = one.mean_deformations_
    fits = [[one._template for one in own.estimators_] for own in (grey, many)]
    expected, _ = Likelihoods(fits[0]).judge(other.reshape(len(other), -1))
    rows = np.repeat(other[:, None], n, axis=1).reshape(len(other), -1)
    found, _ = Likelihoods(fits[1]).judge(rows)
    assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))
    found, expected = (part - part.max(axis=1)[:, None] for part in (found, expected))
    likely = expected > -30
    assert_allclose(found[likely], expected[likely], atol=0.02)


@KINDS
def test_colours_that_carry_the_class_are_learnt(kind):
    """The same shapes in red, green and yellow; brightness says nothing."""
    rng = np.random.default_rng(2)
    X, _, other, _ = grey_digits(n=14, classes=(0, 3, 5))
    colours = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.6, 0.0]])

    def coloured(part):
        labels = np.arange(len(part)) % 3
        light = rng.uniform(0.7, 1.3, size=(len(part), 1, 1, 1))
        images = light * part[..., None] * colours[labels][:, None, None]
        return images + 0.3 * rng.normal(size=images.shape), labels

    (X, y), (other, expected) = coloured(X), coloured(other)
    fitted = classifier(kind, channel_axis=-1).fit(X, y)
    assert fitted.score(other, expected) > 0.9
    with warnings.catch_warnings():
        # Images that are left out get wrong labels, and copies say so.
        warnings.simplefilter("ignore", FitWarning)
        grey = classifier(kind).fit(X.sum(axis=-1), y)
    assert grey.score(other.sum(axis=-1), expected) < 0.7


def test_a_class_without_a_colour_is_not_certain_of_it():
    """Channels have the units of all classes, not of one that is black in them."""
    X, y, other, _ = grey_digits(classes=(0, 1))
    X, other = np.stack([X, 2 * X], axis=-1), np.stack([other, 2 * other], axis=-1)
    X[y == 0, ..., 1] = 0.0
    fitted = classifier("likelihood", channel_axis=-1).fit(X, y)
    first, second = fitted.estimators_
    assert_array_equal(first.scale_, second.scale_)
    variances = fitted.estimators_[0].noise_variances_
    assert (variances > 1e-3 * X.var()).all()


def test_missing_pixels_of_a_channel():
    X, y, other, labels = grey_digits()
    X, other = np.stack([X, 16 - X], axis=-1), np.stack([other, 16 - other], axis=-1)
    X[0, 2, 3, 0] = np.nan
    fitted = classifier("likelihood", channel_axis=-1).fit(X, y)
    lost = other.copy()
    lost[:, 1, 1, 1] = np.nan
    lost[::2, 3:6, 3:6, 0] = np.nan
    assert fitted.score(lost, labels) > 0.8


def test_signals_with_channels():
    rng = np.random.default_rng(4)
    t = np.linspace(0, 1, 40)
    y = np.repeat([0, 1], 15)
    shift = rng.normal(0, 0.03, size=(30, 1))
    bump = np.exp(-(((t - 0.5 - shift) / 0.1) ** 2))
    # The same curves; what differs is their sign in the second channel.
    X = np.stack([bump, np.where(y[:, None] == 0, bump, -bump)], axis=1)
    X += 0.05 * rng.normal(size=X.shape)
    fitted = classifier("samples", channel_axis=1).fit(X[::2], y[::2])
    assert fitted.score(X[1::2], y[1::2]) == 1
    assert fitted.image_shape_ == (40,)


@pytest.mark.parametrize(
    "shape, parameters, message",
    [
        ((20, 8, 8, 3), {}, "with channel_axis"),
        ((20, 8, 8, 3), {"channel_axis": 0}, "channel_axis must be an axis"),
        ((20, 8, 8, 3), {"channel_axis": 4}, "channel_axis must be an axis"),
        ((20, 8, 8, 3), {"channel_axis": -1, "image_shape": (8, 9)}, "image_shape is"),
        ((20, 192), {"channel_axis": -1}, "need image_shape"),
        ((20, 190), {"channel_axis": -1, "image_shape": (8, 8)}, "no images of shape"),
    ],
)
def test_shapes_that_are_refused(shape, parameters, message):
    X = np.random.default_rng(0).normal(size=shape)
    with pytest.raises(ValueError, match=message):
        classifier("samples", **parameters).fit(X, np.arange(20) % 2)


def test_other_images_than_those_of_the_fit_are_refused():
    X, y, *_ = grey_digits()
    fitted = classifier("likelihood", channel_axis=-1).fit(np.stack([X, 2 * X], -1), y)
    with pytest.raises(ValueError, match="3 channels along axis -1; .* had 2"):
        fitted.predict(np.stack([X, X, X], axis=-1))
    with pytest.raises(ValueError, match="image_shape is"):
        fitted.predict(np.stack([X[:, 1:], X[:, 1:]], axis=-1))


def test_images_read_by_blocks(tmp_path):
    X, y, other, _ = grey_digits()
    X, other = np.stack([X, X**2], axis=-1), np.stack([other, other**2], axis=-1)
    fitted = classifier("samples", channel_axis=-1).fit(X, y)
    np.save(tmp_path / "images.npy", other)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    expected = fitted.predict_proba(other)
    assert_array_equal(fitted.predict_proba(mapped), expected)
    found = list(fitted.predict_proba(iter([other[:4], other[4:]])))
    assert_allclose(np.concatenate(found), expected, atol=1e-12)
