"""What deformations carry between templates and images, and arrays with channels."""

import numpy as np
import pytest

from sktem import DeformableTemplateEstimator
from sktem.template.geometry.grid import ImageGrid
from sktem.template.geometry.registration import Registration
from tests.template.oracles import SMALL, Pixels, blobs

SETTINGS = {**SMALL, "max_iter": 8}


@pytest.fixture(scope="module")
def images():
    return blobs(30, (8, 8)).reshape(-1, 8, 8)


@pytest.fixture(scope="module")
def fitted(images):
    return DeformableTemplateEstimator(**SETTINGS).fit(images)


@pytest.fixture(scope="module")
def registration(fitted, images):
    return fitted.registration(images[:6])


def test_points_go_there_and_back(registration):
    points = np.random.default_rng(0).uniform(0, 7, size=(20, 2))
    there = registration.warp_points(points)
    assert there.shape == (6, 20, 2)
    assert np.abs(there - points).max() > 0.2
    back = registration.warp_points(there, inverse=True)
    np.testing.assert_allclose(back, np.broadcast_to(points, back.shape), atol=1e-7)
    for wrong in (points[:, :1], there[:4], points[0]):
        with pytest.raises(ValueError, match="points"):
            registration.warp_points(wrong)


def test_points_follow_the_object(fitted, images):
    """The centre of the blob in the template goes to that of every image."""
    pixels = np.stack(np.meshgrid(*[np.arange(8.0)] * 2, indexing="ij"), axis=-1)

    def centre(image):
        weights = np.maximum(image - 0.3 * image.max(), 0)
        return np.einsum("ij,ijk->k", weights, pixels) / weights.sum()

    found = fitted.registration(images).warp_points([centre(fitted.templates_[0])])
    truth = np.array([centre(image) for image in images])
    before = np.sqrt(((truth - truth.mean(axis=0)) ** 2).mean())
    assert np.sqrt(((found[:, 0] - truth) ** 2).mean()) < 0.5 * before


@pytest.mark.parametrize("inverse", [False, True])
def test_fields_and_jacobians_are_those_of_the_points(registration, inverse):
    x = np.stack(np.meshgrid(*[np.arange(8.0)] * 2, indexing="ij"), axis=-1)
    x = x.reshape(-1, 2)
    moved = registration.warp_points(x, inverse=inverse)
    fields = registration.displacements(inverse=inverse)
    assert fields.shape == (6, 2, 8, 8)
    expected = np.moveaxis(moved - x, 2, 1)
    np.testing.assert_allclose(fields.reshape(6, 2, -1), expected, atol=1e-8)
    h = 1e-4
    slopes = [
        (
            registration.warp_points(x + h * e, inverse=inverse)
            - registration.warp_points(x - h * e, inverse=inverse)
        )
        / (2 * h)
        for e in np.eye(2)
    ]
    expected = np.linalg.det(np.moveaxis(slopes, 0, -1))
    found = registration.jacobians(inverse=inverse).reshape(6, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_images_of_the_template_look_like_the_images(registration, fitted, images):
    warped = registration.warp(fitted.templates_[0], order=3)
    assert warped.shape == (6, 8, 8)
    rest = ((warped - images[:6]) ** 2).mean()
    assert rest < 0.3 * ((fitted.templates_[0] - images[:6]) ** 2).mean()
    mask = fitted.templates_[0] > 0.5
    for kind in (bool, np.uint8):
        labels = registration.warp(mask.astype(kind), order=0)
        assert labels.dtype == kind
        assert set(np.unique(labels)) <= {0, 1}
    two = np.stack([fitted.templates_[0], mask], axis=-1)
    both = registration.warp(two, order=3, channel_axis=-1)
    np.testing.assert_allclose(both[..., 0], warped)
    first = registration.warp(np.moveaxis(two, -1, 0), order=3, channel_axis=0)
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), both)


def test_shapes_of_the_input(fitted, images):
    flat = images.reshape(30, -1)
    registered = fitted.register(images[:3])
    assert registered.shape == (3, 8, 8)
    np.testing.assert_array_equal(fitted.register(flat[:3]), registered.reshape(3, -1))
    assert np.abs(fitted.register(images[:3], order=3) - registered).max() > 1e-4
    Z = fitted.modes_of(images[:3])
    assert fitted.inverse_transform(Z).shape == (3, 8, 8)
    samples, _ = fitted.sample(4, random_state=1)
    assert samples.shape == (4, 8, 8)
    np.testing.assert_array_equal(fitted.sample(4, random_state=1)[0], samples)
    assert (fitted.sample(4, random_state=2)[0] != samples).any()
    whole = (100 * images).round().astype(np.int64)
    of_ints = DeformableTemplateEstimator(**SETTINGS).fit(whole)
    same = DeformableTemplateEstimator(**SETTINGS).fit(whole.astype(float))
    np.testing.assert_array_equal(of_ints.templates_, same.templates_)


def test_channels_are_panels_that_move_together():
    rng, shape, n = np.random.default_rng(0), (5, 6), 3
    parts = ((6, 7), (3, 2), 1.6, 2.0)
    one, three = ImageGrid(shape, *parts), ImageGrid(shape, *parts, n_channels=n)
    beta = rng.normal(size=(n, *one.template_landmarks))
    joint = np.zeros(three.template_landmarks)
    gap = (len(joint) - 6 * n) // (n + 1)
    for c in range(n):
        first = gap + c * (6 + gap)
        joint[first : first + 6] = beta[c]
    z, y = 0.5 * rng.normal(size=one.n_latents), rng.normal(size=(n, one.n_pixels))
    alone = [one.deformed(b.ravel(), z) for b in beta]
    np.testing.assert_allclose(
        three.deformed(joint.ravel(), z).reshape(n, -1), alone, atol=1e-3
    )

    def pulled(grid, y, coefficients):
        pixels = Pixels(grid, grid.table(coefficients))
        rss = pixels.rss(y, z)
        return np.append(pixels.pull(), rss)

    expected = sum(pulled(one, y[c], beta[c].ravel()) for c in range(n))
    found = pulled(three, y.ravel(), joint.ravel())
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_colours(images):
    """Channels in other units, one of them partly unknown, laid out in any way."""
    colours = np.stack([images, 50 - 20 * images, 0.1 * images], axis=-1)
    lost = colours.copy()
    lost[::3, 2:5, :, 0] = np.nan
    fitted = DeformableTemplateEstimator(**SETTINGS, channel_axis=-1).fit(lost)
    template = fitted.templates_[0]
    assert template.shape == (8, 8, 3)
    assert fitted.offset_.shape == fitted.scale_.shape == (3,)
    assert fitted.noise_variances_.shape == (1, 3)
    spread = template[..., 0].std()
    assert np.abs(50 - 20 * template[..., 0] - template[..., 1]).max() < 8 * spread
    assert np.abs(0.1 * template[..., 0] - template[..., 2]).max() < 0.04 * spread
    assert fitted.register(lost[:2]).shape == (2, 8, 8, 3)
    assert np.isfinite(fitted.register(lost[:4])).all()
    assert fitted.sample(2)[0].shape == (2, 8, 8, 3)
    first = DeformableTemplateEstimator(**SETTINGS, channel_axis=1)
    first.fit(np.moveaxis(lost, -1, 1))
    np.testing.assert_array_equal(np.moveaxis(first.templates_, 1, -1)[0], template)
    rows = DeformableTemplateEstimator((8, 8), **SETTINGS, channel_axis=-1)
    rows.fit(lost.reshape(len(lost), -1))
    np.testing.assert_array_equal(rows.templates_, fitted.templates_)
    assert rows.sample(2)[0].shape == (2, 192)
    np.testing.assert_allclose(
        fitted.score_samples(lost[:3]), rows.score_samples(lost[:3])
    )
    # In other units densities change by the units.
    doubled = DeformableTemplateEstimator(**SETTINGS, channel_axis=-1).fit(
        lost * [1, 2, 1]
    )
    np.testing.assert_allclose(
        doubled.score(lost[1:3] * [1, 2, 1]),
        fitted.score(lost[1:3]) - 64 * np.log(2),
        rtol=1e-6,
    )


def test_given_templates_name_the_components():
    ring, cross = np.zeros((8, 8)), np.zeros((8, 8))
    ring[2:6, 2:6], ring[3:5, 3:5] = 1.0, 0.0
    cross[3:5], cross[:, 3:5] = 1.0, 1.0
    rng = np.random.default_rng(0)
    X = np.concatenate([[ring] * 12, [cross] * 12]) + 0.1 * rng.normal(size=(24, 8, 8))
    for given in ([ring, cross], [cross, ring]):
        fitted = DeformableTemplateEstimator(
            **SETTINGS, n_components=2, initial_template=given
        ).fit(X)
        for own, start in zip(fitted.templates_, given, strict=True):
            assert ((own - start) ** 2).mean() < 0.5 * ((ring - cross) ** 2).mean()
    with pytest.raises(ValueError, match="initial_template must have shape"):
        DeformableTemplateEstimator(initial_template=ring[1:]).fit(X)
    with pytest.raises(ValueError, match="initial_template contains NaN"):
        DeformableTemplateEstimator(initial_template=ring + np.nan).fit(X)
    as_row = DeformableTemplateEstimator(**SETTINGS, initial_template=ring.ravel())
    np.testing.assert_array_equal(
        as_row.fit(X).templates_,
        as_row.set_params(initial_template=ring).fit(X).templates_,
    )


def test_identity():
    grid = ImageGrid((6, 5), (7, 7), (3, 3), 1.6, 2.0)
    z = np.random.default_rng(0).normal(size=(2, 18))
    same = Registration(grid, z, z)
    image = np.random.default_rng(1).normal(size=(6, 5))
    np.testing.assert_allclose(same.warp(image), [image] * 2, atol=1e-8)
    np.testing.assert_allclose(same.jacobians(), 1.0, atol=1e-8)


def test_labels_of_any_type_are_carried(registration, fitted):
    """order=0 looks up the nearest pixel, as SciPy does for numbers."""
    mask = fitted.templates_[0] > 0.5
    expected = registration.warp(mask.astype(np.int64), order=0)
    for kind in (np.float16, np.longdouble, object):
        labels = registration.warp(mask.astype(kind), order=0)
        assert labels.dtype == kind
        np.testing.assert_array_equal(labels, expected)
    names = registration.warp(np.where(mask, "in", "out"), order=0)
    np.testing.assert_array_equal(names == "in", expected)
    with pytest.raises(ValueError, match="order must be at most 5"):
        registration.warp(mask, order=6)


def test_missing_pixels_stay_local_under_splines(registration, fitted):
    image = fitted.templates_[0].copy()
    whole = registration.warp(image, order=3)
    image[2, 5] = np.nan
    found = registration.warp(image, order=3)
    missing = np.isnan(found)
    assert 0 < missing.sum() < 6 * 10
    linear = registration.warp(image)
    np.testing.assert_array_equal(missing, np.isnan(linear))
    far = np.abs(np.indices(image.shape) - [[[2]], [[5]]]).max(axis=0) > 4
    np.testing.assert_allclose(found[:, far], whole[:, far], atol=0.05)


def test_no_points_and_no_images(registration, fitted, images):
    assert registration.warp_points(np.empty((0, 2))).shape == (6, 0, 2)
    with pytest.raises(ValueError, match="0 sample"):
        fitted.transform(images[:0])
    with pytest.raises(ValueError, match=r"single image: pass X\[np.newaxis\]"):
        fitted.transform(images[0])


def test_axis_of_channels_has_to_exist(registration, fitted):
    image = fitted.templates_[0]
    two = np.stack([image, 2 * image], axis=-1)
    expected = registration.warp(two, channel_axis=2)
    np.testing.assert_array_equal(registration.warp(two, channel_axis=-1), expected)
    for axis in (3, 5):
        with pytest.raises(ValueError, match=f"channel_axis={axis} is no axis"):
            registration.warp(two, channel_axis=axis)
    with pytest.raises(ValueError, match="channel_axis must be"):
        registration.warp(two, channel_axis=-4)


def test_numbers_of_draws_and_directions_are_integers(fitted):
    for count in (0, 2.5):
        with pytest.raises(ValueError, match="n_samples must be an integer >= 1"):
            fitted.sample(count)
        with pytest.raises(ValueError, match="k must be an integer in 1"):
            fitted.principal_deformations(count)
