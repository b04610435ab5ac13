"""Langevin samplers: unadjusted (ULA) and Metropolis-adjusted (MALA)."""

from __future__ import annotations

import numpy as np

from sktem.samplers.base import accept_or_reject
from sktem.samplers.markov import MarkovSampler

__all__ = ["MALA", "ULA"]


def _row_sum(values):
    return values.reshape(len(values), -1).sum(axis=1)


class ULA(MarkovSampler):
    """Unadjusted Langevin: a gradient step with noise and no accept test.

    ``z' = z + step * grad log f(x, z) + sqrt(2 step) * noise``. The stationary law is
    biased by an amount that shrinks with the step; in exchange the chain never
    freezes. A row whose new state is not finite keeps its old one, and the event is
    counted as ``"ula_restored"``.

    Parameters
    ----------
    step : float or array-like, default=0.1
        Langevin step eta, a number or one per coordinate. (Codes that write the drift
        as ``h / 2`` have ``h = 2 * step``.)
    n_steps : int, default=1
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per row.

    References
    ----------
    S. Gruffaz, K. Kim, A. Durmus and J. Gardner, Stochastic Approximation with Biased
    MCMC for Expectation Maximization, AISTATS 2024, equation (11).

    Examples
    --------
    >>> from sktem.samplers import ULA
    >>> ULA(step=0.01).requires
    ('initial_latents', 'grad_log_joint')
    """

    requires = ("initial_latents", "grad_log_joint")

    def __init__(self, step=0.1, n_steps=1, n_chains=1):
        super().__init__(n_steps=n_steps, n_chains=n_chains)
        self.step = step

    def _start_chain(self, model, X, Z, params):
        return (Z,)

    def _transition(self, model, X, state, params, streams):
        (Z,) = state
        step = np.asarray(self.step, dtype=float)
        noise = streams.sampling.standard_normal(Z.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            drift = step * model.grad_log_joint(X, Z, params)
            proposed = Z + drift + np.sqrt(2 * step) * noise
        finite = np.isfinite(_row_sum(np.abs(proposed)))
        restored = int(len(Z) - finite.sum())
        mask = finite.reshape((-1,) + (1,) * (Z.ndim - 1))
        events = {"ula_restored": restored} if restored else {}
        return (np.where(mask, proposed, Z),), finite, events


class MALA(MarkovSampler):
    """Metropolis-adjusted Langevin: ULA's proposal with an accept test.

    Parameters
    ----------
    step : float or array-like, default=0.1
        Langevin step eta, a number or one per coordinate, as in :class:`ULA`.
    n_steps : int, default=1
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per row.

    Examples
    --------
    >>> from sktem.samplers import MALA
    >>> MALA(step=0.05, n_steps=5)
    MALA(n_steps=5, step=0.05)
    """

    requires = ("initial_latents", "log_joint", "grad_log_joint")

    def __init__(self, step=0.1, n_steps=1, n_chains=1):
        super().__init__(n_steps=n_steps, n_chains=n_chains)
        self.step = step

    def _start_chain(self, model, X, Z, params):
        return (
            Z,
            model.log_joint(X, Z, params),
            model.grad_log_joint(X, Z, params),
        )

    def _transition(self, model, X, state, params, streams):
        Z, log_joint, gradient = state
        step = np.asarray(self.step, dtype=float)
        noise = streams.sampling.standard_normal(Z.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            proposed = Z + step * gradient + np.sqrt(2 * step) * noise
            log_proposed = model.log_joint(X, proposed, params)
            gradient_proposed = model.grad_log_joint(X, proposed, params)
            backward = (Z - proposed - step * gradient_proposed) ** 2 / (4 * step)
            log_ratio = log_proposed - log_joint
            log_ratio = log_ratio + _row_sum(noise**2 / 2 - backward)
        Z, accepted = accept_or_reject(Z, proposed, log_ratio, streams.acceptance)
        mask = accepted.reshape((-1,) + (1,) * (Z.ndim - 1))
        state = (
            Z,
            np.where(accepted, log_proposed, log_joint),
            np.where(mask, gradient_proposed, gradient),
        )
        return state, accepted, {}
