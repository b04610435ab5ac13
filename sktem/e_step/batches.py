"""Which rows are visited at an iteration."""

from __future__ import annotations

import numpy as np

from sktem.e_step.expectation import Batch

__all__ = ["SAMPLING_SCHEMES", "RowSelector", "batch_edges"]

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

    def next(self, rng: np.random.Generator) -> Batch:
        """Draw the next batch."""
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

    def _shuffled(self, rng):
        if self.permutation is None or self.position == len(self.edges) - 1:
            self.permutation = rng.permutation(self.n_rows)
            self.position = 0
        start, stop = self.edges[self.position : self.position + 2]
        self.position += 1
        return self.permutation[start:stop]

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
