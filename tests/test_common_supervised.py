"""scikit-learn's estimator checks for regressors and classifiers."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.utils.estimator_checks import (
    estimator_checks_generator,
    parametrize_with_checks,
)

from sktem import (
    ARDLogisticClassifier,
    BoltzmannMachineClassifier,
    BoltzmannMachineRegressor,
    GaussianMixtureRegressor,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
)
from sktem.exceptions import FitWarning

# tol=0 never warns that a run has not converged; warnings are errors here.
REGRESSORS = [
    RobustPoissonRegressor(tol=0.0, max_iter=10),
    NonlinearMixedEffectsRegressor(
        "linear",
        parameters={"intercept": 0.0, "slope": 1.0},
        inputs=[0],
        transforms="normal",
        omega=[],
        tol=0.0,
        max_iter=12,
    ),
]
CLASSIFIER = ARDLogisticClassifier(max_iter=25, n_posterior_draws=20)
MACHINE = BoltzmannMachineClassifier(n_hidden=2)
CONDITIONED = GaussianMixtureRegressor(2, n_init=1)
OUTPUTS = BoltzmannMachineRegressor(n_hidden=2, tol=0.01, random_state=0)
STRICT = (
    {"xfail_strict": True}
    if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters
    else {}
)


def names_of(estimator):
    found = estimator_checks_generator(estimator, legacy=True)
    return {getattr(check, "func", check).__name__ for _, check in found}


@parametrize_with_checks(
    [*REGRESSORS, CLASSIFIER, MACHINE, OUTPUTS, CONDITIONED],
    expected_failed_checks=lambda estimator: {},
    **STRICT,
)
def test_estimator_check(estimator, check):
    with warnings.catch_warnings():
        # Outputs of some checks are functions of the inputs, and rows few.
        if estimator in (MACHINE, OUTPUTS, CONDITIONED, CLASSIFIER, REGRESSORS[0]):
            warnings.simplefilter("ignore", FitWarning)
        check(estimator)


@pytest.mark.parametrize(
    "estimator, peer",
    [
        *((one, PoissonRegressor()) for one in REGRESSORS),
        (CLASSIFIER, None),
        (MACHINE, LogisticRegression()),
        (OUTPUTS, LinearRegression()),
    ],
    ids=lambda part: type(part).__name__,
)
def test_no_check_is_dropped(estimator, peer):
    peer = LogisticRegression(solver="liblinear") if peer is None else peer
    weighted = "sample_weight" in inspect.signature(estimator.fit).parameters
    # What the peer offers and these do not.
    others = ["sparse", "array_api", "class_weight", "sparsify"]
    others += [] if weighted else ["sample_weight"]
    expected = {
        name for name in names_of(peer) if not any(other in name for other in others)
    }
    assert expected <= names_of(estimator)
    assert len(expected) > 30


def test_tags():
    assert REGRESSORS[0].__sklearn_tags__().target_tags.positive_only
    assert not CLASSIFIER.__sklearn_tags__().classifier_tags.multi_class
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="Only binary classification"):
        CLASSIFIER.fit(rng.normal(size=(9, 2)), np.arange(9) % 3)
