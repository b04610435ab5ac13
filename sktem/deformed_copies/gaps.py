"""Missing pixels of images: filled from those around, and holes that are too large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.ndimage import binary_erosion, gaussian_filter

__all__ = ["GapFiller"]


class GapFiller(NamedTuple):
    """Fills missing pixels by like images and the departure of those around from them.

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
    rows : ndarray of shape (n_rows, n_channels * n_pixels) or None
        Images and copies without gaps; the mean of the nearest of them is filled in.
        None fills in the mean image, of which copies can be made.
    neighbours : float
        Standard deviation of the window around a missing pixel, in pixels.
    least_mass : float
        Share of that window that those images are worth.
    nearest, most : int
        How many of the rows are averaged, and how many there are, at most.
    """

    image_shape: tuple
    n_channels: int
    mean_image: np.ndarray
    observed: np.ndarray
    rows: np.ndarray | None = None
    neighbours: float = 1.0
    least_mass: float = 0.01
    nearest: int = 3
    most: int = 500

    @classmethod
    def of(cls, X, layout) -> GapFiller:
        """Return a filler for images; unobserved pixels are as the background."""
        observed = ~np.isnan(X)
        total = np.where(observed, X, 0.0).sum(axis=0)
        mean = total / np.maximum(observed.sum(axis=0), 1)
        return cls(layout.image_shape, layout.n_channels, mean, observed.any(axis=0))

    def knowing(self, rows) -> GapFiller:
        """Return a filler that knows images and copies."""
        step = -(-len(rows) // self.most)
        return self._replace(rows=rows[::step].astype(np.float32))

    def _like(self, X):
        """Return the means of the rows nearest to the observed pixels of images."""
        if self.rows is None:
            return np.broadcast_to(self.mean_image, X.shape)
        observed, count = ~np.isnan(X), min(self.nearest, len(self.rows))
        gaps = observed @ (self.rows**2).T
        gaps -= 2.0 * np.where(observed, X, 0.0) @ self.rows.T
        nearest = np.argpartition(gaps, count - 1, axis=1)[:, :count]
        like = self.rows[nearest].mean(axis=1, dtype=float)
        return np.where(observed.any(axis=1)[:, None], like, self.mean_image)

    def fill(self, X) -> np.ndarray:
        """Fill the gaps of standardised images in place."""
        X[:, ~self.observed] = np.nan
        gappy = np.flatnonzero(np.isnan(X).any(axis=1))
        for row, like in zip(gappy, self._like(X[gappy]), strict=True):
            observed = ~np.isnan(X[row])
            excess = np.where(observed, X[row] - like, 0.0)
            pair = np.stack([excess, observed])
            pair = pair.reshape(2, self.n_channels, *self.image_shape)
            sds = (0.0, 0.0, *[self.neighbours] * len(self.image_shape))
            excess, mass = gaussian_filter(pair, sds, mode="constant").reshape(2, -1)
            near = like + excess / (mass + self.least_mass)
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
