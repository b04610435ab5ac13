"""Covariates of transitions as users give them."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_array

from sktem.choices import did_you_mean

__all__ = [
    "checked_covariates",
    "columns_of_covariates",
    "future_covariates_of",
    "future_exog_of",
    "without_covariates",
]


def without_covariates(X, covariates):
    """Return rows without columns that are covariates by name, and the covariates.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns), or list of such
        The rows.
    covariates : array-like, str, sequence of str, or None
        Values of the covariates, or the names of their columns in a data frame.

    Returns
    -------
    X : array-like
        The rows without these columns.
    covariates : array-like or None
        The values, those of a list of sequences in one array.
    """
    if (names := _names_of_covariates(covariates)) is not None:
        if isinstance(X, (list, tuple)):
            parts = [without_covariates(part, names) for part in X]
            return [part for part, _ in parts], np.concatenate([z for _, z in parts])
        columns = list(getattr(X, "columns", ()))
        for name in names:
            if name not in columns:
                raise ValueError(
                    f"covariates must be values, or names of columns of a data frame "
                    f"X: {columns}, got {name!r}{did_you_mean(name, columns)}"
                )
        values = np.column_stack([np.asarray(X[name]) for name in names])
        return X[[name for name in columns if name not in names]], values
    if isinstance(covariates, (list, tuple)) and isinstance(X, (list, tuple)):
        lengths = [np.shape(block)[0] for block in covariates if np.ndim(block)]
        if lengths != [len(part) for part in X]:
            raise ValueError(
                "covariates must have an array for each of the arrays of X, with a row "
                "for each of theirs"
            )
        parts = [_columns(block) for block in covariates]
        covariates = np.concatenate(parts)
    return X, covariates


def _names_of_covariates(covariates) -> list | None:
    """Return the names that covariates are, None of values."""
    names = [covariates] if isinstance(covariates, str) else covariates
    is_list = isinstance(names, (list, tuple)) and len(names) > 0
    by_name = is_list and all(isinstance(name, str) for name in names)
    return list(names) if by_name else None


def columns_of_covariates(covariates) -> list | None:
    """Return the names of the columns of covariates, None without any."""
    is_list = isinstance(covariates, (list, tuple)) and len(covariates) > 0
    values = covariates[0] if is_list else covariates
    if hasattr(values, "columns"):
        return list(values.columns)
    if hasattr(values, "to_frame") and values.name is not None:  # a column of a frame
        return [values.name]
    return _names_of_covariates(covariates)


def _columns(values) -> np.ndarray:
    """Return an array of columns."""
    values = np.asarray(values)
    return values[:, None] if values.ndim == 1 else values


def checked_covariates(covariates, n_rows, n_columns=None, name="covariates"):
    """Return covariates as an array of finite numbers, with a row for each row.

    Parameters
    ----------
    covariates : array-like of shape (n_rows,) or (n_rows, n_columns), or None
        The values.
    n_rows : int
        Number of rows.
    n_columns : int or None, default=None
        Columns of a fitted model, 0 of one without; None before a fit.
    name : str, default="covariates"
        Name in errors.

    Returns
    -------
    ndarray of shape (n_rows, n_columns) or None
        The values.
    """
    if covariates is None:
        if n_columns:
            raise ValueError(
                f"the transitions of this model depend on {n_columns} covariate(s): "
                f"pass {name}"
            )
        return None
    if n_columns == 0:
        raise ValueError(
            f"the model was fitted without covariates, but {name} is given"
        )
    values = check_array(
        _columns(covariates), dtype=np.float64, input_name=name, ensure_min_samples=0
    )
    wanted = (n_rows, values.shape[1] if n_columns is None else n_columns)
    if values.shape != wanted:
        raise ValueError(f"{name} must have the shape {wanted}, got {values.shape}")
    return values


def future_covariates_of(
    values, n_sequences, steps, n_columns, name="future_covariates"
) -> np.ndarray | None:
    """Return the covariates of rows to come, (steps, n_sequences, n_columns)."""
    if values is not None:
        values = _of_steps(values, n_sequences, steps, n_columns, name)
    covariates = checked_covariates(values, steps * n_sequences, n_columns, name)
    return None if covariates is None else covariates.reshape(steps, n_sequences, -1)


def future_exog_of(values, n_sequences, steps, emission) -> np.ndarray | None:
    """Return the regressors of rows to come, (steps, n_sequences, n_exog)."""
    if values is None:
        return None
    if not len(emission.exog):
        raise ValueError(
            "future_exog is of a Regression with exog, or an Autoregression; the "
            f"emission is {emission!r}"
        )
    count = len(emission.exog)
    return future_covariates_of(values, n_sequences, steps, count, "future_exog")


def _of_steps(values, n_sequences, steps, n_columns, name):
    """Return values of rows to come, (steps * n_sequences, n_columns)."""
    values = np.asarray(values)
    full = (n_sequences, steps, n_columns)
    if values.shape in ((steps,), full[:2]) and n_columns == 1:
        values = values[..., None]
    if values.shape == full[1:]:
        values = np.broadcast_to(values, full)
    if n_columns and values.shape != full:
        raise ValueError(
            f"{name} must have the shape {full[1:]} for all sequences, "
            f"or {full}, got {values.shape}"
        )
    return np.swapaxes(values, 0, 1).reshape(steps * n_sequences, -1)
