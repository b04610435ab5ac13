"""Modes of the deformations of images, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from sktem.template.kernels.modes import importance_terms, modes

__all__ = ["TemplateModes"]

#: Factors of the noise variance on the way to a mode of a new image.
ANNEALING = 4.0 ** np.arange(4, -1, -1)

#: Further searches of images with more than so much rest per pixel, in noise variances:
#: one by other levels, and some from principal deformations of so many standard
#: deviations, by the levels after them.
POOR = 1.2
OTHER_LEVELS = np.array([128.0, 32.0, 8.0, 2.0, 1.0])
PRINCIPAL, DEVIATIONS = 2, 1.5
LEVELS_FROM_PRINCIPAL = np.array([16.0, 4.0, 1.0])

#: Nats that another mode is better by, more than the precision of one mode.
ANOTHER = 0.1

#: Steps towards a mode at one level of noise, and from a mode that is nearly one.
STEPS, STEPS_FROM_MODE = 30, 3

#: Nats that a step towards a mode has to gain, on the way and at the end.
ROUGH_GAIN, LAST_GAIN = 0.03, 0.01


class TemplateModes:
    """The modes' part of :class:`DeformableTemplateModel`."""

    # What the model itself defines.
    grid: Any
    n_components: Any
    n_jobs: Any
    component: Any
    fields: Any
    _images: Any

    def modes_of(
        self, X, params, t, Z=None, factors=False, levels=ANNEALING, max_steps=STEPS
    ):
        """Return posterior modes of the deformations and Laplace log-likelihoods.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        params : TemplateParams
            Parameters.
        t : int
            Number of the component.
        Z : ndarray of shape (n, n_latents) or None, default=None
            Where to start; None means at no deformation.
        factors : bool, default=False
            Whether Cholesky factors of the Hessians are wanted.
        levels : ndarray, default=[256, 64, 16, 4, 1]
            Factors of the noise variance, one after the other.
        max_steps : int, default=30
            Steps at one level, at most.

        Returns
        -------
        Z : ndarray of shape (n, n_latents)
            Modes.
        log_likelihood : ndarray of shape (n,)
            Laplace's approximation.
        lowers : ndarray of shape (n or 0, n_latents, n_latents)
            Factors.
        energies : ndarray of shape (n,)
            ``rss / noise_variance + z' Gamma^-1 z`` at the modes.
        """
        grid, part = self.grid, self.component(params, t)
        n, dim = len(X), grid.n_latents
        Z = np.zeros((n, dim)) if Z is None else np.array(Z, dtype=float)
        rss, log_det = np.empty(n), np.empty(n)
        gains = np.full(len(levels), ROUGH_GAIN)
        gains[-1] = LAST_GAIN
        lowers = np.zeros((n if factors else 0, dim, dim))

        def find(rows):
            modes(
                X[rows], Z[rows], part.table, part.precision, part.noise_variance,
                np.asarray(levels, dtype=float), max_steps, gains, grid.compiled,
                grid.pairs, grid.n_axes, rss[rows], log_det[rows], lowers[rows],
            )  # fmt: skip

        self._images(find, n)
        energies = rss / part.noise_variance + np.einsum(
            "ij,jk,ik->i", Z, part.precision, Z
        )
        log_likelihood = self._constant(X, part) - 0.5 * (energies + log_det)
        return Z, log_likelihood, lowers, energies

    def search_modes(self, X, params, t):
        """Return the best posterior modes that several searches find.

        The posterior of an image has several modes. Images that the first search
        leaves with much more rest than noise are searched again, by other levels of
        noise and from the principal deformations to both sides.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        params : TemplateParams
            Parameters.
        t : int
            Number of the component.

        Returns
        -------
        Z : ndarray of shape (n, n_latents)
            Modes.
        log_likelihood : ndarray of shape (n,)
            Laplace's approximation.
        """
        Z, logs, _, energies = self.modes_of(X, params, t)
        observed = (~np.isnan(X)).sum(axis=1)
        # Written so that images without a mode (NaN) count as poor.
        poor = np.flatnonzero(~(energies <= POOR * observed))
        starts = [(np.zeros(self.grid.n_latents), OTHER_LEVELS)]
        for deformation in self.principal(params, t):
            for sign in (-DEVIATIONS, DEVIATIONS):
                starts.append((sign * deformation, LEVELS_FROM_PRINCIPAL))
        for start, levels in starts if len(poor) else ():
            many = np.tile(start, (len(poor), 1))
            new, found, *_ = self.modes_of(X[poor], params, t, many, levels=levels)
            better = found > np.nan_to_num(logs[poor], nan=-np.inf) + ANOTHER
            Z[poor[better]], logs[poor[better]] = new[better], found[better]
        return Z, logs

    def principal(self, params, t):
        """Return the deformations of one standard deviation that displace most.

        Parameters
        ----------
        params : TemplateParams
            Parameters.
        t : int
            Number of the component.

        Returns
        -------
        ndarray of shape (at most 2, n_latents)
            Deformations.
        """

        def make():
            factor = self.component(params, t).factor
            fields = self.grid.field(factor.T).reshape(len(factor), -1)
            _, vectors = np.linalg.eigh(fields @ fields.T)
            return (factor @ vectors[:, ::-1][:, :PRINCIPAL]).T

        return params.derived(("principal", t), make)

    def _constant(self, X, part):
        """Return what is added to the logarithm of an integral over deformations."""
        observed = (~np.isnan(X)).sum(axis=1)
        noise = observed * np.log(2 * np.pi * part.noise_variance)
        return -0.5 * (noise + part.log_det)

    def update_shares(self, X, Z, params) -> None:
        """Set the shares of the components by Laplace's approximation, in place.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        Z : ndarray of shape (n, width)
            States; modes are sought from the remembered ones.
        params : TemplateParams
            Parameters.
        """
        T, states = self.n_components, self.fields(Z)
        logs = np.empty((len(X), T))
        remembered = states.mode
        known = remembered.any(axis=(1, 2))
        # A remembered mode is near the present one: a few steps will do. The first
        # time it is sought from no deformation.
        groups = [
            (np.flatnonzero(known), np.ones(1), STEPS_FROM_MODE),
            (np.flatnonzero(~known), ANNEALING, STEPS),
        ]
        for rows, levels, max_steps in groups:
            if len(rows) == 0:
                continue
            for t in range(T):
                remembered[rows, t], logs[rows, t], *_ = self.modes_of(
                    X[rows], params, t, remembered[rows, t],
                    levels=levels, max_steps=max_steps,
                )  # fmt: skip
        logs = np.where(np.isnan(logs), -np.inf, logs) + np.log(params.weights)
        total = logsumexp(logs, axis=1, keepdims=True)
        lost = ~np.isfinite(total[:, 0])
        states.share[:] = np.exp(logs - np.where(np.isfinite(total), total, 0.0))
        states.share[lost] = params.weights

    def importance(self, X, params, t, n_draws, seed, freedom=5):
        """Return log-likelihoods by importance sampling around the modes.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        params : TemplateParams
            Parameters.
        t : int
            Number of the component.
        n_draws : int
            Draws per image.
        seed : int
            Seed of the draws.
        freedom : int, default=5
            Degrees of freedom of the proposal; 0 means Gaussian.

        Returns
        -------
        log_likelihood, standard_error, effective_size : ndarray of shape (n,)
            Estimates, standard errors of the logarithms, and effective sample sizes.
        """
        grid, part = self.grid, self.component(params, t)
        Z, _ = self.search_modes(X, params, t)
        Z, _, lowers, _ = self.modes_of(
            X, params, t, Z, factors=True, levels=np.ones(1), max_steps=STEPS_FROM_MODE
        )
        terms = np.empty((len(X), n_draws))
        # The same draws for every image: an answer does not depend on the others.
        numbers = np.zeros(len(X), dtype=np.int64)

        def draw(rows):
            importance_terms(
                X[rows], Z[rows], lowers[rows], numbers[rows], np.uint64(seed), freedom,
                part.table, part.precision, part.noise_variance, grid.compiled,
                grid.n_axes, terms[rows],
            )  # fmt: skip

        self._images(draw, len(X))
        half = np.log(np.diagonal(lowers, axis1=1, axis2=2)).sum(axis=1)
        constant = self._constant(X, part) - half
        constant += _proposal_constant(grid.n_latents, freedom)
        return _log_mean(terms, constant)


def _proposal_constant(dim, freedom):
    """Return minus the logarithm of a proposal's constant, with (2 pi)^(-d/2) of z."""
    if freedom == 0:
        return 0.0
    student = gammaln((freedom + dim) / 2) - gammaln(freedom / 2)
    student -= 0.5 * dim * np.log(freedom * np.pi)
    return -0.5 * dim * np.log(2 * np.pi) - student


def _log_mean(terms, constant):
    """Return log-means of exponentials, their standard errors and effective sizes."""
    n_draws = terms.shape[1]
    top = terms.max(axis=1, keepdims=True)
    weights = np.exp(terms - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=1)
    effective = total**2 / (weights**2).sum(axis=1)
    error = np.sqrt(np.maximum(1 / effective - 1 / n_draws, 0.0))
    return constant + top[:, 0] + np.log(total / n_draws), error, effective
