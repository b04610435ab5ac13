"""Labels of the rows that belong together, and the column that holds them."""

from __future__ import annotations

from numbers import Integral, Number

import numpy as np

from sktem.choices import did_you_mean

__all__ = [
    "LabelCodes",
    "are_of_one_kind",
    "codes_in_partition",
    "column_of",
    "is_missing",
    "known_codes",
    "labelled",
]


def column_of(key, names, n_columns, what):
    """Return the position of a column given by name or index."""
    if isinstance(key, Integral) and not isinstance(key, bool):
        if not 0 <= int(key) < n_columns:
            raise ValueError(f"{what}: X has {n_columns} columns, got {key!r}")
        return int(key)
    if names is None or key not in names:
        known = "numbers (X has no column names)" if names is None else list(names)
        raise ValueError(
            f"{what} must name columns of X: {known}, got {key!r}"
            f"{did_you_mean(key, names or ())}"
        )
    return list(names).index(key)


def labelled(groups, n_rows):
    """Return the distinct labels, sorted, and the index of each row's label."""
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"groups must have one label per row, shape ({n_rows},), got {labels.shape}"
        )
    missing = is_missing(labels)
    if missing.any():
        raise ValueError(
            f"groups has no label in {missing.sum()} of {n_rows} rows (None or NaN): "
            "leave these rows out, or give them a label"
        )
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "the labels of groups must be of one type, such as all strings or all "
            "integers"
        ) from error


def is_missing(labels):
    """Return which labels are missing."""
    if labels.dtype.kind in "biuSU":
        return np.zeros(len(labels), dtype=bool)
    if labels.dtype.kind in "fmM":
        return labels != labels
    return np.array([_is_none(label) for label in labels.tolist()], dtype=bool)


def _is_none(label):
    """Return whether a label is None or differs from itself, as NaN, NaT and NA do."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA is neither equal nor different
        return True


class LabelCodes:
    """Numbers in place of labels that are no numbers, in the order of their first rows.

    Attributes
    ----------
    codes : dict
        Numbers of the labels that have been read.
    are_numbers : bool or None
        Whether labels are numbers and stay as they are; None before the first.
    """

    def __init__(self):
        self.codes: dict = {}
        self.are_numbers: bool | None = None

    def __call__(self, labels):
        """Return numbers for the labels of some rows."""
        labels = np.asarray(labels)
        if self.are_numbers is None and len(labels):
            self.are_numbers = _are_numbers(labels)
        if self.are_numbers or not len(labels):
            return labels
        unique_labels, index = labelled(labels, len(labels))
        unique_labels, first = (
            unique_labels.tolist(),
            np.unique(index, return_index=True)[1],
        )
        for k in np.argsort(first):
            self.codes.setdefault(unique_labels[k], len(self.codes))
        return np.array([self.codes[label] for label in unique_labels], dtype=float)[
            index
        ]

    def labels_of(self, codes):
        """Return the labels of coded numbers."""
        if not self.codes:
            return codes
        return np.array([*self.codes])[codes.astype(np.int64)]


def codes_in_partition(labels):
    """Return the ranks of the labels of a partition, which has whole groups."""
    return labelled(labels, len(labels))[1].astype(np.float64)


def known_codes(known, labels):
    """Return the places of labels among known ones, -1 for others."""
    place = {label: float(k) for k, label in enumerate(known.tolist())}
    return np.array([place.get(label, -1.0) for label in np.asarray(labels).tolist()])


def are_of_one_kind(one, other) -> bool:
    """Return whether labels are numbers in both cases, or in none: "3" is not 3."""
    return _are_numbers(np.asarray(one)) == _are_numbers(np.asarray(other))


def _are_numbers(labels):
    if labels.dtype.kind in "biuf":
        return True
    return all(isinstance(label, Number) for label in labels.tolist())
