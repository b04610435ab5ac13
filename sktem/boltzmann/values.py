"""Kinds and admissible values of the visible units."""

from __future__ import annotations

import math
from functools import partial
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sktem import budget
from sktem.arrays import arrays_of, input_arrays
from sktem.boltzmann.tables import Table, holds_labels, is_tabular
from sktem.boltzmann.units import half_filled
from sktem.choices import is_auto
from sktem.estimators.by_blocks import checked_rows
from sktem.rows.partitions import check_can_remember
from sktem.rows.sources import found_rows
from sktem.validation import validate_data

__all__ = [
    "ValueRule",
    "check_arrays",
    "check_rows",
    "found_kind",
    "kind_of",
    "refuse_missing",
    "rows_of_fit",
    "values_of_fit",
    "visible_values",
]


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
        """Update the kinds by more rows; NaN has no effect."""
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


def values_of_fit(machine, X):
    """Return rows of a new fit, the kind of their units, and their table if it is one.

    The kind is that of the machine, or what the rows say.
    """
    simple = machine.graph is not None or machine.binarize is not None
    labels = is_auto(machine.visible) and not simple and holds_labels(X)
    kind = "table"
    if not (is_tabular(machine.visible) or labels):
        rows, kind = rows_of_fit(machine, X, reset=True)
    if kind != "table":
        return rows, kind, None
    validate_data(machine, X, skip_check_array=True)
    table = Table.of(X, machine.visible)
    return table.encode(X), kind, table


def rows_of_fit(machine, X, *, reset):
    """Return X for a fit, checked, and the kind of its units.

    The rows are an array, or CheckedRows where they are many. Those of a table, see
    `found_kind`, are not yet as the machine needs them.
    """
    rule, source = ValueRule.of(machine, reset), found_rows(X)
    if source is None:
        rows, kind = check_rows(machine, X, reset=reset), rule.kind
        if not reset:
            check_arrays(machine, rows, "fit")
        if is_auto(kind):
            kind = found_kind(machine, rows, in_pieces=not isinstance(rows, np.ndarray))
        return visible_values(rule._replace(kind=kind), rows), kind
    check_can_remember(machine, source)
    values_seen = ValuesSeen()
    check = values_seen.add if is_auto(rule.kind) else partial(visible_values, rule)
    checked, _ = checked_rows(machine, source, None, check, allow_nan=True)
    if is_auto(rule.kind):
        kind = _suitable(machine, values_seen, in_pieces=True)
        rule = rule._replace(kind=kind)
    rows = checked.mapped(partial(visible_values, rule))
    if rows.shape[0] * rows.shape[1] <= budget.MEMORY.kept:
        return np.concatenate([block for _, block in rows.blocks()]), rule.kind
    return rows, rule.kind


def found_kind(machine, X, *, in_pieces):
    """Return the kind of the visible units for visible="auto"; "table" for several.

    Rows that come in pieces, or are no array of NumPy's, must be of one kind.
    """
    return _suitable(machine, ValuesSeen.of(X), in_pieces and not sparse.issparse(X))


def _suitable(machine, values_seen, in_pieces):
    """Return the kind that a machine takes values for."""
    kind = values_seen.kind()
    if machine.binarize is not None:
        return "binary"
    if machine.graph is not None:
        return "spin" if kind == "spin" else "binary"
    if kind == "table" and in_pieces:
        has_zero, has_one, has_other = values_seen.masks
        several = np.flatnonzero(has_zero & has_one & ~has_other)
        named = ", ".join(map(str, several[:3])) + (", ..." if len(several) > 3 else "")
        raise ValueError(
            f"Columns {named} of X hold zeros and ones, and others real numbers. "
            "Columns of several kinds need all rows at once in fit, as a NumPy array "
            "or data frame. visible='gaussian' takes all of them for real numbers."
        )
    return kind


def refuse_missing(X, method):
    """Raise if values are missing where they have to be known."""
    values = X.data if sparse.issparse(X) else X
    if bool(arrays_of(values).xp.any(arrays_of(values).xp.isnan(values))):
        raise ValueError(
            f"Input X contains NaN: {method} needs rows without missing values, see "
            "impute and sample_conditional"
        )


def check_rows(machine, X, *, reset):
    """Return X, checked but for its range; float32 and float64 stay."""
    kind = machine.visible if reset else kind_of(machine)
    if is_tabular(kind):
        validate_data(machine, X, reset=False, skip_check_array=True)
        return machine.fitted_.units.table.encode(X)
    arrays = input_arrays(X)
    if not arrays.is_numpy and machine.graph is not None:
        raise ValueError(
            "machines on a graph work on NumPy arrays only, got X as an array of "
            f"{arrays.xp.__name__}: give hidden_layer_sizes in place of graph, or "
            "X as a NumPy array"
        )
    return validate_data(
        machine,
        X,
        reset=reset,
        accept_sparse="csr" if kind in ("auto", "binary") else False,
        dtype=[arrays.xp.float64, arrays.xp.float32],
        order="C" if arrays.is_numpy else None,
        ensure_all_finite="allow-nan",
    )


class ValueRule(NamedTuple):
    """Rule for admissible values of the visible units.

    Attributes
    ----------
    kind : str or list of str
        Kind of the visible units; "auto" where rows are to say it.
    binarize : float, "sample" or None
        As of the machine.
    was_found : bool
        Whether the rows of the fit have said the kind.
    """

    kind: str | list
    binarize: float | str | None
    was_found: bool

    @classmethod
    def of(cls, machine, reset=False) -> ValueRule:
        """Return the rule of a machine, or of its coming fit."""
        kind = machine.visible if reset else kind_of(machine)
        return cls(kind, machine.binarize, is_auto(machine.visible) and not reset)


def visible_values(rule, X):
    """Return the values of the visible units, checked to be in their range."""
    if is_tabular(rule.kind) or rule.kind in ("auto", "gaussian"):
        return X
    binary = rule.kind == "binary"
    if isinstance(rule.binarize, Real):
        above = _above(X, float(rule.binarize))
        return above if binary else 2.0 * above - 1.0
    if binary:
        return _in_range(X, rule.was_found)
    return _are_spins(X, rule.binarize is not None)


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


def check_arrays(machine, X, method):
    """Raise if X is not of the namespace and on the device of the fit."""
    fitted = arrays_of(machine.params_)
    inputs = arrays_of(X)
    same = (fitted.xp, fitted.device) == (inputs.xp, inputs.device)
    if not same:
        raise ValueError(
            f"Inputs passed to {type(machine).__name__}.{method}() must use the same "
            "namespace and the same device as those passed to fit(), which were "
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
