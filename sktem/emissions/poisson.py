"""Independent columns of counts with variances equal to their means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from sktem.emissions.base import (
    check_values,
    left_alive,
    zero_filled,
)
from sktem.emissions.directions import FREE, positive_directions
from sktem.emissions.independent import IndependentColumns
from sktem.emissions.scarcity import counted_shares

__all__ = [
    "Poisson",
    "PoissonParams",
    "check_counts",
    "functions_of_counts",
    "is_no_count",
]

#: Rates are not below, so that no count is impossible.
LEAST_RATE = 1e-10
#: Rows for each count up to the largest, from which functions of counts are tables.
ROWS_PER_COUNT = 4


class PoissonParams(NamedTuple):
    """Parameters of Poisson counts.

    Attributes
    ----------
    rates : ndarray of shape (K, d)
        Means. Given values of 0 stay 0; they are never learned.
    degenerate : int
        Number of states that had no data in some column in the last M-step.
    """

    rates: np.ndarray
    degenerate: int = 0


class Poisson(IndependentColumns):
    """Counts with Poisson distributions, independent given the state.

    Rates are maximum likelihood estimates, at least 1e-10.

    See Also
    --------
    NegativeBinomial : Overdispersed counts.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Poisson
    >>> X = np.array([[0.0, 4.0], [2.0, 6.0], [np.nan, 2.0]])
    >>> Poisson().start(X, np.ones((3, 1))).rates
    array([[1., 4.]])
    """

    params_type = PoissonParams
    blank = (1.0,)
    non_negative = ("rates",)

    def check(self, X):
        """Raise ValueError for values that are not counts."""
        check_counts(self, X)

    def features(self, X):
        """Return roots, whose spread does not depend on the mean."""
        return np.sqrt(X)

    def log_density(self, X, params):
        """Return the log-probability of each row in each state."""
        values, observed = zero_filled(X)
        constants = functions_of_counts(values)(lambda x: gammaln(x + 1)).sum(axis=1)
        never = params.rates == 0
        logs = np.log(np.where(never, 1.0, params.rates))
        total = values @ logs.T - constants[:, None]
        if never.any():
            total[values @ never.T > 0] = -np.inf
        if observed is None:
            return total - params.rates.sum(axis=1)
        return total - observed @ params.rates.T

    def maximize(self, s, params):
        """Return the means."""
        mass, sums = s.reshape(2, *params.rates.shape)
        alive, degenerate = left_alive(mass)
        rates = np.where(alive, sums / np.where(alive, mass, 1.0), params.rates)
        rates = np.where(params.rates > 0, np.maximum(rates, LEAST_RATE), 0.0)
        return PoissonParams(rates, degenerate)

    def n_parameters(self, K, d, params=None):
        """Return the number of rates that are learned."""
        return K * d if params is None else int((params.rates > 0).sum())

    def label_shares(self, params):
        """Return the probabilities of counts above zero."""
        return [counted_shares(-np.expm1(-params.rates))]

    def mode(self, X, R, params):
        """Return rows with the likeliest count of the likeliest state in holes."""
        return np.where(np.isnan(X), np.floor(params.rates)[R.argmax(axis=1)], X)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        return rng.poisson(params.rates[states]).astype(np.float64)

    def free_directions(self, params, following, X):
        """Yield the directions of the rates."""
        yield from positive_directions("rates", params.rates, None, FREE.least)


def is_no_count(X):
    """Return which values are negative or no integers."""
    return (X < 0) | (X != np.floor(X))


def check_counts(emission, X):
    """Raise ValueError for values that are negative or no integers."""
    check_values(emission, X, is_no_count, "counts 0, 1, 2, ...")


def functions_of_counts(values):
    """Return how functions of counts are computed: once for each number, if few.

    A function is called with counts, (n, d) or (m, 1), and broadcasts over columns.
    """
    n, d = values.shape
    most = int(values.max(initial=0.0))
    if ROWS_PER_COUNT * most > n:
        return lambda function: function(values)
    places, numbers = values.astype(np.intp), np.arange(most + 1.0)[:, None]
    columns = np.arange(d)

    def of_values(function):
        return np.broadcast_to(function(numbers), (most + 1, d))[places, columns]

    return of_values
