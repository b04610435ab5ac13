"""Selection of the rows that are visited at an iteration."""

from __future__ import annotations

import numpy as np

from sktem import budget
from sktem.e_step.expectation import Batch
from sktem.rows.held import carrier_of

__all__ = [
    "SAMPLING_SCHEMES",
    "BufferedSelector",
    "RowSelector",
    "batch_edges",
    "new_selector",
]

#: Names of the sampling schemes.
SAMPLING_SCHEMES = ("fixed", "shuffle", "inclusion")


def batch_edges(n_rows: int, batch_size: int) -> np.ndarray:
    """Cut rows into batches whose sizes differ by one at most.

    A batch takes a whole step, so that one of the few rows that are left over would
    bring far more noise than the others: five rows more than a thousand make two
    batches of half the size, not one of five.
    """
    n_batches = -(-n_rows // batch_size)
    return np.arange(n_batches + 1) * n_rows // n_batches


class RowSelector:
    """Draws the batches of one index set.

    Parameters
    ----------
    n_rows : int
        Rows of the data.
    batch_size : int
        Rows per batch (their expected number, for independent inclusion).
    scheme : {"fixed", "shuffle", "inclusion"}
        "fixed": ``batch_size`` rows uniformly without replacement, independently of
        other iterations; a batch of one is the paper's index. "shuffle": the rows in a
        random order that is drawn anew for each pass, cut into batches of nearly equal
        size. "inclusion": each row on its own with probability ``batch_size / n``.
    weights : ndarray of shape (n_rows,) or None
        Normalised weights. Rows are then drawn with probability proportional to their
        weight, with replacement for the first two schemes: what drawing from rows
        repeated according to their weight would be.
    """

    def __init__(self, n_rows, batch_size, scheme, weights=None):
        self.n_rows = n_rows
        self.batch_size = batch_size
        self.scheme = scheme
        self.cumulative: np.ndarray | None = None
        self.inclusion = batch_size / n_rows
        self.weights = weights
        if weights is not None:
            self.cumulative = np.cumsum(weights)
            self.inclusion = np.minimum(1.0, batch_size * weights)
        plain = scheme == "shuffle" and weights is None
        self.edges = batch_edges(n_rows, batch_size) if plain else np.empty(0, int)
        self.permutation = None
        self.position = 0

    @property
    def mean_size(self) -> float:
        """Mean number of rows of a batch."""
        if len(self.edges) == 0:
            return self.batch_size
        return self.n_rows / (len(self.edges) - 1)

    def next(self, rng: np.random.Generator, X=None) -> Batch:
        """Draw the next batch without reading data."""
        if self.scheme == "inclusion":
            return self._included(rng)
        if self.cumulative is not None:
            return self._weighted(rng, self.cumulative)
        if self.batch_size == self.n_rows:
            rows = np.arange(self.n_rows)
        elif self.scheme == "shuffle":
            rows = self._shuffled(rng)
        elif self.batch_size == 1:
            rows = rng.integers(self.n_rows, size=1)
        else:
            rows = rng.choice(
                self.n_rows, self.batch_size, replace=False, shuffle=False
            )
        return Batch(rows, np.full(len(rows), 1.0 / len(rows)))

    def several(self, rng: np.random.Generator, count: int, X=None) -> tuple:
        """Draw shuffled batches, at most to the end of a pass: rows, None and edges."""
        order = self._pass(rng)
        edges = self.edges[self.position : self.position + count + 1]
        self.position += len(edges) - 1
        return order[edges[0] : edges[-1]], None, edges - edges[0]

    def _pass(self, rng):
        """Return the order of a pass, of a new one where the last is at its end."""
        if self.permutation is None or self.position == len(self.edges) - 1:
            self.permutation = rng.permutation(self.n_rows)
            self.position = 0
        return self.permutation

    def _shuffled(self, rng):
        order = self._pass(rng)
        start, stop = self.edges[self.position : self.position + 2]
        self.position += 1
        return order[start:stop]

    def _weighted(self, rng, cumulative):
        uniforms = rng.random(self.batch_size) * cumulative[-1]
        drawn = np.searchsorted(cumulative, uniforms, side="right")
        rows, counts = np.unique(np.minimum(drawn, self.n_rows - 1), return_counts=True)
        return Batch(rows, counts / self.batch_size)

    def _included(self, rng):
        rows = np.flatnonzero(rng.random(self.n_rows) < self.inclusion)
        if self.weights is None:
            coefficients = np.full(len(rows), 1.0 / self.batch_size)
        else:
            coefficients = self.weights[rows] / self.inclusion[rows]
        return Batch(rows, coefficients)


class BufferedSelector:
    """Draws batches from rows that can only be read in order.

    Each pass reads the pieces of the source in a random order into a buffer; the rows
    of a batch are those of the buffer in a random order. A batch thus mixes the rows of
    one buffer only, while every row is visited once in each pass. Where all rows fit
    into the buffer, these are the batches of ``RowSelector`` with "shuffle".

    Parameters
    ----------
    X : Carrier
        The rows.
    batch_size : int
        Rows per batch, at most.

    Attributes
    ----------
    indices, values : ndarray
        Sorted row indices and the rows of the buffer.
    """

    def __init__(self, X, batch_size):
        self.edges = batch_edges(len(X), batch_size)
        self.n_batches = len(self.edges) - 1
        self.whole = self.n_batches == 1
        per_buffer = max(1, budget.MEMORY.kept // (X.shape[1] * batch_size))
        #: Index of the first batch of each buffer, and the number of batches.
        self.cuts = np.append(np.arange(0, self.n_batches, per_buffer), self.n_batches)
        self.position = self.n_batches
        self.order = np.arange(0)
        self.permutation = np.arange(0)
        self.indices = self.values = np.arange(0)
        self._reading = self._loaded = None

    def __getstate__(self):
        not_pickled = {"_reading": None, "_loaded": None}
        return {**self.__dict__, **not_pickled, "indices": None, "values": None}

    @property
    def mean_size(self) -> float:
        """Mean number of rows of a batch."""
        return self.edges[-1] / self.n_batches

    def several(self, rng: np.random.Generator, count: int, X) -> tuple:
        """Draw batches, at most to the end of a buffer: indices, rows and edges."""
        buffer, first = self._begin_buffer(rng, X)
        stop = min(self.position + count, self.cuts[buffer + 1])
        edges = self.edges[self.position : stop + 1] - first
        places = self.permutation[edges[0] : edges[-1]]
        self.position = int(stop)
        return self.indices[places], self.values[places], edges - edges[0]

    def next(self, rng: np.random.Generator, X) -> Batch:
        """Draw the next batch of the data."""
        _, first = self._begin_buffer(rng, X)
        start, stop = self.edges[self.position : self.position + 2] - first
        self.position += 1
        places = self.permutation[start:stop]
        coefficients = np.full(len(places), 1.0 / len(places))
        return Batch(self.indices[places], coefficients, self.values[places])

    def taken(self, indices: np.ndarray) -> np.ndarray:
        """Return rows of the buffer, by their row indices."""
        return self.values.take(np.searchsorted(self.indices, indices), axis=0)

    def _begin_buffer(self, rng, X):
        """Hold the rows of the next batch; return their buffer and its first row."""
        if self.position == self.n_batches:
            n_pieces = len(X.lengths)
            several = len(self.cuts) > 2
            self.order = rng.permutation(n_pieces) if several else np.arange(n_pieces)
            self.position, self._reading = 0, None
        buffer = int(np.searchsorted(self.cuts, self.position, side="right")) - 1
        first, stop = self.edges[self.cuts[buffer : buffer + 2]]
        if self.position == self.cuts[buffer]:
            n_rows = stop - first
            self.permutation = (
                np.arange(n_rows) if self.whole else rng.permutation(n_rows)
            )
        self._load(buffer, X)
        return buffer, first

    def _load(self, buffer, X):
        """Hold the rows of a buffer, unless they are held."""
        skipped = range(0)
        if self._reading is None:
            sizes = np.diff(self.edges[self.cuts])
            self._reading = X.buffers(self.order, sizes)
            self._loaded, skipped = None, range(buffer)
        if self._loaded != buffer:
            for _ in skipped:
                next(self._reading)
            self.indices = self.values = np.arange(0)  # room for the next
            self.indices, self.values = next(self._reading)
            self._loaded = buffer
            if buffer == len(self.cuts) - 2:
                next(self._reading, None)  # to its end, so that the source closes


def new_selector(X, batch_size, scheme, weights, several=False):
    """Return the selector of the batches of one index set, the only one or not."""
    X = carrier_of(X)
    if X.can_take:
        return RowSelector(len(X), batch_size, scheme, weights)
    if scheme != "shuffle" or weights is not None:
        what = f"sampling={scheme!r}" if weights is None else "sample_weight"
        raise ValueError(
            f"Batches with {what} need rows that can be taken one by one, as from "
            "arrays and .npy files; this X is read in order, for which "
            'sampling="shuffle" without weights, or solver="em", is possible'
        )
    selector = BufferedSelector(X, batch_size)
    if several and len(selector.cuts) > 2 and not X.source.can_read_twice:
        raise ValueError(
            "solver='fittem' reads two passes at the same time, which "
            f"{X.source.where(0)} does not allow: use another solver, or write the "
            "rows to Parquet files"
        )
    return selector
