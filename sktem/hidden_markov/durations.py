"""Distributions of the numbers of rows that states last."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln
from sklearn.base import BaseEstimator

from sktem.choices import KnownParametersMixin, check_choice, check_number
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.links import DocumentationLinkMixin

__all__ = ["Durations", "durations_of", "warn_of_cut"]

FAMILIES = ("negative_binomial", "poisson", "table")
#: The longest duration, without being asked for: times the mean of geometric durations,
#: but from LEAST_ROWS to MOST_ROWS.
TIMES, LEAST_ROWS, MOST_ROWS = 5.0, 50, 500
#: Bounds of the logarithm of the size and of the log-odds of a negative binomial.
BOUNDS = ((-5.0, 9.0), (-15.0, 15.0))
#: A distribution is cut where its last tenth has more than this.
CUT = 0.02


class Durations(DocumentationLinkMixin, KnownParametersMixin, BaseEstimator):
    """Distributions of the numbers of rows that hidden states last.

    Each state has its own, from 1 to ``longest`` rows: it is cut there and normalised.

    Parameters
    ----------
    family : {"negative_binomial", "poisson", "table"}, default="negative_binomial"
        Distribution of the duration less 1. A negative binomial of size 1 is geometric,
        as of states without explicit durations; "table" has a free probability for each
        number of rows, for which many segments are needed.
    longest : int or "auto", default="auto"
        The longest duration. "auto" is 5 times the longest mean duration of a model
        without explicit durations, from 50 to 500 rows, and at most the rows of the
        longest sequence.
    init : array-like of shape (n_states, longest) or None, default=None
        Probabilities to begin with. Those of a table that are 0 stay 0.

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

    def __init__(self, family="negative_binomial", *, longest="auto", init=None):
        self.family = family
        self.longest = longest
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
        left = stays[stays < 1.0]
        wanted = TIMES / (1.0 - left.max()) if len(left) else LEAST_ROWS
        wanted = min(max(LEAST_ROWS, int(min(wanted, MOST_ROWS))), MOST_ROWS)
        return int(max(1, min(wanted, X.row_counts.max(initial=1))))

    def check(self) -> None:
        """Raise if a setting is out of range."""
        check_choice("family", self.family, FAMILIES)
        if not isinstance(self.longest, str):
            check_number("longest", self.longest, Integral, 1)
        else:
            check_choice("longest", self.longest, ("auto",), " or an integer")

    def maximize(self, counts, before) -> np.ndarray:
        """Return the most likely distributions of expected numbers of segments.

        Parameters
        ----------
        counts : ndarray of shape (n_states, longest)
            Expected numbers of segments by state and duration.
        before : ndarray of shape (n_states, longest)
            Distributions of the last pass, kept where there are no segments.

        Returns
        -------
        ndarray of shape (n_states, longest)
            Probabilities.
        """
        found = np.array(before)
        for k, row in enumerate(counts):
            total = row.sum()
            if not total > np.finfo(np.float64).tiny:
                continue
            share = row / total
            if self.family == "table":
                share = np.where(before[k] > 0, share, 0.0)
                found[k] = share / share.sum() if share.sum() > 0 else before[k]
            elif self.family == "poisson":
                found[k] = _poisson(share)
            else:
                found[k] = _negative_binomial(share, before[k])
        return found

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
    """Return durations, given them, the name of their family or nothing."""
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


def _poisson(share) -> np.ndarray:
    """Return the cut Poisson distribution with the mean of shares, by Newton steps."""
    counts = np.arange(len(share), dtype=float)
    mean = share @ counts
    base = -gammaln(counts + 1.0)
    # The mean of the cut distribution rises from 0 to the longest with log-rates.
    low, high = -30.0, 2.0 * np.log(len(share) + 1.0) + 30.0
    rate = np.log(max(mean, 1e-12))
    for _ in range(200):
        p = _normalised(base + rate * counts)
        error = p @ counts - mean
        low, high = (low, rate) if error > 0 else (rate, high)
        variance = max(p @ counts**2 - (p @ counts) ** 2, 1e-300)
        step = rate - error / variance
        following = step if low < step < high else 0.5 * (low + high)
        if abs(following - rate) < 1e-14 * (1.0 + abs(rate)):
            break
        rate = following
    return p


def _negative_binomial(share, before) -> np.ndarray:
    """Return the cut negative binomial that is the most likely, or the one before."""
    counts = np.arange(len(share), dtype=float)

    def logs(theta):
        size, q = np.exp(theta[0]), -np.log1p(np.exp(-theta[1]))
        return gammaln(counts + size) - gammaln(size) - gammaln(counts + 1) + counts * q

    def loss(theta):
        values = logs(theta)
        p = _normalised(values)
        size, q = np.exp(theta[0]), 1.0 / (1.0 + np.exp(-theta[1]))
        slopes = (size * (digamma(counts + size) - digamma(size)), counts * (1.0 - q))
        value = np.logaddexp.reduce(values) - share @ values
        return value, np.array([(p - share) @ one for one in slopes])

    mean = max(share @ counts, 1e-8)
    spread = share @ counts**2 - mean**2
    size = mean**2 / (spread - mean) if spread > 1.001 * mean else 1000.0 * (1 + mean)
    guess = [np.log(size), np.log(mean / size)]
    guess = [np.clip(x, *bound) for x, bound in zip(guess, BOUNDS, strict=True)]
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 200}
    found = minimize(
        loss, guess, jac=True, method="L-BFGS-B", bounds=BOUNDS, options=options
    )
    p = _normalised(logs(found.x))
    with np.errstate(divide="ignore"):
        gains = np.where(share > 0, np.log(p) - np.log(before), 0.0)
    return p if share @ np.where(share > 0, gains, 0.0) >= 0 else before


def warn_of_cut(params, n_rows) -> None:
    """Warn of distributions that the longest duration cuts."""
    table = params.durations
    D = table.shape[1]
    used = np.diagonal(params.transitions) < 1.0
    beyond = table[:, D - max(1, D // 10) :].sum(axis=1) * used
    states = np.flatnonzero(beyond > CUT)
    if len(states) and n_rows > D:
        warn_user(
            f"State(s) {states.tolist()} often last as long as the longest "
            f"duration, {D} rows: take a longer one by Durations(longest=...).",
            FitWarning,
        )
