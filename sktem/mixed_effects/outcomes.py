"""Outcomes that are no measurements: counts, categories and events."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln, log_expit, ndtr, xlog1py, xlogy

from sktem.mixed_effects.residual_errors import ResidualError

__all__ = ["OUTCOMES", "EventOutcome", "OrdinalOutcome", "Outcome"]

#: Least of a parameter.
LEAST = 1e-6


class Outcome(ResidualError):  # noqa: N818, no exception
    """A distribution of observations in place of a residual error.

    Its methods are those of :class:`ResidualError`; the standard deviation is that of
    an observation.
    """

    slots: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    regresses = False

    def log_probability(self, y, f, sigma, least, side):
        """Return NaN: these have no bounds."""
        return np.full(np.shape(f), np.nan)

    def start(self, y, f):
        """Return ones."""
        return np.ones(len(self.slots))

    def weights(self, y, positive):
        """Return ones: weights are not used."""
        return np.ones(len(y))

    def floors(self, y):
        """Return small numbers."""
        return np.full(len(self.slots), LEAST)


def _are_counts(y):
    return (y >= 0) & (y % 1 == 0)


class PoissonOutcome(Outcome):
    """Counts whose mean is the prediction."""

    needs = "whole numbers from 0 on, and a positive model function"

    def standard_deviation(self, f, sigma, least):
        """Return the root of the mean."""
        return np.sqrt(f)

    def log_density(self, y, f, sigma, least):
        """Return the log-probability."""
        return np.where(f >= 0, xlogy(y, f) - f - gammaln(y + 1), np.nan)

    def allows(self, y, f):
        """Return which are counts."""
        return _are_counts(y) & (f > 0)

    def draw(self, f, sigma, least, normal):
        """Return counts."""
        from scipy.stats import poisson

        return poisson.ppf(ndtr(normal), f)


class NegativeBinomialOutcome(PoissonOutcome):
    """Counts whose mean is the prediction f, and whose variance is f + a f^2."""

    slots = names = ("a",)

    def standard_deviation(self, f, sigma, least):
        """Return the root of f + a f^2."""
        return np.sqrt(f + sigma[0] * f**2)

    def log_density(self, y, f, sigma, least):
        """Return the log-probability."""
        size = 1 / sigma[0]
        value = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        value = value - size * np.log1p(f / size) + xlogy(y, f / (f + size))
        return np.where(f >= 0, value, np.nan)

    def draw(self, f, sigma, least, normal):
        """Return counts."""
        from scipy.stats import nbinom

        size = 1 / sigma[0]
        return nbinom.ppf(ndtr(normal), size, size / (size + f))


class BernoulliOutcome(Outcome):
    """Zeros and ones, where the prediction is the probability of a one."""

    needs = "zeros and ones, and a model function that is a probability"

    def standard_deviation(self, f, sigma, least):
        """Return the root of f (1 - f)."""
        return np.sqrt(f * (1 - f))

    def log_density(self, y, f, sigma, least):
        """Return the log-probability."""
        return xlogy(y, f) + xlog1py(1 - y, -f)

    def allows(self, y, f):
        """Return where these are zeros and ones, and probabilities."""
        return np.isin(y, [0, 1]) & (f > 0) & (f < 1)

    def draw(self, f, sigma, least, normal):
        """Return zeros and ones."""
        return (ndtr(normal) > 1 - f) * 1.0


class OrdinalOutcome(Outcome):
    """Categories 0, 1, ..., with proportional odds.

    ``logit P(y >= k) = f - c_k``, where ``c_1 = 0`` and the further ones rise by d2,
    d3, and so on.

    Parameters
    ----------
    n_categories : int
        Number of categories, at least 2.
    """

    has_mean = False

    def __init__(self, n_categories):
        self.n_categories = n_categories
        self.slots = self.names = tuple(f"d{k}" for k in range(2, n_categories))
        self.needs = f"whole numbers from 0 to {n_categories - 1}"

    def _cuts(self, sigma, f):
        """Return the lower bounds of categories, one row for each but the first."""
        rises = [np.broadcast_to(value, np.shape(f)) for value in sigma]
        return np.cumsum(np.stack([np.zeros(np.shape(f)), *rises]), axis=0)

    def standard_deviation(self, f, sigma, least):
        """Return the standard deviation of the number of the category."""
        above = expit(f - self._cuts(sigma, f))
        mean = above.sum(axis=0)
        ranks = 2 * np.arange(1, self.n_categories) - 1
        return np.sqrt(ranks @ above.reshape(len(ranks), -1) - mean.ravel() ** 2)

    def log_density(self, y, f, sigma, least):
        """Return the log-probability."""
        cuts = np.concatenate([
            np.full((1, len(f)), -np.inf), self._cuts(sigma, f),
            np.full((1, len(f)), np.inf),
        ])  # fmt: skip
        chosen = y.astype(np.int64), np.arange(len(f))
        low, high = f - cuts[chosen], f - cuts[chosen[0] + 1, chosen[1]]
        # expit(low) - expit(high), without loss of digits far from zero.
        first = np.where(np.isinf(low), 0.0, log_expit(low))
        second = np.where(np.isinf(high), 0.0, log_expit(-high))
        width = np.where(np.isinf(low) | np.isinf(high), np.inf, low - high)
        return first + second + np.log(-np.expm1(-width))

    def allows(self, y, f):
        """Return which are categories."""
        return _are_counts(y) & (y < self.n_categories)

    def draw(self, f, sigma, least, normal):
        """Return categories."""
        above = expit(f - self._cuts(sigma, f))
        return (ndtr(normal) > 1 - above).sum(axis=0) * 1.0


class EventOutcome(Outcome):
    """Events and ends of observation: the prediction is their density.

    That of :class:`sktem.compartments.Responses`; where nothing is observed it is the
    probability of no event.
    """

    has_mean = False
    needs = "ones (events) and zeros, and hazards of sktem.compartments.Responses"

    def standard_deviation(self, f, sigma, least):
        """Return NaN."""
        return np.full(np.shape(f), np.nan)

    def log_density(self, y, f, sigma, least):
        """Return the logarithm of the prediction."""
        return np.log(f)

    def log_probability(self, y, f, sigma, least, side):
        """Return the logarithm of the prediction, that of an event before."""
        return np.log(f)

    def allows(self, y, f):
        """Return where these are zeros and ones."""
        return np.isin(y, [0, 1]) & (f > 0)

    def draw(self, f, sigma, least, normal):
        """Return whether there is an event up to the record."""
        return (ndtr(normal) > f) * 1.0


#: Outcomes by name.
OUTCOMES: dict[str, Outcome] = {
    "poisson": PoissonOutcome(),
    "negative-binomial": NegativeBinomialOutcome(),
    "bernoulli": BernoulliOutcome(),
    "event": EventOutcome(),
}
