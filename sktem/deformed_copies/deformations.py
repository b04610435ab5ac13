"""Random deformations of images, and copies of images under them."""

from __future__ import annotations

from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates

__all__ = ["Deformations", "Sizes", "kept_variance"]

#: Images that are warped at once.
IMAGES_AT_ONCE = 256

#: Relative variance below which directions of smooth fields are left out.
LEAST_VARIANCE = 1e-6


class Sizes(NamedTuple):
    """Standard deviations of random deformations.

    Attributes
    ----------
    scale : float
        Of the size, relative to it.
    stretch : float
        Of the lengths along the axes, relative to them, at the same size.
    rotation : float
        Of angles, in radians.
    shear : float
        Of displacements along one axis, relative to the distance along another.
    shift : float
        Of the place, in pixels.
    field : float
        Of smooth displacements, in pixels.
    """

    scale: float
    stretch: float
    rotation: float
    shear: float
    shift: float
    field: float

    @classmethod
    def usual(cls, image_shape) -> Sizes:
        """Return sizes that suit most images of objects."""
        n_axes, side = len(image_shape), max(image_shape)
        turned = 0.0 if n_axes == 1 else 0.25 / sqrt(2)
        stretch = 0.0 if n_axes == 1 else 0.13
        return cls(
            scale=0.13 / sqrt(n_axes),
            stretch=stretch,
            rotation=turned,
            shear=turned,
            shift=0.04 * side,
            field=0.6 * side / 16,
        )


class Deformations:
    """Distribution of displacement fields: linear maps, shifts and smooth fields.

    Parameters
    ----------
    image_shape : tuple of int
        Pixels along each axis.
    sizes : Sizes
        Standard deviations.
    width : float
        Distance in pixels over which smooth displacements are alike: they are Gaussian
        processes with the covariance ``exp(-d ** 2 / (2 * width ** 2))``.
    fields : ndarray of shape (n_fields, n_axes, *image_shape) or None, default=None
        Displacements whose random combinations take the place of smooth ones.
    """

    def __init__(self, image_shape, sizes, width, fields=None):
        self.image_shape = tuple(image_shape)
        self.sizes = sizes
        self.width = width
        self.fields = fields

    @cached_property
    def points(self) -> np.ndarray:
        """Coordinates of the pixels about the centre, (n_axes, n_pixels)."""
        axes = [np.arange(n) - (n - 1) / 2 for n in self.image_shape]
        return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")])

    @cached_property
    def _factors(self):
        """Factors of the covariances of smooth fields along each axis."""
        factors = []
        for n in self.image_shape:
            gaps = np.subtract.outer(np.arange(n), np.arange(n))
            values, vectors = np.linalg.eigh(np.exp(-0.5 * (gaps / self.width) ** 2))
            is_kept = values > LEAST_VARIANCE * values[-1]
            factors.append(vectors[:, is_kept] * np.sqrt(values[is_kept]))
        return factors

    @cached_property
    def _basis(self):
        """Given fields of mean square one, (n_fields, n_axes * n_pixels)."""
        fields = np.reshape(self.fields, (len(self.fields), -1))
        size = np.sqrt(np.mean(fields**2) * len(fields))
        return fields / size if size > 0 else fields

    def displacements(self, n, rng) -> np.ndarray:
        """Return displacements of the pixels, of shape (n, n_axes, n_pixels).

        The draws do not depend on the sizes.
        """
        n_axes = len(self.image_shape)
        if self.fields is not None:
            drawn = rng.standard_normal((n, len(self._basis))) @ self._basis
        else:
            ranks = [factor.shape[1] for factor in self._factors]
            drawn = rng.standard_normal((n, n_axes, *ranks))
            for factor in self._factors:
                drawn = np.tensordot(drawn, factor, axes=(2, 1))
        displacements = self.sizes.field * drawn.reshape(n, n_axes, -1)
        displacements += self.sizes.shift * rng.standard_normal((n, n_axes, 1))
        displacements += self._linear_maps(n, rng) @ self.points
        return displacements

    def _linear_maps(self, n, rng):
        """Return the deviations of linear maps from the identity."""
        n_axes, sizes = len(self.image_shape), self.sizes
        lengths = sizes.stretch * rng.standard_normal((n, n_axes))
        lengths -= lengths.mean(axis=1, keepdims=True)
        lengths += sizes.scale * rng.standard_normal((n, 1))
        maps = lengths[:, :, None] * np.eye(n_axes)
        turns, shears = rng.standard_normal((2, n, n_axes, n_axes))
        for raw, sign, size in ((turns, -1, sizes.rotation), (shears, 1, sizes.shear)):
            upper = size * np.triu(raw, 1)
            maps += upper + sign * upper.swapaxes(1, 2)
        return maps

    def copies(self, images, noise, rng) -> np.ndarray:
        """Return each image under a new deformation, the same for all its channels.

        Interpolation averages the noise of pixels. What it takes away is drawn anew, so
        that copies are as noisy as images.

        Parameters
        ----------
        images : ndarray of shape (n, n_channels * n_pixels)
            Images.
        noise : array-like of shape (n_channels,)
            Standard deviations of their pixels' noise.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of shape (n, n_channels * n_pixels)
            Copies.
        """
        noise, shape = np.asarray(noise)[:, None], self.image_shape
        centre = (np.array(shape)[:, None] - 1) / 2
        copies = np.empty_like(images)
        # What is beyond an image is its background, beyond a signal its last value.
        beyond = "nearest" if len(shape) == 1 else "grid-constant"
        for start in range(0, len(images), IMAGES_AT_ONCE):
            part = images[start : start + IMAGES_AT_ONCE]
            positions = self.points + centre - self.displacements(len(part), rng)
            for row, image in enumerate(part):
                copy = np.stack(
                    [
                        map_coordinates(channel, positions[row], order=1, mode=beyond)
                        for channel in image.reshape(len(noise), *shape)
                    ]
                )
                if noise.any():
                    lost = 1 - kept_variance(positions[row], shape)
                    copy += noise * np.sqrt(lost) * rng.standard_normal(copy.shape)
                copies[start + row] = copy.ravel()
        return copies


def kept_variance(positions, image_shape) -> np.ndarray:
    """Return the variance of linear interpolations of white noise of variance one.

    It is the sum of the squares of the weights: for each axis those of the two pixels
    around, where they are in the image. Signals end with their last value.

    Parameters
    ----------
    positions : ndarray of shape (n_axes, n)
        Positions in pixels.
    image_shape : tuple of int
        Pixels along each axis.

    Returns
    -------
    ndarray of shape (n,)
        Variances, between 0 and 1.
    """
    variance = np.ones(positions.shape[1])
    for position, n in zip(positions, image_shape, strict=True):
        if len(image_shape) == 1:
            position = np.clip(position, 0, n - 1)
        low = np.floor(position)
        share = position - low
        variance *= (1 - share) ** 2 * ((low >= 0) & (low < n)) + share**2 * (
            (low >= -1) & (low < n - 1)
        )
    return variance
