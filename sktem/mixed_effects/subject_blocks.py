"""Subjects whose rows are read by blocks: their columns, fits and predictions."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.columns import is_constant
from sktem.mixed_effects.layout import group_rows
from sktem.mixed_effects.rows import GroupedRows
from sktem.rows.base import Rows
from sktem.rows.checked import checked_blocks
from sktem.sequences.blocks import (
    Roles,
    SequenceBlocks,
    coded,
    place_of,
    sequence_blocks,
    with_codes,
)
from sktem.sequences.labels import known_codes

__all__ = ["SubjectRoles", "predicted_blocks", "subject_blocks"]


class SubjectRoles(Roles):
    """Columns of rows.

    Attributes
    ----------
    y, groups : int
        Columns of the observations and of the labels of the subjects.
    features : ndarray of int
        The others.
    layout : Layout or None
        How these are used.
    """

    noun = "subject"

    def __init__(self, y, groups, features, layout=None):
        self.y = y
        self.groups = groups
        self.features = features
        self.layout = layout

    def summary(self, block):
        """Return labels, numbers of rows, first rows, and which columns vary."""
        labels, first, index, lengths = np.unique(
            block[:, self.groups],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        X = block[:, self.features]
        varies = np.array([not is_constant(column, index) for column in X.T], bool)
        return labels, lengths, np.array(X[first], dtype=np.float64), varies

    def grouped(self, block) -> GroupedRows:
        """Return the subjects of a block of rows."""
        index = np.unique(block[:, self.groups], return_inverse=True)[1]
        X = np.ascontiguousarray(block[:, self.features], dtype=np.float64)
        y = np.array(block[:, self.y], dtype=np.float64)
        return group_rows(self.layout, X, y, index)

    def gathered(self, extras):
        """Return which columns vary, and the covariates where there is a layout."""
        varies = np.any([varies for _, varies in extras], axis=0)
        values = {"varies": varies, "events": None, "censored": None, "kinds": None}
        if self.layout is not None:
            first = np.concatenate([rows for rows, _ in extras])
            chosen = first[:, self.layout.subject_columns]
            values["covariates"] = np.column_stack([np.ones(len(first)), chosen])
        return values

    def laid_out(self, layout) -> SubjectRoles:
        """Return the same columns used in this way."""
        return SubjectRoles(self.y, self.groups, self.features, layout)


class Features(NamedTuple):
    """Number and names of the columns of features."""

    n_columns: int
    names: list[str] | None


def subject_blocks(source: Rows, y, groups, check) -> SequenceBlocks:
    """Return the subjects of rows.

    Parameters
    ----------
    source : Rows
        The rows.
    y, groups : str or int
        Names or indices of the columns of the observations and of the subjects.
    check : callable
        Notes or checks number and names of the other columns.

    Returns
    -------
    SequenceBlocks
        The subjects.
    """
    places = [place_of(source, y, "y"), place_of(source, groups, "groups")]
    if places[0] == places[1]:
        raise ValueError(f"y and groups are the same column of X: {y!r}")
    source = with_codes(source, places[1])
    features = [j for j in range(source.n_columns) if j not in places]
    names = source.names
    names = None if names is None else [names[j] for j in features]
    check(Features(len(features), names))
    roles = SubjectRoles(places[0], places[1], np.array(features))
    return sequence_blocks(source, roles)


def predicted_blocks(fitted, source: Rows, groups, check):
    """Return predictions of rows by blocks: an iterator, or a Dask array.

    Parameters
    ----------
    fitted : FittedMixedEffects
        The fit.
    source : Rows
        The rows. Columns with names may include others than those of the fit.
    groups : str, int or None
        Name or index of the column of the subjects.
    check : callable
        Checks number and names of the other columns.
    """
    place = None if groups is None else place_of(source, groups, "groups")
    labels, names = None, fitted.problem.layout.names
    if place is not None and fitted.problem.labels.dtype.kind not in "biuf":
        labels = np.array([*fitted.problem.labels.tolist(), None], dtype=object)
        source = coded(source, place, partial(known_codes, labels[:-1]))
    if names is not None and source.names is not None:
        names = [name for name in names if name in source.names]
        features = [source.names.index(name) for name in names]
    else:
        names = None
        features = [j for j in range(source.n_columns) if j != place]
    check(Features(len(features), names))
    if place is not None:
        fitted.modes()  # once, before copies go to workers
    function = partial(_predicted, fitted, features, place, labels)
    if source.is_remote:
        return source.answers(function)
    return map(function, checked_blocks(source, source.n_columns))


def _predicted(fitted, features, place, labels, block):
    X = np.ascontiguousarray(block[:, features], dtype=np.float64)
    if place is None:
        return fitted.predict(X, None)
    groups = block[:, place]
    return fitted.predict(
        X, groups if labels is None else labels[groups.astype(np.int64)]
    )
