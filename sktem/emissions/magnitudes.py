"""Values that are too large for squares of them."""

from __future__ import annotations

import numpy as np

from sktem.emissions.wording import ColumnError
from sktem.rows.held import carrier_of

__all__ = ["check_magnitude"]

#: Squares of larger values, summed over the rows, do not fit into a float64.
LARGEST_VALUE = 1e150


def check_magnitude(X, names=None) -> None:
    """Refuse values whose squares overflow: a covariance could not hold them."""
    if carrier_of(X).holds_tensors:
        if float(np.finfo(X.dtype).max) < LARGEST_VALUE:
            return
        largest = X.largest_sizes()
    elif (
        X.itemsize < 8 or max(X.max(initial=0.0), -X.min(initial=0.0)) <= LARGEST_VALUE
    ):
        return
    else:
        sizes = np.fmax.reduce(np.abs(X), axis=0)  # of what is not NaN
        largest = np.where(np.isnan(sizes), 0.0, sizes)
    column = int(largest.argmax())
    if largest[column] > LARGEST_VALUE:
        error = ColumnError(
            "X has values whose squares overflow: in column {columns} the largest is "
            f"{largest[column]:g} in absolute value, more than {LARGEST_VALUE:g}. "
            "Divide the column by a constant.",
            [column],
        )
        raise error.named(names)
