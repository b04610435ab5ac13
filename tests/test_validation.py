"""Columns of text are named by the message that refuses them."""

import numpy as np
import pytest

from sktem import (
    ARDLogisticClassifier,
    DeformableTemplateEstimator,
    LatentBoltzmannMachine,
    NonlinearMixedEffectsRegressor,
    RobustPoissonRegressor,
    StochasticEM,
    StochasticEMGaussianMixture,
)
from sktem.models import RandomInterceptModel

LINE = {"parameters": {"intercept": 1.0, "slope": 1.0}, "omega": []}
ESTIMATORS = [
    StochasticEMGaussianMixture(2, tol=0.1),
    StochasticEM(RandomInterceptModel(), tol=0.1),
    RobustPoissonRegressor(),
    ARDLogisticClassifier(),
    DeformableTemplateEstimator(),
    LatentBoltzmannMachine(),
    NonlinearMixedEffectsRegressor(lambda psi, X: psi["intercept"], **LINE),
]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_columns_of_text_are_named(library, estimator):
    frames = pytest.importorskip(library)
    numbers = np.arange(20.0)
    frame = frames.DataFrame(
        {"subject": [f"P{i}" for i in range(20)], "x": numbers, "site": ["a"] * 20}
    )
    with pytest.raises(
        ValueError, match=r"columns \['subject', 'site'\] of X"
    ) as error:
        estimator.fit(frame, numbers > 9)
    assert ("as groups" in str(error.value)) == hasattr(estimator, "omega")


def test_numbers_as_objects_pass():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(60, 2))
    frame = pandas.DataFrame(X, columns=["a", "b"])
    plain = StochasticEMGaussianMixture(2, random_state=0, tol=0.1).fit(frame)
    objects = StochasticEMGaussianMixture(2, random_state=0, tol=0.1)
    objects.fit(frame.astype(object))
    np.testing.assert_array_equal(plain.means_, objects.means_)
