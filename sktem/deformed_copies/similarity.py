"""Features of images, and a kernel between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from sktem.deformed_copies.features import OrientationFeatures
from sktem.deformed_copies.patterns import PatternFeatures

__all__ = ["KernelWidths", "Similarity"]


class KernelWidths(NamedTuple):
    """Widths of the Gaussian kernels between features of unit norm.

    Attributes
    ----------
    places : float
        Factor of the squared distances of features by direction and place.
    patterns : float
        Factor of those of the patterns of signals.
    share : float
        Share of the kernel of patterns in that of signals.
    """

    places: float = 3.0
    patterns: float = 20.0
    share: float = 0.8


class Similarity:
    """Kernel between images of one to three axes.

    It is Gaussian in the features by direction and place
    (:class:`~sktem.deformed_copies.features.OrientationFeatures`). For signals a
    Gaussian kernel in their patterns, wherever these are
    (:class:`~sktem.deformed_copies.patterns.PatternFeatures`), is added: a sum of
    kernels, unlike a product, lets either of them tell two signals to be alike.

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
    widths : KernelWidths, default=KernelWidths()
        Widths of the kernels.
    """

    def __init__(
        self, image_shape, n_channels=1, noise=0.0, relative=False, widths=None
    ):
        self.image_shape = tuple(image_shape)
        self.n_channels = n_channels
        self.widths = KernelWidths() if widths is None else widths
        self.parts: list = [
            OrientationFeatures(image_shape, n_channels, noise, relative)
        ]
        if len(self.image_shape) == 1:
            self.parts.append(PatternFeatures(self.image_shape[0], n_channels))

    def features(self, images) -> np.ndarray:
        """Return the features of images."""
        features = [part.transform(images) for part in self.parts]
        return np.concatenate(features, axis=1) if len(features) > 1 else features[0]

    def kernel(self, rows, others=None) -> np.ndarray:
        """Return the kernel between features of images and of others, or themselves."""
        widths = self.widths
        if len(self.parts) == 1:
            return rbf_kernel(rows, others, gamma=widths.places)
        n, both = self.parts[1].n_features, (rows, others)
        places = [operand if operand is None else operand[:, :-n] for operand in both]
        patterns = [operand if operand is None else operand[:, -n:] for operand in both]
        kernel = rbf_kernel(*places, gamma=widths.places)
        kernel *= 1 - widths.share
        kernel += widths.share * rbf_kernel(*patterns, gamma=widths.patterns)
        return kernel

    def distances(self, kernel) -> np.ndarray:
        """Return squared distances to the nearest of others, from kernels with them.

        They are between features by place, if these alone made the kernel.
        """
        nearest = kernel.max(axis=1).astype(float)
        return -np.log(np.maximum(nearest, 1e-300)) / self.widths.places
