"""Rows of chunks: a sequence, a function that begins anew, anything to iterate over."""

from __future__ import annotations

import numpy as np

from sktem.rows.base import Rows

__all__ = ["ChunkRows", "IteratedRows"]


class ChunkRows(Rows):
    """Rows of a sequence of chunks, each of which is made when it is asked for.

    Parameters
    ----------
    chunks : sequence of array-like of shape (n, n_columns)
        The chunks.
    """

    def __init__(self, chunks):
        self.chunks = chunks
        self.n_pieces = len(chunks)
        self.names = names_of(chunks[0])

    def where(self, index):
        """Return the index of a chunk."""
        return f"chunk {index}"

    def piece(self, index):
        """Read a chunk."""
        yield as_array(self.chunks[index], self.names, self.where(index), self.coded)


class IteratedRows(Rows):
    """Rows of an iterable of chunks that begins anew each time.

    Parameters
    ----------
    begin : callable
        Returns a new iterator of chunks at each call.
    """

    def __init__(self, begin):
        self.begin = begin
        for chunk in begin():
            self.names = names_of(chunk)
            break

    def where(self, index):
        """Return a description of the chunks."""
        return "the chunks of X"

    def piece(self, index):
        """Read all chunks."""
        for number, chunk in enumerate(self.begin()):
            yield as_array(chunk, self.names, f"chunk {number}", self.coded)


def names_of(chunk):
    """Return the names of the columns of a chunk, None unless all are strings."""
    plain = getattr(chunk, "columns", ())
    names = list(getattr(chunk, "column_names", plain))  # as pyarrow calls them
    return names if names and all(isinstance(name, str) for name in names) else None


def as_array(chunk, names, where, coded=None):
    """Return a chunk as an array, after a look at the names of its columns."""
    if (columns := names_of(chunk)) != names:
        raise ValueError(
            f"{where} has the columns {columns}, and the first rows have {names}"
        )
    array = np.asarray(chunk)
    for column, numbers in (coded or {}).items():
        # A frame knows the type of the column alone.
        whole = hasattr(chunk, "iloc")
        values = np.asarray(chunk.iloc[:, column]) if whole else array[:, column]
        if (labels := numbers(values)) is not values:
            array = array.astype(object)
            array[:, column] = labels
    return array
