"""Roles of the columns of X."""

from __future__ import annotations

from numbers import Integral

from sktem.sequences.labels import column_of

__all__ = ["blank_columns", "columns_used", "input_columns", "listed", "unread_columns"]


def listed(columns):
    """Return the covariates of a parameter, which may be one name or index."""
    return (columns,) if isinstance(columns, (str, Integral)) else tuple(columns)


def input_columns(estimator, structure, names, n_columns):
    """Return the columns of the inputs of a library model."""
    wanted = structure.inputs
    keys = estimator.inputs
    if keys is None:
        keys = range(len(wanted))
        if names is not None:
            keys = _by_name(estimator, wanted, names)
    columns = [column_of(key, names, n_columns, "inputs") for key in keys]
    if len(columns) != len(wanted):
        raise ValueError(
            f"model {estimator.model!r} has the inputs {list(wanted)}, got "
            f"inputs={estimator.inputs!r}"
        )
    return columns


def _by_name(estimator, wanted, names):
    """Return the columns named after the inputs, or the only one there is."""
    if set(wanted) <= set(names):
        return list(wanted)
    folded = [str(name).casefold() for name in names]
    if all(folded.count(name) == 1 for name in wanted):
        return [folded.index(name) for name in wanted]
    covariates = estimator.covariates or {}
    others = {key for keys in covariates.values() for key in listed(keys)}
    left = [j for j, name in enumerate(names) if name not in others and j not in others]
    if len(wanted) == len(left) == 1:
        return left
    raise ValueError(
        f"model {estimator.model!r} has the inputs {list(wanted)}, and X has the "
        f"columns {list(names)}: pass inputs, a list of {len(wanted)} of them in that "
        "order"
    )


def unread_columns(estimator, columns, inputs, covariates):
    """Return the columns of an array that a model of the library does not take."""
    if inputs is None or columns.names is not None or estimator.inputs is not None:
        return ()
    return tuple(sorted(set(range(columns.n_columns)) - {*inputs, *covariates}))


def columns_used(estimator, names):
    """Return the names of the columns that a library model reads, None for all."""
    if not isinstance(estimator.model, str) or estimator.inputs is None:
        return None
    keys = list(estimator.inputs)
    for columns in (estimator.covariates or {}).values():
        keys += listed(columns)
    keys += estimator.occasions or ()
    return {names[k] if isinstance(k, Integral) and k < len(names) else k for k in keys}


def blank_columns(estimator, X):
    """Return a data frame with zeros in the columns that are not read.

    A column of labels may stay in X then.
    """
    if not (hasattr(X, "columns") and hasattr(X, "assign")):
        return X
    used = columns_used(estimator, list(X.columns))
    if used is None:
        return X
    others = [name for name in X.columns if name not in used]
    if others:
        X = X.copy(deep=False)
        X[others] = 0.0
    return X
