"""Gain and offset of the light of images, as separate parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.template.model.chains import Chains, Component, under_unit_light
from sktem.template.model.modes import Descent, ModeFinder
from sktem.template.model.statistics import observed_counts

__all__ = ["LIGHT", "Light", "LightRule", "LitImages"]


class LightRule(NamedTuple):
    """Bounds of light, and turns of the search for modes and light.

    Attributes
    ----------
    least_gain : float
        Least gain.
    no_variance : float
        Variance of a gain or offset that is no nuisance.
    turns, precision : int, float
        Turns, at most, and the change that ends them.
    further : Descent
        Steps from modes for other gains and offsets.
    """

    least_gain: float = 0.05
    no_variance: float = 1e-12
    turns: int = 8
    precision: float = 1e-4
    further: Descent = Descent(np.ones(1))


LIGHT = LightRule()


class Light(NamedTuple):
    """Gain and offset of an image: ``gain * template + offset``, and their prior.

    Attributes
    ----------
    variances : ndarray of shape (2,)
        Prior variances of gain and offset, about one and zero.
    """

    variances: np.ndarray

    def start(self, Y, image) -> np.ndarray:
        """Return gains and offsets by the moments of images, (n, 2)."""
        observed, count = ~np.isnan(Y), np.maximum(observed_counts(Y), 1)
        filled = [np.where(observed, part, 0.0) for part in (Y, image)]
        means = [part.sum(axis=1) / count for part in filled]
        squares = [
            np.where(observed, (part - mean[:, None]) ** 2, 0.0).sum(axis=1)
            for part, mean in zip(filled, means, strict=True)
        ]
        gains = np.ones(len(Y))
        if self.variances[0] > LIGHT.no_variance:
            ratio = np.sqrt(squares[0] / np.where(squares[1] > 0, squares[1], 1.0))
            deviation = 2 * np.sqrt(self.variances[0])
            gains = np.clip(ratio, 1 - deviation, 1 + deviation)
            gains = np.where(squares[1] > 0, np.maximum(gains, LIGHT.least_gain), 1.0)
        offsets = np.zeros(len(Y))
        if self.variances[1] > LIGHT.no_variance:
            offsets = means[0] - gains * means[1]
        return np.stack([gains, offsets], axis=1)

    def posterior(self, Y, images, variance):
        """Return posterior means of gains and offsets, (n, 2), and covariances.

        Parameters
        ----------
        Y, images : ndarray of shape (n, n_pixels)
            Images and what they are without noise, gain and offset.
        variance : float
            Variance of the noise.

        Returns
        -------
        means : ndarray of shape (n, 2)
            Gains, at least a twentieth, and offsets.
        covariances : ndarray of shape (n, 2, 2)
            Covariances.
        """
        observed = ~np.isnan(Y)
        y, image = np.where(observed, Y, 0.0), np.where(observed, images, 0.0)
        squares, first, cross, second = (
            part.sum(axis=1) for part in (image**2, image, image * y, y)
        )
        matrix = np.empty((len(Y), 2, 2))
        matrix[:, 0, 0], matrix[:, 1, 1] = squares, observed_counts(Y)
        matrix[:, 0, 1] = matrix[:, 1, 0] = first
        right = np.stack([cross, second], axis=1) / variance
        right[:, 0] += 1 / self.variances[0]
        covariances = np.linalg.inv(matrix / variance + np.diag(1 / self.variances))
        means = np.einsum("nij,nj->ni", covariances, right)
        means[:, 0] = np.maximum(means[:, 0], LIGHT.least_gain)
        return means, covariances

    def log_evidence(self, lights, covariances) -> np.ndarray:
        """Return the term of gains and offsets in Laplace's approximation."""
        gaps = (lights - [1.0, 0.0]) ** 2 / self.variances
        log_prior = gaps.sum(axis=1) + np.log(self.variances).sum()
        return 0.5 * (np.linalg.slogdet(covariances)[1] - log_prior)


class LitImages(NamedTuple):
    """Images with gains and offsets under one component.

    Attributes
    ----------
    light : Light
        Prior of gains and offsets.
    chains : Chains
        Chains of the deformations.
    modes : ModeFinder
        Their modes.
    part : Component
        The component.
    """

    light: Light
    chains: Chains
    modes: ModeFinder
    part: Component

    def posterior(self, X, Z):
        """Return means and covariances of gains and offsets given deformations."""
        images = self.chains.images(Z, self.part)
        return self.light.posterior(X, images, self.part.noise_variance)

    def draw(self, X, Z, seed, numbers) -> np.ndarray:
        """Return draws of gains and offsets given deformations."""
        means, covariances = self.posterior(X, Z)
        factors = np.linalg.cholesky(covariances)
        noise = [np.random.default_rng([seed, k]).normal(size=2) for k in numbers]
        lights = means + np.einsum("nij,nj->ni", factors, np.reshape(noise, (-1, 2)))
        lights[:, 0] = np.maximum(lights[:, 0], LIGHT.least_gain)
        return lights

    def search(self, X, image, principal):
        """Return modes of deformations and Laplace log-likelihoods.

        Deformations are sought given gains and offsets, and these given deformations,
        by turns; first they are those that give the template the moments of an image.
        """
        lights = self.light.start(X, image)
        Z, logs = np.zeros((len(X), self.modes.grid.n_latents)), np.empty(len(X))
        for turn in range(LIGHT.turns):
            for rows, Y, unlit_part in under_unit_light(X, lights, self.part):
                if turn == 0:
                    Z[rows], logs[rows] = self.modes.search(Y, unlit_part, principal)
                else:
                    refined = self.modes.find(Y, unlit_part, Z[rows], LIGHT.further)
                    Z[rows], logs[rows] = refined[:2]
            before = lights
            lights, covariances = self.posterior(X, Z)
            if np.abs(lights - before).max(initial=0.0) < LIGHT.precision:
                break
        logs -= observed_counts(X) * np.log(before[:, 0])
        return Z, logs + self.light.log_evidence(before, covariances)

    def means(self, X, target, modes, *counts) -> np.ndarray:
        """Return means of Langevin chains from modes: see ``Chains.mean``."""
        chain_means, lights = np.empty_like(modes), self.posterior(X, modes)[0]
        for rows, Y, unlit_part in under_unit_light(X, lights, target):
            chain_means[rows] = self.chains.mean(Y, unlit_part, modes[rows], *counts)
        return chain_means
