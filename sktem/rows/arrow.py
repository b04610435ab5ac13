"""Rows of Arrow streams and datasets; pyarrow is imported when it is used."""

from __future__ import annotations

import numpy as np

from sktem import budget
from sktem.rows.base import Rows

__all__ = ["ArrowRows", "DatasetRows", "LazyFrameRows", "import_pyarrow", "numbers_of"]


class ArrowRows(Rows):
    """Rows of objects whose ``__arrow_c_stream__`` begins anew each time.

    Parameters
    ----------
    source : object
        Such as a pyarrow Table or a DuckDB relation.
    """

    def __init__(self, source):
        self.source = source
        # A connection of DuckDB runs one query at a time.
        self.can_read_twice = "duckdb" not in type(source).__module__
        self.arrow = import_pyarrow()
        with self.reader() as reader:
            self.names = list(reader.schema.names)

    def reader(self):
        """Begin anew."""
        return self.arrow.RecordBatchReader.from_stream(self.source)

    def where(self, index):
        """Return the type of the source."""
        return f"the {type(self.source).__name__}"

    def piece(self, index):
        """Read all record batches."""
        with self.reader() as reader:
            yield from (numbers_of(batch, self.coded) for batch in reader)


class DatasetRows(Rows):
    """Rows of a pyarrow Dataset.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        The dataset.
    """

    def __init__(self, dataset):
        self.dataset = dataset
        self.names = list(dataset.schema.names)

    def where(self, index):
        """Return a description."""
        return "the Dataset"

    def piece(self, index):
        """Read all record batches in order, few of them ahead."""
        batches = self.dataset.to_batches(
            batch_size=budget.MEMORY.rows, batch_readahead=2, fragment_readahead=1
        )
        yield from (numbers_of(batch, self.coded) for batch in batches)


class LazyFrameRows(Rows):
    """Rows of a polars LazyFrame, collected in batches.

    Parameters
    ----------
    frame : polars.LazyFrame
        The frame.
    """

    def __init__(self, frame):
        if not hasattr(frame, "collect_batches"):
            raise TypeError(
                "This version of polars collects a LazyFrame only as a whole: update "
                "polars, or pass X.collect()"
            )
        self.frame = frame
        self.names = list(frame.collect_schema().names())

    def where(self, index):
        """Return a description."""
        return "the LazyFrame"

    def piece(self, index):
        """Read all batches in order."""
        batches = self.frame.collect_batches(
            chunk_size=budget.MEMORY.rows, maintain_order=True
        )
        for batch in batches:
            yield joined_columns(batch.get_columns(), self.names, self.coded)


def import_pyarrow():
    """Return pyarrow."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "Reading this X needs pyarrow: pip install sktem[arrow]"
        ) from error
    return pyarrow


def numbers_of(batch, coded=None):
    """Return a record batch as an array."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    return joined_columns(columns, batch.schema.names, coded)


def joined_columns(columns, names, coded=None):
    """Return columns as one array; missing values become NaN."""
    arrays = [np.asarray(column) for column in columns]
    for column, numbers in (coded or {}).items():
        arrays[column] = numbers(arrays[column])
    text = []
    for index, array in enumerate(arrays):
        if array.dtype.kind not in "biuf":
            try:
                if array.dtype.kind in "mM":
                    raise ValueError
                arrays[index] = array.astype(np.float64)
            except (TypeError, ValueError):
                text.append(names[index])
    if text:
        raise ValueError(
            f"The columns {text} of X do not hold numbers: leave them out or encode "
            "them."
        )
    dtype = np.result_type(*arrays) if arrays else np.float64
    joined = np.empty((len(arrays[0]) if arrays else 0, len(arrays)), dtype=dtype)
    for index, array in enumerate(arrays):
        joined[:, index] = array
    return joined
