"""Contrastive solvers: which expectations, averaged or not, which negative chains."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

__all__ = ["CONTRASTIVE_SOLVERS", "ContrastiveSolver", "StepRule"]


class ContrastiveSolver(BaseEstimator):
    """How a Boltzmann machine is learned.

    Parameters
    ----------
    e_step : {"auto", "mean_field", "hybrid"}
        Expectations under the posterior; "auto" is exact where that is cheap and Gibbs
        elsewhere.
    averages : bool
        Whether posterior statistics are averaged over iterations with the step a_t,
        (7) of Jang et al., or belong to the batch alone.
    persistent : bool
        Whether the chains of the model persist from update to update; otherwise they
        start from the posterior of the batch.
    """

    def __init__(self, e_step="auto", averages=False, persistent=True):
        self.e_step = e_step
        self.averages = averages
        self.persistent = persistent


#: Solvers by the name that the estimator accepts. A solver is added by one line.
CONTRASTIVE_SOLVERS = {
    "apcd": ContrastiveSolver("auto", averages=True, persistent=True),
    "hapcd": ContrastiveSolver("hybrid", averages=True, persistent=True),
    "mfpcd": ContrastiveSolver("mean_field", averages=False, persistent=True),
    "pcd": ContrastiveSolver("auto", averages=False, persistent=True),
    "cd": ContrastiveSolver("auto", averages=False, persistent=False),
}


class StepRule:
    """Step of an update from a number, a pair or a schedule.

    Parameters
    ----------
    step_size : float, pair of float or callable
        A constant; a step that goes linearly from the first epoch of the run to the
        last; or a function of the index of the update, counted from 1, such as a
        schedule.
    name : str
        Its name in errors.
    largest : float
        Bound of the steps.
    """

    def __init__(self, step_size, name, largest):
        if callable(step_size):
            self.schedule, values = step_size, [step_size(1)]
        else:
            is_pair = isinstance(step_size, (tuple, list)) and len(step_size) == 2
            values = list(step_size) if is_pair else [step_size]
            self.schedule = None
            self.start, self.stop = values[0], values[-1]
        for value in values:
            # NumPy's numbers are Reals as well; booleans are, and are not meant.
            right = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
            if not right or not 0 < value <= largest or not np.isfinite(value):
                bounds = f"in (0, {largest:g}]" if np.isfinite(largest) else "positive"
                raise ValueError(
                    f"{name} must be 'auto', a number, a pair of numbers or a schedule,"
                    f" all {bounds} and finite, got {step_size!r}"
                )

    def __call__(self, update, fraction):
        """Return the step."""
        if self.schedule is not None:
            return float(self.schedule(update))
        return float(self.start + (self.stop - self.start) * fraction)
