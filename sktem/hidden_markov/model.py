"""Hidden Markov models of any emission as complete-data models of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.blas_threads import one_blas_thread
from sktem.e_step.row_random import row_keys
from sktem.hidden_markov.chain import Chain
from sktem.hidden_markov.long_sequence import (
    LongSequence,
    long_log_likelihood,
    long_statistics,
)
from sktem.hidden_markov.recursions import Room
from sktem.hidden_markov.rows import ObservedSequences, each_part
from sktem.kernels.blocks import iterate_blocks
from sktem.models.base import LatentModel
from sktem.sequences.rows import each_block, rows_of

__all__ = ["HiddenMarkovParams", "SequenceModel"]


class HiddenMarkovParams(NamedTuple):
    """Parameters of a hidden Markov model.

    Attributes
    ----------
    chain : ChainParams
        Probabilities of first states and of transitions.
    emission : NamedTuple
        Parameters of the emission.
    """

    chain: Any
    emission: Any


@dataclass(frozen=True)
class Visited:
    """Probabilities of the states of sequences that were visited together.

    Attributes
    ----------
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where sequences begin.
    gamma : ndarray of shape (n_rows, K)
        Probabilities of the states, or shares of draws.
    chain : ndarray of shape (n_sequences, n_statistics)
        Statistics of the chain.
    emission : NamedTuple
        Parameters at which what is not observed is expected.
    """

    offsets: np.ndarray
    gamma: np.ndarray
    chain: np.ndarray
    emission: Any


#: What a solver remembers of a sequence: its place among those of a visit.
VISIT = np.dtype([("visited", object), ("place", np.intp)])


class SequenceModel(LatentModel):
    """Complete-data model of sequences with hidden states.

    A row of the loop is a sequence, and its latents are its states. Statistics and
    likelihoods are divided by the mean number of rows of a sequence, so that they are
    per row of the data.

    Parameters
    ----------
    chain : Chain
        The chain of the states.
    emission : Emission
        What is observed given a state.
    start : HiddenMarkovParams
        Where a fit starts.
    rows_per_sequence : float, default=1.0
        Mean number of rows of a sequence.
    emission_of_state : ndarray of int of shape (K,) or None, default=None
        Which emission each state has; None gives each its own.
    fixed_emission : bool, default=False
        Whether the emission is not learned.
    held : tuple of str, default=()
        Fields of the parameters of the emission that are not learned.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    """

    averages_draws = True
    reads_blocks = True

    def __init__(
        self,
        chain: Chain,
        emission,
        start,
        rows_per_sequence=1.0,
        emission_of_state=None,
        fixed_emission=False,
        held=(),
        n_jobs=None,
    ):
        self.chain = chain
        self.emission = emission
        self.start = start
        self.rows_per_sequence = rows_per_sequence
        self.emission_of_state = emission_of_state
        self.fixed_emission = fixed_emission
        self.held = held
        self.n_jobs = n_jobs

    def __getstate__(self):
        """Return the state without the arrays of passes, which belong to a process."""
        return {k: v for k, v in super().__getstate__().items() if k != "_room"}

    def initial_params(self, X, rng):
        """Return the start."""
        return self.start

    # The E-step -----------------------------------------------------------------

    def log_densities(self, X: ObservedSequences, params) -> np.ndarray:
        """Return log-densities of rows in each state, -inf in excluded ones."""
        mask = X.seen()
        L = self.emission.log_density(X.X[mask], params.emission)
        if X.unseen:
            padded = np.zeros((X.n_rows, L.shape[1]))
            padded[mask] = L
            L = padded
        if self.emission_of_state is not None:
            L = L[:, self.emission_of_state]
        if X.labels is not None:
            known = np.flatnonzero(X.labels >= 0)
            others = X.labels[known, None] != self.chain.states_of_hidden
            L[known] = np.where(others, -np.inf, L[known])
        return np.ascontiguousarray(L)

    def by_emission(self, gamma) -> np.ndarray:
        """Return the weights of the rows for each emission."""
        groups = self.emission_of_state
        if groups is None:
            return gamma
        return gamma @ np.eye(int(groups.max()) + 1)[groups]

    def smoothed(self, X, params, weights=None, matrices=None, room=None):
        """Return smoothed probabilities of the states, and the matrices used."""
        if matrices is None:
            matrices = self.chain.matrices(params.chain, X)
        L = self.log_densities(X, params)
        smooth = self.chain.recursions.smoothed
        return smooth(L, X.offsets, matrices, weights, room), matrices

    def expected_statistics(self, X, params, sample_weight=None):
        """Return mean statistics and mean log-likelihood per row."""

        def arguments(part):
            return params, None if sample_weight is None else sample_weight[part]

        if isinstance(X, LongSequence):
            blocks = [long_statistics(self, X, params)]
        else:
            blocks = each_block(X, self._sums, arguments)
        mass = len(X) if sample_weight is None else sample_weight.sum()
        scale = float(mass) * self.rows_per_sequence
        return tuple(_total(terms) / scale for terms in zip(*blocks, strict=True))

    @one_blas_thread
    def _sums(self, X, params, sample_weight):
        """Return sums of statistics and log-likelihoods over sequences."""
        # Those of sequences differ where they continue others or have covariates only.
        is_same = X.entry is None and X.covariates is None
        common = self.chain.matrices(params.chain, X) if is_same else None
        room = self.__dict__.setdefault("_room", Room())

        def sums_of(part, weights):
            rows = X[part]
            smoothed, matrices = self.smoothed(rows, params, weights, common, room)
            return self._of_smoothed(rows, smoothed, matrices, params, weights)

        of_parts = self._each(sums_of, X, sample_weight)
        return tuple(_total(terms) for terms in zip(*of_parts, strict=True))

    def _of_smoothed(self, X, smoothed, matrices, params, weights):
        """Return sums of statistics and log-likelihoods, given smoothed states."""
        chain = self.chain.sums(smoothed, matrices, X, params.chain, weights)
        emission = self._of_emission(X, smoothed.gamma, params.emission)
        values = smoothed.log_likelihood
        total = values.sum() if weights is None else float(weights @ values)
        return np.concatenate([chain, emission]), total

    def _of_emission(self, X, gamma, params):
        """Return sums of the statistics of the emission."""
        mask = X.seen()
        return self.emission.statistics(
            X.X[mask], self.by_emission(gamma[mask]), params
        )

    def _each(self, function, X, sample_weight=None):
        """Return results for parts, in order, by threads where there are several."""
        parts = list(each_part(X))

        def of_part(index, _):
            part = parts[index]
            weights = None if sample_weight is None else sample_weight[part]
            return function(part, weights)

        return list(iterate_blocks(of_part, len(parts), 1, self.n_jobs))

    @one_blas_thread
    def posterior(self, X, params):
        """Return the probabilities of the states of each sequence."""
        visits = np.empty(len(X), dtype=VISIT)
        for part in each_part(X):
            rows = X[part]
            smooth, matrices = self.smoothed(rows, params)
            chain = self.chain.of_each(smooth, matrices, rows, params.chain)
            visits["visited"][part] = Visited(
                rows.offsets, smooth.gamma, chain, params.emission
            )
            visits["place"][part] = np.arange(len(rows))
        return visits

    @one_blas_thread
    def draw_posterior(self, X, params, n_draws, rng):
        """Draw the states of each sequence; return their shares of the draws."""
        seed, keys = row_keys(rng, len(X))
        visits = np.empty(len(X), dtype=VISIT)
        K = self.chain.n_hidden
        for part in each_part(X):
            rows = X[part]
            states = self.chain.recursions.drawn_states(
                self.log_densities(rows, params),
                rows.offsets,
                self.chain.matrices(params.chain, rows),
                seed,
                keys[part],
                n_draws,
            )
            gamma, places = np.zeros((rows.n_rows, K)), np.arange(rows.n_rows)
            for drawn in states:
                gamma[places, drawn] += 1.0 / n_draws
            chain = self.chain.of_draws(states, rows, params.chain)
            visits["visited"][part] = Visited(
                rows.offsets, gamma, chain, params.emission
            )
            visits["place"][part] = np.arange(len(rows))
        return visits

    @one_blas_thread
    def mean_statistics(self, X, Z, sample_weight=None):
        """Average the statistics for given probabilities of the states."""
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        visits, chain = Z["visited"], 0.0
        emissions = np.zeros(len(X), dtype=np.intp)
        gamma = np.empty((X.n_rows, self.chain.n_hidden))
        groups = _groups([id(visited) for visited in visits])
        rows, _ = rows_of(X.offsets, np.concatenate(groups))
        first = 0
        for members in groups:
            visited, chosen = visits[members[0]], Z["place"][members]
            chain = chain + weights[members] @ visited.chain[chosen]
            chances = visited.gamma[rows_of(visited.offsets, chosen)[0]]
            gamma[rows[first : first + len(chances)]] = chances
            first += len(chances)
            emissions[members] = id(visited.emission)
        if sample_weight is not None:
            gamma *= np.repeat(weights, X.lengths)[:, None]
        if not np.isnan(X.X[X.seen()]).any():
            emissions[:] = 0
        # What is missing is expected at the parameters of each visit.
        emission: Any = 0.0
        for members in _groups(emissions):
            some = len(members) < len(X)
            of_members = gamma[rows_of(X.offsets, members)[0]] if some else gamma
            emission = emission + self._of_emission(
                X[members] if some else X, of_members, visits[members[0]].emission
            )
        scale = weights.sum() * self.rows_per_sequence
        return np.concatenate([chain, emission]) / scale

    def log_likelihood(self, X, params):
        """Return the log-likelihood of each sequence, over the rows of a mean one."""
        return self.log_likelihood_of_sequences(X, params) / self.rows_per_sequence

    def log_likelihood_of_sequences(self, X, params) -> np.ndarray:
        """Return the log-likelihood of each sequence."""
        if isinstance(X, LongSequence):
            return np.array([long_log_likelihood(self, X, params)])
        return np.concatenate(each_block(X, self._log_likelihoods, lambda _: (params,)))

    @one_blas_thread
    def _log_likelihoods(self, X, params):
        """Return the log-likelihoods of sequences in memory."""

        def values(part, _):
            rows = X[part]
            matrices = self.chain.matrices(params.chain, rows)
            L = self.log_densities(rows, params)
            return self.chain.recursions.log_likelihoods(L, rows.offsets, matrices)

        return np.concatenate(self._each(values, X) or [np.empty(0)])

    # The M-step -----------------------------------------------------------------

    def maximize(self, s, params):
        """Return the parameters of the statistics."""
        params = self.start if params is None else params
        count = self.chain.n_statistics
        chain = self.chain.maximize(s[:count], params.chain)
        emission = params.emission
        if self.held:
            emission = self.emission.maximize_held(s[count:], emission, self.held)
        elif not self.fixed_emission:
            emission = self.emission.maximize(s[count:], emission)
        return HiddenMarkovParams(chain, emission)

    def project(self, s):
        """Return statistics that sequences can have, and whether these were outside."""
        count = self.chain.n_statistics
        chain, left = self.chain.project(s[:count])
        emission, outside = self.emission.project(s[count:], self.start.emission)
        if not (left or outside):
            return s, False
        return np.concatenate([chain, emission]), True

    def penalty(self, params):
        """Return minus the logarithm of the prior, per row."""
        return self.chain.penalty(params.chain) + self.emission.penalty(params.emission)

    def degeneracies(self, params):
        """Return how many states were floored or kept in the M-step."""
        return self.emission.degeneracies(params.emission)

    def n_parameters(self, params, n_features) -> int:
        """Return the number of free parameters."""
        count = self.chain.n_parameters(params.chain)
        if self.fixed_emission:
            return count
        K = self.chain.n_states
        if self.emission_of_state is not None:
            K = int(self.emission_of_state.max()) + 1
        arguments = K, n_features, params.emission
        count += self.emission.n_parameters(*arguments)
        return count - self.emission.n_held(*arguments, self.held)


def _groups(values):
    """Return the places of equal values, the value that comes first before others.

    Were they sorted, sums over groups would depend on where objects lie in memory.
    """
    numbers: dict[int, int] = {}
    which = np.array([numbers.setdefault(value, len(numbers)) for value in values])
    order = np.argsort(which, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(which[order])) + 1)


def _total(parts):
    """Return a sum, in the order of the parts."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
