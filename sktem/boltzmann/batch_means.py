"""Means of the batches of a stream, which tell whether rows come in random order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

__all__ = ["BatchMeans"]


class OrderRule(NamedTuple):
    """Thresholds of the variance between means of batches.

    Attributes
    ----------
    fewest : int
        Batches, at least.
    apart : float
        Variance of the means, relative to that of rows in random order, from which on
        they come in an order.
    chance : float
        Probability of the same variance in random order, for columns that depend on
        each other wholly.
    """

    fewest: int = 3
    apart: float = 3.0
    chance: float = 1e-6


class BatchMeans:
    """Variance between the means of batches.

    Parameters
    ----------
    size : int
        Rows of a batch.
    rule : OrderRule, default=OrderRule()
        When rows come in an order.

    Attributes
    ----------
    n : int
        Full batches.
    sums : ndarray of shape (3, n_columns) or float
        Sums over batches of the means of columns, of their squares, and of the means
        of squared values.
    rows : ndarray of shape (n, n_columns) or None
        Rows of a batch that is not full.
    """

    def __init__(self, size, rule: OrderRule = OrderRule()):
        self.size, self.rule = size, rule
        self.n = 0
        self.sums: Any = 0.0
        self.rows: np.ndarray | None = None

    def add(self, rows) -> None:
        """Count rows, but batches in which values are missing."""
        rows = np.asarray(rows, np.float64)
        if self.rows is not None:
            rows = np.concatenate([self.rows, rows])
        full = len(rows) // self.size * self.size
        for values in np.split(rows[:full], full // self.size or 1):
            if full and np.isfinite(values).all():
                means = values.mean(axis=0)
                squares = (values**2).mean(axis=0)
                self.sums = self.sums + np.stack([means, means**2, squares])
                self.n += 1
        self.rows = rows[full:].copy()

    @property
    def is_ordered(self) -> bool:
        """Whether the means differ by more than those of rows in random order."""
        if self.n < self.rule.fewest:
            return False
        means, squares, of_values = self.sums / self.n
        between, within = (squares - means**2).sum(), (of_values - means**2).sum()
        spread, free = self.size * between / max(within, 1e-12), self.n - 1
        by_chance = chi2.isf(self.rule.chance, free) / free
        return bool(spread > max(self.rule.apart, by_chance))
