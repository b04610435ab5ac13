"""Kinds and admissible values of the visible units."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sktem.arrays import arrays_of, input_arrays
from sktem.boltzmann.tables import is_tabular
from sktem.boltzmann.units import half_filled
from sktem.choices import is_auto

__all__ = ["ValueRule", "ValuesSeen", "check_arrays", "refuse_missing"]


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
        self.masks: Any = None

    @classmethod
    def of(cls, X) -> ValuesSeen:
        """Return the kind of all values, as far as it is known in [0, 1]."""
        seen = cls()
        if not _are_shares(X.data if sparse.issparse(X) else X):
            seen.add(X)
        return seen

    def add(self, X) -> None:
        """Update the kinds by more rows; NaN has no effect."""
        values = X.data if sparse.issparse(X) else X
        self.are_shares &= _are_shares(values)
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
        return "table" if self.of_two_values.any() else "gaussian"

    @property
    def of_two_values(self) -> np.ndarray:
        """Mask of the columns that hold zeros and ones alone."""
        has_zero, has_one, has_other = self.masks
        return has_zero & has_one & ~has_other


def _are_shares(values):
    """Return whether values are in [0, 1], where they are not missing."""
    xp = arrays_of(values).xp
    return 0 in values.shape or not bool(xp.any((values < 0) | (values > 1)))


def refuse_missing(X, method):
    """Raise if values are missing where they have to be known."""
    values = X.data if sparse.issparse(X) else X
    if bool(arrays_of(values).xp.any(arrays_of(values).xp.isnan(values))):
        raise ValueError(
            f"Input X contains NaN: {method} needs rows without missing values, see "
            "impute and sample_conditional"
        )


class ValueRule(NamedTuple):
    """Rule for admissible values of the visible units.

    Attributes
    ----------
    kind : str or list of str
        Kind of the visible units; "auto" where rows are to say it.
    binarize : float, "sample" or None
        As of the machine.
    on_graph : bool
        Whether the machine is on a graph, whose units are of one kind.
    was_found : bool, default=False
        Whether the rows of the fit have said the kind.
    """

    kind: str | list
    binarize: float | str | None
    on_graph: bool
    was_found: bool = False

    @property
    def is_open(self) -> bool:
        """Whether rows are to say the kind."""
        return is_auto(self.kind)

    @property
    def of_labels(self) -> bool:
        """Whether columns of labels are taken where the kind is open."""
        return self.is_open and not self.on_graph and self.binarize is None

    def for_rows(self, X, in_pieces=True) -> ValueRule:
        """Return the rule with the kind of rows, which may be one piece of many."""
        in_pieces = in_pieces and not sparse.issparse(X)
        return self.resolved(ValuesSeen.of(X), in_pieces)

    def resolved(self, seen: ValuesSeen, in_pieces) -> ValueRule:
        """Return the rule with the kind of values; "table" for several kinds.

        Rows that come in pieces, or are no array of NumPy's, must be of one kind.
        """
        kind = seen.kind()
        if self.binarize is not None:
            kind = "binary"
        elif self.on_graph:
            kind = "spin" if kind == "spin" else "binary"
        elif kind == "table" and in_pieces:
            columns = np.flatnonzero(seen.of_two_values)
            named = ", ".join(map(str, columns[:3]))
            raise ValueError(
                f"Columns {named}{', ...' if len(columns) > 3 else ''} of X hold zeros "
                "and ones, and others real numbers. Columns of several kinds need all "
                "rows at once in fit, as a NumPy array or data frame. "
                "visible='gaussian' takes all of them for real numbers."
            )
        return self._replace(kind=kind)

    def options(self, X) -> dict:
        """Return the options of scikit-learn's check of an array."""
        arrays = input_arrays(X)
        if not arrays.is_numpy and self.on_graph:
            raise ValueError(
                "machines on a graph work on NumPy arrays only, got X as an array of "
                f"{arrays.xp.__name__}: give hidden_layer_sizes in place of graph, or "
                "X as a NumPy array"
            )
        return {
            "accept_sparse": "csr" if self.kind in ("auto", "binary") else False,
            "dtype": [arrays.xp.float64, arrays.xp.float32],
            "order": "C" if arrays.is_numpy else None,
            "ensure_all_finite": "allow-nan",
        }

    def values(self, X):
        """Return the values of the visible units, checked to be in their range."""
        if is_tabular(self.kind) or self.kind in ("auto", "gaussian"):
            return X
        binary = self.kind == "binary"
        if isinstance(self.binarize, Real):
            above = _above(X, float(self.binarize))
            return above if binary else 2.0 * above - 1.0
        if binary:
            return _in_range(X, self.was_found)
        return _are_spins(X, self.binarize is not None)


def _are_spins(X, between):
    """Return values of spins, checked to be -1 or 1, or between them."""
    xp = arrays_of(X).xp
    size = xp.where(xp.isnan(X), xp.ones_like(X), xp.abs(X))
    if between and xp.all(size <= 1) or xp.all(size == 1):
        return X
    raise ValueError(
        "X must be in [-1, 1] for visible='spin' and binarize='sample'"
        if between
        else "X must be -1 or 1 for visible='spin'; use visible='binary' for values in "
        "[0, 1], or set a threshold by binarize"
    )


def _above(X, threshold):
    """Return 1 where values are above a threshold and 0 elsewhere, NaN as it is."""
    if not sparse.issparse(X):
        xp = arrays_of(X).xp
        above = arrays_of(X).astype(X > threshold, X.dtype)
        return xp.where(xp.isnan(X), X, above)
    if threshold < 0:
        raise ValueError("binarize must be >= 0 for a sparse X")
    X = X.copy()
    X.data = (X.data > threshold).astype(X.dtype)
    X.eliminate_zeros()
    return X


def check_arrays(params, X, call):
    """Raise if X is not of the namespace and on the device of the parameters."""
    fitted, inputs = arrays_of(params), arrays_of(X)
    if (fitted.xp, fitted.device) != (inputs.xp, inputs.device):
        raise ValueError(
            f"Inputs passed to {call} must use the same namespace and the same device "
            "as those passed to fit(), which were "
            f"{fitted.xp.__name__} and {fitted.device}; got {type(X).__name__} of "
            f"{inputs.xp.__name__} and {inputs.device}. Arrays other than NumPy's "
            "need sklearn.config_context(array_api_dispatch=True)."
        )


def _in_range(X, was_found):
    """Return values of binary units, checked to be in [0, 1]."""
    values = X.data if sparse.issparse(X) else X
    if sparse.issparse(X) and np.isnan(values).any():
        raise ValueError("a sparse X must not contain NaN")
    if 0 not in values.shape:
        xp = arrays_of(values).xp
        low, high = float(xp.min(values)), float(xp.max(values))
        if math.isnan(low):
            # Where a value is not observed, one that is in range.
            observed, _ = half_filled(values)
            low, high = float(xp.min(observed)), float(xp.max(observed))
        if (low < 0 or high > 1) and was_found:
            raise ValueError(
                f"X has values from {low:g} to {high:g}, and visible='auto' has taken "
                "its columns for binary units, as all values were in [0, 1] where the "
                "fit began. Say visible='gaussian' before it, if they are real "
                "numbers, or scale X, or set a threshold by binarize."
            )
        if low < 0 or high > 1:
            raise ValueError(
                "X must be in [0, 1] for visible='binary', got values from "
                f"{low:g} to {high:g}. {_advice(values, low, high)}"
            )
    return X


def _advice(values, low, high):
    """Return the advice on values that are out of range."""
    xp = arrays_of(values).xp
    if low == -1 and high == 1 and bool(xp.all(xp.abs(values) == 1)):
        return "For units in {-1, 1}, use visible='spin'."
    return (
        "Scale it, in a pipeline by MinMaxScaler(clip=True), which also bounds "
        "values that are outside of the training data; or set a threshold by "
        "binarize; or use visible='gaussian'."
    )
