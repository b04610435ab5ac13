"""Factors of many small matrices at once."""

import numpy as np
from numba import njit

__all__ = ["factor_inverses", "inverse_cholesky"]

# Up to so many columns, sums of scalars take less time than operations on rows.
FEW_COLUMNS = 24


@njit(cache=True, nogil=True, error_model="numpy")
def small_factor_inverses(matrices, factors):
    """Equal `factor_inverses` in each bit, for few columns."""
    n_matrices, d, _ = matrices.shape
    lower = np.empty((d, d))
    for k in range(n_matrices):
        matrix, factor = matrices[k], factors[k]
        for j in range(d):
            for i in range(j, d):
                rest = matrix[i, j]
                for m in range(j):
                    rest -= lower[i, m] * lower[j, m]
                if i > j:
                    lower[i, j] = rest / lower[j, j]
                elif rest > 0.0:  # nor NaN
                    lower[j, j] = np.sqrt(rest)
                else:
                    return False
        for j in range(d):
            for i in range(j):
                factor[j, i] = 0.0
            factor[j, j] = 1.0 / lower[j, j]
            for i in range(j + 1, d):
                rest = 0.0
                for m in range(j, i):
                    rest -= lower[i, m] * factor[j, m]
                factor[j, i] = rest / lower[i, i]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def factor_inverses(matrices, factors):
    """Fill ``factors[k] = inv(cholesky(matrices[k])).T``; False if one has none."""
    n_matrices, d, _ = matrices.shape
    if d <= FEW_COLUMNS:
        return small_factor_inverses(matrices, factors)
    # Rows of the transposed factor, so that all inner loops run along rows.
    upper = np.empty((d, d))
    for k in range(n_matrices):
        for i in range(d):
            for j in range(i + 1):
                upper[j, i] = matrices[k, i, j]
        for j in range(d):
            row = upper[j]
            if not row[j] > 0.0:  # also catches NaN
                return False
            root = np.sqrt(row[j])
            row[j] = root
            for i in range(j + 1, d):
                row[i] /= root
            for m in range(j + 1, d):
                # Slices, as the compiler vectorises loops from 0 only.
                other, right, factor = upper[m, m:], row[m:], row[m]
                for i in range(d - m):
                    other[i] -= factor * right[i]
        for j in range(d):
            result = factors[k, j]
            for i in range(d):
                result[i] = 0.0
            result[j] = 1.0 / upper[j, j]
            for m in range(j, d):
                if m > j:
                    result[m] /= upper[m, m]
                value, right, rest = result[m], upper[m, m + 1 :], result[m + 1 :]
                for i in range(d - m - 1):
                    rest[i] -= right[i] * value
    return True


def inverse_cholesky(matrices):
    """Return the transposed inverse Cholesky factors of symmetric matrices.

    Equal to ``np.swapaxes(np.linalg.inv(np.linalg.cholesky(matrices)), -1, -2)``,
    without the cost that NumPy has for each call and each small matrix.
    """
    matrices = np.ascontiguousarray(matrices, dtype=np.float64)
    factors = np.empty_like(matrices)
    if not factor_inverses(matrices, factors):
        raise np.linalg.LinAlgError("a matrix is not positive definite")
    return factors
