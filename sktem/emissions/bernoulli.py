"""Independent binary columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.base import (
    check_values,
    left_alive,
    zero_filled,
)
from sktem.emissions.directions import FREE, positive_directions
from sktem.emissions.independent import IndependentColumns
from sktem.emissions.scarcity import LabelShares

__all__ = ["Bernoulli", "BernoulliParams"]


class BernoulliParams(NamedTuple):
    """Parameters of binary columns.

    Attributes
    ----------
    probabilities : ndarray of shape (K, d)
        Probabilities of a one. Given values of 0 and 1 stay; they are never learned.
    degenerate : int
        Number of states that had no data in some column in the last M-step.
    prior_mass : ndarray of shape (d,) or float
        Weight of the prior in each column, on the scale of the statistics.
    """

    probabilities: np.ndarray
    degenerate: int = 0
    prior_mass: np.ndarray | float = 0.0


class Bernoulli(IndependentColumns):
    """Binary columns that are independent given the state.

    Parameters
    ----------
    smoothing : float, default=0.0
        Strength of a prior towards one half, as a share of the data: the probability of
        a one is ``(s_1 + smoothing * total / 2) / (s + smoothing * total)``, with sums
        ``s`` over the rows. Without smoothing, probabilities are maximum likelihood
        estimates, kept 1e-10 away from 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Bernoulli
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [np.nan, 0.0]])
    >>> Bernoulli().start(X, np.ones((3, 1))).probabilities.round(2)
    array([[0.5 , 0.67]])
    """

    params_type = BernoulliParams
    blank = (0.5,)

    def __init__(self, smoothing=0.0):
        self.smoothing = smoothing

    def check(self, X):
        """Raise ValueError for values other than 0, 1 and NaN."""
        check_values(self, X, lambda x: (x != 0) & (x != 1), "zeros and ones")

    def log_density(self, X, params):
        """Return the log-probability of each row in each state."""
        values, observed = zero_filled(X)
        never, always = _excluded(params.probabilities)
        p = np.where(never | always, 0.5, params.probabilities)
        log_ones = np.where(always, 0.0, np.log(p))
        log_zeros = np.where(never, 0.0, np.log1p(-p))
        logs = values @ (log_ones - log_zeros).T
        if observed is None:
            logs += log_zeros.sum(axis=1)
        else:
            logs += observed @ log_zeros.T
        if never.any() or always.any():
            zeros = (1.0 if observed is None else observed) - values
            logs[values @ never.T + zeros @ always.T > 0] = -np.inf
        return logs

    def label_shares(self, params):
        """Return the probabilities of zeros and ones."""
        (both,) = self.shares(params)
        return [LabelShares(np.arange(both.shape[1]), both)]

    def shares(self, params):
        """Return the probabilities of zeros and ones."""
        ones = params.probabilities
        return [np.stack([1 - ones, ones], axis=2)]

    def with_shares(self, params, shares):
        """Return other probabilities of zeros and ones."""
        return params._replace(probabilities=shares[0][:, :, 1])

    def maximize(self, s, params):
        """Return the shares of ones."""
        mass, ones = s.reshape(2, *params.probabilities.shape)
        alive, degenerate = left_alive(mass)
        prior = self.smoothing * mass.sum(axis=0)
        divisor = np.where(alive, mass + prior, 1.0)
        shares = np.where(alive, (ones + prior / 2) / divisor, params.probabilities)
        shares = np.clip(shares, self._least_probability, 1 - self._least_probability)
        never, always = _excluded(params.probabilities)
        shares = np.where(never | always, params.probabilities, shares)
        return BernoulliParams(shares, degenerate, prior)

    def project(self, s, params=None):
        """Return non-negative masses, and ones between 0 and them."""
        mass, ones = np.split(s, 2)
        slack = 1e-12 * np.abs(mass).max(initial=0.0)
        if (
            (mass >= 0).all()
            and (ones >= -slack).all()
            and (ones <= mass + slack).all()
        ):
            return s, False
        mass = np.maximum(mass, 0.0)
        return np.concatenate([mass, np.clip(ones, 0.0, mass)]), True

    def penalty(self, params):
        """Return minus the log prior of the probabilities."""
        p = params.probabilities
        p = np.where(np.logical_or(*_excluded(p)), 0.5, p)
        return float(-(params.prior_mass / 2 * (np.log(p) + np.log1p(-p))).sum())

    def n_parameters(self, K, d, params=None):
        """Return the number of probabilities that are learned."""
        if params is None:
            return K * d
        return int((~np.logical_or(*_excluded(params.probabilities))).sum())

    def mode(self, X, R, params):
        """Return rows with missing values replaced by the more probable value."""
        return np.where(np.isnan(X), R @ params.probabilities > 0.5, X)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        p = params.probabilities[states]
        return (rng.random(p.shape) < p).astype(np.float64)

    def free_directions(self, params, following, X):
        """Yield the directions of the probabilities."""
        p = params.probabilities
        room = np.minimum(p, 1.0 - p)
        for direction in positive_directions("probabilities", p, room):
            if direction.scale > FREE.least:  # neither 0 nor 1
                yield direction


def _excluded(probabilities):
    """Return where a one, and where a zero, is impossible."""
    return probabilities == 0, probabilities == 1
