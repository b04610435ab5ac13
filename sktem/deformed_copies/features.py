"""Gradient-orientation features, which small displacements change little."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from math import sqrt
from typing import NamedTuple

import numpy as np

from sktem.images.shapes import border_of

__all__ = ["OF_SIGNALS", "OrientationFeatures", "of_unit_norm"]


class OrientationRule(NamedTuple):
    """Sizes of the features.

    Attributes
    ----------
    cells : int
        Cells along each axis with as many pixels.
    cell_sd : float
        Standard deviation of a cell, in spacings of the cells.
    gradient_sd, least_gradient_sd : float
        Standard deviation of the gradient in sixteenths of the longest side, and in
        pixels, at least.
    sharpness : float
        Power of the cosine between a gradient and a direction.
    compression : float
        Power of what a cell adds up.
    noise_variances : float
        Variances of a gradient of noise alone at which a gradient counts half.
    brightness : float
        Weight of the brightness of all cells together.
    values, least_side : float
        Share of the values among the features, and the longest side from which on
        images do without.
    reach : float
        How far the smoothing reaches, in its standard deviations.
    least_gradient : float
        Gradients below this share of the largest value of an image are rounding errors.
    images_at_once : int
        Images whose channels are computed at once.
    """

    cells: int = 5
    cell_sd: float = 0.525
    gradient_sd: float = 0.55
    least_gradient_sd: float = 0.275
    sharpness: float = 9
    compression: float = 0.25
    noise_variances: float = 10.0
    brightness: float = 0.15
    values: float = 0.3
    least_side: float = 8
    reach: float = 4.0
    least_gradient: float = 1e-9
    images_at_once: int = 256


OF_IMAGES = OrientationRule()
OF_SIGNALS = OrientationRule(
    cells=24, gradient_sd=0.2, compression=0.5, values=0.5, least_side=np.inf
)


class OrientationFeatures:
    """Amounts of gradient by direction and place, for images of one to three axes.

    The gradient of an image, smoothed by a Gaussian, is shared out among the directions
    to the neighbours of a pixel (two for signals, eight for images, 26 for volumes);
    each channel is averaged by Gaussian windows about the cells of a regular grid. The
    averages, compressed by a power, have unit norm, so that neither offset nor gain of
    the image changes them. Signals have more cells, and beside the gradients, at the
    same weight, the averages of their values, centred and of unit norm; images of fewer
    than eight pixels a side have their pixels so, at a lower weight. The brightness of
    the cells comes last, with a small weight: it separates images without edges.

    Amounts of gradient are added up over several channels, so that an edge counts
    whatever its colours; signals keep them apart. The brightness is that of all
    channels. Channels that are all alike are worth one.

    The power lifts weak gradients, which matter where images are clean, and would be
    noise where they are not: gradients that the noise of the pixels explains are made
    smaller.

    Parameters
    ----------
    image_shape : tuple of int
        Pixels along each axis.
    n_channels : int, default=1
        Channels.
    noise : array-like of shape (n_channels,) or float, default=0.0
        Standard deviations of the noise of single pixels.
    relative : bool, default=False
        Whether the brightness is that above the median along the border of an image, so
        that nothing depends on an offset of the image.
    """

    def __init__(self, image_shape, n_channels=1, noise=0.0, relative=False):
        self.image_shape = tuple(image_shape)
        self.n_channels = n_channels
        self.noise = np.broadcast_to(np.asarray(noise, dtype=float), n_channels)
        self.relative = relative
        self.is_signal = len(self.image_shape) == 1
        self.rule = OF_SIGNALS if self.is_signal else OF_IMAGES

    @cached_property
    def directions(self) -> np.ndarray:
        """Unit vectors, of shape (n_directions, n_axes)."""
        steps = product((-1.0, 0.0, 1.0), repeat=len(self.image_shape))
        vectors = np.array([step for step in steps if any(step)])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    @cached_property
    def _matrices(self):
        """Smoothing, derivative and windows of each axis, (n or n_cells, n)."""
        rule, matrices = self.rule, []
        sd = max(rule.gradient_sd * max(self.image_shape) / 16, rule.least_gradient_sd)
        for n in self.image_shape:
            beyond = int(np.ceil(rule.reach * sd))
            gap = np.subtract.outer(np.arange(n), np.arange(-beyond, n + beyond))
            smooth = np.exp(-0.5 * (gap / sd) ** 2) * (np.abs(gap) <= beyond)
            smooth /= smooth.sum(axis=1, keepdims=True)
            # The derivative of a ramp is its slope.
            slope = -gap * smooth
            slope /= np.maximum((slope * -gap).sum(axis=1, keepdims=True), 1e-300)
            cells = min(rule.cells, n)
            centres = (np.arange(cells) + 0.5) * n / cells - 0.5
            window = np.subtract.outer(centres, np.arange(n)) / (
                rule.cell_sd * n / cells
            )
            window = np.exp(-0.5 * window**2)
            window /= window.sum(axis=1, keepdims=True)
            smooth, slope = (_at_the_border(m, beyond) for m in (smooth, slope))
            matrices.append((smooth, slope, window))
        return matrices

    @cached_property
    def _noise_of_gradients(self):
        """Variances that noise gives each derivative, (n_channels, n_pixels)."""
        n_axes = len(self.image_shape)
        variances = np.zeros(self.image_shape)
        for along in range(n_axes):
            part = np.ones(())
            for axis, (smooth, slope, _) in enumerate(self._matrices):
                matrix = slope if axis == along else smooth
                part = np.multiply.outer(part, (matrix**2).sum(axis=1))
            variances += part / n_axes
        return np.multiply.outer(self.noise**2, variances.ravel())

    def transform(self, images):
        """Return the features of images."""
        step, parts = self.rule.images_at_once, []
        for start in range(0, images.shape[0], step):
            parts.append(self._transform(images[start : start + step]))
        return np.concatenate(parts)

    def _transform(self, rows):
        images = rows.reshape(-1, *self.image_shape)
        n = images.shape[0] // self.n_channels
        rule, n_axes = self.rule, len(self.image_shape)
        gradient = []
        for along in range(n_axes):
            part = images
            for axis, (smooth, slope, _) in enumerate(self._matrices):
                matrix = slope if axis == along else smooth
                part = np.tensordot(part, matrix, axes=((axis + 1,), (1,)))
                part = np.moveaxis(part, -1, axis + 1)
            gradient.append(part)
        slopes = np.stack(gradient, axis=-1)
        size = _norms(slopes)
        axes = tuple(range(1, n_axes + 1))
        largest = np.max(np.abs(images), axis=axes, keepdims=True)
        zeros, ones = np.zeros_like(size), np.ones_like(size)
        size = np.where(size > rule.least_gradient * largest[..., None], size, zeros)
        cosines = slopes @ self.directions.T / np.where(size > 0, size, ones)
        if self.noise.any():
            limit = np.tile(rule.noise_variances * self._noise_of_gradients, (n, 1))
            squares = size**2
            rest = np.reshape(limit, size.shape) + squares
            size = size * squares / np.where(squares > 0, rest, ones)
        channels = size * np.clip(cosines, 0.0, None) ** rule.sharpness
        cells, amounts = self._in_cells(images), self._in_cells(channels)
        if not self.is_signal:
            amounts = np.sum(np.reshape(amounts, (n, self.n_channels, -1)), axis=1)
        edges = np.reshape(amounts**rule.compression, (n, -1))
        share = rule.values if max(self.image_shape) < rule.least_side else 0.0
        features = [sqrt(1 - share) * of_unit_norm(edges)]
        if share > 0:
            values = cells if self.is_signal else np.reshape(images, (len(images), -1))
            values = values - np.mean(values, axis=1, keepdims=True)
            flat = np.ptp(images, axis=axes) <= rule.least_gradient * largest.ravel()
            values = np.where(flat[:, None], np.zeros_like(values), values)
            features.append(sqrt(share) * of_unit_norm(np.reshape(values, (n, -1))))
        if self.relative:
            border = border_of(self.image_shape)
            cells = cells - np.median(images[:, border], axis=1)[:, None]
        cells = np.reshape(cells, (n, -1))
        brightness = rule.brightness / sqrt(cells.shape[1]) * cells
        return np.concatenate([*features, brightness], axis=1)

    def _in_cells(self, values):
        """Return averages in the cells, one row for each image."""
        for axis, (_, _, window) in enumerate(self._matrices):
            values = np.tensordot(values, window, axes=((axis + 1,), (1,)))
            values = np.moveaxis(values, -1, axis + 1)
        return np.reshape(values, (values.shape[0], -1))


def _norms(rows):
    """Return the norms along the last axis, which is kept."""
    return np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True))


def of_unit_norm(rows):
    """Return rows of norm one, or zero."""
    norms = _norms(rows)
    return rows / np.where(norms > 0, norms, np.ones_like(norms))


def _at_the_border(matrix, beyond):
    """Return a matrix for pixels from one for them and copies of those at the ends."""
    n = len(matrix)
    inner = matrix[:, beyond : beyond + n].copy()
    inner[:, 0] += matrix[:, :beyond].sum(axis=1)
    inner[:, -1] += matrix[:, beyond + n :].sum(axis=1)
    return inner
