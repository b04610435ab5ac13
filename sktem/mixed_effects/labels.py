"""Labels of subjects that are read by blocks, and may be text."""

from __future__ import annotations

from numbers import Number

import numpy as np

from sktem.mixed_effects.columns import subjects_of

__all__ = ["LabelCodes", "are_of_one_kind", "codes_in_partition", "known_codes"]


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
        found, index = subjects_of(labels, len(labels))
        found, first = found.tolist(), np.unique(index, return_index=True)[1]
        for k in np.argsort(first):
            self.codes.setdefault(found[k], len(self.codes))
        return np.array([self.codes[label] for label in found], dtype=float)[index]

    def labels_of(self, codes):
        """Return the labels that numbers stand for."""
        if not self.codes:
            return codes
        return np.array([*self.codes])[codes.astype(np.int64)]


def codes_in_partition(labels):
    """Return the ranks of the labels of a partition, which has whole subjects."""
    return subjects_of(labels, len(labels))[1].astype(np.float64)


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
