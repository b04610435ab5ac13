"""Copies of images under new deformations, as all classes together have them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.ndimage import map_coordinates

from sktem.template.grid import ImageGrid
from sktem.template.model import DeformableTemplateModel, TemplateParams
from sktem.template.modes import ANNEALING, STEPS, STEPS_FROM_MODE, ModeFinder

__all__ = ["PooledDeformations", "pooled_covariance"]

#: Prior of the deformations that all classes share: the size of a smooth field, in
#: sixteenths of the longest side, and its weight in images; passes of EM over modes,
#: and images of a class that they are sought for, at most.
EXPECTED, PRIOR_IMAGES, PASSES, IMAGES = 0.6, 20.0, 4, 30

#: Nuisances that no template explains: standard deviations of the entries of a linear
#: map about the identity, on the diagonal (scales) and off it (rotations and shears),
#: and of a translation as a share of the longest side.
SCALE, SHEAR, TRANSLATION = 0.13, 0.25, 0.04

#: Images that are warped at once.
IMAGES_AT_ONCE = 256


class PooledDeformations(NamedTuple):
    """Distribution of random deformations: landmarks' displacements and a linear map.

    Attributes
    ----------
    grid : ImageGrid
        Geometry.
    covariance : ndarray of shape (n_latents, n_latents)
        Covariance of the displacements.
    """

    grid: ImageGrid
    covariance: np.ndarray

    def fields(self, n, rng) -> np.ndarray:
        """Return displacement fields of the pixels, of shape (n, n_axes, n_pixels)."""
        grid = self.grid
        factor = np.linalg.cholesky(self.covariance)
        draws = rng.standard_normal((n, grid.n_latents)) @ factor.T
        fields = grid.field(draws).reshape(n, grid.n_axes, -1)
        linear = np.full((grid.n_axes, grid.n_axes), SHEAR)
        np.fill_diagonal(linear, SCALE)
        linear = linear * rng.standard_normal((n, grid.n_axes, grid.n_axes))
        side = TRANSLATION * max(grid.image_shape)
        fields += side * rng.standard_normal((n, grid.n_axes, 1))
        fields += linear @ grid.points
        return fields

    def copies(self, images, noise, rng) -> np.ndarray:
        """Return each image under a new deformation, the same for all its channels.

        Interpolation averages the noise of pixels. What it takes away is drawn anew, so
        that copies are as noisy as images.

        Parameters
        ----------
        images : ndarray of shape (n, n_channels * n_pixels)
            Images.
        noise : array-like of shape (n_channels,)
            Standard deviations of their pixels' noise.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of shape (n, n_channels * n_pixels)
            Copies.
        """
        grid, noise = self.grid, np.asarray(noise)[:, None]
        centre = np.array(grid.half_widths)[:, None]
        found = np.empty_like(images)
        # What is beyond an image is its background, beyond a signal its last value.
        beyond = "nearest" if grid.n_axes == 1 else "grid-constant"
        for start in range(0, len(images), IMAGES_AT_ONCE):
            part = images[start : start + IMAGES_AT_ONCE]
            positions = grid.points - self.fields(len(part), rng) + centre
            for row, image in enumerate(part):
                channels = image.reshape(grid.n_channels, *grid.image_shape)
                copy = np.stack(
                    [
                        map_coordinates(one, positions[row], order=1, mode=beyond)
                        for one in channels
                    ]
                )
                if noise.any():
                    lost = 1 - kept_variance(positions[row], grid.image_shape)
                    copy += noise * np.sqrt(lost) * rng.standard_normal(copy.shape)
                found[start + row] = copy.ravel()
        return found


def kept_variance(positions, image_shape) -> np.ndarray:
    """Return the variance of linear interpolations of white noise of variance one.

    It is the sum of the squares of the weights: for each axis those of the two pixels
    around, where they are in the image. Signals end with their last value.

    Parameters
    ----------
    positions : ndarray of shape (n_axes, n)
        Positions in pixels.
    image_shape : tuple of int
        Pixels along each axis.

    Returns
    -------
    ndarray of shape (n,)
        Variances, between 0 and 1.
    """
    kept = np.ones(positions.shape[1])
    for position, n in zip(positions, image_shape, strict=True):
        if len(image_shape) == 1:
            position = np.clip(position, 0, n - 1)
        low = np.floor(position)
        share = position - low
        kept *= (1 - share) ** 2 * ((low >= 0) & (low < n)) + share**2 * (
            (low >= -1) & (low < n - 1)
        )
    return kept


def pooled_covariance(models, parts, n_jobs=None) -> np.ndarray:
    """Return the covariance of deformations within classes, pooled over all of them.

    EM with Laplace's approximation of the deformations of training images, given the
    templates: the spread of their modes about the mean of a template, and the
    uncertainty of each mode, with a smooth prior. The only image of a template says
    nothing about how its class deforms: n images count as n - 1.
    """
    grid = models[0].grid_
    expected = EXPECTED * max(grid.image_shape) / 16
    prior = expected**2 * grid.smooth_covariance
    groups = [
        group
        for model, (X, weights) in zip(models, parts, strict=True)
        for group in _images_of_templates(model, X[:IMAGES], weights[:IMAGES])
    ]
    modes = [np.zeros((len(Y), grid.n_latents)) for Y, *_ in groups]
    model, covariance, levels, steps = (
        DeformableTemplateModel(grid),
        prior,
        ANNEALING,
        STEPS,
    )
    for _ in range(PASSES):
        total, mass = PRIOR_IMAGES * prior, PRIOR_IMAGES
        for k, (Y, weights, coefficients, noise) in enumerate(groups):
            params = TemplateParams(np.ones(1), coefficients, covariance[None], noise)
            Z, _, lowers, _ = ModeFinder(grid, n_jobs).find(
                Y, model.component(params, 0), modes[k], True, levels, steps
            )
            modes[k] = Z
            spread, count = _within(Z, lowers, weights)
            total, mass = total + spread, mass + count
        covariance, levels, steps = total / mass, np.ones(1), STEPS_FROM_MODE
    return covariance


def _images_of_templates(model, X, weights):
    """Yield images, weights, coefficients and noise of each template of a class."""
    Y, params = model._in_range(X), model._params()
    labels = np.zeros(len(Y), dtype=int)
    if len(params.weights) > 1:
        _, labels = model._best_modes(Y)
    for t in np.unique(labels):
        rows, own = np.flatnonzero(labels == t), slice(t, t + 1)
        yield (
            Y[rows],
            weights[rows],
            params.coefficients[own],
            params.noise_variances[own],
        )


def _within(Z, lowers, weights):
    """Return the sum of squares of deformations about their mean, and its freedom."""
    mass = weights.sum()
    if mass <= 1 or len(Z) < 2:
        return 0.0, 0.0
    centred = Z - weights @ Z / mass
    spread = (centred * weights[:, None]).T @ centred
    for weight, lower in zip(weights, lowers, strict=True):
        inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
        spread += weight * (mass - 1) / mass * (inverse.T @ inverse)
    return spread, mass - 1
