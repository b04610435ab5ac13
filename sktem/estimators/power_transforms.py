"""Power transforms of single columns, by which checks of fits recognise skew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import yeojohnson, yeojohnson_llf, yeojohnson_normmax

__all__ = ["SIZES", "PowerTransform"]

#: Largest absolute values between which a power transform can be found.
SIZES = 1e-50, 1e50


class PowerTransform(NamedTuple):
    """The transform of Yeo and Johnson (2000) that makes a column most nearly normal.

    Attributes
    ----------
    power : float
        Its power; 1 leaves the column as it is.
    likelihood : float
        Mean log-density of the column as it is, were it normal after the transform.
    gain : float
        What that is above the one of a normal column.
    """

    power: float
    likelihood: float
    gain: float

    @classmethod
    def of(cls, values, fewest_distinct) -> PowerTransform | None:
        """Return the transform, None for few distinct values or sizes out of range."""
        if len(np.unique(values)) < max(fewest_distinct, 2):
            return None
        least, most = SIZES
        if not least < np.abs(values).max() < most:
            return None
        power = float(yeojohnson_normmax(values))
        as_it_is, best = (yeojohnson_llf(p, values) / len(values) for p in (1.0, power))
        # The function leaves out the constants of the normal density.
        return cls(power, best - 0.5 * (1 + np.log(2 * np.pi)), best - as_it_is)

    def transformed(self, values) -> np.ndarray:
        """Return the values after the transform, not finite where they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return yeojohnson(values, lmbda=self.power)
