"""A fit that fails leaves the estimator as it was."""

import numpy as np
import pytest
from sklearn.base import clone

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
NEGATIVE = {"sample_weight": -np.ones(60)}  # a chunk without weight is taken
LINE = {"parameters": {"level": 1.0}, "omega": ["level"]}

# An estimator, the arguments of a fit, and those of one that fails after X was checked.
CASES = [
    (StochasticEMGaussianMixture(2), {}, NEGATIVE),
    (StochasticEM(RandomInterceptModel(), tol=0.1), {}, NEGATIVE),
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
    (LatentBoltzmannMachine(max_iter=1, tol=None), {}, NEGATIVE),
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


STREAMS = [case for case in CASES if hasattr(case[0], "partial_fit")]
STREAM_NAMES = [type(estimator).__name__ for estimator, *_ in STREAMS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "good", "bad"), STREAMS, ids=STREAM_NAMES)
def test_a_refused_first_chunk_leaves_the_estimator_as_it_was(estimator, good, bad):
    """It then takes another number of columns, as if it had never been called."""
    estimator = clone(estimator)
    before = dict(vars(estimator))
    if "y" in good and isinstance(estimator, BoltzmannMachineClassifier):
        good, bad = good | {"classes": [0, 1]}, bad | {"classes": [0, 2]}
    with pytest.raises(ValueError):
        estimator.partial_fit(np.hstack([X] * 4), **bad)
    assert vars(estimator).keys() == before.keys()
    assert [k for k in before if before[k] is not vars(estimator)[k]] == []
    estimator.partial_fit(X, **good)
    assert estimator.n_features_in_ == X.shape[1]


@pytest.mark.parametrize(
    ("estimator", "good", "bad"),
    [case for case in STREAMS if "y" not in case[1]],
    ids=[
        n for n, case in zip(STREAM_NAMES, STREAMS, strict=True) if "y" not in case[1]
    ],
)
def test_a_stream_without_a_chunk_is_an_error(estimator, good, bad):
    estimator = clone(estimator)
    before = dict(vars(estimator))
    for empty in (iter([]), lambda: iter([])):
        with pytest.raises(ValueError, match="no rows"):
            estimator.partial_fit(empty)
        assert vars(estimator).keys() == before.keys()
    chunks = iter([X, X])
    estimator.partial_fit(chunks)
    learned = dict(vars(estimator))
    with pytest.raises(ValueError, match="read to its end"):
        estimator.partial_fit(chunks)
    assert vars(estimator).keys() == learned.keys()


@pytest.mark.filterwarnings("ignore")
def test_what_was_learned_before_a_refused_chunk_stays():
    """Negative control: the rows of an iterator are gone, what they said is not."""
    estimator = StochasticEMGaussianMixture(2, random_state=0)
    with pytest.raises(ValueError, match="infinity"):
        estimator.partial_fit(iter([X, X * np.inf]))
    expected = StochasticEMGaussianMixture(2, random_state=0).partial_fit(X)
    np.testing.assert_array_equal(estimator.means_, expected.means_)


@pytest.mark.filterwarnings("ignore")
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
