"""Choice of the iterate that a run returns: the last, an average or a random one."""

from __future__ import annotations

from numbers import Integral

import numpy as np

__all__ = ["IterateRule", "check_average", "towards"]


#: The larger, the shorter the tail that "tail" averages over.
TAIL = 3


def check_average(average) -> bool | int | str:
    """Check the parameter ``average``."""
    valid = isinstance(average, (bool, np.bool_)) or (
        isinstance(average, str) and average in ("tail", "random")
    )
    if not valid and not (isinstance(average, Integral) and int(average) >= 0):
        raise ValueError(
            'average must be False, True, "tail", "random" or the number of epochs '
            f"after which averaging begins, got {average!r}"
        )
    return bool(average) if isinstance(average, np.bool_) else average


class IterateRule:
    """Turns the sequence of statistics into the returned statistics.

    Averages are taken over *statistics*; one M-step then gives parameters that satisfy
    every constraint.

    Parameters
    ----------
    average : bool, int, "tail" or "random"
        False: the last iterate. An integer: the average of the iterates after this many
        epochs (True means 1). "tail": a running average in which iterate k enters with
        weight ``4 / (k + 3)``, so that about the last quarter of the iterates counts
        at any time (polynomial-decay averaging, Shamir and Zhang 2013). "random":
        iterate K with ``P(K = k)`` proportional to ``gamma_k``, the random termination
        of the theorems of Karimi and Li.
    """

    def __init__(self, average):
        self.average = average
        self.sum: np.ndarray | None = None
        self.count = 0
        self.total_gamma = 0.0
        self.chosen: np.ndarray | None = None

    def averaging(self, epoch: int) -> bool:
        """Return whether iterates of an epoch enter the average."""
        if self.average == "tail":
            return True
        if self.average is False or isinstance(self.average, str):
            return False
        return epoch >= int(self.average)

    def segment(self, gammas: np.ndarray, rng: np.random.Generator) -> int | None:
        """Decide which of the coming iterates replaces the random choice.

        The decision depends on the steps only, not on the data, so that it can be
        taken before the iterations are run.
        """
        if self.average != "random":
            return None
        totals = self.total_gamma + np.cumsum(gammas)
        self.total_gamma = float(totals[-1])
        taken = np.flatnonzero(rng.random(len(gammas)) * totals < gammas)
        return int(taken[-1]) + 1 if len(taken) else None

    def add(self, s: np.ndarray, count: int = 1) -> None:
        """Add iterates to the average."""
        self.count += count
        if self.sum is None:
            self.sum = s.copy()
        elif self.average == "tail":
            # The sum is count times the running average.
            mean = self.sum / (self.count - 1)
            mean += (TAIL + 1) / (self.count + TAIL) * (s - mean)
            self.sum = mean * self.count
        else:
            self.sum = self.sum + s

    def result(self, last: np.ndarray | None) -> np.ndarray | None:
        """Return the statistics from which the returned parameters follow."""
        if self.chosen is not None:
            return self.chosen
        if self.sum is not None and self.count:
            return self.sum / self.count
        return last


def towards(value, target: np.ndarray, step: float) -> np.ndarray:
    """Return the value after a step towards a target, which is the first value."""
    if value is None or step == 1:
        return target
    return value + step * (target - value)
