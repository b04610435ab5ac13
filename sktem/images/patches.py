"""Patches of one value in images whose pixels are otherwise all different."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter, minimum_filter

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.images.shapes import Layout

__all__ = ["Patches"]


class Patches(NamedTuple):
    """Values that blocks of two pixels along each axis have in training images.

    A block of another value is a patch without data, as of dead pixels. Images of few
    values have blocks of any, and so no patches, nor have signals.

    Attributes
    ----------
    layout : Layout
        How images are laid out.
    usual : ndarray or None
        Values that such blocks have in many images; None where there are no patches.
    many : float
        Share of images that is many.
    distinct : float
        Share of the pixels of an image that are different, from which on patches show.
    most : float
        Share of an image that patches cover at most: what is larger may be background.
    """

    layout: Layout
    usual: np.ndarray | None = None
    many: float = 0.5
    distinct: float = 0.5
    most: float = 0.1

    @classmethod
    def of(cls, X, layout) -> Patches:
        """Return the patches of training images."""
        patches = cls(layout)
        shares = [len(np.unique(row)) / len(row) for row in X]
        if len(layout.image_shape) == 1 or np.median(shares) < patches.distinct:
            return patches
        blocks = zip(X, patches._blocks(X), strict=True)
        of_images = [np.unique(row[block]) for row, block in blocks]
        values, counts = np.unique(np.concatenate(of_images), return_counts=True)
        return patches._replace(usual=values[counts >= patches.many * len(X)])

    def _blocks(self, X):
        """Return which pixels are the last of a block of equal ones."""
        stack = X.reshape(len(X), self.layout.n_channels, *self.layout.image_shape)
        size = (1, 1, *[2] * len(self.layout.image_shape))
        ends = [
            extreme(np.nan_to_num(stack, nan=far), size, mode="constant", cval=far)
            for extreme, far in ((minimum_filter, -np.inf), (maximum_filter, np.inf))
        ]
        return (ends[0] == ends[1]).reshape(X.shape)

    def lost(self, X) -> np.ndarray:
        """Return which pixels of images are in patches without data."""
        if self.usual is None:
            return np.zeros(X.shape, dtype=bool)
        n_axes = len(self.layout.image_shape)
        blocks = self._blocks(X) & ~np.isin(X, self.usual)
        stack = blocks.reshape(len(X), self.layout.n_channels, *self.layout.image_shape)
        size, origin = (1, 1, *[2] * n_axes), (0, 0, *[-1] * n_axes)
        lost = maximum_filter(stack, size, origin=origin).reshape(X.shape)
        return lost & (lost.mean(axis=1, keepdims=True) <= self.most)

    def missing(self, X) -> np.ndarray:
        """Return images with NaN in their patches, and warn of these."""
        lost = self.lost(X)
        self.warn_of(lost.any(axis=1))
        return np.where(lost, np.nan, X)

    @staticmethod
    def warn_of(patched) -> None:
        """Warn of images that have patches, if there are any."""
        if patched.any():
            warn_user(
                f"{patched.sum()} of {len(patched)} images have patches of one value, "
                "as few others have: they count as missing pixels. Pass NaN there.",
                FitWarning,
            )
