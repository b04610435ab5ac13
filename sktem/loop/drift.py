"""Check that rows of a stream stay as likely as those before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

__all__ = ["BatchLikelihoods", "DriftRule"]


class DriftRule(NamedTuple):
    """Thresholds for batches that are less likely than chance explains.

    Attributes
    ----------
    least : int
        Batches by which the usual likelihood is known.
    memory : int
        Batches over which it is averaged.
    nats : float
        Fall of the mean log-likelihood of a row, at least.
    deviations : float
        The same in standard deviations between batches.
    lasting : int
        Batches one after the other that show it; a few rows far out are in one.
    rows : int
        Rows of one batch whose median shows it: a few rows far out do not move it.
    before : int
        Batches before that one: the error of a median is known from its rows.
    """

    least: int = 3
    memory: int = 16
    nats: float = 0.5
    deviations: float = 8.0
    lasting: int = 3
    rows: int = 32
    before: int = 2


@dataclass
class BatchLikelihoods:
    """Log-likelihoods of the batches of a stream, each before it is learned.

    Attributes
    ----------
    rule : DriftRule
        When they have fallen.
    recent : tuple of float
        The last of those that were usual.
    best : float
        Highest mean of the recent ones so far: where a source changes slowly, the mean
        follows it.
    count : int
        Number of usual ones.
    low : int
        Batches since the last usual one.
    fall : float
        By how much a row of the last batch was less likely, where all of the last
        ``lasting`` ones were, or most rows of one; 0 as long as they never were.
    """

    rule: DriftRule = DriftRule()
    recent: tuple[float, ...] = ()
    best: float = -np.inf
    count: int = 0
    low: int = 0
    fall: float = 0.0
    pending: float = 0.0
    pending_mass: float = 0.0

    def add(
        self,
        log_likelihood: float,
        mass: float,
        of_rows: Callable[[], np.ndarray] | None = None,
    ) -> None:
        """Add the mean log-likelihood of rows of a batch.

        Those of single rows are asked for where the mean is unusual: where it jumps,
        the parameters may have followed before more batches have shown it.
        """
        self.pending += mass * float(log_likelihood)
        self.pending_mass += mass
        if of_rows is None or self.fall or self.count < self.rule.before:
            return
        if self._fall_to(log_likelihood, np.median):
            self._judge(of_rows())

    def close(self) -> None:
        """End a batch."""
        value = self.pending / self.pending_mass
        self.pending = self.pending_mass = 0.0
        if self.fall or not np.isfinite(value):
            return
        rule = self.rule
        fall = self._fall_to(value, np.mean) if self.count >= rule.least else 0.0
        if fall:
            self.low += 1
            if self.low == rule.lasting:
                self.fall = fall
            return
        self.low, self.count = 0, self.count + 1
        self.recent = (*self.recent, value)[-rule.memory :]
        if self.count >= rule.memory:
            self.best = max(self.best, float(np.mean(self.recent)))

    def _fall_to(self, value, average, error=0.0) -> float:
        """Return by how much a value is below usual ones, 0 if that may be chance.

        Their deviation is that of those which follow each other: a slow change leaves
        it as it is. Of few batches it is not known well.
        """
        squares = np.diff(self.recent) ** 2 / 2.0
        variance = average(squares) * (1.0 + 4.0 / self.count) if len(squares) else 0.0
        fall = max(self.best, float(average(self.recent))) - value
        deviation = max(np.sqrt(variance), error)
        unusual = fall > max(self.rule.nats, self.rule.deviations * deviation)
        return float(fall) if unusual else 0.0

    def _judge(self, values: np.ndarray) -> None:
        """Note a fall of the median of rows."""
        values = values[np.isfinite(values)]
        if len(values) < self.rule.rows:
            return
        median = float(np.median(values))
        spread = np.median(np.abs(values - median)) / ndtri(0.75)
        error = np.sqrt(np.pi / 2 / len(values)) * spread
        self.fall = self._fall_to(median, np.median, error)
