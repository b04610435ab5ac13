"""The classifier by deformable templates."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score

from sktem import (
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    DeformableTemplatePrior,
)
from sktem.exceptions import FitWarning
from tests.template.oracles import SMALL, classifier, named_kinds, two_kinds


@pytest.fixture(scope="module")
def data():
    return named_kinds(60)


@pytest.fixture(scope="module")
def fitted(data):
    return classifier().fit(*data)


def noisy(n, seed):
    """Return images of two kinds, hard to tell apart, with noise that is correlated.

    The model takes the noise of pixels for independent, and so is far too sure.
    """
    X, kinds = two_kinds(n, seed)
    rng = np.random.default_rng(seed + 100)
    common = 0.4 * rng.normal(size=(n, 1))
    smooth = np.kron(rng.normal(size=(n, 3, 3)), np.ones((2, 2))).reshape(n, 36)
    return X + common + 0.3 * smooth, kinds


def test_predictions(fitted, data):
    X, y = data
    # Bayes' rule, from the models of the classes.
    logs = [model.score_samples(X) for model in fitted.estimators_]
    joint = np.stack(logs, axis=1) + np.log(fitted.class_prior_)
    found = fitted.predict_joint_log_proba(X)
    # A search for a mode ends where a step gains less than 0.01 nats; unlikely classes
    # are searched another way than score_samples does, and may have another mode.
    np.testing.assert_array_equal(found.argmax(axis=1), joint.argmax(axis=1))
    rows, best = np.arange(60), joint.argmax(axis=1)
    np.testing.assert_allclose(found[rows, best], joint[rows, best], atol=0.05)


def test_models_are_those_of_the_estimator(fitted, data):
    X, y = data
    own = DeformableTemplateEstimator(**SMALL)
    images = X[y == "across"]
    own.set_params(
        random_state=fitted.estimators_[0].random_state,
        prior=DeformableTemplatePrior(
            prior_strength=max(400.0, 20.0 * len(images)),
            noise_prior_scale=0.3,
        ),
    ).fit(images)
    np.testing.assert_array_equal(own.templates_, fitted.estimators_[0].templates_)


def test_chosen_temperature_is_honest():
    """On images that the model has not seen, and whose noise it misjudges."""
    X, y = noisy(60, 0)
    X_new, y_new = noisy(200, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        auto = classifier(temperature="auto").fit(X, y)
        one = classifier().fit(X, y)
    assert auto.temperature_ > 1
    loss = log_loss(y_new, auto.predict_proba(X_new))
    cold = log_loss(y_new, one.predict_proba(X_new))
    assert loss <= cold
    np.testing.assert_array_equal(auto.predict(X_new), one.predict(X_new))
    assert loss < np.log(2)


@pytest.mark.parametrize("n_images", [1, 2, 3])
def test_probabilities_of_few_images_are_no_certainties(n_images):
    X, y = load_digits(n_class=6, return_X_y=True)
    rows = np.concatenate([np.flatnonzero(y == c)[:n_images] for c in range(6)])
    new = np.setdiff1d(np.arange(len(y)), rows)[:150]
    losses = [
        log_loss(
            y[new],
            DeformableTemplateClassifier(temperature=temperature, random_state=0)
            .fit(X[rows], y[rows])
            .predict_proba(X[new]),
        )
        for temperature in ("auto", 1.0)
    ]
    assert losses[0] < 0.7 * np.log(6)  # of equal probabilities
    assert losses[1] > 2 * losses[0]  # likelihoods as they are


def test_weights(data):
    """Weight zero is absence; the frequencies of the classes are weighted."""
    X, y = data
    weights = np.ones(60)
    weights[40:] = 0
    one = classifier().fit(X, y, sample_weight=weights)
    two = classifier().fit(X[:40], y[:40])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    weights = np.where(y == "down", 3.0, 1.0)
    prior = classifier(max_iter=0).fit(X, y, sample_weight=weights).class_prior_
    np.testing.assert_allclose(prior, [0.25, 0.75])


def test_threads(data):
    X, y = data
    found = [classifier(n_jobs=n).fit(X, y).predict_proba(X) for n in (1, 2)]
    np.testing.assert_array_equal(*found)


def test_images_with_their_shape(data, fitted):
    X, y = data
    stack = X.reshape(60, 6, 6)
    other = classifier().fit(stack, y)
    np.testing.assert_array_equal(other.predict_proba(stack), fitted.predict_proba(X))
    np.testing.assert_array_equal(other.predict_proba(X), fitted.predict_proba(stack))
    with pytest.raises(ValueError, match=r"image_shape is \(6, 6\), but the images"):
        other.predict(X.reshape(60, 4, 9))
    with pytest.raises(ValueError, match=r"image_shape is \(4, 9\), but the images"):
        classifier(image_shape=(4, 9)).fit(stack, y)
    assert classifier(image_shape=(4, 9)).fit(X, y).estimators_[0].image_shape_ == (
        4,
        9,
    )


def test_missing_pixels(data):
    X, y = data
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    fitted = classifier().fit(holes, y)
    assert fitted.score(holes, y) > 0.9
    unseen = np.full((1, 36), np.nan)
    np.testing.assert_allclose(fitted.predict_proba(unseen), [fitted.class_prior_])


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"solver": "em"}, "means the sampler 'exact', which"),
        ({"image_shape": (5, 5)}, "does not fit rows of 36 pixels"),
        ({"covariance_type": "diag"}, "covariance_type must be"),
    ],
    ids=str,
)
def test_wrong_parameters(settings, message, data):
    with pytest.raises(ValueError, match=message):
        classifier(**settings).fit(*data)


def test_folds_are_told_once():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 36)), np.arange(20) % 2
    wild = classifier(
        deformation_scale=5.0,
        deformation_width=1.0,
        prior=DeformableTemplatePrior(prior_strength=100.0),
    )
    with pytest.warns(
        FitWarning, match="fold over themselves in the classes"
    ) as record:
        wild.fit(X, y)
    assert len(record) == 1 and record[0].filename == __file__


def test_grid_search_over_widths(data):
    X, y = data
    search = GridSearchCV(classifier(), {"deformation_width": [1.5, 3.0]}, cv=3)
    search.fit(X, y)
    assert search.best_params_["deformation_width"] in (1.5, 3.0)
    assert search.best_score_ > 0.9
    widths = {
        width: classifier(deformation_width=width).fit(X, y).estimators_[0].grid_
        for width in (1.5, 3.0)
    }
    assert all(g.deformation_width == width for width, g in widths.items())
    assert cross_val_score(classifier(n_components=2), X, y, cv=3).mean() > 0.9


@pytest.mark.parametrize(
    "seed", [None, 3, np.random.RandomState(0)], ids=lambda s: type(s).__name__
)
def test_seeds(seed, data):
    X, y = data
    found = [classifier(random_state=seed).fit(X, y).predict_proba(X) for _ in range(2)]
    assert (found[0] == found[1]).all() == isinstance(seed, int)


def test_one_image_of_a_class_is_no_problem():
    """The prior of the noise keeps it; without, nothing is left of the image."""
    X, y = load_digits(n_class=3, return_X_y=True)
    first = [int(np.flatnonzero(y == kind)[0]) for kind in range(3)]
    one = DeformableTemplateClassifier(
        temperature=1.0, deformation_landmarks=3, random_state=0
    )
    one.fit(X[first], y[first])
    with pytest.warns(FitWarning, match=r"Fits of the class(es)? .* recovered"):
        prior = DeformableTemplatePrior(noise_prior_strength=0.0)
        one.set_params(prior=prior).fit(X[first], y[first])


def test_many_copies_of_images_are_named():
    """A copy that is left out looks like nothing that will come."""
    X, y = two_kinds(8)
    few = np.concatenate([np.flatnonzero(y == k)[:3] for k in (0, 1)])
    one = classifier(temperature="auto", max_iter=3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        one.fit(X[few], y[few])
    assert not any("exact copies" in str(one.message) for one in told)
    again = np.repeat(few, 3)
    with pytest.warns(FitWarning, match="12 of 18 images are exact copies"):
        one.fit(X[again], y[again])
