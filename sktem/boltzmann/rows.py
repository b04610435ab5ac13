"""Visible values that are read by blocks."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from sktem import budget
from sktem.boltzmann.checks import (
    ValueRule,
    check_arrays,
    check_rows,
    table_of_fit,
    visible_values,
)
from sktem.boltzmann.kinds import ValuesSeen, is_auto
from sktem.boltzmann.tables import holds_labels, is_tabular
from sktem.estimators.by_blocks import checked_rows
from sktem.rows.partitions import check_can_remember
from sktem.rows.sources import found_rows

__all__ = ["found_kind", "rows_of_fit", "values_of_fit"]


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
    table, rows = table_of_fit(machine, X)
    return rows, kind, table


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
