"""Factors of many small matrices at once."""

import numpy as np
from numba import njit

__all__ = ["factor_inverses", "inverse_cholesky"]


@njit(cache=True, nogil=True)
def factor_inverses(matrices, factors):
    """Fill ``factors[k] = inv(cholesky(matrices[k])).T``; False if one has none."""
    n_matrices, d, _ = matrices.shape
    lower = np.empty((d, d))
    for k in range(n_matrices):
        for j in range(d):
            for i in range(j, d):
                total = matrices[k, i, j]
                for m in range(j):
                    total -= lower[i, m] * lower[j, m]
                if i == j:
                    if not total > 0.0:  # also catches NaN
                        return False
                    lower[j, j] = np.sqrt(total)
                else:
                    lower[i, j] = total / lower[j, j]
        # Row i of the inverse of the lower factor is column i of the result.
        for j in range(d):
            for i in range(d):
                if i < j:
                    factors[k, j, i] = 0.0
                elif i == j:
                    factors[k, j, i] = 1.0 / lower[j, j]
                else:
                    total = 0.0
                    for m in range(j, i):
                        total -= lower[i, m] * factors[k, j, m]
                    factors[k, j, i] = total / lower[i, i]
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
