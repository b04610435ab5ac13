"""Check for narrow ranges of inputs."""

from __future__ import annotations

from copy import copy

import numpy as np

from sktem.sequences.rows import each_block

__all__ = ["is_far_from_zero"]


def is_far_from_zero(model, rows, params, narrow):
    """Return whether an input varies by no more than its square's rounding.

    Inputs that change no prediction do not matter.
    """
    extremes = each_block(rows, _extremes, lambda subjects: ())
    low, high, largest = np.array(extremes).transpose(1, 0, 2)
    widths = high.max(axis=0) - low.min(axis=0)
    narrow_ones = (widths > 0) & (widths < narrow * largest.max(axis=0))
    return any(_is_read(model, rows, params, j) for j in np.flatnonzero(narrow_ones))


def _is_read(model, rows, params, column):
    """Return whether predictions change with a column of the inputs."""
    if rows.events is not None:
        return rows.names is None or rows.names[column] == "TIME"
    if model.structure is None or not rows.in_memory:
        return True
    changed = copy(rows)
    changed.inputs = rows.inputs.copy()
    changed.inputs[:, column] = changed.inputs[0, column]
    means = model.prior_moments(rows, params)[0]
    f, other = (model.predict_rows(x, means, params.numeric) for x in (rows, changed))
    return not np.array_equal(f, other, equal_nan=True)


def _extremes(rows):
    """Return minimum, maximum and largest magnitude of the inputs of some subjects."""
    x = np.asarray(rows.inputs, dtype=float)
    # Columns that are not read may be NaN.
    low, high = np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)
    return low, high, np.fmax.reduce(np.abs(x), axis=0)
