"""Sequences that are read by blocks: from files, or with Dask."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.tables import n_columns_of
from sktem.hidden_markov.given import BlockReader, TableReader
from sktem.hidden_markov.logit_chain import CovariateScale
from sktem.hidden_markov.long_sequence import LongSequence
from sktem.hidden_markov.rows import ObservedSequences
from sktem.rows.base import Rows
from sktem.rows.files import names_files
from sktem.rows.sources import rows_by_blocks
from sktem.sequences.blocks import (
    Roles,
    SequenceBlocks,
    place_of,
    sequence_blocks,
    with_codes,
)
from sktem.sequences.given import offsets_of

__all__ = [
    "answers_of",
    "SeriesColumns",
    "SeriesRoles",
    "n_covariates_of",
    "scale_of",
    "source_of",
]


class SeriesRoles(Roles):
    """Columns of rows in the order of time.

    Parameters
    ----------
    groups : int
        Column of the labels.
    reader : BlockReader
        What is read of the others.
    """

    def __init__(self, groups, reader):
        self.groups = groups
        self.reader = reader
        self.features = reader.features

    def summary(self, block):
        """Return labels, numbers of rows, moments of covariates, observed features."""
        labels = block[:, self.groups]
        if np.isnan(labels).any():
            raise ValueError("groups has no label in some rows (NaN)")
        offsets = _offsets(labels)
        firsts = labels[offsets[:-1]]
        if len(np.unique(firsts)) < len(firsts):
            offsets_of(len(labels), groups=labels)  # raises, and names a label
        X, Z = self.reader.observed(block), self.reader.regressors(block)
        return firsts, np.diff(offsets), *self.reader.moments(X, Z)

    def grouped(self, block) -> ObservedSequences:
        """Return the sequences of a block of rows."""
        reader, offsets = self.reader, _offsets(block[:, self.groups])
        X, Z = reader.observed(block), reader.regressors(block)
        if reader.emission.order:
            X = reader.emission.with_lags(X, offsets)
        return ObservedSequences(offsets, X, None, Z if Z.shape[1] else None)

    def gathered(self, extras):
        """Return ranges and sums of the covariates, and counts of observed features."""
        return self.reader.gathered(extras)


def _offsets(labels):
    """Return where labels change, and the ends."""
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    return np.concatenate([[0], changes, [len(labels)]]).astype(np.int64)


def source_of(X):
    """Return a reader of X by blocks, None of rows in memory or a list of arrays."""
    if isinstance(X, (list, tuple)) and not names_files(X):
        return None
    return rows_by_blocks(X)


class SeriesColumns(NamedTuple):
    """Columns of rows that are read by blocks.

    Attributes
    ----------
    source : Rows
        The rows, with codes for labels of sequences.
    groups : int or None
        Column of these labels; None of one sequence.
    features, covariates : list of int
        Columns of what is observed, and of the covariates of transitions.
    """

    source: Rows
    groups: int | None
    features: list[int]
    covariates: list[int]

    @classmethod
    def of(cls, source, groups, covariates) -> SeriesColumns:
        """Return the columns that names or indices choose, the others observed."""
        places = [] if groups is None else [place_of(source, groups, "groups")]
        names = [] if covariates is None else covariates
        names = [names] if np.ndim(names) == 0 else names
        others = [place_of(source, name, "covariates") for name in names]
        if len({*places, *others}) < len(places) + len(others):
            raise ValueError("groups and covariates must be different columns of X")
        source = with_codes(source, *places) if places else source
        count = n_columns_of(source)
        features = [j for j in range(count) if j not in (*places, *others)]
        return cls(source, places[0] if places else None, features, others)

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    def names(self) -> list | None:
        """Names of the features."""
        names = self.source.names
        return None if names is None else [names[j] for j in self.features]

    def check_covariates(self, count) -> None:
        """Raise if there are not as many covariates as in the fit."""
        if len(self.covariates) != count:
            raise ValueError(
                f"the transitions of this model depend on {count} covariate(s), and "
                f"covariates names {len(self.covariates)} columns"
            )

    def sequences(self, reader: TableReader) -> SequenceBlocks | LongSequence:
        """Return the sequences of the rows."""
        source, table = self.source, reader.table
        if table is not None:
            source, table = table.read(source, self.features), table.of_codes()
        columns = np.array(self.features), np.array(self.covariates, int)
        what = BlockReader(*columns, reader.emission, table, reader.names)
        if self.groups is not None:
            roles = SeriesRoles(self.groups, what)
            return sequence_blocks(source, roles, allow_nan=True)
        if source.is_remote:
            raise ValueError(
                "a Dask collection needs groups, the name or the index of its column "
                "of labels of sequences, which one partition has as a whole"
            )
        return LongSequence(source, what)


def scale_of(X, centre=None) -> CovariateScale | None:
    """Return the scale of the covariates of sequences, None without any."""
    if X.in_memory:
        return None if X.covariates is None else CovariateScale.of(X.covariates, centre)
    if not n_covariates_of(X):
        return None
    low, high, sums = X.covariate_range
    centre = sums / X.n_rows if centre is None else centre
    if isinstance(X, LongSequence):
        values = X.covariates_of_blocks()
    else:
        values = (rows.covariates for _, rows in X.blocks())
    squares = sum(((Z - centre) ** 2).sum(axis=0) for Z in values)
    return CovariateScale.of_range(centre, np.sqrt(squares / X.n_rows), low, high)


def n_covariates_of(X) -> int:
    """Return the number of covariates of sequences."""
    if not X.in_memory:
        return len(X.covariate_range[0])
    return 0 if X.covariates is None else X.covariates.shape[1]


def answers_of(X, function, of_long):
    """Return answers about rows: an iterator of those of blocks, where X is read so.

    Parameters
    ----------
    X : ObservedSequences, SequenceBlocks or LongSequence
        The rows.
    function, of_long : callable
        Return the answer about rows in memory, and an iterator of those about the
        blocks of one long sequence.

    Returns
    -------
    ndarray or iterator of ndarray
        The answers.
    """
    if X.in_memory:
        return function(X)
    if isinstance(X, LongSequence):
        return of_long(X)
    return (function(rows) for _, rows in X.blocks())
