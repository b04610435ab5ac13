"""Random-walk Metropolis."""

from __future__ import annotations

import numpy as np

from sktem.samplers.base import accept_or_reject
from sktem.samplers.markov import MarkovSampler

__all__ = ["RandomWalk"]


class RandomWalk(MarkovSampler):
    """Random-walk Metropolis on the whole latent of each row.

    Parameters
    ----------
    scale : float or array-like, default=1.0
        Standard deviation of the proposal, a number or one per coordinate of a
        latent.
    n_steps : int, default=1
        Transitions per draw.
    n_chains : int, default=1
        Parallel chains per row.

    Examples
    --------
    >>> from sktem.samplers import RandomWalk
    >>> RandomWalk(scale=0.5)
    RandomWalk(scale=0.5)
    """

    requires = ("initial_latents", "log_joint")

    def __init__(self, scale=1.0, n_steps=1, n_chains=1):
        super().__init__(n_steps=n_steps, n_chains=n_chains)
        self.scale = scale

    def _start_chain(self, model, X, Z, params):
        return Z, model.log_joint(X, Z, params)

    def _transition(self, model, X, state, params, streams):
        Z, log_joint = state
        noise = streams.sampling.standard_normal(Z.shape)
        proposed = Z + np.asarray(self.scale) * noise
        with np.errstate(over="ignore", invalid="ignore"):
            log_proposed = model.log_joint(X, proposed, params)
            log_ratio = log_proposed - log_joint
        Z, accepted = accept_or_reject(Z, proposed, log_ratio, streams.acceptance)
        return (Z, np.where(accepted, log_proposed, log_joint)), accepted, {}
