"""Squared extrapolation of EM, SQUAREM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sktem.e_step.expectation import FullPass
from sktem.solvers.base import Solver

__all__ = ["SQUAREM", "Acceleration"]


class ExtrapolationRule(NamedTuple):
    """Bounds of the length of extrapolations, and the test of their objective.

    Attributes
    ----------
    factor : float
        The first bound, and the factor by which it changes.
    patience : int
        Failures one after the other from which on there is one.
    rounding : float
        Relative difference of objectives that rounding explains.
    """

    factor: float = 4.0
    patience: int = 4
    rounding: float = 8 * np.finfo(float).eps


RULE = ExtrapolationRule()


class Point(NamedTuple):
    """Statistics at which a pass was done.

    Attributes
    ----------
    s : ndarray of shape (n_statistics,)
        The statistics.
    image : ndarray of shape (n_statistics,)
        Those of the EM step from there.
    value : float
        Objective of their parameters.
    """

    s: np.ndarray
    image: np.ndarray
    value: float

    @property
    def residual(self) -> np.ndarray:
        """The step of EM."""
        return self.image - self.s


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


@dataclass
class Acceleration:
    """Record of a run.

    Attributes
    ----------
    scale : ndarray of shape (n_statistics,)
        Scale of each statistic, from the first pass.
    best : Point or None
        The last point that was accepted.
    cycle : Cycle
        State of the cycle.
    """

    scale: np.ndarray | None = None
    best: Point | None = None
    cycle: Cycle = Cycle()


class SQUAREM(Solver):
    """EM with squared extrapolation (scheme S3) and a monotone safeguard.

    From two EM steps ``r = F(s) - s`` and ``v = F(F(s)) - F(s) - r`` the statistics
    ``s - 2 alpha r + alpha ** 2 v`` are tried, with ``alpha = -|r| / |v|``, at most -1,
    which is EM itself. If their objective is no lower than before, an EM step from
    there begins the next cycle, of three passes; otherwise the cycle counts as two EM
    steps. Where EM steps grow, so that a saddle is being left and nothing says how far
    to go, and after four failures, ``-alpha`` has a bound: at first 4, four times as
    much after a success, and a quarter after a failure. Expectations have to be exact,
    and the model needs ``log_likelihood``.

    Where the objective at a point is below that of the last accepted one, the run
    continues from the EM step of that, so that the objective of accepted points never
    falls. Points outside of the feasible set are not tried. The result of a run is an
    EM step from the last accepted point.

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

    n_index_sets = 0
    remembers_rows = False
    is_monotone = False

    def start(self, state, expectation, params, batch_size):
        """Return an empty record; nothing is visited."""
        model = expectation.model
        lacks = not callable(getattr(model, "log_likelihood", None))
        if lacks and not expectation.fused:
            raise TypeError(
                f"{type(self).__name__} compares likelihoods: give "
                f"{type(model).__name__} the method log_likelihood, or take "
                'solver="em"'
            )
        if not expectation.sampler.deterministic:
            raise ValueError(
                f'{type(self).__name__} needs exact expectations (sampler="exact"), '
                f"got {expectation.sampler!r}"
            )
        return Acceleration()

    def proxy(self, state, expectation, batches, params):
        """Return the statistics to try next."""
        record, model, s = state.own, expectation.model, state.s
        image = expectation.full_pass(params, state.iteration)
        done = expectation.full_pass_done
        if done is None:
            value = expectation.log_likelihood(params)
            done = expectation.full_pass_done = FullPass(image, value, params)
        if s is None:
            return image
        if record.scale is None:
            size = np.abs(s) + np.abs(image - s)
            record.scale = np.where(size > 0, size, 1.0)
        value = done.log_likelihood - model.penalty(params)
        rounding = RULE.rounding * (1 + abs(value))
        if record.best is not None and not value >= record.best.value - rounding:
            self.rejected(record)
            return record.best.image
        record.best = Point(s, image, value)
        tried = self.next_point(record, record.best)
        if tried is image:
            return image
        if not np.isfinite(tried).all() or model.project(tried)[1]:
            self.rejected(record)
            return image
        return tried

    def settled(self, state):
        """Return the EM step from the last accepted point."""
        best = None if state.own is None else state.own.best
        return state.s if best is None else best.image

    def next_point(self, record, point):
        """Return an EM step, or an extrapolation after two of them."""
        cycle = record.cycle
        if cycle.extrapolated:
            record.cycle = Cycle(longest=cycle.longest * RULE.factor**cycle.bounded)
            return point.image
        first = cycle.first
        if first is None:
            record.cycle = cycle._replace(first=point)
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
            record.cycle = Cycle(longest=max(cycle.longest, RULE.factor))
            return point.image
        record.cycle = cycle._replace(first=None, extrapolated=True, bounded=bounded)
        return first.s + 2 * length * r + length**2 * v

    def rejected(self, record):
        """Begin a new cycle, with a lower bound of the length where there is one."""
        cycle = record.cycle
        longest = max(cycle.longest / RULE.factor**cycle.bounded, 1.0)
        record.cycle = Cycle(None, False, False, longest, cycle.failures + 1)
