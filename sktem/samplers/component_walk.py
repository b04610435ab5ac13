"""Random walk by coordinate and by block, and proposals from the prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.e_step.chains import ChainState
from sktem.rows import repeat_rows
from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.markov import check_counts, first_positions

__all__ = ["ComponentWalk", "Moves"]


class Moves(NamedTuple):
    """Proposals of one draw, in their order.

    Attributes
    ----------
    from_prior : ndarray of bool of shape (n_moves,)
        Whether the proposal is a draw of the prior; else it is a random walk.
    scales : ndarray of shape (n_moves, d)
        Standard deviations of the walk, 0 for coordinates that stay.
    first : ndarray of int of shape (n_moves,)
        Where the noise of a move begins; a coordinate that stays uses none.
    n_normals : int
        Normal variables per chain that all moves use.
    group : ndarray of int of shape (n_moves,)
        Which adapted scale a move uses, -1 for proposals from the prior.
    """

    from_prior: np.ndarray
    scales: np.ndarray
    first: np.ndarray
    n_normals: int
    group: np.ndarray


class WalkScales(NamedTuple):
    """Scales of a walk that have been learned, and from how many draws.

    Attributes
    ----------
    scales : ndarray of shape (d + 1,) or None
        Scales of the coordinates and of the move of all; None before the first draw.
    n_draws : int
        How many draws.
    """

    scales: np.ndarray | None = None
    n_draws: int = 0

    def averaged(self, other: WalkScales, share: float) -> WalkScales:
        """Return the average with a tuning from other rows, which has this share."""
        if self.scales is None or other.scales is None:
            return self if other.scales is None else other
        scales = self.scales ** (1 - share) * other.scales**share
        return WalkScales(scales, max(self.n_draws, other.n_draws))


class ComponentWalk(Sampler):
    """Metropolis moves of single coordinates, of all at once, and from the prior.

    There are one or several chains per row. All are moved together, and each has its
    own accept-reject step. The scale of each coordinate, and that of the joint move,
    adapts to its acceptance rate by vanishing steps, so that the chains converge.

    Parameters
    ----------
    n_prior : int, default=1
        Number of proposals from the prior per sweep; it must be 0 for models without
        ``prior_moments``.
    n_component : int, default=2
        Number of random-walk moves of each coordinate per sweep.
    n_block : int, default=1
        Number of random-walk moves of all coordinates at once per sweep.
    scale : float or array-like, default=0.5
        Initial standard deviation of the walk, in units of the prior's standard
        deviation (1 for models without ``prior_moments``); a number or one per
        coordinate.
    adapt : float or None, default=0.6
        Exponent alpha of the adaptation: before draw k, the logarithm of a scale
        changes by ``k ** -alpha`` times the excess of the acceptance rate over
        ``target``. None means no adaptation.
    target : float, default=0.4
        Target acceptance rate of the adaptation.
    n_steps : int, default=1
        Number of sweeps per draw.
    n_chains : int, default=1
        Number of parallel chains per row.

    Notes
    -----
    If the model has ``walk(X, Z, params, moves, noise, log_uniforms)``, it makes the
    moves itself in compiled code; the results are the same up to rounding.

    References
    ----------
    E. Kuhn and M. Lavielle, Maximum likelihood estimation in nonlinear mixed effects
    models, Computational Statistics and Data Analysis, 2005, section 3.

    C. Andrieu and J. Thoms, A tutorial on adaptive MCMC, Statistics and Computing,
    2008, algorithm 4.

    Examples
    --------
    >>> from sktem.samplers import ComponentWalk
    >>> ComponentWalk(n_prior=0, scale=0.3)
    ComponentWalk(n_prior=0, scale=0.3)
    """

    requires = ("initial_latents", "log_joint")
    markov = True
    accepts = True
    moves_reals = True

    def __init__(
        self,
        n_prior=1,
        n_component=2,
        n_block=1,
        scale=0.5,
        adapt=0.6,
        target=0.4,
        n_steps=1,
        n_chains=1,
    ):
        self.n_prior = n_prior
        self.n_component = n_component
        self.n_block = n_block
        self.scale = scale
        self.adapt = adapt
        self.target = target
        self.n_steps = n_steps
        self.n_chains = n_chains

    def start(self, model, X, params, rng):
        """Return the model's initial latents, once per chain."""
        check_counts(self)
        if self.n_prior and not hasattr(model, "prior_moments"):
            raise TypeError(
                f"{type(model).__name__} has no prior_moments, so that n_prior must be "
                f"0, got {self.n_prior!r}"
            )
        return first_positions(self, model, X, params, rng)

    def moves(self, scales: np.ndarray, units: np.ndarray) -> Moves:
        """Return the proposals of a draw.

        Parameters
        ----------
        scales : ndarray of shape (d + 1,)
            Adapted scales of the coordinates and of the joint move.
        units : ndarray of shape (d,)
            The unit of the scale for each coordinate.

        Returns
        -------
        Moves
            The proposals.
        """
        d = len(units)
        sweep = [-1] * self.n_prior + [*range(d)] * self.n_component
        sweep += [d] * (self.n_block if d > 1 else 0)
        group = np.array(sweep * self.n_steps, dtype=np.int64)
        counts = np.where((group == -1) | (group == d), d, 1)
        # One row per group; the last stands for proposals from the prior.
        of_group = np.zeros((d + 2, d))
        of_group[:d] = np.diag(scales[:d] * units)
        of_group[d] = scales[d] * units / np.sqrt(d)
        return Moves(
            group == -1,
            of_group[group],
            np.cumsum(counts) - counts,
            int(counts.sum()),
            group,
        )

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Move every chain by ``n_steps`` sweeps."""
        chains = ChainState.of(chains)
        n, m, d = chains.position.shape
        if d == 0 or n == 0:
            return chains.plain, SamplerInfo()
        scales, n_draws = chains.learned(WalkScales)
        if scales is None:
            scales = np.append(np.broadcast_to(self.scale, d), np.mean(self.scale))
        units = np.ones(d)
        if hasattr(model, "prior_moments"):
            root = model.prior_moments(X, params)[1]
            units = np.sqrt((root**2).sum(axis=1))
        moves = self.moves(scales, units)
        noise = generators.sampling.standard_normal((n, m, moves.n_normals))
        uniforms = generators.acceptance.random((n, m, len(moves.group)))
        log_uniforms = np.log1p(-uniforms)
        arguments = (X, chains.position, params, moves, noise, log_uniforms)
        moved = model.walk(*arguments) if hasattr(model, "walk") else None
        Z, accepted = _walk(model, *arguments) if moved is None else moved
        rates = accepted / (n * m)
        chains = chains._replace(position=Z)
        if self.adapt is not None:
            n_draws += 1
            sums = np.bincount(moves.group + 1, rates - self.target, d + 2)[1:]
            change = sums / np.maximum(np.bincount(moves.group + 1, None, d + 2)[1:], 1)
            scales = scales * np.exp(change * n_draws ** -float(self.adapt))
            chains = chains._replace(shared=WalkScales(scales, n_draws))
        return chains.plain, SamplerInfo(float(rates.mean()))


def _walk(model, X, Z, params, moves, noise, log_uniforms):
    """Return (new chains, accepted of each move), with NumPy and any model."""
    n, m, d = Z.shape
    rows = repeat_rows(X, m)
    Z = Z.reshape(n * m, d).copy()
    noise = noise.reshape(n * m, -1)
    log_uniforms = log_uniforms.reshape(n * m, -1)
    log_joint = model.log_joint(rows, Z, params)
    accepted = np.zeros(len(moves.group), dtype=np.int64)
    if moves.from_prior.any():
        means, root = model.prior_moments(rows, params)
    for t, scales in enumerate(moves.scales):
        first = moves.first[t]
        moving = np.flatnonzero(scales)
        with np.errstate(over="ignore", invalid="ignore"):
            if moves.from_prior[t]:
                proposed = means + noise[:, first : first + d] @ root.T
            else:
                proposed = Z.copy()
                step = noise[:, first : first + len(moving)]
                proposed[:, moving] += scales[moving] * step
            log_proposed = model.log_joint(rows, proposed, params)
            log_ratio = log_proposed - log_joint
            if moves.from_prior[t]:
                log_ratio -= _log_prior(proposed, means, root) - _log_prior(
                    Z, means, root
                )
        taken = log_uniforms[:, t] < log_ratio  # False for NaN
        accepted[t] = taken.sum()
        Z = np.where(taken[:, None], proposed, Z)
        log_joint = np.where(taken, log_proposed, log_joint)
    return Z.reshape(n, m, d), accepted


def _log_prior(Z, means, root):
    return -0.5 * (np.linalg.solve(root, (Z - means).T) ** 2).sum(axis=0)
