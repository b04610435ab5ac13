"""Gradient-orientation features, which small displacements change little."""

from __future__ import annotations

from functools import cached_property
from itertools import product

import numpy as np

__all__ = ["OrientationFeatures"]

#: Cells along each axis of images and volumes with as many pixels, and along signals;
#: the standard deviation of a cell in spacings of the cells.
CELLS, CELLS_OF_SIGNALS, CELL_SD = 5, 24, 0.525

#: Standard deviation of the gradient in sixteenths of the longest side, and in pixels
#: at least; in signals.
GRADIENT_SD, LEAST_GRADIENT_SD, GRADIENT_SD_OF_SIGNALS = 0.55, 0.275, 0.2

#: Power of the cosine between a gradient and a direction, and of what a cell adds up in
#: images and volumes, and in signals.
SHARPNESS, COMPRESSION, COMPRESSION_OF_SIGNALS = 9, 0.25, 0.5

#: Weight of the brightness of all cells together.
BRIGHTNESS = 0.15

#: How far the smoothing reaches, in its standard deviations, and gradients that are
#: rounding errors, as a share of the largest value of an image.
REACH, LEAST_GRADIENT = 4.0, 1e-9

#: Images whose channels are computed at once.
IMAGES_AT_ONCE = 256


class OrientationFeatures:
    """Amounts of gradient by direction and place, for images of one to three axes.

    The gradient of an image, smoothed by a Gaussian, is shared out among the directions
    to the neighbours of a pixel (two for signals, eight for images, 26 for volumes);
    each channel is averaged by Gaussian windows about the cells of a regular grid. The
    averages, compressed by a power, have unit norm, so that neither offset nor gain of
    the image changes them. Signals have more cells, and beside the gradients, at the
    same weight, the averages of their values, centred and of unit norm. The brightness
    of the cells comes last, with a small weight: it separates images without edges.

    Amounts of gradient are added up over several channels, so that an edge counts
    whatever its colours; signals keep them apart. The brightness is that of all
    channels. Channels that are all alike are worth one.
    """

    def __init__(self, image_shape, n_channels=1):
        self.image_shape = tuple(image_shape)
        self.n_channels = n_channels
        self.is_signal = len(self.image_shape) == 1

    @cached_property
    def directions(self) -> np.ndarray:
        """Unit vectors, of shape (n_directions, n_axes)."""
        steps = product((-1.0, 0.0, 1.0), repeat=len(self.image_shape))
        vectors = np.array([step for step in steps if any(step)])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    @cached_property
    def _matrices(self):
        """Smoothing, derivative and windows of each axis, (n or n_cells, n)."""
        sixteenths = GRADIENT_SD_OF_SIGNALS if self.is_signal else GRADIENT_SD
        sd = max(sixteenths * max(self.image_shape) / 16, LEAST_GRADIENT_SD)
        found = []
        for n in self.image_shape:
            beyond = int(np.ceil(REACH * sd))
            gap = np.subtract.outer(np.arange(n), np.arange(-beyond, n + beyond))
            smooth = np.exp(-0.5 * (gap / sd) ** 2) * (np.abs(gap) <= beyond)
            smooth /= smooth.sum(axis=1, keepdims=True)
            # The derivative of a ramp is its slope.
            slope = -gap * smooth
            slope /= np.maximum((slope * -gap).sum(axis=1, keepdims=True), 1e-300)
            cells = min(CELLS_OF_SIGNALS if self.is_signal else CELLS, n)
            centres = (np.arange(cells) + 0.5) * n / cells - 0.5
            window = np.subtract.outer(centres, np.arange(n)) / (CELL_SD * n / cells)
            window = np.exp(-0.5 * window**2)
            window /= window.sum(axis=1, keepdims=True)
            smooth, slope = (_at_the_border(m, beyond) for m in (smooth, slope))
            found.append((smooth, slope, window))
        return found

    def transform(self, images) -> np.ndarray:
        """Return the features of images."""
        parts = [
            self._transform(images[start : start + IMAGES_AT_ONCE])
            for start in range(0, len(images), IMAGES_AT_ONCE)
        ]
        return np.concatenate(parts)

    def _transform(self, rows):
        images = rows.reshape(-1, *self.image_shape)
        n = len(images) // self.n_channels
        n_axes = len(self.image_shape)
        gradient = []
        for along in range(n_axes):
            part = images
            for axis, (smooth, slope, _) in enumerate(self._matrices):
                matrix = slope if axis == along else smooth
                part = np.moveaxis(
                    np.tensordot(part, matrix, (axis + 1, 1)), -1, axis + 1
                )
            gradient.append(part)
        slopes = np.stack(gradient, axis=-1)
        size = np.linalg.norm(slopes, axis=-1, keepdims=True)
        largest = np.abs(images).max(axis=tuple(range(1, n_axes + 1)), keepdims=True)
        size = np.where(size > LEAST_GRADIENT * largest[..., None], size, 0.0)
        cosines = slopes @ self.directions.T / np.where(size > 0, size, 1.0)
        channels = size * np.maximum(cosines, 0.0) ** SHARPNESS
        cells, amounts = self._in_cells(images), self._in_cells(channels)
        if self.is_signal:
            values = cells - cells.mean(axis=1, keepdims=True)
            values[np.ptp(images, axis=1) <= LEAST_GRADIENT * largest[:, 0]] = 0.0
            edges = _of_unit_norm((amounts**COMPRESSION_OF_SIGNALS).reshape(n, -1))
            values = _of_unit_norm(values.reshape(n, -1))
            features = [edges / np.sqrt(2), values / np.sqrt(2)]
        else:
            total = amounts.reshape(n, self.n_channels, -1).sum(axis=1)
            features = [_of_unit_norm(total**COMPRESSION)]
        cells = cells.reshape(n, -1)
        return np.hstack([*features, BRIGHTNESS / np.sqrt(cells.shape[1]) * cells])

    def _in_cells(self, values):
        """Return averages in the cells, one row for each image."""
        for axis, (_, _, window) in enumerate(self._matrices):
            values = np.tensordot(values, window, (axis + 1, 1))
            values = np.moveaxis(values, -1, axis + 1)
        return values.reshape(len(values), -1)


def _of_unit_norm(rows):
    """Return rows of norm one, or zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


def _at_the_border(matrix, beyond):
    """Return a matrix for pixels from one for them and copies of those at the ends."""
    n = len(matrix)
    inner = matrix[:, beyond : beyond + n].copy()
    inner[:, 0] += matrix[:, :beyond].sum(axis=1)
    inner[:, -1] += matrix[:, beyond + n :].sum(axis=1)
    return inner
