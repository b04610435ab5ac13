"""Local patterns of signals, wherever along them they are."""

from __future__ import annotations

import itertools
from functools import cached_property
from math import sqrt

import numpy as np

from sktem.arrays import arrays_of
from sktem.template.features import LEAST_GRADIENT, of_unit_norm

__all__ = ["PatternFeatures"]

#: Points that a filter sees, and cosines that it may be.
TAPS, COSINES = 9, 6

#: Bounds of the ranges of responses, as multiples of their root mean square.
BOUNDS = (-1.1, -0.3, 0.3, 1.1)

#: Signals whose responses are computed at once: as many as a cache holds.
SIGNALS_AT_ONCE = 64


class PatternFeatures:
    """How often a signal has which local shapes, wherever it has them.

    A signal is correlated with cosines over nine points (the first of a discrete cosine
    transform, but for the constant), which are one, two, four ... points apart, up to
    the length of the signal; beyond its ends it has its last values. Of the responses
    to a cosine at a distance, the features are the shares that are in each of five
    ranges, whose bounds are multiples of their root mean square, and the root mean
    square itself. Square roots of the shares have unit norm, all together, and so have
    the root mean squares. Neither offset nor gain of a signal changes them, and a shift
    does at the ends only.

    Several channels are kept apart.
    """

    def __init__(self, n_points, n_channels=1):
        self.n_points = n_points
        self.n_channels = n_channels

    @cached_property
    def filters(self) -> np.ndarray:
        """Cosines, of shape (n_cosines, n_taps)."""
        angles = np.pi * (np.arange(TAPS) + 0.5) / TAPS
        return np.cos(np.outer(np.arange(1, COSINES + 1), angles))

    @cached_property
    def distances(self) -> list:
        """How many points the taps of the filters are apart."""
        octaves = max((self.n_points - 1) // (TAPS - 1), 1).bit_length()
        return [2**octave for octave in range(octaves)]

    @property
    def n_features(self) -> int:
        """Number of the features."""
        responses = self.n_channels * len(self.distances) * COSINES
        return responses * (len(BOUNDS) + 2)

    def transform(self, signals):
        """Return the features of signals, as an array of their kind."""
        n, parts = signals.shape[0], []
        for start in range(0, n, SIGNALS_AT_ONCE):
            block = signals[start : min(start + SIGNALS_AT_ONCE, n), ...]
            parts.append(self._transform(block))
        return arrays_of(signals).concat(parts)

    def _transform(self, rows):
        arrays = arrays_of(rows)
        xp = arrays.xp
        signals = xp.reshape(rows, (-1, 1, self.n_points))
        n = signals.shape[0] // self.n_channels
        filters = arrays.asarray(self.filters, rows.dtype)
        least = LEAST_GRADIENT * xp.max(xp.abs(signals), axis=2)
        shares, sizes = [], []
        for distance in self.distances:
            responses = filters @ self._neighbours(signals, distance)
            size = xp.sqrt(xp.mean(responses * responses, axis=2))
            flat = size <= least
            sizes.append(xp.where(flat, xp.zeros_like(size), size))
            # Responses that are rounding errors are in the range about zero.
            size = xp.where(flat, xp.full_like(size, xp.inf), size)[:, :, None]
            above = [xp.ones_like(flat, dtype=rows.dtype)]
            for bound in BOUNDS:
                beyond = arrays.astype(responses > bound * size, rows.dtype)
                above.append(xp.mean(beyond, axis=2))
            above.append(xp.zeros_like(above[0]))
            shares += [xp.sqrt(a - b) for a, b in itertools.pairwise(above)]
        parts = [xp.reshape(arrays.concat(p, axis=1), (n, -1)) for p in (shares, sizes)]
        features = [of_unit_norm(part) / sqrt(2) for part in parts]
        return arrays.concat(features, axis=1)

    def _neighbours(self, signals, distance):
        """Return what the taps of the filters see, of shape (n, n_taps, n_points)."""
        arrays, beyond = arrays_of(signals), distance * (TAPS // 2)
        xp, shape = arrays.xp, (signals.shape[0], 1, beyond)
        ends = [
            xp.broadcast_to(end, shape)
            for end in (signals[:, :, :1], signals[:, :, -1:])
        ]
        longer = arrays.concat([ends[0], signals, ends[1]], axis=2)
        starts = range(0, TAPS * distance, distance)
        seen = [longer[:, :, start : start + self.n_points] for start in starts]
        return arrays.concat(seen, axis=1)
