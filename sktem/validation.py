"""scikit-learn's check of X, with a message that names columns which hold text."""

from __future__ import annotations

import inspect

import numpy as np
from sklearn.utils import validation

__all__ = ["validate_data"]


def text_columns(X):
    """Return the names of the columns of a data frame that are not numbers."""
    if not (hasattr(X, "columns") and hasattr(X, "__getitem__")):
        return []
    found = []
    for name in X.columns:
        column = X[name]
        if getattr(column, "ndim", 1) != 1:  # two columns of one name
            continue
        values = np.asarray(column)
        if values.dtype.kind not in "OUSM":
            continue
        try:
            values.astype(np.float64)
        except (TypeError, ValueError):
            found.append(name)
    return found


def validate_data(estimator, X="no_validation", *args, **kwargs):
    """Call scikit-learn's function of this name, after a look at the columns of X."""
    if found := text_columns(X):
        grouped = "groups" in inspect.signature(estimator.fit).parameters
        advice = ", or pass the labels of subjects as groups" if grouped else ""
        raise ValueError(
            f"The columns {found} of X do not hold numbers: leave them out or encode "
            f"them{advice}."
        )
    return validation.validate_data(estimator, X, *args, **kwargs)
