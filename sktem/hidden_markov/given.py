"""Rows and known states as users give them."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _num_samples,
)

from sktem.emissions import Categorical, Columns, Emission
from sktem.emissions.labels import label_places
from sktem.emissions.names import emission_named
from sktem.emissions.observed import check_counts, check_observed
from sktem.emissions.tables import Table, is_frame, label_columns
from sktem.hidden_markov.covariates import checked_covariates
from sktem.hidden_markov.rows import ObservedSequences
from sktem.sequences.given import given_rows, offsets_of
from sktem.validation import validate_data, without_mask

__all__ = [
    "categories_of",
    "check_enough",
    "check_ignored",
    "check_observed_columns",
    "check_warm",
    "shape_of_fit",
    "emission_of",
    "observed_sequences",
    "table_of",
    "table_of_blocks",
]


def emission_of(estimator) -> Emission:
    """Return the emission of an estimator, for the columns of its table of labels."""
    if estimator._table is not None:
        return estimator._table.emission
    return emission_named(estimator.emission)


def categories_of(estimator) -> dict:
    """Return the labels of columns, by their indices."""
    return {} if estimator._table is None else estimator._table.categories


def table_of(estimator, X, groups, lengths) -> Table | None:
    """Return how labels become numbers, None for rows of numbers."""
    X, emission = given_rows(X, groups, lengths).X, estimator.emission
    if not (_needs_table(emission) or (is_frame(X) and label_columns(X))):
        return None
    X = X if is_frame(X) else without_mask(X)
    if len(X.shape) != 2 or not min(X.shape):
        return None
    return _with_declared(Table(X, emission), estimator)


def table_of_blocks(estimator, source, features) -> Table | None:
    """Return the same of the features of rows that are read by blocks."""
    emission = estimator.emission
    if not (_needs_table(emission) or label_places(source, features)):
        return None
    return _with_declared(Table.of_rows(source, emission, features), estimator)


def _needs_table(emission):
    """Return whether an emission is of labels, or of columns that may be named."""
    is_meant = isinstance(emission, (Categorical, Columns))
    return is_meant or (isinstance(emission, str) and emission == "categorical")


def _with_declared(table, estimator):
    """Return a table that knows the codes of probabilities to begin with."""
    given = estimator.emission_init
    p = np.asarray(given.get("probabilities", 0) if isinstance(given, dict) else 0)
    if p.ndim == 3 and isinstance(table.emission, Categorical):
        L, some = p.shape[2], np.any(p != 0, axis=0)
        counts = L - some[:, ::-1].argmax(axis=1)
        # Columns with fewer codes than others end with zeros.
        table.declare(counts if counts.max() == L else np.full(len(counts), L))
    return table


def _rows_of_numbers(estimator, X, reset):
    """Return checked rows, with codes for labels."""
    table = estimator._table
    if table is not None and not is_frame(X):
        X = without_mask(X)
    labelled = is_frame(X) or (table is not None and X.dtype.kind in "OUS")
    if table is not None and labelled and len(X.shape) == 2:
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
        return table.encode(X)
    rows = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=np.float64,
        order="C",
        ensure_all_finite="allow-nan",
    )
    return rows if table is None or not table.has_labels else table.encode(rows)


def observed_sequences(
    estimator,
    X,
    groups=None,
    lengths=None,
    *,
    states=None,
    covariates=None,
    reset=False,
) -> ObservedSequences:
    """Return checked sequences of the data of a user.

    Parameters
    ----------
    estimator : HiddenMarkovModel
        The estimator, whose columns are set or checked.
    X : array-like of shape (n_rows, n_features), or list of such
        The rows.
    groups : array-like of shape (n_rows,), str, int or None, default=None
        Labels of adjacent rows, or their column.
    lengths : array-like of int or None, default=None
        Numbers of rows of the sequences.
    states : array-like of shape (n_rows,) or None, default=None
        Known states, -1 where they are not.
    covariates : array-like of shape (n_rows, n_covariates) or None, default=None
        Covariates of the transitions.
    reset : bool, default=False
        Whether columns are set.

    Returns
    -------
    ObservedSequences
        The sequences.
    """
    data = given_rows(X, groups, lengths)
    rows = _rows_of_numbers(estimator, data.X, reset)
    offsets = data.offsets
    if offsets is None:
        offsets = offsets_of(len(rows), data.groups, lengths)
    emission = emission_of(estimator)
    emission.check(rows)
    if emission.order:
        rows = emission.with_lags(rows, offsets)
    count = None if reset else estimator._n_covariates
    return ObservedSequences(
        offsets,
        rows,
        _known_states(states, len(rows), estimator),
        checked_covariates(covariates, len(rows), count),
    )


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


def check_observed_columns(estimator, X) -> None:
    """Raise if a column has never been observed."""
    names = getattr(estimator, "feature_names_in_", None)
    if not X.in_memory:
        check_counts(X.n_observed, names, emission_of(estimator))
        return
    rows = X.X[:, : estimator.n_features_in_]
    check_observed(rows, names, emission_of(estimator))


def _known_states(states, n_rows, estimator):
    """Return known states as integers, None without any."""
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
    searched = isinstance(estimator.n_states, str)
    n_states = n_rows if searched else estimator.n_states
    if values.min(initial=0) < -1 or values.max(initial=0) >= n_states:
        raise ValueError(
            f"states must be from 0 to {n_states - 1}, or -1; got "
            f"{values.min()} to {values.max()}"
        )
    return values if (values >= 0).any() else None


def check_enough(estimator, X) -> None:
    """Raise if there are fewer rows than states."""
    K, n = estimator.n_states, X.n_rows
    if not isinstance(K, str) and n < K:
        raise ValueError(
            f"Expected n_samples >= n_states but got n_states = {K}, n_samples = {n}"
        )


def shape_of_fit(
    n_states, emission, categories, has_durations, n_features, n_covariates
) -> dict:
    """Return the kind of a fit, which warm starts may not change, by name."""
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
