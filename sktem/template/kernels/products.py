"""Products of small matrices: one compiled loop serves all kernels that need them."""

import numpy as np
from numba import njit

__all__ = ["FAST", "ONE", "ZERO", "clear", "copy_vector", "product", "products"]

#: As arguments: for a plain number a function would be compiled once more.
ZERO, ONE = np.int64(0), np.int64(1)

#: No assumption about NaN: it marks a pixel that was not observed.
FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True)
def copy_vector(source, out):
    """Fill what both have; a loop compiles in a fraction of the time of a slice."""
    n, n_source = out.shape[0], source.shape[0]
    for i in range(n if n < n_source else n_source):
        out[i] = source[i]


@njit(cache=True, nogil=True)
def clear(out):
    """Fill a vector with zeros."""
    for i in range(out.shape[0]):
        out[i] = 0.0


@njit(cache=True, nogil=True, fastmath=FAST)
def product(left, first, across, down, right, start, out, to, shape):
    """Fill a matrix with the product of two, all within flat arrays.

    The left one begins at `first`; its next column is `across` further and its next row
    `down`. The right one begins at `start`, and what is filled at `to`. `shape` is the
    number of rows, of terms and of columns.
    """
    n, inner, width = shape[0], shape[1], np.uintp(shape[2])
    for i in range(n):
        # Unsigned, since a signed index is first tested for being negative.
        row = np.uintp(to) + np.uintp(i) * width
        for k in range(width):
            out[row + k] = 0.0
        # Four terms at once, since what is filled is read and written for each.
        j = 0
        while j + 4 <= inner:
            at = first + i * down + j * across
            a, b = left[at], left[at + across]
            c, d = left[at + 2 * across], left[at + 3 * across]
            one = np.uintp(start) + np.uintp(j) * width
            two = one + width
            three = two + width
            four = three + width
            for k in range(width):
                out[row + k] += (
                    a * right[one + k]
                    + b * right[two + k]
                    + c * right[three + k]
                    + d * right[four + k]
                )
            j += 4
        while j < inner:
            value = left[first + i * down + j * across]
            source = np.uintp(start) + np.uintp(j) * width
            for k in range(width):
                out[row + k] += value * right[source + k]
            j += 1


@njit(cache=True, nogil=True, fastmath=FAST)
def products(left, right, out, to, shape):
    """Fill a matrix with the products of the rows of two, all flat arrays.

    What is filled begins at `to`. `shape` is the number of rows of the left and of the
    right one and their length.
    """
    n, n_right, width = shape[0], shape[1], np.uintp(shape[2])
    for i in range(n):
        one = np.uintp(i) * width
        for j in range(n_right):
            two = np.uintp(j) * width
            total = 0.0
            for k in range(width):
                total += left[one + k] * right[two + k]
            out[to + i * n_right + j] = total
