"""Nuisances of images: where objects lie, how they are turned, their size and light."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sktem.choices import did_you_mean
from sktem.template.geometry.grid import gaussian
from sktem.template.model.light import LIGHT, Light
from sktem.template.model.statistics import split, statistic_size

__all__ = ["NUISANCES", "Nuisances", "checked_names"]

#: What nuisances may be called, in the order of their columns.
NUISANCES = ("translation", "rotation", "scale", "gain", "offset")


class NuisanceRule(NamedTuple):
    """Priors of nuisances, and how straight the fields are.

    Attributes
    ----------
    translation : float
        Standard deviation of a translation, as a share of the longest side.
    rotation, scale, gain, offset : float
        Standard deviations of a rotation in radians, of the logarithm of a scale, of a
        gain, and of an offset in standard deviations of the pixels.
    beyond : float
        How far beyond the image, as a share of its half, fields are straight.
    ridge : float
        Ridge on their coefficients.
    most_error : float
        Largest error of a straight field, as a share of its largest value in the image.
    """

    translation: float = 0.125
    rotation: float = 0.35
    scale: float = 0.2
    gain: float = 0.5
    offset: float = 1.0
    beyond: float = 0.1
    ridge: float = 1e-6
    most_error: float = 0.15


RULE = NuisanceRule()


def checked_names(names, n_axes, n_channels=1, n_components=1) -> tuple[str, ...]:
    """Return the names of nuisances in their order; raise if they cannot be had."""
    requested = (names,) if isinstance(names, str) else tuple(names or ())
    for name in requested:
        if name not in NUISANCES:
            raise ValueError(
                f"nuisances must be among {NUISANCES}, got {name!r}"
                f"{did_you_mean(name, NUISANCES)}"
            )
    if "rotation" in requested and n_axes != 2:
        raise ValueError(
            f"the nuisance 'rotation' is for images of two axes, not of {n_axes}"
        )
    if {"gain", "offset"} & set(requested) and max(n_channels, n_components) > 1:
        raise ValueError(
            "the nuisances 'gain' and 'offset' are for one component and one channel"
        )
    return tuple(name for name in NUISANCES if name in requested)


class Nuisances:
    """Similarities of the plane and light, apart from deformations.

    A displacement field is the sum of a deformation and of straight fields: constant
    ones for translations, ``x`` turned by a right angle for a rotation and ``x`` for
    a scale. Each of these is a sum of the kernels of the landmarks, too, so that all of
    them together are one vector of landmarks, Gaussian with the covariance of the
    deformations plus a known one.

    Parameters
    ----------
    grid : ImageGrid
        Geometry.
    names : tuple of str
        Nuisances, in the order of ``NUISANCES``.
    """

    def __init__(self, grid, names):
        self.grid = grid
        self.names = tuple(names)
        self.n_steps = getattr(grid, "n_steps", 1)
        light = [
            deviation**2 if name in names else LIGHT.no_variance
            for name, deviation in (("gain", RULE.gain), ("offset", RULE.offset))
        ]
        lit = max(light) > LIGHT.no_variance
        self.light = Light(np.array(light)) if lit else None

    @property
    def columns(self) -> list[str]:
        """Names of the numbers that describe the nuisances of an image."""
        axes = range(self.grid.n_axes)
        return [
            column
            for name in self.names
            for column in (
                [f"translation {axis}" for axis in axes]
                if name == "translation"
                else [name]
            )
        ]

    @cached_property
    def deviations(self) -> np.ndarray:
        """Prior standard deviations of the straight fields."""
        side = RULE.translation * max(self.grid.image_shape)
        known = {"translation": side, "rotation": RULE.rotation, "scale": RULE.scale}
        names = [column.split()[0] for column in self.columns]
        return np.array([known[name] for name in names if name in known])

    @cached_property
    def basis(self) -> np.ndarray:
        """Landmarks of the straight fields, of shape (n_latents, n_fields)."""
        grid, columns = self.grid, []
        known = [self._straight(axis) for axis in range(grid.n_axes)]
        ones, places = [pair[0] for pair in known], [pair[1] for pair in known]

        def field(along, *factors):
            whole = np.zeros((grid.n_axes, *grid.deformation_landmarks))
            product = np.ones(())
            for factor in factors:
                product = np.multiply.outer(product, factor)
            whole[along] = product
            return whole.ravel()

        def straight(along, axis):
            """Return the field along one axis that grows with another."""
            factors = [places[k] if k == axis else ones[k] for k in range(grid.n_axes)]
            return field(along, *factors)

        if "translation" in self.names:
            columns += [field(axis, *ones) for axis in range(grid.n_axes)]
        if "rotation" in self.names:
            columns.append(straight(1, 0) - straight(0, 1))
        if "scale" in self.names:
            columns.append(sum(straight(axis, axis) for axis in range(grid.n_axes)))
        return np.reshape(columns, (-1, grid.n_latents)).T

    def _straight(self, axis):
        """Return kernel coefficients of one and of the coordinate along an axis."""
        grid = self.grid
        half, nodes = max(grid.half_widths[axis], 0.5), grid.deformation_axes[axis]
        points = np.linspace(-half, half, 101)
        design = gaussian((1 + RULE.beyond) * points, nodes, grid.deformation_width)
        gram = design.T @ design
        gram[np.diag_indices_from(gram)] += RULE.ridge * np.trace(gram) / len(gram)
        inside = np.abs((1 + RULE.beyond) * points) <= half
        solutions = []
        for values in (np.ones(len(points)), (1 + RULE.beyond) * points / half):
            coefficients = np.linalg.solve(gram, design.T @ values)
            error = np.abs(design @ coefficients - values)[inside].max()
            if error > RULE.most_error and set(self.names) & set(NUISANCES[:3]):
                raise ValueError(
                    "sums of kernels of the deformation's landmarks are no translations"
                    ", rotations and scales: increase deformation_landmarks or "
                    "deformation_width, or leave these out of nuisances"
                )
            solutions.append(coefficients)
        return solutions[0], half * solutions[1]

    @cached_property
    def covariance(self) -> np.ndarray:
        """Prior covariance of the straight fields' landmarks."""
        return (self.basis * self.deviations**2) @ self.basis.T

    def _weights(self, covariance):
        """Return the matrix of the fields' posterior means given all landmarks."""
        if len(self.deviations) == 0:
            return np.zeros((0, len(covariance)))
        factor = cho_factor(covariance + self.covariance, lower=True)
        return self.deviations[:, None] ** 2 * cho_solve(factor, self.basis).T

    def fields_of(self, Z, covariance):
        """Return posterior means of straight fields and of the deformations without.

        Parameters
        ----------
        Z : ndarray of shape (n, n_latents)
            Landmarks of deformations with nuisances.
        covariance : ndarray of shape (n_latents, n_latents)
            Covariance of the deformations without.

        Returns
        -------
        fields : ndarray of shape (n, n_fields)
            Coefficients of the fields.
        deformations : ndarray of shape (n, n_latents)
            What is left.
        """
        fields = Z @ self._weights(covariance).T
        return fields, Z - fields @ self.basis.T

    def outer_without(self, outer, covariance) -> np.ndarray:
        """Return the expectation of ``z z'`` of the deformations without nuisances."""
        factor = cho_factor(covariance + self.covariance, lower=True)
        share = cho_solve(factor, covariance).T
        expected = share @ outer @ share.T + covariance - share @ covariance
        return (expected + expected.T) / 2

    def moments(self, statistics, covariances):
        """Return means and covariances of nuisances, with gain and offset last.

        Parameters
        ----------
        statistics : ndarray of shape (n_components, n_statistics)
            Statistics of images.
        covariances : ndarray of shape (n_components, n_latents, n_latents)
            Covariances of the deformations without nuisances.

        Returns
        -------
        means : ndarray of shape (n_components, n_nuisances)
            Means.
        covariances : ndarray of shape (n_components, n_nuisances, n_nuisances)
            Covariances.
        """
        pairs = [
            self._moments(component, covariance)
            for component, covariance in zip(statistics, covariances, strict=True)
        ]
        return tuple(np.stack(both) for both in zip(*pairs, strict=True))

    def _moments(self, statistics, covariance):
        k = len(self.deviations)
        weights, variances = self._weights(covariance), self.deviations**2
        size = k if self.light is None else k + 2
        center, spread = np.zeros(size), np.zeros((size, size))
        spread[:k, :k] = np.diag(variances) - weights @ self.basis * variances
        if not statistics[0] > 0:
            return center, spread
        averages = split(self.grid, statistics)
        center[:k] = weights @ averages.mean
        about = averages.outer - np.outer(averages.mean, averages.mean)
        spread[:k, :k] += weights @ about @ weights.T
        if self.light is not None:
            light = statistics[statistic_size(self.grid) :] / statistics[0]
            center[k:] = light[:2]
            squares = light[[2, 3, 3, 4]].reshape(2, 2)
            spread[k:, k:] = squares - np.outer(light[:2], light[:2])
        return center, spread

    # ------------------------------------------------------------- units of the user

    def _similarity(self, fields):
        """Return factor and translation of a field: a pixel x is at ``a (x - t)``."""
        n_axes, n = self.grid.n_axes, self.n_steps
        parts = iter(fields.T[:, :, None])
        shift = np.zeros((len(fields), n_axes))
        if "translation" in self.names:
            shift = np.hstack([next(parts) for _ in range(n_axes)])
        rate = 1j * next(parts) if "rotation" in self.names else np.zeros((1, 1))
        rate = rate + (next(parts) if "scale" in self.names else 0.0)
        step = 1 - rate / n
        total = sum(step**k for k in range(n)) / n
        return step**n, total * self._as_numbers(shift) / step**n

    def _field(self, factor, shift):
        """Return the field of a similarity."""
        n, columns = self.n_steps, []
        if "scale" in self.names:
            rate = n * (1 - factor ** (1 / n))
        else:
            rate = 1j * n * np.tan(-np.angle(factor) / n)
        step = 1 - rate / n
        total = sum(step**k for k in range(n)) / n
        if "translation" in self.names:
            columns.append(self._as_vectors(step**n * shift / total))
        if "rotation" in self.names:
            columns.append(np.imag(rate))
        if "scale" in self.names:
            columns.append(np.real(rate))
        return np.hstack([np.zeros((len(shift), 0)), *columns])

    def _as_numbers(self, vectors):
        if self.grid.n_axes != 2:
            return vectors
        return vectors[:, :1] + 1j * vectors[:, 1:]

    def _as_vectors(self, numbers):
        if self.grid.n_axes != 2:
            return np.real(numbers)
        return np.hstack([np.real(numbers), np.imag(numbers)])

    def reported(self, fields, lights, mean, frame) -> np.ndarray:
        """Return nuisances relative to the template at the mean ones, by columns.

        Parameters
        ----------
        fields : ndarray of shape (n, n_fields)
            Coefficients of straight fields.
        lights : ndarray of shape (n, 2) or None
            Gains and offsets of standardised images.
        mean : ndarray of shape (n, n_fields or n_fields + 2)
            Means of these, at which templates are shown.
        frame : Frame
            Standardisation of the images.
        """
        k, columns = fields.shape[1], []
        factor, shift = self._similarity(fields)
        mean_factor, mean_shift = self._similarity(mean[:, :k])
        factor = factor / mean_factor
        if "translation" in self.names:
            columns.append(self._as_vectors(shift - mean_shift / factor))
        if "rotation" in self.names:
            columns.append(-np.angle(factor))
        if "scale" in self.names:
            columns.append(1 / np.abs(factor))
        if lights is not None:
            gain = lights[:, 0] / mean[:, k]
            offset = frame.scale * (lights[:, 1] - gain * mean[:, k + 1])
            offset = offset + frame.offset * (1 - gain)
            both = {"gain": gain, "offset": offset}
            columns += [both[name][:, None] for name in self.names if name in both]
        return np.hstack([np.zeros((len(fields), 0)), *columns])

    def restored(self, columns, mean, frame):
        """Return straight fields and light from the reported columns."""
        values = dict(zip(self.columns, columns.T[:, :, None], strict=True))
        k, n_axes = len(self.deviations), self.grid.n_axes
        mean_factor, mean_shift = self._similarity(mean[:, :k])
        factor = np.exp(-1j * values["rotation"]) if "rotation" in values else 1.0
        factor = mean_factor * factor / values.get("scale", 1.0)
        shift = np.zeros((len(columns), n_axes))
        if "translation" in self.names:
            shift = np.hstack([values[f"translation {axis}"] for axis in range(n_axes)])
        shift = self._as_numbers(shift) + mean_shift * mean_factor / factor
        fields = self._field(factor, shift)
        if self.light is None:
            return fields, None
        gain = values.get("gain", np.ones((1, 1)))[:, 0]
        offset = values.get("offset", frame.offset * (1 - gain)[:, None])[:, 0]
        offset = (offset - frame.offset * (1 - gain)) / frame.scale
        lights = [gain * mean[:, k], offset + gain * mean[:, k + 1]]
        return fields, np.stack(np.broadcast_arrays(*lights), axis=1)
