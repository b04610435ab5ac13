"""Images as deformed, noisy templates: the complete-data model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from sktem.models.base import LatentModel
from sktem.template.chains import TemplateMoves
from sktem.template.kernels.chains import Target
from sktem.template.modes import TemplateModes
from sktem.template.priors import posterior_template
from sktem.template.statistics import TemplateStatistics

__all__ = ["DeformableTemplateModel", "TemplateParams"]


@dataclass
class TemplateParams:
    """Parameters of a mixture of deformable templates.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
        Shares of the components.
    coefficients : ndarray of shape (n_components, n_template)
        Template coefficients beta.
    covariances : ndarray of shape (n_components, n_latents, n_latents)
        Covariances Gamma of the deformations.
    noise_variances : ndarray of shape (n_components,)
        Variances sigma^2 of the noise.
    means : ndarray of shape (n_components, n_latents) or None
        Mean deformations of the images, which the density does not depend on: a
        template and deformations are known only up to a common deformation. None means
        zero.
    floored : int
        Variances that had to be kept from zero in the M-step.
    """

    weights: np.ndarray
    coefficients: np.ndarray
    covariances: np.ndarray
    noise_variances: np.ndarray
    means: np.ndarray | None = None
    floored: int = 0
    _derived: dict[Any, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getstate__(self):
        return {**self.__dict__, "_derived": {}}

    def derived(self, key, make):
        """Return what follows from the parameters, made once.

        Parameters
        ----------
        key : hashable
            Its name.
        make : callable
            Makes it.

        Returns
        -------
        object
            What was made.
        """
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]


class Component(NamedTuple):
    """What follows from the parameters of one component.

    Attributes
    ----------
    table : ndarray
        The template as a spline.
    precision : ndarray of shape (n_latents, n_latents)
        Inverse covariance.
    factor : ndarray of shape (n_latents, n_latents)
        Lower Cholesky factor of the covariance.
    log_det : float
        Log-determinant of the covariance.
    noise_variance : float
        Noise variance.
    """

    table: np.ndarray
    precision: np.ndarray
    factor: np.ndarray
    log_det: float
    noise_variance: float


class DeformableTemplateModel(
    TemplateMoves, TemplateModes, TemplateStatistics, LatentModel
):
    """Deformable templates with Gaussian kernels (Allassonniere, Amit, Trouve 2007).

    ``y(u) = I(x_u - Phi(x_u)) + noise`` with a template ``I = K_p beta``, displacement
    fields ``Phi = K_g z`` and ``z ~ N(0, Gamma)``; a mixture of such templates if there
    are several components.

    A latent is a vector of chain states, for each component ``n_latents`` landmark
    displacements, the share of the component, the logarithm of the step of the chain
    and its number of transitions; for one component, the displacements alone will do.

    Parameters
    ----------
    grid : ImageGrid
        Geometry.
    priors : TemplatePriors
        Priors.
    n_components : int, default=1
        Number of templates.
    covariance_type : {"full", "shared", "isotropic"}, default="full"
        Structure of Gamma.
    n_rows : float, default=1.0
        Number of images, against which the priors weigh.
    start_at_mode : bool, default=False
        Whether chains start at a mode of the posterior, for trained parameters,
        instead of at no deformation.
    n_jobs : int or None, default=None
        Threads.
    """

    def __init__(
        self,
        grid,
        priors=None,
        n_components=1,
        covariance_type="full",
        n_rows=1.0,
        start_at_mode=False,
        n_jobs=None,
    ):
        self.grid = grid
        self.priors = priors
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.n_rows = n_rows
        self.start_at_mode = start_at_mode
        self.n_jobs = n_jobs

    # -------------------------------------------------------------------- parameters

    def component(self, params, t) -> Component:
        """Return what follows from the parameters of a component.

        Parameters
        ----------
        params : TemplateParams
            Parameters.
        t : int
            Number of the component.

        Returns
        -------
        Component
            Spline, precision and so on.
        """

        def make():
            covariance = params.covariances[t]
            factor = np.linalg.cholesky(covariance)
            inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
            return Component(
                self.grid.table(params.coefficients[t]),
                inverse.T @ inverse,
                factor,
                float(2 * np.log(np.diag(factor)).sum()),
                float(params.noise_variances[t]),
            )

        return params.derived(("component", t), make)

    def target(self, params, t) -> Target:
        """Return what Langevin chains of a component need.

        The preconditioner is the inverse of the Gauss-Newton matrix of the log-density,
        averaged over deformations drawn from the model.

        Parameters
        ----------
        params : TemplateParams
            Parameters.
        t : int
            Number of the component.

        Returns
        -------
        Target
            Spline, preconditioner and prior in its coordinates.
        """

        def make():
            part = self.component(params, t)
            hessian = part.precision + self.mean_curvature(part) / part.noise_variance
            # P with hessian = P P'; the preconditioner's factor solves P' L = 1. It is
            # upper triangular, so the order of the coordinates is turned around.
            lower = np.linalg.cholesky(hessian[::-1, ::-1])
            factor = solve_triangular(lower, np.eye(len(lower)), lower=True).T
            factor = np.ascontiguousarray(factor[::-1, ::-1])
            whitened = factor.T @ part.precision @ factor
            return Target(
                part.table,
                factor,
                np.ascontiguousarray((whitened + whitened.T) / 2),
                part.noise_variance,
            )

        return params.derived(("target", t), make)

    def initial_params(self, X, rng):
        """Return parameters without deformations, from the mean of the images."""
        shares = np.ones((len(X), 1))
        return self.params_of(X, shares)

    def params_of(self, X, shares, sample_weight=None) -> TemplateParams:
        """Return parameters from undeformed images with given shares.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        shares : ndarray of shape (n, n_components)
            Shares of the components in every image.
        sample_weight : ndarray of shape (n,) or None, default=None
            Weights of the images.

        Returns
        -------
        TemplateParams
            Templates that are smoothed means, the prior's covariance.
        """
        Z = self.chain_states(len(X), shares)
        dim, T = self.grid.n_latents, self.n_components
        start = TemplateParams(
            np.full(T, 1 / T),
            np.zeros((T, self.grid.n_template)),
            np.repeat(self.priors.deformation_covariance(self.grid)[None], T, axis=0),
            np.ones(T),
        )
        params = self.maximize(self.mean_statistics(X, Z, sample_weight), start)
        params.covariances = start.covariances.reshape(T, dim, dim)
        params._derived.clear()
        return params

    # ------------------------------------------------------------------------ M-step

    def maximize(self, s, params):
        """Do the maximum a posteriori M-step for each component.

        A component that no image belongs to keeps its parameters.
        """
        T, n = self.n_components, self.n_rows
        counts = n * s.reshape(T, -1)[:, 0]
        concentration = self.priors.weight_concentration
        weights = np.maximum(counts, 0.0) + concentration
        weights = weights / weights.sum() if weights.any() else params.weights
        coefficients, covariances = (
            params.coefficients.copy(),
            params.covariances.copy(),
        )
        noise_variances, floored = params.noise_variances.copy(), 0
        means = self.means_of(params).copy()
        for t in range(T):
            if not counts[t] > 1e-3:
                continue
            part = self.split(s, t)
            coefficients[t], noise_variances[t], low = posterior_template(
                self.grid, part, counts[t], self.priors, noise_variances[t]
            )
            covariances[t], thin = self.priors.posterior_covariance(
                self.grid, part.outer, counts[t], self.covariance_type
            )
            means[t] = part.mean
            floored += int(low) + int(thin)
        return TemplateParams(
            weights, coefficients, covariances, noise_variances, means, floored
        )

    def means_of(self, params) -> np.ndarray:
        """Return the mean deformations of the components, zero if there are none."""
        if params.means is None:
            return np.zeros((self.n_components, self.grid.n_latents))
        return params.means

    def degeneracies(self, params):
        """Return how many variances had to be kept from zero."""
        return params.floored

    def penalty(self, params):
        """Return minus the log-density of the priors, per image, up to a constant."""
        return (
            -sum(
                self.priors.log_density(
                    self.grid,
                    params.coefficients[t],
                    self.component(params, t),
                    self.covariance_type,
                )
                for t in range(self.n_components)
            )
            / self.n_rows
            - self.priors.weight_concentration
            * float(np.log(params.weights).sum())
            / self.n_rows
        )

    def project(self, s):
        """Bring statistics back to what images can produce, and say if they had left.

        Shares, squares and the sums at mid-points are not negative, and with the priors
        the M-step finds some noise and a positive definite covariance.
        """
        return self.feasible(s)
