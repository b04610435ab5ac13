"""Sufficient statistics of deformable templates in their mid-point form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.kernels.blocks import reduce_blocks
from sktem.template.kernels.statistics import template_sums
from sktem.template.priors import posterior_template, unexplained_square
from sktem.template.states import ChainStates, state_size

__all__ = ["ComponentStatistics", "TemplateStatistics"]

#: Images of a block of threads; it fixes the rounding of the sums.
IMAGES_PER_BLOCK = 16

#: Shares below this do not change the sums.
LEAST_SHARE = 1e-10


#: Noise that is always left, as a share of the mean square of the pixels.
LEAST_NOISE = 1e-3


class ComponentStatistics(NamedTuple):
    """Statistics of one component, means over its images.

    Attributes
    ----------
    square : float
        Mean of ``|y|^2``.
    observed : float
        Mean number of observed pixels.
    cross : ndarray of shape (n_template,)
        Mean of ``K' y``.
    middle : ndarray of shape (n_middle,)
        Mean sums at mid-points, which determine the mean of ``K' K``.
    mean : ndarray of shape (n_latents,)
        Mean of ``z``.
    outer : ndarray of shape (n_latents, n_latents)
        Mean of ``z z'``.
    """

    square: float
    observed: float
    cross: np.ndarray
    middle: np.ndarray
    mean: np.ndarray
    outer: np.ndarray


class TemplateStatistics:
    """The statistics' part of :class:`DeformableTemplateModel`."""

    # What the model itself defines.
    grid: Any
    n_components: Any
    n_jobs: Any
    n_rows: Any
    priors: Any
    covariance_type: Any

    @property
    def _sizes(self):
        grid, dim = self.grid, self.grid.n_latents
        return [1, 1, 1, grid.n_template, grid.n_middle, dim, dim**2]

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
        Z = np.zeros((n, T * state_size(self.grid.n_latents, T)))
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
        sums = []
        for t in range(self.n_components):
            masses = weights * shares[:, t]
            rows = np.flatnonzero(np.abs(masses) > LEAST_SHARE * np.abs(weights).max())
            sums.append(self._sum(X, deformations[:, t], masses, rows))
        return np.concatenate(sums) / weights.sum()

    def _sum(self, X, Z, masses, rows):
        """Return the weighted sum of the statistics of some images."""
        if len(rows) == 0:
            return np.zeros(sum(self._sizes))

        def block(start, stop):
            chosen = rows[start:stop]
            return (self._block_sum(X[chosen], Z[chosen], masses[chosen]),)

        size = IMAGES_PER_BLOCK
        return reduce_blocks(block, len(rows), size, self.n_jobs)[0]

    def _block_sum(self, Y, Z, masses):
        grid = self.grid
        dim = grid.n_latents
        nodes = grid.template_nodes
        counts = nodes[:, 2].astype(int)
        cross, middle, head = np.zeros(counts), np.zeros(2 * counts - 1), np.zeros(2)
        template_sums(
            Y, Z, masses, grid.pixels, grid.compiled, grid.n_axes, nodes,
            grid.template_scale**-2, cross, middle, head,
        )  # fmt: skip
        z = Z[:, :dim]
        outer = (z * masses[:, None]).T @ z
        return np.concatenate(
            [
                [masses.sum()],
                head,
                cross.ravel(),
                middle.ravel(),
                masses @ z,
                outer.ravel(),
            ]
        )

    def split(self, s, t) -> ComponentStatistics:
        """Return the statistics of one component, as means over its images.

        Parameters
        ----------
        s : ndarray of shape (n_statistics,)
            Averaged statistics.
        t : int
            Number of the component.

        Returns
        -------
        ComponentStatistics
            Its statistics.
        """
        own = s.reshape(self.n_components, -1)[t]
        share, square, observed, cross, middle, mean, outer = np.split(
            own, np.cumsum(self._sizes)[:-1]
        )
        dim = self.grid.n_latents
        return ComponentStatistics(
            float(square[0] / share[0]),
            float(observed[0] / share[0]),
            cross / share[0],
            middle / share[0],
            mean / share[0],
            outer.reshape(dim, dim) / share[0],
        )

    def feasible(self, s):
        """Return statistics that images could have produced, and if they had not.

        Parameters
        ----------
        s : ndarray of shape (n_statistics,)
            Averaged statistics.

        Returns
        -------
        s : ndarray of shape (n_statistics,)
            The same or mended statistics.
        left : bool
            Whether they were mended.
        """
        dim, T = self.grid.n_latents, self.n_components
        mended = s.reshape(T, -1).copy()
        outer = mended[:, -(dim**2) :].reshape(T, dim, dim)
        left = False
        for t in range(T):
            head = mended[t, :3]
            sums = mended[t, 3 + self.grid.n_template : -dim - dim**2]
            low = -1e-9 * max(sums.max(), 0.0)
            left |= bool((head < 0).any() or (sums < low).any())
            np.maximum(sums, 0.0, out=sums)
            if (head <= 0).any():
                mended[t] = 0.0
                continue
            part = self.split(mended.ravel(), t)
            count = max(self.n_rows * head[0], 1e-3)
            # What the M-step makes of them is what matters: priors mend a lot.
            mean_square = part.square / part.observed
            _, variance, _ = posterior_template(
                self.grid, part, count, self.priors, 0.1 * mean_square
            )
            if variance <= LEAST_NOISE * mean_square:
                left = True
                rest = unexplained_square(self.grid, part)
                if not np.isfinite(rest):
                    rest = -part.square
                # So that the noise is just above the least share of the new square.
                share = 1.01 * LEAST_NOISE
                missing = (share * part.square - rest) / (1 - share)
                head[1] += head[0] * max(missing, LEAST_NOISE * part.square)
            _, thin = self.priors.posterior_covariance(
                self.grid, part.outer, count, self.covariance_type
            )
            if thin:
                left = True
                values, vectors = np.linalg.eigh((outer[t] + outer[t].T) / 2)
                outer[t] = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return (mended.ravel(), True) if left else (s, False)
