"""Likelihoods of images under the templates of all classes."""

import pickle

import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits

from sktem import DeformableTemplateClassifier, DeformableTemplatePrior
from sktem.template.likelihoods import Likelihoods, Searches
from sktem.template.model.modes import Descent
from tests.template.oracles import classifier, named_kinds, two_kinds


def test_likelihoods_are_those_of_the_fitted_templates():
    X, y = named_kinds(30)
    fitted = classifier().fit(X[:20], y[:20])
    found = fitted.predict_joint_log_proba(X[20:30])
    fits = [one._template for one in fitted.estimators_]
    fresh = Likelihoods(fits).judge(X[20:30])[0]
    np.testing.assert_array_equal(found, fresh + np.log(fitted.class_prior_))
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict_joint_log_proba(X[20:30]), found)


def searched(fitted, X, **options):
    """Return log-likelihoods at modes that were sought for all classes to the end."""
    logs = []
    for estimator in fitted.estimators_:
        own = estimator._template
        Y = own.standardised(X)
        found = own.model.modes_of(Y, own.params, 0, **options)[1]
        logs.append(own.in_units_of_images(found[:, None], Y)[:, 0])
    return np.stack(logs, axis=1)


def test_what_is_explained_poorly_is_sought_again():
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (2, 3, 5, 8))], y[np.isin(y, (2, 3, 5, 8))]
    X = zoom(X.reshape(-1, 8, 8), (1, 2, 2), order=1).reshape(len(X), -1)
    prior = DeformableTemplatePrior(noise_prior_strength=0.0)  # little noise
    fitted = DeformableTemplateClassifier(
        prior=prior, temperature=1.0, max_iter=5, random_state=0
    ).fit(X[:20], y[:20])
    X = X[20:170]
    # Further away than the training images are from each other.
    X[50:] = np.roll(X[50:].reshape(-1, 16, 16), 3, axis=2).reshape(100, -1)
    fits = [one._template for one in fitted.estimators_]
    found = Likelihoods(fits).judge(X)[0]
    once = Likelihoods(fits, Searches(poor=np.inf)).judge(X)[0]
    again = (found != once).any(axis=1)
    assert 0.1 < again.mean() < 0.95
    afresh = searched(fitted, X, descent=Descent(4.0 ** np.arange(3, -1, -1), hold=0.5))
    expected = np.maximum(once, afresh)
    np.testing.assert_allclose(found[again], expected[again], rtol=1e-9)
    # Those of the others would have changed less, and few labels.
    gains = (afresh - once).max(axis=1)
    assert np.median(gains[~again]) < np.median(gains[again])
    label = searched(fitted, X).argmax(axis=1)
    wrong = [(logs.argmax(axis=1) != label).mean() for logs in (found, once)]
    assert wrong[0] < wrong[1]


def test_gain_and_offset_are_nuisances():
    """Classes whose images differ in light, which the templates do not learn."""
    rng = np.random.default_rng(0)
    X, y = two_kinds(80)
    light = rng.uniform(0.4, 2.0, (80, 1)), rng.normal(0, 1.0, (80, 1))
    X = light[0] * X + light[1] * X.std()
    lit = classifier(nuisances=("gain", "offset"), max_iter=8).fit(X[:20], y[:20])
    plain = classifier(max_iter=8).fit(X[:20], y[:20])
    assert lit.score(X[20:], y[20:]) > plain.score(X[20:], y[20:]) + 0.1
    joint = lit.predict_joint_log_proba(X[20:25]) - np.log(lit.class_prior_)
    logs = [own.score_samples(X[20:25]) for own in lit.estimators_]
    np.testing.assert_allclose(joint, np.stack(logs, axis=1))


def test_flows():
    X, y = two_kinds(30)
    flows = classifier(deformation="diffeomorphic", max_iter=3).fit(X[:20], y[:20])
    assert flows.score(X, y) > 0.9
