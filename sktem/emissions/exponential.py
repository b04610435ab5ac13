"""Independent columns of waiting times without memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.base import (
    check_values,
    left_alive,
    zero_filled,
)
from sktem.emissions.directions import positive_directions
from sktem.emissions.independent import IndependentColumns

__all__ = ["Exponential", "ExponentialParams"]

#: Means are not below, so that no row is impossible.
LEAST_SCALE = 1e-300


class ExponentialParams(NamedTuple):
    """Parameters of exponential columns.

    Attributes
    ----------
    scales : ndarray of shape (K, d)
        Means.
    degenerate : int
        Number of states that had no data in some column in the last M-step.
    """

    scales: np.ndarray
    degenerate: int = 0


class Exponential(IndependentColumns):
    """Non-negative columns with exponential distributions, independent given the state.

    See Also
    --------
    Gamma : The same with a shape parameter.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import Exponential
    >>> X = np.array([[1.0, 4.0], [3.0, np.nan]])
    >>> Exponential().start(X, np.ones((2, 1))).scales
    array([[2., 4.]])
    """

    params_type = ExponentialParams
    blank = (1.0,)

    def check(self, X):
        """Raise ValueError for negative values."""
        check_values(self, X, lambda x: x < 0, "non-negative values")

    def features(self, X):
        """Return logarithms."""
        return np.log(np.maximum(X, np.finfo(np.float64).tiny))

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        values, observed = zero_filled(X)
        mask = np.ones(X.shape) if observed is None else observed.astype(np.float64)
        return -(values @ (1 / params.scales).T + mask @ np.log(params.scales).T)

    def maximize(self, s, params):
        """Return the means."""
        mass, sums = s.reshape(2, *params.scales.shape)
        alive, degenerate = left_alive(mass)
        scales = np.where(alive, sums / np.where(alive, mass, 1.0), params.scales)
        return ExponentialParams(np.maximum(scales, LEAST_SCALE), degenerate)

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        return rng.exponential(params.scales[states])

    def free_directions(self, params, following, X):
        """Yield the directions of the means."""
        yield from positive_directions("scales", params.scales)
