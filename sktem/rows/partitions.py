"""Rows of Dask collections: tasks go to the partitions, sums come back."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from sktem import budget
from sktem.rows.base import Rows
from sktem.rows.checked import (
    CheckedRows,
    check_finite,
    check_values,
    not_finite,
    not_finite_error,
)
from sktem.rows.chunks import as_array, names_of
from sktem.rows.loaders import Partition
from sktem.rows.tasks import (
    Workers,
    called,
    computed,
    kept,
    partitions_of,
    reduced,
    shared,
)

__all__ = [
    "DaskRows",
    "PartSum",
    "PartitionedRows",
    "aligned_slices",
    "at_workers",
    "check_can_remember",
    "joined_sums",
    "total_of",
]

#: Blocks whose sums are added up before they are added to those of others. The sums
#: of fewer blocks in all are added up one after the other, as for an array.
BLOCKS_PER_GROUP = 64


class PartSum(NamedTuple):
    """Sums over consecutive rows.

    Attributes
    ----------
    first, stop : int
        Row index of the first row, and of the one after the last.
    values : tuple
        Arrays and numbers.
    """

    first: int
    stop: int
    values: tuple


class DaskRows(Rows):
    """Rows of a Dask array or data frame; the pieces are its partitions.

    Parameters
    ----------
    collection : dask.array.Array or dask.dataframe.DataFrame
        The rows. Numbers of rows may be unknown.
    """

    is_remote = True

    def __init__(self, collection):
        if getattr(collection, "ndim", 0) != 2:
            what = getattr(collection, "shape", type(collection).__name__)
            raise ValueError(f"X on Dask must have rows and columns, got shape {what}")
        self.names = names_of(collection)
        if hasattr(collection, "rechunk"):
            if collection.numblocks[1] != 1:
                collection = collection.rechunk({1: -1})
            lengths = collection.chunks[0]
            self.n_rows = None if np.isnan(lengths).any() else int(sum(lengths))
        self.collection = collection
        self.partitions = partitions_of(collection)
        self.n_pieces = len(self.partitions)

    @property
    def n_columns(self):
        """Number of columns."""
        return int(self.collection.shape[1])

    def is_text(self, column) -> bool:
        """Return whether a column of a data frame may hold no numbers."""
        types = getattr(self.collection, "dtypes", None)
        return types is not None and types.iloc[column].kind not in "biuf"

    def where(self, index):
        """Return the number of a partition."""
        return f"partition {index}"

    def piece(self, index):
        """Bring a partition here."""
        (chunk,) = computed([self.partitions[index]])
        yield as_array(chunk, self.names, self.where(index), self.coded)

    def columns_named(self, names):
        """Return the columns of some names."""
        return DaskRows(self.collection[names])

    def answers(self, function, check=None, allow_nan=False):
        """Return a Dask array of a function of the rows.

        Parameters
        ----------
        function : callable
            Returns an array with an entry for each row.
        check : callable or None, default=None
            Called with the rows first; raises ValueError for what is not allowed.
        allow_nan : bool, default=False
            Whether NaN is allowed.

        Returns
        -------
        dask.array.Array
            Not computed yet.
        """
        array = self.collection
        if not hasattr(array, "rechunk"):
            array = array.to_dask_array()
        dtype = np.float32 if array.dtype == np.float32 else np.float64
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these are nobody's rows
            row = np.full((1, self.n_columns), np.nan if allow_nan else 1.0, dtype)
            like = function(row)[:0]
        lengths = array.chunks[0]
        starts = np.cumsum((0, *lengths[:-1]))
        answer = partial(
            _answered,
            function,
            check,
            allow_nan,
            Partition(None, "", self.n_columns, coded=self.coded or None),
            like,
            starts,
        )
        shape: dict[str, Any] = {"drop_axis": 1}
        if like.ndim == 2:
            shape = {"chunks": (lengths, like.shape[1:])}
        return array.map_blocks(answer, dtype=like.dtype, meta=like, **shape)


class PartitionedRows(CheckedRows):
    """Rows of a Dask collection, checked and counted; each stays where it is.

    Parameters
    ----------
    source : DaskRows
        The rows.
    check : callable or None, default=None
        Called with the numbers of each partition; raises ValueError for what is not
        allowed.
    allow_nan : bool, default=False
        Whether NaN is allowed.

    Attributes
    ----------
    used : ndarray of int
        Numbers of the partitions that have rows.
    workers : Workers
        Workers of the cluster, from now on.
    """

    can_remember = False
    #: A batch costs a round of tasks.
    largest_batch = 1 << 20

    def __init__(self, source: DaskRows, check=None, allow_nan=False):
        self.source: DaskRows = source
        self.workers = Workers()
        self.names = source.names
        self.can_take = True
        names, coded, width = source.names, source.coded or None, source.n_columns
        self.loaders = [
            Partition(names, source.where(index), width, coded=coded)
            for index in range(source.n_pieces)
        ]
        examined = computed(
            called(partial(_examined, check, allow_nan, loader), raw)
            for raw, loader in zip(source.partitions, self.loaders, strict=True)
        )
        self.lengths = np.array([n_rows for n_rows, *_ in examined], dtype=np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.used = np.flatnonzero(self.lengths)
        self.has_nan = any(examined[index][2] for index in self.used)
        for index in self.used:
            if (wrong := examined[index][3]) is not None:
                raise not_finite_error(
                    wrong, int(self.starts[index]), source.where(index)
                )
        types = {examined[index][1] for index in self.used}
        self.dtype = np.dtype(np.result_type(*types) if types else np.float64)
        self.shape = (int(self.lengths.sum()), source.n_columns)
        self.beside: np.ndarray | None = None
        self.sent: dict[int, tuple[np.ndarray, dict[int, Any]]] = {}

    @property
    def is_remote(self):
        """Whether functions of rows are sent to where the rows are."""
        return True

    def __getstate__(self):
        raise TypeError("rows of a Dask collection cannot be pickled during a fit")

    def twin(self) -> PartitionedRows:
        """Return the same rows as another object, whose fields can be replaced."""
        twin = object.__new__(PartitionedRows)
        twin.__dict__.update(self.__dict__)
        return twin

    def mapped(self, function, beside=None) -> PartitionedRows:
        """Return the rows that a function makes of these.

        Parameters
        ----------
        function : callable
            Called with rows of float32 or float64, where they lie.
        beside : ndarray of shape (n_rows,) or None, default=None
            A number for each row, of which those of the rows are the second argument.

        Returns
        -------
        PartitionedRows
            The rows.
        """
        mapped_rows = self.twin()
        arguments = () if beside is None else (np.zeros(0),)
        if beside is not None:
            mapped_rows.beside = beside
        example = function(np.ones((0, self.shape[1]), self.dtype), *arguments)
        mapped_rows.shape = (self.shape[0], example.shape[1])
        mapped_rows.loaders = [loader.then(function) for loader in self.loaders]
        return mapped_rows

    def pieces(self, order=None):
        """Bring the rows here, partition by partition."""
        for index in self.used if order is None else order:
            if self.lengths[index]:
                tasks = self.tasks(_itself, each={index: ()})
                yield int(self.starts[index]), *computed(tasks.values())

    def tasks(self, function, *, each=None, chosen=False) -> dict[int, Any]:
        """Return a delayed call for each partition, or for those with an argument.

        Parameters
        ----------
        function : callable
            Called with the rows, the row index of the first, and the arguments of the
            partition if ``each`` is given. It is sent once.
        each : dict or None, default=None
            Tuples of arguments by the index of the partition.
        chosen : bool, default=False
            Whether the first argument of a partition are positions of rows, of which
            alone the function gets the values.

        Returns
        -------
        dict
            Delayed results, by the index of the partition.
        """
        common = shared(function)
        beside = {} if self.beside is None else self.parts_of(self.beside)
        tasks = {}
        for index in map(int, self.used if each is None else each):
            loader = self.loaders[index]._replace(
                n_rows=int(self.lengths[index]), dtype=self.dtype
            )
            first = int(self.starts[index])
            tasks[index] = called(
                partial(_on_partition, loader, first, chosen),
                common,
                self.source.partitions[index],
                beside.get(index),
                *(() if each is None else each[index]),
            )
        return tasks

    def raw_tasks(self, function) -> list:
        """Return delayed calls for partitions that have rows, as they are."""
        return [called(function, self.source.partitions[i]) for i in self.used]

    def summed(self, function, weights=None, *, size=None) -> tuple:
        """Return sums over aligned blocks of ``function(rows, weights=weights)``.

        The blocks begin at multiples of their size, and their sums are added in an
        order that depends on row indices alone. A block that two partitions share is
        the sum of two parts.

        Parameters
        ----------
        function : callable
            Returns a tuple of arrays and numbers. It is sent to the partitions.
        weights : ndarray of shape (n_rows,) or None, default=None
            Weights of the rows.
        size : int or None, default=None
            Rows of a block; None is as many as are read at once.

        Returns
        -------
        tuple
            The sums.
        """
        size = budget.block_rows(self.shape[1]) if size is None else size
        sums_of = partial(_block_sums, size, function)
        tasks = self.tasks(sums_of, each=self.weights_of(weights))
        sums = reduced(tasks.values(), partial(joined_sums, size))
        return total_of(sums, size, len(self))

    def weights_of(self, weights: np.ndarray | None) -> dict[int, tuple] | None:
        """Return an argument for each partition: its weights, if there are any."""
        if weights is None:
            return None
        return {index: (part,) for index, part in self.parts_of(weights).items()}

    def parts_of(self, numbers: np.ndarray) -> dict[int, Any]:
        """Return the numbers of the rows of each partition; they are sent once."""
        if id(numbers) not in self.sent:
            used = self.used
            stops = self.starts[used] + self.lengths[used]
            sent = kept(
                called(partial(np.asarray, numbers[start:stop]))
                for start, stop in zip(self.starts[used], stops, strict=True)
            )
            parts = dict(zip(used.tolist(), sent, strict=True))
            self.sent[id(numbers)] = numbers, parts
        return self.sent[id(numbers)][1]

    def split(self, indices: np.ndarray) -> dict[int, np.ndarray]:
        """Return positions in an array of row indices, by partition."""
        which = np.searchsorted(self.starts[self.used], indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        present, starts = np.unique(which[order], return_index=True)
        parts = np.split(order, starts[1:])
        return {int(self.used[k]): part for k, part in zip(present, parts, strict=True)}

    def _gathered(self, indices):
        """Return chosen rows from their partitions."""
        rows = np.empty((len(indices), self.shape[1]), dtype=self.dtype)
        parts = self.split(indices)
        local = {i: (indices[part] - self.starts[i],) for i, part in parts.items()}
        tasks = self.tasks(_itself, each=local, chosen=True)
        for index, values in zip(tasks, computed(tasks.values()), strict=True):
            rows[parts[index]] = values
        return rows

    def take(self, indices, axis=0):
        """Return chosen rows from their partitions."""
        values = self._gathered(np.ravel(indices))
        return values.reshape(*np.shape(indices), self.shape[1])

    __getitem__ = take


def check_can_remember(name, source) -> None:
    """Raise an error if an estimator that remembers rows gets a Dask collection."""
    if not isinstance(source, DaskRows):
        return
    raise TypeError(
        f"fit of {name} keeps latents of each row from one visit "
        "to the next, which the partitions of a Dask collection do not: write the rows "
        "to .npy or Parquet files, or to a memory map, and fit these on one machine. "
        "(Answers about rows on Dask, such as predictions, are possible.)"
    )


@contextmanager
def at_workers(rows):
    """Free the data sent to workers at the end of a fit, however it ends.

    Parameters
    ----------
    rows : array-like or CheckedRows
        Rows of the fit.

    Yields
    ------
    callable
        Returns changes of the cluster since the last call, as a counter.
    """
    if not isinstance(rows, PartitionedRows):
        yield Counter
        return
    try:
        yield partial(rows.workers.new_events, at_once=True)
    finally:
        rows.sent.clear()


def joined_sums(size: int, *parts: list[PartSum]) -> list[PartSum]:
    """Add up sums over neighbouring rows as far as row indices allow.

    What is added to what, and in which order, does not depend on how the rows are cut
    into partitions: blocks are made whole first, and whole blocks are added to those
    before them in their group.

    Parameters
    ----------
    size : int
        Rows of a block.
    *parts : list of PartSum
        Sums over rows that follow each other.

    Returns
    -------
    list of PartSum
        The sums.
    """
    joined: list[PartSum] = []
    for part in chain(*parts):
        joined.append(part)
        while len(joined) > 1 and _belong_together(size, *joined[-2:]):
            right, left = joined.pop(), joined.pop()
            joined.append(_added(left, right))
    return joined


def total_of(parts: list[PartSum], size: int, n_rows: int) -> tuple:
    """Return sums over all rows, group by group."""
    rows = [0, *(row for part in parts for row in part[:2]), n_rows]
    if any(stop != first for stop, first in zip(rows[::2], rows[1::2], strict=True)):
        raise RuntimeError("sums over some of the rows are missing")
    groups: list[PartSum] = []
    for part in parts:
        together = groups and _group(groups[-1].first, size) == _group(part.first, size)
        groups.append(_added(groups.pop(), part) if together else part)
    total = groups[0]
    for part in groups[1:]:
        total = _added(total, part)
    return total.values


def _group(row, size):
    return row // (size * BLOCKS_PER_GROUP)


def _belong_together(size, left, right):
    """Return whether two sums are of one block, or the second is of the next block."""
    if left.first // size == (right.stop - 1) // size:
        return True
    whole = right.first % size == 0 and right.stop - right.first == size
    leads = left.first % (size * BLOCKS_PER_GROUP) == 0
    return whole and leads and _group(left.first, size) == _group(right.first, size)


def _added(left, right):
    values = zip(left.values, right.values, strict=True)
    return PartSum(left.first, right.stop, tuple(a + b for a, b in values))


# Tasks ------------------------------------------------------------------------------


def _examined(check, allow_nan, loader, raw):
    """Return number of rows, type, whether there is a NaN, and forbidden values."""
    array = loader.numbers(raw)
    has_nan, wrong = not_finite(array, allow_nan)
    if len(array) and wrong is None:
        check_values(check, array, 0, f"counted in {loader.name}")
    return len(array), array.dtype, has_nan, wrong


def _answered(function, check, allow_nan, loader, like, starts, raw, block_id=(0,)):
    """Return a function of the rows of a partition, after checks."""
    index = block_id[0]
    loader = loader._replace(name=f"partition {index}")
    array = np.ascontiguousarray(loader.numbers(raw))
    if len(array) == 0:
        return like
    known = not np.isnan(starts[index])
    first, where = (int(starts[index]), "") if known else (0, ", counted in it")
    check_finite(array, first, loader.name + where, allow_nan)
    check_values(check, array, first, loader.name + where)
    size = budget.block_rows(array.shape[1])
    blocks = (array[start : start + size] for start in range(0, len(array), size))
    return np.concatenate([*map(function, blocks)]).astype(like.dtype, copy=False)


def _on_partition(loader, first, chosen, function, raw, beside, *arguments):
    if chosen:
        return function(loader.load(raw, beside, arguments[0]), first, *arguments[1:])
    return function(loader.load(raw, beside), first, *arguments)


def _block_sums(size, function, block, first, weights=None):
    """Return the sums over the aligned blocks of a partition."""
    parts = []
    for rows in aligned_slices(first, len(block), size):
        part = None if weights is None else weights[rows]
        values = function(block[rows], weights=part)
        parts.append(PartSum(first + rows.start, first + rows.stop, values))
    return joined_sums(size, parts)


def _itself(block, first):
    return block


def aligned_slices(first: int, length: int, size: int):
    """Yield slices of a partition that end at multiples of a size, counted globally."""
    start = 0
    while start < length:
        stop = min(length, start + size - (first + start) % size)
        yield slice(start, stop)
        start = stop
