"""Local patterns of signals, wherever along them they are."""

from __future__ import annotations

import itertools
from functools import cached_property
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from sktem.deformed_copies.features import OF_SIGNALS, of_unit_norm

__all__ = ["PatternFeatures"]


class PatternRule(NamedTuple):
    """Sizes of the features.

    Attributes
    ----------
    taps, cosines : int
        Points that a filter sees, and cosines that it may be.
    bounds : tuple of float
        Bounds of the ranges of responses, as multiples of their root mean square.
    signals_at_once : int
        Signals whose responses are computed at once: as many as a cache holds.
    """

    taps: int = 9
    cosines: int = 6
    bounds: tuple[float, ...] = (-1.1, -0.3, 0.3, 1.1)
    signals_at_once: int = 64


class PatternFeatures:
    """Frequencies of local shapes in a signal, wherever they occur.

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

    rule: ClassVar[PatternRule] = PatternRule()

    def __init__(self, n_points, n_channels=1):
        self.n_points = n_points
        self.n_channels = n_channels

    @cached_property
    def filters(self) -> np.ndarray:
        """Cosines, of shape (n_cosines, n_taps)."""
        taps = self.rule.taps
        angles = np.pi * (np.arange(taps) + 0.5) / taps
        return np.cos(np.outer(np.arange(1, self.rule.cosines + 1), angles))

    @cached_property
    def distances(self) -> list:
        """Distances between the taps of the filters, in points."""
        octaves = max((self.n_points - 1) // (self.rule.taps - 1), 1).bit_length()
        return [2**octave for octave in range(octaves)]

    @property
    def n_features(self) -> int:
        """Number of the features."""
        responses = self.n_channels * len(self.distances) * self.rule.cosines
        return responses * (len(self.rule.bounds) + 2)

    def transform(self, signals):
        """Return the features of signals."""
        step, parts = self.rule.signals_at_once, []
        for start in range(0, signals.shape[0], step):
            parts.append(self._transform(signals[start : start + step]))
        return np.concatenate(parts)

    def _transform(self, rows):
        signals = rows.reshape(-1, 1, self.n_points)
        n = signals.shape[0] // self.n_channels
        least = OF_SIGNALS.least_gradient * np.max(np.abs(signals), axis=2)
        shares, sizes = [], []
        for distance in self.distances:
            responses = self.filters @ self._neighbours(signals, distance)
            size = np.sqrt(np.mean(responses * responses, axis=2))
            flat = size <= least
            sizes.append(np.where(flat, np.zeros_like(size), size))
            # Responses that are rounding errors are in the range about zero.
            size = np.where(flat, np.full_like(size, np.inf), size)[:, :, None]
            above = [np.ones(flat.shape)]
            for bound in self.rule.bounds:
                above.append((responses > bound * size).mean(axis=2))
            above.append(np.zeros_like(above[0]))
            shares += [np.sqrt(a - b) for a, b in itertools.pairwise(above)]
        parts = [np.concatenate(p, axis=1).reshape(n, -1) for p in (shares, sizes)]
        features = [of_unit_norm(part) / sqrt(2) for part in parts]
        return np.concatenate(features, axis=1)

    def _neighbours(self, signals, distance):
        """Return the signals at the taps of the filters, (n, n_taps, n_points)."""
        beyond = distance * (self.rule.taps // 2)
        shape = (signals.shape[0], 1, beyond)
        ends = [
            np.broadcast_to(end, shape)
            for end in (signals[:, :, :1], signals[:, :, -1:])
        ]
        longer = np.concatenate([ends[0], signals, ends[1]], axis=2)
        starts = range(0, self.rule.taps * distance, distance)
        windows = [longer[:, :, start : start + self.n_points] for start in starts]
        return np.concatenate(windows, axis=1)
