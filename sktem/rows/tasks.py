"""Calls on the partitions of Dask collections, by the public interface of Dask.

Whatever scheduler is current runs them, that of a ``distributed.Client`` or the threads
of this process. A call is a pure function of its arguments, so that Dask may run it
anywhere, and again where a worker has been lost. Dask is imported on first use.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Patience",
    "Workers",
    "called",
    "computed",
    "kept",
    "partitions_of",
    "reduced",
    "shared",
]

#: Results that one task of the tree of sums takes.
BRANCHES = 16

log = logging.getLogger("sktem.rows")


class Patience(NamedTuple):
    """Time that a computation waits for a cluster without workers.

    Attributes
    ----------
    seconds_to_message : float
        Seconds without a worker after which this is logged, if a third of those to the
        error is not less.
    seconds_to_error : float
        Seconds after which the computation is given up, unless Dask's setting
        ``distributed.scheduler.no-workers-timeout`` says otherwise.
    seconds_between_looks : float
        Seconds for which the workers that the scheduler has named are believed.
    """

    seconds_to_message: float = 10.0
    seconds_to_error: float = 300.0
    seconds_between_looks: float = 0.25

    def limit(self) -> float:
        """Return the seconds after which a computation is given up."""
        import dask

        limit = dask.config.get("distributed.scheduler.no-workers-timeout", None)
        if limit is None:
            return self.seconds_to_error
        return float(dask.utils.parse_timedelta(limit))


class Workers:
    """Workers of the current cluster, as they are seen during a fit."""

    def __init__(self, patience: Patience = Patience()):  # noqa: B008
        self.patience = patience
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
        between = self.patience.seconds_between_looks
        if not at_once and monotonic() < self._seen_at + between:
            return Counter()
        before, self._known = self._known, self._current()
        self._seen_at = monotonic()
        lost, new = len(before - self._known), len(self._known - before)
        return +Counter({"lost workers": lost, "new workers": new})


def current_client():
    """Return the client that runs tasks, None if this process does."""
    if "distributed" not in sys.modules:
        return None
    import dask
    from distributed import get_client

    if dask.config.get("scheduler", None) not in (
        None, "distributed", "dask.distributed",
    ):  # fmt: skip
        return None
    try:
        return get_client()
    except ValueError:
        return None


def partitions_of(collection) -> list:
    """Return the partitions of a Dask array or data frame, as delayed objects."""
    return [*np.ravel(collection.to_delayed(optimize_graph=True))]


def shared(function: Callable):
    """Return a delayed function that is an argument of many calls, and sent once."""
    from dask.delayed import delayed

    return delayed(partial(function), pure=False, traverse=False)


def called(function: Callable, *arguments):
    """Return the delayed call of a function, some of whose arguments are delayed."""
    from dask.delayed import delayed

    return delayed(function, pure=False, traverse=False)(*arguments)


def kept(calls: Iterable) -> list:
    """Return delayed objects for results that stay where they are computed."""
    from dask.base import persist

    return [*persist(*calls)]


def computed(calls: Iterable, patience: Patience = Patience()) -> list:  # noqa: B008
    """Compute delayed calls wherever Dask chooses to, and return their results.

    Parameters
    ----------
    calls : iterable of dask.delayed.Delayed
        The calls.
    patience : Patience
        When a cluster without workers is given up.

    Returns
    -------
    list
        The results.

    Raises
    ------
    TimeoutError
        If the cluster has had no worker for a stated time.
    """
    calls, client = [*calls], current_client()
    if client is None:
        from dask.base import compute

        return [*compute(*calls)]
    futures = client.compute(calls)
    _wait(client, futures, patience)
    return client.gather(futures)


def _wait(client, futures, patience):
    """Wait until all are computed, while there are workers."""
    from distributed import wait

    alone_since, has_warned = None, False
    while True:
        try:
            wait(futures, timeout=1)
            return
        except TimeoutError:
            pass
        if client.nthreads():
            alone_since, has_warned = None, False
            continue
        now, limit = monotonic(), patience.limit()
        alone_since = now if alone_since is None else alone_since
        if now - alone_since >= limit:
            client.cancel(futures)
            raise TimeoutError(
                f"the Dask cluster {client.scheduler.address} has had no worker for "
                f"{limit:g} seconds: start workers, or set Dask's "
                "distributed.scheduler.no-workers-timeout to wait longer"
            )
        if not has_warned and now - alone_since >= min(
            patience.seconds_to_message, limit / 3
        ):
            has_warned = True
            log.warning(
                "The Dask cluster %s has no workers. The fit waits for them, and gives "
                "up after %g seconds.", client.scheduler.address, limit,
            )  # fmt: skip


def reduced(calls: Iterable, join: Callable) -> Any:
    """Compute delayed calls, and join their results in a tree.

    Parameters
    ----------
    calls : iterable of dask.delayed.Delayed
        The calls, in the order of the rows.
    join : callable
        Makes one of several consecutive results.

    Returns
    -------
    object
        The result that all were joined to.
    """
    calls = [*calls]
    while len(calls) > BRANCHES:
        cuts = range(0, len(calls), BRANCHES)
        calls = [called(join, *calls[cut : cut + BRANCHES]) for cut in cuts]
    return join(*computed(calls))
