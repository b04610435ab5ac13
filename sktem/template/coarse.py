"""Starts from images of fewer pixels, which have fewer modes to be caught in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from sktem.e_step.random import spawn_generators
from sktem.images.rows import images_of_start
from sktem.loop.loop import run
from sktem.loop.state import RunState
from sktem.template.geometry.grid import ImageGrid, longest_half
from sktem.template.model.params import TemplateParams
from sktem.template.settings import Frame, starting_params

__all__ = ["BlockRule", "BlockStarts", "averaged"]


class BlockRule(NamedTuple):
    """Number of pixels that are averaged for a start.

    Attributes
    ----------
    least_side, per_landmark : float, int
        Pixels along the longest side that are left, at least, and for every landmark of
        the displacements.
    most_passes : int
        Passes over averaged images, at most: what more of them learn is not for a
        start.
    at_once : int
        Images that are averaged at once.
    """

    least_side: float = 32
    per_landmark: int = 2
    most_passes: int = 10
    at_once: int = 64

    def size(self, grid) -> int:
        """Return the pixels of a block along an axis: 1 is as they are, as in signals.

        Parameters
        ----------
        grid : ImageGrid
            Geometry.
        """
        if grid.n_axes == 1:
            return 1
        least = max(
            self.least_side, self.per_landmark * max(grid.deformation_landmarks)
        )
        return max(int(max(grid.image_shape) // least), 1)


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
    size : int
        Pixels of a block along each axis.
    """

    grid: ImageGrid
    model: Any
    params: TemplateParams
    size: int

    @classmethod
    def fitted(cls, settings, fit, X, sample_weight, random_state, step_of, rule):
        """Return the starts of images, from a run over averaged images.

        Parameters
        ----------
        settings : TemplateSettings
            Settings of the images.
        fit : TemplateFit
            Settings of the run over images, and their frame.
        X : array or rows of shape (n, n_pixels)
            Images.
        sample_weight : ndarray of shape (n,) or None
            Weights of the images.
        random_state : int, RandomState, Generator or None
            Seed.
        step_of : callable or None
            Function (settings of a run, images, passes) -> step; None keeps the step.
        rule : BlockRule
            How many pixels are averaged.

        Returns
        -------
        BlockStarts
            The starts.
        """
        grid = fit.frame.grid
        size = rule.size(grid)
        rng = spawn_generators(random_state).initialisation
        images, weights = images_of_start(X, sample_weight, rng)
        small = _averaged_rows(grid, fit.frame.standardised(images), size)
        templates = settings.initial_templates(fit.frame)
        if templates is not None:
            templates = _averaged_rows(grid, templates, size)
        ratio = _ratio(grid, small)
        coarse = settings.coarser(small.shape[2:], ratio, templates)
        small = small.reshape(len(small), -1)
        mass = float(len(small) if weights is None else weights.sum())
        model = coarse.model(coarse.grid, mass)
        run_settings = replace(
            fit.settings,
            model=model,
            max_passes=min(fit.settings.max_passes, rule.most_passes),
            batch_size=min(fit.settings.batch_size, len(small)),
        )
        if step_of is not None:
            step = step_of(run_settings, len(small), run_settings.max_passes)
            run_settings = replace(run_settings, step_size=step)
        generators = spawn_generators(int(rng.integers(2**31)))
        ones = np.ones(grid.n_channels)
        frame = Frame(coarse.grid, 0.0 * ones, ones)
        params = starting_params(
            model, small, weights, generators.initialisation,
            coarse.initial_templates(frame),
        )  # fmt: skip
        state = RunState(params, generators)
        run(run_settings, small, state, sample_weight=weights)
        if state.interrupted:
            raise state.interrupted
        model = coarse.model(coarse.grid, mass, start_at_mode=True)
        return cls(grid, model, state.params, size)

    def chains(self, X, rng):
        """Return initial states of the chains of images, of shape (n, width)."""
        small = _averaged_rows(self.grid, X, self.size)
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
    lacks = [-side % size for side in images.shape[2:]]
    pads = [(0, 0), (0, 0), *((lack // 2, lack - lack // 2) for lack in lacks)]
    padded = np.pad(images, pads, constant_values=np.nan)
    blocks = [part for side in padded.shape[2:] for part in (side // size, size)]
    padded = padded.reshape(*images.shape[:2], *blocks)
    within = tuple(range(3, padded.ndim, 2))
    counts = (~np.isnan(padded)).sum(axis=within)
    means = np.nansum(padded, axis=within) / np.maximum(counts, 1)
    return np.where(counts > 0, means, np.nan)


def _averaged_rows(grid, X, size):
    """Return rows as stacks of averaged images, (n, n_channels, ...)."""
    parts = []
    for rows in gen_batches(len(X), BlockRule().at_once):
        part = np.asarray(X[rows], dtype=np.float64)
        shape = len(part), grid.n_channels, *grid.image_shape
        parts.append(averaged(part.reshape(shape), size))
    return np.concatenate(parts)


def _ratio(grid, small):
    """Return the pixels of images to one of averaged images."""
    return longest_half(grid.image_shape) / longest_half(small.shape[2:])
