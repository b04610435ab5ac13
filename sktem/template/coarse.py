"""Starts from images of fewer pixels, which have fewer modes to be caught in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from sktem.e_step.random import spawn_generators
from sktem.images.rows import images_of_start
from sktem.images.shapes import Layout
from sktem.template.geometry.grid import ImageGrid, longest_half
from sktem.template.model.params import TemplateParams
from sktem.template.setup import Frame, initial_templates, new_grid, new_model

__all__ = ["BlockStarts", "averaged", "pixels_of_blocks"]

#: Pixels along the longest side that are left, at least, and for every landmark of the
#: displacements.
LEAST_SIDE, PIXELS_PER_LANDMARK = 32, 2

#: Passes over averaged blocks, at most: what more of them learn is not for a start.
MOST_PASSES = 10

#: Images that are averaged at once.
AT_ONCE = 64


def pixels_of_blocks(grid) -> int:
    """Return how many pixels along an axis are averaged for a start: 1 is as they are.

    Signals are left as they are.
    """
    if grid.n_axes == 1:
        return 1
    side = max(LEAST_SIDE, PIXELS_PER_LANDMARK * max(grid.deformation_landmarks))
    return max(max(grid.image_shape) // side, 1)


class BlockStarts(NamedTuple):
    """Chains of large images start at modes of their averaged blocks of pixels.

    Attributes
    ----------
    grid : ImageGrid
        Geometry of the images.
    model : DeformableTemplateModel
        Model of the averaged images.
    params : TemplateParams
        What a fit to averaged images has found.
    """

    grid: ImageGrid
    model: Any
    params: TemplateParams

    @classmethod
    def fitted(cls, estimator, frame, X, sample_weight):
        """Return the starts of an estimator, from a fit to averaged images.

        Parameters
        ----------
        estimator : DeformableTemplateEstimator
            The estimator to be fitted.
        frame : Frame
            Geometry and units of the images.
        X : array or rows of shape (n, n_pixels)
            Images.
        sample_weight : ndarray of shape (n,) or None
            Weights of the images.

        Returns
        -------
        BlockStarts
            The starts.
        """
        grid = frame.grid
        rng = spawn_generators(estimator.random_state).initialisation
        images, weights = images_of_start(X, sample_weight, rng)
        small = _averaged_rows(grid, frame.standardised(images))
        given = initial_templates(estimator, frame)
        if given is not None:
            given = _averaged_rows(grid, given)
        coarse = _of_fewer_pixels(estimator, grid, small, given)
        coarse.random_state = int(rng.integers(2**31))
        units: tuple[Any, Any] = 0.0, 1.0
        if grid.n_channels > 1:
            units = np.zeros(grid.n_channels), np.ones(grid.n_channels)
        small = small.reshape(len(small), -1)
        state, fit, interrupted = coarse._run(
            Frame(new_grid(coarse), *units), small, weights
        )
        if interrupted:
            raise interrupted
        mass = float(len(small) if weights is None else weights.sum())
        model = new_model(coarse, fit.frame.grid, mass, start_at_mode=True)
        return cls(grid, model, state.params)

    def chains(self, X, rng):
        """Return initial states of the chains of images, of shape (n, width)."""
        small = _averaged_rows(self.grid, X)
        Z = self.model.start_chains(small.reshape(len(small), -1), self.params, rng)
        states, ratio = self.model.fields(Z), _ratio(self.grid, small)
        states.position[:] *= ratio
        states.mode[:] *= ratio
        return Z


def averaged(images, size):
    """Return images whose pixels are averaged in blocks.

    Parameters
    ----------
    images : ndarray of shape (n, n_channels, ...)
        Images; NaN where a pixel was not observed.
    size : int
        Pixels of a block along each axis. Blocks at the border may have fewer, on both
        sides, so that the centre stays where it is.

    Returns
    -------
    ndarray of shape (n, n_channels, ...)
        Means of the observed pixels of each block; NaN where there are none.
    """
    observed = ~np.isnan(images)
    sums, counts = np.where(observed, images, 0.0), observed.astype(float)
    for axis in range(2, images.ndim):
        sums, counts = (_added(part, axis, size) for part in (sums, counts))
    return np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)


def _added(values, axis, size):
    """Return sums of the blocks along an axis, padded with zeros on both sides."""
    lack = -values.shape[axis] % size
    pads = [(0, 0)] * values.ndim
    pads[axis] = lack // 2, lack - lack // 2
    values = np.pad(values, pads)
    blocks = *values.shape[:axis], -1, size, *values.shape[axis + 1 :]
    return values.reshape(blocks).sum(axis=axis + 1)


def _averaged_rows(grid, X):
    """Return rows as stacks of averaged images, (n, n_channels, ...)."""
    size, parts = pixels_of_blocks(grid), []
    for rows in gen_batches(len(X), AT_ONCE):
        part = np.asarray(X[rows], dtype=np.float64)
        shape = len(part), grid.n_channels, *grid.image_shape
        parts.append(averaged(part.reshape(shape), size))
    return np.concatenate(parts)


def _ratio(grid, small):
    """Return the pixels of images to one of averaged images."""
    return longest_half(grid.image_shape) / longest_half(small.shape[2:])


def _of_fewer_pixels(estimator, grid, small, templates):
    """Return an estimator with the same displacements in averaged images."""
    ratio, (n_channels, *shape) = _ratio(grid, small), small.shape[1:]
    # Subclasses may have other parameters than those that they pass on.
    parameters = {
        name: value
        for name, value in vars(estimator).items()
        if not (name.startswith("_") or name.endswith("_"))
    }
    nodes = parameters["template_landmarks"]
    if np.ndim(nodes):
        nodes = tuple(map(min, nodes, [side + 2 for side in shape]))
    lengths = {
        name: value if isinstance(value, str) else value / ratio
        for name in ("template_scale", "deformation_scale")
        for value in (parameters[name],)
    }
    if templates is not None and n_channels == 1:
        templates = templates[:, 0]
    own = {
        **lengths,
        "image_shape": tuple(shape),
        "template_landmarks": nodes,
        "deformation_landmarks": grid.deformation_landmarks,
        "deformation_width": grid.deformation_width / ratio,
        "channel_axis": 1 if n_channels > 1 else None,
        "initial_template": templates,
        "max_iter": min(estimator.max_iter, MOST_PASSES),
        "n_init": 1,
        "warm_start": False,
        "verbose": 0,
    }
    coarse = object.__new__(type(estimator))
    vars(coarse).update(parameters | own)
    coarse.image_shape_ = coarse.image_shape
    coarse._layout = Layout(coarse.image_shape, n_channels, coarse.channel_axis)
    return coarse
