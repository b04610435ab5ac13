"""The Markov chain of the states: its parameters, statistics and M-step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sktem.emissions.directions import Direction, moved_fields, share_directions
from sktem.hidden_markov import recursions
from sktem.hidden_markov.recursions import Matrices
from sktem.hidden_markov.stationary import (
    moved_start,
    start_slopes,
    stationary,
    transitions_of,
)

__all__ = ["Chain", "ChainParams"]


class ChainParams(NamedTuple):
    """Parameters of a chain.

    Attributes
    ----------
    start : ndarray of shape (K,)
        Probabilities of the first state.
    transitions : ndarray of shape (K, K)
        Row i has the probabilities of the state that follows state i.
    """

    start: np.ndarray
    transitions: np.ndarray


@dataclass(eq=False)
class Chain:
    """A chain whose probabilities are the same at all rows.

    Probabilities of 0 stay 0, so that the zeros of a start are a structure.

    Parameters
    ----------
    n_states : int
        Number of states K.
    fixed : tuple of str, default=()
        Those of "start" and "transitions" that are not learned.
    tied : ndarray of int of shape (K,) or None, default=None
        States with the same number leave with the same probabilities.
    start_prior, transitions_prior : float or ndarray, default=1.0
        Concentrations of Dirichlet priors; 1 is none.
    prior_share : float, default=0.0
        What one observation is of the statistics.
    is_stationary : bool, default=False
        Whether the start is the stationary distribution of the transitions.
    """

    #: Where the filters and smoothers of such chains are.
    recursions: ClassVar[ModuleType] = recursions

    n_states: int
    fixed: tuple[str, ...] = ()
    tied: np.ndarray | None = None
    start_prior: float | np.ndarray = 1.0
    transitions_prior: float | np.ndarray = 1.0
    prior_share: float = 0.0
    is_stationary: bool = False

    @property
    def n_statistics(self) -> int:
        """Number of statistics."""
        return self.n_states * (1 + self.n_states)

    @property
    def n_hidden(self) -> int:
        """Number of hidden states of the recursions: states, or histories of states."""
        return self.n_states

    @property
    def states_of_hidden(self) -> np.ndarray:
        """State of a row in each of them."""
        return np.arange(self.n_states)

    def probabilities_of_states(self, hidden) -> np.ndarray:
        """Return probabilities of states, given those of the hidden states."""
        return hidden

    def path_of_states(self, hidden) -> np.ndarray:
        """Return states, given the hidden state of each row."""
        return hidden

    @property
    def plain(self) -> Chain | None:
        """A simpler chain whose fits this one begins with, None without any."""
        return None

    def _without(self, **changes) -> Chain:
        """Return the chain of the states alone, with some settings changed."""
        settings = {field.name: getattr(self, field.name) for field in fields(Chain)}
        return Chain(**{**settings, **changes})

    def from_plain(self, params, X) -> Any:
        """Return parameters, given those of the simpler chain for some sequences."""
        return params

    def params_of(self, start, transitions, extra=None) -> Any:
        """Return parameters of fitted attributes."""
        return ChainParams(start, transitions)

    def groups_of_tied(self) -> list[np.ndarray]:
        """Return the states that share their transitions, by groups."""
        tied = np.arange(self.n_states) if self.tied is None else np.asarray(self.tied)
        return [np.flatnonzero(tied == group) for group in np.unique(tied)]

    def matrices(self, params, X) -> Any:
        """Return the probabilities for the rows of some sequences."""
        return Matrices.of(X.starts(params.start), params.transitions)

    def sums(self, smoothed, matrices, X, params, weights=None) -> np.ndarray:
        """Return the sums of the statistics over sequences, which have weights in."""
        first = smoothed.gamma[X.offsets[:-1][X.begins]].sum(axis=0)
        return np.concatenate([first, smoothed.total_transitions(matrices).ravel()])

    def of_each(self, smoothed, matrices, X, params) -> np.ndarray:
        """Return the statistics of each sequence."""
        pairs = smoothed.transitions_of_each(matrices, X.offsets)
        first = self._first_of_each(smoothed, X)
        return np.concatenate([first, pairs.reshape(len(pairs), -1)], axis=1)

    def _first_of_each(self, smoothed, X) -> np.ndarray:
        """Return probabilities at the first rows of sequences, 0 for continuations."""
        first = np.zeros((len(X), self.n_hidden))
        first[X.begins] = smoothed.gamma[X.offsets[:-1][X.begins]]
        return first

    def of_states(self, states, X, params) -> np.ndarray:
        """Return the statistics of each sequence for given states, (n_sequences, .)."""
        K, width = self.n_states, self.n_states * (1 + self.n_states)
        sequence = np.repeat(np.arange(len(X)), X.lengths)
        used = np.flatnonzero(X.begins)
        first = used * width + states[X.offsets[:-1][used]]
        inner = sequence[1:] == sequence[:-1]
        pair = K + K * states[:-1][inner] + states[1:][inner]
        cells = np.concatenate([first, sequence[1:][inner] * width + pair])
        counts = np.bincount(cells, minlength=len(X) * width)
        return counts.reshape(len(X), width).astype(np.float64)

    def of_draws(self, states, X, params) -> np.ndarray:
        """Return mean statistics of each sequence over draws, (n_draws, n_rows)."""
        return np.mean([self.of_states(drawn, X, params) for drawn in states], axis=0)

    def maximize(self, s, params) -> Any:
        """Return the shares of the statistics, with the prior."""
        K = self.n_states
        start, transitions = params.start, params.transitions
        if not (self.is_stationary or "start" in self.fixed):
            counts = self._counts(s[None, :K], self.start_prior, start[None])
            start = self._shares(counts, start[None])[0]
        if "transitions" not in self.fixed:
            counts = np.maximum(s[K:].reshape(K, K), 0.0)
            for members in self.groups_of_tied() if self.tied is not None else ():
                counts[members] = counts[members].sum(axis=0)
            counts = self._counts(counts, self.transitions_prior, transitions)
            shares = self._shares(counts, transitions)
            if self.is_stationary:
                first, both = np.maximum(s[:K], 0.0), [transitions, shares]
                shares = transitions_of(first, counts, both, self.groups_of_tied())
            transitions = shares
        if self.is_stationary:
            start = stationary(transitions)
        return ChainParams(start, transitions)

    def _counts(self, counts, prior, before):
        """Return counts with the prior where there was a probability before."""
        counts = counts + (np.asarray(prior) - 1.0) * self.prior_share
        return np.where(before > 0, np.maximum(counts, 0.0), 0.0)

    @staticmethod
    def _shares(counts, before):
        """Return normalised counts."""
        totals = counts.sum(axis=1, keepdims=True)
        # A state that is never left keeps its probabilities.
        used = totals > np.finfo(np.float64).tiny
        return np.where(used, counts / np.where(used, totals, 1.0), before)

    def penalty(self, params) -> float:
        """Return minus the logarithm of the prior, on the scale of the statistics."""
        total = 0.0
        for name in ("start", "transitions"):
            strength = np.asarray(getattr(self, f"{name}_prior")) - 1.0
            if name in self.fixed or not strength.any():
                continue
            p = getattr(params, name)
            logs = strength * np.log(np.where(p > 0, p, 1.0))
            if name == "transitions":  # those of tied states are one
                logs = logs[[group[0] for group in self.groups_of_tied()]]
            total -= self.prior_share * float(logs.sum())
        return total

    def project(self, s):
        """Return statistics without negative counts, and whether there were any."""
        left = bool((s < 0).any())
        return (np.maximum(s, 0.0), True) if left else (s, False)

    def n_parameters(self, params) -> int:
        """Return the number of free probabilities."""
        count = 0
        if not (self.is_stationary or "start" in self.fixed):
            count += int((params.start > 0).sum()) - 1
        if "transitions" not in self.fixed:
            rows = params.transitions[[group[0] for group in self.groups_of_tied()]]
            count += int(np.maximum((rows > 0).sum(axis=1) - 1, 0).sum())
        return count

    def gradient(self, s, params) -> dict:
        """Return derivatives of the log-likelihood by the entries of the fields.

        They are those of the complete log-likelihood with these statistics (Fisher's
        identity), up to what is the same for all probabilities of a distribution.
        """
        K = self.n_states
        counts = {"start": s[:K], "transitions": s[K : K + K * K].reshape(K, K)}
        values = {name: getattr(params, name) for name in counts}
        slopes = {
            name: counts[name] / np.where(p > 0, p, 1.0) for name, p in values.items()
        }
        if self.is_stationary:
            by_start = start_slopes(s[:K], params.transitions, params.start)
            slopes["transitions"] = slopes["transitions"] + by_start
        return slopes

    def free_directions(self, params, following, X) -> Iterator[Direction]:
        """Yield the ways in which parameters can move, given those after an M-step.

        The start of one sequence is always certain.
        """
        known = self.is_stationary or "start" in self.fixed
        if not known and X.begins.sum() > 1:
            yield from share_directions("start", params.start, following.start, [()])
        if "transitions" not in self.fixed:
            for members in self.groups_of_tied():
                rows = [(i,) for i in members]
                p, then = (fit.transitions[rows[0]] for fit in (params, following))
                yield from share_directions("transitions", p, then, rows)

    def moved(self, params, moves) -> Any:
        """Return parameters moved along directions, each by a number of its scales."""
        params = moved_fields(params, moves)
        if self.is_stationary:
            params = params._replace(start=stationary(params.transitions))
        return params

    def slopes_of_fields(self, moved, params) -> dict:
        """Return slopes by directions of fields, and of means of durations.

        They are given those of what is moved, by name, with the directions last.
        """
        slopes = dict(moved)
        if "transitions" in moved:
            stay = np.diagonal(params.transitions)[:, None]
            slope = np.diagonal(moved["transitions"]).T
            left = np.where(stay < 1.0, 1.0 - stay, 1.0)
            slopes["mean_durations"] = slope / left**2
            if self.is_stationary:
                slopes["start"] = moved_start(moved["transitions"], *params[1::-1])
        return slopes

    def expanded(self, params, covariates=None):
        """Return start and transitions of a chain without memory, and its states."""
        return params.start, params.transitions, np.arange(self.n_states)

    def carried(self, L, X, matrices, params) -> np.ndarray:
        """Return the filtered probabilities at the last row of each sequence."""
        filtered = self.recursions.filtered_probabilities(L, X.offsets, matrices)[0]
        return filtered[X.offsets[1:] - 1]

    def last_rows(self, L, X, matrices, params) -> np.ndarray:
        """Return filtered probabilities of the expanded states at the last rows."""
        return self.carried(L, X, matrices, params)

    def duration_table(self, params, longest):
        """Return probabilities of 1 to ``longest`` rows, means and deviations."""
        stay = np.diagonal(params.transitions)
        with np.errstate(divide="ignore"):
            mean = 1.0 / (1.0 - stay)
            deviation = np.sqrt(stay) / (1.0 - stay)
        table = (1 - stay)[:, None] * stay[:, None] ** np.arange(longest)
        return table, mean, deviation
