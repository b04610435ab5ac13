"""Rows grouped by the columns that have been observed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["Pattern", "patterns_of"]


class Pattern(NamedTuple):
    """Rows in which the same columns have been observed.

    Attributes
    ----------
    rows : ndarray of int or slice
        Indices of the rows.
    observed : ndarray of int
        Columns that have been observed.
    missing : ndarray of int
        The others.
    """

    rows: np.ndarray | slice
    observed: np.ndarray
    missing: np.ndarray


def patterns_of(X: np.ndarray) -> Iterator[Pattern]:
    """Yield the groups of rows; rows without any observed value are in none."""
    missing = np.isnan(X)
    n, d = X.shape
    incomplete = np.flatnonzero(missing.any(axis=1))
    nothing = np.empty(0, dtype=np.intp)
    if len(incomplete) < n:
        rows: np.ndarray | slice = slice(None)
        if len(incomplete):
            rows = np.flatnonzero(~missing.any(axis=1))
        yield Pattern(rows, np.arange(d), nothing)
    if not len(incomplete):
        return
    packed = np.packbits(missing[incomplete], axis=1)
    keys = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    order = np.argsort(keys, kind="stable")
    changes = np.flatnonzero(keys[order[1:]] != keys[order[:-1]]) + 1
    for part in np.split(order, changes):
        rows = incomplete[part]
        holes = missing[rows[0]]
        if not holes.all():
            yield Pattern(rows, np.flatnonzero(~holes), np.flatnonzero(holes))
