"""Rows of several subjects, handed to the loop as a sequence of subjects."""

from __future__ import annotations

import numpy as np

__all__ = ["GroupedRows", "NamedColumns", "each_block", "evenly_chosen"]

#: How many copies of all subjects are kept.
KEPT_COPIES = 3


class NamedColumns:
    """Columns of a data frame, for model functions that ask for them by name.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        The numbers.
    names : sequence of str
        Names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.models import NamedColumns
    >>> X = NamedColumns(np.array([[1.0, 2.0], [3.0, 4.0]]), ["dose", "time"])
    >>> X["time"]
    array([2., 4.])
    >>> float(X[0, 1])
    2.0
    """

    def __init__(self, values, names):
        self.values = values
        self.names = tuple(names)

    def __getitem__(self, key):
        """Return a column by name, or index the array."""
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no column {key!r}, there are {list(self.names)}")
            return self.values[:, self.names.index(key)]
        return self.values[key]

    def __len__(self):
        """Return the number of rows."""
        return len(self.values)

    @property
    def shape(self):
        """Shape of the array."""
        return self.values.shape

    def __array__(self, dtype=None, copy=None):
        """Return the array."""
        return np.asarray(self.values, dtype=dtype)


class GroupedRows:
    """A sequence of subjects, each with its own rows.

    Indexing with a slice or an array of integers picks subjects; ``len`` counts them.

    Parameters
    ----------
    inputs : ndarray of shape (n_rows, n_columns)
        Inputs of the model function, the rows of a subject next to each other.
    y : ndarray of shape (n_rows,)
        Observations.
    offsets : ndarray of int of shape (n_subjects + 1,)
        Where the rows of each subject begin; the last entry is ``n_rows``.
    covariates : ndarray of shape (n_subjects, n_covariates)
        Covariates of the subjects, the first column being ones.
    row_covariates : ndarray of shape (n_rows, n_row_covariates)
        Covariates that vary within a subject.
    names : tuple of str or None, default=None
        Names of the inputs, for model functions that ask for columns by name.

    Attributes
    ----------
    subject_of_row : ndarray of int of shape (n_rows,)
        Position of the subject of each row.
    """

    def __init__(self, inputs, y, offsets, covariates, row_covariates, names=None):
        self.inputs = inputs
        self.y = y
        self.offsets = offsets
        self.covariates = covariates
        self.row_covariates = row_covariates
        self.names = names
        self.lengths = np.diff(offsets)
        self.subject_of_row = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self._by_column: np.ndarray | None = None
        self._repeated: dict[int, GroupedRows] = {}

    def __len__(self):
        """Return the number of subjects."""
        return len(self.lengths)

    @property
    def n_rows(self) -> int:
        """Number of rows of all subjects."""
        return len(self.y)

    @property
    def row_counts(self) -> np.ndarray:
        """Numbers of rows of the subjects."""
        return self.lengths

    def blocks(self):
        """Yield the index of the first subject and the subjects: all at once."""
        yield 0, self

    def few(self, most: int) -> GroupedRows:
        """Return subjects with at most about this many rows in all."""
        if self.n_rows <= most:
            return self
        return self[evenly_chosen(self.lengths, most)]

    @classmethod
    def joined(cls, parts) -> GroupedRows:
        """Return the subjects of several parts."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([part.covariates for part in parts]),
            np.concatenate([part.row_covariates for part in parts]),
            parts[0].names,
        )

    @property
    def by_column(self):
        """Inputs with one row per column, for compiled code; made once and kept."""
        if self._by_column is None:
            self._by_column = np.ascontiguousarray(self.inputs.T)
        return self._by_column

    @property
    def columns(self):
        """Inputs in the form that a model function gets."""
        return (
            self.inputs if self.names is None else NamedColumns(self.inputs, self.names)
        )

    def __getitem__(self, subjects):
        """Return the rows of some subjects."""
        n = len(self)
        if isinstance(subjects, slice):
            start, stop, step = subjects.indices(n)
            if (start, stop, step) == (0, n, 1):
                return self
            if step == 1:
                rows = slice(self.offsets[start], self.offsets[max(stop, start)])
                offsets = self.offsets[start : max(stop, start) + 1] - rows.start
                return self._of(rows, offsets, slice(start, max(stop, start)))
            subjects = np.arange(n)[subjects]
        subjects = np.asarray(subjects)
        lengths = self.lengths[subjects]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        first = self.offsets[subjects] - offsets[:-1]
        rows = np.arange(offsets[-1]) + np.repeat(first, lengths)
        return self._of(rows, offsets, subjects)

    def _of(self, rows, offsets, subjects):
        return GroupedRows(
            self.inputs[rows],
            self.y[rows],
            offsets,
            self.covariates[subjects],
            self.row_covariates[rows],
            self.names,
        )

    def repeat(self, count: int) -> GroupedRows:
        """Return ``count`` consecutive copies of each subject."""
        if count == 1:
            return self
        if count not in self._repeated:
            kept = dict(list(self._repeated.items())[-(KEPT_COPIES - 1) :])
            copies = self[np.repeat(np.arange(len(self)), count)]
            self._repeated = {**kept, count: copies}
        return self._repeated[count]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Add up values of rows within subjects."""
        return np.add.reduceat(values, self.offsets[:-1], axis=0)

    def __getstate__(self):
        """Leave out the copies, which are made again when they are needed."""
        return {**self.__dict__, "_repeated": {}, "_by_column": None}


def each_block(X, function, arguments) -> list:
    """Return what a function makes of the blocks of subjects, where their rows are.

    Parameters
    ----------
    X : GroupedRows or SubjectBlocks
        The subjects.
    function : callable
        Called with the subjects of a block, and arguments. It is sent to the partitions
        of a Dask collection.
    arguments : callable
        Returns a tuple of the arguments, given the slice of the subjects of a block.

    Returns
    -------
    list
        A result for each block, in order.
    """
    if getattr(X, "is_remote", False):
        return X.each(function, arguments)
    return [
        function(rows, *arguments(slice(first, first + len(rows))))
        for first, rows in X.blocks()
    ]


def evenly_chosen(lengths: np.ndarray, most: int) -> np.ndarray:
    """Return subjects at equal distances, with at most about this many rows in all."""
    n = len(lengths)
    if lengths.sum() <= most:
        return np.arange(n)
    count = max(1, int(most / lengths.mean()))
    return np.unique(np.linspace(0, n - 1, count).astype(int))
