"""Independent columns of angles."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import i0e

from sktem.emissions.base import Emission, check_values, column_masses, left_alive
from sktem.emissions.bessel import (
    LARGEST_CONCENTRATION,
    concentration_directions,
    concentration_of,
    directions_are_open,
    mean_length,
)
from sktem.emissions.clusters import centred
from sktem.emissions.directions import Direction
from sktem.emissions.independent import IndependentColumns

__all__ = ["VonMises", "VonMisesParams"]


#: Angles in radians do not go round more often.
MOST_TURNS = 2


class VonMisesParams(NamedTuple):
    """Parameters of angles.

    Attributes
    ----------
    directions : ndarray of shape (K, d)
        Mean angles in radians, between -pi and pi.
    concentrations : ndarray of shape (K, d)
        Concentrations, 0 for the uniform distribution.
    degenerate : int
        Number of states that had no data in some column, or whose angles were all
        equal, in the last M-step.
    """

    directions: np.ndarray
    concentrations: np.ndarray
    degenerate: int = 0


class VonMises(IndependentColumns):
    """Angles in radians with von Mises distributions, independent given the state.

    References
    ----------
    K. V. Mardia and P. E. Jupp, Directional Statistics, Wiley, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import VonMises
    >>> X = np.array([[3.1], [-3.1], [3.0], [-3.0]])
    >>> params = VonMises().start(X, np.ones((4, 1)))
    >>> np.abs(params.directions).round(2)
    array([[3.14]])
    """

    params_type = VonMisesParams
    blank = (0.0, 0.0)
    non_negative = ("concentrations",)
    mean = Emission.mean  # that of angles is none of their values

    def check(self, X):
        """Raise ValueError for values that are degrees rather than radians."""
        check_values(
            self, X, lambda x: np.abs(x) > MOST_TURNS * 2 * math.pi,
            "angles in radians",
            ": pass numpy.deg2rad(X) if these are degrees, else X % (2 * numpy.pi)",
        )  # fmt: skip

    def features(self, X):
        """Return points of the circle."""
        return np.concatenate([np.cos(X), np.sin(X)], axis=1)

    def points(self, X, sample_weight=None):
        """Return points of the circle about their means."""
        return centred(self.features(X), sample_weight)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        c = params.concentrations
        constants = -(math.log(2 * math.pi) + np.log(i0e(c)))
        observed = ~np.isnan(X)
        total = observed.astype(np.float64) @ constants.T
        for k, direction in enumerate(params.directions):
            # cos(a) - 1, without the loss of digits near 0.
            falls = -2 * np.sin((X - direction) / 2) ** 2
            total[:, k] += np.where(observed, falls, 0.0) @ c[k]
        return total

    def statistics(self, X, R, params):
        """Return masses and sums of cosines and sines by state and column."""
        observed = ~np.isnan(X)
        mass = column_masses(R, observed, X.shape[1])
        cosines = R.T @ np.where(observed, np.cos(X), 0.0)
        sines = R.T @ np.where(observed, np.sin(X), 0.0)
        return np.concatenate([mass.ravel(), cosines.ravel(), sines.ravel()])

    def maximize(self, s, params):
        """Return mean angles and concentrations."""
        mass, cosines, sines = s.reshape(3, *params.directions.shape)
        alive, degenerate = left_alive(mass)
        directions = np.where(alive, np.arctan2(sines, cosines), params.directions)
        length = np.hypot(cosines, sines) / np.where(alive, mass, 1.0)
        estimates = concentration_of(2, np.where(alive, length, 0.0))
        concentrations = np.where(alive, estimates, params.concentrations)
        narrow = (concentrations > 0.99 * LARGEST_CONCENTRATION).any(axis=1)
        return VonMisesParams(
            directions, concentrations, degenerate + int(narrow.sum())
        )

    def project(self, s, params=None):
        """Return non-negative masses, and mean directions no longer than 1."""
        mass, cosines, sines = np.split(s, 3)
        length = np.hypot(cosines, sines)
        slack = 1e-9 * np.abs(mass).max(initial=0.0)
        if (mass >= 0).all() and (length <= mass + slack).all():
            return s, False
        mass = np.maximum(mass, 0.0)
        shrink = np.minimum(1.0, mass / np.where(length > 0, length, 1.0))
        return np.concatenate([mass, cosines * shrink, sines * shrink]), True

    def expected(self, X, R, params):
        """Return rows with missing values replaced by the direction of the mean."""
        lengths = mean_length(2, params.concentrations)
        cosines = R @ (lengths * np.cos(params.directions))
        sines = R @ (lengths * np.sin(params.directions))
        return np.where(np.isnan(X), np.arctan2(sines, cosines), X)

    def collapses_on(self, params):
        """Return 1: a state of one row has no spread."""
        return 1

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        return rng.vonmises(params.directions[states], params.concentrations[states])

    def free_directions(self, params, following, X):
        """Yield the directions of mean angles and concentrations.

        A mean angle is not determined if even all rows would leave it a standard error
        of more than half a turn.
        """
        c = params.concentrations
        is_open = directions_are_open(2, c, len(X))
        for index in np.ndindex(c.shape):
            scale = 1.0 / np.sqrt(max(c[index], 1.0))
            slot = ("directions", index[1])
            direction = Direction("directions", ((index, 1.0),), scale, slot, index[0])
            yield direction._replace(is_open=bool(is_open[index]))
        yield from concentration_directions(c)
