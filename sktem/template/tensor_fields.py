"""Displacements of pixels on arrays of other namespaces, and what they pull back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from sktem.template.kernels.field import parts_of
from sktem.template.kernels.modes import products_of

__all__ = ["TensorFlows", "TensorSums", "displacements_on"]


def displacements_on(grid, send, arrays):
    """Return how landmarks displace pixels in a compiled geometry.

    Parameters
    ----------
    grid : Grid
        Geometry.
    send : callable
        Makes an array of the wanted kind from one of NumPy.
    arrays : NamespaceArrays
        Operations.
    """
    return (TensorFlows if grid.flow else TensorSums)(grid, send, arrays)


class TensorSums:
    """Displacements that are sums of kernels.

    Arrays of pixels have three axes after those named, as in
    :class:`~sktem.template.tensors.TensorImages`.
    """

    def __init__(self, grid, send, arrays):
        kernels, _ = parts_of(grid)
        self.arrays, self.send, self.n_axes = arrays, send, int(grid.n_axes)
        self.places = tuple(kernel.shape[1] for kernel in kernels)
        self.kernels = [send(kernel) for kernel in kernels]

    def follow(self, z):
        """Return displacements, (n, n_axes, pixels), and no positions on their way."""
        xp = self.arrays.xp
        values = xp.reshape(z, (z.shape[0], self.n_axes, *self.places))
        for kernel in self.kernels:
            values = xp.tensordot(values, kernel, axes=((2,), (1,)))
        return values, []

    def pull(self, z, slopes, path):
        """Return the pull of slopes at the pixels on the landmarks, (n, n_latents)."""
        xp = self.arrays.xp
        for kernel in self.kernels:
            slopes = xp.tensordot(slopes, kernel, axes=((2,), (0,)))
        return xp.reshape(slopes, (slopes.shape[0], -1))

    def curvature(self, z, slopes, path, pairs):
        """Return Gauss-Newton matrices of the residuals, (n, n_latents, n_latents)."""
        xp, places = self.arrays.xp, len(pairs.index)
        products = [self.send(part) for part in products_of(pairs)]
        blocks = {}
        for one, two in itertools.combinations_with_replacement(range(self.n_axes), 2):
            values = slopes[:, one, ...] * slopes[:, two, ...]
            for product in products:
                values = xp.tensordot(values, product, axes=((1,), (1,)))
            values = xp.reshape(values, (values.shape[0], -1))
            values = self.arrays.take_columns(values, pairs.index.ravel())
            block = xp.reshape(values, (values.shape[0], places, places))
            blocks[one, two] = blocks[two, one] = block
        axes = range(self.n_axes)
        rows = [xp.concat([blocks[one, two] for two in axes], axis=2) for one in axes]
        return xp.concat(rows, axis=1)


class TensorFlows:
    """Displacements along the flows of velocities: see ``kernels/flow.py``.

    Every image has positions of its own before every step, and kernels there. Those of
    the axes multiply, so that they are kept and summed up axis by axis.
    """

    def __init__(self, grid, send, arrays):
        flow = grid.flow[0]
        self.arrays, self.n_axes = arrays, int(grid.n_axes)
        self.n_steps, self.precision = int(flow.n_steps), flow.precision
        self.pixels = tuple(int(m) for m in (grid.m0, grid.m1, grid.m2))
        counts = [int(count) for count in (flow.count0, flow.count1, flow.count2)]
        self.counts = tuple(counts[: self.n_axes])

        def numbers(at, size):
            return grid.numbers[int(at) : int(at) + size]

        points = numbers(flow.points, self.n_axes * int(grid.n_pixels))
        self.points = send(points.reshape(1, self.n_axes, -1))
        first = numbers(flow.first, self.n_axes)
        spacing = numbers(flow.spacing, self.n_axes)
        self.nodes = [
            send((a + h * np.arange(count))[:, None])
            for a, h, count in zip(first, spacing, self.counts, strict=True)
        ]

    def follow(self, z):
        """Return displacements, (n, n_axes, pixels), and positions between the steps.

        These are a list of arrays of the same shape.
        """
        xp, path, at = self.arrays.xp, [], self.points
        velocities = xp.reshape(z, (z.shape[0], self.n_axes, *self.counts))
        for _ in range(self.n_steps):
            at = at - self._expanded(velocities, self._kernels(at)) / self.n_steps
            path.append(xp.reshape(at, (z.shape[0], self.n_axes, *self.pixels)))
        start = xp.reshape(self.points, (1, self.n_axes, *self.pixels))
        return start - path.pop(), path

    def pull(self, z, slopes, path):
        """Return the pull of slopes at the pixels on the landmarks, (n, n_latents)."""
        xp = self.arrays.xp
        total: Any = None
        for gradient, kernels in self._back(z, slopes, path):
            # Of the last axis by a product of matrices, which adds up over the pixels.
            left = gradient
            for axis, kernel in enumerate(kernels[:-1], start=2):
                left = left[..., None, :] * self._spread(kernel, axis)
            last = xp.permute_dims(kernels[-1], (0, 2, 1))
            rows = xp.reshape(left, (z.shape[0], -1, left.shape[-1]))
            part = xp.reshape(rows @ last, (z.shape[0], -1))
            total = part if total is None else total + part
        return total / self.n_steps

    def curvature(self, z, slopes, path, pairs):
        """Return Gauss-Newton matrices of the residuals, (n, n_latents, n_latents)."""
        xp = self.arrays.xp
        rows: Any = None
        for gradient, kernels in self._back(z, slopes, path):
            part = gradient
            for axis, kernel in enumerate(kernels, start=2):
                part = part[..., None, :] * self._spread(kernel, axis)
            rows = part if rows is None else rows + part
        rows = xp.reshape(rows, (*z.shape, -1)) / self.n_steps
        return rows @ xp.permute_dims(rows, (0, 2, 1))

    def _back(self, z, slopes, path):
        """Yield gradients at the positions after every step, and kernels before it."""
        xp, n = self.arrays.xp, z.shape[0]
        velocities = xp.reshape(z, (n, self.n_axes, *self.counts))
        gradient = xp.reshape(slopes, (n, self.n_axes, -1))
        start = self.points + xp.zeros_like(gradient)
        before = [start, *(xp.reshape(at, gradient.shape) for at in path)]
        for number, at in enumerate(reversed(before), start=1):
            kernels = self._kernels(at)
            yield gradient, kernels
            if number < self.n_steps:
                carried = []
                for along, nodes in enumerate(self.nodes):
                    gaps = at[:, along, None, :] - nodes
                    own = list(kernels)
                    own[along] = -self.precision * gaps * own[along]
                    slope = self._expanded(velocities, own)
                    carried.append(xp.sum(gradient * slope, axis=1))
                gradient = gradient - xp.stack(carried, axis=1) / self.n_steps

    def _kernels(self, positions):
        """Return kernels of positions and nodes along each axis, (n, nodes, pixels)."""
        xp, found = self.arrays.xp, []
        for along, nodes in enumerate(self.nodes):
            gaps = positions[:, along, None, :] - nodes
            found.append(xp.exp(-0.5 * self.precision * gaps**2))
        return found

    def _expanded(self, velocities, kernels):
        """Return sums of kernels with given coefficients, (n, n_axes, pixels)."""
        xp, (*first, last) = self.arrays.xp, kernels
        n, n_nodes, n_pixels = last.shape
        rows = xp.reshape(velocities, (velocities.shape[0], -1, n_nodes)) @ last
        values = xp.reshape(rows, (-1, *velocities.shape[1:-1], n_pixels))
        for axis in reversed(range(2, 2 + len(first))):
            spread = self._spread(first[axis - 2], axis)
            values = xp.sum(values * spread, axis=axis)
        return values

    def _spread(self, kernel, axis):
        """Return kernels of an axis with axes of length one between images and it."""
        n, n_nodes, n_pixels = kernel.shape
        shape = (n, *(1,) * (axis - 1), n_nodes, n_pixels)
        return self.arrays.xp.reshape(kernel, shape)
