"""Visits of the partitions of a Dask collection, where something is remembered of rows.

A visit is a task for each partition that has rows of it. What is remembered of rows is
the result of a task, and an argument of the next one on its partition. What a lost
worker had is computed again, from the last snapshot on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sktem.e_step.snapshots import Snapshots, save
from sktem.rows.partitions import BRANCHES, reduced
from sktem.rows.tasks import Call, Graph, Held

__all__ = ["PartitionVisits", "RemoteLatents", "Visits"]


class Visited(NamedTuple):
    """What a visit of a partition leaves.

    Attributes
    ----------
    report : object
        What it has found.
    kept : object
        What is remembered from now on.
    """

    report: Any
    kept: Any


class RemoteLatents:
    """Stands for the latents of all rows, which are with the partitions."""

    def __reduce__(self):
        raise TypeError("what the workers of Dask remember of rows cannot be saved")


class Visits:
    """What visits of partitions have in common, and what they leave with the workers.

    Parameters
    ----------
    rows : PartitionedRows
        The rows; at the end of the fit to them nothing is remembered any more.
    constants : tuple
        Arguments that all visits have in common; they are sent once.

    Attributes
    ----------
    kept : dict
        What stands for what is remembered of a partition.
    """

    def __init__(self, rows, constants):
        self.rows, self.constants = rows, constants
        self.kept: dict[int, Held] = {}
        self.snapshots: Snapshots | None = None
        self._sent: Held | None = None
        rows.workers.visits.add(self)

    def release(self) -> None:
        """Let go of all that is with the workers."""
        self.kept, self.snapshots, self._sent = {}, None, None

    def sent_constants(self):
        """Return what stands for the constants on the workers."""
        if self._sent is None:
            graph = Graph()
            common = graph.common(None, self.constants)
            _, (self._sent,) = graph.run([], [graph.add(_opened, common)])
        return self._sent


class PartitionVisits(Visits):
    """Visits of partitions, each of which is a task.

    Where a visit leaves something to be remembered, that is a :class:`Visited`.
    """

    def run(self, function, arguments, each, join, *, keep=False, folder=None):
        """Visit partitions, and return their reports, joined.

        Parameters
        ----------
        function : callable
            Called with the rows, the row index of the first, what is remembered of them
            or None, the arguments of the partition, those of the visit and the
            constants. Returns a report and what is to be remembered.
        arguments : tuple
            Arguments of the visit.
        each : dict
            Arguments of the partitions to visit, tuples by number.
        join : callable
            Makes one report of some of consecutive partitions.
        keep : bool, default=False
            Whether what is remembered changes.
        folder : str or None, default=None
            Where that is written now and then, see :class:`Snapshots`.

        Returns
        -------
        object
            The report.
        """
        constants, graph, fresh = self.sent_constants(), Graph(), Visited(None, None)
        paths: dict[int, str | None] = dict.fromkeys(each)
        if keep:
            self.snapshots = snapshots = self.snapshots or Snapshots(folder)
            paths = {index: snapshots.path(index) for index in each}
        each = {
            index: (constants, self.kept.get(index, fresh), paths[index], *own)
            for index, own in each.items()
        }
        found = self.rows.tasks(graph, _visited, function, arguments, keep, each=each)
        tasks = [*found.values()]
        if not keep:
            return reduced(graph, tasks, join)[0]
        if len(tasks) <= BRANCHES:
            reports, kept = graph.run_kept(tasks, _reported)
            report = join(*reports)
        else:
            reports = [graph.add(_reported, task) for task in tasks]
            report, kept = reduced(graph, reports, join, tasks)
        for index, held in zip(found, kept, strict=True):
            if (path := paths[index]) is not None:
                held = snapshots.written(index, path)
            self.kept[index] = held
        return report


# Tasks ------------------------------------------------------------------------------


def _visited(rows, first, constants, before, path, *others):
    """Visit rows of a partition; return the report, or all that is left."""
    *own, function, arguments, keep = others
    found = function(rows, first, before.kept, *own, *arguments, *constants)
    if not keep:
        return found[0]
    visited = Visited(*found)
    if path is not None:
        save(Visited(None, visited.kept), path)
    return visited


def _reported(visited):
    return visited.report


def _opened(call: Call):
    return call.opened().arguments
