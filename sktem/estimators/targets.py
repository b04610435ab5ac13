"""Targets of supervised estimators whose features are read by blocks."""

from __future__ import annotations

import numpy as np

from sktem.rows.sources import found_rows, is_stream

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
    target = source.columns_named([y])
    parts = [np.array(block[:, 0]) for _, block in target.blocks()]
    return _without(source, y), np.concatenate(parts) if parts else np.empty(0), y


def features_of(X, target_name):
    """Return X, without the column of the target where rows have it."""
    if target_name is None or is_stream(X):
        return X
    source = found_rows(X)
    if source is None or target_name not in (source.names or []):
        return X
    return _without(source, target_name)


def _without(source, name):
    return source.columns_named([other for other in source.names if other != name])
