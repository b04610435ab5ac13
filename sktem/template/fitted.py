"""Fitted deformable templates: likelihoods, posterior means and registrations."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp

from sktem.images.shapes import Layout
from sktem.template.geometry.registration import Registration
from sktem.template.model.model import DeformableTemplateModel
from sktem.template.model.nuisances import Nuisances
from sktem.template.model.params import TemplateParams
from sktem.template.reported import Reported
from sktem.template.settings import Frame

__all__ = ["FittedTemplate", "LikelihoodEstimate", "PosteriorMeans"]


class LikelihoodEstimate(NamedTuple):
    """Log-likelihoods by importance sampling.

    Attributes
    ----------
    log_likelihood : ndarray of shape (n_samples,)
        Estimates.
    standard_error : ndarray of shape (n_samples,)
        Their standard errors, to first order.
    effective_sample_size : ndarray of shape (n_samples,)
        Draws that the weighted ones are worth; below about 10 do not trust the
        standard error.
    """

    log_likelihood: np.ndarray
    standard_error: np.ndarray
    effective_sample_size: np.ndarray


class PosteriorMeans(NamedTuple):
    """Chains that start at modes, whose states are averaged after a few moves.

    Attributes
    ----------
    burn_in, averaged, spacing : int
        Moves before, states that are averaged, and moves between them.
    """

    burn_in: int = 10
    averaged: int = 60
    spacing: int = 2


@dataclass(frozen=True, eq=False)
class FittedTemplate:
    """Parameters of templates with the frame of their images.

    Attributes
    ----------
    frame : Frame
        Geometry and units.
    layout : Layout
        How images are laid out.
    params : TemplateParams
        Parameters of the model.
    nuisances : Nuisances or None
        Nuisances of the images.
    mass, strength : float
        Weight of the training images, and of the prior on deformations.
    n_jobs : int or None
        Threads.
    largest : float
        Standardised pixels are held within it, whose squares would overflow.
    """

    frame: Frame
    layout: Layout
    params: TemplateParams
    nuisances: Nuisances | None
    mass: float
    strength: float
    n_jobs: int | None = None
    largest: ClassVar[float] = 1e100

    @classmethod
    def of(cls, frame, layout, model, params) -> FittedTemplate:
        """Return the object of parameters that a model has learned."""
        return cls(
            frame, layout, replace(params, means=model.means_of(params)),
            model.nuisances, model.n_rows, model.priors.strength,
        )  # fmt: skip

    def without_derived(self, n_jobs) -> FittedTemplate:
        """Return the template for some threads, without arrays derived for its fit."""
        grid = copy(self.frame.grid)
        return replace(self, frame=self.frame._replace(grid=grid), n_jobs=n_jobs)

    def attributes(self) -> dict:
        """Return the fitted attributes of an estimator by their names."""
        params = self.params
        attributes = {
            "fitted_": self,
            "grid_": self.frame.grid,
            "offset_": self.frame.offset,
            "scale_": self.frame.scale,
            "weights_": params.weights,
            "coefficients_": params.coefficients,
            "covariances_": params.covariances,
            "mean_deformations_": self.means,
            "noise_variances_": self.frame.noise_variances(params.noise_variances),
            "templates_": self.layout.stack_of(self.templates(), False),
        }
        if params.nuisances is not None:
            names = "nuisance_means_", "nuisance_covariances_"
            attributes |= zip(names, params.nuisances, strict=True)
        return attributes

    @cached_property
    def model(self) -> DeformableTemplateModel:
        """The model, without priors."""
        return DeformableTemplateModel(
            self.frame.grid,
            n_components=len(self.params.weights),
            start_at_mode=True,
            n_jobs=self.n_jobs,
            nuisances=self.nuisances,
        )

    @cached_property
    def reported(self) -> Reported:
        """Deformations and nuisances as users see them."""
        params = self.params
        moments = (None, None) if params.nuisances is None else params.nuisances
        return Reported(self.frame, self.nuisances, params.covariances, *moments)

    @property
    def means(self) -> np.ndarray:
        """Mean deformations, at which templates are shown."""
        return np.asarray(self.params.means)

    @property
    def nuisance_names(self) -> tuple[str, ...]:
        """Names of the nuisances."""
        return () if self.nuisances is None else self.nuisances.names

    def standardised(self, X):
        """Return checked images in the units of the model, patches missing."""
        X = self.frame.observed(X)
        with np.errstate(over="ignore"):
            return np.clip(self.frame.standardised(X), -self.largest, self.largest)

    # ------------------------------------------------------------------ deformations

    def modes_under(self, Y):
        """Return modes under the most probable component, and the components."""
        return self.model.modes_under(Y, self.params)

    def _lights(self, Y, Z):
        """Return gains and offsets given deformations, or None if there are none."""
        model = self.model
        return (
            None if model.light is None else model.lit(self.params).posterior(Y, Z)[0]
        )

    def columns(self, Y, Z, labels):
        """Return deformations apart from nuisances, and these as further columns."""
        return self.reported.columns(Z, labels, self._lights(Y, Z))

    def modes_of(self, X):
        """Return modes of images, as columns."""
        Y = self.standardised(X)
        return self.columns(Y, *self.modes_under(Y))

    def posterior_means(self, X, how=None):
        """Return posterior means of deformations of images, as columns."""
        Y = self.standardised(X)
        modes, labels = self.modes_under(Y)
        means, counts = np.empty_like(modes), PosteriorMeans() if how is None else how
        for t in np.unique(labels):
            rows = np.flatnonzero(labels == t)
            means[rows] = self.model.posterior_means(
                Y[rows], self.params, t, modes[rows], *counts
            )
        return self.columns(Y, means, labels)

    def explained(self, X):
        """Return images without noise as rows, their displacements and components."""
        Y = self.standardised(X)
        Z, labels = self.modes_under(Y)
        images = self._deformed(Z, labels, self._lights(Y, Z))
        return images, self.frame.grid.field(Z), labels

    def min_jacobians(self, X):
        """Return the least Jacobian determinants of images."""
        modes = self.modes_under(self.standardised(X))[0]
        return self.frame.grid.jacobians(modes).min(axis=1)

    def nuisances_of(self, X):
        """Return nuisances of images by name."""
        return self.reported.table(self.modes_of(X))

    def principal_deformations(self, k, component):
        """Return principal deformations about the mean, and their shares."""
        n_latents = self.frame.grid.n_latents
        if not isinstance(k, Integral) or not 1 <= int(k) <= n_latents:
            raise ValueError(f"k must be an integer in 1, ..., {n_latents}, got {k!r}")
        count = self.mass * self.params.weights[component]
        share = count / (count + self.strength)
        mean = self.means[component]
        factor = self.reported.spread(mean, component, share)
        return self.frame.grid.principal(factor, k)

    # ------------------------------------------------------------------------ images

    def _deformed(self, Z, components, lights=None):
        """Return deformed templates as rows of the model, in units of the images."""
        grid = self.frame.grid
        images = np.empty((len(Z), grid.n_pixels))
        for row, t in enumerate(components):
            images[row] = grid.deformed(self.params.coefficients[t], Z[row])
        if lights is not None:
            images = lights[:, :1] * images + lights[:, 1:]
        return self.frame.restored(images)

    def images_of(self, columns, components):
        """Return deformed templates of columns, as rows of the model."""
        Z, lights = self.reported.whole(columns, components)
        return self._deformed(Z, components, lights)

    def templates(self):
        """Return templates at the mean deformations as rows of the model."""
        params = self.params
        labels, lights = np.arange(len(params.weights)), None
        if self.model.light is not None:
            lights = np.asarray(self.reported.means)[:, -2:]
        return self._deformed(self.means, labels, lights)

    def drawn(self, n_samples, noise, rng):
        """Return images drawn from the model as rows, and their components."""
        params = self.params
        T = len(params.weights)
        labels = np.repeat(np.arange(T), rng.multinomial(n_samples, params.weights))
        Z, lights = self.reported.drawn(n_samples, labels, rng)
        X = self._deformed(Z, labels, lights)
        if noise:
            variances = self.frame.noise_variances(params.noise_variances)
            scale = np.sqrt(variances).reshape(T, -1)[labels]
            scale = np.repeat(scale, X.shape[1] // scale.shape[1], axis=1)
            X = X + scale * rng.standard_normal(X.shape)
        return X, labels

    def registration(self, X) -> Registration:
        """Return the registration of images with the template."""
        Y = self.standardised(X)
        Z, labels = self.modes_under(Y)
        nuisances = self.reported.table(self.columns(Y, Z, labels))
        return Registration(self.frame.grid, Z, self.means[labels], nuisances)

    def registered(self, X, order):
        """Return images carried back to the template, as rows of the model."""
        X = self.frame.observed(X)
        Y = self.standardised(X)
        Z, labels = self.modes_under(Y)
        missing = np.isnan(X)
        if missing.any():
            X = np.where(missing, self._deformed(Z, labels, self._lights(Y, Z)), X)
        X = self.reported.unlit(X, self.columns(Y, Z, labels))
        stack = X.reshape(len(X), -1, *self.layout.image_shape)
        back = Registration(self.frame.grid, Z, self.means[labels])
        carried = back.warp(stack, inverse=True, order=order, channel_axis=1)
        return carried.reshape(X.shape)

    # ------------------------------------------------------------------- likelihoods

    def in_units_of_images(self, logs, Y):
        """Return log-densities of images from those of standardised ones."""
        return logs - self.frame.log_scales(Y)[:, None]

    def joint_logs(self, X):
        """Return Laplace log-likelihoods with each component, in units of X."""
        Y = self.standardised(X)
        return self.in_units_of_images(self.model.searched(Y, self.params)[1], Y)

    def log_likelihoods(self, X):
        """Return log-likelihoods of images by Laplace's approximation."""
        return logsumexp(self.joint_logs(X), axis=1)

    def shares(self, X):
        """Return probabilities of the components."""
        logs = self.joint_logs(X)
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    def likelihood_estimates(self, X, n_draws, degrees) -> LikelihoodEstimate:
        """Return log-likelihoods of images by importance sampling."""
        if n_draws < 2 or degrees < 0:
            raise ValueError(
                f"n_draws must be >= 2 and degrees >= 0, got {n_draws!r}, {degrees!r}"
            )
        Y, params = self.standardised(X), self.params
        estimates = [
            self.model.importance(Y, params, t, n_draws, 0, degrees)
            for t in range(len(params.weights))
        ]
        logs, errors, sizes = (
            np.stack(part, axis=1) for part in zip(*estimates, strict=True)
        )
        logs = logs + np.log(params.weights)
        total = logsumexp(logs, axis=1)
        shares = np.exp(logs - total[:, None])
        return LikelihoodEstimate(
            total - self.frame.log_scales(Y),
            np.sqrt(((shares * errors) ** 2).sum(axis=1)),
            np.where(shares > 0.01, sizes, np.inf).min(axis=1),
        )
