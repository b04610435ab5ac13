"""The chain of states whose rows depend on the states of rows before too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sktem.hidden_markov.chain import Chain
from sktem.hidden_markov.recursions import Matrices

__all__ = ["HistoryChain"]


@dataclass(eq=False)
class HistoryChain(Chain):
    """A chain that is filtered and smoothed by histories of its states.

    A history is a number whose digits are the state of a row, of the row before it, and
    so on; before the first row of a sequence states are 0. Parameters and statistics
    are those of the states.

    Parameters
    ----------
    n_states : int
        Number of states K.
    fixed, tied, start_prior, transitions_prior, prior_share, is_stationary
        As of :class:`Chain`.
    memory : int, default=1
        Number of states before that are remembered.
    """

    memory: int = 1

    @property
    def n_hidden(self) -> int:
        """Number of histories."""
        return self.n_states ** (1 + self.memory)

    @property
    def states_of_hidden(self) -> np.ndarray:
        """State of a row in each history."""
        return np.arange(self.n_hidden) // self.n_states**self.memory

    def probabilities_of_states(self, hidden) -> np.ndarray:
        """Return probabilities of states, given those of histories."""
        return hidden @ np.eye(self.n_states)[self.states_of_hidden]

    def path_of_states(self, hidden) -> np.ndarray:
        """Return states, given the history at each row."""
        return self.states_of_hidden[hidden]

    def expanded(self, params, covariates=None):
        """Return start and transitions of histories, and their states."""
        state, histories = self.states_of_hidden, np.arange(self.n_hidden)
        start = np.zeros(self.n_hidden)
        start[histories % self.n_states**self.memory == 0] = params.start
        transitions = np.zeros((self.n_hidden, self.n_hidden))
        for following in range(self.n_states):
            then = following * self.n_states**self.memory + histories // self.n_states
            transitions[histories, then] = params.transitions[state, following]
        return start, transitions, state

    def matrices(self, params, X) -> Matrices:
        """Return the probabilities of histories."""
        start, transitions, _ = self.expanded(params)
        return Matrices.of(X.starts(start), transitions)

    def _of_hidden(self, counts):
        """Return start and transitions of states of those of histories."""
        M, of_state = self.n_hidden, np.eye(self.n_states)[self.states_of_hidden]
        first = counts[..., :M] @ of_state
        pairs = counts[..., M:].reshape(*counts.shape[:-1], M, M)
        pairs = of_state.T @ pairs @ of_state
        return np.concatenate([first, pairs.reshape(*first.shape[:-1], -1)], axis=-1)

    def sums(self, smoothed, matrices, X, params, weights=None) -> np.ndarray:
        """Return the sums of the statistics over sequences, which have weights in."""
        return self._of_hidden(super().sums(smoothed, matrices, X, params, weights))

    def of_each(self, smoothed, matrices, X, params) -> np.ndarray:
        """Return the statistics of each sequence."""
        return self._of_hidden(super().of_each(smoothed, matrices, X, params))

    def of_draws(self, states, X, params) -> np.ndarray:
        """Return mean statistics of each sequence over draws, (n_draws, n_rows)."""
        return super().of_draws(self.path_of_states(np.asarray(states)), X, params)
