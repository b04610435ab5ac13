"""Subjects whose rows are read by blocks, again on every pass."""

from __future__ import annotations

from copy import copy
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sktem.mixed_effects.columns import column_of, subjects_of
from sktem.mixed_effects.labels import LabelCodes, codes_in_partition, known_codes
from sktem.mixed_effects.layout import Layout, group_rows, is_constant
from sktem.mixed_effects.rows import GroupedRows, evenly_chosen
from sktem.rows.base import ChangedRowsError, Rows, rows_per_block
from sktem.rows.checked import CheckedRows, check_columns, checked_blocks
from sktem.rows.partitions import DaskRows, PartitionedRows
from sktem.rows.tasks import Graph

__all__ = [
    "SubjectBlocks",
    "SubjectPartitions",
    "predicted_blocks",
    "subject_blocks",
]

#: Numbers in all that are kept in memory instead of being read again.
MOST_KEPT = 1 << 22


class Roles(NamedTuple):
    """Columns of rows.

    Attributes
    ----------
    y, groups : int
        Columns of the observations and of the labels of the subjects.
    features : ndarray of int
        The others.
    layout : Layout or None
        How these are used.
    """

    y: int
    groups: int
    features: np.ndarray
    layout: Any = None

    def summary(self, block):
        """Return labels, numbers of rows, first rows, and which columns vary."""
        labels, first, index, lengths = np.unique(
            block[:, self.groups],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        X = block[:, self.features]
        varies = np.array([not is_constant(column, index) for column in X.T], bool)
        return labels, lengths, np.array(X[first], dtype=np.float64), varies

    def grouped(self, block) -> GroupedRows:
        """Return the subjects of a block of rows."""
        index = np.unique(block[:, self.groups], return_inverse=True)[1]
        X = np.ascontiguousarray(block[:, self.features], dtype=np.float64)
        y = np.array(block[:, self.y], dtype=np.float64)
        return group_rows(self.layout, X, y, index)


class SubjectBlocks(CheckedRows):
    """A sequence of subjects, as :class:`GroupedRows`, that need not fit in memory.

    A block has all rows of its subjects, and ends where the subject changes. Of each
    subject the label, the number of rows and the first row are held.

    Parameters
    ----------
    source : Rows
        Where the rows come from.
    y, groups : int
        Columns of the observations and of the labels of the subjects.

    Attributes
    ----------
    table : CheckedRows
        The rows.
    labels, row_counts : ndarray of shape (n_subjects,)
        Labels and numbers of rows of the subjects.
    varies : ndarray of bool
        Which features vary within a subject.
    covariates : ndarray of shape (n_subjects, n_covariates)
        As of :class:`GroupedRows`, once there is a layout.
    """

    advice = "rows of a subject must be next to each other: sort the rows by {name}"
    covariates: np.ndarray

    def __init__(self, source: Rows, y: int, groups: int):
        self.source, self.names = source, None
        self.table = self._new_table(source)
        if not len(self.table):
            raise ValueError("Found array with 0 sample(s): X has no rows")
        columns = np.arange(self.table.shape[1])
        self.roles = Roles(y, groups, np.setdiff1d(columns, [y, groups]))
        self.can_take, self.has_nan = True, False
        self.held: dict[str, Any] = {}
        self.dtype = self.table.dtype
        summaries = self._summaries()
        labels, self.row_counts, self.first_rows = (
            np.concatenate([summary[k] for summary in summaries]) for k in range(3)
        )
        self.varies = np.any([summary[3] for summary in summaries], axis=0)
        #: Index of the first subject of each block, and the number of subjects.
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
        self._kept: dict[int, GroupedRows] = {}

    def __getstate__(self):
        return {**self.__dict__, "_kept": {}}

    @property
    def n_rows(self) -> int:
        """Number of rows of all subjects."""
        return int(self.edges[-1])

    def _new_table(self, source) -> CheckedRows:
        return CheckedRows(source)

    def _given_labels(self, labels):
        """Return the labels that the numbers of the subjects stand for."""
        codes = self.source.coded.get(self.roles.groups)
        return codes.labels_of(labels) if isinstance(codes, LabelCodes) else labels

    def _summaries(self):
        """Return what is held of the subjects of each block."""
        return [self.roles.summary(block) for block in self._cut()]

    def _cut(self):
        """Yield the rows in blocks of whole subjects."""
        size = rows_per_block(self.table.shape[1])
        held: list[np.ndarray] = []
        for _, chunk in self.table.pieces():
            held.append(np.array(chunk))
            if sum(map(len, held)) < size:
                continue
            rows = np.concatenate(held)
            labels = rows[:, self.roles.groups]
            changes = np.flatnonzero(labels[1:] != labels[:-1])
            cut = changes[-1] + 1 if len(changes) else 0
            if cut:
                yield rows[:cut]
            held = [rows[cut:]]
        if sum(map(len, held)):
            yield np.concatenate(held)

    def _check_whole(self, labels):
        """Raise an error if a subject has rows in two blocks."""
        found, counts = np.unique(labels, return_counts=True)
        if (counts == 1).all():
            return
        label = found[counts > 1][0]
        places = np.flatnonzero(labels == label)[:2]
        label = f"{label:g}" if labels.dtype.kind == "f" else repr(str(label))
        blocks = np.searchsorted(self.cuts, places, side="right") - 1
        used = np.flatnonzero(self.table.lengths)
        pieces = np.searchsorted(self.table.starts[used], self.edges[blocks], "right")
        one, other = (self.source.where(int(used[k - 1])) for k in pieces)
        names = self.source.names
        name = "subject" if names is None else repr(names[self.roles.groups])
        raise ValueError(
            f"subject {label} has rows in {one} and, after others, in {other}: "
            f"{self.advice.format(name=name)}"
        )

    def laid_out(self, layout: Layout) -> SubjectBlocks:
        """Return the same subjects with the columns used in this way."""
        made = object.__new__(type(self))
        roles = self.roles._replace(layout=layout)
        made.__dict__.update(self.__dict__, roles=roles, _kept={})
        chosen = self.first_rows[:, layout.subject_columns]
        made.covariates = np.column_stack([np.ones(len(self)), chosen])
        return made

    def _chosen(self, which):
        """Yield the numbers of blocks and their subjects, in order."""
        if all(b in self._kept for b in which):
            yield from ((b, self._kept[b]) for b in which)
            return
        keep = self._can_be_kept()
        for b, rows in self._read(which):
            found = self.roles.grouped(rows)
            expected = self.row_counts[self.cuts[b] : self.cuts[b + 1]]
            if not np.array_equal(found.lengths, expected):
                raise ChangedRowsError(
                    "the subjects of the rows have changed since the first pass"
                )
            if keep:
                self._kept[b] = found
            yield b, found

    def _can_be_kept(self):
        """Return whether all subjects are so few that they are kept in memory."""
        return self.n_rows * self.shape[1] <= MOST_KEPT

    def _read(self, which):
        """Yield the numbers of blocks and their rows, in order."""
        starts, lengths = self.table.starts, self.table.lengths
        needed = np.zeros(len(lengths), dtype=bool)
        for b in which:
            start, stop = self.edges[b : b + 2]
            needed |= (starts < stop) & (starts + lengths > start)
        waiting = iter(which)
        block, held = next(waiting), []
        for first, chunk in self.table.pieces(np.flatnonzero(needed)):
            while block is not None:
                start, stop = np.maximum(self.edges[block : block + 2] - first, 0)
                held.append(np.array(chunk[start:stop]))
                if stop > len(chunk):
                    break
                yield block, np.concatenate(held)
                block, held = next(waiting, None), []

    def blocks(self, size=None):
        """Yield the index of the first subject and the subjects, by blocks."""
        for b, rows in self._chosen(range(len(self.cuts) - 1)):
            yield int(self.cuts[b]), rows

    def take(self, indices, axis=0):
        """Return chosen subjects in memory."""
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
        return GroupedRows.joined(parts)[inverse]

    __getitem__ = take

    def few(self, most: int) -> GroupedRows:
        """Return subjects with at most about this many rows in all."""
        return self.take(evenly_chosen(self.row_counts, most))

    def digest(self):
        """Return a text that is the same for the same rows."""
        return self.table.digest()


class SubjectPartitions(SubjectBlocks, PartitionedRows):
    """Subjects of a Dask collection; the blocks are its partitions.

    Tasks get the subjects of a partition where its rows lie.
    """

    advice = (
        "a partition must have all rows of its subjects: X.set_index({name}) or "
        "X.shuffle(on={name}) makes it so"
    )
    table: PartitionedRows

    def __getstate__(self):
        state = super().__getstate__()
        return {**state, "table": None, "source": None, "workers": None}

    def _new_table(self, source):
        return PartitionedRows(source)

    def _summaries(self):
        table, graph = self.table, Graph()
        self.used, self.workers = table.used, table.workers
        tasks = table.tasks(graph, partial(_summarized, self.roles))
        wanted = [*tasks.values()]
        if self.roles.groups in table.source.coded:
            wanted += table.raw_tasks(graph, partial(_labels, self.roles.groups))
        found, _ = graph.run(wanted)
        summaries = found[: len(tasks)]
        self._labels = found[len(tasks) :]
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

    def tasks(self, graph, function, *arguments, each=None):
        """Add a task for each partition, see :class:`PartitionedRows`.

        It gets the subjects of the partition, and the index of the first.
        """
        chosen = self.used if each is None else each
        own = {
            int(index): (int(self.starts[index]), *(each[index] if each else ()))
            for index in chosen
        }
        call = partial(_on_subjects, self.roles, function)
        return self._rows().tasks(graph, call, *arguments, each=own)

    @property
    def is_remote(self) -> bool:
        """Whether tasks go to the subjects, which are too many to be kept here."""
        return not self._can_be_kept()

    def each(self, function, arguments):
        """Return what a function makes of partitions, see :func:`each_block`."""
        graph, stops = Graph(), self.starts + self.lengths
        own = {i: arguments(slice(self.starts[i], stops[i])) for i in self.used}
        tasks = self.tasks(graph, partial(_called, function), each=own)
        return graph.run([*tasks.values()])[0]


def _summarized(roles, block, first):
    return roles.summary(block)


def _labels(column, raw):
    labels = subjects_of(np.asarray(raw)[:, column], len(raw))[0]
    return np.array(labels.tolist())


def _on_subjects(roles, function, block, first_row, first, *arguments):
    return function(roles.grouped(block), first, *arguments)


def _called(function, subjects, first, *arguments):
    return function(subjects, *arguments)


class Features(NamedTuple):
    """Number and names of the columns of features."""

    n_columns: int
    names: list[str] | None


def subject_blocks(estimator, source: Rows, y, groups, *, reset) -> SubjectBlocks:
    """Return the subjects of rows, and set or check the columns of the estimator.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        The estimator.
    source : Rows
        The rows.
    y, groups : str or int
        Names or indices of the columns of the observations and of the subjects.
    reset : bool
        Whether the columns are set.

    Returns
    -------
    SubjectBlocks
        The subjects.
    """
    places = [_place(source, y, "y"), _place(source, groups, "groups")]
    if places[0] == places[1]:
        raise ValueError(f"y and groups are the same column of X: {y!r}")
    if not isinstance(source, DaskRows):
        source = _coded(source, places[1], LabelCodes())
    elif source.is_text(places[1]):
        source = _coded(source, places[1], codes_in_partition)
    features = [j for j in range(source.n_columns) if j not in places]
    names = source.names
    names = None if names is None else [names[j] for j in features]
    check_columns(estimator, Features(len(features), names), reset=reset)
    of_dask = isinstance(source, DaskRows)
    return (SubjectPartitions if of_dask else SubjectBlocks)(source, *places)


def predicted_blocks(estimator, source: Rows, groups):
    """Return predictions of rows by blocks: an iterator, or a Dask array.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator.
    source : Rows
        The rows. Columns with names may include others than those of the fit.
    groups : str, int or None
        Name or index of the column of the subjects.
    """
    place = None if groups is None else _place(source, groups, "groups")
    fitted, labels = estimator.fitted_, None
    if place is not None and fitted.problem.labels.dtype.kind not in "biuf":
        labels = np.array([*fitted.problem.labels.tolist(), None], dtype=object)
        source = _coded(source, place, partial(known_codes, labels[:-1]))
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and source.names is not None:
        names = [name for name in names if name in source.names]
        features = [source.names.index(name) for name in names]
    else:
        names = None
        features = [j for j in range(source.n_columns) if j != place]
    check_columns(estimator, Features(len(features), names), reset=False)
    if place is not None:
        fitted.modes()  # once, before copies go to workers
    function = partial(_predicted, fitted, features, place, labels)
    if isinstance(source, DaskRows):
        return source.mapped(function)
    return map(function, checked_blocks(source, source.n_columns))


def _predicted(fitted, features, place, labels, block):
    X = np.ascontiguousarray(block[:, features], dtype=np.float64)
    if place is None:
        return fitted.predict(X, None)
    groups = block[:, place]
    return fitted.predict(
        X, groups if labels is None else labels[groups.astype(np.int64)]
    )


def _coded(source, column, numbers):
    """Return the source with a function that makes numbers of a column."""
    source = copy(source)
    source.coded = {column: numbers}
    return source


def _place(source, key, what):
    """Return the index of a column that must be named."""
    if not isinstance(key, (str, Integral)):
        raise TypeError(
            f"X is read by blocks, so that {what} must be the name or the index of one "
            f"of its columns, got {type(key).__name__}"
        )
    count = source.n_columns if source.names is None else len(source.names)
    return column_of(key, source.names, count, what)
