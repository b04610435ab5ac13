"""Features are centred and scaled inside, so that their units do not matter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.rows.checked import aligned_blocks, share_of

__all__ = ["Scaling"]


class Scaling(NamedTuple):
    """Means and standard deviations of the features, infinite for constant ones."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weights=None):
        """Return the scaling of data, an array or rows that are read by blocks."""

        def average(function):
            return sum(
                share_of(part, w, X, weights) * np.average(function(part), 0, w)
                for part, w in aligned_blocks(X, weights)
            )

        centre = average(lambda part: part)
        scale = np.sqrt(average(lambda part: (part - centre) ** 2))
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
