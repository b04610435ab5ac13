"""Priors of a deformable template, and the M-step that they lead to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, lapack

from sktem.template.model.systems import Equations, systems_of

__all__ = ["TemplatePriors", "posterior_template", "unexplained_square"]


class TemplatePriors(NamedTuple):
    """Priors of all components.

    Attributes
    ----------
    deformation_scale : float
        Prior standard deviation of displacements at landmarks, in pixels.
    strength : float
        Weight of the inverse-Wishart prior on Gamma, in images; 0 turns it off.
    template_scale : float
        Prior standard deviation of the template (its norm in the space of the kernel),
        infinite to turn the prior off.
    noise_scale : float
        Prior value of the noise standard deviation.
    noise_strength : float
        Weight of the inverse-gamma prior on the noise variance, in pixels; 0 turns it
        off.
    weight_concentration : float
        Number of images that a Dirichlet prior adds to every component.
    noise_floor : float
        Smallest noise variance.
    equations : Equations
        Solver of the equations of template and noise.
    """

    deformation_scale: float
    strength: float
    template_scale: float = np.inf
    noise_scale: float = 1.0
    noise_strength: float = 0.0
    weight_concentration: float = 0.0
    noise_floor: float = 1e-8
    equations: Equations = Equations()

    def deformation_covariance(self, grid) -> np.ndarray:
        """Return the prior's mode of Gamma.

        It makes displacements a smooth Gaussian field, with the kernel of the
        deformation as covariance and standard deviation ``deformation_scale``.

        Parameters
        ----------
        grid : ImageGrid
            Geometry.

        Returns
        -------
        ndarray of shape (n_latents, n_latents)
            ``scale^2 K_g^-1`` along each axis, independent between axes.
        """
        return self.deformation_scale**2 * grid.smooth_covariance

    def posterior_covariance(self, grid, outer, count, covariance_type):
        """Return the maximum a posteriori Gamma.

        Parameters
        ----------
        grid : ImageGrid
            Geometry.
        outer : ndarray of shape (n_latents, n_latents)
            Mean of ``z z'``.
        count : float
            Number of images.
        covariance_type : {"full", "shared", "isotropic"}
            Structure.

        Returns
        -------
        covariance : ndarray of shape (n_latents, n_latents)
            Gamma, positive definite.
        floored : bool
            Whether it had to be made so.
        """
        prior = self.deformation_covariance(grid)
        share = count / (count + self.strength)
        gamma = share * (outer + outer.T) / 2 + (1 - share) * prior
        # A multiple of the prior keeps all directions open, whatever the statistics.
        floor = 1e-6
        if self.strength * (1 - share) < floor:
            gamma = gamma + floor * prior
        dim, places = grid.n_latents, grid.n_places
        if covariance_type == "isotropic":
            gamma = np.eye(dim) * np.trace(gamma) / dim
        elif covariance_type == "shared":
            blocks = gamma.reshape(grid.n_axes, places, grid.n_axes, places)
            mean = np.einsum("aiaj->ij", blocks) / grid.n_axes
            gamma = np.kron(np.eye(grid.n_axes), mean)
        if lapack.dpotrf(gamma, lower=1)[1] == 0:
            return gamma, False
        values, vectors = np.linalg.eigh(gamma)
        least = floor * max(np.trace(prior) / dim, values[-1] * 1e-6)
        return (vectors * np.maximum(values, least)) @ vectors.T, True

    def log_density(self, grid, coefficients, component) -> float:
        """Return the log-density of the priors of one component, up to a constant.

        Parameters
        ----------
        grid : ImageGrid
            Geometry.
        coefficients : ndarray of shape (n_template,)
            Template.
        component : Component
            Values derived from the parameters; all structures of Gamma share the prior
            of the full one.

        Returns
        -------
        float
            Logarithm of the priors' density.
        """
        total = -0.5 * self.strength * component.log_det
        if self.strength > 0:
            prior = self.deformation_covariance(grid)
            total -= 0.5 * self.strength * float((component.precision * prior).sum())
        if np.isfinite(self.template_scale):
            norm = coefficients @ grid.smoothed(coefficients)
            total -= 0.5 * float(norm) / self.template_scale**2
        variance = component.noise_variance
        total -= 0.5 * self.noise_strength * np.log(variance)
        return total - 0.5 * self.noise_strength * self.noise_scale**2 / variance


def posterior_template(grid, averages, count, priors, variance):
    """Return the maximum a posteriori template and noise variance, jointly.

    Given the variance, the template solves ``(S2 + v / n P) beta = S1`` with P the
    prior's precision; given the template, the variance is a mean of residuals. The two
    alternate until they agree.
    """
    shape = [2 * count - 1 for count in grid.template_landmarks]
    table = averages.middle.reshape(shape)
    if not table[(slice(None, None, 2),) * table.ndim].mean() > 0:
        return np.zeros(grid.n_template), max(variance, priors.noise_floor), False
    informative = np.isfinite(priors.template_scale)
    for system in systems_of(grid, averages, informative, priors.equations):
        solution = _alternated(system, averages, count, priors, variance)
        if solution is not None:
            break
    return solution


def _alternated(system, averages, count, priors, variance):
    """Return the solution by one form of the equations, None if it fails."""
    equations = priors.equations
    x, residual, floored = None, equations.roughest, False
    informative = np.isfinite(priors.template_scale)
    for _ in range(equations.passes):
        x = system.solve(variance / count / priors.template_scale**2, x, residual)
        if x is None:
            return None
        rss = averages.square + system.square(x) - 2 * x @ system.right
        pixels = count * averages.observed + priors.noise_strength
        new = (
            count * max(float(rss), 0.0) + priors.noise_strength * priors.noise_scale**2
        ) / max(pixels, 1e-300)
        floored = new < priors.noise_floor
        new = max(new, priors.noise_floor)
        change, variance = abs(new - variance) / variance, new
        precise = change <= equations.precision and residual <= equations.residual
        if not informative or precise:
            break
        # Hardly more precise than the variance is.
        needed = max(equations.roughest * change, equations.residual)
        residual = min(residual, needed)
    return system.coefficients(x), variance, floored


def unexplained_square(grid, averages, jitter) -> float:
    """Return the part of the mean ``|y|^2`` that no template explains."""
    grams = grid.grams
    gram = grams.of(averages.middle)
    diagonal = grams.diagonal(gram)
    diagonal += jitter * float(diagonal.mean())
    try:
        solve = grams.factor(gram)
    except LinAlgError:
        return -np.inf
    return averages.square - float(averages.cross @ solve(averages.cross))
