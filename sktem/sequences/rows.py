"""Rows that belong together, handed to the loop as a sequence of their sequences."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

__all__ = ["Sequences", "each_block", "evenly_chosen"]

#: How many copies of all sequences are kept.
KEPT_COPIES = 6


class Sequences:
    """Rows in memory, those of a sequence next to each other.

    Indexing with a slice or an array of integers picks sequences; ``len`` counts them.
    Subclasses name the arrays that they hold.

    Parameters
    ----------
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where the rows of each sequence begin; the last entry is the number of rows.
    **fields : object
        The arrays by name, those of ``by_row`` with an entry for each row, those of
        ``by_sequence`` with one for each sequence; all others are kept as they are.

    Attributes
    ----------
    lengths : ndarray of int of shape (n_sequences,)
        Numbers of rows.
    by_row, by_sequence, shared : tuple of str
        Names of the fields; one of the first two may be None.
    """

    by_row: ClassVar[tuple[str, ...]] = ()
    by_sequence: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...]] = ()
    #: Whether all rows are held, unlike those of blocks.
    in_memory: ClassVar[bool] = True
    #: Whether tasks go to where they are.
    is_remote: ClassVar[bool] = False

    def __init__(self, offsets, **fields):
        self.__dict__.update(fields)
        self.offsets = offsets
        self.lengths = np.diff(offsets)
        self._repeated: dict[int, Sequences] = {}

    def __len__(self):
        """Return the number of sequences."""
        return len(self.lengths)

    @property
    def n_rows(self) -> int:
        """Number of rows of all sequences."""
        return int(self.offsets[-1])

    @property
    def row_counts(self) -> np.ndarray:
        """Numbers of rows of the sequences."""
        return self.lengths

    def blocks(self):
        """Yield the index of the first sequence and the sequences: all at once."""
        yield 0, self

    def few(self, most: int):
        """Return sequences with at most about this many rows in all."""
        if self.n_rows <= most:
            return self
        return self[evenly_chosen(self.lengths, most)]

    @classmethod
    def joined(cls, parts):
        """Return the sequences of several parts."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.lengths for part in parts])
        fields = {name: getattr(parts[0], name) for name in cls.shared}
        for name in (*cls.by_row, *cls.by_sequence):
            values = [getattr(part, name) for part in parts]
            fields[name] = None if values[0] is None else np.concatenate(values)
        return cls(offsets=np.concatenate([[0], np.cumsum(lengths)]), **fields)

    def __getitem__(self, sequences):
        """Return some of the sequences."""
        n = len(self)
        if isinstance(sequences, slice):
            start, stop, step = sequences.indices(n)
            if (start, stop, step) == (0, n, 1):
                return self
            if step == 1:
                rows = slice(self.offsets[start], self.offsets[max(stop, start)])
                offsets = self.offsets[start : max(stop, start) + 1] - rows.start
                return self._of(rows, offsets, slice(start, max(stop, start)))
            sequences = np.arange(n)[sequences]
        sequences = np.asarray(sequences)
        return self._of(*rows_of(self.offsets, sequences), sequences)

    def _of(self, rows, offsets, sequences):
        fields = {name: getattr(self, name) for name in self.shared}
        for names, chosen in ((self.by_row, rows), (self.by_sequence, sequences)):
            for name in names:
                values = getattr(self, name)
                fields[name] = None if values is None else values[chosen]
        return type(self)(offsets=offsets, **fields)

    def repeat(self, count: int):
        """Return ``count`` consecutive copies of each sequence."""
        if count == 1:
            return self
        repeated = dict(self._repeated)
        copies = repeated.pop(count, None)
        if copies is None:
            copies = self[np.repeat(np.arange(len(self)), count)]
        latest = dict(list(repeated.items())[1 - KEPT_COPIES :])
        self._repeated = {**latest, count: copies}  # the last one that was asked for
        return copies

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Add up values of rows within sequences."""
        return np.add.reduceat(values, self.offsets[:-1], axis=0)

    def __getstate__(self):
        """Return the state without the copies, which are made again when needed."""
        return {**self.__dict__, "_repeated": {}}


def rows_of(offsets, sequences) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of some sequences one after the other, and where these begin."""
    first = offsets[sequences]
    lengths = offsets[sequences + 1] - first
    begins = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(begins[-1]) + np.repeat(first - begins[:-1], lengths), begins


def each_block(X, function, arguments) -> list:
    """Return results of a function of blocks of sequences, where their rows are.

    Parameters
    ----------
    X : Sequences or SequenceBlocks
        The sequences.
    function : callable
        Called with the sequences of a block, and arguments. It is sent to the
        partitions of a Dask collection.
    arguments : callable
        Returns a tuple of the arguments, given the slice of the sequences of a block.

    Returns
    -------
    list
        A result for each block, in order.
    """
    if X.is_remote:
        return X.each(function, arguments)
    return [
        function(rows, *arguments(slice(first, first + len(rows))))
        for first, rows in X.blocks()
    ]


def evenly_chosen(lengths: np.ndarray, most: int) -> np.ndarray:
    """Return sequences at equal distances, with at most about this many rows in all."""
    n = len(lengths)
    if lengths.sum() <= most:
        return np.arange(n)
    count = max(1, int(most / lengths.mean()))
    return np.unique(np.linspace(0, n - 1, count).astype(int))
