"""A fit that fails leaves the estimator as it was."""

import numpy as np
import pytest

from sktem import (
    ARDLogisticClassifier,
    BoltzmannMachineClassifier,
    BoltzmannMachineRegressor,
    DeformableTemplateClassifier,
    DeformableTemplateEstimator,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.models import RandomInterceptModel

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 2
X = RNG.random((60, 4)).round() + 0.0
SUBJECTS = np.repeat(np.arange(10), 6)
NO_WEIGHT = {"sample_weight": np.zeros(60)}
LINE = {"parameters": {"level": 1.0}, "omega": ["level"]}

# An estimator, the arguments of a fit, and those of one that fails after X was checked.
CASES = [
    (StochasticEMGaussianMixture(2), {}, NO_WEIGHT),
    (StochasticEM(RandomInterceptModel(), tol=0.1), {}, NO_WEIGHT),
    (RobustPoissonRegressor(max_iter=3, tol=0), {"y": LABELS}, {"y": -LABELS}),
    (ARDLogisticClassifier(max_iter=60), {"y": LABELS}, {"y": 0 * LABELS}),
    (BoltzmannMachineClassifier(2), {"y": LABELS}, {"y": LABELS, **NO_WEIGHT}),
    (BoltzmannMachineRegressor(2), {"y": X[:, 0]}, {"y": X[:, 0], **NO_WEIGHT}),
    (DeformableTemplateEstimator(max_iter=1), {}, NO_WEIGHT),
    (
        DeformableTemplateClassifier(max_iter=1, temperature=1.0),
        {"y": LABELS},
        {"y": 0 * LABELS},
    ),
    (LatentBoltzmannMachine(max_iter=1, tol=None), {}, NO_WEIGHT),
    (
        NonlinearMixedEffectsRegressor(
            lambda psi, X: psi["level"], **LINE, max_iter=60
        ),
        {"y": LABELS + X[:, 0], "groups": SUBJECTS},
        {"y": LABELS, "groups": SUBJECTS[:5]},
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "good", "bad"), CASES, ids=[type(one).__name__ for one, *_ in CASES]
)
def test_a_failed_fit_leaves_the_estimator_as_it_was(estimator, good, bad):
    estimator.fit(X, **good)
    before = dict(vars(estimator))
    with pytest.raises(ValueError):
        estimator.fit(np.hstack([X] * 4), **bad)
    after = vars(estimator)
    assert before.keys() == after.keys()
    assert [k for k in before if before[k] is not after[k]] == []


def test_results_of_an_interrupted_fit_stay():
    """Negative control: with an epoch, a fit that raises changes the estimator."""

    def chunks():
        passes.append(1)
        if len(passes) == 6:
            raise KeyboardInterrupt
        yield from (rows[:300], rows[300:])

    passes: list = []
    rows = RNG.normal(size=(600, 2)) + 4 * RNG.integers(2, size=(600, 1))
    estimator = StochasticEMGaussianMixture(2, tol=0, random_state=0).fit(X)
    before = estimator.means_
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(chunks)
    assert estimator.means_ is not before
    assert estimator.n_features_in_ == 2
