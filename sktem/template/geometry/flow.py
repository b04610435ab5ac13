"""Deformations without folds: the flows of velocities."""

from __future__ import annotations

from functools import partial

import numpy as np

from sktem.template.geometry.grid import ImageGrid
from sktem.template.geometry.products import fixed_points
from sktem.template.kernels.flow import new_flow

__all__ = ["FlowGrid"]


class FlowGrid(ImageGrid):
    """Geometry of images whose deformations are flows of velocities.

    The sum of kernels of an :class:`ImageGrid` is a velocity ``v``, and a deformation
    is the composition of eight small ones, ``x - v(x) / 8``. Where no derivative of v
    reaches 8, each of them is one to one, and so is the deformation. Parameters and
    attributes are those of :class:`ImageGrid`.
    """

    n_steps = 8

    def _flow(self):
        return partial(
            new_flow,
            np.tile(self.points, self.n_channels),
            self.deformation_axes,
            self.deformation_width,
            self.n_steps,
        )

    def _steps(self, z, positions):
        """Yield positions before every step and after the last."""
        yield positions
        for _ in range(self.n_steps):
            positions = positions - self.expanded_at(z, positions) / self.n_steps
            yield positions

    def field_at(self, z, positions) -> np.ndarray:
        """Return the displacement ``x - y`` of any positions x that end at y."""
        return positions - self.moved_at(z, positions)

    def moved_at(self, z, positions) -> np.ndarray:
        """Return where positions end."""
        *_, last = self._steps(z, positions)
        return last

    def inverse_at(self, z, targets) -> np.ndarray:
        """Return positions that end at given targets: every step is inverted."""
        step = partial(self.expanded_at, z / self.n_steps)
        for _ in range(self.n_steps):
            targets = fixed_points(step, targets, 1.0)
        return targets

    def jacobians_at(self, z, positions) -> np.ndarray:
        """Return the determinants of the derivative of the deformation."""
        product = np.ones(positions.shape[1])
        *before, _ = self._steps(z, positions)
        for x in before:
            product *= super().jacobians_at(z / self.n_steps, x)
        return product
