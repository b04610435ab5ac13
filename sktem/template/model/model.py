"""Images as deformed, noisy templates: the complete-data model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sktem.models.base import LatentModel
from sktem.template.kernels.chains import Target
from sktem.template.model.chains import Chains, Component, Moves
from sktem.template.model.light import LitImages
from sktem.template.model.modes import ModeFinder
from sktem.template.model.params import TemplateParams
from sktem.template.model.priors import posterior_template
from sktem.template.model.states import ChainStates, state_size
from sktem.template.model.statistics import feasible, split, sum_statistics

__all__ = ["DeformableTemplateModel", "TemplateParams"]


class MixtureRule(NamedTuple):
    """Labels of a mixture of templates, and M-steps with nuisances.

    Attributes
    ----------
    frozen : int
        Transitions after which the labels of a mixture are free; until then they are
        those of the start, so that every template learns what belongs to it first.
    covariance_passes : int
        Passes of EM over the covariance of deformations in an M-step with nuisances.
    least_share : float
        Shares below this do not change the statistics.
    """

    frozen: int = 50
    covariance_passes: int = 3
    least_share: float = 1e-10


RULE = MixtureRule()


class DeformableTemplateModel(LatentModel):
    """Deformable templates with Gaussian kernels (Allassonniere, Amit, Trouve 2007).

    ``y(u) = I(x_u - Phi(x_u)) + noise`` with a template ``I = K_p beta``, displacement
    fields ``Phi = K_g z`` and ``z ~ N(0, Gamma)``; a mixture of such templates if there
    are several components.

    A latent is a vector of chain states: for each component, ``n_latents`` landmark
    displacements, the share of the component, the logarithm of the step of the chain
    and its number of transitions. With one component, the displacements alone are
    enough.

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
        Number of images, relative to which the priors have their weights.
    start_at_mode : bool, default=False
        Whether chains start at a mode of the posterior, for trained parameters, instead
        of without deformation.
    n_jobs : int or None, default=None
        Threads.
    nuisances : Nuisances or None, default=None
        Differences between images that are not deformations. Displacements are then
        those of the deformation and the nuisances together.
    blocks : BlockStarts or None, default=None
        Starts of the chains of large images, in place of the modes for their pixels.
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
        nuisances=None,
        blocks=None,
    ):
        self.grid = grid
        self.priors = priors
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.n_rows = n_rows
        self.start_at_mode = start_at_mode
        self.n_jobs = n_jobs
        self.nuisances = nuisances
        self.blocks = blocks

    # -------------------------------------------------------------------- parameters

    @property
    def chains(self) -> Chains:
        """Chains of deformations under one component."""
        return Chains(self.grid, self.n_jobs)

    @property
    def modes(self) -> ModeFinder:
        """Posterior modes under one component."""
        return ModeFinder(self.grid, self.n_jobs)

    def component(self, params, t) -> Component:
        """Return the derived quantities of the parameters of component ``t``."""

        def make():
            wide = None if self.nuisances is None else self.nuisances.covariance
            return Component.of(self.grid, params, t, wide)

        return params.derived(("component", t), make)

    def target(self, params, t) -> Target:
        """Return the target density of Langevin chains of component ``t``."""
        return params.derived(
            ("target", t), lambda: self.chains.target(self.component(params, t))
        )

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
        T, covariance = self.n_components, self.priors.deformation_covariance(self.grid)
        start = TemplateParams(
            np.full(T, 1 / T),
            np.zeros((T, self.grid.n_template)),
            np.repeat(covariance[None], T, axis=0),
            np.ones(T),
        )
        params = self.maximize(self.mean_statistics(X, Z, sample_weight), start)
        return replace(params, covariances=start.covariances)

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
        coefficients, covariances, noise_variances, means = map(np.copy, (
            params.coefficients, params.covariances, params.noise_variances,
            self.means_of(params),
        ))  # fmt: skip
        floored = 0
        for t in range(T):
            if not counts[t] > 1e-3:
                continue
            averages = split(self.grid, s.reshape(T, -1)[t])
            coefficients[t], noise_variances[t], low = posterior_template(
                self.grid, averages, counts[t], self.priors, noise_variances[t]
            )
            covariances[t], thin = self._covariance(covariances[t], averages, counts[t])
            means[t] = averages.mean
            floored += int(low) + int(thin)
        nuisances = None
        if self.nuisances is not None:
            nuisances = self.nuisances.moments(s.reshape(T, -1), covariances)
        return TemplateParams(
            weights, coefficients, covariances, noise_variances, means, floored,
            nuisances,
        )  # fmt: skip

    def _covariance(self, covariance, averages, count):
        """Return the next covariance of deformations, and whether it was floored."""
        passes = 1 if self.nuisances is None else RULE.covariance_passes
        outer = averages.outer
        for _ in range(passes):
            if self.nuisances is not None:
                outer = self.nuisances.outer_without(averages.outer, covariance)
            covariance, thin = self.priors.posterior_covariance(
                self.grid, outer, count, self.covariance_type
            )
        return covariance, thin

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
        total = self.priors.weight_concentration * float(np.log(params.weights).sum())
        for t, coefficients in enumerate(params.coefficients):
            component = Component.of(self.grid, params, t)
            total += self.priors.log_density(self.grid, coefficients, component)
        return -total / self.n_rows

    def project(self, s):
        """Project statistics onto those of images, and say if they were outside.

        Shares, squares and the sums at mid-points are not negative, and with the priors
        the M-step finds some noise and a positive definite covariance.
        """
        by_component, left = s.reshape(self.n_components, -1).copy(), False
        for component in by_component:
            left |= feasible(
                self.grid, component, self.priors, self.n_rows, self.covariance_type
            )
        return (by_component.ravel(), True) if left else (s, False)

    # ------------------------------------------------------------- latents and chains

    def chain_states(self, n, shares=None) -> np.ndarray:
        """Return latents without deformation.

        Parameters
        ----------
        n : int
            Number of images.
        shares : ndarray of shape (n, n_components) or None, default=None
            Shares of the components; None means equal ones.

        Returns
        -------
        ndarray of shape (n, n_components * state_size)
            States, with the fields of :class:`ChainStates`.
        """
        T = self.n_components
        n_light = 0 if self.light is None else 2
        Z = np.zeros((n, T * (state_size(self.grid.n_latents, T) + n_light)))
        self.fields(Z).light[..., :1] = 1.0
        self.fields(Z).share[:] = 1 / T if shares is None else shares
        return Z

    def fields(self, Z) -> ChainStates:
        """Return the fields of chain states, as views."""
        return ChainStates.of(Z, self.grid.n_latents, self.n_components)

    def parts(self, Z):
        """Return displacements and shares of latents.

        Parameters
        ----------
        Z : ndarray of shape (n, width)
            Latents: states of chains, or displacements alone.

        Returns
        -------
        deformations : ndarray of shape (n, n_components, n_latents)
            Displacements.
        shares : ndarray of shape (n, n_components)
            Shares of the components.
        """
        if Z.shape[1] == self.grid.n_latents and self.n_components == 1:
            return Z[:, None, :], np.ones((len(Z), 1))
        states = self.fields(np.ascontiguousarray(Z))
        return states.position, states.share

    def mean_statistics(self, X, Z, sample_weight=None):
        """Average the statistics over images."""
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        deformations, shares = self.parts(Z)
        light = None
        if self.light is not None:
            light = self.fields(np.ascontiguousarray(Z)).light[:, 0]
        sums = []
        for t in range(self.n_components):
            masses = weights * shares[:, t]
            least = RULE.least_share * np.abs(weights).max()
            rows = np.flatnonzero(np.abs(masses) > least)
            images = self.grid, X, deformations[:, t], masses
            sums.append(sum_statistics(*images, rows, self.n_jobs, light))
        return np.concatenate(sums) / weights.sum()

    def initial_latents(self, X, params, rng):
        """Return displacements of zero, or at modes if the model asks for them."""
        if self.n_components > 1 or self.light is not None:
            raise TypeError("mixtures of templates, gain and offset need own chains")
        if self.blocks is not None:
            return self.fields(self.blocks.chains(X, rng)).position[:, 0]
        if self.start_at_mode:
            return self.search_modes(X, params, 0)[0]
        return np.zeros((len(X), self.grid.n_latents))

    def start_chains(self, X, params, rng):
        """Return initial states of the chains, of shape (n, width)."""
        if self.blocks is not None:
            return self.blocks.chains(X, rng)
        T, Z = self.n_components, self.chain_states(len(X))
        states = self.fields(Z)
        if not self.start_at_mode:
            if T > 1:
                states.share[:] = self._undeformed_shares(X, params)
            return Z
        for t in range(T):
            states.position[:, t] = self.search_modes(X, params, t)[0]
        if self.light is not None:
            positions = states.position[:, 0]
            states.light[:, 0] = self.lit(params).posterior(X, positions)[0]
        if T > 1:
            states.mode[:] = states.position
            self.update_shares(X, Z, params)
        return Z

    def _undeformed_shares(self, X, params):
        """Return one for the template that is nearest to an image, else zero."""
        errors = []
        for t in range(self.n_components):
            image = self.grid.template_at(params.coefficients[t])
            errors.append(np.nansum((X - image) ** 2, axis=1))
        return np.eye(self.n_components)[np.argmin(errors, axis=0)]

    def move_chains(
        self, X, Z, params, seed, n_steps, *, first=None, adjusted=True, adapt=0.0,
        numbers=None,
    ):  # fmt: skip
        """Move the Langevin chains of all components of some images.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        Z : ndarray of shape (n, width)
            States, which are copied.
        params : TemplateParams
            Parameters.
        seed : int
            Seed of the draws.
        n_steps : int
            Number of transitions.
        first : float or None, default=None
            Step of chains that have not moved yet.
        adjusted : bool, default=True
            Whether proposals are tested.
        adapt : float, default=0.0
            Acceptance rate to which steps are adapted; 0 keeps them.
        numbers : ndarray of int or None, default=None
            Indices of the images, which fix their draws; None counts them.

        Returns
        -------
        Z : ndarray of shape (n, width)
            New states.
        acceptance_rate : float
            Mean acceptance.
        restored : int
            Proposals that were not finite.
        """
        T, Z = self.n_components, np.array(Z, order="C")
        states = self.fields(Z)
        accepted, restored = 0.0, 0
        numbers = np.arange(len(X)) if numbers is None else numbers
        moves = Moves(n_steps, adjusted, adapt)
        for t in range(T):
            if first is not None:
                fresh = states.transitions[:, t] == 0
                states.log_step[fresh, t] = np.log(first)
            positions = np.ascontiguousarray(Z.reshape(len(Z), T, -1)[:, t])
            moved = self.chains.move(
                self.target(params, t), X, positions, numbers + t * 2**32, seed, moves,
                self.light is not None,
            )  # fmt: skip
            accepted, restored = accepted + moved[0], restored + moved[1]
            Z.reshape(len(Z), T, -1)[:, t] = positions
        if self.light is not None:
            lit, Z_now = self.lit(params), states.position[:, 0]
            states.light[:, 0] = lit.draw(X, Z_now, seed, numbers)
        if T > 1:
            free = np.flatnonzero(states.transitions.min(axis=1) > RULE.frozen)
            if len(free):
                positions = Z[free]
                self.update_shares(X[free], positions, params)
                Z[free] = positions
        return Z, accepted / max(len(X) * T * n_steps, 1), restored

    @property
    def light(self):
        """Prior of gains and offsets, or None if images have none."""
        return None if self.nuisances is None else self.nuisances.light

    def lit(self, params) -> LitImages:
        """Return images with gains and offsets under the only component."""
        component = self.component(params, 0)
        return LitImages(self.light, self.chains, self.modes, component)

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
            (np.flatnonzero(known), self.modes.how.from_mode),
            (np.flatnonzero(~known), self.modes.how.first),
        ]
        for rows, descent in groups:
            if len(rows) == 0:
                continue
            for t in range(T):
                remembered[rows, t], logs[rows, t], *_ = self.modes_of(
                    X[rows], params, t, remembered[rows, t], descent
                )
        logs = np.where(np.isnan(logs), -np.inf, logs) + np.log(params.weights)
        total = logsumexp(logs, axis=1, keepdims=True)
        lost = ~np.isfinite(total[:, 0])
        states.share[:] = np.exp(logs - np.where(np.isfinite(total), total, 0.0))
        states.share[lost] = params.weights

    # -------------------------------------------------------- densities of a component

    def modes_of(self, X, params, t, Z=None, descent=None):
        """Return posterior modes under component ``t``: see ``ModeFinder.find``."""
        return self.modes.find(X, self.component(params, t), Z, descent)

    def search_modes(self, X, params, t):
        """Return the best of several searches for modes under component ``t``."""
        component = self.component(params, t)
        principal = partial(self.modes.principal, component)
        cached = partial(params.derived, ("principal", t), principal)
        if self.light is None:
            return self.modes.search(X, component, cached)
        image = self.grid.template_at(params.coefficients[t])
        return self.lit(params).search(X, image, cached)

    def searched(self, X, params):
        """Return modes under all components, and log-likelihoods with the components.

        Shapes are (n, n_components, n_latents) and (n, n_components); log-likelihoods
        are minus infinity where no mode was found.
        """
        searches = [self.search_modes(X, params, t) for t in range(self.n_components)]
        modes, logs = (np.stack(both, axis=1) for both in zip(*searches, strict=True))
        logs = np.where(np.isnan(logs), -np.inf, logs)
        return modes, logs + np.log(params.weights)

    def log_likelihoods(self, X, params):
        """Return log-likelihoods of images by Laplace's approximation."""
        return logsumexp(self.searched(X, params)[1], axis=1)

    def modes_under(self, X, params):
        """Return modes under the most probable component, and the components."""
        modes, logs = self.searched(X, params)
        labels = logs.argmax(axis=1)
        return modes[np.arange(len(X)), labels], labels

    def posterior_means(self, X, params, t, modes, *counts):
        """Return means of Langevin chains from modes: see ``Chains.mean``."""
        means = self.chains.mean if self.light is None else self.lit(params).means
        return means(X, self.target(params, t), modes, *counts)

    def importance(self, X, params, t, n_draws, seed, freedom=5):
        """Return the result of ``ModeFinder.importance`` for component ``t``."""
        if self.light is not None:
            raise ValueError(
                "importance sampling is not for the nuisances 'gain' and 'offset': "
                "score_samples has Laplace's approximation"
            )
        Z, _ = self.search_modes(X, params, t)
        component = self.component(params, t)
        return self.modes.importance(X, Z, component, n_draws, seed, freedom)

    def log_joint(self, X, Z, params):
        """Return ``log f(y_i, z_i; theta)`` for a single component."""
        return self.chains.log_joint(X, Z, self.component(params, 0))

    def grad_log_joint(self, X, Z, params):
        """Return the gradient of ``log_joint`` in z."""
        return self.chains.grad_log_joint(X, Z, self.component(params, 0))
