"""Which arrays are images, signals and volumes, and which are refused."""

import numpy as np
import pytest
from sklearn import config_context

from sktem import DeformableTemplateClassifier, DeformableTemplateEstimator
from sktem.exceptions import FitWarning
from sktem.images.shapes import resolved_shape, rows_of
from tests.template.oracles import blobs


def signals(m, n=12, noise=0.0):
    rng = np.random.default_rng(0)
    u = np.linspace(0, 1, m)
    shifts = 0.05 * rng.normal(size=(n, 1))
    clean = np.exp(-(((u + shifts - 0.4) / 0.1) ** 2)) + np.sin(5 * (u + shifts))
    return clean + noise * rng.normal(size=(n, m))


def shape_of(X, image_shape=None):
    X, shape, _ = rows_of(X, image_shape)
    return resolved_shape(np.asarray(X, dtype=float), image_shape, shape)


@pytest.mark.parametrize("m", [60, 80, 101, 500])
def test_rows_that_are_no_square_have_to_be_explained(m):
    with pytest.raises(ValueError, match=rf"pass image_shape=\({m},\) for signals"):
        shape_of(signals(m))
    assert shape_of(signals(m), (m,)) == (m,)


@pytest.mark.parametrize("m", [64, 100, 144, 400, 900])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.15])
def test_signals_are_not_cut_into_squares(m, noise):
    with pytest.raises(ValueError, match="look like signals"):
        shape_of(signals(m, noise=noise))
    side = round(m**0.5)
    assert shape_of(signals(m), (side, side)) == (side, side)


@pytest.mark.parametrize("side", [6, 16, 28])
def test_images_are_images(side, shared_data):
    rng = np.random.default_rng(0)
    bars = np.repeat(rng.normal(size=(10, side, 1)), side, axis=2)
    for X in (
        blobs(10, (side, side)),
        rng.normal(size=(10, side, side)),
        bars,
        bars.swapaxes(1, 2),
        np.zeros((4, side, side)),
        np.full((4, side, side), np.nan),
        np.cumsum(np.cumsum(rng.normal(size=(5, side, side)), 1), 2),
    ):
        assert shape_of(X.reshape(len(X), -1)) == (side, side)
    digits = np.load(shared_data("images/usps.npz"))
    for digit in range(10):
        X = digits["X_train"][digits["y_train"] == digit]
        assert shape_of(X[:5]) == shape_of(X) == (16, 16)


def test_faces_are_images(shared_data):
    faces = np.load(shared_data("images/frey_faces.npz"))["X"][:, 4:24]
    assert shape_of(faces[:50].reshape(50, -1)) == (20, 20)


@pytest.mark.parametrize("shape", [(16, 16, 3), (3, 16, 16), (20, 16, 4), (5, 9, 3)])
def test_colours_are_refused(shape):
    X = np.zeros((4, *shape))
    with pytest.raises(ValueError, match="look like pictures with"):
        shape_of(X)
    assert shape_of(X, shape) == shape


def test_axes_of_one_pixel_go():
    for shape in [(9, 7, 1), (1, 9, 7), (1, 9, 7, 1)]:
        assert shape_of(np.zeros((3, *shape))) == (9, 7)
    assert shape_of(np.zeros((3, 5, 6, 7))) == (5, 6, 7)
    assert shape_of(np.zeros((3, 3, 3, 3))) == (3, 3, 3)
    assert shape_of(np.zeros((3, 30, 1))) == (30, 1)


SMALL = {"template_landmarks": 5, "deformation_landmarks": 2, "max_iter": 2}


def test_nested_lists_and_single_channels():
    X = blobs(8)
    stack = X.reshape(8, 6, 6)
    y = np.repeat([0, 1], 4)
    rows = DeformableTemplateEstimator(**SMALL, random_state=0).fit(X)
    for other in (stack, stack.tolist(), stack[..., None], stack[:, None]):
        fitted = DeformableTemplateEstimator(**SMALL, random_state=0).fit(other)
        assert fitted.image_shape_ == (6, 6)
        np.testing.assert_array_equal(fitted.templates_, rows.templates_)
        np.testing.assert_array_equal(fitted.modes_of(other), rows.modes_of(X))
    settings = {**SMALL, "temperature": 1.0, "random_state": 0}
    classifier = DeformableTemplateClassifier(**settings).fit(X, y)
    for other in (stack, stack.tolist(), stack[:, None]):
        again = DeformableTemplateClassifier(**settings).fit(other, y)
        assert again.estimators_[0].image_shape_ == (6, 6)
        np.testing.assert_array_equal(again.predict(other), classifier.predict(X))


def test_nothing_observed():
    X = np.full((5, 36), np.nan)
    with pytest.raises(ValueError, match="all pixels of all images are NaN"):
        DeformableTemplateEstimator(**SMALL).fit(X)
    with pytest.raises(ValueError, match="all pixels of all images are NaN"):
        DeformableTemplateEstimator(**SMALL).partial_fit(X)
    with pytest.raises(ValueError, match="all pixels of all images are NaN"):
        DeformableTemplateClassifier(**SMALL).fit(X, [0, 0, 1, 1, 1])
    # Columns without any pixel are filled in from their neighbours.
    X = blobs(8)
    X[:, [0, 14, 35]] = np.nan
    fitted = DeformableTemplateEstimator(**SMALL).fit(X)
    assert np.isfinite(fitted.templates_).all()


@pytest.mark.parametrize("name", ["template_landmarks", "deformation_landmarks"])
@pytest.mark.parametrize("value", [(3.9, 3.9), 3.5, (True, 2), "many", [2, 2, 2]])
def test_landmarks_are_whole_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        DeformableTemplateEstimator(**{**SMALL, name: value}).fit(blobs(5))


def test_tensors_are_refused(xp, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X, y = blobs(6), [0, 0, 0, 1, 1, 1]
    fitted = DeformableTemplateEstimator(**SMALL, random_state=0).fit(X)
    tensor = xp.asarray(X)
    with config_context(array_api_dispatch=True):
        for call in (
            lambda: DeformableTemplateEstimator(**SMALL).fit(tensor),
            lambda: DeformableTemplateEstimator(**SMALL).partial_fit(tensor),
            lambda: DeformableTemplateClassifier(**SMALL).fit(tensor, y),
            lambda: fitted.modes_of(tensor),
        ):
            with pytest.raises(TypeError, match=r"pass numpy\.asarray\(X\)"):
                call()
        # Arrays of NumPy are taken whatever the configuration.
        np.testing.assert_array_equal(fitted.modes_of(X), fitted.modes_of(X.tolist()))


def ring(side):
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    return np.exp(-((np.hypot(y, x) - 0.3 * side) ** 2) / 4)


@pytest.mark.parametrize("side", [24, 25, 36])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("is_stack", [False, True])
def test_one_picture_is_not_taken_for_signals(side, noise, is_stack):
    image = ring(side) + noise * np.random.default_rng(0).normal(size=(side, side))
    X = image[..., np.newaxis] if is_stack else image
    for estimator in (DeformableTemplateEstimator, DeformableTemplateClassifier):
        with pytest.raises(ValueError, match=r"looks like one image.*image_shape="):
            estimator(**SMALL).fit(X, np.arange(side) % 2)
    assert rows_of(X[np.newaxis], None)[1] == (side, side)
    shape = (side, 1) if is_stack else (side,)
    assert rows_of(X, shape)[1:] in ((None, 1), (shape, 1))


def test_a_noisy_picture_is_told():
    rng = np.random.default_rng(0)
    image = ring(24) + 0.25 * rng.normal(size=(24, 24))
    with pytest.warns(FitWarning, match=r"may be one image: X\[np.newaxis\]"):
        rows_of(image, None)


def test_signals_are_no_picture():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="looks like one image"):
        rows_of(ring(24)[:20], None)
    for rows in (
        rng.permutation(signals(24, n=24)),
        rng.normal(size=(24, 24)),
        np.repeat(rng.normal(size=(12, 24)), rng.integers(1, 4, size=12), axis=0),
        rng.permutation(ring(24)),
        np.tile(rng.normal(size=36), (36, 1)),
    ):
        assert rows_of(rows, None)[1:] == (None, 1)
