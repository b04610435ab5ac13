"""Prediction by samples: deformed copies, the kernel machine, the classifier."""

import pickle

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.ndimage import gaussian_filter, map_coordinates, zoom
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss

from sktem import DeformableTemplateClassifier, DeformableTemplateEstimator
from sktem.models import ImageGrid
from sktem.template import copies, likeness, predictors
from sktem.template.copies import PooledDeformations, pooled_covariance
from sktem.template.predictors import Likelihoods, has_holes
from tests.oracles import LIMIT
from tests.template.oracles import SMALL, grid_of, two_kinds

OF_SHAPE = pytest.mark.parametrize("shape", [(5,), (7, 4), (3, 4, 5)], ids=str)


def classifier(**settings):
    return DeformableTemplateClassifier(**{**SMALL, "predictor": "samples", **settings})


@pytest.fixture(scope="module", autouse=True)
def fewer_copies():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictors, "ROWS_PER_CLASS", 100)
        yield


@pytest.fixture(scope="module")
def data():
    X, kinds = two_kinds(60)
    return X, np.array(["across", "down"])[kinds]


@pytest.fixture(scope="module")
def fitted(data):
    X, y = data
    return classifier().fit(X[:20], y[:20])


# ------------------------------------------------------------------------ deformations


@OF_SHAPE
def test_fields_have_the_covariance_of_their_law(shape):
    grid, rng = grid_of(shape), np.random.default_rng(0)
    root = rng.normal(size=(grid.n_latents, grid.n_latents))
    law = PooledDeformations(grid, 0.01 * (root @ root.T + np.eye(grid.n_latents)))
    n = 4000
    fields = law.fields(n, rng).reshape(n, -1)
    kernel = grid.field(np.eye(grid.n_latents)).reshape(grid.n_latents, -1)
    pixels = grid.pixels
    expected = learned = kernel.T @ law.covariance @ kernel
    blocks = []
    for axis in range(grid.n_axes):
        entries = np.where(np.arange(grid.n_axes) == axis, copies.SCALE, copies.SHEAR)
        block = (pixels.T * entries**2) @ pixels
        blocks.append(block + (copies.TRANSLATION * max(shape)) ** 2)
    expected = learned + block_diag(*blocks)
    variances = np.diag(expected)
    error = np.sqrt((np.outer(variances, variances) + expected**2) / n)
    found = fields.T @ fields / n
    assert (np.abs(found - expected) < LIMIT * error).all()
    assert (np.abs(found - learned) > LIMIT * error).any()
    assert np.abs(fields.mean(axis=0)).max() < LIMIT * np.sqrt(variances.max() / n)


def test_copies_show_the_image_elsewhere(monkeypatch):
    """A ramp, read at x - Phi(x), differs from itself by the displacement."""
    grid = ImageGrid((12, 12), (6, 6), (3, 3), 2.0, 4.0)
    law = PooledDeformations(grid, 0.01 * np.eye(18))
    ramp = np.add.outer(np.arange(12.0), np.zeros(12)).ravel()
    found = law.copies(np.stack([ramp] * 5), [0.0], np.random.default_rng(1))
    shift = law.fields(5, np.random.default_rng(1))[:, 0]
    inner = np.zeros((12, 12), dtype=bool)
    inner[4:8, 4:8] = True
    inside = inner.ravel()
    np.testing.assert_allclose(found[:, inside], (ramp - shift)[:, inside], atol=1e-9)
    for name in ("SCALE", "SHEAR", "TRANSLATION"):
        monkeypatch.setattr(copies, name, 0.0)
    still = PooledDeformations(grid, 1e-20 * np.eye(18))
    images = np.random.default_rng(0).normal(size=(300, 144))
    np.testing.assert_allclose(
        still.copies(images, [0.0], np.random.default_rng(0)), images, atol=1e-6
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
    np.testing.assert_allclose(
        copies.kept_variance(positions, shape), expected, atol=1e-12
    )


@OF_SHAPE
def test_copies_are_as_noisy_as_images(shape):
    grid, rng = grid_of(shape), np.random.default_rng(0)
    law = PooledDeformations(grid, 0.01 * np.eye(grid.n_latents))
    n, size = 3000, np.prod(shape)
    noise = 2.0 * rng.normal(size=(n, size))
    variances, error = [], np.sqrt(2 / n)
    for given in (2.0, 0.0):
        found = law.copies(noise, [given], np.random.default_rng(1))
        variances.append(np.mean(found**2, axis=0) / 4)
    assert np.abs(variances[0] - 1).max() < LIMIT * error
    assert variances[1].mean() < 0.8


def simulated(n, covariance_scale, seed=0):
    """Return a fitted model and images of one deformed blob."""
    grid = ImageGrid((12, 12), (9, 9), (3, 3), 1.5, 5.0)
    rng = np.random.default_rng(seed)
    place = grid.pixels[:, None]
    Z = covariance_scale * rng.multivariate_normal(
        np.zeros(18), grid.smooth_covariance, size=n
    )
    moved = place[:, 0] - grid.field(Z).reshape(n, 2, -1)
    images = np.exp(-0.5 * (moved**2).sum(axis=1) / 2.5**2)
    images += np.exp(-0.5 * ((moved - 2) ** 2).sum(axis=1))
    images += 0.02 * rng.normal(size=images.shape)
    model = DeformableTemplateEstimator(
        (12, 12),
        template_landmarks=9,
        deformation_landmarks=3,
        deformation_width=5.0,
        deformation_scale=0.5,
        max_iter=15,
        random_state=0,
    )
    return model.fit(images), images


def spread(model, covariance):
    """Return the standard deviation of displacements in pixels."""
    field = model.grid_.field(np.linalg.cholesky(covariance).T)
    return np.sqrt((field**2).sum() / field[0].size)


def test_pooled_covariance_is_that_of_the_images():
    """The more images, the nearer; one image of a class leaves the prior."""
    model, X = simulated(60, 1.2)
    alone = pooled_covariance([model], [(X[:1], np.ones(1))])
    expected = (copies.EXPECTED * 12 / 16) ** 2 * model.grid_.smooth_covariance
    np.testing.assert_allclose(alone, expected)
    prior = spread(model, alone)
    halves = [(X[:30], np.ones(30)), (X[30:], np.ones(30))]
    found = spread(model, pooled_covariance([model, model], halves))
    few = spread(model, pooled_covariance([model], [(X[:6], np.ones(6))]))
    assert prior < few < found < 1.3
    assert found > 0.85
    doubled = pooled_covariance([model], [(X[:30], np.full(30, 2.0))])
    repeated = [(np.tile(X[:15], (2, 1)), np.ones(30))]
    np.testing.assert_allclose(
        pooled_covariance([model], [(X[:15], np.full(15, 2.0))]),
        pooled_covariance([model], repeated),
        atol=1e-8,
    )
    assert spread(model, doubled) > few


# --------------------------------------------------------------------- kernel machine


def machine_of(data, n=20, **constants):
    X, y = data
    fitted = classifier(**constants).fit(X[:n], y[:n])
    parts = [(X[:n][y[:n] == c], np.ones((y[:n] == c).sum())) for c in fitted.classes_]
    return fitted, parts


@pytest.fixture
def exact(monkeypatch):
    """Few copies, and equations in the precision of the references."""
    monkeypatch.setattr(predictors, "ROWS_PER_CLASS", 40)
    monkeypatch.setattr(predictors, "PRECISION", np.float64)


def test_machine_is_kernel_ridge_regression(data, exact):
    fitted, parts = machine_of(data)
    machine, _ = predictors.learn_samples(
        fitted.estimators_, parts, np.random.default_rng(3)
    )
    X, labels, sources, weights, _ = predictors.images_and_copies(
        fitted.estimators_, parts, machine.units, np.random.default_rng(3)
    )
    assert (np.bincount(labels) == 40).all() and (weights == 1).all()
    offset, scale = machine.units
    images = np.concatenate([part[0] for part in parts])
    np.testing.assert_allclose(offset + scale * X[:20], images, atol=1e-12)
    np.testing.assert_array_equal(labels, labels[sources])
    reference = KernelRidge(
        alpha=predictors.RIDGE, kernel="rbf", gamma=likeness.GAMMA
    ).fit(machine.likeness.features(X), np.eye(2)[labels] - 0.5)
    expected = reference.predict(machine.likeness.features((data[0] - offset) / scale))
    np.testing.assert_allclose(machine.judge(data[0])[0], expected + 0.5, atol=1e-10)


def test_left_out_scores_are_those_without_the_image(data, exact):
    """Against a machine that was fitted without an image and its copies."""
    fitted, parts = machine_of(data)
    args = fitted.estimators_, parts
    machine, left_out = predictors.learn_samples(*args, np.random.default_rng(3))
    X, labels, sources, *_ = predictors.images_and_copies(
        *args, machine.units, np.random.default_rng(3)
    )
    offset, scale = machine.units
    for image in (0, 7, 19):
        kept = sources != image
        other = KernelRidge(
            alpha=predictors.RIDGE, kernel="rbf", gamma=likeness.GAMMA
        ).fit(machine.likeness.features(X[kept]), np.eye(2)[labels[kept]] - 0.5)
        expected = other.predict(machine.likeness.features(X[[image]])) + 0.5
        np.testing.assert_allclose(left_out.scores[image], expected[0], atol=1e-8)
        scores, distances = machine.judge(offset + scale * X[[image]])
        assert np.abs(left_out.scores[image] - scores).max() > 1e-3
        assert distances[0] < 1e-10
        rows = machine.likeness.features(X[kept]), machine.likeness.features(X[image])
        nearest = ((rows[0] - rows[1]) ** 2).sum(axis=1).min()
        np.testing.assert_allclose(left_out.distances[image], nearest, atol=1e-8)


def test_precision_of_the_equations(data, monkeypatch):
    """By the size of rounding errors and the condition of the matrix."""
    fitted, parts = machine_of(data)
    found = []
    for precision in (np.float32, np.float64):
        monkeypatch.setattr(predictors, "PRECISION", precision)
        machine, left_out = predictors.learn_samples(
            fitted.estimators_, parts, np.random.default_rng(3)
        )
        found.append([machine.judge(data[0])[0], left_out.scores])
    bound = np.finfo(np.float32).eps * len(machine.rows) / predictors.RIDGE
    assert bound < 1e-3
    for rough, fine in zip(*found, strict=True):
        assert 0 < np.abs(rough - fine).max() < bound


def test_many_images_are_thinned_out(data, monkeypatch):
    monkeypatch.setattr(predictors, "ROWS_PER_CLASS", 5)
    monkeypatch.setattr(predictors, "MOST_ROWS", 30)
    fitted, _ = machine_of(data, n=60)
    assert len(fitted._predictor.rows) == 30
    assert fitted.score(*data) > 0.9


# -------------------------------------------------------------------------- classifier


def test_predictions(fitted, data):
    X, y = data
    assert fitted.score(X[20:], y[20:]) > 0.95
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(
        fitted.classes_[probabilities.argmax(axis=1)], fitted.predict(X)
    )
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), probabilities)
    scores = fitted.predict_joint_log_proba(X) - np.log(fitted.class_prior_)
    hot = clone(fitted).set_params(temperature=2.0).fit(X[:20], y[:20])
    np.testing.assert_allclose(
        hot.predict_joint_log_proba(X) - np.log(hot.class_prior_),
        scores * fitted.temperature_ / 2,
    )
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), probabilities)
    np.testing.assert_allclose(
        fitted.predict_proba(X[:1]), probabilities[:1], atol=1e-10
    )


def test_chosen_temperature_is_honest():
    """Near the best for images that the machine has not seen."""
    X, y = two_kinds(300, seed=0)
    noise = gaussian_filter(
        np.random.default_rng(0).normal(size=(300, 6, 6)), (0, 0.8, 0.8)
    )
    X = X + 0.6 * noise.reshape(300, -1)
    fitted = classifier().fit(X[:60], y[:60])
    loss = log_loss(y[60:], fitted.predict_proba(X[60:]))
    logs = fitted.predict_joint_log_proba(X[60:]) * fitted.temperature_
    others = []
    for temperature in fitted.temperature_ * np.array([1 / 6, 6.0]):
        proba = np.exp(logs / temperature)
        others.append(log_loss(y[60:], proba / proba.sum(axis=1, keepdims=True)))
    assert loss < min(others) and loss < np.log(2)


def test_one_image_of_a_class(data):
    X, y = data
    rows = [np.flatnonzero(y == c)[0] for c in ("across", "down")]
    fitted = classifier().fit(X[rows], y[rows])
    assert fitted.temperature_ == predictors.TEMPERATURE
    assert fitted.score(X, y) > 0.8


def test_missing_pixels(data):
    X, y = data
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    fitted = classifier().fit(holes, y)
    assert fitted.score(holes, y) > 0.85
    unseen = np.full((1, 36), np.nan)
    np.testing.assert_allclose(fitted.predict_proba(unseen), [fitted.class_prior_])


@pytest.mark.parametrize("shape", [(36,), (4, 9), (4, 3, 3)], ids=str)
def test_holes(shape):
    """A pixel and all of its neighbours, in every axis."""
    X = np.zeros((3, *shape))
    block = tuple(slice(0, 3) for _ in shape)
    X[1][block] = X[2][block] = np.nan
    X[2][(0,) * len(shape)] = 0.0
    X[0, 0] = np.nan
    assert list(has_holes(X.reshape(3, 36), shape)) == [False, True, False]


def test_holes_have_likelihoods(fitted, data):
    X, _ = data
    part = X[20:30].copy()
    part[::2, :18] = np.nan
    part[1, [3, 20]] = np.nan
    found = fitted.predict_joint_log_proba(part) - np.log(fitted.class_prior_)
    logs = Likelihoods(fitted.estimators_).judge(part[::2])[0]
    np.testing.assert_allclose(found[::2], logs / 18)
    scores = fitted._predictor.judge(part[1::2])[0]
    np.testing.assert_allclose(found[1::2], scores / fitted.temperature_)
    alone = [fitted.predict_proba(part[k : k + 1])[0] for k in range(10)]
    np.testing.assert_allclose(alone, fitted.predict_proba(part), atol=1e-10)


def test_likelihoods_are_those_of_the_fitted_values(data):
    """What is remembered between calls is made anew where a model has changed."""
    X, y = data
    fitted = classifier(predictor="likelihood", temperature=1.0).fit(X[:20], y[:20])
    before = fitted.predict_joint_log_proba(X[20:30])
    for name, change in (("coefficients_", 0.9), ("noise_variances_", 2.0)):
        values = getattr(fitted.estimators_[1], name)
        values *= change
        found = fitted.predict_joint_log_proba(X[20:30])
        fresh = Likelihoods(fitted.estimators_).judge(X[20:30])[0]
        np.testing.assert_array_equal(found, fresh + np.log(fitted.class_prior_))
        np.testing.assert_array_equal(found[:, 0], before[:, 0])
        assert (found[:, 1] != before[:, 1]).all()
        copied = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(copied.predict_joint_log_proba(X[20:30]), found)


def searched(fitted, X, **options):
    """Return log-likelihoods at modes that were sought for all classes to the end."""
    logs = []
    for own in fitted.estimators_:
        model, params = own._fitted_model()
        Y = own._in_range(X)
        found = model.modes_of(Y, params, 0, **options)[1]
        logs.append(own._in_units_of_images(found[:, None], Y)[:, 0])
    return np.stack(logs, axis=1)


def test_what_is_explained_poorly_is_sought_again(monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (2, 3, 5, 8))], y[np.isin(y, (2, 3, 5, 8))]
    X = zoom(X.reshape(-1, 8, 8), (1, 2, 2), order=1).reshape(len(X), -1)
    fitted = DeformableTemplateClassifier(
        predictor="likelihood", temperature=1.0, max_iter=5, random_state=0
    ).fit(X[:20], y[:20])
    X = X[20:320]
    # Further away than the training images are from each other.
    X[100:] = np.roll(X[100:].reshape(-1, 16, 16), 3, axis=2).reshape(200, -1)
    judge = Likelihoods(fitted.estimators_).judge
    found = judge(X)[0]
    monkeypatch.setattr(predictors, "POOR", np.inf)
    once = judge(X)[0]
    again = (found != once).any(axis=1)
    assert 0.1 < again.mean() < 0.95
    afresh = searched(fitted, X, hold=0.5, levels=4.0 ** np.arange(3, -1, -1))
    expected = np.maximum(once, afresh)
    np.testing.assert_allclose(found[again], expected[again], rtol=1e-9)
    # Those of the others would have changed less, and few labels.
    gains = (afresh - once).max(axis=1)
    assert np.median(gains[~again]) < np.median(gains[again])
    label = searched(fitted, X).argmax(axis=1)
    wrong = [(logs.argmax(axis=1) != label).mean() for logs in (found, once)]
    assert wrong[0] < wrong[1]


def test_missing_pixels_are_interpolated(fitted):
    """What is smooth comes back; where nothing was seen there is the mean image."""
    machine = fitted._predictor
    smooth = machine.mean_image + np.repeat(np.linspace(-1, 1, 6), 6)
    holes = np.stack([smooth] * 20)
    missing = np.random.default_rng(0).random(holes.shape) < 0.2
    holes[missing] = np.nan
    found = machine._filled(holes.copy())
    np.testing.assert_array_equal(found[~missing], np.stack([smooth] * 20)[~missing])
    assert np.abs(found - smooth).max() < 0.5 and np.abs(found - smooth).mean() < 0.05
    unseen = machine._filled(np.full((1, 36), np.nan))
    np.testing.assert_allclose(unseen, machine.mean_image[None])


@pytest.mark.parametrize("shape", [(36,), (4, 3, 3)], ids=str)
def test_signals_and_volumes(shape, data):
    X, y = data
    fitted = classifier(
        image_shape=shape, template_landmarks="auto", deformation_landmarks="auto"
    ).fit(X[:20], y[:20])
    assert fitted.score(X, y) > 0.8


def test_signals_by_a_shape_anywhere(monkeypatch):
    """Waves of two lengths in windows at random places; by place alone they fail."""
    rng, t = np.random.default_rng(0), np.arange(80.0)
    labels = np.arange(120) % 2
    places = rng.uniform(15, 65, size=(120, 1))
    waves = np.cos((t - places) * np.where(labels, 1.2, 0.6)[:, None])
    X = waves * np.exp(-(((t - places) / 8) ** 2)) + 0.02 * rng.normal(size=(120, 80))
    settings = {
        "image_shape": (80,),
        "template_landmarks": "auto",
        "deformation_landmarks": "auto",
    }
    fitted = classifier(**settings).fit(X[:10], labels[:10])
    assert fitted.score(X[10:], labels[10:]) > 0.95
    assert (fitted.outlier_proba(X[10:]) < 0.5).mean() > 0.9
    monkeypatch.setattr(likeness, "SHARE_OF_PATTERNS", 0.0)
    by_place = classifier(**settings).fit(X[:10], labels[:10])
    assert by_place.score(X[10:], labels[10:]) < 0.85


def test_threads_and_units(data):
    X, y = data
    found = [
        classifier(n_jobs=n_jobs).fit(scale * X[:20], y[:20]).predict_proba(scale * X)
        for n_jobs, scale in ((1, 1.0), (2, 1.0), (1, 1e4))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], atol=1e-4)


def test_predictor_by_noise(data):
    X, y = data
    found = []
    for size in (0.0, 0.2, 2.0):
        noise = np.random.default_rng(0).normal(size=X[:20].shape)
        smooth = gaussian_filter(X[:20].reshape(-1, 6, 6), (0, 1, 1)).reshape(20, -1)
        settings = {"predictor": "auto", "temperature": 1.0}
        found.append(classifier(**settings).fit(smooth + size * noise, y[:20]))
    assert [one.predictor_ for one in found] == [
        "samples",
        "samples",
        "likelihood",
    ]


def test_wrong_predictor(data):
    with pytest.raises(ValueError, match="predictor must be one of"):
        classifier(predictor="sample").fit(*data)


def unlike_digits():
    """Images like no digit: blank, one value, a huge one, stripes, and noise."""
    stripes = np.tile([16.0, 0.0], 32)
    rng = np.random.default_rng(0)
    rows = [np.zeros(64), np.full(64, 8.0), np.full(64, 1e6), stripes]
    return np.vstack([rows, rng.choice([0.0, 16.0], (2, 64))])


@pytest.mark.parametrize("predictor", ["samples", "likelihood"])
def test_images_like_none_have_prior_probabilities(predictor):
    X, y = load_digits(n_class=3, return_X_y=True)
    fitted = DeformableTemplateClassifier(
        predictor=predictor, max_iter=8, template_landmarks=8, random_state=0,
        class_prior=[0.2, 0.3, 0.5],
    ).fit(X[:36], y[:36])  # fmt: skip
    odd = unlike_digits()
    assert fitted.outlier_proba(odd).min() > 0.9
    np.testing.assert_allclose(
        fitted.predict_proba(odd), np.tile(fitted.class_prior_, (len(odd), 1)), atol=0.1
    )
    # Negative control: without the outliers' share one of them is certain.
    logs = fitted.predict_joint_log_proba(odd)
    assert np.exp(logs - logsumexp(logs, axis=1, keepdims=True)).max() > 0.9
    part = fitted.outlier_proba(X[36:136])
    assert np.median(part) < 0.01
    assert (part > 0.5).mean() < 0.06
    proba = fitted.predict_proba(X[36:136])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    labels = fitted.classes_[proba.argmax(axis=1)]
    np.testing.assert_array_equal(labels, fitted.predict(X[36:136]))
    joint = fitted.predict_joint_log_proba(X[36:136])
    shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    mixed = shares + part[:, None] * (fitted.class_prior_ - shares)
    np.testing.assert_allclose(proba, mixed, atol=1e-12)


def test_labels_of_images_from_elsewhere():
    """Where images lie far off, the nearest class is still the best answer."""
    X, y = load_digits(n_class=3, return_X_y=True)
    fitted = DeformableTemplateClassifier(
        predictor="samples", max_iter=8, template_landmarks=8, random_state=0
    ).fit(X[:36], y[:36])
    far = np.flatnonzero(fitted.outlier_proba(3 * X[36:336] + 5) > 0.9) + 36
    assert len(far) > 50
    images, labels = 3 * X[far] + 5, y[far]
    assert fitted.score(images, labels) > 0.85
    # Negative control: by the probabilities, most of which are those of the classes.
    assert (fitted.predict_proba(images).argmax(axis=1) == labels).mean() < 0.8
