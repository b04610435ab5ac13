"""Answers of a fitted hidden Markov model about sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.base import draw_indices
from sktem.hidden_markov.logit_chain import LogitChain
from sktem.hidden_markov.long_sequence import (
    LongSequence,
    long_paths,
    long_probabilities,
)
from sktem.hidden_markov.model import HiddenMarkovParams, SequenceModel
from sktem.hidden_markov.rows import ObservedSequences, each_part
from sktem.hidden_markov.segment_chain import SegmentParams

__all__ = ["FittedSequences", "Forecast", "StateDurations"]


class Forecast(NamedTuple):
    """States and rows to come.

    Attributes
    ----------
    probabilities : ndarray of shape (n_sequences, steps, n_states)
        Probabilities of the states after each sequence.
    draws : ndarray of shape (n_draws, n_sequences, steps, n_features)
        Rows drawn with states that follow each other.
    """

    probabilities: np.ndarray
    draws: np.ndarray


class StateDurations(NamedTuple):
    """Numbers of rows that states last.

    Attributes
    ----------
    mean : ndarray of shape (n_states,)
        Mean duration; infinite for a state that is never left.
    standard_deviation : ndarray of shape (n_states,)
        Standard deviation.
    probabilities : ndarray of shape (n_states, longest)
        Probability of lasting 1, 2, ... rows.
    """

    mean: np.ndarray
    standard_deviation: np.ndarray
    probabilities: np.ndarray


class FittedSequences(NamedTuple):
    """A model with its parameters.

    Attributes
    ----------
    model : SequenceModel
        The model.
    params : HiddenMarkovParams
        Its parameters.
    """

    model: SequenceModel
    params: HiddenMarkovParams

    @property
    def longest(self) -> int | None:
        """The longest duration, None without durations."""
        has_durations = isinstance(self.params.chain, SegmentParams)
        return self.params.chain.durations.shape[1] if has_durations else None

    @property
    def centre(self) -> np.ndarray | None:
        """Means of the covariates of transitions, None without any."""
        chain = self.model.chain
        return chain.scale.centre if isinstance(chain, LogitChain) else None

    def attributes(self) -> dict:
        """Return the fitted attributes of an estimator that give the parameters."""
        probabilities, K = self.params.chain, self.model.chain.n_states
        centre = np.empty(0) if self.centre is None else self.centre
        slopes = probabilities.slopes if len(centre) else np.empty((K, K, 0))
        attributes = {
            "n_states_": K,
            "start_": probabilities.start,
            "transitions_": probabilities.transitions,
            "emission_params_": self.params.emission,
            "emission_": self.model.emission,
            "transition_coefficients_": slopes,
            "covariates_mean_": centre,
        }
        if self.longest is not None:
            attributes["durations_"] = probabilities.durations
        return attributes

    def _parts(self, X: ObservedSequences):
        """Yield places of rows and of sequences, log-densities, rows and matrices."""
        model, params = self.model, self.params
        for part in each_part(X):
            rows = X[part]
            place = slice(int(X.offsets[part.start]), int(X.offsets[part.stop]))
            L = model.log_densities(rows, params)
            yield place, part, L, rows, model.chain.matrices(params.chain, rows)

    def paths(self, X):
        """Return the most probable states of all rows, and scores of the sequences."""
        states, scores = np.empty(X.n_rows, np.int64), np.empty(len(X))
        for place, part, L, rows, matrices in self._parts(X):
            paths = self.model.chain.recursions.most_probable(L, rows.offsets, matrices)
            states[place], scores[part] = paths
        return self.model.chain.path_of_states(states), scores

    def smooth(self, X):
        """Return the probabilities of the states given all rows of a sequence."""
        chain = self.model.chain
        gamma = np.empty((X.n_rows, chain.n_states))
        for part in each_part(X):
            place = slice(int(X.offsets[part.start]), int(X.offsets[part.stop]))
            smoothed = self.model.smoothed(X[part], self.params)[0]
            gamma[place] = chain.probabilities_of_states(smoothed.gamma)
        return gamma

    def long_paths(self, X: LongSequence):
        """Yield the most probable states of the blocks of a long sequence."""
        return long_paths(self.model, X, self.params)

    def long_smooth(self, X: LongSequence):
        """Yield the probabilities of the states of the blocks of a long sequence."""
        return long_probabilities(self.model, X, self.params)

    def filter(self, X):
        """Return the probabilities of the states given the rows so far."""
        chain = self.model.chain
        probabilities = np.empty((X.n_rows, chain.n_states))
        for place, _, L, rows, matrices in self._parts(X):
            filtered = chain.recursions.filtered_probabilities
            shares = filtered(L, rows.offsets, matrices)[0]
            probabilities[place] = chain.probabilities_of_states(shares)
        return probabilities

    def carried(self, X) -> np.ndarray:
        """Return the filtered state of the last sequence, for its next piece."""
        (_, _, L, rows, matrices), *_ = self._parts(X[[len(X) - 1]])
        return self.model.chain.carried(L, rows, matrices, self.params.chain)[0]

    def forecast(self, X, steps, n_draws, rng, covariates=None, exog=None) -> Forecast:
        """Return probabilities of the states to come, and draws of rows.

        Covariates and regressors have the shape (steps, n_sequences, n_columns).
        """
        if (X.lengths == 0).any():
            raise ValueError("forecast needs sequences with at least one row")
        chain = self.model.chain
        by_step = [None] if covariates is None else covariates
        expanded = [chain.expanded(self.params.chain, values) for values in by_step]
        state, A = expanded[0][2], [step[1] for step in expanded]
        A = A * steps if covariates is None else A
        last = np.concatenate(
            [
                chain.last_rows(L, rows, matrices, self.params.chain)
                for _, _, L, rows, matrices in self._parts(X)
            ]
        )
        of_state = np.eye(chain.n_states)[state]
        emits = np.arange(len(state)) if self.model.emission.memory else state
        probabilities = np.empty((len(X), steps, chain.n_states))
        now = last
        for k in range(steps):
            now = now @ A[k] if A[k].ndim == 2 else np.einsum("si,sij->sj", now, A[k])
            probabilities[:, k] = now @ of_state
        emission = self.model.emission
        draws = np.empty((n_draws, len(X), steps, emission.n_columns(X.X.shape[1])))
        is_lagged = n_draws and (emission.order or exog is not None)
        last_rows = X.X[X.offsets[1:] - 1]
        before = emission.rows_before(last_rows) if is_lagged else None
        for drawn in draws:
            states, past, rows = draw_indices(last, rng), before, []
            for k in range(steps):
                rest = () if A[k].ndim == 2 else (np.arange(len(X)),)
                states = draw_indices(A[k][(*rest, states)], rng)
                if exog is None:
                    y = row = self.rows_of(emits[states], rng, past)
                else:
                    y = self.rows_of(emits[states], rng, past, exog[k])
                    row = emission.with_exog(y, exog[k])
                rows.append(row)
                past = emission.moved_on(past, y, row) if is_lagged else None
            drawn[:] = np.stack(rows, axis=1)
        return Forecast(probabilities, draws)

    def impute(self, X, method, rng) -> np.ndarray:
        """Return rows with missing values replaced by means, modes or draws."""
        model, params = self.model, self.params
        emission = model.emission
        if method == "draw":
            seed = int(rng.integers(2**63))
            states = np.empty(X.n_rows, np.int64)
            for place, part, L, rows, matrices in self._parts(X):
                keys = np.arange(part.start, part.stop)
                draws = model.chain.recursions.drawn_states
                states[place] = draws(L, rows.offsets, matrices, seed, keys, 1)[0]
            groups = model.emission_of_state
            states = states if groups is None else groups[states]
            return emission.draw(X.X, states, params.emission, rng)
        R = model.by_emission(self.smooth(X))
        fill = emission.expected if method == "mean" else emission.mode
        return fill(X.X, R, params.emission)

    def rows_of(self, states, rng, before=None, exog=None):
        """Draw a row for each state, after the rows before it if it depends on them.

        Given regressors these are the responses.
        """
        groups = self.model.emission_of_state
        states = states if groups is None else groups[states]
        if before is not None:
            regressors = () if exog is None else (exog,)
            draw = self.model.emission.sample_after
            return draw(self.params.emission, states, before, rng, *regressors)
        return self.model.emission.sample(self.params.emission, states, rng)

    def sample(self, lengths, rng, covariates=None):
        """Draw sequences of some lengths: rows and states."""
        chain = self.model.chain
        start, A, state = chain.expanded(self.params.chain, covariates)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        states = np.empty(offsets[-1], np.int64)
        limits = A.cumsum(axis=-1)
        limits /= limits[..., -1:]
        uniforms = rng.random(len(states))
        for first, stop in zip(offsets[:-1], offsets[1:], strict=True):
            now = 0
            for t in range(first, stop):
                if t == first:
                    now = int(draw_indices(start[None], rng)[0])
                else:
                    cumulated = (limits if limits.ndim == 2 else limits[t])[now]
                    now = int(np.searchsorted(cumulated, uniforms[t], side="right"))
                states[t] = now
        emitting = states if self.model.emission.memory else state[states]
        rows = self.rows_of(emitting, rng)
        emission = self.model.emission
        if not emission.order:
            return rows, emitting
        for first, stop in zip(offsets[:-1], offsets[1:], strict=True):
            # The first row follows others at the mean of the data.
            centre = self.params.emission.centre[: rows.shape[1]]
            past = np.tile(centre, (1, emission.order, 1))
            for t in range(first, stop):
                rows[t] = y = self.rows_of(emitting[t : t + 1], rng, past)
                past = emission.moved_on(past, y, y)
        return rows, state[states]

    def durations(self, longest) -> StateDurations:
        """Return how long the states last."""
        summary = self.model.chain.duration_table(self.params.chain, longest)
        table, mean, deviation = summary
        return StateDurations(mean, deviation, table)
