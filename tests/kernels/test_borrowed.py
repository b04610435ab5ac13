"""Arrays without owners: the same values, and the originals live on."""

import sys
from typing import NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.borrowed import borrowed


class Pair(NamedTuple):
    matrix: np.ndarray
    scale: float


@njit
def scaled_sum(pair, index):
    """Equal ``pair.scale * index * pair.matrix.sum()``, by way of a work array."""
    work = np.empty_like(pair.matrix)
    inner = borrowed((pair, work))
    total = 0.0
    for i in range(pair.matrix.shape[0]):
        inner[1][i] = inner[0].scale * inner[0].matrix[i]
    for value in inner[1].flat:
        total += value
    work[0, 0] = 0.0  # a last use, until which the work lives
    return total * index


def test_values_are_those_of_the_originals():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(300, 40))
    for index in range(50):
        expected = 2.5 * index * matrix.sum()
        np.testing.assert_allclose(scaled_sum(Pair(matrix, 2.5), index), expected)


def test_no_references_are_lost_or_gained():
    matrix = np.ones((30, 4))
    pair = Pair(matrix, 1.0)
    scaled_sum(pair, 1)
    before = sys.getrefcount(matrix)
    for _ in range(1000):
        scaled_sum(pair, 1)
    assert sys.getrefcount(matrix) == before
    np.testing.assert_array_equal(matrix, 1.0)
