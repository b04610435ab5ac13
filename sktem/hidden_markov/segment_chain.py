"""The chain of a hidden semi-Markov model, whose states have durations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sktem.emissions.directions import Direction
from sktem.hidden_markov import segments
from sktem.hidden_markov.chain import Chain, ChainParams
from sktem.hidden_markov.durations import Durations
from sktem.hidden_markov.tilts import duration_directions, tangents, tilted

__all__ = ["SegmentChain", "SegmentParams"]


class SegmentParams(NamedTuple):
    """Parameters of a chain with durations.

    Attributes
    ----------
    start : ndarray of shape (K,)
        Probabilities of the first state.
    transitions : ndarray of shape (K, K)
        Row i has the probabilities of the state that follows state i, another one. A
        state that is never left has 1 for itself.
    durations : ndarray of shape (K, D)
        Probabilities of lasting 1 to D rows.
    """

    start: np.ndarray
    transitions: np.ndarray
    durations: np.ndarray


@dataclass(eq=False)
class SegmentChain(Chain):
    """A chain whose states last for numbers of rows with a distribution.

    The first row begins a segment, unless `durations` says that it may be any of its
    rows; the last segment may go on after the last row.

    Parameters
    ----------
    n_states : int
        Number of states K.
    fixed : tuple of str, default=()
        Those of "start", "transitions" and "durations" that are not learned.
    tied, start_prior, transitions_prior, prior_share
        As of :class:`Chain`.
    durations : Durations
        Distributions of the durations.
    longest : int or None, default=None
        The longest duration D; None until a start is known.
    """

    recursions: ClassVar[ModuleType] = segments

    durations: Durations = field(default_factory=Durations)
    longest: Any = None

    @property
    def plain(self) -> Chain:
        """The chain whose durations are geometric."""
        return self._without(fixed=tuple(set(self.fixed) & {"start"}))

    @property
    def n_statistics(self) -> int:
        """Number of statistics."""
        return super().n_statistics + self.n_states * self.longest

    def from_plain(self, params: ChainParams, X) -> SegmentParams:
        """Return parameters with the durations that a chain without them has.

        Choose the longest duration, if it is not known.
        """
        stay = np.diagonal(params.transitions)
        if self.longest is None:
            self.longest = self.durations.rows(X, stay)
        rows = np.arange(self.longest)
        shares = np.maximum(stay[:, None], np.finfo(float).tiny) ** rows
        table = shares / shares.sum(axis=1, keepdims=True)
        table = self.durations.maximize(table, table)
        return self.params_of(params.start, left(params.transitions), table)

    def params_of(self, start, transitions, extra=None) -> SegmentParams:
        """Return parameters of fitted attributes."""
        return SegmentParams(start, transitions, extra)

    def _elapsed(self, params) -> np.ndarray:
        """Return probabilities of states and of 1 to D rows so far, at first rows."""
        shares = np.zeros(params.durations.shape)
        shares[:, 0] = 1.0
        if self.durations.left_censored:
            shares = params.durations[:, ::-1].cumsum(axis=1)[:, ::-1]
            shares = shares / shares.sum(axis=1, keepdims=True)
        return shares * params.start[:, None]

    def _elapsed_of_each(self, params, X) -> np.ndarray:
        """Return the same of sequences, (n_sequences, K, D), or (1, K, D) of all."""
        elapsed = self._elapsed(params)[None]
        if X.entry is None:
            return elapsed
        entry = X.entry.reshape(len(X), *elapsed.shape[1:])
        return np.where(np.isnan(entry), elapsed, entry)

    def matrices(self, params, X) -> segments.Segments:
        """Return the logarithms of the probabilities."""
        if X.entry is None and not self.durations.left_censored:
            return segments.Segments.of(*params)
        elapsed = self._elapsed_of_each(params, X)
        first = segments.rows_left(elapsed, params.durations)
        start = first.sum(axis=2)
        possible = start[:, :, None] > 0
        shares = first / np.where(possible, start[:, :, None], 1.0)
        shares = np.where(possible, shares, params.durations)
        return segments.Segments.of(start, params.transitions, params.durations, shares)

    def sums(self, smoothed, matrices, X, params, weights=None) -> np.ndarray:
        """Return the sums of the statistics over sequences, which have weights in."""
        chain = super().sums(smoothed, matrices, X, params, weights)
        counts = self._whole_segments(smoothed.counts, smoothed.firsts, X, params)
        return np.concatenate([chain, counts.sum(axis=0).ravel()])

    def of_each(self, smoothed, matrices, X, params) -> np.ndarray:
        """Return the statistics of each sequence."""
        chain = super().of_each(smoothed, matrices, X, params)
        counts = self._whole_segments(smoothed.counts, smoothed.firsts, X, params)
        return np.concatenate([chain, counts.reshape(len(X), -1)], axis=1)

    def _whole_segments(self, counts, firsts, X, params) -> np.ndarray:
        """Return expected numbers of segments by duration, (n_sequences, K, D).

        First segments that may have begun before, by `firsts` with rows since the first
        one, count with their whole durations. What a sequence continues has counted at
        the end of the piece before, with durations that were expected then: only the
        change of these counts.
        """
        begins, whole = X.begins, counts.copy()
        if self.durations.left_censored:
            firsts, tables = firsts.copy(), (self._elapsed(params), params.durations)
            firsts[begins] = segments.whole_durations(firsts[begins], *tables)
        whole[begins] += firsts[begins]
        for s in np.flatnonzero(~begins & (X.lengths > 0)):
            elapsed = X.entry[s].reshape(firsts.shape[1:])
            left = segments.rows_left(elapsed, params.durations)
            change = firsts[s] - firsts[s].sum() * left
            whole[s] += segments.whole_durations(change, elapsed, params.durations)
        return whole

    def of_states(self, states, X, params) -> np.ndarray:
        """Return the statistics of each sequence for given states, (n_sequences, .)."""
        K, D = self.n_states, self.longest
        # What begins at a first row, and after it.
        counts = np.zeros((2, len(X), K, D))
        sequence = np.repeat(np.arange(len(X)), X.lengths)
        new = np.ones(len(states), dtype=bool)
        new[1:] = (states[1:] != states[:-1]) | (sequence[1:] != sequence[:-1])
        first = np.flatnonzero(new)
        size = np.diff(np.append(first, len(states)))
        stop, state, sequence = first + size, states[first], sequence[first]
        later = (~np.isin(first, X.offsets[:-1])).astype(int)
        cut = np.isin(stop, X.offsets[1:])
        known = ~cut & (size <= D)
        at = (later[known], sequence[known], state[known], size[known] - 1)
        np.add.at(counts, at, 1.0)
        elapsed = self._elapsed_of_each(params, X)
        tables = segments.rows_left(elapsed, params.durations)
        # What the end of a sequence cuts lasts as long as durations do that are longer.
        for i in np.flatnonzero(cut & (size <= D)):
            table = params.durations
            if not later[i]:
                table = tables[sequence[i] if len(tables) > 1 else 0]
            rest = table[state[i], size[i] - 1 :]
            at = (later[i], sequence[i], state[i], slice(size[i] - 1, None))
            counts[at] += rest / max(rest.sum(), 1e-300)
        chain = super().of_states(states, X, params)
        whole = self._whole_segments(counts[1], counts[0], X, params)
        return np.concatenate([chain, whole.reshape(len(X), -1)], axis=1)

    def maximize(self, s, params) -> SegmentParams:
        """Return the parameters of the statistics, with the prior."""
        count = super().n_statistics
        plain = super().maximize(s[:count], ChainParams(*params[:2]))
        table = params.durations
        if "durations" not in self.fixed:
            counts = np.maximum(s[count:].reshape(table.shape), 0.0)
            begun_before = s[: self.n_states] if self.durations.left_censored else None
            table = self.durations.maximize(counts, table, begun_before)
        return SegmentParams(plain.start, plain.transitions, table)

    def n_parameters(self, params) -> int:
        """Return the number of free probabilities and parameters of durations."""
        count = super().n_parameters(params)
        if "durations" in self.fixed:
            return count
        used = np.diagonal(params.transitions) < 1.0
        return count + self.durations.n_parameters(params.durations[used])

    def gradient(self, s, params) -> dict:
        """Return derivatives of the log-likelihood by fields, and by tilts."""
        gradients, p = super().gradient(s, params), params.durations
        counts = s[super().n_statistics :].reshape(p.shape)
        slope = counts / np.where(p > 0, p, 1.0)
        if self.durations.left_censored:
            rows = 1.0 + np.arange(p.shape[1])
            slope -= s[: self.n_states, None] * rows / (p @ rows)[:, None]
        gradients["durations"] = slope
        if (family := self.durations.family) != "table":
            gradients["tilts"] = np.einsum("kid,kd->ki", tangents(family, p), slope)
        return gradients

    def free_directions(self, params, following, X) -> Iterator[Direction]:
        """Yield the directions of probabilities and of durations."""
        yield from super().free_directions(params, following, X)
        if "durations" not in self.fixed:
            left = np.flatnonzero(np.diagonal(params.transitions) < 1.0)
            tables = params.durations, following.durations
            family = self.durations.family
            yield from duration_directions(family, *tables, left)

    def moved(self, params, moves) -> SegmentParams:
        """Return parameters moved along directions, durations within their family."""
        tilts = np.zeros((self.n_states, 2))
        tilting = [move for move in moves if move[0].name == "tilts"]
        for direction, size in tilting:
            tilts[direction.entries[0][0]] += size * direction.scale
        params = super().moved(params, [m for m in moves if m[0].name != "tilts"])
        if not tilting:
            return params
        table = tilted(self.durations.family, params.durations, tilts)
        return params._replace(durations=table)

    def slopes_of_fields(self, moved, params) -> dict:
        """Return slopes of the fields by directions, and of means of durations."""
        slopes, p = dict(moved), params.durations
        if "tilts" in slopes:
            by_tilts = tangents(self.durations.family, p), slopes.pop("tilts")
            slopes["durations"] = np.einsum("kid,kin->kdn", *by_tilts)
        if "durations" in slopes:
            rows = 1.0 + np.arange(p.shape[1])
            slopes["mean_durations"] = np.einsum("d,kdn->kn", rows, slopes["durations"])
        return slopes

    def expanded(self, params, covariates=None):
        """Return start and transitions of states with rows left, and their states."""
        K, D = params.durations.shape
        enters = params.durations.ravel()
        state = np.repeat(np.arange(K), D)
        transitions = np.eye(K * D, k=-1)
        transitions[::D] = params.transitions[:, state] * enters
        start = segments.rows_left(self._elapsed(params), params.durations)
        return start.ravel(), transitions, state

    def carried(self, L, X, matrices, params) -> np.ndarray:
        """Return probabilities of each sequence's last state and its elapsed rows."""
        before = None
        if X.entry is not None or self.durations.left_censored:
            before = self._elapsed_of_each(params, X)
            before = np.broadcast_to(before, (len(X), *before.shape[1:]))
        elapsed = segments.elapsed(L, X.offsets, matrices, before)
        return elapsed.reshape(len(X), -1)

    def last_rows(self, L, X, matrices, params) -> np.ndarray:
        """Return probabilities of the expanded states at the last rows."""
        elapsed = self.carried(L, X, matrices, params)
        elapsed = elapsed.reshape(len(X), *params.durations.shape)
        return segments.rows_left(elapsed, params.durations).reshape(len(X), -1)

    def duration_table(self, params, longest):
        """Return probabilities of 1 to ``longest`` rows, means and deviations."""
        p = params.durations
        p = p / p.sum(axis=1, keepdims=True)
        rows = 1.0 + np.arange(p.shape[1])
        mean = p @ rows
        deviation = np.sqrt(np.maximum(p @ rows**2 - mean**2, 0.0))
        always = np.diagonal(params.transitions) == 1.0
        mean, deviation = (np.where(always, np.inf, span) for span in (mean, deviation))
        table = np.zeros((len(p), longest))
        shown = min(longest, p.shape[1])
        table[~always, :shown] = p[~always, :shown]
        return table, mean, deviation


def left(transitions) -> np.ndarray:
    """Return transitions to other states, given that the state is left."""
    others = transitions * (1.0 - np.eye(len(transitions)))
    sums = others.sum(axis=1, keepdims=True)
    return np.where(
        sums > 0, others / np.where(sums > 0, sums, 1.0), np.eye(len(transitions))
    )


def staying(transitions, persistence=10.0) -> np.ndarray:
    """Return transitions that stay in a state for a while before they leave it."""
    return (transitions + (persistence - 1.0) * np.eye(len(transitions))) / persistence
