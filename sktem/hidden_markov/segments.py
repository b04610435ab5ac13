"""Filters and smoothers of sequences whose states last for drawn numbers of rows.

The functions have the names and the arguments of those of ``recursions``.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

from sktem.hidden_markov.recursions import Room

__all__ = [
    "Segmented",
    "Segments",
    "drawn_states",
    "elapsed",
    "filtered_probabilities",
    "log_likelihoods",
    "most_probable",
    "rows_left",
    "smoothed",
    "whole_durations",
]

#: numba is imported on first use.
KERNELS = "sktem.hidden_markov.kernels.segments"
TINY = np.finfo(np.float64).tiny


class Segments(NamedTuple):
    """Logarithms of the probabilities of segments.

    Attributes
    ----------
    start : ndarray of shape (n_sequences, K) or (1, K)
        First states.
    transitions : ndarray of shape (K, K)
        Next states.
    tables : ndarray of shape (1 + m, 2, K, D)
        Just, and at least, 1 to D rows: of segments, and from the first rows of
        sequences on, of each or of all.
    """

    start: np.ndarray
    transitions: np.ndarray
    tables: np.ndarray

    @classmethod
    def of(cls, start, transitions, durations, first=None) -> Segments:
        """Return the logarithms of probabilities, with `first` of first segments."""
        first = durations if first is None else first
        just = np.concatenate([durations[None], first.reshape(-1, *durations.shape)])
        least = just[..., ::-1].cumsum(axis=-1)[..., ::-1]
        least = least / least[..., :1]
        arrays = (np.atleast_2d(start), transitions, np.stack([just, least], axis=1))
        with np.errstate(divide="ignore"):
            return cls(*(np.log(np.ascontiguousarray(array)) for array in arrays))


class Segmented(NamedTuple):
    """Probabilities of states given all rows.

    Attributes
    ----------
    gamma : ndarray of shape (n, K)
        Probabilities of the states, times the weights of the sequences.
    log_likelihood : ndarray of shape (n_sequences,)
        Log-likelihoods.
    pairs : ndarray of shape (n_sequences, K, K)
        Expected numbers of rows of each state that are followed by one of each state.
    counts, firsts : ndarray of shape (n_sequences, K, D)
        Expected numbers of segments that begin after the first row, by duration, and
        of those at the first row, by rows from there on.
    """

    gamma: np.ndarray
    log_likelihood: np.ndarray
    pairs: np.ndarray
    counts: np.ndarray
    firsts: np.ndarray

    def total_transitions(self, segments) -> np.ndarray:
        """Return expected transitions of all rows together, (K, K)."""
        return self.pairs.sum(axis=0)

    def transitions_of_each(self, segments, offsets) -> np.ndarray:
        """Return expected transitions of each sequence, (n_sequences, K, K)."""
        return self.pairs


class Forward(NamedTuple):
    """A pass forward.

    Attributes
    ----------
    L : ndarray of shape (n, K)
        Log-densities less the largest of each row; zeros where no state is possible.
    begin, end : ndarray of shape (n, K)
        As of the kernel ``forward``.
    filtered : ndarray of shape (n, K) or (n_sequences, K)
        Logarithms of the filtered probabilities of all, or of last, rows.
    totals, log_likelihood : ndarray of shape (n_sequences,)
        Log-likelihoods of `L`, and of the rows.
    """

    L: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    filtered: np.ndarray
    totals: np.ndarray
    log_likelihood: np.ndarray


def _kernels():
    return import_module(KERNELS)


def _forward(
    L, offsets, segments: Segments, always=False, only_largest=False
) -> Forward:
    """Filter sequences, at all rows or only to their ends.

    With `only_largest` the totals are those of the most probable segments.
    """
    used = np.diff(offsets) > 0
    largest = L.max(axis=1, initial=-np.inf)
    possible = largest > -np.inf
    L = np.where(possible[:, None], L - np.where(possible, largest, 0.0)[:, None], 0.0)
    begin, end = np.empty(L.shape), np.empty(L.shape)
    filtered = np.empty((len(L) if always else len(used), L.shape[1]))
    _kernels().forward(L, offsets, *segments, only_largest, begin, end, filtered)
    totals, values = np.zeros(len(used)), np.zeros(len(used))
    ends = filtered[offsets[1:][used] - 1] if always else filtered[used]
    totals[used] = (np.maximum if only_largest else np.logaddexp).reduce(ends, axis=1)
    if used.any():
        values[used] = totals[used] + np.add.reduceat(largest, offsets[:-1][used])
    return Forward(L, begin, end, filtered, totals, values)


def smoothed(L, offsets, segments: Segments, weights=None, room=None) -> Segmented:
    """Smooth sequences, given log-densities of their rows."""
    room = Room() if room is None else room
    passed = _forward(L, offsets, segments)
    n_sequences, (K, D) = len(offsets) - 1, segments.tables.shape[2:]
    gamma, counts = room.array("gamma", L.shape), np.zeros((n_sequences, K, K + 2 * D))
    gamma[:] = 0.0
    _kernels().backward(
        passed.L, offsets, *segments[1:], passed.begin, passed.end, passed.totals,
        gamma, counts,
    )  # fmt: skip
    pairs, durations = counts[:, :, :K].copy(), counts[:, :, K:]
    used = np.flatnonzero((np.diff(offsets) > 0) & (passed.totals > -np.inf))
    # Rows that begin no segment stay in their state.
    states = np.arange(K)
    rows = np.zeros((n_sequences, K))
    if len(L):
        nonempty = np.diff(offsets) > 0
        rows[nonempty] = np.add.reduceat(gamma, offsets[:-1][nonempty], axis=0)
    stays = rows[used] - gamma[offsets[:-1][used]] - pairs[used].sum(axis=1)
    pairs[used[:, None], states, states] += np.maximum(stays, 0.0)
    if weights is not None:
        gamma *= np.repeat(weights, np.diff(offsets))[:, None]
        pairs *= weights[:, None, None]
        durations *= weights[:, None, None]
    counts, firsts = durations[:, :, :D], durations[:, :, D:]
    return Segmented(gamma, passed.log_likelihood, pairs, counts, firsts)


def log_likelihoods(L, offsets, segments: Segments) -> np.ndarray:
    """Return the log-likelihoods of sequences."""
    return _forward(L, offsets, segments).log_likelihood


def filtered_probabilities(L, offsets, segments: Segments):
    """Return filtered probabilities of the states (n, K), and log-likelihoods."""
    passed = _forward(L, offsets, segments, always=True)
    totals = np.logaddexp.reduce(passed.filtered, axis=1, keepdims=True)
    return np.exp(passed.filtered - totals), passed.log_likelihood


def most_probable(L, offsets, segments: Segments):
    """Return the most probable states of sequences, and their joint log-densities."""
    passed = _forward(L, offsets, segments, only_largest=True)
    places = np.zeros(len(offsets) - 1, np.int64)
    return _traced(passed, offsets, segments, 0, places, -1), passed.log_likelihood


def drawn_states(L, offsets, segments: Segments, seed, rows, n_draws):
    """Draw states of sequences given all rows, (n_draws, n)."""
    passed = _forward(L, offsets, segments)
    draws = [_traced(passed, offsets, segments, seed, rows, m) for m in range(n_draws)]
    return np.array(draws)


def _traced(passed: Forward, offsets, segments: Segments, seed, rows, draw):
    """Return states that are followed back from the last rows."""
    states = np.zeros(len(passed.L), np.int64)
    _kernels().trace(
        passed.L, offsets, *segments[1:], passed.begin, passed.end, np.uint64(seed),
        rows, draw, states,
    )  # fmt: skip
    return states


def elapsed(L, offsets, segments: Segments, before=None) -> np.ndarray:
    """Return probabilities (n_sequences, K, D) of 1 to D rows so far at the last row.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin; each has rows.
    segments : Segments
        Probabilities of segments.
    before : ndarray of shape (n_sequences, K, D) or None, default=None
        The same at the first rows; None where segments begin there.

    Returns
    -------
    ndarray of shape (n_sequences, K, D)
        Probabilities.
    """
    passed = _forward(L, offsets, segments)
    (K, D), least = segments.tables.shape[2:], np.exp(segments.tables[0, 1])
    table = np.zeros((len(offsets) - 1, K, D))
    for s, (first, stop) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        n = min(D, stop - first)
        rows = np.arange(stop - 1, stop - 1 - n, -1)
        logs = passed.begin[rows] + passed.L[rows].cumsum(axis=0) - passed.totals[s]
        now = np.exp(logs.T)
        if before is None or n < stop - first:
            table[s, :, :n] = now * least[:, :n]
            continue
        table[s, :, : n - 1] = now[:, :-1] * least[:, : n - 1]
        shares = before[s] / np.maximum(before[s].sum(axis=1, keepdims=True), TINY)
        shares = np.divide(shares, least, out=np.zeros((K, D)), where=least > 0)
        older = now[:, -1:] * shares[:, : D - n + 1] * least[:, n - 1 :]
        table[s, :, n - 1 :] += older
    return table / table.sum(axis=(1, 2), keepdims=True)


def _hazards(elapsed, durations):
    """Return probabilities of rows so far over those of durations not shorter."""
    least = durations[:, ::-1].cumsum(axis=1)[:, ::-1]
    return np.divide(elapsed, least, out=np.zeros(elapsed.shape), where=least > 0)


def rows_left(elapsed, durations) -> np.ndarray:
    """Return probabilities (..., K, D) of 1 to D rows left, given those of rows so far.

    The row is counted in both: 1 is a segment that begins, or ends, with it.
    """
    hazard, table = _hazards(elapsed, durations), np.zeros(elapsed.shape)
    for i in range(durations.shape[1]):
        if hazard[..., i].any():
            table[..., : table.shape[-1] - i] += hazard[..., i, None] * durations[:, i:]
    return table


def whole_durations(left, elapsed, durations) -> np.ndarray:
    """Return numbers (..., K, D) of segments by duration, given those by rows left.

    Parameters
    ----------
    left : ndarray of shape (..., K, D)
        Expected numbers of segments by the rows from one row on.
    elapsed : ndarray of shape (K, D)
        Probabilities of the rows until there, before anything was known of the rest.
    durations : ndarray of shape (K, D)
        Probabilities of durations.

    Returns
    -------
    ndarray of shape (..., K, D)
        Expected numbers.
    """
    hazard, expected = _hazards(elapsed, durations), rows_left(elapsed, durations)
    ratio = np.divide(left, expected, out=np.zeros(left.shape), where=expected > 0)
    counts = np.zeros(left.shape)
    for i in range(durations.shape[1]):
        if hazard[:, i].any():
            counts[..., i:] += hazard[:, i, None] * ratio[..., : counts.shape[-1] - i]
    return counts * durations
