"""Latents of rows at fitted parameters: draws, and diagnostics of chains."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sktem.e_step.chains import ChainState, positions
from sktem.e_step.random import Generators, spawn_generators
from sktem.e_step.row_random import PASS, START, WARM_UP
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.models.contract import check_latents
from sktem.rows.held import count_rows
from sktem.samplers import RandomWalk
from sktem.samplers.compatibility import check_compatible

__all__ = [
    "ChainDiagnostics",
    "LatentDraws",
    "diagnostics",
    "latent_draws",
    "warn_of_mixing",
]


class DrawRule(NamedTuple):
    """Settings of draws by Markov chains.

    Attributes
    ----------
    n_chains : int
        Chains of a row.
    burn_in : float
        Draws of a chain that are left out, as a share of those that are kept.
    largest_r_hat : float
        R-hat from which a row counts as not mixed.
    allowed : float
        Share of such rows that is noise.
    """

    n_chains: int = 4
    burn_in: float = 0.5
    largest_r_hat: float = 1.2
    allowed: float = 0.05


DRAW_RULE = DrawRule()


class LatentDraws(NamedTuple):
    """Draws of the latents of rows.

    Attributes
    ----------
    values : ndarray of shape (n, n_chains, n_draws, ...)
        The draws, one after the other; a single chain of independent ones where the
        posterior is known.
    acceptance_rate : float
        Share of the moves that were accepted; NaN where there are none.
    markov : bool
        Whether they are of Markov chains.
    """

    values: np.ndarray
    acceptance_rate: float
    markov: bool

    def joined(self, n_draws: int) -> np.ndarray:
        """Return draws of all chains, of shape (n, n_draws, ...)."""
        n, n_chains, length = self.values.shape[:3]
        turns = np.swapaxes(self.values, 1, 2)  # the same share of each chain
        flat = turns.reshape(n, n_chains * length, *turns.shape[3:])
        return flat[:, :n_draws]


class ChainDiagnostics(NamedTuple):
    """Mixing of the chains of the latents, row by row.

    Attributes
    ----------
    r_hat : ndarray of shape (n, ...)
        Potential scale reduction: near 1 where chains agree (with their halves, too);
        NaN for latents that never move.
    effective_sample_size : ndarray of shape (n, ...)
        Independent draws that say as much about the posterior mean.
    never_moved : float
        Share of the rows none of whose chains has moved.
    acceptance_rate : float
        Share of the moves that were accepted.
    """

    r_hat: np.ndarray
    effective_sample_size: np.ndarray
    never_moved: float
    acceptance_rate: float


def latent_draws(
    model, sampler, X, params, n_draws, random_state, *, rule=DRAW_RULE, chains=False
) -> LatentDraws:
    """Draw latents of rows: by the posterior if it is known, else by Markov chains.

    Parameters
    ----------
    model : LatentModel
        The model.
    sampler : Sampler
        That of the fit.
    X : array-like
        Rows.
    params : object
        Parameters.
    n_draws : int
        Draws for each row, of all chains together.
    random_state : int, RandomState, Generator or None
        Seed.
    rule : DrawRule, default=DRAW_RULE
        Settings.
    chains : bool, default=False
        Whether to draw by Markov chains in any case.

    Returns
    -------
    LatentDraws
        The draws.
    """
    generators = spawn_generators(random_state)
    rows = np.arange(count_rows(X))
    if callable(getattr(model, "draw_posterior", None)) and not chains:
        row_random = generators.of_rows(PASS, 1, rows)
        values = _exact_draws(model, X, params, n_draws, row_random.sampling)
        return LatentDraws(values[:, None], float("nan"), False)
    if not sampler.markov:
        sampler = RandomWalk()
    if "n_chains" in sampler.get_params():
        sampler = clone(sampler).set_params(n_chains=rule.n_chains)
    check_compatible(model, sampler)
    return _chain_draws(model, sampler, X, params, n_draws, generators, rule)


def _exact_draws(model, X, params, n_draws, rng):
    """Return independent draws, of shape (n, n_draws, ...)."""
    if not model.averages_draws:
        Z = model.draw_posterior(X, params, n_draws, rng)
        check_latents(model, "draw_posterior", Z, count_rows(X), n_draws)
        return Z
    draws = [model.draw_posterior(X, params, 1, rng) for _ in range(n_draws)]
    return np.stack(draws, axis=1)


def _chain_draws(model, sampler, X, params, n_draws, generators: Generators, rule):
    """Return draws of Markov chains that start anew at the parameters."""
    rows = np.arange(count_rows(X))
    chains: Any = sampler.start(
        model, X, params, generators.of_rows(START, 0, rows).initialisation
    )

    def drawn(purpose, k):
        row_random = generators.of_rows(purpose, k, rows)
        return sampler.draw(model, X, chains, params, row_random, 1)

    for k in itertools.count():
        if sampler.is_warm(chains, k):
            break
        chains, _ = drawn(WARM_UP, k)
    n_chains = positions(chains).shape[1]
    length = -(-n_draws // n_chains)
    n_burn_in, draws, rates = int(np.ceil(rule.burn_in * length)), [], []
    for k in range(n_burn_in + length):
        chains, info = drawn(PASS, k + 1)
        if k >= n_burn_in:
            draws.append(ChainState.of(chains).position)
            rates.append(info.acceptance_rate)
    return LatentDraws(np.stack(draws, axis=2), float(np.mean(rates)), True)


def diagnostics(draws: LatentDraws) -> ChainDiagnostics:
    """Return R-hat and effective sample size of chains, cut in half each.

    References
    ----------
    A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Buerkner, Rank-
    normalization, folding, and localization: an improved R-hat for assessing
    convergence of MCMC, Bayesian Analysis, 2021, equations (1) to (4) and (10) to (13).
    """
    values = draws.values.astype(float)
    length = values.shape[2] // 2
    if length < 2:
        raise ValueError(
            f"chains of {values.shape[2]} draws are too short to say how they mix: "
            "draw at least 4 for each chain"
        )
    halves = np.concatenate([values[:, :, :length], values[:, :, -length:]], axis=1)
    means, within = halves.mean(axis=2), halves.var(axis=2, ddof=1).mean(axis=1)
    moves = np.ptp(values, axis=2) > 0
    # The variances of equal numbers are rounding errors.
    within = np.where(moves.any(axis=1), within, 0.0)
    apart = np.ptp(values, axis=(1, 2)) > 0
    between = np.where(apart, means.var(axis=1, ddof=1), 0.0)
    total = (length - 1) / length * within + between
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt(total / within)
        correlation = 1 - (within[:, None] - _autocovariances(halves)) / total[:, None]
    never = ~moves.reshape(len(values), -1).any(axis=1)
    size = halves.shape[1] * length / _integrated_time(correlation)
    size = np.where(within > 0, np.minimum(size, _most(halves.shape[1] * length)), 0.0)
    return ChainDiagnostics(r_hat, size, float(never.mean()), draws.acceptance_rate)


def _most(n_draws):
    """Return the largest effective sample size that is believed, of anticorrelation."""
    return n_draws * np.log10(n_draws)


def _autocovariances(chains):
    """Return autocovariances by lag, averaged over chains: (n, length, ...)."""
    length = chains.shape[2]
    centred = chains - chains.mean(axis=2, keepdims=True)
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size, axis=2)) ** 2
    sums = np.fft.irfft(spectrum, size, axis=2)[:, :, :length]
    return sums.mean(axis=1) / (length - 1)


def _integrated_time(correlation):
    """Return the autocorrelation time by Geyer's initial monotone sequence."""
    length = correlation.shape[1] // 2 * 2
    pairs = correlation[:, 0:length:2] + correlation[:, 1:length:2]
    positive = np.logical_and.accumulate(pairs > 0, axis=1)
    falling = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=1)
    return np.maximum(2 * falling.sum(axis=1) - 1, 1e-12)


def warn_of_mixing(draws: LatentDraws, rule: DrawRule = DRAW_RULE) -> None:
    """Warn where chains of many rows have not mixed."""
    if not draws.markov or draws.values.shape[2] < 8:
        return
    r_hat = diagnostics(draws).r_hat
    known = r_hat[np.isfinite(r_hat)]
    share = float((known > rule.largest_r_hat).mean()) if known.size else 0.0
    if share > rule.allowed:
        warn_user(
            f"Chains have not mixed: R-hat is above {rule.largest_r_hat} for "
            f"{share:.0%} of the latents. Draw more, take more n_steps or another "
            "sampler, and see diagnose_chains.",
            FitWarning,
        )
