"""Priors of a deformable template, and the M-step that they lead to."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, lapack

from sktem.template.systems import conjugate_gradients, solver_of

__all__ = ["TemplatePriors", "posterior_template", "unexplained_square"]

#: Passes of the alternating M-step of template and noise, at most, and its precision.
PASSES, PRECISION = 50, 1e-9

#: Ridge on Gram matrices, relative to their mean diagonal.
JITTER = 1e-8


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
        Images that a Dirichlet prior adds to every component.
    noise_floor : float
        Least noise variance.
    """

    deformation_scale: float
    strength: float
    template_scale: float = np.inf
    noise_scale: float = 1.0
    noise_strength: float = 0.0
    weight_concentration: float = 0.0
    noise_floor: float = 1e-8

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

    def log_density(self, grid, coefficients, component, covariance_type) -> float:
        """Return the log-density of the priors of one component, up to a constant.

        Parameters
        ----------
        grid : ImageGrid
            Geometry.
        coefficients : ndarray of shape (n_template,)
            Template.
        component : Component
            Values derived from the parameters.
        covariance_type : str
            Structure of Gamma (all structures share the prior of the full one).

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
            grams = grid.grams
            norm = coefficients @ grams.product(grams.of_landmarks, coefficients)
            total -= 0.5 * float(norm) / self.template_scale**2
        variance = component.noise_variance
        total -= 0.5 * self.noise_strength * np.log(variance)
        return total - 0.5 * self.noise_strength * self.noise_scale**2 / variance


def posterior_template(grid, part, count, priors, variance):
    """Return the maximum a posteriori template and noise variance, jointly.

    Given the variance, the template solves ``(S2 + v / n P) beta = S1`` with P the
    prior's precision; given the template, the variance is a mean of residuals. The two
    alternate until they agree.
    """
    grams = grid.grams
    gram = grams.of(part.middle)
    diagonal = grams.diagonal(gram)
    scale = float(diagonal.mean())
    if not scale > 0:
        return np.zeros(len(diagonal)), max(variance, priors.noise_floor), False
    ridge = JITTER * scale
    diagonal += ridge
    informative = np.isfinite(priors.template_scale)
    penalty = grams.of_landmarks / priors.template_scale**2 if informative else None
    floored, coefficients, solve = False, None, None
    for _ in range(PASSES):
        matrix = gram if penalty is None else gram + variance / count * penalty
        if solve is not None:
            # Nearly the system of the first pass.
            coefficients = conjugate_gradients(
                partial(grams.product, matrix), part.cross, coefficients, solve
            )
        if coefficients is None:
            solve = solver_of(grams, matrix)
            coefficients = solve(part.cross)
        # The residual with the true Gram matrix: the ridge is no part of the model.
        fit = coefficients @ grams.product(gram, coefficients)
        fit -= ridge * (coefficients @ coefficients)
        rss = part.square + fit - 2 * coefficients @ part.cross
        pixels = count * part.observed + priors.noise_strength
        new = (
            count * max(float(rss), 0.0) + priors.noise_strength * priors.noise_scale**2
        ) / max(pixels, 1e-300)
        floored = new < priors.noise_floor
        new = max(new, priors.noise_floor)
        done = penalty is None or abs(new - variance) <= PRECISION * variance
        variance = new
        if done:
            break
    return coefficients, variance, floored


def unexplained_square(grid, part) -> float:
    """Return the part of the mean ``|y|^2`` that no template explains."""
    grams = grid.grams
    gram = grams.of(part.middle)
    diagonal = grams.diagonal(gram)
    diagonal += JITTER * float(diagonal.mean())
    try:
        solve = grams.factor(gram)
    except LinAlgError:
        return -np.inf
    return part.square - float(part.cross @ solve(part.cross))
