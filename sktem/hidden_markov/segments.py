"""Filters and smoothers of sequences whose states last for drawn numbers of rows.

The functions have the names and the arguments of those of ``recursions``.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

__all__ = [
    "Segmented",
    "Segments",
    "drawn_states",
    "filtered_probabilities",
    "log_likelihoods",
    "most_probable",
    "smoothed",
]

#: numba is imported on first use.
KERNELS = "sktem.hidden_markov.kernels.segments"


class Segments(NamedTuple):
    """Logarithms of the probabilities of segments.

    Attributes
    ----------
    start : ndarray of shape (K,)
        First states.
    transitions : ndarray of shape (K, K)
        Next states.
    last, durations : ndarray of shape (K, D)
        At least, and just, 1 to D rows.
    """

    start: np.ndarray
    transitions: np.ndarray
    last: np.ndarray
    durations: np.ndarray

    @classmethod
    def of(cls, start, transitions, durations) -> Segments:
        """Return the logarithms of probabilities."""
        last = durations[:, ::-1].cumsum(axis=1)[:, ::-1]
        arrays = (start, transitions, last / last[:, :1], durations)
        with np.errstate(divide="ignore"):
            return cls(*(np.log(np.ascontiguousarray(one)) for one in arrays))


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
    counts : ndarray of shape (n_sequences, K, D)
        Expected numbers of segments by duration.
    """

    gamma: np.ndarray
    log_likelihood: np.ndarray
    pairs: np.ndarray
    counts: np.ndarray

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


def _forward(L, offsets, segments: Segments, always=False) -> Forward:
    """Filter sequences, at all rows or only to their ends."""
    used = np.diff(offsets) > 0
    largest = L.max(axis=1, initial=-np.inf)
    possible = largest > -np.inf
    L = np.where(possible[:, None], L - np.where(possible, largest, 0.0)[:, None], 0.0)
    begin, end = np.empty(L.shape), np.empty(L.shape)
    filtered = np.empty((len(L) if always else len(used), L.shape[1]))
    start, transitions, last, durations = segments
    _kernels().forward(
        L, offsets, start, transitions, last, durations, begin, end, filtered
    )
    totals, found = np.zeros(len(used)), np.zeros(len(used))
    ends = filtered[offsets[1:][used] - 1] if always else filtered[used]
    totals[used] = np.logaddexp.reduce(ends, axis=1)
    if used.any():
        found[used] = totals[used] + np.add.reduceat(largest, offsets[:-1][used])
    return Forward(L, begin, end, filtered, totals, found)


def smoothed(L, offsets, segments: Segments, weights=None) -> Segmented:
    """Smooth sequences, given log-densities of their rows."""
    passed = _forward(L, offsets, segments)
    n_sequences, (K, D) = len(offsets) - 1, segments.durations.shape
    gamma, counts = np.zeros(L.shape), np.zeros((n_sequences, K, K + D))
    _kernels().backward(
        passed.L, offsets, *segments[1:], passed.begin, passed.end, passed.totals,
        gamma, counts,
    )  # fmt: skip
    pairs, counts = counts[:, :, :K].copy(), counts[:, :, K:]
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
        pairs, counts = pairs * weights[:, None, None], counts * weights[:, None, None]
    return Segmented(gamma, passed.log_likelihood, pairs, counts)


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
    states, scores = np.zeros(len(L), np.int64), np.empty(len(offsets) - 1)
    _kernels().viterbi(L, offsets, *segments, states, scores)
    return states, scores


def drawn_states(L, offsets, segments: Segments, seed, rows, n_draws):
    """Draw states of sequences given all rows, (n_draws, n)."""
    passed = _forward(L, offsets, segments)
    states = np.zeros((n_draws, len(L)), np.int64)
    for m in range(n_draws):
        _kernels().sample_states(
            passed.L, offsets, *segments[1:], passed.begin, passed.end,
            np.uint64(seed), rows, m, states[m],
        )  # fmt: skip
    return states


def remaining(L, offsets, segments: Segments) -> np.ndarray:
    """Return probabilities (n_sequences, K, D) of 1 to D rows left at the last row.

    The last row is counted: 1 is a segment that ends with it.
    """
    passed = _forward(L, offsets, segments)
    K, D = segments.durations.shape
    found = np.zeros((len(offsets) - 1, K, D))
    for s, (first, stop) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        n = min(D, stop - first)
        rows = np.arange(stop - 1, stop - 1 - n, -1)
        logs = passed.begin[rows] + passed.L[rows].cumsum(axis=0) - passed.totals[s]
        for i, shares in enumerate(np.exp(logs)):
            found[s, :, : D - i] += shares[:, None] * np.exp(segments.durations[:, i:])
    return found / found.sum(axis=(1, 2), keepdims=True)
