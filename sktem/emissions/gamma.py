"""Independent positive columns with gamma distributions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from sktem.emissions.base import (
    bisected,
    check_positive,
    column_masses,
    left_alive,
)
from sktem.emissions.directions import positive_directions
from sktem.emissions.independent import IndependentColumns

__all__ = ["Gamma", "GammaParams"]

#: Bounds of the shapes: values of a state that are all equal have no other.
LEAST_SHAPE, LARGEST_SHAPE = 1e-6, 1e9


class GammaParams(NamedTuple):
    """Parameters of gamma columns.

    Attributes
    ----------
    shapes : ndarray of shape (K, d)
        Shapes.
    scales : ndarray of shape (K, d)
        Scales; the means are shapes times scales.
    degenerate : int
        Number of states that had no data in some column, or a shape at its bound, in
        the last M-step.
    """

    shapes: np.ndarray
    scales: np.ndarray
    degenerate: int = 0


class Gamma(IndependentColumns):
    """Positive columns with gamma distributions, independent given the state.

    See Also
    --------
    Exponential : The special case with shapes of 1.
    LogNormal : Positive columns with longer tails.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Gamma
    >>> X = np.random.default_rng(0).gamma(3.0, 2.0, size=(2000, 1))
    >>> params = Gamma().start(X, np.ones((2000, 1)))
    >>> params.shapes.round(1), params.scales.round(1)
    (array([[3.]]), array([[2.]]))
    """

    params_type = GammaParams
    blank = (1.0, 1.0)
    non_negative = ("shapes", "scales")

    def check(self, X):
        """Raise ValueError for values that are not positive."""
        check_positive(self, X)

    def features(self, X):
        """Return logarithms."""
        return np.log(np.maximum(X, np.finfo(np.float64).tiny))

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        a, scales = params.shapes, params.scales
        observed = ~np.isnan(X)
        values = np.where(observed, X, 0.0)
        logs = np.log(np.where(observed, X, 1.0))
        constants = -(gammaln(a) + a * np.log(scales))
        mask = observed.astype(np.float64)
        return logs @ (a - 1).T - values @ (1 / scales).T + mask @ constants.T

    def statistics(self, X, R, params):
        """Return masses, sums and sums of logarithms by state and column."""
        observed = ~np.isnan(X)
        mass = column_masses(R, observed, X.shape[1])
        sums = R.T @ np.where(observed, X, 0.0)
        logs = R.T @ np.log(np.where(observed, X, 1.0))
        return np.concatenate([mass.ravel(), sums.ravel(), logs.ravel()])

    def maximize(self, s, params):
        """Return shapes and scales."""
        mass, sums, logs = s.reshape(3, *params.shapes.shape)
        alive, degenerate = left_alive(mass)
        divisor = np.where(alive, mass, 1.0)
        means = np.where(alive, sums / divisor, 1.0)
        # log(mean) - mean(log), which is positive.
        gap = np.maximum(np.log(means) - np.where(alive, logs / divisor, -1.0), 0.0)

        def slope(log_shapes):
            shapes = np.exp(log_shapes)
            return log_shapes - digamma(shapes) - gap

        low = np.full(gap.shape, np.log(LEAST_SHAPE))
        high = np.full(gap.shape, np.log(LARGEST_SHAPE))
        shapes = np.exp(bisected(slope, low, high))
        shapes = np.where(alive, shapes, params.shapes)
        scales = np.where(alive, means / shapes, params.scales)
        narrow = (shapes > 0.99 * LARGEST_SHAPE).any(axis=1)
        return GammaParams(shapes, scales, degenerate + int(narrow.sum()))

    def collapses_on(self, params):
        """Return 1: a state of one row has no spread."""
        return 1

    def project(self, s, params=None):
        """Return non-negative masses and sums, and logarithms below those of means."""
        mass, sums, logs = np.split(s, 3)
        inside = mass > 0
        safe = np.where(inside, mass, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = safe * np.log(np.where(inside, sums, 1.0) / safe)
        slack = 1e-9 * (np.abs(s).max(initial=0.0) + 1e-300)
        good = inside & (sums > 0) & (logs <= bound + slack)
        empty = (np.abs(mass) <= slack) & (mass >= 0)
        if (good | empty).all():
            return s, False
        mass = np.maximum(mass, 0.0)
        sums = np.where(sums > 0, sums, mass)
        bound = mass * np.log(
            np.where(mass > 0, sums, 1.0) / np.where(mass > 0, mass, 1.0)
        )
        logs = np.where(mass > 0, np.minimum(logs, bound), 0.0)
        return np.concatenate([mass, sums, logs]), True

    def mean(self, params):
        """Return the means."""
        return params.shapes * params.scales

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        draws = rng.gamma(params.shapes[states], params.scales[states])
        return np.maximum(draws, np.finfo(np.float64).tiny)

    def free_directions(self, params, following, X):
        """Yield the directions of shapes and scales."""
        shapes, bounds = params.shapes, (LEAST_SHAPE, LARGEST_SHAPE)
        narrow = np.sqrt(np.maximum(shapes, 1.0))
        yield from positive_directions("shapes", shapes, shapes / narrow, *bounds)
        yield from positive_directions("scales", params.scales, params.scales / narrow)
