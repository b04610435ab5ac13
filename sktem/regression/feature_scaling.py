"""Features are centred and scaled inside, so that their units do not matter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Scaling"]


class Scaling(NamedTuple):
    """Means and standard deviations of the features, infinite for constant ones."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weights=None):
        """Return the scaling of data."""
        centre = np.average(X, axis=0, weights=weights)
        scale = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
        constant = scale <= 1e-12 * np.abs(centre)
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
