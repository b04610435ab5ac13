"""Features of images, and a kernel between them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from sktem.deformed_copies.features import OrientationFeatures
from sktem.deformed_copies.patterns import PatternFeatures
from sktem.images.usual import departures_of

__all__ = ["KernelWidths", "Similarity"]


class KernelWidths(NamedTuple):
    """Widths of the Gaussian kernels between features of unit norm.

    Attributes
    ----------
    places, values : float
        Factors of the squared distances of features by direction and place, and of the
        values of the pixels.
    patterns : float
        Factor of those of the patterns of signals.
    share : float
        Share of the kernel of patterns in that of signals.
    """

    places: float = 3.0
    values: float = 1.0
    patterns: float = 20.0
    share: float = 0.8


class Similarity:
    """Kernel between images of one to three axes.

    A sum of Gaussian kernels: unlike a product, it lets any of them show two images to
    be alike. They are of features by direction and place
    (:class:`~sktem.deformed_copies.features.OrientationFeatures`), of the values of the
    pixels, and for signals of their patterns, wherever these are
    (:class:`~sktem.deformed_copies.patterns.PatternFeatures`).

    Parameters
    ----------
    image_shape : tuple of int
        Pixels along each axis.
    n_channels : int, default=1
        Channels.
    noise : array-like of shape (n_channels,) or float, default=0.0
        Standard deviations of the noise of single pixels.
    relative : bool, default=False
        Whether the brightness is that above the border of an image.
    values : float, default=0.0
        Share of the kernel of the values of the pixels.
    widths : KernelWidths, default=KernelWidths()
        Widths of the kernels.
    """

    def __init__(
        self,
        image_shape,
        n_channels=1,
        noise=0.0,
        relative=False,
        values=0.0,
        widths=None,
    ):
        shape = tuple(image_shape)
        self.widths = widths = KernelWidths() if widths is None else widths
        patterns = widths.share if len(shape) == 1 else 0.0
        gradients = OrientationFeatures(shape, n_channels, noise, relative).transform
        pixels = partial(
            values_of, image_shape=shape, n_channels=n_channels, relative=relative
        )
        shapes = PatternFeatures(shape[0], n_channels).transform
        parts = (
            (gradients, widths.places, (1 - values) * (1 - patterns)),
            (pixels, widths.values, values),
            (shapes, widths.patterns, (1 - values) * patterns),
        )
        self.parts = [part for part in parts if part[-1] > 0]

    def features(self, images) -> list:
        """Return the features of images, an array for each kernel."""
        return [transform(images) for transform, *_ in self.parts]

    def kernel(self, rows, others=None) -> np.ndarray:
        """Return the kernel between features of images and of others, or themselves."""
        total: Any = 0.0
        for i, (_, width, share) in enumerate(self.parts):
            other = None if others is None else others[i]
            kernel = rbf_kernel(rows[i], other, gamma=width)
            kernel *= share
            kernel += total
            total = kernel
        return total

    def distances(self, kernel) -> np.ndarray:
        """Return squared distances to the nearest of others, from kernels with them.

        They are between features by place, if these alone made the kernel.
        """
        nearest = kernel.max(axis=1).astype(float)
        return -np.log(np.maximum(nearest, 1e-300)) / self.widths.places


def values_of(images, image_shape, n_channels, relative):
    """Return values of pixels whose squared distances are means over the pixels."""
    if relative:
        excess, _ = departures_of(images, image_shape, n_channels)
        images = excess.reshape(images.shape)
    return images / np.sqrt(images.shape[1])
