"""Fits of templates: what they recover, twins, weights, interrupts, odd images."""

import itertools
import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sktem import (
    DeformableTemplateEstimator,
    DeformableTemplatePrior,
)
from sktem.e_step.random import seed_sequence, spawn_generators
from sktem.e_step.row_random import BATCH, PASS
from sktem.exceptions import FitWarning
from sktem.models import DeformableTemplateModel, ImageGrid
from sktem.samplers import DeformationMALA
from sktem.schedules import Constant
from sktem.template.judged import Judged, warn_of_repetition
from tests.template.oracles import (
    SMALL,
    Dense,
    blobs,
    random_params,
    simulate,
    template,
    two_kinds,
)

MENDED = pytest.mark.filterwarnings(
    "ignore:The fit recovered from:sktem.exceptions.FitWarning"
)
FITTED = ("weights_", "coefficients_", "covariances_", "noise_variances_", "templates_")


def assert_same(one, two, names=FITTED, rtol=0.0):
    for name in names:
        a, b = getattr(one, name), getattr(two, name)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=name)


@pytest.fixture(scope="module")
def images():
    return blobs(40)


@pytest.mark.parametrize("value", [-1.0, 3.0])
def test_patches_of_one_value_are_missing_pixels(value):
    X = blobs(20, (8, 8))
    lost = X.copy()
    lost.reshape(-1, 8, 8)[:4, 1:3, 4:6] = np.nan
    patched, told = np.where(np.isnan(lost), value, lost), "4 of 20 images have patches"
    with pytest.warns(FitWarning, match=told):
        found = template().fit(patched)
    assert_same(found, template().fit(lost))
    for name in ("transform", "modes_of", "score_samples", "register"):
        answer = getattr(found, name)
        with pytest.warns(FitWarning, match=told):
            answers = answer(patched)
        np.testing.assert_array_equal(answers, answer(lost), err_msg=name)
    # Negative control: what half of the images have is part of the object.
    X.reshape(-1, 8, 8)[:10, 1:3, 4:6] = value
    template().fit(X)


# -------------------------------------------------------------------------- recovery


@pytest.mark.parametrize("solver", ["saem", "isaem"])
def test_recovers_what_simulated_the_images(solver):
    """Template, noise and covariance of a smooth model, without strong priors."""
    settings = {
        "template_landmarks": 6,
        "deformation_landmarks": 2,
        "template_scale": 2.0,
        "deformation_width": 4.0,
        "prior": DeformableTemplatePrior(prior_strength=5.0),
        "deformation_scale": 0.3,
    }
    grid = ImageGrid((8, 8), (6, 6), (2, 2), 2.0, 4.0)
    rng = np.random.default_rng(0)
    params = random_params(grid, rng, noise_variance=0.03**2, spread=0.5)
    image = np.exp(-(grid.pixels**2).sum(axis=0) / 8) * np.cos(grid.pixels[0] / 1.5)
    K = Dense(grid).design()
    params.coefficients[0] = np.linalg.solve(K.T @ K + 1e-3 * np.eye(36), K.T @ image)
    X, Z = simulate(grid, params, 200, rng)
    fitted = template(**{**settings, "solver": solver, "max_iter": 30}).fit(X)
    truth = (K @ params.coefficients[0]).reshape(8, 8)
    start = template(**{**settings, "max_iter": 0}).fit(X).templates_[0]
    found = fitted.templates_[0]
    assert np.abs(found - truth).max() < 0.15 * np.ptp(truth)
    assert np.linalg.norm(found - truth) < 0.4 * np.linalg.norm(start - truth)
    sigma = np.sqrt(fitted.noise_variances_[0])
    assert sigma == pytest.approx(0.03, rel=0.1)
    gamma, expected = fitted.covariances_[0], params.covariances[0]
    assert np.trace(gamma) == pytest.approx(np.trace(expected), rel=0.3)
    assert np.linalg.norm(gamma - expected) < 0.5 * np.linalg.norm(expected)
    # And the deformations of the images.
    estimates = fitted.transform(X[:50])
    correlations = [
        np.corrcoef(a, b)[0, 1] for a, b in zip(estimates.T, Z[:50].T, strict=True)
    ]
    assert np.median(correlations) > 0.8


def test_recovers_two_templates():
    X, kinds = two_kinds(80)
    fitted = template(n_components=2, max_iter=10).fit(X)
    labels = fitted.predict(X)
    agree = (labels == kinds).mean()
    assert max(agree, 1 - agree) > 0.97
    order = [0, 1] if agree > 0.5 else [1, 0]
    for kind, t in enumerate(order):
        mean = X[kinds == kind].mean(axis=0)
        near = [np.linalg.norm(mean - one.ravel()) for one in fitted.templates_]
        assert np.argmin(near) == t


# ------------------------------------------------------------------------------ twins


def saem_by_hand(X, gammas, first_pass, **settings):
    """Return the parameters of SAEM with MALA, from the parts of the model.

    With `first_pass`, statistics start from a pass without an M-step, as those of the
    solvers do that fill a memory.
    """
    start = template(max_iter=0, **settings).fit(X)
    model = start._template_settings().model(start.grid_, float(len(X)))
    Y = (X - start.offset_) / start.scale_
    generators, sampler = spawn_generators(start.random_state), DeformationMALA()
    params = model.params_of(Y, np.ones((len(X), 1)))
    Z, s = sampler.start(model, Y, params, None), None
    steps = [None, *gammas] if first_pass else gammas
    for k, gamma in enumerate(steps, start=1 - first_pass):
        purpose = BATCH if first_pass and k else PASS
        of_rows = generators.of_rows(purpose, k, np.arange(len(Y)))
        Z, _ = sampler.draw(model, Y, Z, params, of_rows)
        new = model.mean_statistics(Y, Z[:, 0])
        s = new if s is None else s + gamma * (new - s)
        if gamma is not None:
            params = model.maximize(s, params)
    return params


@pytest.mark.parametrize("sampling", ["fixed", "shuffle"])
def test_full_batches_of_isaem_are_saem(images, sampling):
    """The same generators, the same trajectory, to rounding; by hand and from both."""
    settings = {"sampling": sampling, "step_size": Constant(0.5)}
    saem, isaem = {"solver": "saem"}, {"solver": "isaem", "batch_size": 40}
    for steps in (1, 2, 4):
        for solver, passes in ((saem, steps), (isaem, steps + 1)):
            fitted = template(**solver, **settings, max_iter=passes)
            fitted.fit(images)
            expected = saem_by_hand(images, [0.5] * steps, solver is isaem)
            np.testing.assert_allclose(
                fitted.coefficients_, expected.coefficients, rtol=1e-7, atol=1e-8
            )
            np.testing.assert_allclose(
                fitted.covariances_, expected.covariances, rtol=1e-8, atol=1e-10
            )
            found = fitted.noise_variances_ / fitted.scale_**2
            np.testing.assert_allclose(found, expected.noise_variances, rtol=1e-8)
    other = saem_by_hand(images, [0.5] * 4, False)
    assert np.abs(other.coefficients - expected.coefficients).max() > 1e-3


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"solver": "isaem", "sampler": "ula"},
        {"solver": "isaem", "sampling": "fixed"},
        {"n_components": 2},
    ],
    ids=str,
)
def test_threads_do_not_change_the_fit(settings, images):
    one = template(n_jobs=1, **settings).fit(images)
    two = template(n_jobs=2, **settings).fit(images)
    assert_same(one, two)
    np.testing.assert_array_equal(one.transform(images), two.transform(images))
    a, b = (e.likelihood_estimates(images, n_draws=10) for e in (one, two))
    np.testing.assert_array_equal(a, b)
    again = template(n_jobs=2, **settings).fit(images)
    assert_same(two, again)
    other = template(**{**settings, "random_state": 1}).fit(images)
    assert (other.coefficients_ != one.coefficients_).any()


def test_copies_and_weights_of_another_size_are_told(images):
    def told(X, sample_weight=None):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FitWarning)
            warn_of_repetition(X, sample_weight)
        return [str(one.message) for one in caught]

    (text,) = told(np.repeat(images, 3, axis=0))
    assert text.startswith("80 of 120 images are exact copies of others")
    (text,) = told(images, np.full(40, 1e3))
    assert "have the mean 1e+03" in text and "the images outweigh the prior" in text
    (text,) = told(images, np.append(0.0, np.full(39, 1 / 39)))
    assert "the prior outweighs the images" in text
    # Negative controls: some copies, and weights that say how often images come.
    assert told(np.concatenate([images, images[:5]]), np.arange(45) % 4) == []


@pytest.mark.filterwarnings("ignore:.*exact copies")
def test_weights_are_repetitions(images):
    """In all that is not random: units, start, and the priors' weight."""
    weights = np.arange(40) % 4 + 0.0
    repeated = np.repeat(images, weights.astype(int), axis=0)
    one = template(max_iter=0).fit(images, sample_weight=weights)
    two = template(max_iter=0).fit(repeated)
    assert_same(one, two, rtol=1e-6)
    assert (one.offset_, one.scale_) == pytest.approx((two.offset_, two.scale_))
    # Weights of zero are absence, and equal weights of one are none.
    kept = template().fit(images[weights > 0], sample_weight=weights[weights > 0])
    assert_same(kept, template().fit(images, sample_weight=weights))
    assert_same(
        template().fit(images), template().fit(images, sample_weight=np.ones(40))
    )
    # The random rest agrees as well as two fits with other draws.
    settings = {"max_iter": 20, "solver": "saem", "batch_size": "auto"}
    one = template(**settings).fit(images, sample_weight=weights)
    two = template(**settings).fit(repeated)
    spread = np.ptp(two.templates_)
    assert np.abs(one.templates_ - two.templates_).max() < 0.05 * spread
    plain = template(**settings).fit(images)
    assert one.noise_variances_ == pytest.approx(two.noise_variances_, rel=0.1)
    assert np.abs(one.templates_ - plain.templates_).max() > 0
    with pytest.raises(ValueError, match="zero"):
        template().fit(images, sample_weight=np.zeros(40))
    with pytest.raises(ValueError, match="[Nn]egative"):
        template().fit(images, sample_weight=weights - 1)


# ------------------------------------------------------------------------- warm starts


def test_warm_start_goes_on(images):
    fitted = template(warm_start=True, max_iter=10).fit(images)
    first, score = fitted.templates_.copy(), fitted.score(images)
    fitted.set_params(max_iter=0).fit(images)
    np.testing.assert_allclose(fitted.templates_, first, rtol=1e-9)
    fitted.set_params(max_iter=5).fit(images)
    assert (fitted.templates_ != first).any()
    assert fitted.score(images) > score - 1
    cold = template(max_iter=0).fit(images)
    fitted.set_params(warm_start=False, max_iter=0).fit(images)
    assert_same(fitted, cold)


@pytest.mark.parametrize(
    "changed",
    [
        {"n_components": 2},
        {"template_landmarks": 4},
        {"deformation_landmarks": 2},
        {"template_scale": 2.5},
        {"deformation_width": 3.5},
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_what_goes_on_keeps_its_landmarks(method, changed, images):
    fitted = template(warm_start=True).fit(images).set_params(**changed)
    with pytest.raises(ValueError, match=f"{next(iter(changed))}.* cannot change"):
        getattr(fitted, method)(images)


def test_warm_start_with_images_of_another_shape(images):
    fitted = template(warm_start=True).fit(images)
    fitted.fit(images[:, :25])
    assert_same(fitted, template().fit(images[:, :25]))


# ----------------------------------------------------------------------------- streams


def stream(chunk, images, **settings):
    fitted = template(**settings)
    for start in range(0, len(images), chunk):
        fitted.partial_fit(images[start : start + chunk])
    return fitted


@pytest.mark.parametrize("solver", ["saem", "isaem"])
@pytest.mark.parametrize("chunk", [1, 7, 50])
@MENDED
def test_streams(chunk, solver):
    X = blobs(100)
    fitted = stream(chunk, X, solver=solver, sampler=DeformationMALA(n_steps=2))
    assert fitted.n_samples_seen_ == 100
    fitted_at_once = template(max_iter=10).fit(X)
    gap = fitted.templates_ - fitted_at_once.templates_
    assert np.abs(gap).max() < 0.1
    ratio = np.sqrt(fitted.noise_variances_ / fitted_at_once.noise_variances_)
    np.testing.assert_allclose(ratio, 1, atol=0.3)
    assert fitted.score(X) > template(max_iter=0).fit(X).score(X)


@pytest.mark.parametrize("solver", ["saem", "isaem"])
def test_memory_of_a_stream_is_constant(solver):
    X = blobs(160)
    fitted = template(solver=solver, sampler=DeformationMALA(n_steps=1), max_iter=2)
    sizes = []
    for start in range(0, 160, 20):
        fitted.partial_fit(X[start : start + 20])
        sizes.append(len(pickle.dumps(fitted)))
    assert max(sizes[2:]) - min(sizes[2:]) < 100
    assert sizes[-1] < X.nbytes


def test_chunks_may_be_cut_anywhere():
    """One transition per draw: the cut of the stream makes no difference to the law."""
    X = blobs(60)
    one = stream(1, X, sampler=DeformationMALA(n_steps=1))
    two = stream(7, X, sampler=DeformationMALA(n_steps=1))
    gap = np.abs(one.templates_ - two.templates_).max()
    assert gap < 0.05


def test_partial_fit_goes_on_from_a_fit(images):
    fitted = template(max_iter=10).fit(images)
    before = fitted.templates_.copy()
    fitted.partial_fit(images[:10])
    assert 0 < np.abs(fitted.templates_ - before).max() < 0.1
    # A fit starts afresh.
    fitted.fit(images)
    np.testing.assert_array_equal(fitted.templates_, before)


def test_partial_fit_takes_weights_and_copies_its_rows(images):
    fitted, buffer = template(), images[:5].copy()
    fitted.partial_fit(buffer, sample_weight=np.full(5, 2.0))
    buffer[:] = 1e6
    for start in range(5, 40, 5):
        fitted.partial_fit(images[start : start + 5])
    assert fitted.templates_.max() < 2
    assert fitted.n_samples_seen_ == 40


def test_stream_of_a_mixture():
    X, kinds = two_kinds(80)
    fitted = stream(20, X, n_components=2)
    labels = fitted.predict(X)
    agree = (labels == kinds).mean()
    assert max(agree, 1 - agree) > 0.9


# -------------------------------------------------------------------------- interrupts


def test_a_stream_sorted_by_class_is_told():
    """In chunks or in one; not in random order, nor with constant steps."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X = np.concatenate([X[y == label][:60] for label in (0, 3)])

    def told(X, chunk, **settings):
        estimator = DeformableTemplateEstimator((8, 8), random_state=0, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for start in range(0, len(X), chunk):
                estimator.partial_fit(X[start : start + chunk])
        return sum("random order" in str(one.message) for one in caught)

    assert told(X, 20) == told(X, len(X)) == 1
    assert told(X, 20, step_size=0.1) == 0
    assert told(np.random.default_rng(0).permutation(X), 20) == 0


def interrupt(monkeypatch, at):
    """Raise KeyboardInterrupt in the n-th move of the chains."""
    real, calls = DeformableTemplateModel.move_chains, itertools.count(1)

    def interrupted(self, *args, **kwargs):
        if next(calls) == at:
            raise KeyboardInterrupt
        return real(self, *args, **kwargs)

    monkeypatch.setattr(DeformableTemplateModel, "move_chains", interrupted)


@pytest.mark.parametrize("at", [1, 2, 12])
@pytest.mark.parametrize("solver", ["saem", "isaem"])
def test_interrupt_leaves_a_usable_estimator(solver, at, images, monkeypatch):
    settings = {"solver": solver, "max_iter": 30, "step_size": Constant(0.5)}
    fitted = template(**settings)
    with monkeypatch.context() as patched:
        interrupt(patched, at)
        with pytest.raises(KeyboardInterrupt):
            fitted.fit(images)
    shorter = template(**{**settings, "max_iter": fitted.n_iter_}).fit(images)
    assert_same(fitted, shorter)
    assert np.isfinite(fitted.score(images))
    assert np.isfinite(fitted.transform(images[:2])).all()
    if at > 1:
        fitted.partial_fit(images)
    assert_same(fitted.fit(images), template(**settings).fit(images))


def test_interrupt_of_a_stream(images, monkeypatch):
    fitted = template()
    with monkeypatch.context() as patched:
        interrupt(patched, 3)
        with pytest.raises(KeyboardInterrupt):
            fitted.partial_fit(images[:15])
    assert np.isfinite(fitted.score(images))
    fitted.partial_fit(images[15:])
    assert np.isfinite(fitted.score(images))


# ------------------------------------------------------------------------- odd images


def assert_sane(fitted, X):
    """Nothing that a fit gives is NaN or infinite."""
    for name in FITTED:
        assert np.isfinite(getattr(fitted, name)).all(), name
    assert (fitted.noise_variances_ > 0).all()
    np.linalg.cholesky(fitted.covariances_)
    Z = fitted.transform(X)
    found = [
        Z, fitted.inverse_transform(Z), fitted.score_samples(X),
        fitted.predict_proba(X), fitted.deformation_fields(X),
        fitted.min_jacobians(X), fitted.sample(3)[0],
        fitted.principal_deformations(1)[0], *fitted.likelihood_estimates(X, n_draws=5),
    ]  # fmt: skip
    for values in found:
        assert np.isfinite(values).all()
    registered = fitted.register(X)
    assert np.isfinite(registered[~np.isnan(X).any(axis=1)]).all()


RNG = np.random.default_rng(0)
ODD = {
    "constant": np.full((8, 36), 3.0),
    "zero": np.zeros((8, 36)),
    "all equal": np.repeat(blobs(1), 8, axis=0),
    "one image": blobs(1),
    "two images": blobs(2),
    "bytes, extremes": (255 * RNG.integers(0, 2, (10, 36))).astype(np.uint8),
    "bytes, all 255": np.full((5, 36), 255, dtype=np.uint8),
    "large": 1e100 * blobs(8),
    "small": 1e-100 * blobs(8),
    "far from zero": 1e9 + 1e-3 * blobs(8),
    "a pixel that is never seen": np.where(np.arange(36) == 7, np.nan, blobs(8)),
    "one pixel that is seen": np.where(np.arange(36) == 7, blobs(8), np.nan),
    "an image that is not seen": np.where(np.arange(8)[:, None] == 3, np.nan, blobs(8)),
    "holes": np.where(RNG.random((8, 36)) < 0.3, np.nan, blobs(8)),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("n_components", [1, 3])
@MENDED
def test_odd_images(name, n_components):
    """Warned is exactly of more templates than images, of copies and of one value."""
    X, expected = ODD[name], nullcontext()
    if len(X) > 2 * len(np.unique(X, axis=0)):
        expected = pytest.warns(FitWarning, match="exact copies|one value alone")
    elif len(X) < n_components:
        expected = pytest.warns(FitWarning, match=f"3 templates of {len(X)} images")
    with expected:
        estimator = template(n_components=n_components, max_iter=2).fit(X)
    assert_sane(estimator, X)


@pytest.mark.parametrize(
    "shape", [(1,), (2,), (1, 6), (6, 1), (1, 1), (2, 2), (1, 1, 3), (1, 4, 2)], ids=str
)
@pytest.mark.parametrize("defaults", [False, True])
@MENDED
def test_thin_images(shape, defaults):
    X = np.random.default_rng(0).normal(size=(9, int(np.prod(shape))))
    settings = {} if defaults else SMALL
    estimator = DeformableTemplateEstimator(shape, **{**settings, "max_iter": 1})
    assert_sane(estimator.fit(X), X)


@pytest.mark.parametrize("name", ["constant", "one pixel that is seen", "holes"])
@MENDED
def test_odd_streams(name):
    X = ODD[name]
    fitted = template(max_iter=1)
    for _ in range(5):
        fitted.partial_fit(X)
    assert_sane(fitted, X)


@pytest.mark.parametrize("settings", [{"prior_strength": 0}, {"template_prior": None}])
@pytest.mark.parametrize("n", [1, 2, 30])
@MENDED
def test_without_priors(settings, n):
    X = blobs(n)
    prior = DeformableTemplatePrior(weight_concentration=0, **settings)
    assert_sane(template(prior=prior).fit(X), X)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_images_beyond_all_measure(size, images):
    with pytest.raises(ValueError, match="rescale them"):
        template().fit(size * images)


def test_new_images_beyond_all_measure(images):
    X, _ = two_kinds(20)
    fitted = template(n_components=2).fit(X)
    for size in (1e100, 1e200, 1e300):
        wild = size * images[:2]
        assert not np.isnan(fitted.score_samples(wild)).any()
        assert np.isfinite(fitted.predict_proba(wild)).all()
        with pytest.warns(FitWarning, match="same contrast"):
            assert np.isfinite(fitted.transform(wild)).all()
        assert not np.isnan(fitted.likelihood_estimates(wild, n_draws=5)[0]).any()


def test_unseen_images_have_the_prior():
    """Likelihood one, the prior's mode, the shares of the components."""
    X, _ = two_kinds(40)
    fitted = template(n_components=2).fit(X)
    nothing = np.full((2, 36), np.nan)
    np.testing.assert_allclose(fitted.score_samples(nothing), 0, atol=1e-9)
    np.testing.assert_allclose(fitted.predict_proba(nothing), [fitted.weights_] * 2)
    np.testing.assert_array_equal(fitted.modes_of(nothing), 0)
    found = fitted.likelihood_estimates(nothing, n_draws=4000)
    assert np.abs(found[0]).max() < 5 * found[1].max() + 1e-3


def test_folds_are_told():
    X = np.random.default_rng(0).normal(size=(20, 36))
    prior = DeformableTemplatePrior(prior_strength=100.0)
    wild = template(deformation_scale=5.0, deformation_width=1.0, prior=prior)
    with pytest.warns(UserWarning, match="fold over themselves") as record:
        wild.fit(X)
    assert wild.fold_rate_ > 0.05
    assert record[0].filename == __file__
    assert (wild.min_jacobians(X) <= 0).any()


@pytest.mark.filterwarnings("ignore::sktem.exceptions.FitWarning")
def test_the_best_of_several_runs_is_kept():
    """The first run is that of one start; others begin with other random numbers."""
    X = blobs(12, seed=1)
    settings = {**SMALL, "max_iter": 3, "random_state": 5}
    one = DeformableTemplateEstimator(**settings).fit(X)
    four = DeformableTemplateEstimator(**settings, n_init=4).fit(X)
    others = np.random.default_rng(seed_sequence(5)).integers(2**31, size=3).tolist()
    runs = [one] + [
        DeformableTemplateEstimator(**{**settings, "random_state": seed}).fit(X)
        for seed in others
    ]

    def objective(run):
        model, fitted = run._template_settings().model(run.grid_, 12), run._template
        logs = model.log_likelihoods(fitted.standardised(X), fitted.params).mean()
        return logs - model.penalty(fitted.params)

    values = [objective(run) for run in runs]
    best = runs[int(np.argmax(values))]
    np.testing.assert_array_equal(four.templates_, best.templates_)
    assert len(set(values)) == 4


def test_longer_runs_are_not_advised_where_deformations_fold():
    advice = [Judged(0.1, share, None).drift_advice() for share in (0.02, 0.002)]
    assert "max_iter" not in advice[0] and advice[1].startswith("Increase max_iter")
