"""Visible units: from the columns of X to the units of a machine, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from sktem.arrays import NUMPY, arrays_of
from sktem.boltzmann.tables import Table
from sktem.rows.held import carrier_of

__all__ = ["VisibleUnits", "half_filled"]


@dataclass
class VisibleUnits:
    """Centre, scale and base rates of the visible units.

    Attributes
    ----------
    kind : {"binary", "spin", "gaussian", "table"}
        Whether the units are real-valued.
    centre, scale : array of shape (n_features,)
        Of Gaussian units; -1 and 2 of spins; 0 and 1 otherwise.
    logits : array of shape (n_features,)
        Where the biases start: logits of the means; of Gaussian units, zero.
    """

    kind: str
    centre: Any
    scale: Any
    logits: Any
    table: Table | None = None

    @classmethod
    def of(cls, X, kind, weights=None):
        """Return the units of data, whose rows may have weights."""
        n, d = X.shape
        arrays = arrays_of(X) if carrier_of(X).in_memory else NUMPY
        xp = arrays.xp
        zeros = arrays.full(d, 0.0, xp.float64)
        if sparse.issparse(X):
            ones = np.ones(n) if weights is None else weights
            total, count = X.T @ ones, zeros + float(ones.sum())
        else:
            total, count = _summed(_totals, X, weights)
        if kind != "gaussian":
            spin = float(kind == "spin")
            total = 0.5 * (total + count) if spin else total
            # One row of 1/2 in addition keeps the logits finite.
            mean = (total + 0.5) / (count + 1.0)
            logits = xp.log(mean) - xp.log1p(-mean)
            return cls(kind, zeros - spin, zeros + 1.0 + spin, logits)
        count = xp.where(count > 0, count, zeros + 1.0)
        centre = total / count
        (squares,) = _summed(partial(_squares, centre), X, weights)
        scale = xp.sqrt(squares / count)
        # A column that varies by rounding only gets a share of the typical scale.
        rounding = 10 * float(xp.finfo(X.dtype).eps) * xp.abs(centre)
        typical = float(xp.sqrt(xp.mean(scale**2)))
        least = 1e-3 * typical if typical > 0 else 1.0
        scale = xp.where(scale > rounding, scale, zeros + least)
        return cls(kind, centre, scale, zeros)

    @classmethod
    def of_table(cls, X, table, weights=None):
        """Return the units of an encoded table."""
        n, m = table.n_normal, X.shape[1]
        centre, scale, logits = np.zeros(m), np.ones(m), np.zeros(m)
        if n:
            normal = cls.of(X[:, :n], "gaussian", weights)
            centre[:n], scale[:n] = normal.centre, normal.scale
        if n < m:
            logits[n:] = cls.of(X[:, n:], "binary", weights).logits
        for size in table.groups:
            group = slice(n, n + size)
            rates = expit(logits[group])
            logits[group] = np.log(rates / rates.sum())
            n += size
        return cls("table", centre, scale, logits, table)

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return len(self.table.columns) if self.table else self.logits.shape[0]

    @property
    def kinds(self) -> str | list:
        """Kind of the units, of a table that of each column."""
        return [c.kind for c in self.table.columns] if self.table else self.kind

    def independent(self, X):
        """Return the log-likelihood of each value under units without edges."""
        if self.table is not None:
            n, first = self.table.n_normal, self.table.first_binary
            values = X * self.logits
            values[:, :n] = -0.5 * X[:, :n] ** 2 - 0.5 * np.log(2 * np.pi)
            values[:, first:] -= np.logaddexp(0, self.logits[first:])
            return values
        arrays = arrays_of(X)
        xp = arrays.xp
        if self.kind == "gaussian":
            return -0.5 * X**2 - 0.5 * float(np.log(2 * np.pi))
        logits = arrays.astype(self.logits, xp.float64)
        return X * logits - xp.logaddexp(xp.zeros_like(logits), logits)

    def __sklearn_array_api_convert__(self, converter):
        """Return the units with arrays that a converter has moved."""
        names = ("centre", "scale", "logits")
        return replace(self, **{name: converter(getattr(self, name)) for name in names})

    def inputs(self, X, dtype):
        """Return the values of the visible units; NaN stays NaN."""
        if sparse.issparse(X):
            return X.astype(dtype, copy=False)
        if not (rows := carrier_of(X)).in_memory:
            return rows.mapped(partial(self.inputs, dtype=dtype))
        arrays = arrays_of(X)
        if self.kind != "binary":
            X = (arrays.astype(X, arrays.xp.float64) - self.centre) / self.scale
        return arrays.astype(X, dtype)

    def outputs(self, values):
        """Return values of the machine as values of the columns of X."""
        if self.kind == "binary":
            return values
        arrays = arrays_of(values)
        values = arrays.astype(values, arrays.xp.float64) * self.scale + self.centre
        return values if self.table is None else self.table.decode(values)

    @property
    def log_scale(self):
        """Sum of the logarithms of the scales of densities."""
        if self.kind not in ("gaussian", "table"):
            return 0.0
        xp = arrays_of(self.scale).xp
        return float(xp.sum(xp.log(self.scale)))


def half_filled(X):
    """Return values with 1/2 where they are missing, and where they are not."""
    xp = arrays_of(X).xp
    observed = ~xp.isnan(X)
    return xp.where(observed, X, xp.full_like(X, 0.5)), observed


def _summed(function, X, weights):
    """Return sums of a function of rows and weights, by blocks if X is read so."""
    rows = carrier_of(X)
    return (
        function(X, weights=weights)
        if rows.in_memory
        else rows.summed(function, weights)
    )


def _seen(block, weights):
    """Return rows with zero for NaN, a mask of values, and weights, by column."""
    arrays = arrays_of(block)
    xp = arrays.xp
    observed = ~xp.isnan(block)
    each = 1.0 if weights is None else arrays.asarray(weights)[:, None]
    if not bool(xp.all(observed)):
        block = xp.where(observed, block, xp.zeros_like(block))
    return block, observed, each


def _totals(block, *, weights):
    """Return sums of columns over observed values, and of their weights."""
    arrays = arrays_of(block)
    xp = arrays.xp
    # The sum is NaN if an entry is, and costs less than to look at each.
    total = xp.sum(block, axis=0, dtype=xp.float64)
    if weights is None and not bool(xp.any(xp.isnan(total))):
        return total, arrays.full(block.shape[1], float(block.shape[0]), xp.float64)
    block, observed, each = _seen(block, weights)
    observed = arrays.astype(observed, xp.float64)
    if weights is not None:
        block, observed = block * each, observed * each
    return xp.sum(block, axis=0, dtype=xp.float64), xp.sum(observed, axis=0)


def _squares(centre, block, *, weights):
    """Return the sums of squared deviations of columns."""
    arrays = arrays_of(block)
    xp = arrays.xp
    block, observed, each = _seen(block, weights)
    deviations = arrays.astype(block, xp.float64) - centre
    deviations = xp.where(observed, deviations, xp.zeros_like(deviations))
    return (xp.sum(deviations**2 * each, axis=0),)
