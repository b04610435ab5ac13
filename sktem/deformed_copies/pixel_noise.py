"""The noise of single pixels, which is not the same in neighbours."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

__all__ = ["pixel_noise"]

#: Quantile of the second differences that is taken for noise. Texture and edges, which
#: are no noise, are seldom everywhere.
QUANTILE = 0.05


def pixel_noise(X, image_shape, n_channels=1) -> np.ndarray:
    """Return the standard deviation of pixels' noise, one for each channel.

    Second differences along all axes leave noise and what is sharp. A low quantile of
    their absolute values overlooks what is sharp, unless it is nearly everywhere, and
    is that of noise where all pixels have noise.

    Parameters
    ----------
    X : ndarray of shape (n, n_channels * n_pixels)
        Images, NaN where a pixel is missing.
    image_shape : tuple of int
        Pixels along each axis.
    n_channels : int, default=1
        Channels.

    Returns
    -------
    ndarray of shape (n_channels,)
        Standard deviations in the units of the images.
    """
    parts = np.split(X, n_channels, axis=1)
    return np.array([_noise_of_channel(part, image_shape) for part in parts])


def _noise_of_channel(X, image_shape):
    """Return the standard deviation of the noise of one channel."""
    rough = X.reshape(-1, *image_shape)
    for axis, n in enumerate(image_shape, start=1):
        if n > 2:
            rough = np.diff(rough, 2, axis=axis) / np.sqrt(6)
    magnitudes = np.abs(rough[~np.isnan(rough)])
    if not magnitudes.size:
        return 0.0
    return float(np.quantile(magnitudes, QUANTILE) / norm.ppf(0.5 + QUANTILE / 2))
