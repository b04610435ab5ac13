"""The first rows of a stream."""

import numpy as np

from sktem.estimators.stream import KeptRows


def test_rows_are_kept_until_there_are_enough():
    X, weights = np.arange(12.0).reshape(6, 2), np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0])
    kept = KeptRows()
    rest, left = kept.add(X[:3], weights[:3], 5)
    assert len(rest) == len(left) == 0 and kept.count == 3
    rest, left = kept.add(X[3:], weights[3:], 5)
    np.testing.assert_array_equal(rest, X[5:])
    np.testing.assert_array_equal(left, weights[5:])
    for found, expected in zip(kept.joined(), (X[:5], weights[:5]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_weights_of_one_are_none_and_rows_are_copies():
    X, kept = np.ones((4, 2)), KeptRows()
    rest, left = kept.add(X, None, 3)
    assert len(rest) == 1 and left is None
    X[:] = 0.0
    rows, weights = kept.joined()
    assert rows.all() and weights is None


def test_fewer_may_be_enough_later():
    kept = KeptRows()
    kept.add(np.zeros((4, 1)), None, 10)
    rest, _ = kept.add(np.ones((2, 1)), None, 3)
    assert kept.count == 4 and len(rest) == 2
