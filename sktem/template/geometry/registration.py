"""Registrations between a template and images, of pixels and points."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates

from sktem.choices import check_number
from sktem.template.geometry.grid import ImageGrid
from sktem.validation import without_mask

__all__ = ["Registration"]


def _interpolated(image, places, order):
    """Return values of an image at places; a spline goes through 0 where one is NaN."""
    if order == 0:
        index = np.floor(places + 0.5).astype(np.int64)
        last = np.array(image.shape)[:, None] - 1
        return image[tuple(np.clip(index, 0, last))]
    missing = np.isnan(image)
    if order == 1 or not missing.any():
        return map_coordinates(image, places, order=order, mode="nearest")
    filled = np.where(missing, 0.0, image)
    values = map_coordinates(filled, places, order=order, mode="nearest")
    near = np.where(missing, np.nan, 0.0)
    return values + map_coordinates(near, places, order=1, mode="nearest")


class Registration(NamedTuple):
    """Map of the places of a template to images, and back.

    Places are in pixels along each axis, as in indices of arrays: 0 is the centre of
    the first pixel. The template is that of ``templates_``, at the mean deformation.

    Attributes
    ----------
    grid : ImageGrid
        Geometry.
    deformations : ndarray of shape (n_images, n_latents)
        Deformations of the images.
    means : ndarray of shape (n_images, n_latents)
        Those at which the templates of the images are shown.
    nuisances : dict of str to ndarray
        Translations, rotations, scales, gains and offsets of the images, as far as the
        estimator has them. The first three are part of the deformations.
    """

    grid: ImageGrid
    deformations: np.ndarray
    means: np.ndarray
    nuisances: dict[str, np.ndarray] | None = None

    def _ends(self, inverse):
        """Return deformations from which and to which places are carried."""
        ends = (self.means, self.deformations)
        return zip(*(ends[::-1] if inverse else ends), strict=True)

    def _carried(self, start, end, positions):
        """Return where positions lie, in coordinates of the grid."""
        return self.grid.inverse_at(end, self.grid.moved_at(start, positions))

    @property
    def _centre(self):
        return np.array(self.grid.half_widths)[:, None]

    def warp_points(self, points, *, inverse=False):
        """Carry points from the template to every image.

        Parameters
        ----------
        points : array-like of shape (n_points, n_axes) or (n_images, n_points, n_axes)
            Places in the template, or in the images with ``inverse``; the same ones
            for all images, or those of each.
        inverse : bool, default=False
            From the images to the template.

        Returns
        -------
        ndarray of shape (n_images, n_points, n_axes)
            Their places in the images, or in the template.
        """
        points = np.asarray(points, dtype=float)
        n, n_axes = len(self.deformations), self.grid.n_axes
        if points.ndim not in (2, 3) or points.shape[-1] != n_axes:
            raise ValueError(
                f"points must have shape (n_points, {n_axes}) or (n_images, n_points, "
                f"{n_axes}), got {points.shape}"
            )
        if points.ndim == 3 and len(points) != n:
            raise ValueError(f"points are of {len(points)} images instead of {n}")
        points = np.broadcast_to(points, (n, *points.shape[-2:]))
        carried = np.empty(points.shape)
        for row, (start, end) in enumerate(self._ends(inverse)):
            positions = points[row].T - self._centre
            carried[row] = (self._carried(start, end, positions) + self._centre).T
        return carried

    def displacements(self, *, inverse=False):
        """Return how far every pixel of the template lies from its place in an image.

        Parameters
        ----------
        inverse : bool, default=False
            How far every pixel of an image lies from its place in the template.

        Returns
        -------
        ndarray of shape (n_images, n_axes, ...)
            Displacements in pixels along each axis: ``warp_points(x) - x``.
        """
        points, shape = self.grid.points, (self.grid.n_axes, *self.grid.image_shape)
        fields = [
            self._carried(start, end, points) - points
            for start, end in self._ends(inverse)
        ]
        return np.reshape(fields, (-1, *shape))

    def jacobians(self, *, inverse=False):
        """Return the Jacobian determinants of the places, which are ratios of areas.

        Parameters
        ----------
        inverse : bool, default=False
            Of the places in the template, at the pixels of the images.

        Returns
        -------
        ndarray of shape (n_images, ...)
            Above 1 where the image is larger than the template; not positive at folds.
        """
        grid, ratios = self.grid, []
        for start, end in self._ends(inverse):
            there = self._carried(start, end, grid.points)
            here = grid.jacobians_at(start, grid.points)
            ratios.append(here / grid.jacobians_at(end, there))
        return np.reshape(ratios, (-1, *grid.image_shape))

    def warp(self, other, *, inverse=False, order=1, channel_axis=None):
        """Carry images, masks or labels from the template to every image.

        Parameters
        ----------
        other : array-like of shape image_shape, (n_pixels,), or those of n_images
            What belongs to the template, or to the images with ``inverse``: the same
            for all, or one for each.
        inverse : bool, default=False
            From the images to the template.
        order : int, default=1
            Order of the interpolating spline, 0 to 5: 0 for labels and masks, which
            keep their dtype.
        channel_axis : int or None, default=None
            Axis of ``other`` along which channels lie.

        Returns
        -------
        ndarray of shape (n_images, ...)
            What was carried along, as rows where ``other`` has rows. Beyond the border
            the nearest pixel counts; NaN where what counts is NaN.
        """
        check_number("order", order, Integral, 0)
        if order > 5:
            raise ValueError(f"order must be at most 5, got {order}")
        n, other = len(self.deformations), without_mask(other)
        shape = self.grid.image_shape
        if channel_axis is None:
            stack = other[..., None]
        else:
            check_number("channel_axis", channel_axis, Integral, -other.ndim)
            if channel_axis >= other.ndim:
                raise ValueError(
                    f"channel_axis={channel_axis} is no axis of other, which has "
                    f"{other.ndim}"
                )
            axis = channel_axis % other.ndim
            stack = np.moveaxis(other, axis, -1)
        lead, n_pixels = stack.shape[:-1], int(np.prod(shape))
        is_single = lead in (shape, (n_pixels,))
        if not is_single and lead not in ((n, *shape), (n, n_pixels)):
            raise ValueError(
                f"other must hold one image{f' or {n} images' if n > 1 else ''} of "
                f"shape {shape} or {n_pixels} pixels as rows, got shape {other.shape}; "
                "channels need channel_axis"
            )
        if is_single:
            stack = np.broadcast_to(stack, (n, *stack.shape))
        dtype = stack.dtype if order == 0 else np.float64
        images = stack.reshape(n, *shape, -1).astype(dtype, copy=False)
        warped = np.empty(images.shape, dtype)
        for row, (start, end) in enumerate(self._ends(not inverse)):
            places = self._carried(start, end, self.grid.points) + self._centre
            for channel in range(images.shape[-1]):
                values = _interpolated(images[row, ..., channel], places, order)
                warped[row, ..., channel] = values.reshape(shape)
        warped = warped.reshape(stack.shape)
        if channel_axis is None:
            return warped[..., 0]
        return np.moveaxis(warped, -1, axis + is_single)
