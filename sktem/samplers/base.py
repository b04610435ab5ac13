"""The contract of a sampler, and the accept step that Metropolis kernels share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from sktem.e_step.chains import ChainState

__all__ = ["Sampler", "SamplerInfo", "accept_or_reject"]


class SamplerInfo(NamedTuple):
    """Report of one call of a sampler.

    Attributes
    ----------
    acceptance_rate : float
        Mean acceptance rate, NaN for exact samplers.
    events : mapping
        Counts of numerical problems, by name.
    bias : float
        How far a transition is from one that leaves the target invariant; NaN if it
        leaves the target invariant.
    """

    acceptance_rate: float = float("nan")
    events: Mapping[str, int] = MappingProxyType({})
    bias: float = float("nan")


class Sampler(BaseEstimator, ABC):
    """A distribution or Markov transition of the latents of given rows.

    A sampler holds settings only. Chain states are passed in and returned: an array of
    latents, or a :class:`sktem.samplers.ChainState` if the sampler learns something.

    Attributes
    ----------
    requires : tuple of str
        Methods that the model must have; a property if they depend on settings.
    deterministic : bool
        True if the latents stand for exact expectations, the same at every call with
        the same parameters.
    markov : bool
        True if a draw starts from the row's previous latents, so that chains are kept.
    accepts : bool
        True if moves are accepted or rejected, so that the acceptance rate shows
        whether the steps have a good length.
    """

    requires: tuple[str, ...] = ()
    deterministic: ClassVar[bool] = False
    markov: ClassVar[bool] = False
    accepts: ClassVar[bool] = False

    @property
    def warm_up(self) -> int:
        """Number of warm-up draws for new chains."""
        return 0

    def is_warm(self, chains, n_draws: int) -> bool:
        """Return whether new chains have had enough draws.

        Parameters
        ----------
        chains : ChainState or ndarray
            Their states.
        n_draws : int
            Number of draws so far.

        Returns
        -------
        bool
            Whether the first iteration may learn from them.
        """
        return n_draws >= self.warm_up

    def start(self, model, X, params, rng) -> ChainState | np.ndarray | None:
        """Return initial chain states of the rows, None for exact samplers.

        Parameters
        ----------
        model : LatentModel
            The model.
        X : array-like
            Rows.
        params : object
            Starting parameters.
        rng : numpy.random.Generator
            Generator of the initialisation.

        Returns
        -------
        ChainState, ndarray or None
            Chain states.
        """
        return None

    @abstractmethod
    def draw(
        self, model, X, chains, params: Any, generators, iteration: int = 1
    ) -> tuple[Any, SamplerInfo]:
        """Draw the latents of rows.

        Parameters
        ----------
        model : LatentModel
            The model.
        X : array-like
            Rows.
        chains : ChainState, ndarray or None
            Their chain states, None for exact samplers.
        params : object
            Current parameters.
        generators : Generators
            Its generators ``sampling`` and ``acceptance`` are used.
        iteration : int, default=1
            Iteration index k, for a number of draws that grows with it.

        Returns
        -------
        chains : ChainState or ndarray
            New chain states, or the latents drawn by exact samplers.
        info : SamplerInfo
            Report of the draw.
        """


def accept_or_reject(
    current: np.ndarray, proposed: np.ndarray, log_ratio: np.ndarray, rng
) -> tuple[np.ndarray, np.ndarray]:
    """Do the Metropolis-Hastings test for every row.

    The uniforms are always drawn, and a log-ratio that is NaN means reject, so that a
    numerical accident in one row neither moves it nor shifts the stream of the others.

    Parameters
    ----------
    current, proposed : ndarray of shape (n, ...)
        States.
    log_ratio : ndarray of shape (n,)
        Logarithm of the acceptance ratio.
    rng : numpy.random.Generator
        Stream of the acceptance uniforms.

    Returns
    -------
    states : ndarray of shape (n, ...)
        The accepted or kept states.
    accepted : ndarray of bool of shape (n,)
        Which were accepted.
    """
    uniforms = rng.random(len(log_ratio))
    accepted = np.log1p(-uniforms) < log_ratio  # False for NaN
    mask = accepted.reshape((-1,) + (1,) * (current.ndim - 1))
    return np.where(mask, proposed, current), accepted
