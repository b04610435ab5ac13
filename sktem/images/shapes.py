"""Conversion of users' arrays to rows of pixels and the shape of the images."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from sktem.arrays import input_arrays
from sktem.images.pictures import refuse_picture
from sktem.validation import without_mask

__all__ = ["Layout", "border_of", "is_flat", "resolved_shape", "rows_of"]

#: Rows of fewer numbers are too short for a picture: no square means a signal.
LEAST_PIXELS = 32

#: How much more alike neighbours along a row of pixels are than those across rows
#: where rows are signals.
RATIO_OF_SIGNALS = 3.0


class Layout(NamedTuple):
    """Axes of images in the arrays of the user; rows have channels first.

    Attributes
    ----------
    image_shape : tuple of int
        Pixels along each axis.
    n_channels : int
        Channels, 1 if ``channel_axis`` is None.
    channel_axis : int or None
        Axis of the channels in a stack of images.
    """

    image_shape: tuple
    n_channels: int = 1
    channel_axis: int | None = None

    def check_channels(self, n_channels):
        """Raise if images have another number of channels."""
        if self.channel_axis is not None and n_channels != self.n_channels:
            raise ValueError(
                f"images with {n_channels} channels along axis {self.channel_axis}; "
                f"those of the fit had {self.n_channels}"
            )

    def stack_of(self, rows, flat):
        """Return rows of the model as images, or as rows of the user."""
        n = len(rows)
        if self.channel_axis is not None:
            rows = rows.reshape(n, self.n_channels, *self.image_shape)
            rows = np.moveaxis(rows, 1, self.channel_axis)
        elif not flat:
            rows = rows.reshape(n, *self.image_shape)
        return rows.reshape(n, -1) if flat else rows


def is_flat(X):
    """Return whether images are given as rows."""
    n_axes = getattr(X, "ndim", None)
    return (np.asarray(X).ndim if n_axes is None else n_axes) == 2


def border_of(image_shape):
    """Return a mask of the pixels along the border of images."""
    border = np.zeros(image_shape, dtype=bool)
    for axis in range(border.ndim):
        np.moveaxis(border, axis, 0)[[0, -1]] = True
    return border


def refuse_tensors(X):
    """Raise if X is a tensor under scikit-learn's array API dispatch."""
    if not input_arrays(X).is_numpy:
        raise TypeError(
            "images must be arrays of NumPy, got a tensor of the type "
            f"{type(X).__module__}.{type(X).__qualname__}: pass numpy.asarray(X), or "
            "X.cpu().numpy() for tensors on a GPU"
        )


def rows_of(X, image_shape, channel_axis=None):
    """Return images as rows, their shape if known, and their number of channels."""
    refuse_tensors(X)
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    if np.dtype(getattr(X, "dtype", float)).kind in "US":
        raise ValueError("images must be numbers, got strings: convert them first")
    if channel_axis is not None:
        return _rows_with_channels(without_mask(X), image_shape, channel_axis)
    if getattr(X, "ndim", 2) <= 2:
        sides, shape = tuple(np.ravel(image_shape)), tuple(getattr(X, "shape", ()))
        if len(sides) == 2 and shape == sides and sides[0] > 1:
            raise ValueError(
                f"X of shape {X.shape} is a single image: pass X[np.newaxis], a stack"
            )
        if image_shape is None and len(shape) == 2:
            refuse_picture(X)
        return X, None, 1
    X = without_mask(X)
    shape = tuple(X.shape[1:])
    if image_shape is None and shape[1:] == (1,):
        refuse_picture(X)
    if len(shape) > 2:
        shape = _without_channels(shape, image_shape)
    _check_shape(shape, image_shape, X.shape[1:])
    return X.reshape(len(X), prod(X.shape[1:])), shape, 1


def _check_shape(shape, image_shape, full):
    if image_shape is not None and tuple(np.atleast_1d(image_shape)) != shape:
        raise ValueError(
            f"image_shape is {image_shape!r}, but the images have shape {full}"
        )


def _rows_with_channels(X, image_shape, channel_axis):
    """Return images with channels as rows that have the channels first."""
    if X.ndim == 2:
        if image_shape is None:
            raise ValueError("rows of pixels with channels need image_shape")
        sides = tuple(np.atleast_1d(image_shape).tolist())
        n_channels, rest = divmod(X.shape[1], max(int(np.prod(sides)), 1))
        if rest or n_channels == 0:
            raise ValueError(
                f"rows of {X.shape[1]} numbers are no images of shape {sides} with "
                "several channels"
            )
        axis = _axis_of_channels(channel_axis, len(sides) + 2)
        sizes = (X.shape[0], *sides[: axis - 1], n_channels, *sides[axis - 1 :])
        X = X.reshape(sizes)
    X = np.moveaxis(X, _axis_of_channels(channel_axis, X.ndim), 1)
    shape = tuple(X.shape[2:])
    _check_shape(shape, image_shape, shape)
    return X.reshape(len(X), prod(X.shape[1:])), shape, X.shape[1]


def _axis_of_channels(channel_axis, n_axes):
    if not -n_axes < channel_axis < n_axes or channel_axis == 0:
        raise ValueError(
            f"channel_axis must be an axis of the stack of images other than the "
            f"first, got {channel_axis!r} for {n_axes} axes"
        )
    return channel_axis % n_axes


def _without_channels(shape, image_shape):
    """Return the shape of images or volumes; colours are refused."""
    if image_shape is not None and tuple(np.atleast_1d(image_shape)) == shape:
        return shape
    long = tuple(side for side in shape if side > 1)
    if len(long) < len(shape):
        return long if len(long) > 1 else shape[:2]
    channels = [side for side in (shape[0], shape[-1]) if side in (2, 3, 4)]
    if len(shape) == 3 and channels and min(sorted(shape)[1:]) > 4:
        raise ValueError(
            f"images of shape {shape} look like pictures with {channels[-1]} channels: "
            "they are taken with channel_axis; or pass "
            f"image_shape={shape} if they are thin volumes"
        )
    return shape


def resolved_shape(X, image_shape, shape):
    """Return the shape of images given as rows."""
    n_pixels = X.shape[1]
    if shape is None and image_shape is not None:
        sides = np.ravel(image_shape)
        if not np.issubdtype(sides.dtype, np.integer):
            raise ValueError(
                "image_shape must hold the numbers of pixels along the axes, got "
                f"{image_shape!r}"
            )
        shape = tuple(sides.tolist())
        if int(np.prod(shape)) != n_pixels or min(shape) < 1:
            raise ValueError(
                f"image_shape={image_shape!r} does not fit rows of {n_pixels} pixels"
            )
    if shape is None:
        shape = _shape_of_rows(X)
    if len(shape) > 3:
        raise ValueError(f"images have one to three axes, got shape {shape}")
    return tuple(int(side) for side in shape)


def _shape_of_rows(X):
    """Return a square or a short signal; anything else must be stated."""
    n_pixels = X.shape[1]
    side = round(np.sqrt(n_pixels))
    if side * side != n_pixels:
        if n_pixels < LEAST_PIXELS:
            return (n_pixels,)
        raise ValueError(
            f"rows of {n_pixels} pixels are no square images: pass "
            f"image_shape=({n_pixels},) for signals, or the pixels along each axis, "
            "image_shape=(height, width), for images"
        )
    if n_pixels >= LEAST_PIXELS and (
        _are_signals(X, side) or _are_signals(_mean_row(X), side)
    ):
        raise ValueError(
            f"the rows of {n_pixels} pixels look like signals, not like images of "
            f"{side} x {side}: pass image_shape=({n_pixels},) for signals, or "
            f"image_shape=({side}, {side}) for images"
        )
    return (side, side)


def _mean_row(X):
    """Return the mean of the rows, which has less noise, as one row."""
    finite = np.isfinite(X)
    total = np.where(finite, X / max(len(X), 1), 0.0).sum(axis=0)
    share = finite.mean(axis=0)
    return np.where(share > 0, total / np.where(share > 0, share, 1.0), np.nan)[None]


def _are_signals(X, side):
    """Return whether rows change slowly along themselves, and as much at row ends.

    In an image the pixels above each other are about as alike as those next to each
    other, or else the end of a row of pixels differs from the start of the next.
    """
    size = np.nanmax(np.abs(X), initial=0.0, where=np.isfinite(X))
    if not size > 0:
        return False
    unit = X / size

    def change(gaps):
        finite = gaps[np.isfinite(gaps)]
        return float((finite**2).mean()) if finite.size else np.nan

    steps = np.diff(unit, axis=1)
    at_ends = np.zeros(X.shape[1] - 1, dtype=bool)
    at_ends[side - 1 :: side] = True
    beside, ends = change(steps[:, ~at_ends]), change(steps[:, at_ends])
    above = change(unit[:, side:] - unit[:, :-side])
    off = 0.5 * (
        change(unit[:, side - 1 :] - unit[:, : 1 - side])
        + change(unit[:, side + 1 :] - unit[:, : -side - 1])
    )
    slow = beside > 0 and above > RATIO_OF_SIGNALS * beside
    # The distance of one row of pixels is no special one.
    return bool(slow and ends**2 < beside * above and above > 0.9 * off)
