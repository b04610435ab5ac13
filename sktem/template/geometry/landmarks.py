"""Landmarks and kernels from the settings of a deformable template."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np

from sktem.template.geometry.flow import FlowGrid
from sktem.template.geometry.grid import ImageGrid, longest_half

__all__ = ["GRIDS", "geometry"]


class LandmarkRule(NamedTuple):
    """Landmarks that images get by default.

    Attributes
    ----------
    side : int
        Side of the images for which the classical geometry is meant.
    margin : float
        How far a template's landmarks reach beyond such an image, in half of its
        longest side. Larger images reach less far: their displacements are a smaller
        share.
    of_template : int
        Landmarks of the template along the longest axis of such an image.
    of_deformation : tuple of int
        Landmarks of the displacements along the longest axis: of signals, images and
        volumes.
    most : tuple of int
        Most landmarks that a template gets: of signals, images and volumes. A volume's
        equations have no narrow bands.
    template_spacings, deformation_spacings : float
        Standard deviations of the kernels, in spacings of their landmarks.
    """

    side: int = 16
    margin: float = 0.5
    of_template: int = 18
    of_deformation: tuple[int, ...] = (10, 6, 4)
    most: tuple[int, ...] = (5000, 5000, 2744)
    template_spacings: float = 0.93
    deformation_spacings: float = 1.0


RULE = LandmarkRule()

#: Geometries by the kind of their deformations.
GRIDS = {"linear": ImageGrid, "diffeomorphic": FlowGrid}


def geometry(
    shape,
    template,
    deformation,
    template_scale,
    deformation_width,
    kind="linear",
    n_channels=1,
):
    """Return the landmarks and kernels of images."""
    longest = longest_half(shape)
    margin = RULE.margin * min(1.0, np.sqrt((RULE.side - 1) / (2 * longest)))
    halves = [(side - 1) / 2 for side in shape]
    reaches = [half + margin * longest for half in halves]
    # Landmarks closer than that are separated by the prior only.
    limits = [side + 2 for side in shape]
    if isinstance(template, str):
        template = _counts_that_resolve(shape, reaches, longest, n_channels)
    else:
        template = _counts("template_landmarks", template, reaches, limits)
    if isinstance(deformation, str):
        deformation = RULE.of_deformation[len(shape) - 1]
    deformation = _counts(
        "deformation_landmarks", deformation, halves, [-(-side // 2) for side in shape]
    )
    if isinstance(template_scale, str):
        spacing = 2 * max(reaches) / max(max(template) - 1, 1)
        template_scale = RULE.template_spacings * spacing
    if isinstance(deformation_width, str):
        spacing = 2 * longest / max(max(deformation) - 1, 1)
        deformation_width = RULE.deformation_spacings * spacing
    return GRIDS[kind](
        shape, template, deformation, template_scale, deformation_width, margin,
        n_channels,
    )  # fmt: skip


def _counts_that_resolve(shape, reaches, longest, n_channels):
    """Return landmarks of the template that are as dense as in images of 16 pixels."""
    classical = (RULE.side - 1) / 2
    # Images of fewer pixels keep the number of landmarks; volumes cannot afford it.
    half = classical if len(reaches) == 3 else min(longest, classical)
    spacing = 2 * (1 + RULE.margin) * half / (RULE.of_template - 1)
    spacing = max(spacing, 2 * max(reaches) / (max(shape) + 1))
    # The margin of a short axis may hold more landmarks than the pixels along it.
    limits = [max(side + 2, 3 * side // 2) for side in shape]
    most = RULE.most[len(reaches) - 1] / n_channels
    counts = _spaced(reaches, spacing, limits)
    while np.prod(counts) > most:
        spacing *= 1.02
        counts = _spaced(reaches, spacing, limits)
    return counts


def _counts(name, value, halves, limits):
    """Return landmarks per axis: equally spaced along all axes for a number."""
    if isinstance(value, Integral) and not isinstance(value, (bool, np.bool_)):
        if value < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        spacing = 2 * max(max(halves), 0.5) / max(int(value) - 1, 1)
        return _spaced(halves, spacing, limits)
    counts = value if isinstance(value, (tuple, list, np.ndarray)) else ()
    whole = all(
        isinstance(count, Integral) and not isinstance(count, (bool, np.bool_))
        for count in counts
    )
    if not whole or len(counts) != len(halves) or min(counts) < 1:
        raise ValueError(
            f"{name} must be a number or {len(halves)} positive whole numbers, one for "
            f"each axis, got {value!r}"
        )
    return tuple(int(count) for count in counts)


def _spaced(halves, spacing, limits):
    """Return how many landmarks about ``spacing`` apart cover each axis."""
    return tuple(
        int(np.clip(np.rint(2 * half / spacing) + 1, 1, limit))
        for half, limit in zip(halves, limits, strict=True)
    )
