"""What regressions and autoregressions share: rows before, moments, and errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.spread import Spread

__all__ = [
    "LEAST_VARIANCE",
    "TURNS",
    "check_exog",
    "error_spreads",
    "lagged",
    "possible_moments",
    "pseudo_inverse",
    "rows_before",
]

#: Variances are not below this, of which squares can be taken.
LEAST_VARIANCE = 1e-200


class Turns(NamedTuple):
    """How an M-step finds by turns what has no closed form together.

    Attributes
    ----------
    tol : float
        Change at which it ends: of variances, as a share of these, or of means, in
        standard deviations of the errors.
    max_iter : int
        Rounds at most.
    held : float
        Weight of the means before, as a share of that of the data.
    rcond : float
        Directions of the regressors with less than this share of the largest are none.
    rounding : float
        Eigenvalues of moments above minus this share are rounding errors.
    """

    tol: float = 1e-10
    max_iter: int = 200
    held: float = 1e-8
    rcond: float = 1e-12
    rounding: float = 1e-9


TURNS = Turns()


def check_exog(name, exog, d):
    """Raise ValueError for regressors that are not columns of rows with d of them."""
    exog = list(exog)
    whole = all(isinstance(column, (int, np.integer)) for column in exog)
    if not whole or len(set(exog)) < len(exog) or not set(exog) <= set(range(d)):
        raise ValueError(
            f"exog of {name} must be different columns from 0 to {d - 1}, got {exog!r}"
        )
    if len(exog) == d:
        raise ValueError(f"{name} needs a column that is not in exog")


def lagged(X, columns, offsets, order):
    """Return rows with some columns of the rows before; NaN before the first."""
    since = np.arange(len(X)) - np.repeat(offsets[:-1], np.diff(offsets))
    lags = [X]
    for lag in range(1, order + 1):
        before = np.roll(X[:, columns], lag, axis=0)
        lags.append(np.where((since >= lag)[:, None], before, np.nan))
    return np.concatenate(lags, axis=1) if order else X


def rows_before(X, order):
    """Return the rows on which the row after each one depends, (n, order, m).

    X has all columns with lags. The last one before comes first.
    """
    rows = X.reshape(len(X), 1 + order, -1)[:, :order]
    if np.isnan(rows).any():
        raise ValueError(
            f"the last {order} rows of each sequence must be observed to draw what "
            "follows them"
        )
    return rows


def pseudo_inverse(moments):
    """Return pseudo-inverses of second moments, whatever the units of columns are."""
    scaled, sizes = _without_units(moments)
    return np.linalg.pinv(scaled, rcond=TURNS.rcond, hermitian=True) / sizes


def _without_units(moments):
    """Return second moments of columns over their sizes, and products of the sizes."""
    sizes = np.sqrt(np.maximum(np.diagonal(moments, axis1=-2, axis2=-1), 0.0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    sizes = sizes[..., :, None] * sizes[..., None, :]
    return moments / sizes, sizes


def possible_moments(moments):
    """Return second moments that data can have, and whether these were outside."""
    moments, sizes = _without_units(moments)
    values, vectors = np.linalg.eigh(moments)
    least = -TURNS.rounding * np.abs(values).max(axis=-1, keepdims=True)
    values, left = np.maximum(values, 0.0), bool((values < least).any())
    moments = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return moments * sizes, left


def error_spreads(variances, reg_covar):
    """Return the variances of errors, (K, m), as spreads of columns about zero."""
    zeros, columns = np.zeros_like(variances), np.arange(variances.shape[1])
    return [Spread("diag", zeros, variances, reg_covar, columns, zeros[0])]
