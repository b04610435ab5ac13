"""Products of small matrices: one compiled loop serves all kernels that need them.

Matrices and vectors are parts of flat arrays, given by where they begin. Such numbers
are unsigned throughout: a signed index is first tested for being negative, and a
function is compiled once more for every kind of number.
"""

import numpy as np
from numba import njit

from sktem.kernels.options import INNER

__all__ = [
    "FAST",
    "FOUR",
    "ONE",
    "PART",
    "THREE",
    "TWO",
    "ZERO",
    "clear",
    "copy_vector",
    "fetch",
    "product",
    "products",
    "quadratic",
    "store",
]

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))

#: No assumption about NaN: it marks a pixel that was not observed.
FAST = {"reassoc", "contract", "nsz", "arcp"}

#: Options of functions that have no code of their own but in their callers. Of two
#: copies with other last digits a process that compiles them would take one, and a
#: process that finds them compiled the other.
PART = {**INNER, "forceinline": True}


@njit(**INNER)
def fetch(matrix, row, work, to, count):
    """Copy the first entries of a row."""
    for i in range(count):
        work[to + i] = matrix[row, i]


@njit(**INNER)
def store(work, start, count, matrix, row):
    """Copy numbers to the first entries of a row."""
    for i in range(count):
        matrix[row, i] = work[start + i]


@njit(**INNER)
def copy_vector(work, start, to, count):
    """Copy numbers within an array; a loop compiles faster than a slice."""
    for i in range(count):
        work[to + i] = work[start + i]


@njit(**INNER)
def clear(work, to, count):
    """Fill a vector with zeros."""
    for i in range(count):
        work[to + i] = 0.0


@njit(**PART, fastmath=FAST)
def product(left, first, across, down, right, start, out, to, shape):
    """Fill a matrix with the product of two, all within flat arrays.

    The left one begins at `first`; its next column is `across` further and its next row
    `down`. The right one begins at `start`, and what is filled at `to`. `shape` is the
    number of rows, of terms and of columns.
    """
    n, inner, width = shape
    for i in range(n):
        row = to + i * width
        for k in range(width):
            out[row + k] = 0.0
        # Four terms at once, since what is filled is read and written for each.
        j, at, row0 = ZERO, first + i * down, start
        while j + FOUR <= inner:
            a, b = left[at], left[at + across]
            c, d = left[at + TWO * across], left[at + THREE * across]
            row1 = row0 + width
            row2 = row1 + width
            row3 = row2 + width
            for k in range(width):
                out[row + k] += (
                    a * right[row0 + k]
                    + b * right[row1 + k]
                    + c * right[row2 + k]
                    + d * right[row3 + k]
                )
            j += FOUR
            at += FOUR * across
            row0 = row3 + width
        while j < inner:
            value = left[at]
            for k in range(width):
                out[row + k] += value * right[row0 + k]
            j += ONE
            at += across
            row0 += width


@njit(**PART, fastmath=FAST)
def products(left, first, right, start, out, to, shape):
    """Fill a matrix with the products of the rows of two, all within flat arrays.

    They begin at `first`, `start` and `to`. `shape` is the number of rows of the left
    and of the right one and their length.
    """
    n, n_right, width = shape
    for i in range(n):
        left_row = first + i * width
        for j in range(n_right):
            right_row = start + j * width
            total = 0.0
            for k in range(width):
                total += left[left_row + k] * right[right_row + k]
            out[to + i * n_right + j] = total


@njit(**PART, fastmath=FAST)
def quadratic(matrix, work, w, out, dim):
    """Fill ``out = matrix @ w`` and return ``w @ matrix @ w``."""
    form = 0.0
    for i in range(dim):
        row = i * dim
        total = 0.0
        for k in range(dim):
            total += matrix[row + k] * work[w + k]
        work[out + i] = total
        form += total * work[w + i]
    return form
