"""Factors of many small matrices at once."""

import numpy as np
from numba import njit

__all__ = ["factor_inverses", "inverse_cholesky"]


@njit(cache=True, nogil=True, error_model="numpy")
def factor_inverses(matrices, factors):
    """Fill ``factors[k] = inv(cholesky(matrices[k])).T``; False if one has none."""
    n_matrices, d, _ = matrices.shape
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
