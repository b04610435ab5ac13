"""Power transforms of columns, against scikit-learn's."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.preprocessing import PowerTransformer

from sktem.estimators.power_transforms import PowerTransform


@pytest.mark.parametrize("function", [np.exp, np.sinh, lambda x: x, lambda x: -(x**4)])
def test_transforms_of_columns(function):
    values = function(np.random.default_rng(0).normal(size=400))
    reference = PowerTransformer(standardize=False).fit(values[:, None])
    transform = PowerTransform.of(values, 20)
    moved, power = reference.transform(values[:, None])[:, 0], reference.lambdas_[0]
    np.testing.assert_allclose(transform.transformed(values), moved, rtol=1e-5)
    slopes = (power - 1) * np.sign(values) * np.log1p(np.abs(values))
    logs = norm(moved.mean(), moved.std()).logpdf(moved) + slopes
    as_it_is = norm(values.mean(), values.std()).logpdf(values)
    np.testing.assert_allclose(transform.likelihood, logs.mean(), rtol=1e-6)
    gain = logs.mean() - as_it_is.mean()
    np.testing.assert_allclose(transform.gain, gain, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("values", [
    np.empty(0), np.ones(1), np.ones(50), np.arange(50.0) % 19,
    np.linspace(-1e200, 1e200, 50), np.linspace(-1e-200, 1e-200, 50),
], ids=["none", "one", "constant", "few", "huge", "tiny"])  # fmt: skip
def test_columns_without_a_power_transform(values):
    assert PowerTransform.of(values, 20) is None
    assert PowerTransform.of(np.linspace(-1, 1, 50), 20) is not None
