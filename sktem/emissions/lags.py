"""Lagged rows, moments and errors, shared by regressions and autoregressions."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np

from sktem.choices import check_number
from sktem.emissions.base import Emission
from sktem.emissions.magnitudes import check_magnitude
from sktem.emissions.spread import Spread

__all__ = [
    "LEAST_VARIANCE",
    "TURNS",
    "LaggedEmission",
    "lagged",
    "possible_moments",
    "pseudo_inverse",
]

#: Variances are not below this, of which squares can be taken.
LEAST_VARIANCE = 1e-200


class Turns(NamedTuple):
    """Settings of M-steps by alternating maximisation.

    Attributes
    ----------
    tol : float
        Change of variances, as a share of these, at which regressions end it.
    share : float
        Autoregressions end it with a round that gains less than this share of all its
        rounds: that is enough for EM, whose next M-step begins there.
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
    share: float = 0.1
    max_iter: int = 200
    held: float = 1e-8
    rcond: float = 1e-12
    rounding: float = 1e-9


TURNS = Turns()


class LaggedEmission(Emission):
    """Base of emissions with regressors, rows before, and variances of errors."""

    #: Rows before, at least.
    least_order: ClassVar[int] = 0
    #: Whether rows depend on the regressors of the rows before.
    lags_exog: ClassVar[bool] = False

    switching_variance: bool
    reg_covar: float

    def check(self, X):
        """Raise ValueError for settings that do not fit the columns."""
        name, exog, d = type(self).__name__, list(self.exog), X.shape[1]
        check_number(f"order of {name}", self.order, Integral, self.least_order)
        check_number(f"reg_covar of {name}", self.reg_covar, Real, 0)
        whole = all(isinstance(column, (int, np.integer)) for column in exog)
        if not whole or len(set(exog)) < len(exog) or not set(exog) <= set(range(d)):
            raise ValueError(
                f"exog of {name} must be different columns from 0 to {d - 1}, got "
                f"{exog!r}"
            )
        if len(exog) == d:
            raise ValueError(f"{name} needs a column that is not in exog")
        check_magnitude(X)

    def check_drawn(self):
        """Raise ValueError where rows cannot be drawn."""
        if len(self.exog):
            raise ValueError(
                f"{type(self).__name__} cannot draw rows, as sample and forecast do: "
                "the regressors exog have no distribution. Give forecast those to come "
                "by future_exog, or ask it for states alone, by n_draws=0"
            )

    def rows_before(self, X):
        """Return the rows that the row after each one depends on.

        Parameters
        ----------
        X : ndarray of shape (n, width)
            Rows, with lags.

        Returns
        -------
        ndarray of shape (n, order, m)
            Previous rows, the latest one first.
        """
        rows = self.latest(X)[:, : self.order]
        if np.isnan(rows).any():
            raise ValueError(
                f"the last {self.order} rows of each sequence must be observed to draw "
                "what follows them"
            )
        return rows

    def latest(self, X):
        """Return each row and the previous ones, the latest one first.

        Parameters
        ----------
        X : ndarray of shape (n, width)
            Rows, with lags.

        Returns
        -------
        ndarray of shape (n, 1 + order, m)
            Responses, or all columns if rows depend on previous regressors.
        """
        return X.reshape(len(X), 1 + self.order, -1)

    def n_columns(self, width):
        """Return the number of columns, for rows with lags of a given width."""
        lagged = 0 if self.lags_exog else len(self.exog)
        return (width + lagged * self.order) // (1 + self.order)

    def moved_on(self, before, y, rows):
        """Return the rows before the next ones, after rows with the responses y."""
        last = rows if self.lags_exog else y
        return np.concatenate([last[:, None], before], axis=1)[:, : self.order]

    @abstractmethod
    def sample_after(self, params, states, before, rng, exog=None):
        """Draw the responses of each state, given the previous rows.

        Parameters
        ----------
        params : object
            Parameters.
        states : ndarray of int of shape (n,)
            States, or histories of states if rows depend on these.
        before : ndarray of shape (n, order, m)
            Previous responses, the latest ones first; all columns of the previous rows
            if rows depend on their regressors.
        rng : numpy.random.Generator
            Random numbers.
        exog : ndarray of shape (n, n_exog) or None, default=None
            Regressors.

        Returns
        -------
        ndarray of shape (n, m)
            Responses.
        """

    def with_exog(self, y, exog):
        """Return rows of responses and regressors, in the order of the columns.

        Parameters
        ----------
        y : ndarray of shape (n, m)
            Responses.
        exog : ndarray of shape (n, n_exog)
            Regressors.

        Returns
        -------
        ndarray of shape (n, d)
            Rows.
        """
        rows = np.empty((len(y), y.shape[1] + exog.shape[1]))
        regressors = [int(column) for column in self.exog]
        rows[:, np.delete(np.arange(rows.shape[1]), regressors)] = y
        rows[:, regressors] = exog
        return rows

    def variances_of(self, left, mass, alive, before):
        """Return variances of errors of sums of squares, or those before of no rows."""
        if self.switching_variance:
            variances = left / np.where(alive, mass, 1.0)
        else:
            total = np.maximum(np.where(alive, mass, 0.0).sum(axis=0), 1e-300)
            together = np.where(alive, left, 0.0).sum(axis=0) / total
            variances = np.broadcast_to(together, mass.shape)
        variances = np.maximum(variances + self.reg_covar, LEAST_VARIANCE)
        return np.where(alive | (not self.switching_variance), variances, before)

    def collapses_on(self, params):
        """Return the number of rows that a regression fits exactly."""
        return params.coefficients.shape[2] if self.switching_variance else 0

    def spreads(self, params):
        """Return the variances of the errors, as those of columns about zero."""
        zeros = np.zeros_like(params.variances)
        columns = np.arange(zeros.shape[1])
        return [
            Spread("diag", zeros, params.variances, self.reg_covar, columns, zeros[0])
        ]


def lagged(X, columns, offsets, order):
    """Return rows with some columns of the rows before; NaN before the first."""
    since = np.arange(len(X)) - np.repeat(offsets[:-1], np.diff(offsets))
    lags = [X]
    for lag in range(1, order + 1):
        before = np.roll(X[:, columns], lag, axis=0)
        lags.append(np.where((since >= lag)[:, None], before, np.nan))
    return np.concatenate(lags, axis=1) if order else X


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
