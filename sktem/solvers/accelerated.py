"""Common base of accelerated EM: points that are tried, and the safeguard."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.expectation import FullPass
from sktem.solvers.base import Solver

__all__ = ["AcceleratedEM", "Point"]


#: Relative difference of objectives that rounding explains.
ROUNDING = 8 * np.finfo(float).eps


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


@dataclass
class Acceleration:
    """Record of a run.

    Attributes
    ----------
    scale : ndarray of shape (n_statistics,)
        Scale of each statistic, from the first pass.
    best : Point or None
        The last point that was accepted.
    own : object
        What the scheme remembers besides.
    """

    scale: np.ndarray | None = None
    best: Point | None = None
    own: Any = None


class AcceleratedEM(Solver):
    """Base of the schemes that extrapolate EM steps.

    Each iteration is a pass of EM at the current statistics, from which a scheme makes
    the statistics to try next. Where the objective there turns out to be below that of
    the last accepted point, the run continues from the EM step of that point, so that
    the objective of accepted points never falls. Points outside of the feasible set are
    not tried. The result of a run is an EM step from the last accepted point.
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
        rounding = ROUNDING * (1 + abs(value))
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

    @abstractmethod
    def next_point(self, record: Acceleration, point: Point) -> np.ndarray:
        """Return the statistics to try after an accepted point, perhaps its image."""

    @abstractmethod
    def rejected(self, record: Acceleration) -> None:
        """Note that the last point tried is infeasible, or below the one before."""
