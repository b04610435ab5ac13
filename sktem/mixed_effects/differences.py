"""Steps of differences of log-likelihoods."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DIFFERENCES", "DifferenceRule"]


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
