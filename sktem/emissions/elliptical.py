"""Distances to K centres and completed moments: for Gaussian and Student-t rows.

Settings are an emission with a ``covariance_type``; params have means, covariances,
factors of their inverses, and the centre of the statistics.
"""

from __future__ import annotations

import functools
import math
from importlib import import_module

import numpy as np

from sktem.emissions.base import Emission
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.directions import elliptical_directions, moved_fields
from sktem.emissions.few_alike import few_alike
from sktem.emissions.magnitudes import check_magnitude
from sktem.emissions.marginals import Marginal
from sktem.emissions.patterns import grouped
from sktem.kernels.blocks import plain

__all__ = [
    "Elliptical",
    "all_observed",
    "complete_moments",
    "completed_moments",
    "conditional_moments",
    "conditional_variances",
    "dense_moments",
    "distances",
    "fill_draws",
    "fill_means",
    "gaussian_log_densities",
    "marginal_covariances",
    "observed_moments",
    "pooled_start",
]

#: Structures with products of different columns.
DENSE = ("full", "tied")

#: Rows with the same columns that are computed together, at least: of fewer, the
#: factorisation costs more than what is done with it.
ROWS_OF_GROUP = 32


class Elliptical(Emission):
    """Base of emissions with means and covariances of a structure."""

    covariance_type: str
    covariance_prior_strength: float

    def structure(self, K, d):
        """Return the structure of the covariances.

        Parameters
        ----------
        K : int
            Number of states.
        d : int
            Number of columns.

        Returns
        -------
        object
            An instance of a class of ``COVARIANCES``.
        """
        return COVARIANCES[self.covariance_type](K, d)

    def check(self, X):
        """Raise ValueError for values whose squares overflow."""
        check_magnitude(X)

    def collapses_on(self, params):
        """Return the number of rows on which a covariance of one state collapses."""
        own = {"full": params.means.shape[1], "diag": 1, "spherical": 1}
        has_prior = self.covariance_prior_strength > 0
        return 0 if has_prior else own.get(self.covariance_type, 0)

    def expected(self, X, R, params):
        """Return rows with missing values replaced by conditional means."""
        return fill_means(self.covariance_type, X, R, params)

    def free_directions(self, params, following, X):
        """Yield the directions of means and covariances."""
        structure = self.structure(*params.means.shape)
        yield from elliptical_directions(structure, self.covariance_type, params)

    def moved(self, params, moves):
        """Return parameters moved along directions, with the factors of covariances."""
        moved = moved_fields(params, moves)
        structure = self.structure(*params.means.shape)
        factors = structure.precisions_cholesky(moved.covariances)
        return moved._replace(precisions_cholesky=factors)

    def n_parameters(self, K, d, params=None):
        """Return the number of means and free covariances."""
        return K * d + self.structure(K, d).n_parameters

    def marginal(self, params, columns):
        """Return the parameters of some columns."""
        nothing = np.empty(0, dtype=np.intp)
        return self.condition(params, nothing, nothing, np.asarray(columns))[1]


def _as_columns(covariance_type, values, d):
    """Return variances, or factors, by state and column."""
    return values.reshape(len(values), -1) * np.ones(d)


def all_observed(X) -> bool:
    """Return whether no value is NaN."""
    flat = X.ravel(order="K")  # whose product with itself is the fastest sum
    return math.isfinite(flat @ flat) or not np.isnan(X).any()


def gaussian_log_densities(covariance_type, X, params):
    """Return log-densities of Gaussian rows without holes, (n, K)."""
    factors, log_dets = _factors_of(covariance_type, params)
    constants = log_dets - 0.5 * math.log(2 * math.pi) * X.shape[1]
    return _squares(plain(X), params.means, params.centre, factors, constants, -0.5)


def distances(covariance_type, X, params):
    """Return squared distances, log-determinants of the factors, observed columns.

    The first two are of shape (n, K), for the observed part of each row; the third is
    of shape (n, 1). Of rows without holes the last two have one row.
    """
    X = plain(X)
    n, d = X.shape
    K = len(params.means)
    if all_observed(X):
        factors, log_dets = _factors_of(covariance_type, params)
        squares = _squares(X, params.means, params.centre, factors)
        return squares, log_dets[None], np.full((1, 1), float(d))
    observed = ~np.isnan(X)
    counts = observed.sum(axis=1, keepdims=True).astype(np.float64)
    if covariance_type not in DENSE:
        factors = _as_columns(covariance_type, params.precisions_cholesky, d)
        log_dets = observed.astype(np.float64) @ np.log(factors).T
        return _squares(X, params.means, params.centre, factors), log_dets, counts
    squares, log_dets = np.zeros((n, K)), np.zeros((n, K))
    groups = grouped(X, ROWS_OF_GROUP)
    for pattern in groups.large:
        marginal = Marginal(params, pattern.observed, pattern.missing)
        log_dets[pattern.rows] = marginal.log_dets
        squares[pattern.rows] = _squares(
            plain(observed_block(X, pattern)),
            params.means[:, pattern.observed],
            params.centre[pattern.observed],
            marginal.factors,
        )
    if len(groups.rows):
        few = few_alike(X, groups, params).distances()
        squares[groups.rows], log_dets[groups.rows] = few
    return squares, log_dets, counts


def observed_block(X, pattern):
    """Return the observed columns of the rows of a pattern."""
    whole = isinstance(pattern.rows, slice)
    rows = X if whole else X.take(pattern.rows, axis=0)
    return rows.take(pattern.observed, axis=1) if len(pattern.missing) else rows


@functools.cache
def _kernels():
    """Return the compiled loops, imported on first use: numba is slow to import."""
    return import_module("sktem.emissions.kernels.rows")


def _factors_of(covariance_type, params):
    """Return factors by state, as matrices or by column, and log-determinants."""
    K, d = params.means.shape
    if covariance_type in DENSE:
        stack = np.broadcast_to(params.precisions_cholesky, (K, d, d))
        return stack, np.log(np.diagonal(stack, axis1=1, axis2=2)).sum(axis=1)
    factors = _as_columns(covariance_type, params.precisions_cholesky, d)
    return factors, np.log(factors).sum(axis=1)


def _squares(X, means, centre, factors, constants=None, scale=1.0):
    """Return squared distances times the scale, plus constants by state."""
    K = len(means)
    squares, kernels = np.empty((len(X), K)), _kernels()
    is_full = factors.ndim == 3
    fill = kernels.full_distances if is_full else kernels.diagonal_distances
    fill(
        X,
        plain(centre),
        means - centre,
        plain(factors),
        np.zeros(K) if constants is None else constants,
        scale,
        squares,
    )
    return squares


def completed_moments(covariance_type, X, R, params, U=None):
    """Return first and packed second moments about the centre, weighted by R times U.

    What is missing is completed by its conditional moments; its conditional
    covariances have the weights R alone.
    """
    d = params.means.shape[1]
    W = R if U is None else R * U
    if covariance_type in DENSE:
        first, second = dense_moments(X, R, W, params)
    elif all_observed(X):
        return complete_moments(covariance_type, X, W, params)[1:]
    else:
        missing = np.isnan(X)
        z = X - params.centre
        filled, holes = np.where(missing, 0.0, z), missing.astype(np.float64)
        means = params.means - params.centre
        variances = _as_columns(covariance_type, params.covariances, d)
        absent = W.T @ holes
        first = W.T @ filled + absent * means
        second = W.T @ filled**2 + absent * means**2 + (R.T @ holes) * variances
    return first, _packed(covariance_type, second)


def complete_moments(covariance_type, X, W, params):
    """Return masses, first and packed second moments of rows without holes."""
    name = "full_moments" if covariance_type in DENSE else "diagonal_moments"
    mass, first, second = _weighted_moments(name, X, W, params.centre)
    return mass, first, _packed(covariance_type, second)


def _packed(covariance_type, second):
    """Return second moments by state, (K, d) or (K, d, d), as statistics."""
    structure = COVARIANCES[covariance_type](*second.shape[:2])
    if covariance_type in DENSE:
        is_tied = covariance_type == "tied"
        return structure.pack(second.sum(axis=0) if is_tied else second)
    if covariance_type == "diag":
        return second.ravel()
    return second.sum(axis=1)[: structure.n_moments]


def dense_moments(X, R, W, params):
    """Return first and second moments with all products of columns."""
    K, d = params.means.shape
    means = params.means - params.centre
    first, second = np.zeros((K, d)), np.zeros((K, d, d))
    groups = grouped(X, ROWS_OF_GROUP)
    for pattern in groups.large:
        marginal = Marginal(params, pattern.observed, pattern.missing)
        mass, m1, m2 = _weighted_moments(
            "full_moments",
            observed_block(X, pattern),
            W[pattern.rows],
            params.centre[pattern.observed],
        )
        row_mass = R[pattern.rows].sum(axis=0)
        m1, m2 = marginal.completed(means, mass, m1, m2, row_mass)
        first, second = first + m1, second + m2
    if len(groups.rows):
        m1, m2 = few_alike(X, groups, params).moments(R, W)
        first, second = first + m1, second + m2
    return first, second


def _weighted_moments(name, X, W, centre):
    """Return masses and moments about the centre of rows without holes."""
    K, d = W.shape[1], X.shape[1]
    sums = np.zeros(K), np.zeros((K, d))
    second = np.zeros((K, d, d) if name == "full_moments" else (K, d))
    getattr(_kernels(), name)(plain(X), plain(centre), plain(W), *sums, second)
    return *sums, second


def fill_means(covariance_type, X, R, params):
    """Return rows with missing values replaced by means, averaged over the states."""
    filled = np.array(X, dtype=np.float64)
    missing = np.isnan(filled)
    averages = R @ params.means
    if covariance_type not in DENSE:
        return np.where(missing, averages, filled)
    empty = missing.all(axis=1)
    filled[empty] = averages[empty]
    groups = grouped(X, ROWS_OF_GROUP)
    for pattern in groups.large:
        holes = pattern.missing
        if len(holes):
            fill = Marginal(params, pattern.observed, holes)
            rows = X[pattern.rows]
            total = 0.0
            for k, mean in enumerate(params.means):
                shares = R[pattern.rows, k, None]
                total = total + shares * fill.expected(rows, mean, k)
            filled[np.asarray(pattern.rows)[:, None], holes] = total
    if len(groups.rows):
        filled[groups.rows] = few_alike(X, groups, params).averages(R)
    return filled


def conditional_variances(covariance_type, X, params, k):
    """Return the conditional variances of missing values given the state k."""
    n, d = X.shape
    if covariance_type not in DENSE:
        variances = _as_columns(covariance_type, params.covariances, d)[k]
        return np.broadcast_to(variances, (n, d))
    stack = np.broadcast_to(params.covariances, (len(params.means), d, d))
    result = np.tile(np.diagonal(stack[k]), (n, 1))
    for pattern in grouped(X).large:
        holes = pattern.missing
        if len(holes):
            fill = Marginal(params, pattern.observed, holes)
            variances = np.diagonal(fill.spreads[k])
            result[np.asarray(pattern.rows)[:, None], holes] = variances
    return result


def fill_draws(covariance_type, X, states, params, rng, scales):
    """Return rows with missing values replaced by draws, scaled by row."""
    filled = np.array(X, dtype=np.float64)
    n, d = filled.shape
    noise = rng.standard_normal((n, d)) * scales[:, None]
    missing = np.isnan(filled)
    if covariance_type not in DENSE:
        widths = np.sqrt(_as_columns(covariance_type, params.covariances, d))
        return np.where(missing, params.means[states] + noise * widths[states], filled)
    stack = np.broadcast_to(params.covariances, (len(params.means), d, d))
    for k in np.unique(states):
        members = np.flatnonzero(states == k)
        empty = members[missing[members].all(axis=1)]
        filled[empty] = params.means[k] + noise[empty] @ np.linalg.cholesky(stack[k]).T
        for pattern in grouped(X[members]).large:
            holes = pattern.missing
            if not len(holes):
                continue
            rows = members[pattern.rows]
            fill = Marginal(params, pattern.observed, holes)
            centre = fill.expected(X[rows], params.means[k], k)
            values, vectors = np.linalg.eigh(fill.spreads[k])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            filled[rows[:, None], holes] = centre + noise[rows][:, holes] @ root.T
    return filled


def conditional_moments(covariance_type, params, columns, values, others):
    """Return means and covariances of some columns given the values of others."""
    covariances = marginal_covariances(covariance_type, params.covariances, others)
    if covariance_type not in DENSE or not len(columns):
        return params.means[:, others], covariances
    fill = Marginal(params, columns, others)
    shifts = (values - params.means[:, columns])[:, None, :] @ fill.slopes
    # What is known exactly has no variance but rounding, whatever the units.
    widths = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    units = np.broadcast_to(
        widths[..., :, None] * widths[..., None, :], fill.spreads.shape
    )
    spreads = (fill.spreads + np.swapaxes(fill.spreads, 1, 2)) / (2 * units)
    structure = COVARIANCES["full"](len(spreads), len(others))
    spreads = structure.repair(spreads, 0.0, 1e-13)[0] * units
    spreads = spreads if covariance_type == "full" else spreads[0]
    return params.means[:, others] + shifts[:, 0], spreads


def marginal_covariances(covariance_type, covariances, columns):
    """Return the covariances of some columns."""
    if covariance_type in DENSE:
        return covariances[..., columns[:, None], columns]
    return covariances[:, columns] if covariance_type == "diag" else covariances


def observed_moments(X, R):
    """Return centre, means by state and variances by column of the observed values."""
    centre = np.array([_median(column) for column in X.T])
    deviations = X - centre
    variances = np.array([_variance(column) for column in deviations.T])
    observed = ~np.isnan(X)
    sums = R.T @ np.where(observed, deviations, 0.0)
    mass = R.T @ observed.astype(np.float64)
    pooled = sums.sum(axis=0) / np.maximum(mass.sum(axis=0), 1e-300)
    means = np.where(mass > 0, sums / np.where(mass > 0, mass, 1.0), pooled)
    return centre, centre + means, variances


def pooled_start(settings, X, R):
    """Return centre, means by state, and covariances of all rows."""
    K = R.shape[1]
    centre, means, variances = observed_moments(X, R)
    variances = variances + settings.reg_covar
    covariances = {
        "full": lambda: np.repeat(np.diag(variances)[None], K, axis=0),
        "tied": lambda: np.diag(variances),
        "diag": lambda: np.repeat(variances[None], K, axis=0),
        "spherical": lambda: np.full(K, variances.mean()),
        "unit": lambda: np.ones(K),
    }[settings.covariance_type]()
    return centre, means, covariances


def _median(column):
    """Return the median of the observed values of a column, 0 without any."""
    column = column[~np.isnan(column)]
    return float(np.median(column)) if len(column) else 0.0


def _variance(column):
    """Return the variance of the observed values of a column, 1 without any."""
    column = column[~np.isnan(column)]
    value = float(np.var(column)) if len(column) else 1.0
    return value if value > 0 else 1.0
