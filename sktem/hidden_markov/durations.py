"""Distributions of the numbers of rows that states last."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import digamma, gammaln
from sklearn.base import BaseEstimator

from sktem.choices import KnownParametersMixin, check_choice, check_number
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.links import DocumentationLinkMixin

__all__ = ["Durations", "durations_of", "warn_of_cut"]

FAMILIES = ("negative_binomial", "poisson", "table")
#: Bounds of the logarithm of the size and of the log-odds of a negative binomial.
BOUNDS = ((-5.0, 9.0), (-15.0, 15.0))


class CutRule(NamedTuple):
    """Bounds at which distributions of durations are cut.

    Attributes
    ----------
    times : float
        The longest duration, in means of geometric durations.
    least_rows, most_rows : int
        Bounds of it.
    tail, beyond : float
        A distribution with more than the probability ``beyond`` in this share of its
        longest durations is said to be cut.
    """

    times: float = 5.0
    least_rows: int = 50
    most_rows: int = 500
    tail: float = 0.1
    beyond: float = 0.02


CUT_RULE = CutRule()


class Durations(DocumentationLinkMixin, KnownParametersMixin, BaseEstimator):
    """Distributions of the durations of hidden states, in rows.

    Each state has its own distribution on 1 to ``longest`` rows: it is truncated there
    and normalised.

    Parameters
    ----------
    family : {"negative_binomial", "poisson", "table"}, default="negative_binomial"
        Distribution of the duration less 1. A negative binomial of size 1 is geometric,
        as for states without explicit durations. "table" has a free probability for
        each number of rows, which needs many segments.
    longest : int or "auto", default="auto"
        The longest duration. "auto" is 5 times the longest mean duration in a model
        without explicit durations, but between 50 and 500 rows, and at most the length
        of the longest sequence.
    left_censored : bool, default=False
        Whether the state of the first row of a sequence may have begun earlier, as when
        observation starts at an arbitrary time. The probability that a number of its
        rows remain is then proportional to the probability of durations that are at
        least as long.
    init : array-like of shape (n_states, longest) or None, default=None
        Starting values of the probabilities. Those of a table that are 0 stay 0.

    See Also
    --------
    HiddenMarkovModel : Takes it as ``durations``.

    References
    ----------
    Y. Guedon, Estimating hidden semi-Markov chains from discrete sequences, Journal of
    Computational and Graphical Statistics 12, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import Durations, HiddenMarkovModel
    >>> rng = np.random.default_rng(0)
    >>> states = np.repeat(np.arange(40) % 2, 5 + rng.poisson(3, size=40))
    >>> X = rng.normal(size=(len(states), 1)) + 5.0 * states[:, None]
    >>> durations = Durations("poisson", longest=30)
    >>> hmm = HiddenMarkovModel(2, durations=durations, random_state=0).fit(X)
    >>> hmm.state_durations().mean.round().tolist()
    [8.0, 8.0]
    """

    def __init__(
        self,
        family="negative_binomial",
        *,
        longest="auto",
        left_censored=False,
        init=None,
    ):
        self.family = family
        self.longest = longest
        self.left_censored = left_censored
        self.init = init

    def rows(self, X, stays=None) -> int | None:
        """Return the longest duration for some sequences.

        Parameters
        ----------
        X : ObservedSequences
            The sequences.
        stays : ndarray of shape (n_states,) or None, default=None
            Probabilities of staying, if durations were geometric.

        Returns
        -------
        int or None
            Number of rows, None where it depends on ``stays``.
        """
        if self.longest != "auto":
            return int(self.longest)
        if self.init is not None:
            return np.shape(self.init)[-1]
        if stays is None:
            return None
        left, rule = stays[stays < 1.0], CUT_RULE
        wanted = rule.times / (1.0 - left.max()) if len(left) else rule.least_rows
        wanted = max(rule.least_rows, int(min(wanted, rule.most_rows)))
        return int(max(1, min(wanted, X.row_counts.max(initial=1))))

    def check(self) -> None:
        """Raise if a setting is out of range."""
        check_choice("family", self.family, FAMILIES)
        if not isinstance(self.longest, str):
            check_number("longest", self.longest, Integral, 1)
        else:
            check_choice("longest", self.longest, ("auto",), " or an integer")

    def maximize(self, counts, before, begun_before=None) -> np.ndarray:
        """Return the most likely distributions of expected numbers of segments.

        Parameters
        ----------
        counts : ndarray of shape (n_states, longest)
            Expected numbers of segments by state and duration.
        before : ndarray of shape (n_states, longest)
            Distributions of the last pass, kept where there are no segments.
        begun_before : ndarray of shape (n_states,) or None, default=None
            How many of the segments are those of first rows, if these are met with a
            probability in proportion to their durations.

        Returns
        -------
        ndarray of shape (n_states, longest)
            Probabilities.
        """
        distributions = np.array(before)
        for k, row in enumerate(counts):
            total = row.sum()
            if not total > np.finfo(np.float64).tiny:
                continue
            share, met = row / total, 0.0
            if begun_before is not None:
                met = float(np.clip(begun_before[k] / total, 0.0, 1.0))
            if self.family == "table":
                share = np.where(before[k] > 0, share, 0.0)
                if share.sum() > 0:
                    distributions[k] = _table(share / share.sum(), met)
            elif self.family == "poisson":
                distributions[k] = _poisson(share, met)
            else:
                distributions[k] = _negative_binomial(share, before[k], met)
        return distributions

    def n_parameters(self, table) -> int:
        """Return the number of free parameters of distributions.

        Parameters
        ----------
        table : ndarray of shape (n_states, longest)
            Probabilities.

        Returns
        -------
        int
            The number.
        """
        if self.family == "table":
            return int(((table > 0).sum(axis=1) - 1).sum())
        return len(table) * {"poisson": 1, "negative_binomial": 2}[self.family]


def durations_of(value) -> Durations | None:
    """Return durations, given an instance, the name of a family or None."""
    if value is None:
        return None
    if not isinstance(value, Durations):
        check_choice("durations", value, FAMILIES, " or Durations or None")
        value = Durations(value)
    value.check()
    return value


def _normalised(logs) -> np.ndarray:
    """Return probabilities of their logarithms up to a constant."""
    p = np.exp(logs - logs.max())
    return p / p.sum()


def _table(share, met) -> np.ndarray:
    """Return the most likely probabilities for shares of durations.

    A share ``met`` of them is of segments whose probability is in proportion to their
    duration: with the logarithm of the mean times ``met`` less, probabilities are
    shares over ``1 - met + met * duration / mean``.
    """
    if met == 0.0:
        return share
    rows = 1.0 + np.arange(len(share))

    def excess(rate):
        return (share / (1.0 - met + met * rows * rate)).sum() - 1.0

    rate = 1.0
    if excess(1.0) < 0 < excess(1.0 / len(share)):
        rate = brentq(excess, 1.0 / len(share), 1.0, xtol=1e-15)
    p = share / (1.0 - met + met * rows * rate)
    return p / p.sum()


def _poisson(share, met) -> np.ndarray:
    """Return the most likely cut Poisson distribution, as in `_table`."""
    counts = np.arange(len(share), dtype=float)
    mean = share @ counts
    base = -gammaln(counts + 1.0)

    def error(rate):
        p = _normalised(base + rate * counts)
        now = p @ counts
        variance = p @ (counts - now) ** 2
        return now - mean + met * variance / (1.0 + now)

    # The mean of the cut distribution rises from 0 to the longest with log-rates.
    low, high = -30.0, 2.0 * np.log(len(share) + 1.0) + 30.0
    if error(low) >= 0 or error(high) <= 0:
        return _normalised(base + (low if error(low) >= 0 else high) * counts)
    return _normalised(base + brentq(error, low, high, xtol=1e-14) * counts)


def _negative_binomial(share, before, met) -> np.ndarray:
    """Return the most likely cut negative binomial, as in `_table`, or that before."""
    counts = np.arange(len(share), dtype=float)

    def logs(theta):
        size, q = np.exp(theta[0]), -np.log1p(np.exp(-theta[1]))
        return gammaln(counts + size) - gammaln(size) - gammaln(counts + 1) + counts * q

    def loss(theta):
        values = logs(theta)
        p = _normalised(values)
        size, q = np.exp(theta[0]), 1.0 / (1.0 + np.exp(-theta[1]))
        slopes = (size * (digamma(counts + size) - digamma(size)), counts * (1.0 - q))
        rows = 1.0 + p @ counts
        value = np.logaddexp.reduce(values) - share @ values + met * np.log(rows)
        tilted = p * (1.0 + met * (counts - p @ counts) / rows) - share
        return value, np.array([tilted @ slope for slope in slopes])

    mean = max(share @ counts, 1e-8)
    spread = share @ counts**2 - mean**2
    size = mean**2 / (spread - mean) if spread > 1.001 * mean else 1000.0 * (1 + mean)
    guess = [np.log(size), np.log(mean / size)]
    guess = [np.clip(x, *bound) for x, bound in zip(guess, BOUNDS, strict=True)]
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 200}
    optimum = minimize(
        loss, guess, jac=True, method="L-BFGS-B", bounds=BOUNDS, options=options
    )
    p = _normalised(logs(optimum.x))
    with np.errstate(divide="ignore"):
        gains = np.where(share > 0, np.log(p) - np.log(before), 0.0)
    gain = share @ np.where(share > 0, gains, 0.0)
    gain -= met * (np.log1p(p @ counts) - np.log1p(before @ counts))
    return p if gain >= 0 else before


def warn_of_cut(params, n_rows) -> None:
    """Warn of distributions that the longest duration cuts."""
    table = params.durations
    D = table.shape[1]
    used = np.diagonal(params.transitions) < 1.0
    n_longest = max(1, int(D * CUT_RULE.tail))
    beyond = table[:, D - n_longest :].sum(axis=1) * used
    states = np.flatnonzero(beyond > CUT_RULE.beyond)
    if len(states) and n_rows > D:
        warn_user(
            f"State(s) {states.tolist()} often last as long as the longest "
            f"duration, {D} rows: take a longer one by Durations(longest=...).",
            FitWarning,
        )
