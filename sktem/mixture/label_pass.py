"""Passes of EM over rows that have columns of labels, by one compiled loop."""

from __future__ import annotations

import math
from functools import reduce
from importlib import import_module

import numpy as np

from sktem.emissions.base import empty_rows
from sktem.emissions.categorical import Categorical, code_tables, counted_codes
from sktem.emissions.columns import Columns, columns_of
from sktem.emissions.gaussian import Gaussian
from sktem.kernels.blocks import plain

__all__ = ["expected_with_labels"]


def expected_with_labels(emission, X, weights, params):
    """Return sums of expected statistics and of log-likelihoods of a block of rows.

    The loop takes the first block of labels and the first of normal numbers that are
    independent given the state; of other blocks it takes the densities, and gives them
    the posteriors.

    Parameters
    ----------
    emission : Emission
        That of the mixture.
    X : ndarray of shape (n, d)
        Rows.
    weights : ndarray of shape (n,) or None
        Their weights.
    params : EmissionMixtureParams
        Parameters.

    Returns
    -------
    tuple or None
        None if there are no labels, or if rows need what the loop does not do: errors
        for unknown codes, rows that no component can produce, and numbers that are NaN.
    """
    parts = [(emission, np.arange(X.shape[1]), params.emission)]
    if isinstance(emission, Columns):
        parts = list(emission.parts(params.emission))
    kinds = [_kind_of(law) for law, *_ in parts]
    if "labels" not in kinds or not len(X):
        return None
    labels = kinds.index("labels")
    diagonal = kinds.index("normal") if "normal" in kinds else None
    others = {
        i: (law, columns_of(X, columns), block)
        for i, (law, columns, block) in enumerate(parts)
        if i not in (labels, diagonal)
    }
    K = len(params.weights)
    terms = [law.log_density(rows, block) for law, rows, block in others.values()]
    rest = plain(reduce(np.add, terms)) if terms else np.empty((0, K))
    numbers, constants = _numbers(K, None if diagonal is None else parts[diagonal])
    with np.errstate(divide="ignore"):
        log_weights = np.log(params.weights) + constants
    _, columns, label_params = parts[labels]
    widths, table = code_tables(label_params)
    posteriors = np.empty((len(X) if others else 0, K))
    sums = np.empty((*table.shape[1:], K))
    row_weights = np.empty(0) if weights is None else plain(weights)
    loop = _kernels().expected_counts
    tables = np.asarray(columns, dtype=np.int64), widths, table, numbers
    total = loop(plain(X), *tables, log_weights, rest, row_weights, posteriors, sums)
    if not np.isfinite(total):
        return None
    if sums[0, widths[0] - 1].any():  # rows without a label: some may have nothing
        counted = np.ones(len(X)) if weights is None else np.array(weights)
        counted[empty_rows(X)] = 0.0
        if weights is None or (counted != weights).any():
            return expected_with_labels(emission, X, counted, params)
    mass = sums[0].sum(axis=0)
    statistics = {i: e.statistics(x, posteriors, b) for i, (e, x, b) in others.items()}
    statistics[labels] = counted_codes(sums, label_params)
    if diagonal is not None:
        moments = numbers.first.ravel(), numbers.second.ravel()
        statistics[diagonal] = np.concatenate([mass, *moments])
    return np.concatenate([mass, *(statistics[i] for i in range(len(parts)))]), total


def _kind_of(emission):
    """Return the kind of a block in the loop: "labels", "normal" or "other"."""
    if type(emission) is Categorical:
        return "labels"
    is_normal = type(emission) is Gaussian and emission.covariance_type == "diag"
    return "normal" if is_normal else "other"


def _numbers(K, part):
    """Return normal columns as the loop takes them, and constants of their density."""
    columns, centre, means = np.empty(0), np.empty(0), np.empty((K, 0))
    factors = means
    if part is not None:
        _, columns, gaussian = part
        centre, factors = plain(gaussian.centre), plain(gaussian.precisions_cholesky)
        means = gaussian.means - centre
    constants = np.log(factors).sum(axis=1) - 0.5 * math.log(2 * math.pi) * len(columns)
    moments = np.zeros(means.shape), np.zeros(means.shape)
    columns = np.asarray(columns, dtype=np.int64)
    return _kernels().Numbers(columns, centre, means, factors, *moments), constants


def _kernels():
    """Return the compiled loop, imported on first use: numba is slow to import."""
    return import_module("sktem.mixture.kernels.labels")
