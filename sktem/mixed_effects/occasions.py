"""Occasions within subjects: their column, and their order in each subject."""

from __future__ import annotations

import numpy as np

from sktem.choices import check_names
from sktem.mixed_effects.columns import listed
from sktem.mixed_effects.design import Occasions
from sktem.sequences.labels import column_of

__all__ = ["matched", "numbered", "occasions_of"]


def occasions_of(estimator, columns, names, title):
    """Return the column of the occasions and their effects, or None and None."""
    if estimator.occasions is None:
        return None, None
    occasions = estimator.occasions
    if not isinstance(occasions, dict) or len(occasions) != 1:
        raise ValueError(
            "occasions must be a dict with one column of X and the parameters that "
            f'vary between its values, such as {{"OCC": ["CL"]}}, got {occasions!r}'
        )
    if columns.n_occasions is None:
        raise ValueError("occasions need X in memory")
    ((key, parameters),) = occasions.items()
    column = column_of(key, columns.names, columns.n_columns, "occasions")
    groups = listed(parameters) if isinstance(parameters, str) else list(parameters)
    groups = [list(listed(group)) for group in groups]
    parameters = [name for group in groups for name in group]
    blocks = tuple(b for b, group in enumerate(groups) for _ in group)
    check_names("occasions", parameters, names, "parameters")
    if not parameters:
        raise ValueError("occasions must name a parameter that varies between them")
    places = tuple(names.index(name) for name in parameters)
    if len(set(places)) < len(places):
        raise ValueError(f"occasions name a parameter twice: {parameters}")
    count = columns.n_occasions(column)
    return column, Occasions(places, count, title(column), blocks)


def numbered(values, subjects):
    """Return the index of each row's occasion in its subject, and labels by subject.

    Occasions are in the order of their first rows; the labels have the shape
    (n_subjects, n_occasions), NaN for those that a subject does not have.
    """
    pairs = np.column_stack([subjects, values])
    distinct, first, inverse = np.unique(
        pairs, axis=0, return_index=True, return_inverse=True
    )
    order = np.lexsort((first, distinct[:, 0]))
    owners = distinct[order, 0].astype(np.int64)
    begins = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    ranks = np.arange(len(order)) - np.repeat(
        begins, np.diff(np.r_[begins, len(order)])
    )
    labels = np.full((int(subjects.max()) + 1, int(ranks.max()) + 1), np.nan)
    labels[owners, ranks] = distinct[order, 1]
    rank_of_pair = np.empty(len(order), dtype=np.int64)
    rank_of_pair[order] = ranks
    return rank_of_pair[inverse.ravel()], labels


def matched(values, subjects, labels):
    """Return indices of occasions by labels of known subjects, -1 for unknown ones."""
    indices = np.full(len(values), -1, dtype=np.int64)
    known = subjects >= 0
    same = labels[subjects[known]] == values[known, None]
    indices[known] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
    return indices
