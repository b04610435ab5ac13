"""Kinds of visible units of layered machines other than binary ones.

A block knows its columns among the visible units, which come in front of the binary
ones: how its units are drawn given their fields, their means, and the logarithm of the
sum, or integral, of ``exp(field * x)`` over their states.
"""

from __future__ import annotations

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.kernels.layers import draw_groups

__all__ = ["GroupBlock", "NormalBlock"]


class NormalBlock:
    """Gaussian units, the first ones: the density has the factor exp(-p x^2 / 2)."""

    #: Value where nothing is known.
    start: float | np.ndarray = 0.0

    def __init__(self, layout):
        self.layout = layout
        self.columns = slice(0, layout.n_normal)

    def draw(self, params, fields, biases, draws):
        """Return fields with draws in the columns of the block."""
        precisions = self.layout.precisions(params)
        return draws.normals(fields, biases[self.columns], precisions)

    def means(self, params, fields, biases):
        """Turn the fields of the block into means, in place."""
        fields[:, self.columns] += biases[self.columns]
        fields[:, self.columns] /= self.layout.precisions(params)

    def log_sums(self, params, fields):
        """Return row sums of the logarithms of integrals, but for `constant`."""
        spread = 1 / self.layout.precisions(params)
        return 0.5 * (fields[:, self.columns] ** 2 @ spread)

    def sums_to_means(self, params, fields):
        """Return `log_sums` and turn fields of the block into means, in place."""
        sums = self.log_sums(params, fields)
        fields[:, self.columns] *= 1 / self.layout.precisions(params)
        return sums

    def log_sums_by_unit(self, params, fields):
        """Return the logarithm of the integral over each unit, in its column."""
        precisions = self.layout.precisions(params)
        squares = fields[:, self.columns] ** 2 / precisions
        return 0.5 * (squares + arrays_of(params).xp.log(2 * np.pi / precisions))

    def constant(self, params) -> float:
        """Return the part of the logarithms that does not depend on fields."""
        xp = arrays_of(params).xp
        spread = 1 / self.layout.precisions(params)
        return 0.5 * float(xp.sum(xp.log(2 * np.pi * spread)))

    def entropies(self, params, means, unseen):
        """Return the entropies of the missing units, up to a constant."""
        spread = 0.5 * arrays_of(params).xp.log(
            2 * np.pi / self.layout.precisions(params)
        )
        arrays = arrays_of(means)
        return unseen[:, self.columns] @ arrays.astype(spread, arrays.xp.float64)


class GroupBlock:
    """Categorical columns as groups of units, one of which is 1, on NumPy arrays."""

    def __init__(self, layout):
        self.sizes = np.array(layout.groups)
        self.starts = layout.n_normal + np.concatenate([[0], np.cumsum(self.sizes)])
        self.columns = slice(layout.n_normal, int(self.starts[-1]))
        self.start = np.repeat(1 / self.sizes, self.sizes).astype(np.float32)
        self._offsets = self.starts[:-1] - layout.n_normal

    def draw(self, params, fields, biases, draws):
        """Return fields with draws in the columns of the block."""
        key = draws.key(len(fields))
        draw_groups(fields, self.starts, biases.astype(np.float32), *key)
        return fields

    def means(self, params, fields, biases):
        """Turn the fields of the block into probabilities, in place."""
        part = fields[:, self.columns] + biases[self.columns]
        largest, exponentials, totals = self._exponentials(part)
        fields[:, self.columns] = exponentials / np.repeat(totals, self.sizes, axis=1)

    def log_sums(self, params, fields):
        """Return the row sums of the logarithms of sums, in float64."""
        part = fields[:, self.columns].astype(np.float64)
        largest, _, totals = self._exponentials(part)
        return (largest + np.log(totals)).sum(axis=1)

    def sums_to_means(self, params, fields):
        """Return `log_sums` and turn fields of the block into means, in place."""
        part = fields[:, self.columns]
        largest, exponentials, totals = self._exponentials(part)
        fields[:, self.columns] = exponentials / np.repeat(totals, self.sizes, axis=1)
        return (largest + np.log(totals)).sum(axis=1)

    def log_sums_by_unit(self, params, fields):
        """Return the logarithm of the sum over each group, in its first column."""
        largest, _, totals = self._exponentials(fields[:, self.columns])
        out = np.zeros((len(fields), int(self.sizes.sum())))
        out[:, self._offsets] = largest + np.log(totals)
        return out

    def _exponentials(self, part):
        """Return the largest value of each group, exponentials less it, their sums."""
        largest = np.maximum.reduceat(part, self._offsets, axis=1)
        exponentials = np.exp(part - np.repeat(largest, self.sizes, axis=1))
        return (
            largest,
            exponentials,
            np.add.reduceat(exponentials, self._offsets, axis=1),
        )

    def constant(self, params) -> float:
        """Return 0."""
        return 0.0

    def entropies(self, params, means, unseen):
        """Return the entropies of the missing groups."""
        p = np.clip(means[:, self.columns], 1e-12, 1)
        return -np.sum(unseen[:, self.columns] * p * np.log(p), axis=1)
