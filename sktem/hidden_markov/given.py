"""Rows and known states as users give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import _num_samples

from sktem.emissions import Categorical, Columns, Emission
from sktem.emissions.labels import label_places
from sktem.emissions.names import emission_named
from sktem.emissions.observed import check_counts, check_observed
from sktem.emissions.tables import Table, is_frame, label_columns
from sktem.emissions.wording import check_named
from sktem.hidden_markov.rows import ObservedSequences
from sktem.validation import without_mask

__all__ = [
    "BlockReader",
    "TableReader",
    "check_enough",
    "check_ignored",
    "check_warm",
    "kind_of_fit",
    "known_states",
]


@dataclass(frozen=True)
class TableReader:
    """Emission of the columns of a fit, and the codes of their labels.

    Attributes
    ----------
    emission : Emission
        What is observed given a state, with indices of columns.
    table : Table or None
        How labels become numbers, None for rows of numbers.
    names : list or None
        Names of the columns, None without any.
    """

    emission: Emission
    table: Table | None = None
    names: list | None = None

    @classmethod
    def of(cls, X, emission, emission_init=None) -> TableReader:
        """Return the reader of a table in memory."""
        table = None
        if _needs_table(emission) or (is_frame(X) and label_columns(X)):
            X = X if is_frame(X) else without_mask(X)
            if len(X.shape) == 2 and min(X.shape):
                table = Table(X, emission)
        names = list(X.columns) if is_frame(X) else None
        return cls._with_declared(table, emission, emission_init, names)

    @classmethod
    def of_blocks(cls, source, features, emission, emission_init=None) -> TableReader:
        """Return the same of the features of rows that are read by blocks."""
        table = None
        if _needs_table(emission) or label_places(source, features):
            table = Table.of_rows(source, emission, features)
        names = source.names and [source.names[j] for j in features]
        return cls._with_declared(table, emission, emission_init, names)

    @classmethod
    def _with_declared(cls, table, emission, given, names):
        """Return a reader that knows the codes of probabilities to begin with."""
        if table is None:
            return cls(emission_named(emission), None, names)
        p = np.asarray(given.get("probabilities", 0) if isinstance(given, dict) else 0)
        if p.ndim == 3 and isinstance(table.emission, Categorical):
            L, some = p.shape[2], np.any(p != 0, axis=0)
            counts = L - some[:, ::-1].argmax(axis=1)
            # Columns with fewer codes than others end with zeros.
            table.declare(counts if counts.max() == L else np.full(len(counts), L))
        return cls(table.emission, table, names)

    @property
    def categories(self) -> dict:
        """Labels of columns, by their indices."""
        return {} if self.table is None else self.table.categories

    def rows(self, X, check) -> np.ndarray:
        """Return rows with codes for labels; ``check`` is scikit-learn's for X."""
        table = self.table
        if table is not None and not is_frame(X):
            X = without_mask(X)
        labelled = is_frame(X) or (table is not None and X.dtype.kind in "OUS")
        if table is not None and labelled and len(X.shape) == 2:
            check(X, skip_check_array=True)
            return table.encode(X)
        rows = check(X, dtype=np.float64, order="C", ensure_all_finite="allow-nan")
        return rows if table is None or not table.has_labels else table.encode(rows)

    def sequences(self, rows, offsets, states=None, covariates=None):
        """Return sequences of checked rows."""
        check_named(self.emission, rows, self.names)
        if self.emission.order:
            rows = self.emission.with_lags(rows, offsets)
        return ObservedSequences(offsets, rows, states, covariates)

    def check_observed(self, X, n_features) -> None:
        """Raise if a column has never been observed."""
        if X.in_memory:
            check_observed(X.X[:, :n_features], self.names, self.emission)
        else:
            check_counts(X.n_observed, self.names, self.emission)

    def with_numbers(self, rows):
        """Return rows with labels that are numbers in the place of codes."""
        return rows if self.table is None else self.table.with_numbers(rows)

    def decoded(self, rows, names, like=None):
        """Return rows as a table with labels, if it was one that has been learned."""
        if self.table is None:
            return rows
        return self.table.decode(rows, None if is_frame(like) else names, like)


class BlockReader(NamedTuple):
    """Columns of blocks of rows in the order of time, and codes of their labels.

    Attributes
    ----------
    features, covariates : ndarray of int
        Columns of what is observed, and of the covariates of transitions.
    emission : Emission
        What is observed given a state.
    table : Table or None, default=None
        How labels of features become numbers.
    names : list or None, default=None
        Names of the features.
    """

    features: np.ndarray
    covariates: np.ndarray
    emission: Emission
    table: Table | None = None
    names: list | None = None

    def observed(self, block) -> np.ndarray:
        """Return the features, with codes for labels."""
        X = np.ascontiguousarray(block[:, self.features], dtype=np.float64)
        return X if self.table is None else self.table.encode(X)

    def regressors(self, block) -> np.ndarray:
        """Return the covariates."""
        return np.ascontiguousarray(block[:, self.covariates], dtype=np.float64)

    def moments(self, X, Z) -> tuple:
        """Return moments of covariates, and counts of observed features, checked."""
        check_named(self.emission, X, self.names)
        if np.isnan(Z).any():
            raise ValueError("Input covariates contains NaN.")
        n_observed = np.count_nonzero(~np.isnan(X), axis=0)
        return Z.min(axis=0), Z.max(axis=0), Z.sum(axis=0), n_observed

    @staticmethod
    def gathered(moments) -> dict:
        """Return ranges and sums of the covariates, and counts of observed features."""
        low, high, sums, counts = (np.array(x) for x in zip(*moments, strict=True))
        ranges = low.min(axis=0), high.max(axis=0), sums.sum(axis=0)
        return {"covariate_range": ranges, "n_observed": counts.sum(axis=0)}


def _needs_table(emission):
    """Return whether an emission depends on the kinds of the columns."""
    if isinstance(emission, str):
        return emission in ("categorical", "auto")
    return isinstance(emission, (Categorical, Columns))


def check_ignored(y, X) -> None:
    """Raise if y, which is ignored, has other entries than rows: such as lengths."""
    if y is None or (count := _num_samples(y)) in (X.n_rows, len(X)):
        return
    values = np.asarray(y)
    are_lengths = values.dtype.kind in "iu" and values.sum() == X.n_rows
    raise ValueError(
        f"y is ignored, and has {count} entries where X has {X.n_rows} rows"
        + (": pass lengths of sequences by name, lengths=..." if are_lengths else "")
    )


def known_states(states, n_rows, n_states) -> np.ndarray | None:
    """Return known states as integers, None without any; any may be in a search."""
    if states is None:
        return None
    values = np.asarray(states)
    whole = values.dtype.kind in "biuf" and bool((values == np.round(values)).all())
    if values.shape != (n_rows,) or not whole:
        raise ValueError(
            f"states must have an integer for each of {n_rows} rows, -1 where the "
            f"state is not known; got shape {values.shape} of {values.dtype}"
        )
    values = values.astype(np.int64)
    n_states = n_rows if isinstance(n_states, str) else n_states
    if values.min(initial=0) < -1 or values.max(initial=0) >= n_states:
        raise ValueError(
            f"states must be from 0 to {n_states - 1}, or -1; got "
            f"{values.min()} to {values.max()}"
        )
    return values if (values >= 0).any() else None


def check_enough(K, n) -> None:
    """Raise if there are fewer rows than states."""
    if not isinstance(K, str) and n < K:
        raise ValueError(
            f"Expected n_samples >= n_states but got n_states = {K}, n_samples = {n}"
        )


def kind_of_fit(reader, has_durations, n_states, n_features, n_covariates) -> dict:
    """Return the kind of a fit, which warm starts may not change, by name."""
    emission, categories = reader.emission, reader.categories
    kind = type(emission), emission.order, getattr(emission, "covariance_type", None)
    return {
        "n_states": n_states,
        "emission": kind,
        "the labels of X": {j: known.tolist() for j, known in categories.items()},
        "durations": has_durations,
        "the number of columns of X": n_features,
        "the number of covariates": n_covariates,
    }


def check_warm(before, now) -> None:
    """Raise if a fit cannot begin with the parameters of the one before."""
    changed = [name for name in now if before[name] != now[name]]
    if changed:
        raise ValueError(
            f"warm_start begins with the last fit, after which {', '.join(changed)} "
            "changed: take warm_start=False"
        )
