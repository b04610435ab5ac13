"""Sequences of observed rows."""

from __future__ import annotations

import numpy as np

from sktem import budget
from sktem.sequences.rows import Sequences

__all__ = ["ObservedSequences", "each_part"]


class ObservedSequences(Sequences):
    """Sequences of rows, in the order of time.

    Parameters
    ----------
    offsets : ndarray of int of shape (n_sequences + 1,)
        Where the rows of each sequence begin.
    X : ndarray of shape (n_rows, n_features)
        What was observed; NaN is not observed.
    labels : ndarray of int of shape (n_rows,) or None, default=None
        Known states, -1 where the state is not known.
    covariates : ndarray of shape (n_rows, n_covariates) or None, default=None
        Covariates of the transitions from each row to the next.
    entry : ndarray of shape (n_sequences, n_states) or None, default=None
        Probabilities of the states at first rows of sequences that continue others, as
        the chain carries them; NaN for those that begin.
    unseen : bool, default=False
        Whether the first rows of sequences that continue others are the last ones of
        these, which count for transitions, and not for the emission.
    """

    by_row = ("X", "labels", "covariates")
    by_sequence = ("entry",)
    shared = ("unseen",)

    X: np.ndarray
    labels: np.ndarray | None
    covariates: np.ndarray | None
    entry: np.ndarray | None
    unseen: bool

    def __init__(
        self, offsets, X, labels=None, covariates=None, entry=None, unseen=False
    ):
        fields = {"labels": labels, "covariates": covariates, "entry": entry}
        super().__init__(offsets, X=X, unseen=unseen, **fields)

    def seen(self) -> np.ndarray | slice:
        """Return a mask of the rows of the emission, all as a slice."""
        if not self.unseen:
            return slice(None)
        mask = np.ones(self.n_rows, dtype=bool)
        mask[self.offsets[:-1][(self.lengths > 0) & ~self.begins]] = False
        return mask

    @property
    def begins(self) -> np.ndarray:
        """Mask of the sequences that have rows and do not continue others."""
        used = self.lengths > 0
        return used if self.entry is None else used & np.isnan(self.entry[:, 0])

    def starts(self, start) -> np.ndarray:
        """Return probabilities of first states of sequences, given those of a chain."""
        if self.entry is None:
            return start
        return np.where(np.isnan(self.entry), start, self.entry)

    def continued(self, before: np.ndarray) -> ObservedSequences:
        """Return the same with a first sequence that continues another one.

        The row before it is put in front of it, with the probabilities of its states.
        """

        def longer(values, blank):
            if values is None:
                return None
            first = np.full((1, *values.shape[1:]), blank, dtype=values.dtype)
            return np.concatenate([first, values])

        offsets = self.offsets + 1
        offsets[0] = 0
        entry = np.full((len(self), len(before)), np.nan)
        entry[0] = before
        covariates = self.covariates
        if covariates is not None:
            covariates = np.concatenate([covariates[:1], covariates])
        X, labels = longer(self.X, np.nan), longer(self.labels, -1)
        return ObservedSequences(offsets, X, labels, covariates, entry, True)

    @property
    def shape(self):
        """Number of sequences, and of features."""
        return len(self), self.X.shape[1]


def each_part(X: ObservedSequences):
    """Yield slices of whole sequences that have few rows, but at least one sequence.

    Arrays of a pass, four of a number for each row and state, stay in the cache. Parts
    of fewer rows than 8,192 would spend their time between compiled functions, even
    with many states.
    """
    n, first, n_rows = len(X), 0, max(budget.MEMORY.cached // 32, 1)
    while first < n:
        limit = X.offsets[first] + n_rows
        stop = int(np.searchsorted(X.offsets, limit, side="right")) - 1
        stop = min(max(stop, first + 1), n)
        yield slice(first, stop)
        first = stop
