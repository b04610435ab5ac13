"""What a fit says of itself, and thorough searches for modes."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sktem import (
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    DeformableTemplatePrior,
)
from sktem.exceptions import FitWarning
from sktem.template.judged import pixel_log_densities
from sktem.template.model.modes import Descent
from tests.template.oracles import SMALL, blobs


@pytest.fixture(scope="module")
def digits(shared_data):
    with np.load(shared_data("images/usps.npz")) as file:
        X, y = file["X_train"].astype(float), file["y_train"]
    return lambda digit: X[y == digit].reshape(-1, 16, 16)


@pytest.fixture(scope="module", params=[2, 8])
def fitted(request, digits):
    X = digits(request.param)
    estimator = DeformableTemplateEstimator(random_state=0, max_iter=15).fit(X[:30])
    return estimator, X[-40:]


def test_search_finds_what_a_much_denser_one_finds(fitted):
    estimator, X = fitted
    fitted = estimator._template
    model, params = fitted.model, fitted.params
    Y = fitted.standardised(estimator._checked(X))
    found = model.search_modes(Y, params, 0)[1]
    once = model.modes_of(Y, params, 0)[1]
    descent = Descent(2 ** np.arange(9, -0.1, -0.25))
    dense = model.modes_of(Y, params, 0, descent=descent)[1]
    factor = model.component(params, 0).factor
    rng = np.random.default_rng(0)
    for _ in range(4):
        start = rng.normal(size=(len(Y), len(factor))) @ factor.T
        descent = Descent(2.0 ** np.arange(5, -1, -1))
        dense = np.maximum(dense, model.modes_of(Y, params, 0, start, descent)[1])
    assert (found >= once).all()
    assert np.maximum(dense - found, 0).mean() < 2.0
    assert (dense - found > 20).mean() <= 0.05


def test_score_moves_smoothly(fitted):
    estimator, X = fitted
    kept = estimator.coefficients_
    scores = []
    for k in range(5):
        estimator.coefficients_ = kept * (1 + 1e-5 * k)
        scores.append(estimator.score_samples(X))
    estimator.coefficients_ = kept
    assert np.abs(np.diff(np.mean(scores, axis=1))).max() < 0.1


def test_few_digits_settle():
    X, y = load_digits(return_X_y=True)
    threes, settled = X[y == 3][:20], {}
    for name, settings in {
        "default": {},
        "short": {"max_iter": 40},
        "short, no prior": {
            "max_iter": 40,
            "prior": DeformableTemplatePrior(noise_prior_strength=0.0),
        },
    }.items():
        fits = [
            DeformableTemplateEstimator(random_state=seed, **settings)
            for seed in range(3)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            settled[name] = sum(one.fit(threes).converged_ for one in fits)
    assert settled["default"] == 3
    # Without the prior of the noise the fit grows ever closer for longer.
    assert settled["short, no prior"] < settled["short"] == 3


def test_a_stream_ends_near_the_fit_of_the_same_images(digits):
    X = digits(5)
    train, new = X[:80], X[-20:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = DeformableTemplateEstimator(random_state=0, max_iter=12).fit(train)
        stream = DeformableTemplateEstimator(random_state=0, max_iter=8)
        start = np.median(stream.partial_fit(train[:20]).score_samples(new))
        for chunk in np.array_split(train[20:], 3):
            stream.partial_fit(chunk)
    least = np.median(fit.score_samples(new)) - 30
    # The images from which it starts are not enough.
    assert start < least < np.median(stream.score_samples(new))
    assert 0 <= stream.folded_pixels_ <= stream.fold_rate_ <= 1


@pytest.mark.parametrize("max_iter", [0, 1, 2])
def test_short_runs_have_a_fold_rate(max_iter):
    fitted = DeformableTemplateEstimator(**{**SMALL, "max_iter": max_iter})
    fitted.fit(blobs(10))
    assert 0 <= fitted.folded_pixels_ <= fitted.fold_rate_ <= 1
    assert not fitted.converged_


def test_runs_that_drift_say_so(digits):
    X = digits(2)[:20]
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        slow = DeformableTemplateEstimator(random_state=0, max_iter=20).fit(X)
    assert not slow.converged_
    easy = DeformableTemplateEstimator(**{**SMALL, "max_iter": 40}).fit(blobs(40))
    assert easy.converged_


@pytest.mark.parametrize("seed", [0, 1])
def test_much_noise_is_not_taken_for_a_drift(seed):
    rng = np.random.default_rng(seed)
    clean = blobs(60, seed=seed)
    X = clean + 5 * clean.std() * rng.normal(size=clean.shape)
    train, new = X[:30], X[30:]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        fit = DeformableTemplateEstimator(random_state=0).fit(train)
    longer = DeformableTemplateEstimator(random_state=0, max_iter=200).fit(train)
    assert fit.converged_
    gains = longer.score_samples(new) - fit.score_samples(new)
    assert abs(gains.mean()) < 0.2 + 3 * gains.std() / np.sqrt(len(new))


@pytest.mark.parametrize("step_size", [0.02, 0.005, 0.001])
def test_small_steps_are_not_taken_for_an_end(digits, step_size):
    X = digits(2)[:20]
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        slow = DeformableTemplateEstimator(step_size=step_size, random_state=0).fit(X)
    assert not slow.converged_


def test_a_coarse_template_is_named():
    rng = np.random.default_rng(0)
    settings = {"template_landmarks": 4, "deformation_scale": 5.0}
    estimator = DeformableTemplateEstimator(
        **{**SMALL, **settings, "deformation_width": 1.0},
        prior=DeformableTemplatePrior(prior_strength=100.0),
    )
    with pytest.warns(FitWarning, match="increase template_landmarks"):
        estimator.fit(rng.normal(size=(20, 36)))


def test_independent_pixels_are_judged_without_the_image_itself():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(7, 5)) * [1, 1, 2, 3, 0.1]
    Y[2, 1] = np.nan
    found = pixel_log_densities(Y, least=0.25, weight=2.0)
    pooled = np.nanvar(Y, axis=0, ddof=1).mean()
    expected = np.zeros(7)
    for i, j in np.argwhere(~np.isnan(Y)):
        others = np.delete(Y[:, j], i)
        others = others[~np.isnan(others)]
        n = len(others)
        variance = ((n - 1) * others.var(ddof=1) + 2.0 * pooled) / (n + 1)
        scale = np.sqrt(max(variance, 0.25 * pooled) * (1 + 1 / n))
        expected[i] += norm.logpdf(Y[i, j], others.mean(), scale)
    np.testing.assert_allclose(found, expected)
    # Pixels behind a mask, which no image has, say nothing.
    masked = np.column_stack([Y, np.full(7, np.nan)])
    found = pixel_log_densities(masked, least=0.25, weight=2.0)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("shape, n", [((4, 4), 40), ((8, 8), 12)])
@pytest.mark.parametrize("kind", ["equal noise", "unequal noise", "counts"])
def test_pixels_that_a_template_does_not_explain_are_told(kind, shape, n):
    """One noise variance for all pixels, and a smooth template, may be no model."""
    rng = np.random.default_rng(n)
    scales, noise = np.exp(rng.normal(size=shape)), rng.normal(size=(n, *shape))
    smooth = gaussian_filter(3 * rng.normal(size=shape), 1)
    X = {
        "equal noise": lambda: smooth + noise,
        "unequal noise": lambda: smooth + scales * noise,
        "counts": lambda: rng.poisson(np.exp(2 * rng.normal(size=shape)), (n, *shape)),
    }[kind]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DeformableTemplateEstimator(random_state=0).fit(X)
    told = ["pixels that are independent" in str(one.message) for one in caught]
    assert any(told) == (kind != "equal noise")


def test_warnings_of_threads_do_not_leak():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 36)), np.arange(20) % 2
    before = list(warnings.filters)
    for _ in range(4):
        classifier = DeformableTemplateClassifier(
            **{**SMALL, "max_iter": 1}, temperature=1.0, n_jobs=2
        )
        classifier.fit(X, y)
    assert warnings.filters == before


def test_noise_settings_reach_the_models(capsys):
    X, y = blobs(12), np.arange(12) % 2
    settings = {**SMALL, "max_iter": 2, "verbose_interval": 1}
    strong = DeformableTemplateClassifier(
        **settings,
        temperature=1.0,
        prior=DeformableTemplatePrior(noise_prior_scale=2.0, noise_prior_strength=1e9),
    ).fit(X, y)
    for model in strong.estimators_:
        np.testing.assert_allclose(
            model.noise_variances_, (2.0 * model.scale_) ** 2, rtol=1e-3
        )
    assert capsys.readouterr().out == ""
    settings["verbose"] = 1
    DeformableTemplateClassifier(**settings, temperature=1.0).fit(X, y)
    out = capsys.readouterr().out
    assert "Iteration 1" in out and "did not converge" not in out
    with pytest.raises(ValueError, match="noise_prior_strength must be"):
        DeformableTemplateClassifier(
            **SMALL,
            temperature=1.0,
            prior=DeformableTemplatePrior(noise_prior_strength="much"),
        ).fit(X, y)


def test_classifier_has_callbacks():
    pytest.importorskip("sklearn.callback")
    from sklearn.callback import ProgressBar

    X, y = blobs(12), np.arange(12) % 2
    settings = {**SMALL, "max_iter": 2}
    plain = DeformableTemplateClassifier(**settings, temperature=1.0).fit(X, y)
    watched = DeformableTemplateClassifier(**settings, temperature=1.0)
    watched.set_callbacks(ProgressBar())
    watched.fit(X, y)
    np.testing.assert_array_equal(watched.predict_proba(X), plain.predict_proba(X))
