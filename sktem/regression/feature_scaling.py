"""Features are centred and scaled inside, so that their units do not matter."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.rows.checked import share_of
from sktem.rows.held import carrier_of

__all__ = ["Scaling"]


#: Deviation of a constant feature over its mean, at most: a rounding error.
ROUNDING = 1e-14


class Scaling(NamedTuple):
    """Means and standard deviations of the features, infinite for constant ones."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weights=None):
        """Return the scaling of data, an array or rows that are read by blocks."""
        total = len(X) if weights is None else weights.sum()
        rows = carrier_of(X)
        (centre,) = rows.summed(partial(_average, total), weights)
        (squares,) = rows.summed(partial(_average, total, centre=centre), weights)
        scale = np.sqrt(squares)
        if len(large := np.flatnonzero(~np.isfinite(scale))):
            raise ValueError(
                f"X has values whose squares overflow, in columns {large.tolist()}: "
                "divide these columns by their size"
            )
        constant = scale <= ROUNDING * np.abs(centre)
        return cls(centre, np.where(constant, np.inf, scale))

    def apply(self, X):
        """Return scaled features."""
        return (X - self.centre) / self.scale

    def undo(self, coefficients):
        """Turn rows of intercepts and slopes of scaled features into those of X."""
        coefficients = coefficients.copy()
        coefficients[:, 1:] /= self.scale
        coefficients[:, 0] -= coefficients[:, 1:] @ self.centre
        return coefficients


def _average(total, X, weights, centre=None):
    """Return the part of a block in the average of X, or of squares around it."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = X if centre is None else (X - centre) ** 2
        return (share_of(X, weights, total) * np.average(values, 0, weights),)
