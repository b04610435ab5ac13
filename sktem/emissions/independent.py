"""Columns that are independent given the state, with separate parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sktem.emissions.base import Emission, column_masses, start_from, zero_filled

__all__ = ["IndependentColumns"]


class IndependentColumns(Emission):
    """Base of emissions whose parameters are those of single columns.

    The fields that the class names come first in its parameters, as arrays of shape (K,
    d). By default the first of them are the means, and statistics are masses and sums.
    """

    #: Type of the parameters.
    params_type: ClassVar[Callable]
    #: Values of the fields where nothing has been observed.
    blank: ClassVar[tuple[float, ...]]

    def start(self, X, R):
        """Return the parameters of all rows, then of each state."""
        shape = R.shape[1], X.shape[1]
        blank = self.params_type(*(np.full(shape, value) for value in self.blank))
        return start_from(self, X, R, blank)

    def statistics(self, X, R, params):
        """Return masses and sums by state and column."""
        values, observed = zero_filled(X)
        mass = column_masses(R, observed, X.shape[1])
        return np.concatenate([mass.ravel(), (R.T @ values).ravel()])

    def mean(self, params):
        """Return the means."""
        return params[0]

    def n_parameters(self, K, d, params=None):
        """Return the number of parameters of all columns."""
        return len(self.blank) * K * d

    def marginal(self, params, columns) -> Any:
        """Return the parameters of some columns."""
        fields = params[: len(self.blank)]
        return self.params_type(*(field[:, columns] for field in fields))
