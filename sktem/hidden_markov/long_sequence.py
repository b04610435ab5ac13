"""One sequence that does not fit in memory: a filter carried over blocks, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sktem.e_step.blas_threads import one_blas_thread
from sktem.hidden_markov.given import BlockReader
from sktem.hidden_markov.recursions import best_paths
from sktem.hidden_markov.rows import ObservedSequences
from sktem.rows.base import Rows
from sktem.rows.checked import CheckedRows

__all__ = [
    "LongSequence",
    "long_log_likelihood",
    "long_paths",
    "long_probabilities",
    "long_statistics",
]


class BlockRule(NamedTuple):
    """Sizes of the blocks and pieces of a long sequence.

    Attributes
    ----------
    rows : int
        Rows of a block, where rows can be read from anywhere.
    most : int
        Rows of a piece that is read as a whole, at most.
    pieces : int
        Pieces of it on which starts are compared.
    """

    rows: int = 1 << 16
    most: int = 1 << 22
    pieces: int = 4


class LongSequence(CheckedRows):
    """A sequence whose rows are read by blocks, forward and backward.

    Blocks are pieces of the source, such as row groups of Parquet files, or slices of
    ``.npy`` files.

    Parameters
    ----------
    source : Rows
        The rows, in the order of time.
    reader : BlockReader
        What is read of them.
    rule : BlockRule, default=BlockRule()
        How it is cut.
    """

    def __init__(self, source: Rows, reader: BlockReader, rule=None):
        self.rule = BlockRule() if rule is None else rule
        self.reader = reader
        self.moments: list[tuple] = []
        self.source, self.names = source, None
        self.checked = CheckedRows(source, self._look, allow_nan=True)
        if not len(self.checked):
            raise ValueError("Found array with 0 sample(s): X has no rows")
        self.lengths, self.starts = self.checked.lengths, self.checked.starts
        self.can_take, self.has_nan = source.can_take, self.checked.has_nan
        self.dtype = self.checked.dtype
        self.n_rows = len(self.checked)
        self.row_counts = np.array([self.n_rows])
        self.__dict__.update(reader.gathered(self.moments))
        #: First rows of the blocks, and the number of rows.
        self.edges = self._edges()
        self.shape = (1, len(reader.features))

    def _look(self, block):
        """Check a block and keep its moments."""
        X, Z = self.reader.observed(block), self.reader.regressors(block)
        self.moments.append(self.reader.moments(X, Z))

    def _edges(self):
        if self.can_take:
            return np.append(np.arange(0, self.n_rows, self.rule.rows), self.n_rows)
        if self.lengths.max() > self.rule.most:
            raise ValueError(
                f"a piece of X has {self.lengths.max()} rows, which have to be read as "
                "a whole, since one long sequence is read backward too: write row "
                f"groups or files of at most {self.rule.most} rows, or .npy files, or "
                "name a column of labels of sequences by groups"
            )
        return np.append(self.starts[self.lengths > 0], self.n_rows)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.edges) - 1

    def _rows(self, k, most=None):
        """Return the rows of a block, or the first of them."""
        if self.can_take:
            stop = self.edges[k + 1] if most is None else self.edges[k] + most
            rows = self.source.take(np.arange(self.edges[k], stop))
        else:
            piece = np.flatnonzero(self.lengths > 0)[k]
            rows = np.concatenate([chunk for _, chunk in self.checked.pieces([piece])])
        return np.asarray(rows, dtype=np.float64)[:most]

    def block(self, k, most=None) -> ObservedSequences:
        """Return a block as a sequence, its first row after that of the block before.

        Rows before it are read again, if rows depend on them.
        """
        reader, rows = self.reader, self._rows(k, most)
        X, Z = reader.observed(rows), reader.regressors(rows)
        order = reader.emission.order
        if order:
            past = np.empty((0, len(reader.features)))
            while k > 0 and len(past) < order:
                k -= 1
                past = np.concatenate([self._rows(k)[:, reader.features], past])
            past = past[-order:]
            X = np.concatenate([past, X])
            X = reader.emission.with_lags(X, np.array([0, len(X)]))[len(past) :]
        offsets = np.array([0, len(X)])
        return ObservedSequences(offsets, X, None, Z if Z.shape[1] else None)

    def blocks(self, size=None):
        """Yield the index of the first row, 0, and all rows in memory."""
        parts = [self.block(k) for k in range(self.n_blocks)]
        whole = ObservedSequences.joined(parts)
        offsets = np.array([0, self.n_rows])
        yield 0, ObservedSequences(offsets, whole.X, None, whole.covariates)

    def covariates_of_blocks(self) -> Iterator[np.ndarray]:
        """Yield the covariates of each block."""
        for k in range(self.n_blocks):
            yield self._rows(k)[:, self.reader.covariates]

    def few(self, most) -> ObservedSequences:
        """Return equidistant pieces as sequences, with about `most` rows in all."""
        if self.n_rows <= most:
            return next(self.blocks())[1]
        count = min(self.rule.pieces, self.n_blocks)
        chosen = np.unique(np.linspace(0, self.n_blocks - 1, count).astype(int))
        parts = [self.block(int(k), most // count) for k in chosen]
        return ObservedSequences.joined(parts)


class Carried(NamedTuple):
    """Filtered probabilities between blocks.

    Attributes
    ----------
    entries : list of ndarray of shape (K,) or None
        Probabilities of the state at the first row of each block given all rows
        before; None of the first block.
    log_likelihood : float
        Log-likelihood of all rows.
    """

    entries: list
    log_likelihood: float


def _entered(block, entry):
    """Return a block that continues a sequence, with probabilities at its first row."""
    if entry is None:
        return block
    fields = (block.offsets, block.X, block.labels, block.covariates)
    return ObservedSequences(*fields, entry[None])


def _filtered(model, X: LongSequence, params) -> Carried:
    """Filter a long sequence; keep the probabilities between its blocks."""
    chain, total, last = model.chain, 0.0, None
    entries: list[np.ndarray | None] = []
    for k in range(X.n_blocks):
        block = X.block(k)
        entry = None
        if last is not None:
            A = chain.expanded(params.chain, _first_covariates(block))[1]
            entry = last @ A.reshape(A.shape[-2:])
        entries.append(entry)
        rows = _entered(block, entry)
        L = model.log_densities(rows, params)
        filtered, value = chain.recursions.filtered_probabilities(
            L, rows.offsets, chain.matrices(params.chain, rows)
        )
        last = filtered[-1]
        total += float(value[0])
    return Carried(entries, total)


@one_blas_thread
def long_log_likelihood(model, X: LongSequence, params) -> float:
    """Return the log-likelihood of a long sequence."""
    return _filtered(model, X, params).log_likelihood


def _with_next(block, L, next_row, after):
    """Return a block and its log-densities with one more row, if there is one.

    Parameters
    ----------
    block : ObservedSequences
        The block.
    L : ndarray of shape (n, K)
        Its log-densities.
    next_row : ndarray of shape (K,) or None
        Those of the row after it; None of the last block.
    after : ndarray of shape (1, n_covariates) or None
        Covariates of that row.

    Returns
    -------
    block : ObservedSequences
        The block.
    L : ndarray of shape (n + 1, K)
        Log-densities.
    """
    if next_row is None:
        return block, L
    Z = block.covariates
    Z = None if Z is None else np.concatenate([Z, after])
    X = np.concatenate([block.X, np.full((1, block.X.shape[1]), np.nan)])
    more = ObservedSequences(np.array([0, len(X)]), X, None, Z)
    return more, np.concatenate([L, next_row[None]])


def _first_covariates(block):
    return None if block.covariates is None else block.covariates[:1]


def _smoothed_backward(model, X: LongSequence, params, entries):
    """Yield the blocks from the last one on, smoothed, with their backward messages.

    Each is smoothed with one more row: the likelihood of all that follows it, by the
    state of the row after it.
    """
    message = after = None
    for k in range(X.n_blocks - 1, -1, -1):
        block, entry = X.block(k), entries[k]
        smoothed, matrices, rows = _smoothed(
            model, block, params, entry, message, after
        )
        yield k, block, smoothed, matrices, rows, (message, after)
        if entry is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                message = np.log(smoothed.gamma[0]) - np.log(entry)
            message = np.where(entry > 0, message, -np.inf)
            after = _first_covariates(block)


def _smoothed(model, block, params, entry, message, after):
    """Smooth a block, given the messages from the rows before and after it."""
    L = model.log_densities(block, params)
    rows, L = _with_next(block, L, message, after)
    rows = _entered(rows, entry)
    matrices = model.chain.matrices(params.chain, rows)
    smoothed = model.chain.recursions.smoothed(L, rows.offsets, matrices)
    return smoothed, matrices, rows


@one_blas_thread
def long_statistics(model, X: LongSequence, params):
    """Return the sums of the statistics of a long sequence, and its log-likelihood.

    A pass forward keeps the probabilities at the first row of each block. A pass
    backward reads each block again.
    """
    carried = _filtered(model, X, params)
    total: Any = 0.0
    passed = _smoothed_backward(model, X, params, carried.entries)
    for _, block, smoothed, matrices, rows, _ in passed:
        sums = model.chain.sums(smoothed, matrices, rows, params.chain)
        R = model.by_emission(smoothed.gamma[: block.n_rows])
        emission = model.emission.statistics(block.X, R, params.emission)
        total = total + np.concatenate([sums, emission])
    return total, carried.log_likelihood


def long_probabilities(model, X: LongSequence, params) -> Iterator[np.ndarray]:
    """Yield the probabilities of the states of each block given all rows.

    The passes of `long_statistics` leave what follows each block, by the state of the
    row after it; a third one smooths the blocks in their order.
    """
    entries, later = _filtered(model, X, params).entries, {}
    for k, *_, after in _smoothed_backward(model, X, params, entries):
        later[k] = after
    for k in range(X.n_blocks):
        block = X.block(k)
        smoothed = _smoothed(model, block, params, entries[k], *later[k])[0]
        yield model.chain.probabilities_of_states(smoothed.gamma[: block.n_rows])


def long_paths(model, X: LongSequence, params) -> Iterator[np.ndarray]:
    """Yield the states of each block that are the most probable together.

    A pass forward keeps the best log-densities by the state of the first row of each
    block, and a pass backward these states; a third one traces the blocks.
    """
    n_blocks, last = X.n_blocks, None
    entries: list[np.ndarray | None] = []
    for k in range(n_blocks):
        block, entry = X.block(k), None
        if last is not None:
            A = model.chain.expanded(params.chain, _first_covariates(block))[1]
            with np.errstate(divide="ignore"):
                entry = (last[:, None] + np.log(A.reshape(A.shape[-2:]))).max(axis=0)
        entries.append(entry)
        last = _traced(model, block, params, entry)[1]
    following: dict[int, Any] = {n_blocks - 1: (None, None)}
    for k in range(n_blocks - 1, 0, -1):
        block = X.block(k)
        first = _traced(model, block, params, entries[k], *following[k])[0][0]
        row = np.where(np.arange(model.chain.n_hidden) == first, 0.0, -np.inf)
        following[k - 1] = (row, _first_covariates(block))
    for k in range(n_blocks):
        block = X.block(k)
        states = _traced(model, block, params, entries[k], *following[k])[0]
        yield model.chain.path_of_states(states[: block.n_rows])


@one_blas_thread
def _traced(model, block, params, entry, next_row=None, after=None):
    """Return the most probable states of a block, and log-densities by the last one."""
    L = model.log_densities(block, params)
    rows, L = _with_next(block, L, next_row, after)
    matrices = model.chain.matrices(params.chain, rows)
    states, ends = best_paths(L, rows.offsets, matrices, entry)
    return states, ends[0]
