"""The classifier by deformed copies: sizes, brightness, gaps, probabilities."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from sktem import DeformedCopiesClassifier
from sktem.deformed_copies.deformations import Sizes
from sktem.deformed_copies.estimator import CALIBRATION
from sktem.deformed_copies.gaps import GapFiller
from sktem.exceptions import FitWarning
from sktem.images.shapes import Layout
from tests.template.oracles import named_kinds


def classifier(**settings):
    return DeformedCopiesClassifier(**{"max_rows": 200, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def data():
    return named_kinds(60)


@pytest.fixture(scope="module")
def fitted(data):
    X, y = data
    return classifier().fit(X[:20], y[:20])


# ------------------------------------------------------------------------------- sizes

Y, X = np.mgrid[:20, :20] - 9.5


def edge(distance):
    return 1 / (1 + np.exp(-2 * distance))


def disc(kind, rng):
    """Radius 4 or 5."""
    y, x = Y - 0.3 * rng.normal(), X - 0.3 * rng.normal()
    return edge(4 + kind + 0.15 * rng.normal() - np.hypot(y, x))


def bar(kind, rng):
    """Turned by 0 or 20 degrees."""
    angle = np.deg2rad(20 * kind + 3 * rng.normal())
    y, x = Y - 0.3 * rng.normal(), X - 0.3 * rng.normal()
    along = x * np.cos(angle) + y * np.sin(angle)
    across = y * np.cos(angle) - x * np.sin(angle)
    return edge(np.minimum(7 - abs(along), 2 - abs(across)))


def ellipse(kind, rng):
    """As wide as high, or 1.3 times."""
    y, x = Y - 0.3 * rng.normal(), X - 0.3 * rng.normal()
    ratio = np.sqrt(1 + 0.3 * kind)
    return edge(5 + 0.3 * rng.normal() - np.hypot(y * ratio, x / ratio))


def two_classes(draw, n, seed):
    rng, labels = np.random.default_rng(seed), np.arange(n) % 2
    images = np.array([draw(kind, rng) for kind in labels])
    return images + 0.1 * rng.normal(size=images.shape), labels


@pytest.mark.parametrize("draw", [disc, bar, ellipse], ids=lambda f: f.__name__)
def test_classes_that_differ_by_what_copies_vary(draw):
    images, labels = two_classes(draw, 20, 1)
    new, truth = two_classes(draw, 200, 2)
    chosen = classifier(max_rows=1200).fit(images, labels)
    usual = classifier(
        max_rows=1200, scale=0.092, stretch=0.13, rotation=0.177, shear=0.177,
        shift=0.8, field=0.75,
    ).fit(images, labels)  # fmt: skip
    svc = SVC(C=10).fit(images.reshape(20, -1), labels)
    best = svc.score(new.reshape(200, -1), truth)
    assert chosen.score(new, truth) >= best - 0.02
    # Negative control: sizes that suit other images lose the classes.
    assert usual.score(new, truth) < best - 0.03
    assert usual.deformations_["rotation"] == 0.177


def test_given_sizes_are_kept(data):
    X, y = data
    one = classifier(rotation=0.3, field=0.0).fit(X[:20], y[:20])
    assert (one.deformations_["rotation"], one.deformations_["field"]) == (0.3, 0.0)
    signal = classifier(image_shape=(36,)).fit(X[:20], y[:20])
    assert signal.deformations_["rotation"] == signal.deformations_["shear"] == 0.0
    with pytest.raises(ValueError, match="rotation is for images and volumes"):
        classifier(image_shape=(36,), rotation=0.1).fit(X[:20], y[:20])


def test_given_fields(data):
    X, y = data
    fields = np.random.default_rng(0).normal(size=(4, 2, 6, 6))
    fitted = classifier(fields=fields, field=0.5).fit(X[:20], y[:20])
    assert fitted.score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"fields must have shape \(n_fields, 2, 6, 6"):
        classifier(fields=fields[:, 0]).fit(X, y)


def test_deform(fitted, data):
    X, _ = data
    copies = fitted.deform(X[:3], 50, random_state=1)
    assert copies.shape == (150, 36)
    assert fitted.deform(X[:3].reshape(3, 6, 6)).shape == (3, 6, 6)
    # Copies of an image are nearer to it than to others.
    gaps = ((copies.reshape(3, 50, 1, 36) - X[:3]) ** 2).sum(axis=-1).mean(axis=1)
    assert (gaps.argmin(axis=1) == np.arange(3)).all()
    np.testing.assert_array_equal(copies, fitted.deform(X[:3], 50, random_state=1))


# -------------------------------------------------------------------------- brightness


def test_a_constant_added_to_new_images_changes_nothing():
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X / 16
    relative = classifier(max_rows=600).fit(X[:40], y[:40])
    assert relative.brightness_ == "relative"
    new, truth = X[40:240], y[40:240]
    plain = relative.predict_joint_log_proba(new)
    np.testing.assert_allclose(
        relative.predict_joint_log_proba(new + 1.0), plain, atol=1e-6
    )
    assert np.median(relative.outlier_proba(new + 1.0)) < 0.01
    # Negative control: with the brightness of the pixels all are outliers.
    absolute = classifier(max_rows=600, brightness="absolute").fit(X[:40], y[:40])
    assert np.median(absolute.outlier_proba(new + 1.0)) > 0.9
    assert relative.score(new, truth) > absolute.score(new, truth) - 0.02


@pytest.mark.parametrize("n", [2, 10])
def test_classes_that_differ_by_brightness_alone(n):
    labels = np.arange(n) % 2
    levels = np.where(labels, 0.8, 0.2) + 0.01 * np.arange(n)
    flat = np.broadcast_to(levels[:, None, None], (n, 8, 8))
    fitted = classifier().fit(flat, labels)
    assert fitted.brightness_ == "absolute"
    assert fitted.score(flat, labels) == 1.0


# ---------------------------------------------------------------- values of the pixels


def in_noise(n, kind, rng):
    """Return images of 10 x 10 pixels of white noise, in which classes differ."""
    labels = np.arange(n) % 2
    noise = rng.normal(size=(n, 10, 10))
    if kind == "spread":
        return noise * (1 + 0.5 * labels)[:, None, None], labels
    means = 0.4 * np.random.default_rng(9).normal(size=(2, 10, 10))
    return means[labels] + noise, labels


@pytest.mark.parametrize(("kind", "least"), [("spread", 0.85), ("means", 0.95)])
def test_classes_without_edges_are_told_apart_by_their_values(kind, least):
    """Gradients err in half and in a fifth of these images."""
    rng = np.random.default_rng(0)
    X, y = in_noise(60, kind, rng)
    fitted = classifier(max_rows=600).fit(X, y)
    assert fitted.values_ > 0
    assert fitted.score(*in_noise(200, kind, rng)) > least


def test_values_of_objects_count_only_if_asked_for():
    """Of digits gradients say more, and a given share is taken as it is."""
    X, y = load_digits(n_class=4, return_X_y=True)
    assert classifier(max_rows=600).fit(X[:40], y[:40]).values_ == 0
    assert classifier(max_rows=100, values=0.2).fit(X[:8], y[:8]).values_ == 0.2
    for share in (1.5, -0.1, "some"):
        with pytest.raises(ValueError, match="values must be"):
            classifier(values=share).fit(X[:8], y[:8])


# ------------------------------------------------------------- repetitions and weights


def test_repeated_images_are_weights(data):
    X, y = data
    new, truth = X[20:], y[20:]
    once = classifier().fit(X[:20], y[:20])
    repeated = classifier().fit(np.repeat(X[:20], 5, axis=0), np.repeat(y[:20], 5))
    weighted = classifier().fit(X[:20], y[:20], sample_weight=np.full(20, 5.0))
    for one in (repeated, weighted):
        np.testing.assert_allclose(one.predict_proba(X), once.predict_proba(X))
    assert once.temperature_ == repeated.temperature_
    assert log_loss(truth, repeated.predict_proba(new)) < 0.3
    counts = np.random.default_rng(0).integers(1, 4, 20)
    usual = Sizes.usual((6, 6))._asdict()
    repeated = classifier(**usual).fit(
        np.repeat(X[:20], counts, axis=0), np.repeat(y[:20], counts)
    )
    weighted = classifier(**usual).fit(X[:20], y[:20], sample_weight=counts)
    np.testing.assert_allclose(repeated.predict_proba(X), weighted.predict_proba(X))


def test_images_beyond_max_rows_are_told(data):
    X, y = data
    with pytest.warns(FitWarning, match="30 of 60 images are left out"):
        fitted = classifier(max_rows=30).fit(X, y)
    assert fitted.n_rows_ == 30 and fitted.score(X, y) > 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert classifier(max_rows=60).fit(X, y).n_rows_ == 60


# ------------------------------------------------------------------------- predictions


@pytest.mark.parametrize("n_classes, n", [(6, 30), (4, 40)])
def test_chosen_temperature_is_honest(n_classes, n):
    """Near the best for new images, also where all that are left out are right."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    fitted = classifier(max_rows=600).fit(X[:n], y[:n])
    new, truth = X[300:700], y[300:700]
    loss = log_loss(truth, fitted.predict_proba(new))
    scores = fitted.predict_joint_log_proba(new) * fitted.temperature_
    others = [
        log_loss(truth, np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))
        for logs in (scores / one for one in np.geomspace(0.01, 1, 20))
    ]
    assert loss < 1.25 * min(others)


def test_one_image_of_a_class(data):
    X, y = data
    rows = [np.flatnonzero(y == c)[0] for c in ("across", "down")]
    fitted = classifier().fit(X[rows], y[rows])
    assert fitted.temperature_ == CALIBRATION.expected
    assert fitted.score(X, y) > 0.8
    assert (fitted.outlier_proba(X) == 0).all()


def test_missing_pixels(data):
    X, y = data
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    fitted = classifier().fit(gaps, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        assert fitted.score(gaps, y) > 0.85
    with pytest.warns(FitWarning, match="1 of 1 images have holes"):
        fitted.predict(np.full((1, 36), np.nan))


@pytest.mark.parametrize("shape", [(36,), (4, 9), (4, 3, 3)], ids=str)
def test_holes(shape):
    """A pixel and all of its neighbours, in every axis."""
    X = np.zeros((3, *shape))
    block = tuple(slice(0, 3) for _ in shape)
    X[1][block] = X[2][block] = np.nan
    X[2][(0,) * len(shape)] = 0.0
    X[0, 0] = np.nan
    filler = GapFiller.of(np.zeros((1, 36)), Layout(shape))
    assert list(filler.holes(X.reshape(3, 36))) == [False, True, False]


def test_pixels_that_no_training_image_shows():
    """What new images show there changes nothing: nobody knows which class it means."""
    X, y = load_digits(n_class=4, return_X_y=True)
    images = X.reshape(-1, 8, 8) / 16
    gaps = images.copy()
    gaps[:, :3] = np.nan
    fitted = classifier(max_rows=800).fit(gaps[:60], y[:60])
    new, truth = slice(60, 300), y[60:300]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        logs = fitted.predict_log_proba(images[new])
    np.testing.assert_array_equal(logs, fitted.predict_log_proba(gaps[new]))
    assert fitted.score(images[new], truth) > 0.9
    assert log_loss(truth, np.exp(logs)) < 0.4


@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_an_image_that_outshines_the_others(data, factor):
    X, y = data[0][:20].copy(), data[1][:20]
    X[3] *= factor
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        classifier().fit(X, y)
    found = [str(one.message) for one in caught if one.category is FitWarning]
    assert [text.startswith("The image with the index 3") for text in found] == [
        True
    ] * (factor > 1)


def test_missing_pixels_are_interpolated(data):
    """What is smooth comes back; where nothing was seen there is the mean image."""
    filler = GapFiller.of(data[0], Layout((6, 6)))
    smooth = filler.mean_image + np.repeat(np.linspace(-1, 1, 6), 6)
    gaps = np.stack([smooth] * 20)
    missing = np.random.default_rng(0).random(gaps.shape) < 0.2
    gaps[missing] = np.nan
    found = filler.fill(gaps.copy())
    np.testing.assert_array_equal(found[~missing], np.stack([smooth] * 20)[~missing])
    assert np.abs(found - smooth).max() < 0.5 and np.abs(found - smooth).mean() < 0.05
    unseen = filler.fill(np.full((1, 36), np.nan))
    np.testing.assert_allclose(unseen, filler.mean_image[None])


def test_gaps_are_filled_from_like_images():
    """Eight gaps of 2 x 2 pixels in images of 8 x 8."""
    X, y = load_digits(n_class=4, return_X_y=True)
    rng, gaps = np.random.default_rng(0), X[40:240].reshape(-1, 8, 8).copy()
    for image in gaps:
        for row, column in rng.integers(1, 6, (8, 2)):
            image[row : row + 2, column : column + 2] = np.nan
    fitted = classifier(max_rows=800, **Sizes.usual((8, 8))._asdict())
    fitted.fit(X[:40], y[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        found = fitted.score(gaps, y[40:240])
        # Negative control: filled with the mean image.
        fitted._filler = fitted._filler._replace(rows=None)
        assert found > fitted.score(gaps, y[40:240]) + 0.05
    assert found > 0.8


@pytest.mark.parametrize("shape", [(36,), (4, 3, 3)], ids=str)
def test_signals_and_volumes(shape, data):
    X, y = data
    fitted = classifier(image_shape=shape).fit(X[:20], y[:20])
    assert fitted.score(X, y) > 0.8


def test_channels(data):
    X, y = data
    colours = np.stack([X, 1 - 2 * X], axis=-1).reshape(60, 6, 6, 2)
    fitted = classifier(channel_axis=-1).fit(colours[:20], y[:20])
    assert fitted.score(colours, y) > 0.9
    assert fitted.deform(colours[:2]).shape == (2, 6, 6, 2)
    with pytest.raises(ValueError, match="images with 1 channels"):
        fitted.predict(colours[..., :1])


def test_signals_by_a_shape_anywhere():
    """Waves of two lengths in windows at random places."""
    rng, t = np.random.default_rng(0), np.arange(80.0)
    labels = np.arange(120) % 2
    places = rng.uniform(15, 65, size=(120, 1))
    waves = np.cos((t - places) * np.where(labels, 1.2, 0.6)[:, None])
    X = waves * np.exp(-(((t - places) / 8) ** 2)) + 0.02 * rng.normal(size=(120, 80))
    fitted = classifier(image_shape=(80,)).fit(X[:10], labels[:10])
    assert fitted.score(X[10:], labels[10:]) > 0.95
    assert (fitted.outlier_proba(X[10:]) < 0.5).mean() > 0.9


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"scale": "big"}, "scale must be one of"),
        ({"shift": -1.0}, "shift must be"),
        ({"field_width": 0.0}, "field_width must be"),
        ({"brightness": "dark"}, "brightness must be one of"),
        ({"max_rows": 1}, "max_rows must be an integer >= 2"),
        ({"ridge": 0.0}, "ridge must be"),
    ],
    ids=str,
)
def test_wrong_parameters(settings, message, data):
    with pytest.raises(ValueError, match=message):
        classifier(**settings).fit(*data)
