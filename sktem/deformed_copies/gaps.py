"""Missing pixels of images: filled from those around, and holes that are too large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.ndimage import binary_erosion, gaussian_filter

__all__ = ["GapFiller"]


class GapFiller(NamedTuple):
    """Fills missing pixels by the mean image and the departure of those around from it.

    Attributes
    ----------
    image_shape : tuple of int
        Pixels along each axis.
    n_channels : int
        Channels.
    mean_image : ndarray of shape (n_channels * n_pixels,)
        Mean of the images.
    observed : ndarray of bool of shape (n_channels * n_pixels,)
        Which pixels an image has shown. The others are missing in all images, also
        where new ones show them: what they say of the classes was not learned.
    neighbours : float
        Standard deviation of the window around a missing pixel, in pixels.
    least_mass : float
        Share of that window that the mean image is worth.
    """

    image_shape: tuple
    n_channels: int
    mean_image: np.ndarray
    observed: np.ndarray
    neighbours: float = 1.0
    least_mass: float = 0.01

    @classmethod
    def of(cls, X, layout) -> GapFiller:
        """Return that of images; pixels never seen have the value of the background."""
        observed = ~np.isnan(X)
        total = np.where(observed, X, 0.0).sum(axis=0)
        mean = total / np.maximum(observed.sum(axis=0), 1)
        return cls(layout.image_shape, layout.n_channels, mean, observed.any(axis=0))

    def fill(self, X) -> np.ndarray:
        """Fill the gaps of standardised images in place."""
        X[:, ~self.observed] = np.nan
        for row in np.flatnonzero(np.isnan(X).any(axis=1)):
            observed = ~np.isnan(X[row])
            excess = np.where(observed, X[row] - self.mean_image, 0.0)
            pair = np.stack([excess, observed])
            pair = pair.reshape(2, self.n_channels, *self.image_shape)
            sds = (0.0, 0.0, *[self.neighbours] * len(self.image_shape))
            excess, mass = gaussian_filter(pair, sds, mode="constant").reshape(2, -1)
            near = self.mean_image + excess / (mass + self.least_mass)
            X[row] = np.where(observed, X[row], near)
        return X

    def holes(self, X) -> np.ndarray:
        """Return for each image whether a pixel and all of its neighbours are missing.

        Pixels that no image has shown do not count.
        """
        holed, rows = np.zeros(len(X), bool), np.flatnonzero(np.isnan(X).any(axis=1))
        if len(rows):
            missing = np.isnan(X[rows]).reshape(-1, self.n_channels, *self.image_shape)
            window = np.ones((1, 1, *[3] * len(self.image_shape)), dtype=bool)
            holes = binary_erosion(missing, window).reshape(len(rows), -1)
            holed[rows] = (holes & self.observed).any(axis=1)
        return holed
