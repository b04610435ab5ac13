"""Random-walk Metropolis."""

from __future__ import annotations

import numpy as np

from sktem.e_step.chains import ChainState
from sktem.samplers.base import accept_or_reject
from sktem.samplers.markov import MarkovSampler
from sktem.samplers.tuning import check_length, tuned

__all__ = ["RandomWalk"]


class RandomWalk(MarkovSampler):
    """Random-walk Metropolis on the whole latent of each row.

    Parameters
    ----------
    scale : float, array-like or "auto", default="auto"
        Standard deviation of the proposal, a number or one per coordinate of a latent.
        "auto" adapts it during the run by vanishing steps, in proportion to the spread
        of the latents over the rows, to an acceptance rate between 0.44 (one
        coordinate) and 0.234 (many).
    n_steps : int or "auto", default="auto"
        Number of transitions per draw; "auto" is 1 for a given scale, and a number that
        grows with the dimension of a latent for an adapted one.
    n_chains : int, default=1
        Number of parallel chains per row.

    Examples
    --------
    >>> from sktem.samplers import RandomWalk
    >>> RandomWalk(scale=0.5)
    RandomWalk(scale=0.5)
    """

    learned = "scale"
    moves_reals = True
    requires = ("initial_latents", "log_joint")

    def __init__(self, scale="auto", n_steps="auto", n_chains=1):
        super().__init__(n_steps=n_steps, n_chains=n_chains)
        self.scale = scale

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Move every chain by ``n_steps`` transitions, and learn of the scale."""
        if not self.is_learned:
            return super().draw(model, X, chains, params, generators, iteration)
        chains = ChainState.of(chains)
        dimension = max(int(np.prod(chains.position.shape[2:])), 1)
        n_steps = min(2 + 3 * dimension, 50)

        def drawn(length, units):
            scale = 2.4 / np.sqrt(dimension) * length * units
            moved, info = self._moved(
                model, X, chains, params, generators, scale, n_steps
            )
            return moved, info, info.acceptance_rate

        return tuned(0.234 + 0.206 / dimension, chains, drawn)

    def _move(self, model, X, params, iteration):
        """Return the scale."""
        return check_length("scale", self.scale)

    def _start_chain(self, model, X, Z, params):
        return Z, self._log_joint(model, X, Z, params)

    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint = state
        noise = generators.sampling.standard_normal(Z.shape)
        proposed = Z + move * noise
        with np.errstate(over="ignore", invalid="ignore"):
            log_proposed = model.log_joint(X, proposed, params)
            log_ratio = log_proposed - log_joint
        Z, accepted = accept_or_reject(Z, proposed, log_ratio, generators.acceptance)
        return (Z, np.where(accepted, log_proposed, log_joint)), accepted, {}
