"""What is masked was not observed."""

import numpy as np
import pytest

from sktem import (
    DeformableTemplateEstimator,
    LatentBoltzmannMachine,
    StochasticEMGaussianMixture,
)

RNG = np.random.default_rng(0)
X = RNG.integers(2, size=(30, 6, 6))
MASK = RNG.random(X.shape) < 0.1
MASKED = np.ma.masked_array(np.where(MASK, 99, X), MASK)
MISSING = np.where(MASK, np.nan, X)


@pytest.mark.parametrize("shape", [(30, 6, 6), (30, 36)])
def test_masked_pixels_are_missing(shape):
    images = DeformableTemplateEstimator(max_iter=2, random_state=0)
    expected = images.fit(MISSING.reshape(shape)).templates_
    found = images.fit(MASKED.reshape(shape)).templates_
    np.testing.assert_array_equal(found, expected)


def test_masked_units_are_missing():
    machine = LatentBoltzmannMachine(
        hidden_layer_sizes=2, max_iter=2, tol=None, random_state=0
    )
    expected = machine.fit(MISSING.reshape(30, 36)).params_
    found = machine.fit(MASKED.reshape(30, 36)).params_
    np.testing.assert_array_equal(found, expected)


def test_masked_values_of_a_mixture_are_missing():
    mixture = StochasticEMGaussianMixture(2, random_state=0)
    values, mask = RNG.normal(size=(60, 2)), RNG.random((60, 2)) < 0.1
    expected = mixture.fit(np.where(mask, np.nan, values)).means_
    masked = np.ma.masked_array(np.where(mask, 99, values), mask)
    np.testing.assert_array_equal(mixture.fit(masked).means_, expected)
    nothing = np.ma.masked_array(RNG.normal(size=(30, 6)))
    expected = mixture.fit(nothing.data).means_
    np.testing.assert_array_equal(mixture.fit(nothing).means_, expected)
