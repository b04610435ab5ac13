"""Images on arrays of other namespaces, such as tensors of torch on a GPU.

Images and what is computed from their pixels stay where they are; landmarks, statistics
and random draws, which are small, are NumPy arrays on both sides.
"""

from __future__ import annotations

import copy
from functools import partial

import numpy as np

from sktem.arrays import NUMPY, TensorRows, arrays_of, input_arrays
from sktem.template.kernels.draws import fill_draws
from sktem.template.kernels.field import parts_of
from sktem.template.tensor_fields import displacements_on
from sktem.template.tensor_splines import (
    values_and_slopes,
    values_and_slopes_roughly,
)

#: Exponent of the kernels of places so far apart that they add nothing.
LEAST_POWER = -40.0

__all__ = [
    "TensorImages",
    "clipped",
    "deformed_templates",
    "images_at_once",
    "in_light",
    "in_unit_light",
    "in_units",
    "observed_arrays",
    "observed_counts",
    "observed_sums",
    "rows_with_gaps",
    "square_gaps",
]


def images_at_once(X, grid, usual) -> int:
    """Return the images of a block, the usual number for those of NumPy."""
    if not isinstance(X, TensorRows):
        return usual
    widest = grid.n_pixels * grid.values_per_pixel
    return X.rows_at_once(max(widest, grid.n_latents**2))


def observed_counts(X) -> np.ndarray:
    """Return the numbers of observed pixels of images."""
    if not isinstance(X, TensorRows):
        return (~np.isnan(X)).sum(axis=1)
    arrays = arrays_of(X.values)
    seen = arrays.astype(~arrays.xp.isnan(X.values), arrays.xp.int64)
    return arrays.to_numpy(arrays.xp.sum(seen, axis=1))


def observed_arrays(X, images):
    """Return operations, observed pixels, X and images with zeros elsewhere."""
    if not isinstance(X, TensorRows):
        seen = ~np.isnan(X)
        return NUMPY, seen, np.where(seen, X, 0.0), np.where(seen, images, 0.0)
    arrays = arrays_of(X.values)
    seen, none = ~arrays.xp.isnan(X.values), arrays.xp.zeros_like(X.values)
    images = images.values if isinstance(images, TensorRows) else images
    both = X.values, none + arrays.asarray(images, X.values.dtype)
    return arrays, seen, *(arrays.xp.where(seen, one, none) for one in both)


def observed_sums(X, values) -> np.ndarray:
    """Return the sums of what belongs to the observed pixels of images."""
    if not isinstance(X, TensorRows):
        return ~np.isnan(X) @ values
    arrays = arrays_of(X.values)
    seen = arrays.astype(~arrays.xp.isnan(X.values), arrays.xp.float64)
    return arrays.to_numpy(seen @ arrays.asarray(values))


def rows_with_gaps(X) -> np.ndarray:
    """Return the indices of images with pixels that were not observed."""
    if not isinstance(X, TensorRows):
        return np.flatnonzero(np.isnan(X).any(axis=1))
    arrays = arrays_of(X.values)
    missing = arrays.xp.any(arrays.xp.isnan(X.values), axis=1)
    return np.flatnonzero(arrays.to_numpy(missing))


def in_units(X, offset, scale):
    """Return images less an offset, divided by a scale, each one or one per pixel."""
    if not isinstance(X, TensorRows):
        return (X - offset) / scale
    send = partial(arrays_of(X.values).asarray, dtype=X.values.dtype)
    return TensorRows((X.values - send(offset)) / send(scale))


def square_gaps(X, image) -> np.ndarray:
    """Return the sums of squared differences between images and one image."""
    if not isinstance(X, TensorRows):
        return np.nansum((X - image) ** 2, axis=1)
    arrays = arrays_of(X.values)
    gaps = X.values - arrays.asarray(image, X.values.dtype)
    gaps = arrays.xp.where(arrays.xp.isnan(gaps), arrays.xp.zeros_like(gaps), gaps)
    return arrays.to_numpy(arrays.xp.sum(gaps**2, axis=1))


def in_light(images, lights):
    """Return arrays of images with gains and offsets, (n, 2), if there are any."""
    if lights is None:
        return images
    arrays = arrays_of(images)
    gain, offset = (arrays.asarray(lights[:, k : k + 1], images.dtype) for k in (0, 1))
    return gain * images + offset


def in_unit_light(X, gain, offset):
    """Return images of gain one and offset zero, given theirs, (n,)."""
    if not isinstance(X, TensorRows):
        return (X - offset[:, None]) / gain[:, None]
    send = arrays_of(X.values).asarray
    gain, offset = (send(one[:, None], X.values.dtype) for one in (gain, offset))
    return TensorRows((X.values - offset) / gain)


def clipped(X):
    """Return images whose squares do not overflow."""
    if not isinstance(X, TensorRows):
        return np.clip(X, -1e100, 1e100)
    largest = 1e15 if X.dtype == np.float32 else 1e100
    return TensorRows(arrays_of(X.values).xp.clip(X.values, -largest, largest))


class TensorImages:
    """Residuals of images at given landmarks, and what follows from them.

    Arrays of pixels have three axes after those named, of length one where images have
    fewer axes. If `rough`, the table has the `expansions` of a template with one or two
    axes.
    """

    def __init__(self, Y, grid, table=None, noise_variance=1.0, rough=False):
        self.arrays, self.dtype = arrays_of(Y.values), Y.values.dtype
        self.n_axes, self.scale = int(grid.n_axes), float(grid.scale)
        kernels, at = parts_of(grid)
        m = self.pixels = tuple(len(kernel) for kernel in kernels)
        self.places = tuple(kernel.shape[1] for kernel in kernels)
        self.displacements = displacements_on(grid, self.send, self.arrays)
        self.positions = [
            self.send(np.reshape(at[k], np.where(np.arange(4) == k + 1, -1, 1)))
            for k in range(3 - self.n_axes, 3)
        ]
        self.table, self.rough = None if table is None else self.send(table), rough
        xp = self.arrays.xp
        y = xp.reshape(Y.values, (len(Y), *m))
        self.seen = ~xp.isnan(y)
        self.y = xp.where(self.seen, y, xp.zeros_like(y))
        #: Of the noise, one for all or one of each image.
        self.variance = self.send(np.broadcast_to(noise_variance, len(Y)))

    def send(self, values):
        """Return an array of NumPy as one of the images' kind."""
        return self.arrays.asarray(np.ascontiguousarray(values), self.dtype)

    def chosen(self, rows):
        """Return some of the images."""
        found = copy.copy(self)
        found.seen = self.arrays.take(self.seen, rows)
        found.y = self.arrays.take(self.y, rows)
        found.variance = self.arrays.take(self.variance, rows)
        return found

    def fields(self, z):
        """Return displacements, (n, n_axes, pixels)."""
        return self.displacements.follow(z)[0]

    def residuals(self, z):
        """Return residuals (n, pixels), and slopes (n, n_axes, pixels).

        Behind the slopes, along the same axis, are the positions between the steps of
        flows.
        """
        xp, (fields, path) = self.arrays.xp, self.displacements.follow(z)
        places = [
            position - self.scale * fields[:, axis, ...]
            for axis, position in enumerate(self.positions)
        ]
        evaluated = values_and_slopes_roughly if self.rough else values_and_slopes
        value, *slopes = evaluated(xp, self.table, places)
        none = xp.zeros_like(value)
        slopes = [xp.where(self.seen, self.scale * slope, none) for slope in slopes]
        slopes = xp.concat([xp.stack(slopes, axis=1), *path], axis=1)
        return xp.where(self.seen, self.y - value, none), slopes

    def tables(self, places, nodes, precision):
        """Return kernels of places and nodes along each axis, (n * pixels, nodes)."""
        xp, found = self.arrays.xp, []
        for axis, (first, spacing, count) in enumerate(nodes[3 - self.n_axes :]):
            gaps = xp.reshape(places[:, axis, ...], (-1, 1))
            gaps = gaps - self.send(first + spacing * np.arange(count))
            powers = -0.5 * precision * gaps**2
            # Less is nothing in a sum, and no normal number in products of float32.
            kernels = xp.exp(xp.clip(powers, LEAST_POWER, 0.0))
            found.append(xp.where(powers > LEAST_POWER, kernels, xp.zeros_like(powers)))
        return found

    def squares(self, residual):
        """Return sums of squared residuals, (n,)."""
        return self.arrays.xp.sum(residual**2, axis=(1, 2, 3))

    def _slopes_and_path(self, slopes):
        """Return the slopes and the positions behind them."""
        parts = [
            slopes[:, start : start + self.n_axes, ...]
            for start in range(0, slopes.shape[1], self.n_axes)
        ]
        return parts[0], parts[1:]

    def pull(self, z, residual, slopes):
        """Return the pull of the residuals on the landmarks, (n, n_latents)."""
        slopes, path = self._slopes_and_path(slopes)
        return self.displacements.pull(z, slopes * residual[:, None, ...], path)

    def curvature(self, z, slopes, pairs):
        """Return Gauss-Newton matrices of the residuals, (n, n_latents, n_latents)."""
        return self.displacements.curvature(z, *self._slopes_and_path(slopes), pairs)

    def draws(self, seed, numbers, stride, after, counts):
        """Return the normal and the uniform draws of rounds: see ``fill_draws``."""
        if (numbers == numbers[0]).all():  # the same for all images
            numbers = numbers[:1]
        n_rounds, n_normals, n_uniforms = counts
        normals = np.empty((len(numbers), n_rounds, n_normals))
        uniforms = np.empty((len(numbers), n_rounds, n_uniforms))
        fill_draws(np.uint64(seed), numbers, stride, after, normals, uniforms)
        return self.send(normals), self.send(uniforms)

    def accepted(self, log_ratio):
        """Return acceptance probabilities; NaN rejects."""
        xp = self.arrays.xp
        chance = xp.exp(xp.clip(log_ratio, -700.0, 0.0))
        return xp.where(log_ratio > -700.0, chance, xp.zeros_like(chance))

    def merged(self, taken, new, old):
        """Return arrays of which some images take new values."""
        xp = self.arrays.xp
        return [
            xp.where(xp.reshape(taken, (-1, *(1,) * (one.ndim - 1))), one, two)
            for one, two in zip(new, old, strict=True)
        ]


def deformed_templates(grid, coefficients, Z, components, like):
    """Return deformed templates at the pixels.

    Parameters
    ----------
    grid : ImageGrid
        Geometry.
    coefficients : ndarray of shape (n_components, n_template)
        Template coefficients beta.
    Z : ndarray of shape (n, n_latents)
        Deformations.
    components : ndarray of int of shape (n,)
        Which templates.
    like : object
        If it is a tensor under dispatch, the result is of its type and device.

    Returns
    -------
    array of shape (n, n_pixels)
        Images.
    """
    arrays, parts = input_arrays(like), []
    if arrays.is_numpy:
        found = np.empty((len(Z), grid.n_pixels))
        for row, t in enumerate(components):
            found[row] = grid.deformed(coefficients[t], Z[row])
        return found
    one = TensorRows(arrays.full((1, grid.n_pixels), 0.0, like.dtype))
    size, order = images_at_once(one, grid, 1), np.argsort(components, kind="stable")
    for t in np.unique(components):
        beta = coefficients[t].reshape(grid.template_landmarks)
        own = np.flatnonzero(components == t)
        for rows in np.split(own, range(size, len(own), size)):
            blank = arrays.full((len(rows), grid.n_pixels), 0.0, like.dtype)
            images = TensorImages(TensorRows(blank), grid.compiled)
            pixels = images.send(grid.pixels.reshape(grid.n_axes, *images.pixels))
            places = pixels - images.fields(images.send(Z[rows]))
            precision = grid.template_scale**-2
            tables = images.tables(places, grid.template_nodes, precision)
            values = _contracted(images, beta, tables)
            parts.append(arrays.xp.reshape(values, (len(rows), -1)))
    return arrays.take(arrays.concat(parts), np.argsort(order))


def _contracted(images, values, tables):
    """Return ``einsum("abc,ua,ub,uc->u", values, *tables)`` for up to three tables."""
    xp, (first, *rest) = images.arrays.xp, tables
    if not rest:
        return first @ images.send(values)
    if len(rest) == 1:
        return xp.sum((first @ images.send(values)) * rest[0], axis=1)
    planes = [_contracted(images, plane, rest) for plane in values]
    return xp.sum(xp.stack(planes, axis=1) * first, axis=1)
