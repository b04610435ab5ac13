"""Sequences as users give them."""

import numpy as np
import pandas as pd
import pytest

from sktem.sequences.given import checked_sequence_weights, given_rows, offsets_of
from sktem.sequences.rows import Sequences


class Values(Sequences):
    by_row = ("values",)
    by_sequence = ("names",)


def values():
    offsets = np.array([0, 2, 2, 5])
    return Values(offsets, values=np.arange(5.0), names=np.array(["a", "b", "c"]))


def test_offsets():
    np.testing.assert_array_equal(offsets_of(4), [0, 4])
    np.testing.assert_array_equal(offsets_of(4, lengths=[1, 0, 3]), [0, 1, 1, 4])
    np.testing.assert_array_equal(offsets_of(4, ["x", "x", "a", "y"]), [0, 2, 3, 4])
    with pytest.raises(ValueError, match="rows of group 'x' are not next to each"):
        offsets_of(3, ["x", "a", "x"])
    with pytest.raises(ValueError, match="counts of rows"):
        offsets_of(3, lengths=[-1, 4])
    with pytest.raises(ValueError, match="no label in 1 of 2"):
        offsets_of(2, ["a", None])
    for missing in ([1.0, np.nan, np.nan], ["a", None, None], ["a", pd.NA, pd.NA]):
        with pytest.raises(ValueError, match="no label in 2 of 3"):
            offsets_of(3, missing)
    with pytest.raises(ValueError, match="one label per row"):
        offsets_of(3, ["a", "b"])
    with pytest.raises(ValueError, match="labels of groups must be of one type"):
        offsets_of(3, np.array(["a", 1, 1], dtype=object))


def test_lists_of_arrays():
    given = given_rows([np.zeros((2, 3)), np.ones((1, 3))], None, None)
    np.testing.assert_array_equal(given.offsets, [0, 2, 3])
    assert given.X.shape == (3, 3)
    with pytest.raises(ValueError, match="different numbers of columns"):
        given_rows([np.zeros((2, 3)), np.ones((1, 2))], None, None)
    pl = pytest.importorskip("polars")
    for library in (pd, pl):
        frame = library.DataFrame({"day": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
        given = given_rows(frame, "day", None)
        assert list(given.X.columns) == ["x"] and list(given.groups) == ["a", "a", "b"]
    # A list of rows is one array.
    assert given_rows([[1.0, 2.0], [3.0, 4.0]], None, None).offsets is None


def test_chosen_and_joined_sequences():
    rows = values()
    assert len(rows) == 3 and rows.n_rows == 5
    chosen = rows[[2, 0]]
    np.testing.assert_array_equal(chosen.values, [2, 3, 4, 0, 1])
    np.testing.assert_array_equal(chosen.names, ["c", "a"])
    joined = Values.joined([rows[:1], rows[1:]])
    np.testing.assert_array_equal(joined.offsets, rows.offsets)
    np.testing.assert_array_equal(joined.values, rows.values)
    twice = rows.repeat(2)
    np.testing.assert_array_equal(twice.names, list("aabbcc"))
    assert rows.repeat(2) is twice


def test_weights():
    rows, weights = checked_sequence_weights(values(), None)
    assert len(rows) == 2 and weights is None
    rows, weights = checked_sequence_weights(values(), [0.0, 1.0, 2.0])
    assert list(rows.names) == ["c"] and list(weights) == [2.0]
    rows, weights = checked_sequence_weights(values(), [2.0, 2.0, 1.0, 1.0, 1.0])
    assert list(weights) == [2.0, 1.0]
    for wrong, match in (
        ([1.0, 2.0, 1.0, 1.0, 1.0], "the same in all rows"),
        ([1.0, 1.0], "each of 5 rows, or each of 3"),
        ([-1.0, 1.0, 1.0], "negative"),
        ([0.0, 0.0, 0.0], "zero for all"),
    ):
        with pytest.raises(ValueError, match=match):
            checked_sequence_weights(values(), wrong)
