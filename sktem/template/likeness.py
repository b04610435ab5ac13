"""How alike images are: their features, and a kernel between them."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from sktem.template.features import OrientationFeatures
from sktem.template.patterns import PatternFeatures

__all__ = ["Likeness"]

#: Widths of the Gaussian kernels between features of unit norm (the factors of their
#: squared distances): by place, and of patterns.
GAMMA, GAMMA_OF_PATTERNS = 3.0, 20.0

#: Share of the kernel of patterns in that of signals.
SHARE_OF_PATTERNS = 0.8


class Likeness:
    """Kernel between images of one to three axes.

    It is Gaussian in the features by direction and place
    (:class:`~sktem.template.features.OrientationFeatures`). For signals a Gaussian
    kernel in their patterns, wherever these are
    (:class:`~sktem.template.patterns.PatternFeatures`), is added: a sum of kernels,
    unlike a product, lets either of them tell two signals to be alike.

    Parameters
    ----------
    image_shape : tuple of int
        Pixels along each axis.
    n_channels : int, default=1
        Channels.
    noise : array-like of shape (n_channels,) or float, default=0.0
        Standard deviations of the noise of single pixels.
    """

    def __init__(self, image_shape, n_channels=1, noise=0.0):
        self.image_shape = tuple(image_shape)
        self.n_channels = n_channels
        self.parts: list = [OrientationFeatures(image_shape, n_channels, noise)]
        if len(self.image_shape) == 1:
            self.parts.append(PatternFeatures(self.image_shape[0], n_channels))

    def features(self, images):
        """Return the features of images."""
        found = [part.transform(images) for part in self.parts]
        return np.concatenate(found, axis=1) if len(found) > 1 else found[0]

    def kernel(self, rows, others=None):
        """Return the kernel between features of images and of others, or themselves."""
        if len(self.parts) == 1:
            return rbf_kernel(rows, others, gamma=GAMMA)
        n, both = self.parts[1].n_features, (rows, others)
        places = [one if one is None else one[:, :-n] for one in both]
        patterns = [one if one is None else one[:, -n:] for one in both]
        kernel = rbf_kernel(*places, gamma=GAMMA)
        kernel *= 1 - SHARE_OF_PATTERNS
        kernel += SHARE_OF_PATTERNS * rbf_kernel(*patterns, gamma=GAMMA_OF_PATTERNS)
        return kernel

    def distances(self, kernel):
        """Return squared distances to the nearest of others, from kernels with them.

        They are between features by place, if these alone made the kernel.
        """
        nearest = kernel.max(axis=1).astype(float)
        return -np.log(np.maximum(nearest, 1e-300)) / GAMMA
