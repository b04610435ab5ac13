"""Means of the batches of a stream, which tell whether rows come in random order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri

__all__ = ["BatchMeans", "OrderRule"]

TINY = np.finfo(np.float64).tiny


class OrderRule(NamedTuple):
    """Thresholds of the variance between means of batches.

    Attributes
    ----------
    fewest : int
        Batches, at least.
    apart : float
        Variance of the means of all columns together, relative to that of rows in
        random order, from which on they come in an order.
    share : float
        Part of the variance of any column that means of batches have, from which on
        they do.
    chance : float
        Probability of the same in random order, at most.
    rounding : float
        Deviations of a column, relative to its mean, that are those of rounding.
    at_once : int
        Batches whose means are computed together.
    """

    fewest: int = 3
    apart: float = np.inf
    share: float = np.inf
    chance: float = 1e-6
    rounding: float = 1e-12
    at_once: int = 64


class BatchMeans:
    """Variance between the means of batches.

    Parameters
    ----------
    size : int
        Rows of a batch.
    rule : OrderRule
        When rows come in an order.

    Attributes
    ----------
    n : int
        Full batches.
    centre : ndarray of shape (n_columns,)
        Means of the first batch, which set the origin.
    sums : ndarray of shape (3, n_columns) or float
        Sums over batches of the means of columns about the centre, of their squares,
        and of the means of squared values.
    rows : ndarray of shape (n, n_columns) or None
        Rows of a batch that is not full.
    is_ordered : bool
        Whether the means differ by more than those of rows in random order.
    """

    def __init__(self, size, rule: OrderRule):
        self.size, self.rule = int(size), rule
        self.n = 0
        self.centre: Any = None
        self.sums: Any = 0.0
        self.rows: np.ndarray | None = None
        self.is_ordered = False

    def add(self, rows) -> None:
        """Count rows, but batches in which most values of a column are missing."""
        rows = np.asarray(rows, np.float64)
        if self.rows is not None and len(self.rows):
            rows = np.concatenate([self.rows, rows])
        full = len(rows) // self.size * self.size
        step = self.rule.at_once * self.size
        for first in range(0, full, step):
            part = rows[first : min(first + step, full)]
            self._count(part.reshape(-1, self.size, rows.shape[1]))
        if full and self.n >= self.rule.fewest:
            self.is_ordered = self._differ()
        self.rows = rows[full:].copy()

    def _count(self, batches) -> None:
        """Count full batches, (n, size, n_columns)."""
        if self.centre is None:
            self.centre = np.nan_to_num(_mean(batches[0]))
        batches = batches - self.centre
        means = batches.mean(axis=1)
        squares = np.einsum("nij,nij->nj", batches, batches) / self.size
        with_holes = ~np.isfinite(means).all(axis=1)
        for i in np.flatnonzero(with_holes):
            means[i], squares[i] = _mean(batches[i]), _mean(batches[i] ** 2)
        counted = np.isfinite(means).all(axis=1)
        means, squares = means[counted], squares[counted]
        self.sums = self.sums + np.stack(
            [means.sum(axis=0), (means**2).sum(axis=0), squares.sum(axis=0)]
        )
        self.n += len(means)

    def _differ(self) -> bool:
        means, squares, of_values = self.sums / self.n
        between, within = squares - means**2, of_values - means**2
        free = self.n - 1
        by_chance = chdtri(free, self.rule.chance / len(means)) / free / self.size
        rounded = within <= (self.rule.rounding * self.centre) ** 2
        between = np.where(rounded, 0.0, between)
        together = between.sum() / max(within.sum(), TINY)
        shares = between / np.maximum(within, TINY)
        return bool(
            together > max(self.rule.apart / self.size, by_chance)
            or shares.max() > max(self.rule.share, by_chance)
        )


def _mean(batch) -> np.ndarray:
    """Return means of the columns, NaN where most values are missing."""
    finite = np.isfinite(batch)
    counts = finite.sum(axis=0)
    means = np.where(finite, batch, 0.0).sum(axis=0) / np.maximum(counts, 1)
    return np.where(2 * counts < len(batch), np.nan, means)
