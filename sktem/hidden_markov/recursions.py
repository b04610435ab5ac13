"""Filters and smoothers of sequences, whatever their probabilities."""

from __future__ import annotations

import math
import threading
from functools import cache
from importlib import import_module
from typing import NamedTuple

import numpy as np

from sktem import budget

__all__ = [
    "Matrices",
    "Room",
    "Smoothed",
    "best_paths",
    "drawn_states",
    "filtered_probabilities",
    "log_likelihoods",
    "most_probable",
    "smoothed",
]

#: numba is imported on first use.
KERNELS = "sktem.hidden_markov.kernels"
#: States that a byte can number.
STATES_OF_BYTE = 256


class Matrices(NamedTuple):
    """Probabilities of a chain, in the form of the compiled functions.

    Attributes
    ----------
    start : ndarray of shape (n_sequences, width) or (1, width)
        Probabilities of first states, padded by zeros.
    transitions : ndarray of shape (2, m, width, width)
        Matrices of probabilities, and the transposed ones, padded by zeros.
    which : ndarray of int of shape (n,) or (0,)
        Matrix that leads from each row to the next; if empty, the first does.
    n_states : int
        States without the padding.
    """

    start: np.ndarray
    transitions: np.ndarray
    which: np.ndarray
    n_states: int

    @classmethod
    def of(cls, start, transitions, which=None) -> Matrices:
        """Return padded matrices."""
        K = transitions.shape[-1]
        transitions = transitions.reshape(-1, K, K)
        padded = cls.blank(len(transitions), K)
        padded[0, :, :K, :K] = transitions
        padded[1, :, :K, :K] = np.swapaxes(transitions, 1, 2)
        return cls.of_padded(start, padded, which)

    @staticmethod
    def blank(n: int, K: int) -> np.ndarray:
        """Return zeros for matrices and their transposes, (2, n, width, width)."""
        width = -(-K // 4) * 4
        return np.zeros((2, n, width, width))

    @classmethod
    def of_padded(cls, start, transitions, which=None) -> Matrices:
        """Return matrices that are padded, with probabilities of first states."""
        start = np.atleast_2d(start)
        first = np.zeros((len(start), transitions.shape[-1]))
        first[:, : start.shape[1]] = start
        which = np.empty(0, np.int64) if which is None else which
        return cls(first, transitions, which, start.shape[1])

    def of_sequence(self, i: int, rows: slice) -> Matrices:
        """Return the matrices of one sequence, with these rows."""
        start = self.start[[i if len(self.start) > 1 else 0]]
        return self._replace(start=start, which=self.which[rows])

    @property
    def probabilities(self) -> np.ndarray:
        """Matrices without the padding, (m, K, K)."""
        return self.transitions[0, :, : self.n_states, : self.n_states]

    def logarithms(self):
        """Return logarithms of the probabilities, without the padding."""
        with np.errstate(divide="ignore"):
            start = np.log(self.start[:, : self.n_states])
            return start, np.log(np.ascontiguousarray(self.probabilities))


class Filtered(NamedTuple):
    """Results of a pass forward.

    Attributes
    ----------
    b, a : ndarray of shape (n, width)
        Densities over the largest of a row, and joint probabilities with the states.
    c : ndarray of shape (n,)
        Sums of `a`.
    log_likelihood : ndarray of shape (n_sequences,)
        Log-likelihoods.
    failed : ndarray of bool of shape (n_sequences,)
        Sequences of which all this is not known.
    """

    b: np.ndarray
    a: np.ndarray
    c: np.ndarray
    log_likelihood: np.ndarray
    failed: np.ndarray


class Smoothed(NamedTuple):
    """Probabilities of states given all rows.

    Attributes
    ----------
    gamma : ndarray of shape (n, K)
        Probabilities of the states, times the weights of the sequences.
    log_likelihood : ndarray of shape (n_sequences,)
        Log-likelihoods.
    before, after : ndarray of shape (n, width)
        Expected transitions from row t are ``A * outer(before[t], after[t + 1])``.
    others : dict
        Expected transitions (n_rows - 1, K, K) of sequences for which these products
        are 0, by index of the sequence.
    """

    gamma: np.ndarray
    log_likelihood: np.ndarray
    before: np.ndarray
    after: np.ndarray
    others: dict

    def total_transitions(self, matrices: Matrices) -> np.ndarray:
        """Return expected transitions of all rows together, (K, K)."""
        K = matrices.n_states
        products = self.before[:-1].T @ self.after[1:]
        total = products[:K, :K] * matrices.probabilities[0]
        for pairs in self.others.values():
            total = total + pairs.sum(axis=0)
        return total

    def transitions_of_each(self, matrices: Matrices, offsets) -> np.ndarray:
        """Return expected transitions of each sequence, (n_sequences, K, K)."""
        K = matrices.n_states
        transitions = np.empty((len(offsets) - 1, K, K))
        _kernels("logits").sequence_transitions(
            self.before, self.after, offsets, matrices.transitions, transitions
        )
        for i, pairs in self.others.items():
            transitions[i] = pairs.sum(axis=0)
        return transitions

    def transitions_of_rows(self, matrices: Matrices, offsets) -> np.ndarray:
        """Return expected transitions from each row to the next, (n, K, K)."""
        K = matrices.n_states
        transitions = np.empty((len(self.gamma), K, K))
        _kernels("logits").row_transitions(
            self.before, self.after, matrices.transitions, matrices.which, transitions
        )
        for i, pairs in self.others.items():
            transitions[offsets[i] : offsets[i + 1] - 1] = pairs
        return transitions


@cache
def _kernels(name):
    return import_module(f"{KERNELS}.{name}")


class Room(threading.local):
    """Arrays that a thread uses again in the next pass over sequences.

    The system takes back what is freed of arrays of megabytes, and gives them anew page
    by page: of one sequence of 100,000 rows that is two fifths of a pass.
    """

    def __init__(self):
        self.arrays: dict[str, np.ndarray] = {}

    def array(self, name, shape) -> np.ndarray:
        """Return an array of any values, that of before if it is large enough."""
        size = math.prod(shape)
        if size > budget.MEMORY.kept:
            return np.empty(shape)
        if name not in self.arrays or self.arrays[name].size < size:
            self.arrays[name] = np.empty(size)
        return self.arrays[name][:size].reshape(shape)


def filtered(L, offsets, matrices: Matrices, room: Room | None = None) -> Filtered:
    """Filter sequences, given log-densities of their rows."""
    n, width = len(L), matrices.start.shape[1]
    room = Room() if room is None else room
    result = Filtered(
        room.array("b", (n, width)),
        room.array("a", (n, width)),
        np.empty(n),
        np.empty(len(offsets) - 1),
        np.empty(len(offsets) - 1, dtype=bool),
    )
    start, transitions, which, _ = matrices
    _kernels("scaled").forward(L, offsets, start, transitions, which, *result)
    return result


def smoothed(L, offsets, matrices: Matrices, weights=None, room: Room | None = None):
    """Smooth sequences, given log-densities of their rows.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    matrices : Matrices
        Probabilities of the chain.
    weights : ndarray of shape (n_sequences,) or None, default=None
        Weights of the sequences.
    room : Room or None, default=None
        Arrays for the result, which is then good until the next one; None makes them.

    Returns
    -------
    Smoothed
        Probabilities of the states.
    """
    room = Room() if room is None else room
    forward = filtered(L, offsets, matrices, room)
    gamma = room.array("gamma", L.shape)
    row_weights = np.empty(0) if weights is None else weights
    _kernels("scaled").backward(
        forward.b, forward.a, forward.c, offsets, matrices.transitions, matrices.which,
        row_weights, gamma, forward.failed,
    )  # fmt: skip
    others = {}
    for i, rows, in_logs in in_logarithms(forward.failed, L, offsets, matrices):
        weight = 1.0 if weights is None else weights[i]
        gamma[rows] = weight * in_logs.gamma
        forward.log_likelihood[i] = in_logs.log_likelihood
        others[i] = weight * in_logs.transitions()
    return Smoothed(gamma, forward.log_likelihood, forward.a, forward.b, others)


class ByLogarithms(NamedTuple):
    """Results for one sequence by logarithms.

    Attributes
    ----------
    alpha : ndarray of shape (n, K)
        Logarithms of the filtered probabilities.
    gamma : ndarray of shape (n, K)
        Smoothed probabilities.
    factors : ndarray of shape (n, K)
        As of the kernel ``smooth``.
    log_likelihood : float
        Log-likelihood.
    matrices : Matrices
        Probabilities of the chain.
    """

    alpha: np.ndarray
    gamma: np.ndarray
    factors: np.ndarray
    log_likelihood: float
    matrices: Matrices

    def transitions(self):
        """Return the expected transitions between rows, (n - 1, K, K)."""
        n, K = self.gamma.shape
        pairs = np.empty((n - 1, K, K))
        _, A = self.matrices.logarithms()
        which = self.matrices.which
        step = max(1, budget.MEMORY.kept // K**2)
        for first in range(0, n - 1, step):
            rows = slice(first, min(first + step, n - 1))
            after = slice(rows.start + 1, rows.stop + 1)
            logs = A[which[rows]] if len(which) else A[0]
            total = self.alpha[rows][:, :, None] + logs + self.factors[after][:, None]
            pairs[rows] = np.exp(total)
        return pairs


def by_logarithms(L, matrices: Matrices) -> ByLogarithms:
    """Smooth one sequence by logarithms, which no probability is too small for."""
    start, transitions = matrices.logarithms()
    alpha, gamma, factors = (np.empty(L.shape) for _ in range(3))
    log_likelihood = _kernels("logarithmic").smooth(
        L.copy(), start[0], transitions, matrices.which, alpha, gamma, factors
    )
    return ByLogarithms(alpha, gamma, factors, log_likelihood, matrices)


def in_logarithms(failed, L, offsets, matrices: Matrices):
    """Yield the index, the rows and the results of each sequence that has failed."""
    for i in np.flatnonzero(failed).tolist():
        rows = slice(offsets[i], offsets[i + 1])
        yield i, rows, by_logarithms(L[rows], matrices.of_sequence(i, rows))


def log_likelihoods(L, offsets, matrices: Matrices) -> np.ndarray:
    """Return the log-likelihoods of sequences."""
    forward = filtered(L, offsets, matrices)
    for i, _, in_logs in in_logarithms(forward.failed, L, offsets, matrices):
        forward.log_likelihood[i] = in_logs.log_likelihood
    return forward.log_likelihood


def filtered_probabilities(L, offsets, matrices: Matrices):
    """Return filtered probabilities of the states (n, K), and log-likelihoods."""
    forward = filtered(L, offsets, matrices)
    K = matrices.n_states
    with np.errstate(all="ignore"):  # of sequences that have failed
        probabilities = forward.a[:, :K] / forward.c[:, None]
    for i, rows, in_logs in in_logarithms(forward.failed, L, offsets, matrices):
        probabilities[rows] = np.exp(in_logs.alpha)
        forward.log_likelihood[i] = in_logs.log_likelihood
    return probabilities, forward.log_likelihood


def most_probable(L, offsets, matrices: Matrices):
    """Return the most probable states of sequences, and their joint log-densities."""
    states, ends = best_paths(L, offsets, matrices)
    return states, ends.max(axis=1)


def best_paths(L, offsets, matrices: Matrices, start=None):
    """Return the most probable states, and joint log-densities by the last state.

    Parameters
    ----------
    L : ndarray of shape (n, K)
        Log-densities.
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    matrices : Matrices
        Probabilities of the chain.
    start : ndarray of shape (K,) or None, default=None
        Joint log-densities of what goes before, by the state of the first row, in place
        of the logarithms of its probabilities.

    Returns
    -------
    states : ndarray of int of shape (n,)
        States.
    ends : ndarray of shape (n_sequences, K)
        Joint log-densities.
    """
    n, K = L.shape
    first, transitions = matrices.logarithms()
    first = first if start is None else start[None]
    longest = int(np.diff(offsets).max(initial=0))
    dtype = np.uint8 if K <= STATES_OF_BYTE else np.uint16
    states, ends = np.empty(n, np.int64), np.empty((len(offsets) - 1, K))
    _kernels("logarithmic").viterbi(
        L, offsets, first, transitions, matrices.which, states, ends,
        np.empty((longest, K), dtype),
    )  # fmt: skip
    return states, ends


def drawn_states(L, offsets, matrices: Matrices, seed, rows, n_draws):
    """Draw states of sequences given all rows, (n_draws, n)."""
    forward = filtered(L, offsets, matrices)
    for _, part, in_logs in in_logarithms(forward.failed, L, offsets, matrices):
        forward.a[part, : matrices.n_states] = np.exp(in_logs.alpha)
        forward.a[part, matrices.n_states :] = 0.0
    states = np.empty((n_draws, len(L)), np.int64)
    for m in range(n_draws):
        _kernels("draws").sample_states(
            forward.a, offsets, matrices.transitions, matrices.which, np.uint64(seed),
            rows, m, states[m],
        )  # fmt: skip
    return states
