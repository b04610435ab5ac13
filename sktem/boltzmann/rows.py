"""Visible values that are read by blocks."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np

from sktem.boltzmann.checks import check_rows, visible_values
from sktem.boltzmann.tables import is_tabular
from sktem.rows.answers import gathered
from sktem.rows.checked import CheckedRows, check_columns, checked_blocks
from sktem.rows.partitions import check_can_remember
from sktem.rows.sources import as_chunk, found_rows, is_stream

__all__ = ["answer", "each_checked", "rows_of_fit"]

#: Numbers that are held in memory for a fit, where X has no more of them.
MOST_VALUES = 1 << 22


def rows_of_fit(machine, X, *, reset):
    """Return X for a fit, checked: an array, or CheckedRows of many rows."""
    source = found_rows(X)
    if source is None:
        return check_rows(machine, X, reset=reset)
    check_can_remember(machine, source)
    check_columns(machine, source, reset=reset)
    values = _values_of(machine)
    given = CheckedRows(source, values, allow_nan=True)
    if given.shape[0] < 1:
        raise ValueError(f"Found array with 0 sample(s) (shape={given.shape})")
    rows = given.mapped(values)
    if rows.shape[0] * rows.shape[1] <= MOST_VALUES:
        return np.concatenate([block for _, block in rows.blocks()])
    return rows


def _values_of(machine):
    """Return a function of rows that has no more of the machine than it needs."""
    kinds = SimpleNamespace(visible=machine.visible, binarize=machine.binarize)
    return partial(visible_values, kinds)


def answer(machine, X, method, function, out, *, allow_nan=False):
    """Return a function of rows, by blocks or by partitions where they are so."""
    source = None if is_stream(X) or is_tabular(machine.visible) else found_rows(X)
    if source is not None and source.is_remote and out is None:
        check_columns(machine, source, reset=False)
        values = _values_of(machine)

        def answers(block):
            return np.asarray(function(values(block)))

        return source.answers(answers, values, allow_nan)
    blocks = each_checked(machine, X, method, allow_nan=allow_nan)
    return gathered(X, map(function, blocks), out)


def each_checked(machine, X, method, *, is_fresh=lambda: False, allow_nan=False):
    """Yield X checked: at once, or block by block where it is read so."""
    options = {"method": method, "allow_nan": allow_nan}
    iterated = is_stream(X)
    in_memory = iterated or is_tabular(machine.visible)
    source = None if in_memory else found_rows(X)
    if source is None:
        for chunk in map(as_chunk, X) if iterated else [X]:
            yield check_rows(machine, chunk, reset=is_fresh(), **options)
        return
    check_columns(machine, source, reset=is_fresh())
    values = _values_of(machine)
    yield from map(
        values, checked_blocks(source, machine.n_features_in_, values, allow_nan)
    )
