"""What estimators do with rows that are read by blocks: checks and answers."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

from sktem.rows.checked import CheckedRows, check_columns

__all__ = ["answer", "checked_rows", "weights_of_blocks"]


def checked_rows(estimator, source, sample_weight, check, least=1):
    """Return rows for a fit after a pass that checks them, and their weights."""
    check_columns(estimator, source, reset=True)
    rows = CheckedRows(source, check)
    for count, what, minimum in zip(
        rows.shape, ("sample", "feature"), (least, 1), strict=True
    ):
        if count < minimum:
            raise ValueError(
                f"Found array with {count} {what}(s) (shape={rows.shape}) while a "
                f"minimum of {minimum} is required by {type(estimator).__name__}."
            )
    if sample_weight is None:
        return rows, None
    sample_weight = _check_sample_weight(
        sample_weight, rows, dtype=np.float64, ensure_non_negative=True
    )
    if not (sample_weight > 0).all():
        raise ValueError(
            "sample_weight must be positive where X is read by blocks: leave out the "
            "rows of weight zero"
        )
    return rows, None if (sample_weight == 1).all() else sample_weight


def weights_of_blocks(blocks, sample_weight):
    """Yield blocks of rows, each with its weights or None."""
    if sample_weight is None:
        yield from ((block, None) for block in blocks)
        return
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`.")
    first = 0
    for block in blocks:
        part = weights[first : first + len(block)]
        if len(part) == len(block):
            yield block, part
        first += len(block)
    if len(weights) != first:
        raise ValueError(
            f"sample_weight has {len(weights)} entries, and X has {first} rows"
        )


def answer(blocks, out):
    """Return an iterator of answers, or write them to an array and return that."""
    if out is None:
        return blocks
    first = 0
    for block in blocks:
        if first + len(block) > len(out):
            raise ValueError(f"out has {len(out)} rows, and X has more")
        out[first : first + len(block)] = block
        first += len(block)
    if first != len(out):
        raise ValueError(f"out has {len(out)} rows, and X has {first}")
    return out
