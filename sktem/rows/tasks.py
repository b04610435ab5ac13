"""Graphs of tasks for Dask, made by hand.

Every visit of partitions is a graph: to put it together by ``dask.delayed`` would cost
more than what Dask does with it. Whatever scheduler is current runs the tasks, that of
a ``distributed.Client`` or the threads of this process. A task is a pure function of
its arguments, so that Dask may run it anywhere, and again. Dask is imported on first
use.
"""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

__all__ = ["Call", "Graph", "Held", "Packed", "Workers", "current_client", "graphs_of"]

#: Bytes of what tasks have in common up to which each of them gets a copy.
MOST_COPIED = 1 << 16

#: Seconds for which the workers that the scheduler has named are taken to be its own.
SECONDS_BETWEEN_LOOKS = 0.25


class Call(NamedTuple):
    """A function and its first arguments.

    Attributes
    ----------
    function : callable
        The function.
    arguments : tuple
        The arguments.
    """

    function: Any
    arguments: tuple

    def opened(self) -> Call:
        """Return the call itself, see :class:`Packed`."""
        return self


class Packed(NamedTuple):
    """A call as the workers get it: the scheduler passes it on without a look at it.

    Attributes
    ----------
    data : bytes
        The pickled call.
    """

    data: bytes

    def opened(self) -> Call:
        """Return the call."""
        from distributed.protocol.pickle import loads

        return loads(self.data)


class Held(NamedTuple):
    """Stands for the result of a task that stays where it is.

    Attributes
    ----------
    key : str
        What Dask calls it.
    value : object
        A future; the result, where this process runs the tasks; or the call that
        makes it once it is needed.
    """

    key: str
    value: Any


class Workers:
    """Workers of the current cluster, as they are seen during a fit.

    Attributes
    ----------
    visits : WeakSet
        What remembers something of rows, which is with the workers.
    """

    def __init__(self):
        self.visits: WeakSet = WeakSet()
        self._known, self._seen_at = self._current(), monotonic()

    def _current(self) -> set[str]:
        """Return addresses."""
        client = current_client()
        return set() if client is None else set(client.nthreads())

    def new_events(self, at_once=False) -> Counter:
        """Return changes of the cluster since they were last returned.

        Parameters
        ----------
        at_once : bool, default=False
            Whether to ask the scheduler even if it has been asked a moment ago.

        Returns
        -------
        Counter
            How many workers were lost, and how many are new.
        """
        if not at_once and monotonic() < self._seen_at + SECONDS_BETWEEN_LOOKS:
            return Counter()
        before, self._known = self._known, self._current()
        self._seen_at = monotonic()
        lost, new = len(before - self._known), len(self._known - before)
        return +Counter({"lost workers": lost, "new workers": new})

    def release(self) -> None:
        """Let go of all that is remembered of rows."""
        for visits in self.visits:
            visits.release()


class Graph:
    """Tasks that are run together by the current scheduler."""

    def __init__(self):
        from dask._task_spec import Task, TaskRef

        self._task, self._reference = Task, TaskRef
        self.client = current_client()
        self.token = uuid.uuid4().hex
        self.tasks: dict[Any, Any] = {}

    def add(self, function, *arguments) -> Any:
        """Add a task.

        Parameters
        ----------
        function : callable
            Called with the arguments.
        *arguments : object
            What this method has returned, and what is :class:`Held`, stands for
            results of tasks.

        Returns
        -------
        TaskRef
            Stands for the result.
        """
        key = f"sktem-{self.token}-{len(self.tasks)}"
        given = (self.held(a) if isinstance(a, Held) else a for a in arguments)
        self.tasks[key] = self._task(key, function, *given)
        return self._reference(key)

    def held(self, held: Held) -> Any:
        """Return what stands for a result of an earlier graph."""
        key, value = held
        if isinstance(value, Call):
            self.tasks[key] = self._task(key, value.function, *value.arguments)
        elif self.client is None:
            self.tasks[key] = self._task(key, _itself, value)
        return self._reference(key)

    def source(self, key, tasks: dict) -> Any:
        """Return what stands for a partition, see :func:`graphs_of`."""
        self.tasks.update(tasks)
        return self._reference(key)

    def common(self, function, arguments: tuple) -> Any:
        """Return a call, all of whose arguments many tasks have in common."""
        call = Call(function, arguments)
        if self.client is None:
            return call
        from distributed.protocol.pickle import dumps

        packed = Packed(dumps(call))
        return self.add(_itself, packed) if len(packed.data) > MOST_COPIED else packed

    def run(self, wanted: Sequence, keep: Sequence = ()) -> tuple[list, list[Held]]:
        """Run the tasks, wherever Dask chooses to.

        Parameters
        ----------
        wanted : list of TaskRef
            Tasks whose results are wanted here.
        keep : list of TaskRef, default=()
            Tasks whose results stay where they are.

        Returns
        -------
        list, list of Held
            The results, and what stands for the others.
        """
        keys = [task.key for task in (*wanted, *keep)]
        if self.client is None:
            from dask.base import get_scheduler
            from dask.threaded import get

            found = (get_scheduler() or get)(self.tasks, keys)
        else:
            graph = _named(self.tasks, self.token)
            found = self.client.get(graph, keys, sync=False)
        held = [*map(Held, keys[len(wanted) :], found[len(wanted) :])]
        found = list(found[: len(wanted)])
        return (found if self.client is None else self.client.gather(found)), held

    def run_kept(self, tasks: Sequence, part) -> tuple[list, list[Held]]:
        """Run a few tasks whose results stay where they are, and bring a part of each.

        The workers are asked for the parts: further tasks would cost as much as these.

        Parameters
        ----------
        tasks : list of TaskRef
            The tasks.
        part : callable
            Returns the part of a result that is wanted here.

        Returns
        -------
        list, list of Held
            The parts, and what stands for the results.
        """
        _, held = self.run([], tasks)
        if self.client is None:
            return [part(one.value) for one in held], held
        found = _asked(self.client, held, part)
        lost = [one for one in held if one.key not in found]
        if lost:  # with a worker, in the meantime: they are computed again
            graph = Graph()
            again, _ = graph.run([graph.add(part, one) for one in lost])
            found.update(zip((one.key for one in lost), again, strict=True))
        return [found[one.key] for one in held], held


def graphs_of(collection) -> list[tuple[Any, dict]]:
    """Return for each partition its key and the tasks that make it.

    Parameters
    ----------
    collection : dask.array.Array or dask.dataframe.DataFrame
        The collection. It has to be kept where its partitions are in memory.
    """
    from dask._task_spec import convert_legacy_graph

    found, graph = [], {}
    before: Any = None
    for part in np.ravel(collection.to_delayed(optimize_graph=True)):
        if part.dask is not before:
            before, graph = part.dask, convert_legacy_graph(dict(part.dask))
        tasks: dict[Any, Any] = {}
        missing = {part.key}
        while missing:  # what a scheduler has in memory is not in the graph
            key = missing.pop()
            if key in graph:
                tasks[key] = graph[key]
                missing |= graph[key].dependencies - set(tasks)
        found.append((part.key, tasks))
    return found


def current_client():
    """Return the client that runs tasks, None if this process does."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler

    scheduler = get_scheduler()
    client = getattr(scheduler, "__self__", None)
    return client if hasattr(client, "get_events") else None


def _asked(client, held, part):
    """Return by key what workers have of the results, once all were there."""
    from distributed import wait

    futures = [one.value for one in held]
    wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()  # raises
    keys_of: dict[str, list] = {}
    for key, workers in client.who_has(futures).items():
        for worker in workers[:1]:
            keys_of.setdefault(worker, []).append(key)
    answers = client.run(
        _parts_of, keys_of, part, workers=[*keys_of], on_error="return"
    )
    return {
        key: value
        for answer in answers.values()
        if isinstance(answer, dict)  # and not an error: the worker has been lost
        for key, value in answer.items()
    }


def _parts_of(keys_of, part, dask_worker):
    """Return parts of the results that are asked of this worker, by key."""
    data = dask_worker.data
    keys = keys_of.get(dask_worker.address, ())
    return {key: part(data[key]) for key in keys if key in data}


def _named(tasks, token):
    """Return a graph with a name, which Dask would make of all that is in it."""
    try:
        from dask._expr import LLGExpr
    except ImportError:  # Dask before 2025.4
        return tasks
    return LLGExpr(tasks, _determ_token=token)


def _itself(value):
    return value
