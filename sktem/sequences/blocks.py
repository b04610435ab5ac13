"""Sequences whose rows are read by blocks, again on every pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from sktem import budget
from sktem.rows.base import ChangedRowsError, Rows
from sktem.rows.checked import CheckedRows
from sktem.rows.partitions import PartitionedRows
from sktem.rows.tasks import computed
from sktem.sequences.labels import LabelCodes, codes_in_partition, column_of, labelled
from sktem.sequences.rows import Sequences, evenly_chosen

__all__ = [
    "Roles",
    "SequenceBlocks",
    "SequencePartitions",
    "coded",
    "place_of",
    "sequence_blocks",
    "with_codes",
]


class Roles(ABC):
    """Meaning of the columns of rows, and the sequences that it makes of a block.

    Attributes
    ----------
    noun : str
        What errors call a sequence.
    groups : int
        Column of the labels.
    features : ndarray of int
        Columns of the features.
    """

    noun = "sequence"
    groups: int
    features: np.ndarray

    @abstractmethod
    def summary(self, block: np.ndarray) -> tuple:
        """Return the sequences of a block of rows, loaded.

        Parameters
        ----------
        block : ndarray of shape (n, n_columns)
            All rows of some sequences.

        Returns
        -------
        tuple
            Labels, numbers of rows, and whatever :meth:`gathered` asks for.
        """

    @abstractmethod
    def grouped(self, block: np.ndarray) -> Sequences:
        """Return the sequences of a block of rows.

        Parameters
        ----------
        block : ndarray of shape (n, n_columns)
            All rows of some sequences.

        Returns
        -------
        Sequences
            The sequences, in the order of :meth:`summary`.
        """

    def gathered(self, extras: list[tuple]) -> dict[str, Any]:
        """Return attributes of all sequences, by name.

        Parameters
        ----------
        extras : list of tuple
            What :meth:`summary` has returned of each block beyond two entries.

        Returns
        -------
        dict
            Attributes of :class:`SequenceBlocks`.
        """
        return {}


class SequenceBlocks(CheckedRows):
    """Sequences, as :class:`Sequences`, that need not fit in memory.

    A block has all rows of its sequences, and ends where the label changes. Of each
    sequence the label, the number of rows and what its roles ask for are held.

    Parameters
    ----------
    source : Rows
        Where the rows come from.
    roles : Roles
        Meaning of the columns.
    allow_nan : bool, default=False
        Whether NaN is allowed.

    Attributes
    ----------
    table : CheckedRows
        The rows.
    labels, row_counts : ndarray of shape (n_sequences,)
        Labels and numbers of rows of the sequences.
    """

    advice = "rows of a {noun} must be next to each other: sort the rows by {name}"

    def __init__(self, source: Rows, roles: Roles, allow_nan: bool = False):
        self.source, self.names = source, None
        self.allow_nan, self.roles = allow_nan, roles
        self.table = self._new_table(source)
        if not len(self.table):
            raise ValueError("Found array with 0 sample(s): X has no rows")
        self.can_take, self.has_nan = True, self.table.has_nan
        self.dtype = self.table.dtype
        summaries = self._summaries()
        labels, self.row_counts = (
            np.concatenate([summary[k] for summary in summaries]) for k in range(2)
        )
        self.extras = [summary[2:] for summary in summaries]
        #: Index of the first sequence of each block, and the number of sequences.
        self.cuts = np.cumsum([0, *(len(summary[0]) for summary in summaries)])
        #: Row index of the first row of each block, and the number of rows.
        self.edges = np.cumsum([0, *(summary[1].sum() for summary in summaries)])
        labels = self._given_labels(labels)
        self._check_whole(labels)
        self.labels = labels
        if labels.dtype.kind == "f":
            whole = (labels == np.round(labels)).all() and np.abs(labels).max() < 2**53
            self.labels = labels.astype(np.int64) if whole else labels
        self.shape = (len(labels), len(self.roles.features))
        self._kept: dict[int, Sequences] = {}
        self.__dict__.update(roles.gathered(self.extras))

    def __getstate__(self):
        return {**self.__dict__, "_kept": {}}

    @property
    def n_rows(self) -> int:
        """Number of rows of all sequences."""
        return int(self.edges[-1])

    def _new_table(self, source) -> CheckedRows:
        return CheckedRows(source, allow_nan=self.allow_nan)

    def _given_labels(self, labels):
        """Return the labels of the numbers of the sequences."""
        codes = self.source.coded.get(self.roles.groups)
        return codes.labels_of(labels) if isinstance(codes, LabelCodes) else labels

    def _summaries(self):
        """Return the sequences of each block, loaded."""
        return [self.roles.summary(block) for block in self._cut()]

    def _cut(self):
        """Yield the rows in blocks of whole sequences."""
        size = budget.block_rows(self.table.shape[1])
        waiting: list[np.ndarray] = []
        # Numbers of waiting rows, all and those before the last sequence.
        count = cut = 0
        for _, chunk in self.table.pieces():
            waiting.append(chunk.copy())
            labels = chunk[:, self.roles.groups]
            before = waiting[-2][-1:, self.roles.groups] if count else labels[:1]
            changes = np.flatnonzero(labels != np.append(before, labels[:-1]))
            if len(changes):
                cut = count + changes[-1]
            count += len(chunk)
            # A sequence that is longer than a block is joined once, at its end.
            if count >= size and cut:
                rows = np.concatenate(waiting)
                yield rows[:cut]
                waiting, count, cut = [rows[cut:]], count - cut, 0
        if count:
            yield np.concatenate(waiting)

    def _check_whole(self, labels):
        """Raise an error if a sequence has rows in two blocks."""
        unique_labels, counts = np.unique(labels, return_counts=True)
        if (counts == 1).all():
            return
        label = unique_labels[counts > 1][0]
        places = np.flatnonzero(labels == label)[:2]
        label = f"{label:g}" if labels.dtype.kind == "f" else repr(str(label))
        blocks = np.searchsorted(self.cuts, places, side="right") - 1
        used = np.flatnonzero(self.table.lengths)
        pieces = np.searchsorted(self.table.starts[used], self.edges[blocks], "right")
        first, later = (self.source.where(int(used[k - 1])) for k in pieces)
        names = self.source.names
        noun = self.roles.noun
        name = noun if names is None else repr(names[self.roles.groups])
        raise ValueError(
            f"{noun} {label} has rows in {first} and, after others, in {later}: "
            f"{self.advice.format(noun=noun, name=name)}"
        )

    def with_roles(self, roles: Roles) -> SequenceBlocks:
        """Return the same sequences with the columns used in this way."""
        blocks = object.__new__(type(self))
        blocks.__dict__.update(self.__dict__, roles=roles, _kept={})
        blocks.__dict__.update(roles.gathered(self.extras))
        return blocks

    def _chosen(self, which):
        """Yield the numbers of blocks and their sequences, in order."""
        if all(b in self._kept for b in which):
            yield from ((b, self._kept[b]) for b in which)
            return
        keep = self._can_be_kept()
        for b, rows in self._read(which):
            sequences = self.roles.grouped(rows)
            expected = self.row_counts[self.cuts[b] : self.cuts[b + 1]]
            if not np.array_equal(sequences.lengths, expected):
                raise ChangedRowsError(
                    f"the {self.roles.noun}s of the rows have changed since the first "
                    "pass"
                )
            if keep:
                self._kept[b] = sequences
            yield b, sequences

    def _can_be_kept(self):
        """Return whether all sequences are few enough for the memory."""
        return self.n_rows * self.shape[1] <= budget.MEMORY.kept

    def _read(self, which):
        """Yield the numbers of blocks and their rows, in order."""
        starts, lengths = self.table.starts, self.table.lengths
        needed = np.zeros(len(lengths), dtype=bool)
        for b in which:
            start, stop = self.edges[b : b + 2]
            needed |= (starts < stop) & (starts + lengths > start)
        waiting = iter(which)
        block, pieces = next(waiting), []
        for first, chunk in self.table.pieces(np.flatnonzero(needed)):
            while block is not None:
                start, stop = np.maximum(self.edges[block : block + 2] - first, 0)
                pieces.append(np.array(chunk[start:stop]))
                if stop > len(chunk):
                    break
                yield block, np.concatenate(pieces)
                block, pieces = next(waiting, None), []

    def blocks(self, size=None):
        """Yield the index of the first sequence and the sequences, by blocks."""
        for b, rows in self._chosen(range(len(self.cuts) - 1)):
            yield int(self.cuts[b]), rows

    def take(self, indices, axis=0):
        """Return chosen sequences in memory."""
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(len(self)))
        order = np.argsort(indices, kind="stable")
        chosen = np.asarray(indices)[order]
        which = np.searchsorted(self.cuts, chosen, side="right") - 1
        parts = [
            rows[chosen[which == b] - self.cuts[b]]
            for b, rows in self._chosen(np.unique(which).tolist())
        ]
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        return parts[0].joined(parts)[inverse]

    __getitem__ = take

    def few(self, most: int) -> Sequences:
        """Return sequences with at most about this many rows in all."""
        return self.take(evenly_chosen(self.row_counts, most))

    def digest(self):
        """Return a text that is the same for the same rows."""
        return self.table.digest()


class SequencePartitions(SequenceBlocks, PartitionedRows):
    """Sequences of a Dask collection; the blocks are its partitions.

    Tasks get the sequences of a partition where its rows lie.
    """

    advice = (
        "a partition must have all rows of its {noun}s: X.set_index({name}) or "
        "X.shuffle(on={name}) makes it so"
    )
    table: PartitionedRows

    def __getstate__(self):
        state = super().__getstate__()
        return {**state, "table": None, "source": None, "workers": None}

    def _new_table(self, source):
        return PartitionedRows(source, allow_nan=self.allow_nan)

    def _summaries(self):
        table = self.table
        self.used, self.workers = table.used, table.workers
        self.sent, self.beside = {}, None
        tasks = table.tasks(partial(_summarized, self.roles))
        wanted = [*tasks.values()]
        if self.roles.groups in table.source.coded:
            wanted += table.raw_tasks(partial(_labels, self.roles.groups))
        results = computed(wanted)
        summaries = results[: len(tasks)]
        self._labels = results[len(tasks) :]
        self.lengths = np.zeros(len(table.lengths), dtype=np.int64)
        self.lengths[self.used] = [len(summary[0]) for summary in summaries]
        self.starts = np.cumsum(self.lengths) - self.lengths
        return summaries

    def _given_labels(self, labels):
        return np.concatenate(self._labels) if self._labels else labels

    def _read(self, which):
        """Bring partitions here."""
        table = self._rows()
        for b in which:
            for _, block in table.pieces(self.used[[b]]):
                yield b, block

    def _rows(self):
        if self.table is None:
            raise ValueError(
                "the rows of the fit are with Dask and not part of this copy of the "
                "estimator: pass X, y and groups"
            )
        return self.table

    def tasks(self, function, *, each=None, chosen=False):
        """Return a delayed call for each partition, see :class:`PartitionedRows`.

        It gets the sequences of the partition, and the index of the first.
        """
        used = self.used if each is None else each
        arguments_of = {
            int(index): (int(self.starts[index]), *(each[index] if each else ()))
            for index in used
        }
        call = partial(_on_sequences, self.roles, function, chosen)
        return self._rows().tasks(call, each=arguments_of)

    @property
    def is_remote(self) -> bool:
        """Whether tasks are sent to the sequences, which do not fit in memory."""
        return not self._can_be_kept()

    def each(self, function, arguments):
        """Return the results of a function of partitions, see :func:`each_block`."""
        stops = self.starts + self.lengths
        arguments_of = {
            i: arguments(slice(self.starts[i], stops[i])) for i in self.used
        }
        tasks = self.tasks(partial(_called, function), each=arguments_of)
        return computed(tasks.values())


def _summarized(roles, block, first):
    return roles.summary(block)


def _labels(column, raw):
    labels = labelled(np.asarray(raw)[:, column], len(raw))[0]
    return np.array(labels.tolist())


def _on_sequences(roles, function, chosen, block, first_row, first, *arguments):
    sequences = roles.grouped(block)
    if chosen:
        return function(sequences[arguments[0]], first, *arguments[1:])
    return function(sequences, first, *arguments)


def _called(function, sequences, first, *arguments):
    return function(sequences, *arguments)


def coded(source, column, numbers):
    """Return the source with a function that makes numbers of a column."""
    source = copy(source)
    source.coded = {column: numbers}
    return source


def place_of(source, key, what):
    """Return the index of a column that must be named."""
    if not isinstance(key, (str, Integral)):
        raise TypeError(
            f"X is read by blocks, so that {what} must be the name or the index of one "
            f"of its columns, got {type(key).__name__}"
        )
    count = source.n_columns if source.names is None else len(source.names)
    return column_of(key, source.names, count, what)


def with_codes(source: Rows, column: int) -> Rows:
    """Return the source with numbers in place of labels that are text."""
    if not source.is_remote:
        return coded(source, column, LabelCodes())
    return (
        coded(source, column, codes_in_partition) if source.is_text(column) else source
    )


def sequence_blocks(source: Rows, roles: Roles, allow_nan=False) -> SequenceBlocks:
    """Return the sequences of rows, with numbers for labels.

    Parameters
    ----------
    source : Rows
        The rows, see :func:`with_codes`.
    roles : Roles
        Meaning of the columns.
    allow_nan : bool, default=False
        Whether NaN is allowed.

    Returns
    -------
    SequenceBlocks
        The sequences.
    """
    kind = SequencePartitions if source.is_remote else SequenceBlocks
    return kind(source, roles, allow_nan)
