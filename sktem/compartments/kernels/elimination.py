"""Systems of a few linear equations."""

import math

import numpy as np
from numba import njit

from sktem.kernels.borrowed import address
from sktem.kernels.options import INNER, OUTER


@njit(**INNER, error_model="numpy", inline="always")
def factorise(n, matrix, pivots):
    """Write the triangular factors of a matrix in its place; False if it has none.

    They and the pivots equal those of ``scipy.linalg.lu_factor``.
    """
    for j in range(n):
        best = j
        for i in range(j + 1, n):
            if abs(matrix[i * n + j]) > abs(matrix[best * n + j]):
                best = i
        pivots[j] = best
        if not 0.0 < abs(matrix[best * n + j]) < math.inf:
            return False
        for k in range(n):
            above, below = j * n + k, best * n + k
            matrix[above], matrix[below] = matrix[below], matrix[above]
        for i in range(j + 1, n):
            matrix[i * n + j] /= matrix[j * n + j]
            for k in range(j + 1, n):
                matrix[i * n + k] -= matrix[i * n + j] * matrix[j * n + k]
    return True


@njit(**INNER, error_model="numpy", inline="always")
def substitute(n, factors, pivots, values):
    """Equal ``values[:] = scipy.linalg.lu_solve((factors, pivots), values)``."""
    for j in range(n):
        best = int(pivots[j])
        values[j], values[best] = values[best], values[j]
    for j in range(n):
        for i in range(j + 1, n):
            values[i] -= factors[i * n + j] * values[j]
    for j in range(n - 1, -1, -1):
        for k in range(j + 1, n):
            values[j] -= factors[j * n + k] * values[k]
        values[j] /= factors[j * n + j]


@njit(**OUTER, error_model="numpy")
def solve(matrix, values):
    """Equal ``values[:] = np.linalg.solve(matrix, values)``, False where it has none.

    The matrix is overwritten.
    """
    n = values.shape[0]
    numbers = np.empty(n)
    factors, pivots = address(matrix), address(numbers)
    known = factorise(n, factors, pivots)
    if known:
        substitute(n, factors, pivots, address(values))
    numbers[0] = 0.0  # a last use, until which they live
    return known
