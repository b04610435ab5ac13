"""Loading of the partitions of a Dask collection as arrays, where they lie."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sktem.rows.base import ChangedRowsError
from sktem.rows.checked import numbers_of_chunk
from sktem.rows.chunks import as_array

__all__ = ["Partition"]


class Partition(NamedTuple):
    """A partition, and the function applied to it.

    Attributes
    ----------
    names : list of str or None
        Names that its columns must have.
    name : str
        What errors call it.
    n_columns : int
        Number of columns.
    n_rows : int or None
        Number of rows, once it is known.
    dtype : dtype or None
        Type that holds the numbers of all partitions, once it is known.
    function : callable or None
        Called with the rows in the end, where others are made of them.
    coded : mapping or None
        See :class:`sktem.rows.Rows`.
    """

    names: Any
    name: str
    n_columns: int
    n_rows: int | None = None
    dtype: Any = None
    function: Any = None
    coded: Any = None

    def numbers(self, raw):
        """Return the rows as float32 or float64."""
        array = as_array(raw, self.names, self.name, self.coded)
        return numbers_of_chunk(array, self.n_columns, self.name, self.names)

    def then(self, function) -> Partition:
        """Return this with one more function of the rows."""
        before = self.function
        both = function if before is None else partial(_one_by_one, before, function)
        return self._replace(function=both)

    def load(self, raw, beside=None, chosen=None):
        """Return the rows, which must be as many as they were, or chosen ones.

        What is beside them is an argument of the function that makes others of them.
        """
        array = as_array(raw, self.names, self.name, self.coded)
        if len(array) != self.n_rows:
            raise ChangedRowsError(
                f"{self.name} gave {self.n_rows} rows at first and {len(array)} on a "
                "later pass: the rows must stay the same during a fit"
            )
        if chosen is not None:
            array = array[chosen]
            beside = None if beside is None else beside[chosen]
        array = numbers_of_chunk(array, self.n_columns, self.name, self.names)
        if self.function is not None:
            arguments = (array,) if beside is None else (array, beside)
            array = self.function(*arguments)
        return np.ascontiguousarray(array, dtype=self.dtype)


def _one_by_one(first, second, *arguments):
    return second(first(*arguments))
