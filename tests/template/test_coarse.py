"""Starts from averaged blocks of pixels, which large images need."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.base import clone

from sktem import DeformableTemplateClassifier, DeformableTemplateEstimator
from sktem.models import ImageGrid
from sktem.template.coarse import BlockRule, averaged

QUICK = {
    "template_landmarks": 8, "deformation_landmarks": 4, "solver": "saem",
    "max_iter": 3, "random_state": 0,
}  # fmt: skip


@pytest.mark.parametrize("shape", [(6, 6), (7, 5), (4, 9, 5)])
def test_averages_are_means_of_observed_pixels(shape):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(3, 2, *shape))
    images[rng.random(images.shape) < 0.3] = np.nan
    found = averaged(images, 2)
    pads = [(side % 2 // 2, side % 2 - side % 2 // 2) for side in shape]
    padded = np.pad(images, [(0, 0)] * 2 + pads, constant_values=np.nan)
    assert found.shape[2:] == tuple((side + 1) // 2 for side in shape)
    for block in np.ndindex(found.shape):
        part = tuple(slice(2 * k, 2 * k + 2) for k in block[2:])
        values = padded[block[:2]][part]
        values = values[~np.isnan(values)]
        expected = values.mean() if values.size else np.nan
        np.testing.assert_allclose(found[block], expected, rtol=1e-13)


def test_centres_stay_where_they_are():
    """Missing pixels at the border are shared by both sides."""
    image = np.zeros((1, 1, 13, 14))
    image[0, 0, 6] = 1.0
    found = averaged(image, 3)[0, 0]
    assert found.shape == (5, 5)
    np.testing.assert_allclose(found[[1, 2, 3], 2], [0, 1 / 3, 0])
    np.testing.assert_allclose(averaged(image, 1), image)


@pytest.mark.parametrize(
    ("shape", "landmarks", "size"),
    [
        ((63, 63), 6, 1),
        ((64, 20), 6, 2),
        ((128, 128), 6, 4),
        ((128, 128), (6, 40), 1),
        ((128, 128), 30, 2),
        ((500,), 6, 1),
        ((64, 40, 20), 4, 2),
    ],
)
def test_blocks(shape, landmarks, size):
    landmarks = np.broadcast_to(landmarks, len(shape))
    grid = ImageGrid(shape, (8,) * len(shape), tuple(landmarks), 4.0, 8.0)
    assert BlockRule().size(grid) == size


def crosses(side, n, seed=0, displacement=0.08):
    """Return crosses that smooth fields have moved, and the fields in pixels."""
    rng = np.random.default_rng(seed)
    smooth, inner = 0.15 * side, slice(side // 2, side // 2 + side)
    rough = rng.normal(size=(n, 2, 2 * side, 2 * side))
    fields = gaussian_filter(rough, (0, 0, smooth, smooth))[:, :, inner, inner]
    fields *= displacement * np.sqrt(4 * np.pi) * smooth * side / 2
    place = (np.indices((side, side)) - fields - side / 2) / (side / 2)

    def bar(across, along):
        outside = np.maximum(abs(across) - 0.12, abs(along) - 0.7)
        return 1 / (1 + np.exp(np.clip(side * outside, -50, 50)))

    images = np.maximum(bar(*place.swapaxes(0, 1)), bar(*place[:, ::-1].swapaxes(0, 1)))
    return images + 0.05 * rng.normal(size=images.shape), fields


def error(fitted, images, fields):
    """Return the root mean square error of displacements less their mean."""
    found = -fitted.registration(images).displacements(inverse=True)
    apart = found - found.mean(axis=0) - fields + fields.mean(axis=0)
    return np.sqrt((apart**2).mean())


def fit_to(X, kind=DeformableTemplateEstimator, **settings):
    return kind(**{**QUICK, **settings}).fit(X)


class OfPixels(DeformableTemplateEstimator):
    """Starts from the pixels as they are."""

    _blocks = BlockRule(least_side=np.inf)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_many_pixels_away_is_found(seed):
    """From the pixels themselves it is not: at least 0.64 of the size, 0.55."""
    images, fields = crosses(96, 6, seed)
    size = np.sqrt(((fields - fields.mean(axis=0)) ** 2).mean())
    defaults = {
        name: "auto" for name in ("template_landmarks", "deformation_landmarks")
    }
    settings = {**defaults, "max_iter": 8, "random_state": seed, "solver": "isaem"}
    found = fit_to(images, **settings), fit_to(images, OfPixels, **settings)
    assert error(found[0], images, fields) < 0.6 * size
    assert error(found[1], images, fields) > 0.6 * size


IMAGES = crosses(64, 6)[0]
HOLES = np.where(np.random.default_rng(1).random(IMAGES.shape) < 0.1, np.nan, IMAGES)
LINES = IMAGES.copy()
LINES[:, 20:24] = np.nan
#: Settings and images.
VARIANTS = {
    "components": ({"n_components": 2}, IMAGES),
    "nuisances": ({"nuisances": ("translation", "rotation", "gain")}, IMAGES),
    "missing": ({}, HOLES),
    "lines that are missing": ({}, LINES),
    "channels": ({"channel_axis": -1}, np.stack([IMAGES, 5 - 2 * IMAGES], axis=-1)),
    "template": ({"initial_template": IMAGES.mean(axis=0)}, IMAGES),
    "scale": ({"deformation_scale": 0.5}, IMAGES),
    "online": ({"solver": "online"}, IMAGES),
    "integers": ({}, np.round(50 * IMAGES.clip(-0.5, 1.5) + 25).astype(np.uint8)),
    "not square": ({}, IMAGES[:, :, 10:50]),
    "volumes": ({"max_iter": 1}, np.repeat(IMAGES[:, :, 20:44, None], 6, axis=3)),
    "flows": ({"deformation": "diffeomorphic", "max_iter": 1}, IMAGES[:3]),
}


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.parametrize("name", VARIANTS)
def test_fits_as_well_as_from_the_pixels(name):
    settings, X = VARIANTS[name]
    found, other = fit_to(X, **settings), fit_to(X, OfPixels, **settings)
    assert found.templates_.shape == (len(found.weights_), *X.shape[1:])
    assert found.score(X) > other.score(X) - 0.001 * X[0].size


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_two_kinds_of_large_images():
    images = crosses(64, 12)[0]
    images[6:, 20:44, 20:44] *= 0.3
    labels = fit_to(images, n_components=2, max_iter=8).predict(images)
    assert len(set(labels[:6])) == len(set(labels[6:])) == 1
    assert labels[0] != labels[6]


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_whole_weights_are_copies():
    """The start is that of the copies: without an iteration both are the same."""
    weights = np.array([1, 2, 1, 3, 1, 1])
    start = DeformableTemplateEstimator(**{**QUICK, "max_iter": 0})
    weighted = clone(start).fit(IMAGES, sample_weight=weights)
    copied = clone(start).fit(np.repeat(IMAGES, weights, axis=0))
    np.testing.assert_allclose(weighted.templates_, copied.templates_, atol=1e-3)
    assert (
        np.abs(weighted.templates_ - fit_to(IMAGES, max_iter=0).templates_).max() > 0.02
    )


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_images_in_other_hands(tmp_path):
    """Files and streams start as arrays do."""
    expected = fit_to(IMAGES).templates_
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    np.testing.assert_array_equal(fit_to(mapped).templates_, expected)
    stream = DeformableTemplateEstimator(**QUICK)
    for _ in range(4):
        stream.partial_fit(IMAGES)
    assert stream.score(IMAGES) > 0.9 * fit_to(IMAGES).score(IMAGES)


def test_start_says_nothing(capsys, recwarn):
    """Neither progress nor warnings are those of the fit to fewer pixels."""
    fit_to(IMAGES, verbose=1, verbose_interval=1, max_iter=2)
    large = capsys.readouterr().out
    fit_to(IMAGES[:, ::2, ::2], verbose=1, verbose_interval=1, max_iter=2)
    small = capsys.readouterr().out
    assert len(large.splitlines()) == len(small.splitlines()) > 1
    assert len({str(each.message) for each in recwarn}) == len(recwarn)


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_classes_of_large_images():
    images = crosses(64, 16)[0]
    y = np.repeat([0, 1], 8)
    images[8:, 20:44, 20:44] *= 0.3
    train = np.r_[:4, 8:12]
    classifier = DeformableTemplateClassifier(max_iter=3, random_state=0)
    classifier.fit(images[train], y[train])
    assert classifier.score(images, y) == 1.0


class Quick(DeformableTemplateEstimator):
    """A subclass with fewer parameters."""

    def __init__(self, max_iter=3):
        super().__init__(**{**QUICK, "max_iter": max_iter})


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_subclasses_start_alike():
    found = Quick().fit(IMAGES)
    np.testing.assert_array_equal(found.templates_, fit_to(IMAGES).templates_)
