"""Pixels, landmarks and Gaussian kernels of images with one to three axes."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
from scipy.linalg import solve_banded

from sktem.template.geometry.products import BandedGrams, along_axes, fixed_points
from sktem.template.kernels.field import Grid, new_grid
from sktem.template.kernels.modes import Pairs, new_pairs

__all__ = ["ImageGrid"]


class ImageGrid:
    """Geometry of a class of images: everything that does not depend on data.

    Coordinates are pixels, with the centre of the image at 0. A template is ``I(x) =
    sum_k K_p(x, p_k) beta_k`` and a displacement field ``Phi(x) = sum_g K_g(x, g)
    z_g``, with Gaussian kernels at landmarks on product grids.

    Parameters
    ----------
    image_shape : tuple of int
        Pixels along each of one to three axes.
    template_landmarks : tuple of int
        Landmarks of the template along each axis.
    deformation_landmarks : tuple of int
        Landmarks of the displacements along each axis.
    template_scale : float
        Standard deviation of the template's kernel, in pixels.
    deformation_width : float
        Standard deviation of the displacements' kernel, in pixels.
    margin : float, default=0.5
        How far the template's landmarks extend beyond the image, as a share of half the
        longest side.
    n_channels : int, default=1
        Number of channels, which share their displacements. They are panels of one
        template, one after the other along the first axis and too far apart to overlap.

    Attributes
    ----------
    nodes_per_scale : float
        Nodes of the template's spline per standard deviation of its kernel. The error
        of the spline falls with the fourth power.
    spline_reach : float
        How far the spline extends beyond the landmarks, in standard deviations.
    jitter : float
        Ridge on the Gram matrix of the displacements, whose diagonal is one.
    n_axes, n_pixels, n_template, n_places, n_latents : int
        Numbers of axes, of pixels in all channels, of landmarks of the template and of
        the displacements, and of coordinates of a deformation, ``n_axes * n_places``.
    """

    nodes_per_scale = 4.0
    spline_reach = 4.0
    jitter = 1e-8

    def __init__(
        self,
        image_shape,
        template_landmarks,
        deformation_landmarks,
        template_scale,
        deformation_width,
        margin=0.5,
        n_channels=1,
    ):
        self.image_shape = tuple(image_shape)
        self.n_channels = int(n_channels)
        self.n_axes = len(self.image_shape)
        self.n_pixels = self.n_channels * int(np.prod(self.image_shape))
        self.deformation_landmarks = tuple(deformation_landmarks)
        self.template_scale = float(template_scale)
        self.deformation_width = float(deformation_width)
        self.n_places = int(np.prod(self.deformation_landmarks))
        self.n_latents = self.n_axes * self.n_places
        self.half_widths = [(m - 1) / 2 for m in self.image_shape]
        reach = margin * longest_half(self.image_shape)
        self.pixel_axes = [
            np.arange(m) - half
            for m, half in zip(self.image_shape, self.half_widths, strict=True)
        ]
        pairs = zip(self.half_widths, template_landmarks, strict=True)
        self.template_axes = [_nodes(half + reach, count) for half, count in pairs]
        self.plane_axes = list(self.pixel_axes)
        if self.n_channels > 1:
            self._add_panels()
        self.template_landmarks = tuple(len(nodes) for nodes in self.template_axes)
        self.n_template = int(np.prod(self.template_landmarks))
        pairs = zip(self.half_widths, self.deformation_landmarks, strict=True)
        self.deformation_axes = [_nodes(half, count) for half, count in pairs]

    def _add_panels(self):
        """Extend the first axis of the template by panels for further channels."""
        nodes, pixels = self.template_axes[0], self.pixel_axes[0]
        scale = self.template_scale
        spacing = nodes[1] - nodes[0] if len(nodes) > 1 else scale
        gap = int(np.ceil(self.spline_reach * scale / spacing))
        period = len(nodes) + gap
        # Panels have the same neighbourhood: none of them lies at an end.
        places = np.arange(-gap, period * self.n_channels)
        shifts = period * spacing * np.arange(self.n_channels)
        self.template_axes[0] = nodes[0] + spacing * places
        self.plane_axes[0] = np.add.outer(shifts, pixels).ravel()

    def __getstate__(self):
        # Derived arrays are made again: kernels are compiled for writable arrays, and
        # those of a memory map would have them compiled once more.
        kinds = vars(type(self))
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(kinds.get(name), cached_property)
        }

    @cached_property
    def pixels(self) -> np.ndarray:
        """Coordinates of the pixels in the template, of shape (n_axes, n_pixels)."""
        return _mesh(self.plane_axes)

    @property
    def points(self) -> np.ndarray:
        """Coordinates of the pixels of one channel, (n_axes, pixels of a channel)."""
        return _mesh(self.pixel_axes)

    @cached_property
    def _kernels(self):
        """Kernels of displacements per axis, padded to three axes, (pixels, places)."""
        kernels = [np.ones((1, 1))] * (3 - self.n_axes)
        for pixels, places in zip(self.pixel_axes, self.deformation_axes, strict=True):
            kernels.append(gaussian(pixels, places, self.deformation_width))
        first = 3 - self.n_axes
        kernels[first] = np.tile(kernels[first], (self.n_channels, 1))
        return kernels

    @cached_property
    def _table_axes(self):
        """First node and number of nodes of the spline along each axis."""
        spacing = 1 / self.cells_per_pixel
        reach = self.spline_reach * self.template_scale
        axes = []
        for nodes in self.template_axes:
            count = int(np.ceil((nodes[-1] - nodes[0] + 2 * reach) / spacing)) + 5
            middle = (nodes[0] + nodes[-1]) / 2
            axes.append((middle - (count - 1) / 2 * spacing, count))
        return axes

    @property
    def cells_per_pixel(self) -> float:
        """Cells of the spline in one pixel."""
        return self.nodes_per_scale / self.template_scale

    @cached_property
    def compiled(self) -> Grid:
        """The geometry as compiled kernels want it."""
        positions = [np.zeros(3 - self.n_axes)]
        for pixels, (first, _) in zip(self.plane_axes, self._table_axes, strict=True):
            positions.append((pixels - first) * self.cells_per_pixel)
        return new_grid(
            self._kernels,
            np.concatenate(positions),
            self.cells_per_pixel,
            self.n_axes,
            self._flow(),
        )

    def _flow(self):
        """Return a factory of flows, None without velocities."""

    @cached_property
    def pairs(self) -> Pairs:
        """Products of the kernels of two landmarks, for Gauss-Newton matrices."""
        products, index = [], np.zeros((1, 1), dtype=np.int64)
        for kernel in self._kernels:
            first, second = np.triu_indices(kernel.shape[1])
            products.append((kernel[:, first] * kernel[:, second]).T)
            number = np.zeros((kernel.shape[1],) * 2, dtype=np.int64)
            number[first, second] = number[second, first] = np.arange(len(first))
            index = index[:, None, :, None] * len(first) + number[:, None]
            index = index.reshape((len(index) * len(number),) * 2)
        return new_pairs(products, index)

    @cached_property
    def _spline_factors(self):
        """Matrices that turn template coefficients into those of a cubic spline."""
        factors = []
        spacing = 1 / self.cells_per_pixel
        for nodes, (first, count) in zip(
            self.template_axes, self._table_axes, strict=True
        ):
            values = gaussian(
                first + spacing * np.arange(count), nodes, self.template_scale
            )
            bands = np.full((3, count), 1 / 6)
            bands[1] = 4 / 6
            factors.append(solve_banded((1, 1), bands, values))
        return factors

    def table(self, coefficients) -> np.ndarray:
        """Return the template as a cubic spline.

        Parameters
        ----------
        coefficients : ndarray of shape (n_template,)
            Template coefficients beta.

        Returns
        -------
        ndarray of shape (n0, n1, n2)
            B-spline coefficients; leading axes that the images lack have length 1.
        """
        values = coefficients.reshape(self.template_landmarks)
        for factor in self._spline_factors:
            values = np.tensordot(values, factor, axes=(0, 1))
        shape = (1,) * (3 - self.n_axes) + values.shape
        return np.ascontiguousarray(values.reshape(shape))

    def field(self, Z, points=None) -> np.ndarray:
        """Return displacement fields.

        Parameters
        ----------
        Z : ndarray of shape (n, n_latents)
            Deformations.
        points : list of ndarray or None, default=None
            Coordinates along each axis; None means the pixels.

        Returns
        -------
        ndarray of shape (n, n_axes, ...)
            Displacements in pixels along each axis, on the grid of the points.
        """
        mesh = self.points if points is None else _mesh(points)
        fields = [self.field_at(z, mesh) for z in np.asarray(Z, dtype=float)]
        shape = self.image_shape if points is None else tuple(map(len, points))
        return np.reshape(fields, (len(fields), self.n_axes, *shape))

    def field_at(self, z, positions) -> np.ndarray:
        """Return the displacement at any positions.

        Parameters
        ----------
        z : ndarray of shape (n_latents,)
            A deformation.
        positions : ndarray of shape (n_axes, n)
            Positions in pixels.

        Returns
        -------
        ndarray of shape (n_axes, n)
            Displacements in pixels.
        """
        return self.expanded_at(z, positions)

    def _kernels_at(self, positions):
        """Return the kernels of the displacements along each axis, (n, landmarks)."""
        return _gaussians(positions, self.deformation_axes, self.deformation_width)

    def expanded_at(self, z, positions) -> np.ndarray:
        """Return sums of kernels at any positions, (n_axes, n) of one deformation.

        Those of several deformations follow each other.
        """
        values = np.reshape(z, (-1, *self.deformation_landmarks))
        return _sums(values, self._kernels_at(positions))

    def slopes_at(self, z, positions) -> np.ndarray:
        """Return the derivatives of the sums by positions, (n_axes, n_axes, n)."""
        values = z.reshape(self.n_axes, *self.deformation_landmarks)
        kernels, slopes = self._kernels_at(positions), []
        for axis, nodes in enumerate(self.deformation_axes):
            gaps = np.subtract.outer(positions[axis], nodes)
            slope = -gaps / self.deformation_width**2 * kernels[axis]
            factors = [*kernels[:axis], slope, *kernels[axis + 1 :]]
            slopes.append(_sums(values, factors))
        return np.stack(slopes, axis=1)

    def moved_at(self, z, positions) -> np.ndarray:
        """Return ``x - Phi(x)`` at any positions."""
        return positions - self.field_at(z, positions)

    def inverse_at(self, z, targets) -> np.ndarray:
        """Return positions x with ``x - Phi(x)`` at given targets."""
        return fixed_points(partial(self.expanded_at, z), targets, 0.5)

    def jacobians_at(self, z, positions) -> np.ndarray:
        """Return the determinants of the derivative of ``x - Phi(x)`` at positions."""
        unit = np.eye(self.n_axes)
        return np.linalg.det(unit - np.moveaxis(self.slopes_at(z, positions), 2, 0))

    def jacobians(self, Z) -> np.ndarray:
        """Return the Jacobian determinants of ``x - Phi(x)`` at the pixels.

        Parameters
        ----------
        Z : ndarray of shape (n, n_latents)
            Deformations.

        Returns
        -------
        ndarray of shape (n, pixels of a channel)
            Determinants; not positive where a deformation folds.
        """
        points = self.points
        values = [self.jacobians_at(z, points) for z in np.asarray(Z, dtype=float)]
        return np.reshape(values, (len(values), points.shape[1]))

    def template_at(self, coefficients, positions=None) -> np.ndarray:
        """Return the values of a template.

        Parameters
        ----------
        coefficients : ndarray of shape (n_template,)
            Template coefficients beta.
        positions : ndarray of shape (n_axes, n) or None, default=None
            Positions in pixels; None means the pixels.

        Returns
        -------
        ndarray of shape (n,)
            ``I(x)``.
        """
        at = self.pixels if positions is None else positions
        values = coefficients.reshape(1, *self.template_landmarks)
        return _sums(values, _gaussians(at, self.template_axes, self.template_scale))[0]

    def deformed(self, coefficients, z) -> np.ndarray:
        """Return a deformed template, ``I(x - Phi(x))``, at the pixels."""
        return self.template_at(coefficients, self.moved(z))

    def moved(self, z) -> np.ndarray:
        """Return ``x - Phi(x)`` at the pixels, of shape (n_axes, n_pixels)."""
        field = self.field_at(z, self.points)
        return self.pixels - np.tile(field, self.n_channels)

    def smoothed(self, coefficients) -> np.ndarray:
        """Return the product with the kernel between the template's landmarks."""
        values = coefficients.reshape(self.template_landmarks)
        scale = self.template_scale
        kernels = [gaussian(nodes, nodes, scale) for nodes in self.template_axes]
        return along_axes(kernels, values).ravel()

    @cached_property
    def grams(self) -> BandedGrams:
        """Gram matrices of the template."""
        return BandedGrams(self)

    @cached_property
    def template_nodes(self) -> np.ndarray:
        """First node, spacing and number of nodes per axis, padded to three axes."""
        nodes = np.tile([0.0, 1.0, 1.0], (3, 1))
        for row, axis in zip(nodes[3 - self.n_axes :], self.template_axes, strict=True):
            row[:] = axis[0], axis[1] - axis[0] if len(axis) > 1 else 1.0, len(axis)
        return nodes

    def principal(self, factor, k):
        """Return the principal deformations, and their shares of the variance.

        Columns of the factor are independent deformations of unit variance.
        """
        fields = self.expanded_at(factor.T, self.points).reshape(self.n_latents, -1)
        left, values, _ = np.linalg.svd(fields, full_matrices=False)
        Z, squares = (factor @ left[:, :k]).T, values**2
        # The sign is free: make the largest coefficient positive.
        largest = Z[np.arange(len(Z)), np.abs(Z).argmax(axis=1)]
        return Z * np.sign(largest)[:, None], squares[:k] / squares.sum()

    @cached_property
    def smooth_covariance(self) -> np.ndarray:
        """Covariance of landmarks that makes displacements a field of unit variance.

        ``K_g^-1`` along each axis, of shape (n_latents, n_latents).
        """
        gram = np.ones((1, 1))
        for nodes in self.deformation_axes:
            gram = np.kron(gram, gaussian(nodes, nodes, self.deformation_width))
        covariance = np.linalg.inv(gram + self.jitter * np.eye(len(gram)))
        return np.kron(np.eye(self.n_axes), (covariance + covariance.T) / 2)

    @property
    def n_middle(self) -> int:
        """Number of mid-points of the template's landmarks."""
        return int(np.prod([2 * count - 1 for count in self.template_landmarks]))


def longest_half(image_shape) -> float:
    """Return half of the longest side in pixels, at least half a pixel."""
    return max((max(image_shape) - 1) / 2, 0.5)


def gaussian(x, nodes, scale):
    """Return ``exp(-(x - node)^2 / (2 scale^2))``, one column per node."""
    return np.exp(-0.5 * (np.subtract.outer(x, nodes) / scale) ** 2)


def _mesh(axes):
    mesh = np.meshgrid(*axes, indexing="ij")
    return np.stack([axis.ravel() for axis in mesh])


def _nodes(half, count):
    return np.linspace(-half, half, count) if count > 1 else np.zeros(1)


def _gaussians(positions, axes, scale):
    """Return kernels between positions and the nodes along each axis, (n, n_nodes)."""
    pairs = zip(positions, axes, strict=True)
    return [gaussian(along, nodes, scale) for along, nodes in pairs]


def _sums(values, kernels):
    """Return sums of products of kernels along the axes, (n_sums, n).

    Values have the shape (n_sums, nodes along the first axis, ...).
    """
    total = np.tensordot(values, kernels[0], axes=(1, 1))
    for kernel in kernels[1:]:
        total = np.einsum("xb...u,ub->x...u", total, kernel)
    return total
