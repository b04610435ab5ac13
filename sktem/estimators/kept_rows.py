"""The first rows of a stream, kept until there are enough to start from."""

from __future__ import annotations

import numpy as np

__all__ = ["KeptRows"]


class KeptRows:
    """Rows and their weights, a chunk after the other."""

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
