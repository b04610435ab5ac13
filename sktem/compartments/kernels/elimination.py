"""Systems of a few linear equations."""

import math

from numba import njit

from sktem.kernels.options import OUTER


@njit(**OUTER, error_model="numpy")
def solve(matrix, values):
    """Equal ``values[:] = np.linalg.solve(matrix, values)``, False where it has none.

    The matrix is overwritten.
    """
    n = values.shape[0]
    for j in range(n):
        best = j
        for i in range(j + 1, n):
            if abs(matrix[i, j]) > abs(matrix[best, j]):
                best = i
        if not 0.0 < abs(matrix[best, j]) < math.inf:
            return False
        for k in range(n):
            matrix[j, k], matrix[best, k] = matrix[best, k], matrix[j, k]
        values[j], values[best] = values[best], values[j]
        for i in range(j + 1, n):
            factor = matrix[i, j] / matrix[j, j]
            for k in range(j, n):
                matrix[i, k] -= factor * matrix[j, k]
            values[i] -= factor * values[j]
    for j in range(n - 1, -1, -1):
        for k in range(j + 1, n):
            values[j] -= matrix[j, k] * values[k]
        values[j] /= matrix[j, j]
    return True
