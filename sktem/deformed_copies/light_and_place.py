"""Contrasts and places of training images, to which new images are brought."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.ndimage import shift

from sktem.images.usual import centres_of, departures_of

__all__ = ["LightAndPlace"]


class LightAndPlace(NamedTuple):
    """Ranges of the contrasts and centres of standardised training images.

    The contrast of an image is the median of its departures from its background,
    weighted by themselves; its centre is that of the departures which exceed noise.

    Attributes
    ----------
    image_shape : tuple of int
        Pixels along each axis.
    noise : ndarray of shape (n_channels,)
        Standard deviations of the noise of pixels.
    contrasts : ndarray of shape (2,)
        Least and largest contrast.
    centres : ndarray of shape (2, n_axes)
        Least and largest centre along each axis, in pixels.
    margin : float
        Pixels by which centres of new images may be out of range.
    factor : float
        Factor by which contrasts may be out of range.
    deviations : float
        Standard deviations of the noise that departures have to exceed.
    levels, places : int
        Contrasts, and places along each axis, that are tried, at most.
    """

    image_shape: tuple
    noise: np.ndarray
    contrasts: np.ndarray
    centres: np.ndarray
    margin: float
    factor: float = 1.12
    deviations: float = 3.0
    levels: int = 8
    places: int = 3

    @classmethod
    def of(cls, X, image_shape, noise, shifts) -> LightAndPlace:
        """Return the ranges of images without gaps, whose copies have such shifts."""
        none = np.zeros((2, len(image_shape)))
        ranges = cls(image_shape, noise, none[:, 0], none, max(shifts, 0.5))
        excess, _ = ranges._departures(X)
        contrasts, centres = _contrasts(excess), ranges._centres(excess)
        ends = np.fmin.reduce, np.fmax.reduce
        return ranges._replace(
            contrasts=np.array([end(contrasts) for end in ends]),
            centres=np.array([end(centres) for end in ends]),
        )

    def judged(self, X, judge, fill, any_contrast, whole=True):
        """Return scores and distances of images brought into the ranges.

        Images of a contrast out of range get those in it at which they are nearest to
        the training images. Images that are out of place are moved if they are nearer
        then. What comes into the frame is background, or it is filled, since the frame
        may have cut an object.

        Parameters
        ----------
        X : ndarray of shape (n, n_channels * n_pixels)
            Standardised images, which are overwritten.
        judge : callable
            Returns scores and distances of images.
        fill : callable
            Fills pixels that are NaN.
        any_contrast : bool
            Whether contrasts say nothing of the classes.
        whole : bool or ndarray of bool of shape (n,), default=True
            Which images have no holes, which would say where their centres are.
        """
        scores, distances = judge(X)

        def take_nearer(index, images):
            others, nearer = judge(images)
            better = nearer < distances[index]
            chosen = index[better]
            X[chosen], scores[chosen] = images[better], others[better]
            distances[chosen] = nearer[better]

        least, largest = self.contrasts
        excess, background = self._departures(X)
        contrasts = _contrasts(excess)
        out = (contrasts < least / self.factor) | (contrasts > self.factor * largest)
        index = np.flatnonzero(out & (contrasts > 0.0) & (least > 0.0) & any_contrast)
        if len(index):
            distances[index] = np.inf
            for level in self._tried():
                factors = (level / contrasts[index])[:, None, None]
                images = background[index] + factors * excess[index]
                take_nearer(index, images.reshape(len(index), -1))
            excess, background = self._departures(X)
        whole = np.broadcast_to(whole, len(X))[:, None]
        centres = np.where(whole, self._centres(excess), np.nan)
        for (index, moves), entering in product(self._moves(centres), (0.0, np.nan)):
            images = np.empty_like(excess[index])
            for row, (i, move) in enumerate(zip(index, moves, strict=True)):
                image = excess[i].reshape(-1, *self.image_shape)
                image = shift(image, (0.0, *move), order=1, cval=entering)
                images[row] = background[i] + image.reshape(excess[i].shape)
            take_nearer(index, fill(images.reshape(len(index), -1)))
        return scores, distances

    def _tried(self):
        """Return contrasts to try, from the least to the largest."""
        least, largest = self.contrasts
        n_steps = np.ceil(np.log(largest / least) / np.log(self.factor))
        return np.geomspace(least, largest, min(int(n_steps) + 1, self.levels))

    def _departures(self, X):
        """Return departures of pixels from backgrounds, and these, of each channel."""
        return departures_of(X, self.image_shape, len(self.noise))

    def _centres(self, excess):
        """Return centres of images, NaN where nothing exceeds noise."""
        limits = self.deviations * self.noise[:, None]
        return centres_of(excess, self.image_shape, limits)

    def _moves(self, centres):
        """Yield indices of images out of place, and pixels by which to move them.

        Each of them comes with all moves that are tried.
        """
        far = np.abs(np.clip(centres, *self.centres) - centres) > self.margin
        if not far.any():
            return
        counts = np.minimum(np.ceil(np.ptp(self.centres, axis=0)) + 1, self.places)
        targets = map(np.linspace, *self.centres, counts.astype(int))
        for places in product(*map(enumerate, targets)):
            first, target = np.array(places).T
            index = np.flatnonzero((far | (first == 0)).all(axis=1) & far.any(axis=1))
            if len(index):
                yield index, np.where(far, np.rint(target - centres), 0.0)[index]


def _contrasts(excess):
    """Return the contrasts of images."""
    sizes = np.sort(np.abs(excess.reshape(len(excess), -1)), axis=1)
    masses = np.cumsum(sizes, axis=1)
    places = (masses < 0.499999 * masses[:, -1:]).sum(axis=1)
    return sizes[np.arange(len(sizes)), places]
