"""Rows that are directions: vectors of length 1."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import vonmises_fisher

from sktem.emissions.base import Emission, left_alive, something_observed
from sktem.emissions.bessel import (
    LARGEST_CONCENTRATION,
    concentration_directions,
    concentration_of,
    directions_are_open,
    log_bessel_ratio,
    mean_length,
)
from sktem.emissions.directions import Direction, moved_fields

__all__ = ["VonMisesFisher", "VonMisesFisherParams"]

#: Squared lengths may differ from 1 by this much.
LENGTH_ERROR = 1e-4


class VonMisesFisherParams(NamedTuple):
    """Parameters of directions.

    Attributes
    ----------
    directions : ndarray of shape (K, d)
        Mean directions, of length 1 except for the distribution of some columns.
    concentrations : ndarray of shape (K,)
        Concentrations, 0 for the uniform distribution.
    n_hidden : int
        Number of columns left out by :meth:`VonMisesFisher.marginal`.
    degenerate : int
        Number of states without data, or whose rows were all equal, in the last M-step.
    """

    directions: np.ndarray
    concentrations: np.ndarray
    n_hidden: int = 0
    degenerate: int = 0


class VonMisesFisher(Emission):
    """Rows of length 1 with von Mises-Fisher distributions.

    For a row with holes, the density of its observed part is used, with respect to the
    volume of the observed columns; the missing part has the remaining length.

    References
    ----------
    A. Banerjee, I. S. Dhillon, J. Ghosh and S. Sra, Clustering on the unit hypersphere
    using von Mises-Fisher distributions, JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.emissions import VonMisesFisher
    >>> X = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.8, -0.6, 0.0]])
    >>> VonMisesFisher().start(X, np.ones((3, 1))).directions
    array([[1., 0., 0.]])
    """

    non_negative = ("concentrations",)

    def check(self, X):
        """Raise ValueError for rows that are not of length 1."""
        squares = np.nansum(X**2, axis=1)
        whole = ~np.isnan(X).any(axis=1)
        wrong = (squares > 1 + LENGTH_ERROR) | (whole & (squares < 1 - LENGTH_ERROR))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                "VonMisesFisher takes rows of length 1: divide each row by its length; "
                f"row {row} has length {math.sqrt(squares[row]):g}"
            )

    def start(self, X, R):
        """Return mean directions and concentrations of each state."""
        K, d = R.shape[1], X.shape[1]
        if d < 2:
            raise ValueError("VonMisesFisher needs at least two columns")
        first = np.zeros((K, d))
        first[:, 0] = 1.0
        params = VonMisesFisherParams(first, np.zeros(K))
        pooled = np.repeat(R.sum(axis=1, keepdims=True) / K, K, axis=1)
        params = self.maximize(self.statistics(X, pooled, params), params)
        return self.maximize(self.statistics(X, R, params), params)

    def log_density(self, X, params):
        """Return the log-density of each row in each state."""
        observed = ~np.isnan(X)
        c, d = params.concentrations, X.shape[1] + params.n_hidden
        values = c * (np.where(observed, X, 0.0) @ params.directions.T)
        log_constants = -(
            d / 2 * math.log(2 * math.pi) + log_bessel_ratio(d / 2 - 1, c)
        )
        values += log_constants
        hidden, reach, radii = self._hidden(X, observed, params)
        for m in np.unique(hidden[hidden > 0]):
            rows = np.flatnonzero((hidden == m) & observed.any(axis=1))
            r = radii[rows, None]
            logs = log_bessel_ratio(m / 2 - 1, c * reach[rows] * r)
            logs = logs + m / 2 * math.log(2 * math.pi)
            values[rows] += logs + (m - 2) * np.log(np.maximum(r, 1e-150))
        values[~observed.any(axis=1)] = 0.0
        return values

    def _hidden(self, X, observed, params):
        """Return missing columns, the mean's length in them, and the row's."""
        hidden = (~observed).sum(axis=1) + params.n_hidden
        inside = observed.astype(np.float64) @ (params.directions**2).T
        reach = np.sqrt(np.maximum(1 - inside, 0.0))
        squares = np.where(observed, X, 0.0) ** 2
        return hidden, reach, np.sqrt(np.maximum(1 - squares.sum(axis=1), 0.0))

    def _completed(self, X, params, k):
        """Return rows with missing values replaced by their means in a state."""
        observed = ~np.isnan(X)
        if observed.all():
            return X
        hidden, reach, radii = self._hidden(X, observed, params)
        lengths = np.zeros(len(X))
        for m in np.unique(hidden[hidden > 0]):
            rows = hidden == m
            inner = params.concentrations[k] * reach[rows, k] * radii[rows]
            lengths[rows] = mean_length(m, inner) if m > 1 else np.tanh(inner)
        towards = lengths * radii / np.where(reach[:, k] > 0, reach[:, k], 1.0)
        return np.where(observed, X, towards[:, None] * params.directions[k])

    def statistics(self, X, R, params):
        """Return masses and expected sums of the rows by state."""
        X, R = something_observed(np.asarray(X, dtype=np.float64), R)
        sums = [R[:, k] @ self._completed(X, params, k) for k in range(R.shape[1])]
        return np.concatenate([R.sum(axis=0), np.ravel(sums)])

    def maximize(self, s, params):
        """Return mean directions and concentrations."""
        K, d = params.directions.shape
        mass, sums = s[:K], s[K:].reshape(K, d)
        alive, degenerate = left_alive(mass)
        length = np.sqrt((sums**2).sum(axis=1))
        turned = alive & (length > 0)
        directions = sums / np.where(turned, length, 1.0)[:, None]
        directions = np.where(turned[:, None], directions, params.directions)
        estimates = concentration_of(
            d, np.where(alive, length / np.where(alive, mass, 1), 0)
        )
        concentrations = np.where(alive, estimates, params.concentrations)
        narrow = int((concentrations > 0.99 * LARGEST_CONCENTRATION).sum())
        return VonMisesFisherParams(
            directions, concentrations, params.n_hidden, degenerate + narrow
        )

    def project(self, s, params=None):
        """Return non-negative masses, and mean directions no longer than 1."""
        if params is None:
            raise ValueError("statistics of VonMisesFisher are projected given params")
        K, d = params.directions.shape
        mass, sums = s[:K], s[K:].reshape(K, d)
        length = np.sqrt((sums**2).sum(axis=1))
        slack = 1e-9 * np.abs(mass).max(initial=0.0)
        if (mass >= 0).all() and (length <= mass + slack).all():
            return s, False
        mass = np.maximum(mass, 0.0)
        shrink = np.minimum(1.0, mass / np.where(length > 0, length, 1.0))
        return np.concatenate([mass, (sums * shrink[:, None]).ravel()]), True

    def expected(self, X, R, params):
        """Return rows with missing values replaced by their means.

        Their length is below 1, like that of any average of directions.
        """
        total = 0.0
        for k in range(R.shape[1]):
            total = total + R[:, k, None] * self._completed(X, params, k)
        return np.where(np.isnan(X), total, X)

    def draw(self, X, states, params, rng):
        """Return rows with missing values replaced by draws."""
        filled = np.array(X, dtype=np.float64)
        observed = ~np.isnan(filled)
        hidden, reach, radii = self._hidden(filled, observed, params)
        for row in np.flatnonzero(~observed.all(axis=1)):
            k, holes = states[row], np.flatnonzero(~observed[row])
            mean = params.directions[k, holes]
            inner = params.concentrations[k] * reach[row, k] * radii[row]
            size = np.sqrt((mean**2).sum())
            unit = mean / size if size > 0 else np.eye(len(holes))[0]
            if len(holes) == 1:
                up = rng.random() < 1 / (1 + np.exp(-2 * inner))
                direction = unit if up else -unit
            else:
                direction = _draw_direction(unit, inner, 1, rng)[0]
            filled[row, holes] = radii[row] * direction
        return filled

    def collapses_on(self, params):
        """Return 1: a state of one row has no spread."""
        return 1

    def sample(self, params, states, rng):
        """Draw a row for each of the given states."""
        X = np.empty((len(states), params.directions.shape[1]))
        for k in np.unique(states):
            rows = np.flatnonzero(states == k)
            direction, c = params.directions[k], params.concentrations[k]
            X[rows] = _draw_direction(direction, c, len(rows), rng)
        return X

    def free_directions(self, params, following, X):
        """Yield directions across the mean ones, and those of concentrations."""
        c, d = params.concentrations, params.directions.shape[1]
        is_open = directions_are_open(d, c, len(X))
        for k, direction in enumerate(params.directions):
            scale = 1.0 / np.sqrt(max(c[k], 1.0))
            across = np.linalg.svd(direction[None])[2][1:]
            for a, way in enumerate(across):
                entries = tuple(((k, i), float(step)) for i, step in enumerate(way))
                tangent = Direction("directions", entries, scale, ("across", a), k)
                yield tangent._replace(is_open=bool(is_open[k]))
        yield from concentration_directions(c)

    def moved(self, params, moves):
        """Return parameters moved along directions; mean directions keep length 1."""
        moved = moved_fields(params, moves)
        lengths = np.linalg.norm(moved.directions, axis=1, keepdims=True)
        return moved._replace(directions=moved.directions / lengths)

    def n_parameters(self, K, d, params=None):
        """Return the number of free directions and concentrations."""
        return K * d

    def condition(self, params, columns, values, others):
        """Return the marginal; given values, which leave a smaller sphere, raise."""
        if len(columns):
            raise TypeError(
                "VonMisesFisher has no conditional distribution of its own kind: given "
                "some columns, the others lie on a smaller sphere"
            )
        return super().condition(params, columns, values, others)

    def marginal(self, params, columns):
        """Return the parameters of some columns."""
        left = params.directions.shape[1] - len(columns)
        return VonMisesFisherParams(
            params.directions[:, columns],
            params.concentrations,
            params.n_hidden + left,
        )


def _draw_direction(unit, concentration, n, rng):
    """Draw directions."""
    if concentration < 1e-8:
        draws = rng.standard_normal((n, len(unit)))
        return draws / np.sqrt((draws**2).sum(axis=1, keepdims=True))
    return vonmises_fisher(unit, concentration).rvs(n, random_state=rng)
