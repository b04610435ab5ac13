"""Log Z along a run: importance sampling annealed along the path of the parameters.

States of the machine follow its parameters, by short steps with a transition after
each. The ratios of their probabilities before and after a step average to the ratio of
the normalisations (Jarzynski 1997), however well the transitions mix; where the weights
become uneven the states are drawn anew in proportion to them. Bereux et al. (2024)
follow the parameters of restricted machines in this way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sktem.arrays import arrays_of
from sktem.boltzmann.ais import estimate_of
from sktem.boltzmann.e_steps import draw_seed

__all__ = ["PartitionTrack"]

#: States that follow, and transitions before they begin.
RUNS = 100
BURN_IN = 100
#: Effective sample size, as a share of the states, below which they are drawn anew.
LEAST_SHARE = 0.5


@dataclass
class PartitionTrack:
    """States that follow the parameters of a machine, and log Z.

    Attributes
    ----------
    params : array of shape (n_parameters,)
        Where the states are.
    chains : array
        The states.
    log_weights : ndarray of shape (n,)
        Their weights since they were last drawn anew.
    begun, variance : float
        Log Z then, and its variance.
    number : int
        Updates of the run so far.
    every : int
        Updates after which the likelihood is measured.
    """

    params: Any
    chains: Any
    log_weights: np.ndarray
    begun: float
    variance: float
    number: int
    every: int = 100

    @classmethod
    def begin(
        cls, model, params, chains, value, error, rng, number, every=100
    ) -> PartitionTrack:
        """Return the track of a machine whose log Z is known.

        Parameters
        ----------
        model : BoltzmannModel
            The machine.
        params : array of shape (n_parameters,)
            Its parameters.
        chains : array or None
            Chains of the model to start from.
        value, error : float
            Its log Z, with the standard error.
        rng : numpy.random.Generator
            Source of randomness.
        number : int
            Updates of the run so far.
        every : int, default=100
            Updates after which the likelihood is measured.

        Returns
        -------
        PartitionTrack
            The track.
        """
        if chains is None:
            started = model.new_chains(RUNS, rng, params)
        else:
            n = model.pack(chains).shape[0]
            started = _taken(model, chains, rng.integers(n, size=RUNS))
        moved = model.moved(params, started, BURN_IN, draw_seed(rng))
        copy = arrays_of(params).copy(params)
        return cls(copy, moved, np.zeros(RUNS), value, error**2, number, every)

    def copy(self) -> PartitionTrack:
        """Return a track that goes on by itself."""
        # The other arrays are replaced and never changed.
        return replace(self, chains=arrays_of(self.chains).copy(self.chains))

    def is_due(self, n_updates) -> bool:
        """Return whether to measure after some updates, though no round has ended."""
        return n_updates - self.number >= self.every

    @property
    def value(self) -> float:
        """Log Z at the parameters where the states are."""
        return self.begun + estimate_of(self.log_weights, 0).value

    @property
    def standard_error(self) -> float:
        """The standard error of the value."""
        found = estimate_of(self.log_weights, 0)
        return float(np.sqrt(self.variance + found.standard_error**2))

    def follow(self, model, params, n_steps, rng) -> None:
        """Move the states to new parameters.

        Parameters
        ----------
        model : BoltzmannModel
            The machine.
        params : array of shape (n_parameters,)
            Its parameters.
        n_steps : int
            Steps on the way.
        rng : numpy.random.Generator
            Source of randomness.
        """
        start = self.params
        change = params - start
        rung = start
        for step in range(1, n_steps + 1):
            before = model.log_densities(rung, self.chains)
            rung = start + (step / n_steps) * change
            gained = model.log_densities(rung, self.chains) - before
            self.log_weights = self.log_weights + np.array(gained.tolist())
            self._draw_anew(model, rng)
            self.chains = model.moved(rung, self.chains, 1, draw_seed(rng))
        self.params = arrays_of(params).copy(params)

    def _draw_anew(self, model, rng):
        """Draw the states in proportion to their weights, if these are uneven."""
        n = len(self.log_weights)
        found = estimate_of(self.log_weights, 0)
        if found.effective_sample_size >= LEAST_SHARE * n:
            return
        weights = np.exp(self.log_weights - self.log_weights.max())
        heights = np.cumsum(weights) / weights.sum()
        rows = np.searchsorted(heights, (np.arange(n) + rng.random()) / n)
        self.chains = _taken(model, self.chains, np.minimum(rows, n - 1))
        self.begun += found.value
        self.variance += found.standard_error**2
        self.log_weights = np.zeros(n)


def _taken(model, chains, rows):
    """Return some of the chains."""
    packed = model.pack(chains)
    return model.unpack(arrays_of(packed).take(packed, rows))
