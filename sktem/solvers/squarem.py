"""Squared extrapolation of EM, SQUAREM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.solvers.accelerated import AcceleratedEM, Point

__all__ = ["SQUAREM"]


class LengthRule(NamedTuple):
    """Bounds of the length of extrapolations.

    Attributes
    ----------
    factor : float
        The first bound, and the factor by which it changes.
    patience : int
        Failures one after the other from which on there is one.
    """

    factor: float = 4.0
    patience: int = 4


RULE = LengthRule()


class Cycle(NamedTuple):
    """State of a cycle of three passes.

    Attributes
    ----------
    first : Point or None
        The first point, if an EM step has been done from it.
    extrapolated : bool
        Whether an extrapolation has been tried, after which an EM step is due.
    bounded : bool
        Whether its length had a bound.
    longest : float
        The bound of the next one that has one.
    failures : int
        Extrapolations that have failed since one has succeeded.
    """

    first: Point | None = None
    extrapolated: bool = False
    bounded: bool = False
    longest: float = RULE.factor
    failures: int = 0


class SQUAREM(AcceleratedEM):
    """EM with squared extrapolation (scheme S3) and a monotone safeguard.

    Two EM steps give ``r = F(s) - s`` and ``v = F(F(s)) - F(s) - r``. The statistics to
    try are ``s - 2 alpha r + alpha ** 2 v`` with ``alpha = -|r| / |v|``, at most -1,
    which is EM itself. If their objective is no lower than before, an EM step from
    there begins the next cycle, of three passes; otherwise the cycle counts as two EM
    steps. If EM steps grow, so that a saddle is being left and the distance to go is
    unknown, or after four failures, ``-alpha`` is bounded: by 4 at first, by four times
    as much after a success, and by a quarter after a failure. Expectations have to be
    exact, and the model needs ``log_likelihood``.

    References
    ----------
    R. Varadhan and C. Roland, Simple and globally convergent methods for accelerating
    the convergence of any EM algorithm, Scandinavian Journal of Statistics 35, 2008.

    Examples
    --------
    >>> from sktem.solvers import SQUAREM
    >>> SQUAREM().n_index_sets
    0
    """

    def next_point(self, record, point):
        """Return an EM step, or an extrapolation after two of them."""
        cycle = record.own or Cycle()
        if cycle.extrapolated:
            record.own = Cycle(longest=cycle.longest * RULE.factor**cycle.bounded)
            return point.image
        first = cycle.first
        if first is None:
            record.own = cycle._replace(first=point)
            return point.image
        r, v = first.residual, point.residual - first.residual
        size, change, last = (
            np.linalg.norm(step / record.scale) for step in (r, v, point.residual)
        )
        length = size / change if change > 0 else 1.0
        bounded = bool(last >= size) or cycle.failures >= RULE.patience
        if bounded:
            length = min(length, cycle.longest)
        if length <= 1.0:
            record.own = Cycle(longest=max(cycle.longest, RULE.factor))
            return point.image
        record.own = cycle._replace(first=None, extrapolated=True, bounded=bounded)
        return first.s + 2 * length * r + length**2 * v

    def rejected(self, record):
        """Begin a new cycle, with a lower bound of the length where there is one."""
        cycle = record.own
        longest = max(cycle.longest / RULE.factor**cycle.bounded, 1.0)
        record.own = Cycle(None, False, False, longest, cycle.failures + 1)
