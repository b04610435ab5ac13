"""Chains of the deformations of images, and their log-densities."""

from __future__ import annotations

from typing import Any

import numpy as np

from sktem.kernels.blocks import iterate_blocks
from sktem.template.kernels.chains import langevin_chains
from sktem.template.kernels.field import adjoint, new_work, rss_of
from sktem.template.kernels.walks import landmark_walks, prior_gibbs, prior_walks
from sktem.template.states import ChainStates, state_size

__all__ = ["TemplateMoves"]

#: Images of a block of threads, and draws of the mean curvature.
IMAGES_PER_BLOCK, CURVATURE_DRAWS = 16, 8

#: Transitions after which the labels of a mixture are free; until then they are those
#: of the start, so that every template learns what belongs to it first.
FROZEN = 50


class TemplateMoves:
    """The chains' part of :class:`DeformableTemplateModel`."""

    # What the model itself defines.
    grid: Any
    n_components: Any
    n_jobs: Any
    component: Any
    start_at_mode: Any
    chain_states: Any
    fields: Any
    target: Any
    search_modes: Any
    update_shares: Any
    _constant: Any

    def _images(self, function, n):
        """Call ``function(rows)`` for blocks of images, on threads."""

        def block(start, stop):
            return function(slice(start, stop))

        return list(iterate_blocks(block, n, IMAGES_PER_BLOCK, self.n_jobs))

    def mean_curvature(self, part) -> np.ndarray:
        """Return the mean of ``J' J`` over deformations drawn from the model.

        Parameters
        ----------
        part : Component
            A component.

        Returns
        -------
        ndarray of shape (n_latents, n_latents)
            Mean Gauss-Newton matrix, for unit noise.
        """
        grid = self.grid
        # Fixed draws: the same parameters always have the same preconditioner.
        noise = np.random.default_rng(0).standard_normal(
            (CURVATURE_DRAWS, grid.n_latents)
        )
        # Each row of J is the outer product of the slopes at a pixel and the kernels
        # there, so the slopes' products can be averaged before the kernels come in.
        work = new_work(grid.compiled, grid.n_axes)
        slopes = np.empty((CURVATURE_DRAWS, grid.n_axes, grid.n_pixels))
        blank = np.zeros(grid.n_pixels)
        for z, slope in zip(noise @ part.factor.T, slopes, strict=True):
            rss_of(blank, z.reshape(work.pull.shape), part.table, grid.compiled, work)
            slope[:] = work.slopes.reshape(slope.shape)
        return grid.weighted_gram(
            np.einsum("nau,nbu->abu", slopes, slopes) / CURVATURE_DRAWS
        )

    # ------------------------------------------------------------------------ chains

    def initial_latents(self, X, params, rng):
        """Return displacements of zero, or at modes if the model is told so."""
        if self.n_components > 1:
            raise TypeError("a mixture of templates needs its own chains")
        Z = np.zeros((len(X), self.grid.n_latents))
        return self.search_modes(X, params, 0)[0] if self.start_at_mode else Z

    def start_chains(self, X, params, rng):
        """Return initial states of the chains.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        params : TemplateParams
            Parameters.
        rng : numpy.random.Generator
            Not used: chains start at zero or at modes.

        Returns
        -------
        ndarray of shape (n, width)
            States.
        """
        T, Z = self.n_components, self.chain_states(len(X))
        states = self.fields(Z)
        if not self.start_at_mode:
            if T > 1:
                states.share[:] = self._undeformed_shares(X, params)
            return Z
        for t in range(T):
            states.position[:, t] = self.search_modes(X, params, t)[0]
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
        self, X, Z, params, seed, kernel, n_steps, adapt=0.0, start=None, numbers=None
    ):
        """Move the chains of all components of some images.

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
        kernel : {"mala", "ula", "landmark", "prior", "gibbs"}
            Which transitions.
        n_steps : int
            How many.
        adapt : float, default=0.0
            Acceptance rate to which steps are adapted; 0 keeps them.
        start : float or None, default=None
            Step of chains that have not moved yet, relative to the kernel's own scale.
        numbers : ndarray of int or None, default=None
            Numbers of the images, which fix their draws; None counts them.

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
        for t in range(T):
            if start is not None:
                fresh = states.transitions[:, t] == 0
                states.log_step[fresh, t] = np.log(start)
            own = np.ascontiguousarray(Z.reshape(len(Z), T, -1)[:, t])
            run = self._kernel(kernel, params, t, n_steps, adapt)

            def move(rows, own=own, run=run, t=t):
                own_numbers = numbers[rows] + t * 2**32
                return run(X[rows], own[rows], own_numbers, np.uint64(seed))

            for result in self._images(move, len(X)):
                accepted += result[0]
                restored += result[1]
            Z.reshape(len(Z), T, -1)[:, t] = own
        if T > 1:
            free = np.flatnonzero(states.transitions.min(axis=1) > FROZEN)
            if len(free):
                part = Z[free]
                self.update_shares(X[free], part, params)
                Z[free] = part
        return Z, accepted / max(len(X) * T * n_steps, 1), restored

    def _kernel(self, kernel, params, t, n_steps, adapt):
        """Return a function (Y, Z, numbers, seed) -> (accepted, restored)."""
        grid, n_axes = self.grid.compiled, self.grid.n_axes
        if kernel in ("mala", "ula"):
            target = self.target(params, t)

            def langevin(Y, Z, numbers, seed):
                return langevin_chains(
                    Y, Z, numbers, seed, target, grid, n_axes, n_steps,
                    kernel == "mala", adapt,
                )  # fmt: skip

            return langevin
        part = self.component(params, t)
        precision, variance = part.precision, part.noise_variance
        if kernel == "gibbs":

            def gibbs(Y, Z, numbers, seed):
                return prior_gibbs(
                    Y, Z, numbers, seed, part.table, precision, variance, grid, n_axes,
                    n_steps,
                ), 0  # fmt: skip

            return gibbs
        walk = landmark_walks if kernel == "landmark" else prior_walks
        # Relative to the conditional prior of a landmark, or to the prior of all.
        spread = (
            1 / np.sqrt(np.diag(precision)) if kernel == "landmark" else part.factor
        )

        def walks(Y, Z, numbers, seed):
            return walk(
                Y, Z, numbers, seed, part.table, precision, spread, variance, grid,
                n_axes, n_steps, adapt,
            ), 0  # fmt: skip

        return walks

    def posterior_mean(self, X, params, t, Z, burn_in, n_averaged, spacing):
        """Return means of Langevin chains that start at given deformations.

        All images share the random numbers, so that an answer does not depend on the
        other images.

        Parameters
        ----------
        X : ndarray of shape (n, n_pixels)
            Images.
        params : TemplateParams
            Parameters.
        t : int
            Number of the component.
        Z : ndarray of shape (n, n_latents)
            Start of the chains.
        burn_in : int
            Transitions before the first state that counts.
        n_averaged : int
            States that count.
        spacing : int
            Transitions from one to the next.

        Returns
        -------
        ndarray of shape (n, n_latents)
            Means.
        """
        dim = self.grid.n_latents
        states = np.zeros((len(X), state_size(dim, 1)))
        fields = ChainStates.of(states, dim, 1)
        fields.position[:, 0], fields.log_step[:] = Z, np.log(0.2)
        numbers = np.zeros(len(X), dtype=np.int64)
        total = np.zeros((len(X), dim))
        for call in range(n_averaged + 1):
            steps = spacing if call else burn_in
            run = self._kernel("mala", params, t, steps, 0.574)

            def move(rows, run=run, call=call):
                run(X[rows], states[rows], numbers[rows], np.uint64(call))

            self._images(move, len(X))
            if call:
                total += fields.position[:, 0]
        return total / n_averaged

    # -------------------------------------------------------------------- densities

    def log_joint(self, X, Z, params):
        """Return ``log f(y_i, z_i; theta)`` for a single component."""
        part = self.component(params, 0)
        rss = np.array([pair[0] for pair in self._slow(X, Z, part, False)])
        form = np.einsum("ij,jk,ik->i", Z, part.precision, Z)
        constant = self._constant(X, part) - 0.5 * Z.shape[1] * np.log(2 * np.pi)
        return constant - 0.5 * (rss / part.noise_variance + form)

    def grad_log_joint(self, X, Z, params):
        """Return the gradient of ``log_joint`` in z."""
        part = self.component(params, 0)
        pulls = np.array([pair[1] for pair in self._slow(X, Z, part, True)])
        return -pulls / part.noise_variance - Z @ part.precision

    def _slow(self, X, Z, part, with_pull):
        """Return square sums of residuals and pulls, image by image."""
        grid = self.grid
        work = new_work(grid.compiled, grid.n_axes)
        for y, z in zip(X, np.ascontiguousarray(Z, dtype=float), strict=True):
            rss = rss_of(y, z.reshape(work.pull.shape), part.table, grid.compiled, work)
            if with_pull:
                adjoint(grid.compiled, work)
            yield rss, work.pull.ravel().copy()
