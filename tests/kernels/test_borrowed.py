"""Arrays by their addresses: the same values, and the originals live on."""

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from sktem.kernels.borrowed import address, offset


class Pair(NamedTuple):
    matrix: Any
    scale: float


@njit
def scaled_sum(pair, truths, index):
    """Equal ``pair.scale * index * pair.matrix[:, truths].sum()``, by a work array."""
    n, m = pair.matrix.shape
    work = np.empty(n * m)
    (inner, chosen), doing = address((pair, truths)), address(work)
    total = 0.0
    for i in range(n):
        line, own = offset(inner.matrix, i * m), offset(doing, i * m)
        for j in range(m):
            own[j] = inner.scale * line[j]
            if chosen[j]:
                total += doing[i * m + j]
    work[0] = 0.0  # a last use, until which the work lives
    return total * index


def test_values_are_those_of_the_originals():
    rng = np.random.default_rng(0)
    matrix, truths = rng.normal(size=(300, 40)), rng.random(40) < 0.5
    for index in range(50):
        expected = 2.5 * index * matrix[:, truths].sum()
        found = scaled_sum(Pair(matrix, 2.5), truths, index)
        np.testing.assert_allclose(found, expected)


def test_no_references_are_lost_or_gained():
    matrix = np.ones((30, 4))
    pair, truths = Pair(matrix, 1.0), np.ones(4, dtype=bool)
    scaled_sum(pair, truths, 1)
    before = sys.getrefcount(matrix)
    for _ in range(1000):
        scaled_sum(pair, truths, 1)
    assert sys.getrefcount(matrix) == before
    np.testing.assert_array_equal(matrix, 1.0)
