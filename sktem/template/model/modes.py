"""Modes of the deformations of images, and likelihoods by them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from sktem.template.geometry.grid import ImageGrid
from sktem.template.kernels.field import squares_of
from sktem.template.kernels.modes import Levels, ModeValues, modes
from sktem.template.model.chains import over_images
from sktem.template.model.statistics import observed_counts

__all__ = ["Descent", "ModeFinder", "ModeSearch"]


class Descent(NamedTuple):
    """Levenberg-Marquardt steps while the noise is lowered to its estimate.

    Attributes
    ----------
    levels : ndarray
        Factors of the noise variance, one after the other.
    steps : int
        Steps at one level, at most.
    gains : tuple of float
        Nats that a step has to gain, on the way and at the last level.
    hold : float
        Share of the expected gain of a step for its matrix to serve the next one.
    """

    levels: np.ndarray
    steps: int = 30
    gains: tuple[float, float] = (0.03, 0.01)
    hold: float = np.inf


class ModeSearch(NamedTuple):
    """Settings of the search for modes.

    Attributes
    ----------
    first, from_mode : Descent
        To a mode of a new image, and from a mode that is nearly one.
    poor : float
        Images with larger squared residuals per pixel, in noise variances, are searched
        again.
    again, from_principal : Descent
        For these: from no deformation, and from principal deformations.
    n_principal, deviations : int, float
        How many deformations, and how many standard deviations they are long.
    another : float
        Nats that another mode is better by, more than the precision of one mode.
    """

    first: Descent = Descent(4.0 ** np.arange(4, -1, -1))
    from_mode: Descent = Descent(np.ones(1), steps=3)
    poor: float = 1.2
    again: Descent = Descent(np.array([128.0, 32.0, 8.0, 2.0, 1.0]))
    from_principal: Descent = Descent(np.array([16.0, 4.0, 1.0]))
    n_principal: int = 2
    deviations: float = 1.5
    another: float = 0.1


class ModeFinder(NamedTuple):
    """Posterior modes of the deformations of images under one component.

    Attributes
    ----------
    grid : ImageGrid
        Geometry.
    n_jobs : int or None
        Threads.
    how : ModeSearch
        How they are sought.
    """

    grid: ImageGrid
    n_jobs: int | None = None
    how: ModeSearch = ModeSearch()

    def find(self, X, component, Z=None, descent=None, factors=False):
        """Return posterior modes of the deformations and Laplace log-likelihoods.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        component : Component
            A component.
        Z : ndarray of shape (n, n_latents) or None, default=None
            Where to start; None means at no deformation.
        descent : Descent or None, default=None
            Steps; None takes those to a mode of a new image.
        factors : bool, default=False
            Whether Cholesky factors of the Hessians are wanted.

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
        grid, descent = self.grid, self.how.first if descent is None else descent
        n, dim = len(X), grid.n_latents
        Z = np.zeros((n, dim)) if Z is None else np.array(Z, dtype=float)
        rss, log_det = np.empty(n), np.empty(n)
        levels = np.asarray(descent.levels, dtype=float)
        least = np.full(len(levels), descent.gains[0])
        least[-1] = descent.gains[1]
        lowers = np.zeros((n if factors else 0, dim, dim))

        def find(rows):
            modes(
                X[rows], Z[rows], component,
                Levels(levels, descent.steps, least, descent.hold),
                grid.compiled, grid.pairs,
                ModeValues(rss[rows], log_det[rows], lowers[rows]),
            )  # fmt: skip

        over_images(find, X, self.n_jobs)
        energies = rss / component.noise_variance + np.einsum(
            "ij,jk,ik->i", Z, component.precision, Z
        )
        log_likelihood = component.constant(X) - 0.5 * (energies + log_det)
        return Z, log_likelihood, lowers, energies

    def search(self, X, component, principal):
        """Return the best posterior modes that several searches find.

        The posterior of an image has several modes. Images that the first search
        leaves with residuals much larger than the noise are searched again, by other
        levels of noise and from the principal deformations to both sides.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        component : Component
            A component.
        principal : callable
            Returns :meth:`principal` of the component, if an image needs it.

        Returns
        -------
        Z : ndarray of shape (n, n_latents)
            Modes.
        log_likelihood : ndarray of shape (n,)
            Laplace's approximation.
        """
        Z, logs, _, energies = self.find(X, component)
        # Written so that images without a mode (NaN) count as poor.
        poor = np.flatnonzero(~(energies <= self.how.poor * observed_counts(X)))
        if len(poor) == 0:
            return Z, logs
        starts = [(np.zeros(self.grid.n_latents), self.how.again)]
        for deformation in principal():
            for sign in (-self.how.deviations, self.how.deviations):
                starts.append((sign * deformation, self.how.from_principal))
        for start, descent in starts:
            many = np.tile(start, (len(poor), 1))
            new, reached, *_ = self.find(X[poor], component, many, descent)
            better = reached > np.nan_to_num(logs[poor], nan=-np.inf) + self.how.another
            Z[poor[better]], logs[poor[better]] = new[better], reached[better]
        return Z, logs

    def principal(self, component) -> np.ndarray:
        """Return the deformations of one standard deviation that displace most."""
        return self.grid.principal(component.factor, self.how.n_principal)[0]

    def importance(self, X, Z, component, n_draws, seed, freedom=5):
        """Return log-likelihoods by importance sampling around the modes.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        Z : ndarray of shape (n, n_latents)
            Modes.
        component : Component
            A component.
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
        grid = self.grid
        Z, _, lowers, _ = self.find(X, component, Z, self.how.from_mode, factors=True)
        terms = np.empty((len(X), n_draws))
        # The same draws for every image: an answer does not depend on the others.
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal((n_draws, grid.n_latents))
        squares, stretch = (noise**2).sum(axis=1), np.ones(n_draws)
        log_proposal = -0.5 * squares
        if freedom > 0:
            stretch = np.sqrt(freedom / rng.chisquare(freedom, n_draws))
            ratio = squares * stretch**2 / freedom
            log_proposal = -0.5 * (freedom + grid.n_latents) * np.log1p(ratio)

        def draw(rows):
            for row in range(len(X))[rows]:
                gaps = solve_triangular(lowers[row], noise.T, lower=True, trans="T").T
                draws = Z[row] + stretch[:, None] * gaps
                rss = squares_of(X[row], draws, component.table, grid.compiled)
                form = ((draws @ component.precision) * draws).sum(axis=1)
                scaled = rss / component.noise_variance
                terms[row] = -0.5 * (scaled + form) - log_proposal

        over_images(draw, X, self.n_jobs)
        half = np.log(np.diagonal(lowers, axis1=1, axis2=2)).sum(axis=1)
        constant = component.constant(X) - half
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
