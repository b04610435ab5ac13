"""The stream of an estimator: a start from the first rows, then a step per chunk."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.estimators.progress import Task
from sktem.exceptions import FitWarning
from sktem.loop.batch_means import BatchMeans, OrderRule
from sktem.loop.stream import Stream
from sktem.progress import shown
from sktem.rows.held import carrier_of
from sktem.schedules import Constant, Polynomial, Schedule

__all__ = ["KeptRows", "StreamDefaults", "StreamRunner", "StreamSettings"]


class KeptRows:
    """The first rows of a stream, kept until there are enough to start from."""

    def __init__(self):
        self.rows: list[np.ndarray] = []
        self.weights: list[np.ndarray] = []
        self.count = 0

    def add(self, X, sample_weight, enough):
        """Keep rows until there are enough."""
        needed = max(enough - self.count, 0)
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        self.rows.append(np.array(X[:needed]))
        self.weights.append(np.array(weights[:needed]))
        self.count += len(self.rows[-1])
        rest = None if sample_weight is None else sample_weight[needed:]
        return X[needed:], rest

    def joined(self):
        """Return all rows, and their weights or None if all are one."""
        rows, weights = np.concatenate(self.rows), np.concatenate(self.weights)
        return rows, None if (weights == 1).all() else weights


class StreamDefaults(NamedTuple):
    """Settings of a stream where users leave them to the estimator.

    Attributes
    ----------
    batch_size : int
        Rows of a step, whatever the size of the chunks.
    step_size : Schedule
        Steps: those of a fit suit passes over the same rows, and would forget the past.
    passes : float
        Passes over each chunk of solvers that remember rows, at most; the first of two
        fills their memory.
    """

    batch_size: int
    step_size: Schedule = Polynomial(alpha=0.6, offset=2.0)
    passes: float = math.inf


class StreamSettings(NamedTuple):
    """Settings of a call of ``partial_fit``.

    Attributes
    ----------
    name : str
        Name of the estimator.
    seed : int, RandomState, Generator or None
        Root of the generators.
    average : bool, int or str
        Which average of the iterates is published.
    step_is_automatic : bool
        Whether the estimator chooses the steps.
    tol : float
        Tolerance of a run over the first rows.
    merger_of : callable
        Function of a model that returns the `Stream` by which chunks are merged.
    """

    name: str
    seed: Any
    average: Any
    step_is_automatic: bool
    tol: float
    merger_of: Callable[[Any], Stream]


class StreamRunner(ABC):
    """Run of an estimator by ``partial_fit``: collect, begin, step, publish.

    The estimator keeps it between calls and passes the settings of each call, since
    they may change from chunk to chunk: `StreamSettings`, or a record of the family.

    Attributes
    ----------
    state : object
        What is kept between chunks; None until there are enough rows to begin.
    n_rows : int
        Rows so far.
    means : BatchMeans or None
        Means of batches of rows, where they tell of an order.
    """

    #: Names of rows, and of what their likelihoods are of, in warnings.
    rows_name, unit = "rows", "each"
    #: When rows come in an order.
    order = OrderRule(share=1 / 3)

    def __init__(self, state: Any = None, n_rows: int = 0):
        self.state = state
        self.n_rows = n_rows
        self.kept = KeptRows()
        self.warned = False
        self.is_out_of_order = False
        self.means: BatchMeans | None = None

    def update(self, settings, X, sample_weight, task: Task) -> None:
        """Learn from a chunk, of which ``task`` is the call."""
        self.n_rows += _count(X)
        if self.state is None:
            X, sample_weight = self.collect(settings, X, sample_weight, task)
        if _count(X):
            self.step(settings, X, sample_weight, task)

    def collect(self, settings, X, sample_weight, task: Task):
        """Keep rows until there are enough, then begin; return those still to learn."""
        needed = self.rows_of_start(settings, X)
        if needed is None:
            self.begin(settings, X, sample_weight, task)
            return X, sample_weight
        X, sample_weight = self.kept.add(X, sample_weight, needed)
        if self.kept.count >= needed:
            rows, weights = self.kept.joined()
            self.begin(settings, rows, weights, task)
            self.kept = KeptRows()
        return X, sample_weight

    def rows_of_start(self, settings, X) -> int | None:
        """Return how many rows a start needs; None makes it from the first chunk."""
        return None

    @abstractmethod
    def begin(self, settings, X, sample_weight, task: Task) -> None:
        """Set the state from the first rows, and learn from the kept ones."""

    @abstractmethod
    def step(self, settings, X, sample_weight, task: Task) -> None:
        """Learn from rows, once there is a state."""

    @abstractmethod
    def published(self, settings) -> dict[str, Any]:
        """Return the fitted attributes that count every row seen."""

    def learn(self, stream, X, sample_weight, task: Task) -> None:
        """Merge rows into the state; callbacks see each batch or pass over them."""
        if not task.watched and not shown():
            stream.update(self.state, X, sample_weight)
        else:
            n_steps = stream.steps_of(self.state, X, sample_weight)
            with task.chunk(n_steps, stream.step_name) as on_step:
                stream.update(self.state, X, sample_weight, on_step=on_step)
        # Constant steps are for sources that change.
        if not isinstance(stream.settings.step_size, Constant):
            self.warn_of_order()

    def count_means(self, X, sample_weight, size) -> None:
        """Count the means of batches of this size, of rows that are numbers."""
        if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu"):
            return
        if self.means is None:
            self.means = BatchMeans(size, self.order)
        self.means.add(X if sample_weight is None else X[sample_weight > 0])

    def warn_once(self) -> None:
        """Warn of numerical problems at their first."""
        message = event_message("The stream", self.state.events)
        if message and not self.warned:
            self.warned = True
            warn_user(message, FitWarning)

    def warn_of_order(self) -> None:
        """Warn once if rows have become less likely, or come in an order."""
        watched = self.state.likelihoods
        if self.is_out_of_order:
            return
        if watched is not None and watched.fall:
            problem = f"have become less likely, by {watched.fall:.3g} nats {self.unit}"
        elif self.means is not None and self.means.is_ordered:
            problem = (
                "come in an order: means of batches differ by far more than chance"
            )
        else:
            return
        self.is_out_of_order = True
        warn_user(
            f"The {self.rows_name} of the stream {problem} (among the {self.n_rows} "
            "so far), and steps are made as if they came in random order. Shuffle "
            "them, or fit all of them (files and memory maps need not fit into "
            "memory); if the source changes, a constant step_size follows it.",
            FitWarning,
        )


def _count(X) -> int:
    return len(carrier_of(X))
