"""Independent columns of counts that vary more than their means."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from sktem.emissions.base import (
    bisected,
    column_masses,
    left_alive,
    zero_filled,
)
from sktem.emissions.directions import FREE, positive_directions
from sktem.emissions.independent import IndependentColumns
from sktem.emissions.poisson import LEAST_RATE, check_counts, functions_of_counts
from sktem.emissions.scarcity import counted_shares

__all__ = ["NegativeBinomial", "NegativeBinomialParams"]

#: Bounds of the sizes: above the last one counts are Poisson's.
LEAST_SIZE, LARGEST_SIZE = 1e-6, 1e7


class NegativeBinomialParams(NamedTuple):
    """Parameters of negative binomial counts.

    Attributes
    ----------
    means : ndarray of shape (K, d)
        Means mu.
    sizes : ndarray of shape (K, d)
        Sizes r: the variances are ``mu + mu^2 / r``.
    degenerate : int
        Number of states that had no data in some column in the last M-step.
    """

    means: np.ndarray
    sizes: np.ndarray
    degenerate: int = 0


class NegativeBinomial(IndependentColumns):
    """Counts with negative binomial distributions, independent given the state.

    See Also
    --------
    Poisson : Counts whose variances are equal to their means.

    Notes
    -----
    The derivative of the log-likelihood in a size r is ``A(r) - log(1 + mu / r)``, with
    the mean A of ``digamma(x + r) - digamma(r)``. The statistics are A and its slope at
    the current size, and the logarithm of that size. For rows visited at different
    sizes, the mean of A is, to first order, its value at their mean. A lies above the
    hyperbola with this value and slope, and below the linear function of ``1 / r`` with
    this value and slope. The M-step replaces A by the former where it has to increase
    r, and by the latter where it has to decrease it. Thus no step decreases the
    likelihood, and the final steps are as fast as Newton's. Where counts vary less than
    their mean, sizes go to 1e7, which is a Poisson distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import NegativeBinomial
    >>> X = np.array([[0.0], [1.0], [0.0], [12.0], [3.0], [2.0]])
    >>> emission, R = NegativeBinomial(), np.ones((6, 1))
    >>> params = emission.start(X, R)
    >>> for _ in range(20):
    ...     params = emission.maximize(emission.statistics(X, R, params), params)
    >>> params.means, params.sizes.round(2)
    (array([[3.]]), array([[0.58]]))
    """

    params_type = NegativeBinomialParams
    blank = (1.0, 1.0)
    non_negative = ("means", "sizes")

    def check(self, X):
        """Raise ValueError for values that are not counts."""
        check_counts(self, X)

    def features(self, X):
        """Return roots, whose spread does not depend on the mean."""
        return np.sqrt(X)

    def start(self, X, R):
        """Return means, and sizes from the variances, of each state."""
        values, observed = zero_filled(X)
        mass = column_masses(R, observed, X.shape[1])
        alive, _ = left_alive(mass)
        divisor = np.where(alive, mass, 1.0)
        pooled = values.sum(axis=0) / np.maximum((~np.isnan(X)).sum(axis=0), 1)
        means = np.where(alive, R.T @ values / divisor, pooled)
        means = np.maximum(means, LEAST_RATE)
        excess = R.T @ values**2 / divisor - means**2 - means
        wide = alive & (excess > 0.01 * means**2)
        sizes = np.where(wide, means**2 / np.where(wide, excess, 1.0), 1.0)
        params = NegativeBinomialParams(means, np.clip(sizes, 0.01, 100.0))
        return self.maximize(self.statistics(X, R, params), params)

    def log_density(self, X, params):
        """Return the log-probability of each row in each state."""
        values, observed = zero_filled(X)
        mask = np.ones(X.shape) if observed is None else observed.astype(np.float64)
        mu, r = params.means, params.sizes
        total = values @ (np.log(mu) - np.log(mu + r)).T
        total = total - mask @ (r * np.log1p(mu / r)).T
        of_values = functions_of_counts(values)
        total -= of_values(lambda x: gammaln(x + 1)).sum(axis=1)[:, None]
        for k, size in enumerate(r):
            total[:, k] += of_values(partial(_log_gamma_rise, r=size)).sum(axis=1)
        return total

    def statistics(self, X, R, params):
        """Return masses, sums, the mean derivative with its slope, and where it is."""
        values, observed = zero_filled(X)
        mass = column_masses(R, observed, X.shape[1])
        K, d = params.means.shape
        rises, slopes = np.zeros((K, d)), np.zeros((K, d))
        of_values, trigamma = functions_of_counts(values), partial(polygamma, 1)
        for k, size in enumerate(params.sizes):
            rises[k] = R[:, k] @ of_values(partial(_rise, digamma, size))
            slopes[k] = -R[:, k] @ of_values(partial(_rise, trigamma, size))
        places = mass * np.log(params.sizes / LEAST_SIZE)
        parts = [mass, R.T @ values, rises, slopes, places]
        return np.concatenate([np.ravel(part) for part in parts])

    def label_shares(self, params):
        """Return the probabilities of counts above zero."""
        sizes = params.sizes
        return [counted_shares(-np.expm1(-sizes * np.log1p(params.means / sizes)))]

    def maximize(self, s, params):
        """Return the means, and sizes that are no less likely than those before."""
        mass, sums, rises, slopes, places = s.reshape(5, *params.means.shape)
        alive, degenerate = left_alive(mass)
        divisor = np.where(alive, mass, 1.0)
        means = np.where(alive, sums / divisor, params.means)
        means = np.maximum(means, LEAST_RATE)
        places = np.where(alive, places / divisor, np.log(params.sizes / LEAST_SIZE))
        r = np.clip(LEAST_SIZE * np.exp(places), LEAST_SIZE, LARGEST_SIZE)
        value = np.maximum(rises / divisor, 1e-300)
        slope = np.maximum(slopes / divisor, 1e-300)
        grows = value >= np.log1p(means / r)
        offset = np.maximum(value / slope - r, 0.0)  # of the hyperbola
        weight = value * (r + offset)
        share = np.minimum(r**2 * slope, r * value)  # of the function of 1 / r
        rest = value - share / r

        def derivative(log_sizes):
            size = np.exp(log_sizes)
            bound = np.where(grows, weight / (size + offset), rest + share / size)
            return bound - np.log1p(means / size)

        low = np.where(grows, np.log(r), np.log(LEAST_SIZE))
        high = np.where(grows, np.log(LARGEST_SIZE), np.log(r))
        sizes = np.where(alive & (sums > 0), np.exp(bisected(derivative, low, high)), r)
        return NegativeBinomialParams(means, sizes, degenerate)

    def mode(self, X, R, params):
        """Return rows with the likeliest count of the likeliest state in holes."""
        mu, r = params.means, params.sizes
        modes = np.floor(np.maximum(mu * (1 - 1 / np.maximum(r, 1.0)), 0.0))
        return np.where(np.isnan(X), modes[R.argmax(axis=1)], X)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        mu, r = params.means[states], params.sizes[states]
        return rng.poisson(rng.gamma(r, mu / r)).astype(np.float64)

    def free_directions(self, params, following, X):
        """Yield the directions of means and sizes; of the latter not where infinite."""
        means, sizes = params.means, params.sizes
        spread = np.minimum(means, np.sqrt(means + means**2 / sizes))
        yield from positive_directions("means", means, spread, FREE.least)
        bounds = LEAST_SIZE, LARGEST_SIZE
        yield from positive_directions("sizes", sizes, None, *bounds)


def _rise(function, r, x):
    """Return by how much a function is larger at ``x + r`` than at ``r``."""
    return function(x + r) - function(r)


def _log_gamma_rise(x, r):
    """Return ``gammaln(x + r) - gammaln(r)``, by Stirling's formula for large r."""
    large = np.maximum(r, 1.0)
    tail = 1 / (12 * (x + large)) - 1 / (12 * large)
    series = (large - 0.5) * np.log1p(x / large) + x * np.log(x + large) - x + tail
    return np.where(r > 1e4, series, gammaln(x + r) - gammaln(r))
