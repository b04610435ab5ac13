"""Step sizes gamma_k of the stochastic-approximation step.

A schedule is called with the iteration index ``k = 1, 2, ...`` (a number or an
array) and returns a step in (0, 1].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

__all__ = [
    "BurnInThenDecay",
    "Constant",
    "Linear",
    "LogHarmonic",
    "Polynomial",
    "Schedule",
    "check_schedule",
    "in_phase",
    "steps_from",
]


class Schedule(BaseEstimator, ABC):
    """Base class of step-size schedules."""

    @abstractmethod
    def __call__(self, k):
        """Return the step size of iteration ``k``.

        Parameters
        ----------
        k : float or ndarray
            Iteration index, counted from 1.

        Returns
        -------
        float or ndarray
            Step size in (0, 1].
        """

    def in_phase(self, phase):
        """Return the schedule for a phase of the run, here the same for all.

        Parameters
        ----------
        phase : Phase
            State of the burn-in of the run, see :class:`sktem.loop.state.Phase`.

        Returns
        -------
        Schedule
            A function of the iteration alone.
        """
        return self


class Constant(Schedule):
    """The same step at every iteration.

    Parameters
    ----------
    value : float, default=1.0
        The step in (0, 1]. With 1 the statistics are replaced at every iteration;
        a smaller constant forgets the past geometrically.

    Examples
    --------
    >>> from sktem.schedules import Constant
    >>> Constant(0.1)(5)
    0.1
    """

    def __init__(self, value=1.0):
        self.value = value

    def __call__(self, k):
        """Return the step size of iteration ``k``."""
        if not 0 < self.value <= 1:
            raise ValueError(f"value must be in (0, 1], got {self.value!r}")
        return self.value if np.ndim(k) == 0 else np.full(np.shape(k), self.value)


class Polynomial(Schedule):
    """Steps ``scale * (k + offset) ** -alpha``, never above 1.

    Parameters
    ----------
    alpha : float, default=0.6
        Exponent. In (0.5, 1] the sum of the steps diverges and that of their
        squares converges. Karimi and Li use 0.5.
    offset : float, default=0.0
        Delays the decay; with 0 the first step is ``scale``.
    scale : float, default=1.0
        Factor in front.

    Examples
    --------
    >>> from sktem.schedules import Polynomial
    >>> Polynomial(alpha=0.5)(4)
    0.5
    """

    def __init__(self, alpha=0.6, offset=0.0, scale=1.0):
        self.alpha = alpha
        self.offset = offset
        self.scale = scale

    def __call__(self, k):
        """Return the step size of iteration ``k``."""
        if self.alpha < 0 or self.offset < 0 or self.scale <= 0:
            raise ValueError(
                "alpha and offset must be >= 0 and scale > 0, got "
                f"alpha={self.alpha!r}, offset={self.offset!r}, scale={self.scale!r}"
            )
        step = np.minimum(self.scale * (k + self.offset) ** -float(self.alpha), 1.0)
        return float(step) if np.ndim(k) == 0 else step


class BurnInThenDecay(Schedule):
    """Step 1 for a first part, then ``(k - n_burn_in) ** -alpha``.

    Parameters
    ----------
    n_burn_in : int, default=100
        Number of iterations with step 1, in which the estimates move fast and keep the
        Monte Carlo noise.
    alpha : float, default=0.6
        Exponent of the decay that follows, which averages out the noise.

    Examples
    --------
    >>> from sktem.schedules import BurnInThenDecay
    >>> schedule = BurnInThenDecay(n_burn_in=2, alpha=1.0)
    >>> [schedule(k) for k in (1, 2, 3, 4)]
    [1.0, 1.0, 1.0, 0.5]
    """

    def __init__(self, n_burn_in=100, alpha=0.6):
        self.n_burn_in = n_burn_in
        self.alpha = alpha

    def __call__(self, k):
        """Return the step size of iteration ``k``."""
        if self.n_burn_in < 0 or self.alpha < 0:
            raise ValueError(
                "n_burn_in and alpha must be >= 0, got "
                f"n_burn_in={self.n_burn_in!r}, alpha={self.alpha!r}"
            )
        step = np.maximum(k - self.n_burn_in, 1.0) ** -float(self.alpha)
        return float(step) if np.ndim(k) == 0 else step


class Linear(Schedule):
    """Steps on a straight line from ``start`` to ``stop``, constant afterwards.

    Parameters
    ----------
    start : float, default=1.0
        First step.
    stop : float, default=0.05
        Last step.
    n_iterations : int, default=100
        Iteration at which ``stop`` is reached.

    Examples
    --------
    >>> from sktem.schedules import Linear
    >>> schedule = Linear(start=1.0, stop=0.5, n_iterations=3)
    >>> [schedule(k) for k in (1, 2, 3, 4)]
    [1.0, 0.75, 0.5, 0.5]
    """

    def __init__(self, start=1.0, stop=0.05, n_iterations=100):
        self.start = start
        self.stop = stop
        self.n_iterations = n_iterations

    def __call__(self, k):
        """Return the step size of iteration ``k``."""
        if not (0 < self.start <= 1 and 0 < self.stop <= 1 and self.n_iterations >= 1):
            raise ValueError(
                "start and stop must be in (0, 1] and n_iterations >= 1, got "
                f"start={self.start!r}, stop={self.stop!r}, "
                f"n_iterations={self.n_iterations!r}"
            )
        span = max(self.n_iterations - 1, 1)
        fraction = np.minimum((k - 1) / span, 1.0)
        step = self.start + (self.stop - self.start) * fraction
        return float(step) if np.ndim(k) == 0 else step


class LogHarmonic(Schedule):
    """Steps ``scale / (1 + k log k)``, never above 1.

    These are the steps b_t of the slower of the two pairs in Jang et al. (2016, after
    Theorem 1), ``a_t = 1 / t`` and ``b_t = 1 / (1 + t log t)``. Their other pair is
    ``Polynomial(2 / 3)`` and ``Polynomial(1)``.

    Parameters
    ----------
    scale : float, default=1.0
        Factor in front.

    Examples
    --------
    >>> from sktem.schedules import LogHarmonic
    >>> LogHarmonic()(1)
    1.0
    """

    def __init__(self, scale=1.0):
        self.scale = scale

    def __call__(self, k):
        """Return the step size of iteration ``k``."""
        if not self.scale > 0:
            raise ValueError(f"scale must be > 0, got {self.scale!r}")
        step = np.minimum(self.scale / (1.0 + k * np.log(k)), 1.0)
        return float(step) if np.ndim(k) == 0 else step


def check_schedule(step_size, name: str = "step_size"):
    """Return a schedule for a number, a callable or a schedule.

    Parameters
    ----------
    step_size : float, callable or Schedule
        A number in (0, 1] means a constant step.
    name : str, default="step_size"
        Name of the parameter in errors.

    Returns
    -------
    callable
        Maps the iteration index to a step.

    Raises
    ------
    ValueError
        If the first step is not in (0, 1].
    TypeError
        If it is neither a number nor callable.
    """
    if isinstance(step_size, Real) and not isinstance(step_size, bool):
        if not 0 < float(step_size) <= 1:
            raise ValueError(f"{name} must be in (0, 1], got {step_size!r}")
        step_size = Constant(float(step_size))
    if not callable(step_size):
        raise TypeError(
            f"{name} must be a number in (0, 1], a schedule of sktem.schedules or a "
            f"callable, got {step_size!r}"
        )
    first = step_size(1)
    if not 0 < first <= 1:
        raise ValueError(f"{name} must start in (0, 1], got {first!r} at iteration 1")
    return step_size


def in_phase(step_size, phase):
    """Return the schedule or callable that applies in a phase of the run.

    Parameters
    ----------
    step_size : callable
        Maps the iteration index to a step.
    phase : Phase
        State of the burn-in of the run, see :class:`sktem.loop.state.Phase`.

    Returns
    -------
    callable
        A :class:`Schedule` may depend on the phase; any other callable is the same in
        all phases.
    """
    return step_size.in_phase(phase) if isinstance(step_size, Schedule) else step_size


def steps_from(step_size, first: int, count: int) -> np.ndarray:
    """Return the steps of consecutive iterations.

    Parameters
    ----------
    step_size : callable
        Maps the iteration index to a step. A :class:`Schedule` is called once, with
        an array; any other callable is called with numbers.
    first : int
        Index of the first iteration.
    count : int
        Number of iterations.

    Returns
    -------
    ndarray of shape (count,)
        Step sizes.
    """
    if isinstance(step_size, Constant):
        return np.full(count, step_size(first))
    steps = np.empty(count)
    k = np.arange(first, first + count)
    if isinstance(step_size, Schedule):
        steps[:] = step_size(k)
    else:
        steps[:] = [step_size(number) for number in k.tolist()]
    return steps
