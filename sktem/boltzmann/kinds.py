"""Kinds of the visible units: as they are given, or as the rows have them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of

__all__ = ["ValuesSeen", "is_auto", "kind_of"]


def is_auto(visible) -> bool:
    """Return whether the rows decide the kind of the visible units."""
    return isinstance(visible, str) and visible == "auto"


def kind_of(machine):
    """Return the kind of the visible units, given or found; "auto" before it is."""
    if is_auto(machine.visible):
        return getattr(machine, "visible_", "auto")
    return machine.visible


class ValuesSeen:
    """Evidence of values on the kind of the visible units, block by block.

    Attributes
    ----------
    are_shares, are_spins : bool
        Whether all are in [0, 1], and whether all are -1 or 1.
    masks : ndarray of shape (3, n_features) or None
        Whether a column has a 0, a 1, and anything else.
    """

    def __init__(self):
        self.are_shares = self.are_spins = True
        self.masks = None

    @classmethod
    def of(cls, X) -> ValuesSeen:
        """Return the kind of all values, as far as it is known in [0, 1]."""
        record = cls()
        if not record._shares(X.data if sparse.issparse(X) else X):
            record.add(X)
        return record

    def _shares(self, values):
        """Return whether values are in [0, 1], where they are not missing."""
        xp = arrays_of(values).xp
        return 0 in values.shape or not bool(xp.any((values < 0) | (values > 1)))

    def add(self, X) -> None:
        """Look at more rows; NaN says nothing."""
        values = X.data if sparse.issparse(X) else X
        self.are_shares &= self._shares(values)
        if sparse.issparse(X):
            self.are_spins = False
            return
        arrays = arrays_of(values)
        xp = arrays.xp
        unseen, is_zero, is_one = xp.isnan(values), values == 0, values == 1
        self.are_spins &= bool(xp.all(unseen | (xp.abs(values) == 1)))
        parts = (is_zero, is_one, ~(unseen | is_zero | is_one))
        masks = np.array([arrays.to_numpy(xp.any(part, axis=0)) for part in parts])
        self.masks = masks if self.masks is None else self.masks | masks

    def kind(self) -> str:
        """Return the kind, "table" if columns of zeros and ones are among others."""
        if self.are_shares or self.masks is None:
            return "binary"
        if self.are_spins:
            return "spin"
        has_zero, has_one, has_other = self.masks
        return "table" if (has_zero & has_one & ~has_other).any() else "gaussian"
