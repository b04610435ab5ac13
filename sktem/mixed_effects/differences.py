"""Second differences of log-likelihoods, and their steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["DIFFERENCES", "DifferenceRule", "numerical_hessian"]


class DifferenceRule(NamedTuple):
    """Steps of second differences of log-likelihoods, in units of the parameters.

    Attributes
    ----------
    least : float
        Step, at least.
    coarse : float
        Tolerance of an integration from which no step leaves digits.
    """

    least: float = 1e-3
    coarse: float = 1e-6

    def step(self, structure) -> float:
        """Return the step for a structural model.

        Where steps of an integration change with the parameters, log-likelihoods jump
        by errors of the size of its tolerance: the fourth root of these balances them
        with what the difference leaves out.
        """
        return max(self.least, min(_tolerance(structure), self.coarse) ** 0.25)

    def is_lost(self, structure) -> bool:
        """Return whether jumps are too large for differences."""
        return _tolerance(structure) > self.coarse


#: The steps of every fit.
DIFFERENCES = DifferenceRule()


def _tolerance(structure) -> float:
    """Return the relative error of jumps of predictions, 0 without any."""
    return getattr(structure, "tolerance", 0.0)


def numerical_hessian(function, vector, steps):
    """Return a Hessian by central differences."""
    p = len(vector)
    shifts = np.diag(steps)
    centre = function(vector)
    above = [function(vector + shifts[j]) for j in range(p)]
    below = [function(vector - shifts[j]) for j in range(p)]
    hessian = np.empty((p, p))
    for j in range(p):
        hessian[j, j] = (above[j] - 2 * centre + below[j]) / steps[j] ** 2
        for k in range(j):
            both = function(vector + shifts[j] + shifts[k])
            neither = function(vector - shifts[j] - shifts[k])
            mixed = both + neither - above[j] - above[k] - below[j] - below[k]
            value = (mixed + 2 * centre) / (2 * steps[j] * steps[k])
            hessian[j, k] = hessian[k, j] = value
    return hessian
