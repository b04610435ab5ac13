"""Gaussian mixtures on rows with holes.

The functions are those of ``sktem.mixture.kernels.e_step``, by the same names, with
what is missing integrated out or completed: blocks of rows, and in each the rows in
which the same columns are observed together.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from sktem import budget
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.elliptical import (
    DENSE,
    ROWS_OF_GROUP,
    completed_moments,
    dense_moments,
    distances,
    observed_block,
)
from sktem.emissions.few_alike import by_state, has_few_holes
from sktem.emissions.gaussian_moments import split_moments
from sktem.emissions.kernels.groups import group_expected
from sktem.emissions.marginals import DiagonalMarginal, Marginal
from sktem.emissions.patterns import grouped
from sktem.kernels.blocks import plain
from sktem.mixture.emission_model import responsibilities
from sktem.mixture.kernels import e_step as kernels
from sktem.rows.filtered import filtered
from sktem.rows.held import carrier_of

__all__ = [
    "expected_statistics",
    "has_holes",
    "log_density",
    "observed_rows",
    "posterior",
    "predict",
    "statistics",
]


class _Components(NamedTuple):
    """Parameters as the emissions have them, about the centre of the statistics."""

    means: np.ndarray
    covariances: np.ndarray
    precisions_cholesky: np.ndarray
    centre: np.ndarray


def has_holes(X) -> bool:
    """Return whether a value is missing."""
    rows = carrier_of(X)
    if rows.array is not None:
        # A sum takes less time than a look at each value.
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isnan(rows.array.sum()):
                return False
    return rows.has_nan


def observed_rows(X, weights):
    """Return the rows of which something is observed, and their weights.

    Of others nothing is learned.
    """
    rows = carrier_of(X)
    if rows.holds_tensors or not has_holes(X):
        return X, weights
    if rows.in_memory:
        observed = _is_observed(X)
        seen = X if observed.all() else X[observed]
    else:
        seen, observed = filtered(rows, _is_observed)
    if len(seen) == len(rows):
        return X, weights
    return seen, None if weights is None else weights[observed]


def _is_observed(X):
    """Return which rows have something that is observed."""
    return ~np.isnan(X).all(axis=1)


def _components(params):
    """Return the parameters of the kernels as those of an emission."""
    factors = np.asarray(params.precisions_cholesky, dtype=np.float64)
    if params.covariance_type in ("full", "tied"):
        inverses = np.linalg.inv(factors)
        covariances = np.swapaxes(inverses, -1, -2) @ inverses
    else:
        K, d = params.means.shape
        if params.covariance_type == "unit":
            factors = np.ones(K)
        factors = factors.reshape(K, -1) * np.ones(d)
        covariances = 1 / factors**2
    means = params.means + params.centre
    return _Components(means, covariances, factors, params.centre)


def _over_blocks(X, compute, weights, n_jobs):
    """Return the results of a function for blocks of rows of float64."""
    # Many rows, as each block factors the covariances of its patterns anew.
    blocks = carrier_of(X).blocks(budget.MEMORY.rows)
    tasks = (
        delayed(compute)(
            np.asarray(block, dtype=np.float64),
            None if weights is None else weights[first : first + len(block)],
        )
        for first, block in blocks
    )
    return Parallel(n_jobs=n_jobs, prefer="threads")(tasks)


def _shares(X, _, params, components):
    """Return posterior probabilities and log-densities of a block."""
    squares, log_dets, counts = distances(params.covariance_type, X, components)
    log_densities = log_dets - 0.5 * (squares + counts * np.log(2 * np.pi))
    return responsibilities(log_densities, params.log_weights)


def _sums(X, R, weights, kind, components):
    """Return sums of statistics, without rows that are missing entirely."""
    R = R if weights is None else R * weights[:, None]
    empty = np.isnan(X).all(axis=1)
    if empty.any():
        X, R = X[~empty], R[~empty]
    first, second = completed_moments(kind, X, R, components)
    return np.concatenate([R.sum(axis=0), first.ravel(), second.ravel()])


def _expected(X, weights, params, components):
    """Return sums of a block, pattern by pattern.

    Rows of large groups are complete rows of fewer columns to the kernels.
    """
    groups = grouped(X, ROWS_OF_GROUP)
    dense = params.covariance_type in DENSE
    kind = "diag"
    if dense:
        kind = "tied" if params.covariance_type == "tied" else "full"
    total, value = _few_alike(X, weights, groups, params, components)
    for pattern in groups.large:
        part = None if weights is None else weights[pattern.rows]
        block, observed = observed_block(X, pattern), pattern.observed
        marginal = Marginal if dense else DiagonalMarginal
        fill = marginal(components, observed, pattern.missing)
        pattern_params = params._replace(
            centre=params.centre[observed],
            means=params.means[:, observed],
            precisions_cholesky=fill.factors[0] if kind == "tied" else fill.factors,
            covariance_type=kind,
        )
        s, gain = kernels.expected_statistics(block, pattern_params, part)
        mass, first, second = split_moments(s, len(params.means), len(observed))
        second = COVARIANCES[kind](*first.shape).unpack(second)
        if kind == "tied":
            # Slopes are the same, so that one component can have the sum of all.
            zeros = np.zeros((len(mass) - 1, *second.shape))
            second = np.concatenate([second[None], zeros])
        first, second = fill.completed(params.means, mass, first, second, mass)
        total = total[0] + mass, total[1] + first, total[2] + second
        value += gain
    return _packed(params.covariance_type, *total), value


def _packed(kind, mass, first, second):
    """Return statistics of a kind of covariances from moments of each component."""
    structure = COVARIANCES[kind](*first.shape)
    if kind == "tied":
        second = second.sum(axis=0)
    elif kind in ("spherical", "unit"):
        second = second.mean(axis=1)
    return np.concatenate([mass, first.ravel(), structure.pack(second)])


def _few_alike(X, weights, groups, params, components):
    """Return moments and log-likelihoods of the rows of groups that are not large."""
    K, d = params.means.shape
    dense = params.covariance_type in DENSE
    if not len(groups.rows):
        second = np.zeros((K, d, d) if dense else (K, d))
        return (np.zeros(K), np.zeros((K, d)), second), 0.0
    if dense and not has_few_holes(X, groups, components):
        sums = np.zeros(K), np.zeros((d, K)), np.zeros((d, d, K))
        row_weights = np.ones(len(X)) if weights is None else plain(weights)
        value = group_expected(
            plain(X),
            row_weights,
            groups.rows,
            groups.starts,
            plain(params.log_weights),
            *by_state(components),
            sums,
        )
        return (sums[0], sums[1].T, np.moveaxis(sums[2], 2, 0)), value
    X, part = X[groups.rows], None if weights is None else weights[groups.rows]
    R, values = _shares(X, None, params, components)
    R, value = (R, values.sum()) if part is None else (R * part[:, None], part @ values)
    if dense:
        return (R.sum(axis=0), *dense_moments(X, R, R, components)), value
    first, second = completed_moments("diag", X, R, components)
    return (R.sum(axis=0), first, second.reshape(K, d)), value


def expected_statistics(X, params, weights=None, n_jobs=None, before=None):
    """Return sums of expected statistics and of log-likelihoods, added to others."""
    compute = partial(_expected, params=params, components=_components(params))
    parts = _over_blocks(X, compute, weights, n_jobs)
    sums, value = (0.0, 0.0) if before is None else before
    return sum((s for s, _ in parts), sums), float(sum((v for _, v in parts), value))


def statistics(X, Z, params, weights=None, n_jobs=None):
    """Return sums of statistics at given latents, completed at the parameters."""
    mass = Z.sum(axis=1, keepdims=True, dtype=np.float64)
    R = Z / np.where(mass > 0, mass, 1.0)
    X = np.asarray(X, dtype=np.float64)
    return _sums(X, R, weights, params.covariance_type, _components(params))


def posterior(X, params, n_jobs=None):
    """Return responsibilities and log-densities."""
    compute = partial(_shares, params=params, components=_components(params))
    parts = _over_blocks(X, compute, None, n_jobs)
    return np.concatenate([R for R, _ in parts]), np.concatenate([v for _, v in parts])


def log_density(X, params, n_jobs=None):
    """Return log-densities."""
    return posterior(X, params, n_jobs)[1]


def predict(X, params, n_jobs=None):
    """Return the most probable components."""
    return posterior(X, params, n_jobs)[0].argmax(axis=1)
