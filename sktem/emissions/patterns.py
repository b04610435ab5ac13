"""Rows grouped by the columns that have been observed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Groups", "Pattern", "grouped"]


#: Columns whose pattern is a whole number of float64.
DIGITS = 52


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


class Groups(NamedTuple):
    """Rows by pattern; rows without any observed value are in no group.

    Attributes
    ----------
    large : list of Pattern
        Groups of enough rows.
    rows : ndarray of int
        Rows of the other groups, one group after the other.
    starts : ndarray of int
        Where the groups of ``rows`` begin, and their end.
    """

    large: list[Pattern]
    rows: np.ndarray
    starts: np.ndarray


def grouped(X: np.ndarray, least: int = 1) -> Groups:
    """Return the rows by pattern, those of groups of at least some rows apart."""
    missing = np.isnan(X)
    n, d = X.shape
    keys = _keys(missing)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    edges = np.concatenate([[0], begins, [n]]) if n else np.zeros(1, dtype=np.intp)
    counts = np.diff(edges)
    has_values = ~missing[order[edges[:-1]]].all(axis=1)
    large = []
    for group in np.flatnonzero(has_values & (counts >= least)):
        rows: Any = order[edges[group] : edges[group + 1]]
        absent = missing[rows[0]]
        if len(rows) == n and not absent.any():
            rows = slice(None)
        large.append(Pattern(rows, np.flatnonzero(~absent), np.flatnonzero(absent)))
    few = has_values & (counts < least)
    others = order[np.repeat(few, counts)]
    return Groups(large, others, np.concatenate([[0], np.cumsum(counts[few])]))


def _keys(missing):
    """Return a number, or bytes, for the pattern of each row."""
    d = missing.shape[1]
    if d > DIGITS:
        packed = np.ascontiguousarray(np.packbits(missing, axis=1))
        return packed.view(f"V{packed.shape[1]}").ravel()
    keys = missing.astype(np.float64) @ 2.0 ** np.arange(d)
    # Short numbers are sorted in one pass.
    return keys.astype(np.uint16 if d <= 16 else np.int64)
