"""Amounts of linear equations, by exponentials of matrices of any size."""

import math

from numba import njit

from sktem.kernels.borrowed import address, offset
from sktem.kernels.options import INNER, OUTER

#: Coefficients 1 / k! of the exponential, up to an order that is exact for a norm of 1.
ORDER = 16
FACTORIALS = tuple(1.0 / math.factorial(k) for k in range(ORDER + 1))
#: Squarings, at most.
MOST_SQUARINGS = 60


@njit(cache=True, nogil=True, error_model="numpy")
def unused(t, amounts, psi, result):
    """Replace a right-hand side that is not called."""
    result[0] = 0.0


@njit(**INNER, error_model="numpy")
def _multiply(m, a, b, out):
    """Write the product of two matrices."""
    for i in range(m):
        for j in range(m):
            total = 0.0
            for k in range(m):
                total += a[i * m + k] * b[k * m + j]
            out[i * m + j] = total


@njit(**INNER, error_model="numpy")
def exponential_of(m, matrix, work):
    """Equal ``matrix[:] = scipy.linalg.expm(matrix)``; work has five matrices more.

    The diagonal is made positive first. Where no other entry is negative, as in the
    equations of compartments, nothing cancels and each entry has all of its digits.
    """
    size = m * m
    second, third, fourth = work, offset(work, size), offset(work, 2 * size)
    total, product = offset(work, 3 * size), offset(work, 4 * size)
    shift = 0.0
    for i in range(m):
        shift = max(shift, -matrix[i * m + i])
    largest = 0.0
    for i in range(m):
        matrix[i * m + i] += shift
        row = 0.0
        for j in range(m):
            row += abs(matrix[i * m + j])
        largest = max(largest, row) if row == row else math.inf
    squarings = 0
    while largest > 1.0 and squarings < MOST_SQUARINGS:
        largest *= 0.5
        squarings += 1
    scale = 0.5**squarings
    for k in range(size):
        matrix[k] = matrix[k] * scale if largest <= 1.0 else math.nan
    _multiply(m, matrix, matrix, second)
    _multiply(m, matrix, second, third)
    _multiply(m, second, second, fourth)
    for k in range(size):
        total[k] = FACTORIALS[ORDER] * fourth[k]
    for part in range(3, -1, -1):
        of_first, of_second = FACTORIALS[4 * part + 1], FACTORIALS[4 * part + 2]
        of_third = FACTORIALS[4 * part + 3]
        if part < 3:
            _multiply(m, total, fourth, product)
            for k in range(size):
                total[k] = product[k]
        for k in range(size):
            total[k] += of_first * matrix[k] + of_second * second[k]
            total[k] += of_third * third[k]
        for i in range(m):
            total[i * m + i] += FACTORIALS[4 * part]
    decay = math.exp(-shift * scale)
    for k in range(size):
        matrix[k] = total[k] * decay
    for _ in range(squarings):
        _multiply(m, matrix, matrix, product)
        for k in range(size):
            matrix[k] = product[k]


@njit(**OUTER, error_model="numpy")
def expm_into(matrix, work):
    """Equal ``matrix[:] = scipy.linalg.expm(matrix)``; work has five times its size."""
    exponential_of(matrix.shape[0], address(matrix), address(work))
    matrix[0, 0] += 0.0 * work[0]  # a last use, until which they live


@njit(**INNER, error_model="numpy")
def propagate(n, elapsed, amounts, equations, rates, work):
    """Move amounts by a time, as ``expm`` of the equations with a last row of zeros.

    The equations are the rows of a matrix, each with a constant behind it, to which the
    rates of infusions are added. ``work`` has room for six matrices.
    """
    m, entering = n, False
    for i in range(n):
        entering = entering or equations[i * (n + 1) + n] + rates[i] != 0.0
    if entering:
        m = n + 1
    matrix = work
    for i in range(n):
        for j in range(n):
            matrix[i * m + j] = equations[i * (n + 1) + j] * elapsed
        if entering:
            matrix[i * m + n] = (equations[i * (n + 1) + n] + rates[i]) * elapsed
    if entering:
        for j in range(m):
            matrix[n * m + j] = 0.0
    exponential_of(m, matrix, offset(work, m * m))
    new = offset(work, m * m)
    for i in range(n):
        total = matrix[i * m + n] if entering else 0.0
        for j in range(n):
            total += matrix[i * m + j] * amounts[j]
        new[i] = total
    for i in range(n):
        amounts[i] = new[i]
