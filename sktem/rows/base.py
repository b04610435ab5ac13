"""The contracts of rows: of where they come from, and of those of a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from sktem import budget

__all__ = [
    "Carrier",
    "ChangedRowsError",
    "ColumnRows",
    "Rows",
    "aligned",
    "as_iterator",
    "can_repeat",
    "repeat_rows",
]


class ChangedRowsError(ValueError):
    """Rows are not those of the passes before."""


class Rows(ABC):
    """Rows that need not fit in memory.

    A source is a sequence of *pieces*, such as files or chunks, each of which gives
    arrays of rows when it is read. An adapter defines :meth:`piece`, and those of the
    attributes below that differ from the defaults. :func:`sktem.rows.as_rows` converts
    what users pass to ``fit``; for another source, write a subclass and pass an
    instance.

    Attributes
    ----------
    n_rows : int or None
        Number of rows; None if it becomes known only after a pass.
    names : list of str or None
        Names of the columns.
    n_pieces : int
        Number of pieces. Passes of the stochastic solvers read them in a random order.
    can_take : bool
        Whether :meth:`take` reads single rows in a time that does not depend on the
        total number of rows.
    can_read_twice : bool
        Whether a second pass can begin before the first has ended.
    is_remote : bool
        Whether functions are sent to the rows, rather than rows to the functions.
    coded : dict
        For columns of a data frame or table that may be text, by index: functions that
        convert them to numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.rows import Rows
    >>> class Squares(Rows):
    ...     n_rows = 5
    ...     def piece(self, index):
    ...         yield np.arange(3.0)[:, None] ** 2
    ...         yield np.arange(3.0, 5.0)[:, None] ** 2
    >>> [(first, block.ravel().tolist()) for first, block in Squares().blocks(4)]
    [(0, [0.0, 1.0, 4.0, 9.0]), (4, [16.0])]
    """

    n_rows: int | None = None
    names: list[str] | None = None
    n_pieces: int = 1
    can_take: bool = False
    can_read_twice: bool = True
    is_remote: bool = False
    coded: Mapping[int, Callable] = MappingProxyType({})

    @abstractmethod
    def piece(self, index: int) -> Iterator[np.ndarray]:
        """Read a piece.

        Parameters
        ----------
        index : int
            Index of the piece.

        Returns
        -------
        iterator of ndarray of shape (n, n_columns)
            Its rows in order, in arrays of any length.
        """

    def where(self, index: int) -> str:
        """Return the name of a piece in errors, such as that of its file.

        Parameters
        ----------
        index : int
            Index of the piece.

        Returns
        -------
        str
            The name.
        """
        return f"piece {index} of X"

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self._first_rows().shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers, as inferred from the first rows."""
        return self._first_rows().dtype

    def _first_rows(self):
        for index in range(self.n_pieces):
            with closing(as_iterator(self.piece(index))) as chunks:
                for chunk in chunks:
                    return np.asarray(chunk)
        return np.empty((0, 0))

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Read all rows in aligned blocks, whatever the pieces and their arrays.

        Parameters
        ----------
        size : int or None, default=None
            Number of rows of each block except the last. None means as many as the
            memory budget allows.

        Yields
        ------
        first : int
            Row index of the first row.
        block : ndarray of shape (size, n_columns)
            The rows.
        """
        yield from aligned(self._chunks(), size or budget.MEMORY.rows)

    def _chunks(self):
        for index in range(self.n_pieces):
            with closing(as_iterator(self.piece(index))) as chunks:
                yield from chunks

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Return chosen rows, if ``can_take``.

        Parameters
        ----------
        indices : ndarray of int
            Row indices.

        Returns
        -------
        ndarray of shape (n_indices, n_columns)
            The rows.
        """
        raise TypeError(f"{type(self).__name__} reads rows in order only")

    def columns_named(self, names: list[str]) -> Rows:
        """Return the columns with given names.

        Parameters
        ----------
        names : list of str
            The names.

        Returns
        -------
        Rows
            The columns.
        """
        known = self.names or []
        return ColumnRows(self, [known.index(name) for name in names])

    def is_text(self, column: int) -> bool:
        """Return whether a column may hold text labels.

        Parameters
        ----------
        column : int
            Its index.

        Returns
        -------
        bool
            Whether it may.
        """
        return True

    def answers(self, function: Callable, check=None, allow_nan=False) -> Any:
        """Return lazy results for remote rows.

        Parameters
        ----------
        function : callable
            Returns an array with an entry for each row.
        check : callable or None, default=None
            Called first with the rows; raises ValueError for values that are not
            allowed.
        allow_nan : bool, default=False
            Whether NaN is allowed.

        Returns
        -------
        object
            The answers.
        """
        raise TypeError(f"{type(self).__name__} has no answers before they are read")


class ColumnRows(Rows):
    """Some of the columns of rows.

    Parameters
    ----------
    source : Rows
        The rows, which have names.
    columns : list of int
        Which columns.
    """

    def __init__(self, source: Rows, columns: list[int]):
        self.source = source
        self.columns = columns
        self.names = [(source.names or [])[j] for j in columns]
        self.n_rows = source.n_rows
        self.n_pieces = source.n_pieces
        self.can_take = source.can_take
        self.can_read_twice = source.can_read_twice

    def where(self, index):
        """Return the name of a piece."""
        return self.source.where(index)

    def piece(self, index):
        """Read the columns of a piece."""
        for chunk in self.source.piece(index):
            yield chunk[:, self.columns]

    def take(self, indices):
        """Return the columns of chosen rows."""
        return self.source.take(indices)[:, self.columns]


class Carrier(Protocol):
    """Rows of a fit, as the loop, the E-step and the estimators see them.

    Rows in memory, by blocks and on Dask have these methods; nobody else asks of which
    of these kinds they are.
    """

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in the memory of this process."""

    @property
    def is_remote(self) -> bool:
        """Whether functions are sent to the rows, rather than rows to the functions."""

    @property
    def can_take(self) -> bool:
        """Whether single rows are read in a time that all others have no part in."""

    @property
    def can_remember(self) -> bool:
        """Whether values of rows, such as latents, are kept from visit to visit."""

    @property
    def largest_batch(self) -> int:
        """Rows of a batch, at most, where an estimator chooses."""

    @property
    def array(self) -> np.ndarray | None:
        """The rows, where they are an array of NumPy in memory."""

    @property
    def holds_tensors(self) -> bool:
        """Whether the rows are an array of another namespace than NumPy's."""

    @property
    def has_nan(self) -> bool:
        """Whether there is a NaN."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and of columns where there are some."""

    @property
    def row_size(self) -> int:
        """Numbers of a row, on average where rows differ."""

    @property
    def dtype(self) -> Any:
        """Type of the numbers."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def model_view(self) -> Any:
        """Return all rows for models that read blocks themselves."""

    def take(self, indices) -> Any:
        """Return chosen rows."""

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Any]]:
        """Yield the row index of the first row and the rows, in aligned blocks."""

    def summed(self, function: Callable, weights=None, *, size=None) -> tuple:
        """Return sums over aligned blocks of ``function(rows, weights=weights)``."""

    def mapped(self, function: Callable, beside=None) -> Carrier:
        """Return the rows computed by a function of these, and of aligned values."""


def can_repeat(X) -> bool:
    """Return whether :func:`repeat_rows` can repeat rows."""
    return isinstance(X, np.ndarray) or hasattr(X, "repeat")


def repeat_rows(X, count: int):
    """Repeat each row, with the copies of a row next to each other.

    Parameters
    ----------
    X : ndarray or object with a method ``repeat(count)``
        Rows.
    count : int
        Number of copies of each row.

    Returns
    -------
    array-like
        ``count * len(X)`` rows.
    """
    if count == 1:
        return X
    return np.repeat(X, count, axis=0) if isinstance(X, np.ndarray) else X.repeat(count)


def as_iterator(chunks):
    """Return an iterator that has a method ``close``."""
    return chunks if hasattr(chunks, "close") else _generate(chunks)


def _generate(chunks):
    yield from chunks


def aligned(
    chunks: Iterable[np.ndarray], size: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Cut arrays of rows into blocks that begin at multiples of a size.

    Parameters
    ----------
    chunks : iterable of ndarray
        Rows in order.
    size : int
        Rows of each block but the last.

    Yields
    ------
    first : int
        Row index of the first row.
    block : ndarray
        The rows; valid until the next block is asked for.
    """
    first, n_waiting = 0, 0
    waiting: list[np.ndarray] = []
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            piece = chunk[start : start + size - n_waiting]
            start += len(piece)
            n_waiting += len(piece)
            if n_waiting < size:
                waiting.append(np.array(piece))  # the source may reuse its buffer
                continue
            yield first, np.concatenate([*waiting, piece]) if waiting else piece
            first, n_waiting, waiting = first + size, 0, []
    if n_waiting:
        yield first, waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
