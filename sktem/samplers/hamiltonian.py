"""Hamiltonian Monte Carlo."""

from __future__ import annotations

import numpy as np

from sktem.e_step.chains import ChainState
from sktem.samplers.base import accept_or_reject
from sktem.samplers.markov import MarkovSampler, check_counts
from sktem.samplers.tuning import check_length, tuned

__all__ = ["HMC"]

#: Decades below the learned step, at most, of a short move.
DECADES = 1.5


class HMC(MarkovSampler):
    """Hamiltonian Monte Carlo: several leapfrog steps, then an accept-reject step.

    With one leapfrog step of size e it is :class:`sktem.samplers.MALA` with the
    Langevin step ``e ** 2 / 2``.

    Parameters
    ----------
    step : float, array-like, callable or "auto", default="auto"
        Leapfrog step: a number, one per coordinate (the same as a diagonal mass
        matrix), or a function of the iteration index that returns either. "auto" adapts
        it during the run by vanishing steps, in proportion to the spread of the latents
        over the rows, to an acceptance rate of 0.651.
    n_leapfrog : int, default=5
        Number of leapfrog steps per transition.
    n_steps : int or "auto", default="auto"
        Number of transitions per draw; "auto" is 1 for a given step, and a number that
        grows with the dimension of a latent for an adapted one. Adapted steps are
        followed by a shorter one, of a random length for each row. It frees chains in
        tails where the density falls so steeply that all usual moves are rejected.
    n_chains : int, default=1
        Number of parallel chains per row.

    References
    ----------
    R. M. Neal, MCMC Using Hamiltonian Dynamics, Handbook of Markov Chain Monte Carlo,
    2011, section 3.

    Examples
    --------
    >>> from sktem.samplers import HMC
    >>> HMC(step=0.2, n_leapfrog=10)
    HMC(n_leapfrog=10, step=0.2)
    """

    learned = "step"
    moves_reals = True
    requires = ("initial_latents", "log_joint", "grad_log_joint")

    def __init__(self, step="auto", n_leapfrog=5, n_steps="auto", n_chains=1):
        super().__init__(n_steps=n_steps, n_chains=n_chains)
        self.step = step
        self.n_leapfrog = n_leapfrog

    def draw(self, model, X, chains, params, generators, iteration=1):
        """Move every chain by ``n_steps`` transitions."""
        check_counts(self, ["n_leapfrog"])
        if self.is_learned:
            chains = ChainState.of(chains)
            return self._draw_tuned(model, X, chains, params, generators)
        return super().draw(model, X, chains, params, generators, iteration)

    def _draw_tuned(self, model, X, chains, params, generators):
        dimension = max(int(np.prod(chains.position.shape[2:])), 1)
        n_steps = int(5 * np.ceil(dimension**0.25))

        def drawn(length, units):
            step = 0.5 * length * units
            moved, info = self._moved(
                model, X, chains, params, generators, step, n_steps, short=True
            )
            return moved, info, info.acceptance_rate

        return tuned(0.651, chains, drawn)

    def _move(self, model, X, params, iteration):
        """Return the leapfrog step."""
        step = self.step(iteration) if callable(self.step) else self.step
        return check_length("step", step)

    def _shortened(self, move, n, generators):
        """Return leapfrog steps of a random length for each row, on a log scale."""
        factors = 10 ** (-DECADES * generators.acceptance.random(n))
        return move * factors.reshape((n,) + (1,) * max(move.ndim, 1))

    def _transition(self, model, X, state, params, generators, move):
        Z, log_joint, gradient = state
        momentum = generators.sampling.standard_normal(Z.shape)
        position, slope, velocity = Z, gradient, momentum
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.n_leapfrog):
                velocity = velocity + 0.5 * move * slope
                position = position + move * velocity
                slope = model.grad_log_joint(X, position, params)
                velocity = velocity + 0.5 * move * slope
            log_proposed = model.log_joint(X, position, params)
            kinetic = 0.5 * (momentum**2 - velocity**2)
            log_ratio = log_proposed - log_joint
            log_ratio = log_ratio + kinetic.reshape(len(Z), -1).sum(axis=1)
        new, accepted = accept_or_reject(Z, position, log_ratio, generators.acceptance)
        mask = accepted.reshape((-1,) + (1,) * (Z.ndim - 1))
        state = (
            new,
            np.where(accepted, log_proposed, log_joint),
            np.where(mask, slope, gradient),
        )
        return state, accepted, {}
