"""Rows of counts that share a total among the columns."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from sktem.choices import check_number
from sktem.emissions.base import (
    Emission,
    left_alive,
    something_observed,
    start_from,
    zero_filled,
)
from sktem.emissions.directions import share_directions
from sktem.emissions.poisson import check_counts
from sktem.emissions.scarcity import counted_shares

__all__ = ["Multinomial", "MultinomialParams"]


class MultinomialParams(NamedTuple):
    """Parameters of multinomial counts.

    Attributes
    ----------
    probabilities : ndarray of shape (K, d)
        Shares of the columns; those that are 0 stay 0.
    n_trials : int
        Total of rows that are drawn.
    degenerate : int
        Number of states that had no data in the last M-step.
    """

    probabilities: np.ndarray
    n_trials: int = 1
    degenerate: int = 0


class Multinomial(Emission):
    """Rows of counts, such as words of a text, with multinomial distributions.

    The total of a row is given; states differ in how it is divided among the columns.
    For a row with holes, the distribution of the observed counts is conditional on
    their own total. Probabilities are maximum likelihood estimates, at least 1e-10.

    Parameters
    ----------
    n_trials : int or None, default=None
        Total of rows that are drawn; None is the rounded mean total in the fit.

    See Also
    --------
    Poisson : Counts whose totals depend on the states as well.
    Categorical : One label per column.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Multinomial
    >>> X = np.array([[1.0, 3.0], [0.0, 4.0], [2.0, 6.0]])
    >>> Multinomial().start(X, np.ones((3, 1))).probabilities
    array([[0.1875, 0.8125]])
    """

    distributions = ("probabilities",)

    def __init__(self, n_trials=None):
        self.n_trials = n_trials

    def check(self, X):
        """Raise ValueError for values that are not counts."""
        if self.n_trials is not None:
            check_number("n_trials of Multinomial", self.n_trials, Integral, 1)
        check_counts(self, X)

    def start(self, X, R):
        """Return the shares of each state."""
        X, R = something_observed(X, R)
        shape, weights = (R.shape[1], X.shape[1]), R.sum(axis=1)
        total = weights @ np.nansum(X, axis=1) / max(weights.sum(), 1e-300)
        n_trials = self.n_trials or max(round(float(total)), 1)
        blank = MultinomialParams(np.full(shape, 1.0 / shape[1]), n_trials)
        return start_from(self, X, R, blank)

    def features(self, X):
        """Return the roots of shares, whose distances do not depend on totals."""
        totals = np.nansum(X, axis=1, keepdims=True)
        return np.sqrt(X / np.maximum(totals, 1.0))

    def log_density(self, X, params):
        """Return the log-probability of each row in each state, given its total."""
        values, observed = zero_filled(X)
        totals = values.sum(axis=1)
        ways = gammaln(totals + 1) - gammaln(values + 1).sum(axis=1)
        possible = params.probabilities > 0
        p = np.where(possible, params.probabilities, 1.0)
        logs = ways[:, None] + values @ np.log(p).T
        if not possible.all():
            logs[values @ ~possible.T > 0] = -np.inf
        if observed is None:
            return logs
        shares = np.maximum(observed @ params.probabilities.T, self._least_probability)
        return logs - totals[:, None] * np.log(shares)

    def _completed(self, X, params, k):
        """Return rows with expected counts in holes, for a state.

        The others of a total that is not known are in proportion to what is.
        """
        values, observed = zero_filled(X)
        if observed is None:
            return values
        p = params.probabilities[k]
        share = observed @ p
        ratio = values.sum(axis=1) / np.where(share > 0, share, 1.0)
        return np.where(observed, values, ratio[:, None] * p)

    def statistics(self, X, R, params):
        """Return sums of counts by state and column."""
        sums = [R[:, k] @ self._completed(X, params, k) for k in range(R.shape[1])]
        return np.concatenate(sums)

    def maximize(self, s, params):
        """Return the shares."""
        sums = s.reshape(params.probabilities.shape)
        mass = sums.sum(axis=1, keepdims=True)
        alive, degenerate = left_alive(mass)
        p = np.where(alive, sums / np.where(alive, mass, 1.0), params.probabilities)
        p = np.maximum(p, self._least_probability)
        p = np.where(params.probabilities > 0, p, 0.0)
        return MultinomialParams(
            p / p.sum(axis=1, keepdims=True), params.n_trials, degenerate
        )

    def shares(self, params):
        """Return the shares of the columns."""
        return [params.probabilities]

    def with_shares(self, params, shares):
        """Return other shares of the columns."""
        return params._replace(probabilities=shares[0])

    def label_shares(self, params):
        """Return the probabilities of counts above zero in a row."""
        none = params.n_trials * np.log1p(-np.minimum(params.probabilities, 1 - 1e-16))
        return [counted_shares(-np.expm1(none))]

    def mean(self, params):
        """Return the mean counts of rows that are drawn."""
        return params.n_trials * params.probabilities

    def expected(self, X, R, params):
        """Return rows with mean counts in holes, given the total of the others."""
        empty = np.isnan(X).all(axis=1, keepdims=True)
        filled = np.where(empty, R @ self.mean(params), 0.0)
        for k in range(R.shape[1]):
            filled += np.where(empty, 0.0, R[:, k : k + 1]) * self._completed(
                X, params, k
            )
        return np.where(np.isnan(X), filled, X)

    def mode(self, X, R, params):
        """Return rows with counts of the likeliest state in holes."""
        filled = self.expected(X, np.eye(R.shape[1])[R.argmax(axis=1)], params)
        return np.where(np.isnan(X), np.floor(filled), X)

    def draw(self, X, states, params, rng):
        """Return rows with draws in holes, given the total of the others."""
        filled = X.copy()
        for k in np.unique(states):
            rows = np.flatnonzero(states == k)
            values, observed = zero_filled(X[rows])
            if observed is None:
                continue
            p, totals = params.probabilities[k], values.sum(axis=1)
            share = observed @ p
            # Totals that are not known: with the density 1 / n this is exact.
            sizes = rng.gamma(np.where(totals > 0, totals, 1e-300))
            sizes = sizes / np.where(share > 0, share, 1.0)
            draws = rng.poisson(sizes[:, None] * p)
            filled[rows] = np.where(observed, values, draws)
        empty = np.isnan(X).all(axis=1)
        filled[empty] = self.sample(params, states[empty], rng)
        return filled

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        p = params.probabilities[states]
        return rng.multinomial(params.n_trials, p).astype(np.float64)

    def free_directions(self, params, following, X):
        """Yield the directions of the shares."""
        for k, p in enumerate(params.probabilities):
            then = following.probabilities[k]
            yield from share_directions("probabilities", p, then, [(k,)], (), k)

    def n_parameters(self, K, d, params=None):
        """Return the number of free shares."""
        if params is None:
            return K * (d - 1)
        return int(((params.probabilities > 0).sum(axis=1) - 1).sum())

    def marginal(self, params, columns):
        """Return the shares of some columns in their own total."""
        p = params.probabilities[:, columns]
        return MultinomialParams(p / p.sum(axis=1, keepdims=True), params.n_trials)

    def condition(self, params, columns, values, others):
        """Raise TypeError: columns depend on each other by their total."""
        raise TypeError(
            "Multinomial has no distribution of some columns given others without "
            "their total"
        )
