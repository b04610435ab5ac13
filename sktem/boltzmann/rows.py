"""Visible values that are read by blocks."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from sktem.boltzmann.checks import (
    ValueRule,
    check_rows,
    table_of_fit,
    visible_values,
)
from sktem.boltzmann.kinds import ValuesSeen, is_auto, kind_of
from sktem.boltzmann.tables import holds_labels, is_tabular
from sktem.rows.answers import gathered
from sktem.rows.checked import CheckedRows, check_columns, checked_blocks
from sktem.rows.partitions import check_can_remember
from sktem.rows.sources import as_chunk, found_rows, is_stream

__all__ = ["answer", "each_checked", "found_kind", "rows_of_fit", "values_of_fit"]

#: Numbers that are held in memory for a fit, where X has no more of them.
MOST_VALUES = 1 << 22


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
        rows = check_rows(machine, X, reset=reset)
        if not is_auto(rule.kind):
            return rows, rule.kind
        kind = found_kind(machine, rows, in_pieces=not isinstance(rows, np.ndarray))
        return visible_values(rule._replace(kind=kind), rows), kind
    check_can_remember(machine, source)
    check_columns(machine, source, reset=reset)
    values_seen = ValuesSeen()
    check = values_seen.add if is_auto(rule.kind) else partial(visible_values, rule)
    checked = CheckedRows(source, check, allow_nan=True)
    if checked.shape[0] < 1:
        raise ValueError(f"Found array with 0 sample(s) (shape={checked.shape})")
    if is_auto(rule.kind):
        kind = _suitable(machine, values_seen, in_pieces=True)
        rule = rule._replace(kind=kind)
    rows = checked.mapped(partial(visible_values, rule))
    if rows.shape[0] * rows.shape[1] <= MOST_VALUES:
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


def answer(machine, X, method, function, out, *, allow_nan=False):
    """Return a function of rows, by blocks or by partitions where they are so."""
    in_memory = is_stream(X) or is_tabular(kind_of(machine))
    source = None if in_memory else found_rows(X)
    if source is not None and source.is_remote and out is None:
        check_columns(machine, source, reset=False)
        values = partial(visible_values, ValueRule.of(machine))

        def answers(block):
            return np.asarray(function(values(block)))

        return source.answers(answers, values, allow_nan)
    blocks = each_checked(machine, X, method, allow_nan=allow_nan)
    return gathered(X, map(function, blocks), out)


def each_checked(machine, X, method, *, is_fresh=lambda: False, allow_nan=False):
    """Yield X checked: at once, or block by block where it is read so."""
    options = {"method": method, "allow_nan": allow_nan}
    iterated = is_stream(X)
    kind = machine.visible if is_fresh() else kind_of(machine)
    in_memory = iterated or is_tabular(kind)
    source = None if in_memory else found_rows(X)
    if source is None:
        for chunk in map(as_chunk, X) if iterated else [X]:
            yield check_rows(machine, chunk, reset=is_fresh(), **options)
        return
    check_columns(machine, source, reset=is_fresh())

    def values(block):
        # After the first block of a stream its kind is known.
        return visible_values(ValueRule.of(machine, is_fresh()), block)

    yield from map(
        values, checked_blocks(source, machine.n_features_in_, values, allow_nan)
    )
