"""Tests of factors of small matrices, against NumPy."""

import numpy as np
import pytest

from sktem.kernels.linear_algebra import (
    FEW_COLUMNS,
    factor_inverses,
    inverse_cholesky,
    small_factor_inverses,
)

SIZES = [1, 2, 3, 7, FEW_COLUMNS, FEW_COLUMNS + 1, 40]


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


def test_both_forms_give_the_same_bits():
    matrices = scatters(FEW_COLUMNS + 5)
    by_rows, by_sums = np.empty_like(matrices), np.empty_like(matrices)
    assert factor_inverses(matrices, by_rows)
    assert small_factor_inverses(matrices, by_sums)
    np.testing.assert_array_equal(by_rows, by_sums)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("d", SIZES)
def test_matrices_without_a_factor_are_refused(d, value):
    matrices = scatters(d)
    matrices[2, d - 1, d - 1] = value
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        inverse_cholesky(matrices)
