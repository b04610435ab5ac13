"""Tests of factors of small matrices, against NumPy."""

import numpy as np
import pytest

from sktem.kernels.linear_algebra import inverse_cholesky

SIZES = [1, 2, 3, 7, 40]


def scatters(d, n=4):
    """Return positive definite matrices."""
    rows = np.random.default_rng(d).normal(size=(n, 2 * d + 1, d))
    return np.swapaxes(rows, 1, 2) @ rows / len(rows[0])


@pytest.mark.parametrize("d", SIZES)
def test_factors_are_those_of_numpy(d):
    matrices = scatters(d)
    factors = inverse_cholesky(matrices)
    expected = np.swapaxes(np.linalg.inv(np.linalg.cholesky(matrices)), -1, -2)
    np.testing.assert_allclose(factors, expected, rtol=1e-9, atol=1e-12)
    assert not np.tril(factors, -1).any()


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("d", SIZES)
def test_matrices_without_a_factor_are_refused(d, value):
    matrices = scatters(d)
    matrices[2, d - 1, d - 1] = value
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        inverse_cholesky(matrices)
