"""Check that rows of a stream stay as likely as those before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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
    """

    least: int = 3
    memory: int = 16
    nats: float = 0.5
    deviations: float = 8.0
    lasting: int = 3


@dataclass
class BatchLikelihoods:
    """Log-likelihoods of the batches of a stream, each before it is learned.

    Attributes
    ----------
    rule : DriftRule
        When they have fallen.
    level : float
        Mean of those that were usual.
    variance : float
        Their variance, by differences of those that follow each other, which a slow
        change leaves as they are.
    best : float
        Highest mean so far: where a source changes slowly, the mean follows it.
    count : int
        Their number.
    last : float
        The last of them.
    low : int
        Batches since the last usual one.
    fall : float
        By how much a row of the last batch was less likely, where all of the last
        ``lasting`` ones were; 0 as long as they never were.
    """

    rule: DriftRule = DriftRule()
    level: float = 0.0
    variance: float = 0.0
    best: float = -np.inf
    count: int = 0
    last: float = 0.0
    low: int = 0
    fall: float = 0.0
    pending: float = 0.0
    pending_mass: float = 0.0

    def add(self, log_likelihood: float, mass: float) -> None:
        """Add the mean log-likelihood of rows of a batch."""
        self.pending += mass * float(log_likelihood)
        self.pending_mass += mass

    def close(self) -> None:
        """End a batch."""
        value = self.pending / self.pending_mass
        self.pending = self.pending_mass = 0.0
        if self.fall or not np.isfinite(value):
            return
        rule = self.rule
        # The variance is of few batches at first.
        deviation = np.sqrt(self.variance * (1.0 + 4.0 / max(self.count, 1)))
        fall = max(self.best, self.level) - value
        unusual = fall > max(rule.nats, rule.deviations * deviation)
        if self.count >= rule.least and unusual:
            self.low += 1
            if self.low == rule.lasting:
                self.fall = float(fall)
            return
        self.low = 0
        if self.count:
            share = 1.0 / min(self.count, rule.memory)
            self.variance += share * ((value - self.last) ** 2 / 2.0 - self.variance)
        self.count += 1
        self.level += (value - self.level) / min(self.count, rule.memory)
        self.last = value
        if self.count >= rule.memory:
            self.best = max(self.best, self.level)
