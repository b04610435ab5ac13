"""Checks of the data and of the start that users give."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _num_samples,
)

from sktem.choices import check_names
from sktem.emissions import Categorical, Columns, Emission
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.labels import label_places
from sktem.emissions.names import emission_named
from sktem.emissions.observed import check_counts, check_observed
from sktem.emissions.tables import Table, is_frame, label_columns
from sktem.hidden_markov.covariates import checked_covariates
from sktem.hidden_markov.durations import durations_of
from sktem.hidden_markov.model import HiddenMarkovParams
from sktem.hidden_markov.rows import ObservedSequences
from sktem.hidden_markov.segment_chain import SegmentParams, staying
from sktem.hidden_markov.stationary import joined_states, stationary
from sktem.sequences.given import given_rows, offsets_of
from sktem.validation import validate_data, without_mask

__all__ = [
    "categories_of",
    "check_enough",
    "check_ignored",
    "check_observed_columns",
    "check_possible",
    "check_warm",
    "emission_of",
    "observed_sequences",
    "probabilities_of",
    "settings_of_emission",
    "states_of",
    "table_of",
    "table_of_blocks",
    "with_given_values",
]

#: Sums of probabilities may differ from 1 by as much.
TOLERANCE = 1e-6


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


def states_of(estimator) -> int:
    """Return the number of states, the selected one after a search."""
    is_searched = isinstance(estimator.n_states, str)
    return estimator.n_states_ if is_searched else estimator.n_states


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


def emission_of_states(estimator) -> np.ndarray | None:
    """Return which emission each state has, None where each has its own."""
    if estimator.tied_emissions is None:
        return None
    tied, K = np.asarray(estimator.tied_emissions), states_of(estimator)
    if tied.shape != (K,) or not np.array_equal(np.unique(tied), range(max(tied) + 1)):
        raise ValueError(
            f"tied_emissions must have {K} integers that count from 0 without gaps, "
            f"got {estimator.tied_emissions!r}"
        )
    return tied


def settings_of_emission(estimator) -> dict:
    """Return the settings of a model that are about the emission."""
    given = estimator.fixed
    fixed = (given,) if isinstance(given, str) else tuple(given)
    is_fixed = "emission" in fixed
    fields = () if is_fixed else emission_of(estimator).separate
    return {
        "emission_of_state": emission_of_states(estimator),
        "fixed_emission": is_fixed,
        "held": tuple(name for name in fields if name in fixed),
        "n_jobs": estimator.n_jobs,
    }


def with_given_values(estimator, model, params) -> HiddenMarkovParams:
    """Return parameters with the values that a user has given in their place."""
    K = states_of(estimator)
    start, transitions = params.chain.start, params.chain.transitions
    if estimator.start_init is not None:
        start = probabilities_of("start_init", estimator.start_init, (K,))
    if estimator.transitions_init is not None:
        transitions = probabilities_of(
            "transitions_init", estimator.transitions_init, (K, K)
        )
        if estimator.durations is not None:
            stays = np.diagonal(transitions)
            if ((stays > 0) & (stays < 1)).any():
                raise ValueError(
                    "transitions_init must have 0 on its diagonal with durations, "
                    "which say how long states last, or 1 for a state that is never "
                    f"left; got {stays}"
                )
            if not isinstance(params.chain, SegmentParams):
                transitions = staying(transitions)
    if model.chain.is_stationary:
        if not joined_states(transitions):
            raise ValueError(
                "start='stationary' needs transitions_init that lead from every state "
                f"to every other; got {transitions}"
            )
        start = stationary(transitions)
    emission = params.emission
    if estimator.emission_init is not None:
        values = estimator.emission_init
        emission = _with_emission_values(model.emission, emission, values)
    chain = params.chain._replace(start=start, transitions=transitions)
    durations = durations_of(estimator.durations)
    if durations is not None and isinstance(params.chain, SegmentParams):
        table = durations.init
        if table is not None:
            table = probabilities_of("init of durations", table, chain.durations.shape)
            chain = chain._replace(durations=table)
    return HiddenMarkovParams(chain, emission)


def probabilities_of(name, value, shape) -> np.ndarray:
    """Return probabilities along the last axis that a user has given."""
    array = np.array(value, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, got {array.shape}")
    if not (array >= 0).all():
        raise ValueError(f"{name} must not have negative values or NaN")
    sums = array.sum(axis=-1)
    if (np.abs(sums - 1.0) > TOLERANCE).any():
        raise ValueError(f"{name} must have sums of 1, got {sums}")
    return array / sums[..., None]


def check_enough(estimator, X) -> None:
    """Raise if there are fewer rows than states."""
    K, n = estimator.n_states, X.n_rows
    if not isinstance(K, str) and n < K:
        raise ValueError(
            f"Expected n_samples >= n_states but got n_states = {K}, n_samples = {n}"
        )


def check_warm(estimator, n_features, n_covariates) -> None:
    """Raise if a fit cannot begin with the parameters of the one before."""
    kinds = [
        (type(emission), emission.order, getattr(emission, "covariance_type", None))
        for emission in (estimator.emission_, emission_of(estimator))
    ]
    labels = [
        {index: known.tolist() for index, known in categories.items()}
        for categories in (estimator.categories_, categories_of(estimator))
    ]
    changes = {
        "n_states": len(estimator.start_) != states_of(estimator),
        "emission": kinds[0] != kinds[1],
        "the labels of X": labels[0] != labels[1],
        "durations": (estimator.durations is None) == hasattr(estimator, "durations_"),
        "the number of columns of X": n_features != estimator.n_features_in_,
        "the number of covariates": n_covariates != estimator._n_covariates,
    }
    changed = [name for name, has_changed in changes.items() if has_changed]
    if changed:
        raise ValueError(
            f"warm_start begins with the last fit, after which {', '.join(changed)} "
            "changed: take warm_start=False"
        )


def check_possible(model, X, params) -> None:
    """Raise if known states or zeros of the start exclude all paths of a sequence."""
    values = model.log_likelihood_of_sequences(X, params)
    if (values == -np.inf).any():
        raise ValueError(
            f"sequence {int(np.flatnonzero(values == -np.inf)[0])} is impossible: "
            "states that are known, or zeros of start_init, transitions_init or "
            "emission_init, exclude all its paths"
        )


def _with_emission_values(emission, params, values):
    """Return parameters of an emission with values that a user has given."""
    check_names("emission_init", values, params._fields, "parameters")
    fields = {}
    for name, value in values.items():
        before = getattr(params, name)
        if isinstance(value, dict) and hasattr(before, "_fields"):
            fields[name] = _with_emission_values(emission.component, before, value)
            continue
        before = np.asarray(before)
        fields[name] = np.array(value, dtype=before.dtype)
        if np.isnan(fields[name]).any():
            raise ValueError(f"emission_init[{name!r}] must not have NaN")
        if name in emission.distributions:
            what = f"emission_init[{name!r}]"
            fields[name] = probabilities_of(what, fields[name], before.shape)
        if name in emission.non_negative and (fields[name] < 0).any():
            raise ValueError(f"emission_init[{name!r}] must not be negative")
        if fields[name].shape != before.shape:
            raise ValueError(
                f"emission_init[{name!r}] must have the shape {before.shape}, got "
                f"{fields[name].shape}"
            )
    params = params._replace(**fields)
    if "covariances" in fields and "precisions_cholesky" in params._fields:
        structure = COVARIANCES[emission.covariance_type](*params.means.shape)
        try:
            factors = structure.precisions_cholesky(params.covariances)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "emission_init['covariances'] must be positive definite"
            ) from error
        params = params._replace(precisions_cholesky=factors)
    return params
