"""Sequences as users give them: labels of adjacent rows, lengths, or several arrays."""

from __future__ import annotations

import sys
from numbers import Integral

import numpy as np

from sktem.sequences.labels import column_of, is_missing, labelled

__all__ = ["GivenRows", "checked_sequence_weights", "given_rows", "offsets_of"]


class GivenRows:
    """Rows in memory, and where their sequences begin.

    Attributes
    ----------
    X : array-like of shape (n_rows, n_features)
        The rows, not checked.
    offsets : ndarray of int of shape (n_sequences + 1,) or None
        Where sequences begin; None where that is for `groups` and `lengths` to say.
    groups : array-like of shape (n_rows,) or None
        Labels of the rows.
    lengths : array-like of int or None
        Numbers of rows of the sequences.
    """

    def __init__(self, X, offsets=None, groups=None, lengths=None):
        self.X = X
        self.offsets = offsets
        self.groups = groups
        self.lengths = lengths

    def offsets_of(self, n_rows) -> np.ndarray:
        """Return where the sequences of rows begin that have been checked."""
        if self.offsets is not None:
            return self.offsets
        return offsets_of(n_rows, self.groups, self.lengths)


def given_rows(X, groups, lengths) -> GivenRows:
    """Return the rows of a list of arrays, or of a frame with a column of labels.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features), or list of such
        The rows.
    groups : array-like of shape (n_rows,), str, int or None
        Labels of the rows, or their column in a data frame.
    lengths : array-like of int or None
        Numbers of rows of the sequences.

    Returns
    -------
    GivenRows
        Rows, offsets and labels.

    Raises
    ------
    ValueError
        If sequences are given in two ways.
    """
    several = isinstance(X, (list, tuple)) and len(X) > 0
    if several and all(np.ndim(sequence) == 2 for sequence in X):
        if groups is not None or lengths is not None:
            raise ValueError(
                "X is a list of arrays, each a sequence: leave out groups and lengths"
            )
        counts = np.array([len(sequence) for sequence in X])
        offsets = np.concatenate([[0], np.cumsum(counts)])
        sequences = X
        widths = sorted({np.shape(sequence)[1] for sequence in X})
        if len(widths) > 1:
            raise ValueError(
                f"the arrays of X have different numbers of columns: {widths}"
            )
        if hasattr(X[0], "columns"):
            # pandas and polars join frames by a function of the same name.
            library = sys.modules[type(X[0]).__module__.partition(".")[0]]
            sequences = [sequence[list(X[0].columns)] for sequence in X]
            return GivenRows(library.concat(sequences), offsets)
        joined = np.concatenate([np.asarray(sequence) for sequence in sequences])
        return GivenRows(joined, offsets)
    if isinstance(groups, (str, Integral)) and hasattr(X, "columns"):
        names = list(X.columns)
        place = column_of(groups, names, len(names), "groups")
        labels = np.asarray(X[names[place]])
        others = [name for name in names if name != names[place]]
        return GivenRows(X[others], None, labels, lengths)
    if isinstance(groups, str):
        raise ValueError(
            f"groups={groups!r} names a column, for which X has to be a data frame, or "
            "files; pass labels of the rows"
        )
    return GivenRows(X, None, groups, lengths)


def offsets_of(n_rows: int, groups=None, lengths=None) -> np.ndarray:
    """Return where the sequences of rows begin; all rows are one without either.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    groups : array-like of shape (n_rows,) or None, default=None
        Labels; a sequence begins where the label changes.
    lengths : array-like of int or None, default=None
        Numbers of rows of the sequences.

    Returns
    -------
    ndarray of int64 of shape (n_sequences + 1,)
        Indices of first rows, and the number of rows.

    Raises
    ------
    ValueError
        If both are given, rows of a label are not adjacent, or lengths do not add up.

    Examples
    --------
    >>> from sktem.sequences.given import offsets_of
    >>> offsets_of(5, groups=["a", "a", "b", "b", "b"])
    array([0, 2, 5])
    """
    if groups is not None and lengths is not None:
        raise ValueError("pass groups or lengths, not both")
    if lengths is not None:
        counts = np.asarray(lengths)
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise ValueError(f"lengths must be counts of rows, got {lengths!r}")
        if counts.sum() != n_rows:
            raise ValueError(
                f"lengths add up to {counts.sum()}, and X has {n_rows} rows"
            )
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if groups is None:
        return np.array([0, n_rows], dtype=np.int64)
    labels = np.asarray(groups)
    try:
        changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
        firsts = labels[np.append(0, changes)]
    except (TypeError, IndexError):  # labels that are missing, or no row of them
        firsts = labels
    if labels.shape != (n_rows,) or is_missing(firsts).any():
        labelled(groups, n_rows)  # raises
    unique_labels, index = labelled(firsts, len(firsts))
    offsets = np.concatenate([[0], changes, [n_rows]]).astype(np.int64)
    if len(offsets) - 1 > len(unique_labels):
        again = unique_labels[np.flatnonzero(np.bincount(index) > 1)[0]].item()
        raise ValueError(
            f"the rows of group {again!r} are not next to each other: sort the rows by "
            "groups, or give each piece a label of its own"
        )
    return offsets


def checked_sequence_weights(X, sample_weight):
    """Return sequences that have a weight, and the weights, None if all are equal.

    Parameters
    ----------
    X : Sequences
        The sequences.
    sample_weight : array-like of shape (n_rows,) or (n_sequences,), or None
        Non-negative weights of rows, the same in a sequence, or of sequences.

    Returns
    -------
    X : Sequences
        Those of a positive weight and with rows.
    sample_weight : ndarray or None
        Their weights.
    """
    used = X.row_counts > 0
    weights = np.ones(len(X))
    if sample_weight is not None:
        weights = _weights_of_sequences(X, np.asarray(sample_weight, dtype=np.float64))
        used &= weights > 0
        if not (weights > 0).any():
            raise ValueError("sample_weight is zero for all samples")
    if not used.any():
        raise ValueError("no sequence has rows and a positive weight")
    if not used.all():
        if not X.in_memory:
            raise ValueError(
                "sample_weight must be positive where X is read by blocks: leave "
                "sequences out of the rows"
            )
        X, weights = X[np.flatnonzero(used)], weights[used]
    return X, None if (weights == 1).all() else weights


def _weights_of_sequences(X, weights):
    """Return a weight for each sequence, of those of rows or of sequences."""
    if weights.shape not in ((X.n_rows,), (len(X),)) or (
        not X.in_memory and len(weights) != len(X)
    ):
        raise ValueError(
            f"sample_weight must have a weight for each of {X.n_rows} rows, or each of "
            f"{len(X)} sequences, got shape {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must not be negative, NaN or infinite")
    if len(weights) == len(X):
        return weights
    firsts = np.where(X.lengths > 0, X.offsets[:-1], 0)
    first_weights = weights[firsts]
    if (np.repeat(first_weights, X.lengths) != weights).any():
        raise ValueError(
            "sample_weight must be the same in all rows of a sequence: a weight means "
            "repetition, and sequences are repeated as a whole"
        )
    return first_weights
