"""Parallel tempering: chains of a machine that change places with warmer replicas.

The replicas of a chain lie on the path from independent units to the machine. After its
transitions each is compared with the next one, and the two change places with the
probability of Metropolis, so that the distribution of all of them together stays what
it is. What is warm moves between modes, and carries the cold chain along.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.machines.model import Moments, draw_seed

__all__ = ["Replicas", "correlation_of_chains", "cost_of_replicas", "free_moments"]


@dataclass
class Replicas:
    """The warmer replicas of chains.

    Attributes
    ----------
    chains : list of array
        Chains of each temperature, the warmest first, without those of the machine.
    n_swaps, n_tries : ndarray of float
        Chains that have changed places with the next temperature, and that might have.
    X, observed : array of shape (n, n_visible) or None
        Visible values that all replicas of a chain share, and which are observed.
    n_moves : int
        Transitions so far.
    swap_overhead : float
        Cost of transitions of replicas and their swaps, relative to the former.
    """

    swap_overhead: ClassVar[float] = 1.25

    chains: list[Any]
    n_swaps: np.ndarray
    n_tries: np.ndarray
    X: Any = None
    observed: Any = None
    n_moves: int = 0

    @classmethod
    def of(cls, model, params, n_replicas, n, rng, X=None, observed=None) -> Replicas:
        """Return replicas of n chains, at fair coins.

        Parameters
        ----------
        model : BoltzmannModel
            The machine.
        params : array of shape (n_parameters,)
            Its parameters.
        n_replicas : int
            Temperatures, with that of the machine.
        n : int
            Chains.
        rng : numpy.random.Generator
            Source of randomness.
        X, observed : array of shape (n, n_visible) or None, default=None
            Visible values, and which are observed; None for chains of the model.

        Returns
        -------
        Replicas
            The replicas.
        """
        warm = n_replicas - 1
        chains = [model.new_chains(n, rng, params) for _ in range(warm)]
        return cls(chains, np.zeros(warm), np.zeros(warm), X, observed)

    @property
    def least_swapped(self) -> float:
        """The smallest share of swaps between neighbours, NaN before any try."""
        with np.errstate(invalid="ignore"):
            return float(np.min(self.n_swaps / self.n_tries))

    def forget_swaps(self) -> None:
        """Count swaps from now on."""
        self.n_swaps, self.n_tries = 0 * self.n_swaps, 0 * self.n_tries

    def move(self, model, params, cold, n_sweeps, rng) -> Any:
        """Move the replicas and the chains of the machine, and let them change places.

        Parameters
        ----------
        model : BoltzmannModel
            The machine.
        params : array of shape (n_parameters,)
            Its parameters.
        cold : array
            Chains of the machine; they may be changed.
        n_sweeps : int
            Transitions, with swaps after each.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array
            The chains of the machine.
        """
        start = model.independent(params)
        betas = np.linspace(0.0, 1.0, len(self.chains) + 1).tolist()
        rungs = [start + beta * (params - start) for beta in betas[:-1]] + [params]
        chains = [*self.chains, cold]
        data = self.X, self.observed
        for _ in range(n_sweeps):
            for k, rung in enumerate(rungs):
                chains[k] = model.moved(rung, chains[k], 1, draw_seed(rng), *data)
            # Even pairs and odd pairs in turn: no chain is in two at once.
            for k, (warm, cool) in enumerate(pairwise(rungs)):
                if k % 2 == self.n_moves % 2:
                    self._swap(model, warm, cool, chains, k, rng)
            self.n_moves += 1
        self.chains = chains[:-1]
        return chains[-1]

    def _swap(self, model, warm, cool, chains, k, rng):
        """Swap chains of one temperature with chains of the next."""
        hot, cold = chains[k], chains[k + 1]

        def excess(states):
            data = self.X, self.observed
            log_density = model.log_densities(warm, states, *data)
            return log_density - model.log_densities(cool, states, *data)

        gain = excess(cold) - excess(hot)
        arrays = arrays_of(gain)
        uniforms = arrays.asarray(rng.random(gain.shape[0]))
        # NaN rejects.
        swapped = arrays.xp.log(uniforms) < gain
        where = arrays_of(hot).xp.where
        mask = arrays.xp.expand_dims(swapped, axis=1 - model.row_axis)
        chains[k], chains[k + 1] = where(mask, cold, hot), where(mask, hot, cold)
        self.n_swaps[k] += float(arrays.xp.count_nonzero(swapped))
        self.n_tries[k] += gain.shape[0]


def cost_of_replicas(n_replicas, share) -> float:
    """Return the cost of an update relative to one without replicas.

    `share` is that of the transitions of one without them which each replica makes.
    """
    if n_replicas == 1:
        return 1.0
    return max(1.0, Replicas.swap_overhead * n_replicas * share)


def correlation_of_chains(model, params, chains, n_sweeps, rng) -> float:
    """Return the correlation of chains of a machine with their own states before.

    Near 0, the chains have forgotten where they were; near the share of the variance
    that lies between the modes, each has stayed in one of them.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    params : array of shape (n_parameters,)
        Its parameters.
    chains : array
        Chains of the machine, which are left as they are.
    n_sweeps : int
        Transitions between both states.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    float
        The correlation of visible units about their means over the chains; NaN where
        all are the same.
    """
    copies = model.unpack(model.pack(chains))
    moved = model.moved(params, copies, n_sweeps, draw_seed(rng))
    drawn = [
        model.visible_draws(params, None, None, these, draw_seed(rng))
        for these in (chains, moved)
    ]
    values = np.stack([*map(arrays_of(params).to_numpy, drawn)]).astype(np.float64)
    before, after = values - values.mean(axis=(0, 1))
    squares = np.sum(before**2) * np.sum(after**2)
    if not squares > 0:
        return float("nan")
    return float(np.sum(before * after) / np.sqrt(squares))


def free_moments(
    model, params, cold, replicas, n_sweeps, rng, rao_blackwell
) -> Moments:
    """Return the mean statistics of chains of the machine that have moved.

    Parameters
    ----------
    model : BoltzmannModel
        The machine.
    params : array of shape (n_parameters,)
        Its parameters.
    cold : array
        Chains of the machine; they may be changed.
    replicas : Replicas or None
        The warmer ones; None moves the chains alone.
    n_sweeps : int
        Transitions.
    rng : numpy.random.Generator
        Source of randomness.
    rao_blackwell : bool
        Conditional means in place of last draws.

    Returns
    -------
    Moments
        Mean statistics and the chains.
    """
    if replicas is not None:
        cold = replicas.move(model, params, cold, max(n_sweeps - 1, 1), rng)
        n_sweeps = 1
    seed = draw_seed(rng)
    return model.gibbs(params, cold, n_sweeps, seed, rao_blackwell=rao_blackwell)
