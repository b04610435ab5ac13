"""Checks and answers of estimators on rows that are read by blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length, get_tags

from sktem import budget
from sktem.arrays import numpy_of
from sktem.estimators.weights import checked_weights
from sktem.rows.answers import gathered
from sktem.rows.checked import check_columns, checked_blocks
from sktem.rows.sources import (
    as_chunk,
    at_least_one,
    checked_carrier,
    found_rows,
    is_stream,
)

__all__ = [
    "allows_nan",
    "answer",
    "checked_rows",
    "each_block",
    "each_chunk",
    "needed_in_memory",
    "total_over",
    "weighted_sum",
]


def checked_rows(
    estimator, source, sample_weight, check=None, least=1, dtype=None, allow_nan=False
):
    """Return rows for a fit after a pass that checks them, and their weights."""
    check_columns(estimator, source, reset=True)
    rows = checked_carrier(source, check, allow_nan)
    rows.dtype = rows.dtype if dtype is None else np.dtype(dtype)
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
    sample_weight = checked_weights(sample_weight, rows)
    if not (sample_weight > 0).all():
        raise ValueError(
            "sample_weight must be positive where X is read by blocks: leave out the "
            "rows of weight zero"
        )
    return rows, None if (sample_weight == 1).all() else sample_weight


def allows_nan(estimator) -> bool:
    """Return whether an estimator takes missing values."""
    return bool(get_tags(estimator).input_tags.allow_nan)


def each_block(estimator, X, sample_weight=None, check=None):
    """Yield the rows, all at once or by blocks, each with its weights or None."""
    if is_stream(X) and sample_weight is None:
        for chunk in map(as_chunk, X):
            yield estimator._validate(chunk, None, reset=False)
        return
    source = _read_by(estimator, found_rows(X))
    if source is None:
        yield estimator._validate(X, sample_weight, reset=False)
        return
    check_columns(estimator, source, reset=False)
    weights = None
    if sample_weight is not None:
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64)
        if (weights < 0).any():
            raise ValueError("Negative values in data passed to `sample_weight`.")
    first = 0
    nan, encode = allows_nan(estimator), _encoder(estimator)
    for block in checked_blocks(source, estimator.n_features_in_, check, nan):
        part = None if weights is None else weights[first : first + len(block)]
        if part is None or len(part) == len(block):
            yield encode(block), part
        first += len(block)
    if weights is not None and len(weights) != first:
        raise ValueError(
            f"sample_weight has {len(weights)} entries, and X has {first} rows"
        )


def each_chunk(estimator, X, sample_weight, is_fresh, check=None):
    """Yield the chunks of a stream: one array, or those of an iterator or of rows.

    ``is_fresh()`` is whether nothing has been learned yet. Rows without weight are
    checked and left out.
    """
    iterated = is_stream(X)
    source = None if iterated else _read_by(estimator, found_rows(X))
    if sample_weight is not None and (iterated or source is not None):
        raise ValueError("sample_weight needs X to be a single array")
    if source is not None:
        check_columns(estimator, source, reset=is_fresh())
        nan, encode = allows_nan(estimator), _encoder(estimator)
        blocks = checked_blocks(source, estimator.n_features_in_, check, nan)
        yield from ((encode(block), None) for block in at_least_one(blocks))
        return
    weightless = sample_weight is not None and not np.any(numpy_of(sample_weight))
    if weightless:
        check_consistent_length(X, sample_weight)
        sample_weight = None
    chunks = at_least_one(map(as_chunk, X)) if iterated else [X]
    for index, chunk in enumerate(chunks):
        try:
            rows = estimator._validate(chunk, sample_weight, reset=is_fresh())
        except ValueError as error:
            if not iterated:
                raise
            raise ValueError(f"Chunk {index}: {error}") from None
        if not weightless:
            yield rows


def needed_in_memory(name, X, reason, source_of=found_rows):
    """Raise if an estimator of a name would have to read X by blocks."""
    if not isinstance(X, np.ndarray) and source_of(X) is not None:
        raise TypeError(
            f"{name} needs X in memory, as an array or a data "
            f"frame: {reason}. Pass a sample of the rows, or all as an array"
        )


def total_over(estimator, X, sample_weight, function, check=None):
    """Return the sums over all rows of ``function(rows, weights=weights)``.

    The function returns a tuple. It is sent to the partitions of a Dask collection.
    """
    source = None if is_stream(X) else _read_by(estimator, found_rows(X))
    if source is not None and source.is_remote:
        check_columns(estimator, source, reset=False)
        rows = checked_carrier(source, check, allows_nan(estimator))
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, rows)
        function = partial(_of_encoded, function, _encoder(estimator))
        return rows.summed(function, sample_weight, size=budget.MEMORY.rows)
    sums = None
    for rows, weights in at_least_one(each_block(estimator, X, sample_weight, check)):
        values = function(rows, weights=weights)
        if sums is not None:
            values = tuple(a + b for a, b in zip(sums, values, strict=True))
        sums = values
    return sums


def _encoder(estimator):
    """Return a function that gives codes to labels in blocks of numbers."""
    table: Any = getattr(estimator, "_table", None)
    return table.of_codes().encode if getattr(table, "has_labels", False) else _itself


def _read_by(estimator, source):
    """Return rows with codes for text, where an estimator has learned its labels."""
    table: Any = getattr(estimator, "_table", None)
    return source if source is None or table is None else table.read(source)


def _itself(rows):
    return rows


def _of_encoded(function, encode, rows, **options):
    return function(encode(rows), **options)


def weighted_sum(values, weights) -> float:
    """Return the sum of values times weights, which may be None."""
    return float(values.sum() if weights is None else values @ weights)


def answer(estimator, X, function, out, check=None):
    """Return a function of the rows, by blocks where they are read so.

    Of an array it is an array, of rows and iterators an iterator, of a Dask collection
    a Dask array; with ``out``, that.
    """
    source = None if is_stream(X) else _read_by(estimator, found_rows(X))
    if source is not None and source.is_remote and out is None:
        check_columns(estimator, source, reset=False)
        function = partial(_of_encoded, function, _encoder(estimator))
        return source.answers(function, check, allows_nan(estimator))
    blocks = (function(block) for block, _ in each_block(estimator, X, None, check))
    return gathered(X, blocks, out)
