"""Targets of supervised estimators whose features are read by blocks."""

from __future__ import annotations

import numpy as np

from sktem.rows.mapped import ColumnRows
from sktem.rows.partitions import DaskRows
from sktem.rows.sources import found_rows

__all__ = ["features_of", "split_target"]


def split_target(source, y):
    """Return the features, the target as an array, and the name of its column.

    ``y`` is array-like, or names a column of the source; the name is else None.
    """
    if not isinstance(y, str):
        return source, y, None
    names = source.names or []
    if y not in names:
        raise ValueError(
            f"y={y!r} must be an array, or name one of the columns of X: {names}"
        )
    target = _columns(source, [y])
    parts = [np.array(block[:, 0]) for _, block in target.blocks()]
    return _without(source, y), np.concatenate(parts) if parts else np.empty(0), y


def features_of(X, target_name):
    """Return X, without the column of the target where rows have it."""
    if target_name is None or hasattr(X, "__next__"):
        return X
    source = found_rows(X)
    if source is None or target_name not in (source.names or []):
        return X
    return _without(source, target_name)


def _without(source, name):
    return _columns(source, [other for other in source.names if other != name])


def _columns(source, names):
    """Return the columns of some names."""
    if isinstance(source, DaskRows):
        return DaskRows(source.collection[names])
    return ColumnRows(source, [source.names.index(name) for name in names])
