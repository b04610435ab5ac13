"""Templates of images of other namespaces are those of NumPy arrays."""

import itertools

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

from sktem import DeformableTemplateClassifier, DeformableTemplateEstimator, arrays
from sktem.arrays import TensorRows, arrays_of
from sktem.samplers import DeformationRandomWalk
from sktem.template import estimator as template_estimator
from sktem.template import light, predictors
from sktem.template import statistics as sums
from sktem.template.flow import FlowGrid
from sktem.template.grid import ImageGrid
from sktem.template.kernels import chains, modes, statistics, walks
from sktem.template.kernels.rough import expansions
from sktem.template.likeness import Likeness
from sktem.template.tensor_kernels import function_of
from sktem.template.tensors import TensorImages
from tests.oracles import to_numpy
from tests.template.oracles import SHAPES, model_of, random_params, simulate

SEED = np.uint64(17)
OF_EACH = pytest.mark.parametrize(
    ("shape", "kind"), list(itertools.product(SHAPES, (ImageGrid, FlowGrid))), ids=str
)
ATTRIBUTES = (
    "templates_", "weights_", "covariances_", "noise_variances_", "mean_deformations_",
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks, the last of them shorter; and scikit-learn dispatches."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    monkeypatch.setattr(arrays, "BLOCK_VALUES", 1 << 11)


def tensor_of(xp, X):
    return arrays_of(xp.asarray([0.0])).asarray(X)


def setting(shape, kind=ImageGrid, n=4):
    rng = np.random.default_rng(0)
    grid = kind(shape, *SHAPES[shape], 1.6, 2.0)
    params = random_params(grid, rng)
    Y, _ = simulate(grid, params, n, rng)
    Y[0, 0] = Y[-1, 1] = np.nan
    states = np.zeros((n, grid.n_latents + 3))
    states[:, : grid.n_latents] = 0.2 * rng.normal(size=(n, grid.n_latents))
    states[:, grid.n_latents] = np.log(rng.uniform(0.05, 0.6, size=n))
    states[:, grid.n_latents + 1] = rng.integers(0, 5, size=n)
    states[1, 0] = 1e2  # beyond the template
    return model_of(grid), params, Y, states


def either(kernel):
    """Return a function that calls a kernel, or that of its name for tensors."""
    return lambda X, *arguments: function_of(X, kernel)(X, *arguments)


def both(function, Y, xp, out, *arguments):
    """Compare what a function returns and writes for images of either kind."""
    (found_result, found), (result, expected) = (
        (function(X, *own, *arguments), own)
        for X in (TensorRows(tensor_of(xp, Y)), Y)
        for own in [[one.copy() for one in out]]
    )
    if result is not None:
        np.testing.assert_allclose(found_result, result, rtol=1e-8)
    for one, two in zip(found, expected, strict=True):
        scale = np.abs(two).max(initial=0.0)
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-9 * scale)


@OF_EACH
def test_chains_are_those_of_the_kernels(shape, kind, xp):
    model, params, Y, states = setting(shape, kind)
    grid = model.grid.compiled
    part = model.component(params, 0)
    numbers, same = np.array([3, 0, 2**33, 1]), np.zeros(4, dtype=np.int64)
    for rows, *how in ((numbers, True, 0.574), (same, True, 0.0), (same, False, 0.0)):
        both(
            either(chains.langevin_chains), Y, xp, [states], rows, SEED,
            model.target(params, 0), grid, 2, *how,
        )  # fmt: skip
    given = numbers, SEED, part.table, part.precision
    rest = part.noise_variance, grid, 1
    spread = 1 / np.sqrt(np.diag(part.precision))
    both(either(walks.landmark_walks), Y, xp, [states], *given, spread, *rest, 0.4)
    both(either(walks.prior_walks), Y, xp, [states], *given, part.factor, *rest, 0.0)
    both(either(walks.prior_gibbs), Y, xp, [states], *given, *rest)
    rows = TensorRows(tensor_of(xp, Y))
    Z = states[:, : model.grid.n_latents]
    for name in ("log_joint", "grad_log_joint"):
        found, expected = (getattr(model, name)(X, Z, params) for X in (rows, Y))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@OF_EACH
def test_modes_and_sums_are_those_of_the_kernels(shape, kind, xp):
    model, params, Y, states = setting(shape, kind)
    part, geometry = model.component(params, 0), model.grid
    n, grid = len(Y), geometry.compiled
    rough = expansions(part.table) if len(shape) < 3 else None
    ways = (np.inf, [16.0, 1.0], None), (0.3, [1.0], None), (0.5, [4.0], rough)
    for hold, levels, expanded in ways:
        rows = TensorRows(tensor_of(xp, Y))
        options = {"levels": levels, "hold": hold, "factors": True, "max_steps": 6}
        options["expanded"] = expanded
        found, expected = (model.modes.find(X, part, **options) for X in (rows, Y))
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-7)
    Z, _, lowers, _ = expected
    for freedom in (0, 5):
        both(
            lambda Y, terms, *given: either(modes.importance_terms)(Y, *given, terms),
            Y, xp, [np.zeros((n, 4))], Z, lowers, np.zeros(n, dtype=np.int64), SEED,
            freedom, part.table, part.precision, part.noise_variance, grid,
        )  # fmt: skip
    nodes, precision = geometry.template_nodes, geometry.template_scale**-2
    counts = nodes[:, 2].astype(int)
    outputs = [np.zeros(counts), np.ones(2 * counts - 1), np.zeros(2)]
    masses = np.array([0.5, 2.0, 0.0, -1.0])
    both(
        lambda Y, *out: either(statistics.template_sums)(
            Y, states, masses, geometry.pixels, grid, nodes, precision,
            *out,
        ),
        Y, xp, outputs,
    )  # fmt: skip


@OF_EACH
def test_derivatives_of_residuals(shape, kind, xp):
    """Pulls and Gauss-Newton matrices are those of central differences."""
    model, params, Y, states = setting(shape, kind)
    grid, n = model.grid, 3
    Z = 5.0 * states[: n + 1, : grid.n_latents][[0, 2, 3]]
    found = TensorImages(
        TensorRows(tensor_of(xp, Y[[0, 2, 3]])),
        grid.compiled,
        model.component(params, 0).table,
    )

    def residuals(Z):
        return to_numpy(found.residuals(found.send(Z))[0]).reshape(n, -1)

    moves, z = 1e-5 * np.eye(grid.n_latents), found.send(Z)
    J = np.stack([residuals(Z + m) - residuals(Z - m) for m in moves], axis=1) / 2e-5
    residual, slopes = found.residuals(z)
    pull = to_numpy(found.pull(z, residual, slopes))
    expected = np.einsum("nju,nu->nj", J, residuals(Z))
    np.testing.assert_allclose(pull, expected, rtol=1e-6, atol=1e-7)
    curvature = to_numpy(found.curvature(z, slopes, grid.pairs))
    np.testing.assert_allclose(curvature, J @ J.swapaxes(1, 2), rtol=1e-6, atol=1e-7)


def images(n=12, shape=(6, 5), seed=0):
    """Return blobs at different places, some pixels missing."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.arange(m) - (m - 1) / 2 for m in shape), indexing="ij")
    X = np.empty((n, *shape))
    for image in X:
        centre = 0.6 * rng.normal(size=len(shape))
        gaps = sum((x - c) ** 2 for x, c in zip(axes, centre, strict=True))
        image[:] = 20.0 * np.exp(-gaps / 4) + 3.0 + rng.normal(size=shape)
    X.reshape(n, -1)[2, :3] = np.nan
    return X


def estimator_of(**options):
    options = {
        "template_landmarks": 5, "deformation_landmarks": 2, "max_iter": 2,
        "random_state": 0, "batch_size": 6, **options,
    }  # fmt: skip
    return DeformableTemplateEstimator(**options)


def same_fit(one, two):
    for name in ATTRIBUTES:
        expected = getattr(two, name)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            getattr(one, name), expected, rtol=1e-8, atol=1e-8 * scale
        )
    assert one.history_.events == two.history_.events
    assert one.fold_rate_ == two.fold_rate_


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((6, 5), {}),
        ((6, 5), {"n_components": 2, "sampler": "rwm", "solver": "vrttem"}),
        ((6, 5), {"solver": "biased-saem", "covariance_type": "shared"}),
        ((6, 5), {"sampler": DeformationRandomWalk("prior"), "solver": "fittem"}),
        ((6, 5), {"sampler": "gibbs", "solver": "saem", "nuisances": ("scale",)}),
        ((9,), {"image_shape": (9,)}),
        ((6, 5, 2), {"channel_axis": -1}),
        ((6, 5), {"nuisances": ("gain", "offset")}),
        ((6, 5), {"nuisances": ("offset", "translation"), "sampler": "gibbs"}),
        ((6, 5), {"deformation": "diffeomorphic", "n_components": 2}),
        ((6, 5, 2), {"deformation": "diffeomorphic", "channel_axis": -1}),
        ((9,), {"deformation": "diffeomorphic", "nuisances": ("gain", "scale")}),
    ],
    ids=str,
)
def test_fits_are_those_of_numpy(shape, options, xp):
    X = images(shape=shape)
    weights = np.random.default_rng(0).integers(0, 3, size=len(X))
    estimator = estimator_of(**options)
    two = clone(estimator).fit(X, sample_weight=weights)
    with config_context(array_api_dispatch=True):
        given = tensor_of(xp, X)
        one = clone(estimator).fit(given, sample_weight=tensor_of(xp, weights))
        same_fit(one, two)
        Z = one.mean_deformations_
        found = one.inverse_transform(tensor_of(xp, Z))
        np.testing.assert_allclose(to_numpy(found), two.inverse_transform(Z), rtol=1e-9)


def test_answers_are_those_of_numpy(monkeypatch, xp):
    """Of the kind of the images, whatever an estimator was fitted to."""
    monkeypatch.setattr(template_estimator, "BURN_IN", 2)
    monkeypatch.setattr(template_estimator, "AVERAGED", 3)
    X = images()
    estimator = estimator_of(n_components=2).fit(X)
    with config_context(array_api_dispatch=True):
        given = tensor_of(xp, X[:3])
        for name in ("transform", "score_samples"):
            values = getattr(estimator, name)(given)
            assert arrays_of(values).xp is arrays_of(given).xp
            expected = getattr(estimator, name)(X[:3])
            np.testing.assert_allclose(to_numpy(values), expected, rtol=1e-6, atol=1e-7)
        found = estimator.likelihood_estimates(given[:2, ...], n_draws=5)
        expected = estimator.likelihood_estimates(X[:2], n_draws=5)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7)
        Z = estimator.modes_of(X[:4])
        found = estimator.inverse_transform(tensor_of(xp, Z), [1, 0, 0, 1])
        expected = estimator.inverse_transform(Z, [1, 0, 0, 1])
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-9)


def test_carried_images_are_those_of_numpy(monkeypatch, xp):
    """Gains and offsets, registered images and warped masks."""
    monkeypatch.setattr(light, "TURNS", 2)
    monkeypatch.setattr(template_estimator, "BURN_IN", 2)
    monkeypatch.setattr(template_estimator, "AVERAGED", 3)
    X = images(8)
    masks = np.arange(X[0].size).reshape(X[0].shape) % 3
    estimator = estimator_of(nuisances=("gain", "offset")).fit(X)
    X = X[:2]
    Z = estimator.modes_of(X)
    with config_context(array_api_dispatch=True):
        given = tensor_of(xp, X)
        for name, value in estimator.nuisances_of(given).items():
            expected = estimator.nuisances_of(X)[name]
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6)
        pairs = [
            (estimator.register(given), estimator.register(X)),
            (estimator.score_samples(given), estimator.score_samples(X)),
            (estimator.transform(given), estimator.transform(X)),
            (
                estimator.inverse_transform(tensor_of(xp, Z)),
                estimator.inverse_transform(Z),
            ),
            *(
                (
                    estimator.warp(tensor_of(xp, one), Z, order=order),
                    estimator.warp(one, Z, order=order),
                )
                for one, order in ((masks, 0), (np.nan_to_num(X[0]), 1))
            ),
        ]
        for found, expected in pairs:
            assert arrays_of(found).xp is arrays_of(given).xp
            np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_streams_are_those_of_numpy(xp):
    X = images(23)
    one, two = estimator_of(), estimator_of()
    with config_context(array_api_dispatch=True):
        for chunk in np.split(X, [20]):
            one.partial_fit(tensor_of(xp, chunk))
            two.partial_fit(chunk)
    same_fit(one, two)


def test_single_precision(xp):
    """Values keep their type, and a fit is that of the same images up to rounding."""
    X = images().astype(np.float32)
    two = estimator_of().fit(X)
    with config_context(array_api_dispatch=True):
        one = estimator_of().fit(tensor_of(xp, X))
        found = one.score_samples(tensor_of(xp, X[:2]))
    assert found.dtype == tensor_of(xp, X).dtype
    np.testing.assert_allclose(one.templates_, two.templates_, atol=0.01)
    np.testing.assert_allclose(to_numpy(found), two.score_samples(X[:2]), atol=0.05)


def test_blocks_that_lose_images_are_seen(monkeypatch, xp):
    """A negative control of the tests of equality."""
    model, _, Y, states = setting((7, 4))
    rows, Z = TensorRows(tensor_of(xp, Y)), states[:, : model.grid.n_latents]
    expected = model.mean_statistics(Y, Z)
    np.testing.assert_allclose(model.mean_statistics(rows, Z), expected, rtol=1e-9)
    whole = sums.reduce_blocks
    monkeypatch.setattr(
        sums, "reduce_blocks", lambda f, n, *more: whole(f, n - 1, *more)
    )
    found = model.mean_statistics(rows, Z)
    assert np.abs(found - expected).max() > 1e-3 * np.abs(expected).max()


def two_classes(n=16, shape=(6, 5)):
    """Return images with two kinds of blobs, and their labels."""
    y = np.arange(n) % 2
    X = images(n, shape)
    X += 6.0 * y.reshape(-1, *(1,) * len(shape)) * np.linspace(-1, 1, shape[-1])
    return X, y


def classifier_of(**options):
    options = {
        "template_landmarks": 5, "deformation_landmarks": 2, "max_iter": 2,
        "random_state": 0, **options,
    }  # fmt: skip
    return DeformableTemplateClassifier(**options)


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((6, 5), {"predictor": "likelihood"}),
        ((6, 5), {"predictor": "samples", "n_components": 2}),
        ((9,), {"image_shape": (9,), "n_jobs": 2}),
        ((6, 5, 2), {"channel_axis": -1, "predictor": "samples"}),
    ],
    ids=str,
)
def test_classifiers_are_those_of_numpy(monkeypatch, shape, options, xp):
    monkeypatch.setattr(predictors, "ROWS_PER_CLASS", 20)
    X, y = two_classes(shape=shape)
    weights = np.random.default_rng(0).integers(1, 3, size=len(X))
    new = images(5, shape, seed=1)
    new.reshape(5, -1)[3, 5:] = np.nan  # a hole
    two = classifier_of(**options).fit(X, y, weights)
    with config_context(array_api_dispatch=True):
        given, labels = tensor_of(xp, X), tensor_of(xp, y)
        one = classifier_of(**options).fit(given, labels, tensor_of(xp, weights))
        assert one.predictor_ == two.predictor_
        assert one.temperature_ == pytest.approx(two.temperature_, rel=1e-6)
        for a, b in zip(one.estimators_, two.estimators_, strict=True):
            same_fit(a, b)
        for name in ("predict_joint_log_proba", "predict_proba", "outlier_proba"):
            found = getattr(one, name)(tensor_of(xp, new))
            assert arrays_of(found).xp is arrays_of(given).xp
            expected = getattr(two, name)(new)
            np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-6, atol=1e-7)
        found = one.predict(given)
        assert arrays_of(found).xp is arrays_of(given).xp
        np.testing.assert_array_equal(to_numpy(found), two.predict(X))
        for answers in (labels, y):
            assert one.score(given, answers, weights) == two.score(X, y, weights)


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_labels_that_are_text(xp):
    """No other namespace has them: labels and predictions are NumPy's."""
    X, y = two_classes()
    names = np.array(["one", "two"])[y]
    with config_context(array_api_dispatch=True):
        given = tensor_of(xp, X.astype(np.float32))
        one = classifier_of(predictor="likelihood", temperature=1.0).fit(given, names)
        found = one.predict(given)
        assert one.predict_proba(given).dtype == given.dtype
        assert one.score(given, names) == np.mean(found == names) > 0.9


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize(("shape", "n_channels"), [((40,), 2), ((6, 5), 3)], ids=str)
def test_features_are_those_of_numpy(shape, n_channels, noise, xp):
    alike = Likeness(shape, n_channels, noise)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, n_channels * int(np.prod(shape))))
    X[1] = 2.0
    found = alike.features(tensor_of(xp, X))
    np.testing.assert_allclose(to_numpy(found), alike.features(X), atol=1e-12)
