"""Damped Anderson acceleration of EM with restarts, DAAREM."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np

from sktem.choices import check_number
from sktem.solvers.accelerated import AcceleratedEM, Point

__all__ = ["DAAREM"]

#: Damping as published: 1 / (1 + GROWTH ** (HALF - successes)) of the squared length of
#: the coefficients is left.
GROWTH, HALF = 1.2, 25


class Past(NamedTuple):
    """Points of the current cycle, and how often extrapolations have succeeded.

    Attributes
    ----------
    points : tuple of Point
        Accepted points, the last one at the end.
    successes : int
        Extrapolations that were accepted, less those taken off for failures.
    """

    points: tuple[Point, ...] = ()
    successes: int = 0


class DAAREM(AcceleratedEM):
    """EM with damped Anderson acceleration, restarts and a monotone safeguard.

    Let ``dF`` be the differences of the EM steps at the last points and ``dS`` those of
    the points themselves. The next point to try is ``F(s) - (dS + dF) gamma``, where
    gamma minimises ``|F(s) - s - dF gamma|`` with a ridge that shortens it: strongly at
    first, and less and less while extrapolations succeed. After ``order``
    extrapolations a new cycle begins. Expectations have to be exact, and the model
    needs ``log_likelihood``.

    Parameters
    ----------
    order : int, default=10
        Maximum number of differences; never more than half the number of statistics.

    References
    ----------
    N. C. Henderson and R. Varadhan, Damped Anderson acceleration with restarts and
    monotonicity control for accelerating EM and EM-like algorithms, Journal of
    Computational and Graphical Statistics 28, 2019.

    Examples
    --------
    >>> from sktem.solvers import DAAREM
    >>> DAAREM(order=5)
    DAAREM(order=5)
    """

    def __init__(self, order=10):
        self.order = order

    def start(self, state, expectation, params, batch_size):
        """Return an empty record; nothing is visited."""
        check_number("order", self.order, Integral, 1)
        return super().start(state, expectation, params, batch_size)

    def next_point(self, record, point):
        """Return the damped extrapolation from the points of the cycle."""
        past = record.own or Past()
        order = min(self.order, -(-len(point.s) // 2))
        succeeded = len(past.points) > 1
        points = (*past.points, point)
        if len(points) > order + 1:
            points = (point,)
        record.own = past = Past(points, past.successes + succeeded)
        if len(points) < 2:
            return point.image
        steps = np.diff([accepted.s for accepted in points], axis=0)
        changes = np.diff([accepted.residual for accepted in points], axis=0)
        share = 1.0 / (1.0 + GROWTH ** (HALF - past.successes))
        gamma = _damped(changes / record.scale, point.residual / record.scale, share)
        return point.image - gamma @ (steps + changes)

    def rejected(self, record):
        """Begin a new cycle, with more damping."""
        record.own = Past((), max(record.own.successes - self.order, -2 * HALF))


def _damped(changes, residual, share):
    """Return ridge coefficients of a share of the squared length without a ridge."""
    u, d, v = np.linalg.svd(changes, full_matrices=False)
    keep = d > 1e-12 * d.max(initial=0.0)
    if not keep.any():
        return np.zeros(len(changes))
    u, d, projected = u[:, keep], d[keep], v[keep] @ residual

    def coefficients(ridge):
        return d * projected / (d**2 + ridge)

    wanted = share * (coefficients(0.0) ** 2).sum()
    low, high = 1e-16 * d.max() ** 2, 1e16 * d.max() ** 2
    for _ in range(60):
        ridge = np.sqrt(low * high)
        if (coefficients(ridge) ** 2).sum() > wanted:
            low = ridge
        else:
            high = ridge
    return u @ coefficients(ridge)
