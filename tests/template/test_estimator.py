"""The face of the template estimator: what its methods return and what they refuse."""

import pickle
from copy import copy

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sktem import (
    DeformableTemplateEstimator,
    DeformableTemplatePrior,
)
from sktem.exceptions import FitWarning
from sktem.samplers import MALA, DeformationMALA
from sktem.schedules import Constant
from sktem.solvers import SOLVERS
from sktem.template.geometry.landmarks import geometry
from tests.oracles import LIMIT, standard_errors
from tests.template.oracles import Dense, blobs, template, two_kinds


@pytest.fixture(scope="module")
def images():
    return blobs(40)


@pytest.fixture(scope="module")
def fitted(images):
    return template(max_iter=15).fit(images)


@pytest.fixture(scope="module")
def mixture():
    X, kinds = two_kinds(40)
    return template(n_components=2, max_iter=8).fit(X), X, kinds


# ------------------------------------------------------------------------ attributes


def test_attributes(fitted):
    assert fitted.templates_.shape == (1, 6, 6)
    assert fitted.covariances_.shape == (1, 18, 18)
    assert fitted.coefficients_.shape == (1, 25)
    assert fitted.weights_.shape == fitted.noise_variances_.shape == (1,)
    np.testing.assert_array_equal(fitted.weights_, 1)
    np.linalg.cholesky(fitted.covariances_)
    assert 0 <= fitted.fold_rate_ <= 1
    assert fitted.image_shape_ == (6, 6) and fitted.n_features_in_ == 36
    assert fitted.n_iter_ == 15 == fitted.history_.passes[-1]
    # In units of the images: the noise was 0.05, the peak 1.
    assert 0.03**2 < fitted.noise_variances_[0] < 0.08**2
    assert 0.8 < fitted.templates_.max() < 1.2


@pytest.mark.parametrize("shape", [(12,), (9, 4), (3, 4, 3)], ids=str)
def test_axes(shape):
    X = blobs(15, shape)
    # Volumes move along three axes.
    d = len(shape)
    fitted = template(image_shape=shape, template_landmarks=4, deformation_landmarks=2)
    fitted.fit(X)
    k = fitted.grid_.n_places
    Z = fitted.transform(X)
    assert Z.shape == (15, d * k)
    assert fitted.templates_.shape == (1, *shape)
    assert fitted.deformation_fields(X).shape == (15, d, *shape)
    assert fitted.inverse_transform(Z).shape == fitted.register(X).shape == X.shape
    assert len(fitted.get_feature_names_out()) == d * k
    same = template(template_landmarks=4, deformation_landmarks=2)
    same.fit(X.reshape(15, *shape) if d > 1 else X)
    np.testing.assert_array_equal(same.templates_, fitted.templates_)
    np.testing.assert_array_equal(same.transform(X.reshape(15, -1)), Z)


def test_shape_of_rows():
    X = np.random.default_rng(0).normal(size=(8, 16))
    assert template(max_iter=0).fit(X).image_shape_ == (4, 4)
    assert template(max_iter=0).fit(X[:, :15]).image_shape_ == (15,)
    assert template(max_iter=0, image_shape=16).fit(X).image_shape_ == (16,)
    assert template(max_iter=0, image_shape=(2, 8)).fit(X).image_shape_ == (2, 8)


def test_landmarks():
    grid = DeformableTemplateEstimator((16, 8), max_iter=0)
    grid = grid.fit(np.random.default_rng(0).normal(size=(3, 128))).grid_
    assert grid.template_landmarks[0] == 18 and grid.deformation_landmarks[0] == 6
    spacings = [axis[1] - axis[0] for axis in grid.template_axes]
    assert spacings[1] == pytest.approx(spacings[0], rel=0.1)
    # Never more than the pixels can tell apart.
    small = DeformableTemplateEstimator((2, 3), max_iter=0).fit(np.eye(6))
    assert max(small.grid_.template_landmarks) <= 7
    assert small.grid_.deformation_landmarks <= (2, 3)
    # As dense in larger images, as far as that can be afforded.
    for shape, most in {(28, 20): 950, (64,) * 2: 3700, (200,) * 2: 5000}.items():
        grid = geometry(shape, "auto", "auto", "auto", "auto")
        spacing = np.diff(grid.template_axes[0][:2])[0]
        assert grid.n_template <= most
        assert 1.2 < spacing < 1.45 or grid.n_template > 4800
        assert grid.template_scale == pytest.approx(0.93 * spacing)
        assert grid.template_axes[0][-1] > grid.pixel_axes[0][-1] + 3
        # Displacements are as smooth relative to the image.
        assert grid.deformation_width == pytest.approx((max(shape) - 1) / 5)
    assert geometry((400,), *["auto"] * 4).template_landmarks[0] > 200
    assert geometry((24,) * 3, *["auto"] * 4).n_template <= 2744
    given = template(template_landmarks=(4, 3), deformation_landmarks=(2, 1))
    given.fit(blobs(5))
    assert given.grid_.template_landmarks == (4, 3)
    assert given.covariances_.shape == (1, 4, 4)


# ------------------------------------------------------------------------- transform


def test_transform_is_the_posterior_mean(fitted, images):
    """The mean of many long chains, up to the noise of one chain of 30 states."""
    Z = fitted.transform(images[:5])
    model, params = fitted._template.model, fitted._template.params
    Y = (images[:5] - fitted.offset_) / fitted.scale_
    many, sums, squares = np.repeat(Y, 100, axis=0), 0.0, 0.0
    states = model.chain_states(500)
    for k in range(80):
        states, *_ = model.move_chains(
            many, states, params, k, 3, adapt=0.574, first=0.2
        )
        if k >= 30:
            draws = states[:, :18].reshape(5, 100, 18)
            sums, squares = sums + draws.mean(axis=1), squares + (draws**2).mean(axis=1)
    mean = sums / 50
    deviation = np.sqrt(squares / 50 - mean**2)

    def distance(estimate):
        """In posterior standard deviations."""
        return np.sqrt((((estimate - mean) / deviation) ** 2).mean())

    # Thirty independent draws would be 0.18 off.
    assert distance(Z) < 0.27
    assert distance(0 * Z) > 0.3 and distance(np.roll(Z, 1, axis=0)) > 0.5


@pytest.mark.parametrize(
    "method", ["transform", "modes_of", "register", "score_samples", "predict_proba"]
)
def test_answers_do_not_depend_on_the_other_images(method, mixture):
    fitted, X, _ = mixture
    whole = getattr(fitted, method)(X)
    for rows in ([3], [17, 2, 39], slice(10, 30)):
        np.testing.assert_array_equal(getattr(fitted, method)(X[rows]), whole[rows])
    np.testing.assert_array_equal(getattr(fitted, method)(X), whole)


def test_importance_sampling_does_not_depend_on_the_other_images(mixture):
    fitted, X, _ = mixture
    whole = fitted.likelihood_estimates(X, n_draws=20)
    some = fitted.likelihood_estimates(X[[30, 4]], n_draws=20)
    total, error = fitted.log_likelihood(X, n_draws=20, return_error=True)
    assert total == pytest.approx(whole.log_likelihood.sum())
    assert error == pytest.approx(np.linalg.norm(whole.standard_error))
    assert fitted.log_likelihood(X, n_draws=20) == total
    for a, b in zip(whole, some, strict=True):
        np.testing.assert_array_equal(a[[30, 4]], b)


def test_inverse_transform(fitted, images):
    """Images of deformed templates, from dense kernels; good fits of the images."""
    Z = fitted.modes_of(images)
    found = fitted.inverse_transform(Z)
    dense = Dense(fitted.grid_)
    expected = [dense.design(z) @ fitted.coefficients_[0] for z in Z]
    expected = fitted.offset_ + fitted.scale_ * np.array(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    residual = ((images - found) ** 2).mean()
    undeformed = ((images - fitted.templates_[0].ravel()) ** 2).mean()
    assert residual < undeformed / 4


def test_inverse_transform_of_components(mixture):
    fitted, _, _ = mixture
    Z = fitted.mean_deformations_[[1, 0, 1]]
    found = fitted.inverse_transform(Z, [1, 0, 1]).reshape(3, 6, 6)
    np.testing.assert_allclose(found, fitted.templates_[[1, 0, 1]], rtol=1e-9)
    with pytest.raises(ValueError, match=r"component must be in 0, ..., 1, got 2"):
        fitted.inverse_transform(Z, 2)
    with pytest.raises(ValueError, match="Z must have 18 columns, got 17"):
        fitted.inverse_transform(Z[:, 1:])


# ---------------------------------------------------------------- fields and warping


def test_deformation_fields(fitted, images):
    fields = fitted.deformation_fields(images[:4])
    dense, Z = Dense(fitted.grid_), fitted.modes_of(images[:4])
    expected = [(dense.pixels - dense.moved(z)).T.reshape(2, 6, 6) for z in Z]
    np.testing.assert_allclose(fields, expected, atol=1e-12)
    np.testing.assert_allclose(
        fitted.min_jacobians(images[:4]), fitted.grid_.jacobians(Z).min(axis=1)
    )


def test_fields_point_the_right_way(fitted):
    """A blob that was moved down has a field that points down."""
    u = np.arange(6) - 2.5
    moved = np.exp(-(np.add.outer((u - 0.7) ** 2, u**2)) / 4.5).ravel()
    field = fitted.deformation_fields(moved[None])[0, :, 2:4, 2:4].mean(axis=(1, 2))
    assert field[0] > 0.4 > 0.2 > abs(field[1])


def test_registered_images_are_nearer_to_the_template(fitted, images):
    registered = fitted.register(images)
    target = fitted.templates_[0].ravel()
    before = ((images - target) ** 2).mean(axis=1)
    after = ((registered - target) ** 2).mean(axis=1)
    assert after.mean() < 0.5 * before.mean()
    strong = before > np.median(before)
    assert (after < before)[strong].mean() > 0.9


def test_warp_by_the_mean_deformation_is_the_identity(fitted, images):
    mean = np.repeat(fitted.mean_deformations_, 3, axis=0)
    for order in (1, 3):
        for inverse in (False, True):
            found = fitted.warp(images[:3], mean, inverse=inverse, order=order)
            np.testing.assert_allclose(found, images[:3], atol=1e-6)
    one = fitted.warp(images[0].reshape(6, 6), mean)
    assert one.shape == (3, 6, 6)
    np.testing.assert_allclose(
        one.reshape(3, 36), np.repeat(images[:1], 3, axis=0), atol=1e-6
    )
    # Masks and labels keep their values.
    mask = images[:3] > np.median(images)
    np.testing.assert_array_equal(fitted.warp(mask, mean, order=0), mask)
    none = fitted.warp(images[:3], np.zeros((3, 18)))
    assert np.abs(none - images[:3]).max() > 1e-3


def test_the_template_is_shown_at_the_mean_deformation(fitted, mixture):
    for estimator in (fitted, mixture[0]):
        T = len(estimator.weights_)
        shown = estimator.inverse_transform(estimator.mean_deformations_, np.arange(T))
        np.testing.assert_allclose(estimator.templates_.reshape(T, -1), shown)
        assert np.abs(estimator.mean_deformations_).max() > 1e-3


def test_warp_carries_the_template_along():
    """A fine grid: warping pixels is nearly the deformed template itself."""
    X = blobs(20, (16, 16), width=3.0, jitter=1.0)
    fitted = template(template_landmarks=9).fit(X)
    rng = np.random.default_rng(0)
    Z = 0.8 * rng.normal(size=(5, 18))
    plain = fitted.templates_[0].ravel()
    deformed = fitted.inverse_transform(Z)
    found = fitted.warp(plain, Z, order=3)
    inside = np.zeros((16, 16), dtype=bool)
    inside[2:-2, 2:-2] = True
    inside = inside.ravel()
    assert np.abs(found - deformed)[:, inside].max() < 0.05
    assert np.abs(plain - deformed)[:, inside].max() > 0.2
    # And back again.
    back = fitted.warp(found, Z, inverse=True, order=3)
    inside = np.zeros((16, 16), dtype=bool)
    inside[4:-4, 4:-4] = True
    inside = inside.ravel()
    assert np.abs(back - plain)[:, inside].max() < 0.05
    assert np.abs(fitted.warp(found, -Z, order=3) - plain)[:, inside].max() > 0.02


@pytest.mark.parametrize("shape", [(7,), (3, 36), (2, 6, 6), (0,)])
def test_warp_refuses_other_sizes(fitted, shape):
    with pytest.raises(ValueError, match="other must hold one image or 4 images"):
        fitted.warp(np.zeros(shape), np.zeros((4, 18)))


def test_modes(fitted, images):
    """Principal components of the displacement fields, in closed form."""
    Z, shares = fitted.principal_deformations(18)
    assert Z.shape == (18, 18) and shares.sum() == pytest.approx(1)
    assert (np.diff(shares) <= 1e-12).all() and (shares >= 0).all()
    fields = fitted.grid_.field(Z).reshape(18, -1)
    gram = fields @ fields.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-8 * gram.max())
    # Together they are the covariance about the mean (the images' share of it has the
    # second moment), and the squares of the fields are the shares.
    mean, n = fitted.mean_deformations_[0], len(images)
    expected = fitted.covariances_[0] - n / (n + 50) * np.outer(mean, mean)
    np.testing.assert_allclose(Z.T @ Z, expected, atol=1e-8)
    np.testing.assert_allclose(np.diag(gram) / np.trace(gram), shares, atol=1e-10)
    # A parameter that is set after the fit says nothing about it.
    other = copy(fitted).set_params(prior=DeformableTemplatePrior(prior_strength=1e9))
    np.testing.assert_array_equal(other.principal_deformations(18)[0], Z)
    few, some = fitted.principal_deformations(3)
    np.testing.assert_allclose(few, Z[:3])
    assert some.sum() < 1
    # A blob that moves: the first two modes are translations.
    assert some[:2].sum() > 0.3
    for k in (0, 19):
        with pytest.raises(ValueError, match=r"k must be an integer in 1, ..., 18"):
            fitted.principal_deformations(k)
    with pytest.raises(ValueError, match="component must be in"):
        fitted.principal_deformations(2, component=1)


# --------------------------------------------------------------------------- sampling


def test_sample(fitted, mixture, global_random_seed):
    fitted = clone_of(fitted).set_params(random_state=global_random_seed)
    X, labels = fitted.sample(4000)
    clean, _ = fitted.sample(4000, noise=False)
    assert X.shape == (4000, 36) and (labels == 0).all()
    # With the same draws of deformations, the rest is the noise.
    noise = (X - clean) ** 2
    assert standard_errors(noise.mean(axis=1), fitted.noise_variances_[0]) < LIMIT
    # Moments of the clean images, from other draws of the deformations.
    rng = np.random.default_rng(global_random_seed + 1)
    factor = np.linalg.cholesky(fitted.covariances_[0])
    other = fitted.inverse_transform(rng.normal(size=(4000, 18)) @ factor.T)
    error = np.sqrt((clean.var(axis=0) + other.var(axis=0)) / 4000)
    assert (np.abs(clean.mean(axis=0) - other.mean(axis=0)) < LIMIT * error).all()
    spread = np.sqrt(clean.var(axis=0) / other.var(axis=0))
    np.testing.assert_allclose(spread, 1, atol=0.15)
    two, labels = mixture[0].sample(1000)
    assert abs((labels == 0).mean() - mixture[0].weights_[0]) < LIMIT * 0.5 / 1000**0.5


def clone_of(fitted):
    return pickle.loads(pickle.dumps(fitted))


@pytest.mark.parametrize(
    "seed",
    [np.random.RandomState(0), np.random.default_rng(0), None, 3],
    ids=lambda s: type(s).__name__,
)
def test_seeds(seed, images):
    estimator = template(random_state=seed).fit(images)
    assert np.isfinite(estimator.sample(2)[0]).all()
    same = (estimator.sample(2)[0] == estimator.sample(2)[0]).all()
    assert same == isinstance(seed, int)


# ------------------------------------------------------------------------ likelihoods


def test_scores(fitted, images):
    scores = fitted.score_samples(images)
    assert fitted.score(images) == pytest.approx(scores.mean())
    weights = np.arange(40.0)
    assert fitted.score(images, sample_weight=weights) == pytest.approx(
        np.average(scores, weights=weights)
    )
    found = fitted.likelihood_estimates(images, n_draws=300)
    assert (found.standard_error > 0).all()
    sizes = found.effective_sample_size
    assert (sizes >= 1).all() and (sizes <= 300).all() and np.median(sizes) > 30
    # Laplace is near, and noise is far less likely.
    assert np.abs(found.log_likelihood - scores).mean() < 1.5
    wild = np.random.default_rng(0).normal(size=images.shape)
    assert fitted.score(wild) < fitted.score(images) - 1000
    # Standard errors are those between halves of the draws.
    more = fitted.likelihood_estimates(images, n_draws=2000)
    off = (found.log_likelihood - more.log_likelihood) / found.standard_error
    assert np.abs(off).mean() < 2
    assert more.standard_error.mean() < 0.7 * found.standard_error.mean()


@pytest.mark.parametrize("settings", [{"n_draws": 1}, {"degrees": -1}])
def test_wrong_draws(fitted, images, settings):
    with pytest.raises(ValueError, match="n_draws must be >= 2 and degrees >= 0"):
        fitted.likelihood_estimates(images, **settings)


def test_likelihood_is_a_density(images):
    """It changes by the logarithm of the scale, as densities do."""
    one = template().fit(images)
    two = template().fit(1000 * images + 7)
    shift = 36 * np.log(1000)
    found = two.score_samples(1000 * images + 7) + shift
    np.testing.assert_allclose(found, one.score_samples(images), rtol=1e-6)
    np.testing.assert_allclose(
        two.templates_, 1000 * one.templates_ + 7, rtol=1e-5, atol=1e-3
    )
    np.testing.assert_allclose(two.covariances_, one.covariances_, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(
        two.noise_variances_, 1e6 * one.noise_variances_, rtol=1e-5
    )
    a, b = one.likelihood_estimates(images), two.likelihood_estimates(1000 * images + 7)
    np.testing.assert_allclose(a[0], b[0] + shift, rtol=1e-5)


def test_predict(mixture):
    fitted, X, kinds = mixture
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    labels = fitted.predict(X)
    np.testing.assert_array_equal(labels, probabilities.argmax(axis=1))
    agree = (labels == kinds).mean()
    assert max(agree, 1 - agree) > 0.95
    np.testing.assert_allclose(fitted.weights_, 0.5, atol=0.1)
    # The density of a mixture is the sum of the densities of its parts.
    model, params = fitted._template.model, fitted._template.params
    Y = (X - fitted.offset_) / fitted.scale_
    logs = np.stack([model.modes_of(Y, params, t)[1] for t in (0, 1)], axis=1)
    joint = logs + np.log(fitted.weights_) - 36 * np.log(fitted.scale_)
    expected = np.logaddexp(*joint.T)
    np.testing.assert_allclose(fitted.score_samples(X), expected, rtol=1e-10)
    np.testing.assert_allclose(
        probabilities, np.exp(joint - expected[:, None]), rtol=1e-6, atol=1e-12
    )


def test_registered_images_show_the_template_where_pixels_are_missing(fitted, images):
    missing = images.copy()
    missing[:, :7] = np.nan
    whole = fitted.inverse_transform(fitted.modes_of(missing))
    whole = np.where(np.isnan(missing), whole, missing)
    expected = fitted.warp(whole, fitted.modes_of(missing), inverse=True)
    np.testing.assert_allclose(fitted.register(missing), expected)


# --------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"image_shape": (5, 5)}, r"image_shape=\(5, 5\) does not fit rows of 36"),
        ({"image_shape": (6.5, 6.5)}, "must hold the numbers of pixels"),
        ({"image_shape": "square"}, "must hold the numbers of pixels"),
        ({"image_shape": (0, 36)}, "does not fit rows of 36 pixels"),
        ({"image_shape": (-6, -6)}, "does not fit rows of 36 pixels"),
        ({"image_shape": (3, 3, 2, 2)}, "one to three axes"),
        ({"n_components": 0}, "n_components must be an integer >= 1"),
        ({"template_landmarks": 0}, "template_landmarks must be an integer >= 1"),
        ({"template_landmarks": (5,)}, "template_landmarks must be a number or 2"),
        ({"deformation_landmarks": (3, 0)}, "deformation_landmarks must be"),
        ({"template_scale": 0}, "template_scale must be a number > 0"),
        ({"template_scale": "wide"}, 'template_scale must be "auto" or a number'),
        ({"deformation_width": -1.0}, "deformation_width must be a number > 0"),
        ({"deformation_scale": np.nan}, "deformation_scale must be a number > 0"),
        (
            {"prior": DeformableTemplatePrior(prior_strength=-1)},
            "prior_strength must be a number >= 0",
        ),
        (
            {"prior": DeformableTemplatePrior(template_prior=0)},
            "template_prior must be a number > 0",
        ),
        (
            {"prior": DeformableTemplatePrior(noise_prior_scale=0)},
            "noise_prior_scale must be a number > 0",
        ),
        (
            {"prior": DeformableTemplatePrior(noise_prior_strength=-2)},
            "noise_prior_strength must be a number >= 0",
        ),
        (
            {"prior": DeformableTemplatePrior(weight_concentration=-2)},
            "weight_concentration must be a number >= 0",
        ),
        ({"covariance_type": "diag"}, "covariance_type must be one of .*'full'"),
        ({"solver": "newton"}, "solver must be one of"),
        ({"solver": "em"}, "sampler 'exact', which .* Solvers that work: .*'saem'"),
        ({"solver": "mcem"}, "means the sampler 'mc', which"),
        ({"solver": "sgd"}, r"one of \['auto', 'biased-saem', 'fittem', 'isaem'"),
        ({"n_init": 0}, "n_init must be an integer >= 1"),
        ({"solver": "biased-saem", "sampler": "mala"}, "means the sampler 'ula', got"),
        ({"sampler": "exact"}, "sampler must be one of"),
        ({"sampler": "hmc"}, "sampler must be one of"),
        ({"n_components": 2, "sampler": MALA()}, "needs a sampler that moves labels"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
        ({"sampling": "random"}, "sampling must be one of"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0"),
        ({"verbose_interval": 0}, "verbose_interval must be an integer >= 1"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wrong_parameters(images, settings, message, method):
    with pytest.raises(ValueError, match=message):
        getattr(template(**settings), method)(images)


def test_wrong_shapes(images):
    stack = images.reshape(40, 6, 6)
    with pytest.raises(
        ValueError, match=r"image_shape is \(4, 9\), but the images have"
    ):
        template(image_shape=(4, 9)).fit(stack)
    with pytest.raises(ValueError, match="one to three axes"):
        template().fit(images.reshape(40, 3, 2, 3, 2))
    fitted = template().fit(stack)
    for method in ("transform", "score_samples", "partial_fit", "register"):
        with pytest.raises(ValueError, match=r"image_shape is \(6, 6\), but"):
            getattr(fitted, method)(images.reshape(40, 4, 9))
        with pytest.raises(ValueError, match="X has 35 features, but"):
            getattr(fitted, method)(images[:, 1:])
    np.testing.assert_array_equal(fitted.transform(stack), fitted.transform(images))


@pytest.mark.parametrize(
    "method",
    ["transform", "register", "score_samples", "predict", "log_likelihood", "modes_of"],
)
def test_not_fitted(images, method):
    with pytest.raises(ValueError, match="not fitted yet"):
        getattr(template(), method)(images)
    with pytest.raises(ValueError, match="not fitted yet"):
        template().sample()
    with pytest.raises(ValueError, match="not fitted yet"):
        template().principal_deformations()


def test_infinite_pixels(images):
    with pytest.raises(ValueError, match="infinity"):
        template().fit(np.where(images > 0.9, np.inf, images))


# -------------------------------------------------------------------- solvers, samplers


#: Solvers with exact expectations, which deformations have not.
EXACT_ONLY = {"em", "squarem", "daarem", "mcem", "iem"}


@pytest.mark.parametrize("solver", sorted(set(SOLVERS) - EXACT_ONLY))
@pytest.mark.filterwarnings("ignore:The fit recovered from:sktem.exceptions.FitWarning")
def test_solvers(solver, images):
    fitted = template(solver=solver, max_iter=8).fit(images)
    assert fitted.score(images) > template(max_iter=0).fit(images).score(images) + 5


@pytest.mark.parametrize(
    "sampler", ["mala", "ula", MALA(step=2e-3, n_steps=10)], ids=str
)
def test_samplers(sampler, images):
    fitted = template(sampler=sampler, max_iter=12).fit(images)
    assert fitted.score(images) > template(max_iter=0).fit(images).score(images) + 5


@pytest.mark.parametrize("covariance_type", ["full", "shared", "isotropic"])
@pytest.mark.parametrize("prior_strength", [0.0, "auto"])
def test_covariance_types(covariance_type, prior_strength, images):
    prior = DeformableTemplatePrior(prior_strength=prior_strength)
    settings = {"covariance_type": covariance_type, "prior": prior}
    fitted = template(deformation_landmarks=2, **settings).fit(images)
    gamma = fitted.covariances_[0]
    blocks = gamma.reshape(2, 4, 2, 4)
    if covariance_type == "isotropic":
        np.testing.assert_allclose(gamma, gamma[0, 0] * np.eye(8), atol=1e-15)
    if covariance_type == "shared":
        np.testing.assert_allclose(blocks[0, :, 0], blocks[1, :, 1], rtol=1e-12)
        np.testing.assert_array_equal(blocks[0, :, 1], 0)
    if covariance_type == "full":
        assert np.abs(blocks[0, :, 1]).max() > 1e-6


def test_biased_saem_is_saem_with_unadjusted_langevin(images):
    one = template(solver="biased-saem").fit(images)
    two = template(solver="saem", sampler="ula").fit(images)
    np.testing.assert_array_equal(one.coefficients_, two.coefficients_)


def test_steps_of_the_sampler(images):
    one = template().fit(images)
    two = template(sampler=DeformationMALA(n_steps=5)).fit(images)
    np.testing.assert_array_equal(one.coefficients_, two.coefficients_)
    three = template(sampler=DeformationMALA(n_steps=3)).fit(images)
    assert (one.coefficients_ != three.coefficients_).any()
    given = template(step_size=Constant(0.3)).fit(images)
    assert (given.coefficients_ != one.coefficients_).any()


def test_prints(images, capsys):
    template(solver="isaem", verbose=1, verbose_interval=1).fit(images)
    printed = capsys.readouterr().out
    assert printed.count("Iteration") == 3  # the first is two passes
    template().fit(images)
    assert capsys.readouterr().out == ""


# ----------------------------------------------------------------- scikit-learn's tools


def test_pipeline():
    X, kinds = two_kinds(60)
    pipeline = make_pipeline(template(), LogisticRegression())
    assert cross_val_score(pipeline, X, kinds, cv=3).mean() > 0.8
    steps = make_pipeline(template()).fit(X)
    np.testing.assert_array_equal(steps.transform(X), template().fit(X).transform(X))


def test_an_image_that_outshines_the_others_is_named(images):
    bright = images[:10].copy()
    bright[4] *= 100
    with pytest.warns(FitWarning, match="The image with the index 4 has"):
        template(max_iter=1).fit(bright)


def test_the_prior_is_searched(images):
    estimator = template(prior=DeformableTemplatePrior(), max_iter=1)
    grid = {"prior__prior_strength": [1.0, 100.0]}
    search = GridSearchCV(estimator, grid, cv=2).fit(images[:20])
    assert search.best_estimator_.fitted_.strength in (1.0, 100.0)
    with pytest.raises(TypeError, match=r"prior=DeformableTemplatePrior\(prior_st"):
        DeformableTemplateEstimator(prior_strength=1.0)
