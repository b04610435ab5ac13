"""Marginals and conditionals of mixtures: the columns and values that users give."""

from __future__ import annotations

import numpy as np

from sktem.emissions.columns import column_indices

__all__ = ["chosen_columns", "given_values"]


def chosen_columns(columns, n_features, names=None) -> np.ndarray:
    """Return indices of columns that are given as ColumnTransformer takes them.

    Raises
    ------
    ValueError
        If a column is unknown or there twice, or there are none.
    """
    columns = list(columns) if isinstance(columns, (range, tuple)) else columns
    indices = column_indices(np.empty((1, n_features)), columns, names)
    if not indices:
        raise ValueError("at least one column must be given")
    if len(set(indices)) < len(indices):
        raise ValueError(f"a column is there twice: {indices}")
    return np.array(indices, dtype=np.intp)


def given_values(columns, values) -> list:
    """Return one value for each column.

    Raises
    ------
    ValueError
        If there are more or fewer values than columns.
    """
    values = values.ravel() if hasattr(values, "ravel") else values
    values = [values] if np.ndim(values) == 0 else list(values)
    if len(values) == 1 and len(columns) > 1 and np.ndim(values[0]) == 1:
        values = list(values[0])  # a table of one row
    if len(values) != len(columns):
        raise ValueError(
            f"there are {len(columns)} columns and {len(values)} values: give one "
            "value for each column"
        )
    return values
