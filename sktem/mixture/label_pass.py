"""Passes of EM over rows that have columns of labels, by one compiled loop."""

from __future__ import annotations

import math
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from sktem.emissions.base import empty_rows
from sktem.emissions.categorical import Categorical, code_tables, counted_codes
from sktem.emissions.columns import Columns, columns_of
from sktem.emissions.gaussian import Gaussian
from sktem.kernels.blocks import plain

__all__ = ["LabelRows", "LabelTerms", "expected_with_labels"]


class LabelRows(NamedTuple):
    """Rows with codes for labels, which are made once for all passes of a fit.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        The rows.
    cells : ndarray of int of shape (n, n_groups)
        Codes of groups of columns.
    empty : ndarray of int
        Rows of which nothing is observed, which count for nothing.
    block_size : int
        Rows of a block of a pass, for which groups are made.
    """

    X: np.ndarray
    cells: np.ndarray
    empty: np.ndarray
    block_size: int

    @classmethod
    def of(cls, X, terms, block_size) -> LabelRows | None:
        """Return rows for the terms of some parameters; None if a code is unknown."""
        X, size = plain(X), min(block_size, len(X))
        cells = _codes().code_cells(X, terms.columns, terms.widths, size)
        if len(cells) < len(X):
            return None
        return cls(X, cells, empty_rows(X), size)

    def weights(self, sample_weight):
        """Return the weights of the rows, 0 for empty ones; None if all are 1."""
        if len(self.empty):
            values = sample_weight
            sample_weight = np.ones(len(self.X)) if values is None else np.array(values)
            sample_weight[self.empty] = 0.0
        return sample_weight


class LabelTerms(NamedTuple):
    """Parameters of a pass, as the loop takes them.

    The loop takes the first block of labels and the first of normal numbers that are
    independent given the state; of other blocks it takes the densities, and gives them
    the posteriors.

    Attributes
    ----------
    parts : list of tuple
        Emission, columns and parameters of each block.
    labels : int
        Index of the block of labels.
    diagonal : int or None
        Index of the block of normal numbers.
    columns, widths : ndarray of int
        Columns of labels, and their numbers of codes, that of NaN included.
    table : ndarray of shape (K, n_columns, n_codes)
        Log-probabilities of the codes.
    log_weights : ndarray of shape (K,)
        Logarithms of the mixing weights and of constant factors of the densities.
    """

    parts: list[tuple[Any, np.ndarray, Any]]
    labels: int
    diagonal: int | None
    columns: np.ndarray
    widths: np.ndarray
    table: np.ndarray
    log_weights: np.ndarray

    @classmethod
    def of(cls, emission, params) -> LabelTerms | None:
        """Return the terms of the parameters of a mixture, None without labels."""
        block = params.emission
        parts: list[tuple[Any, np.ndarray, Any]]
        if isinstance(emission, Columns):
            parts = list(emission.parts(block))
        elif isinstance(emission, Categorical):
            parts = [(emission, np.arange(block.probabilities.shape[1]), block)]
        else:
            return None
        kinds = [_kind_of(law) for law, *_ in parts]
        if "labels" not in kinds:
            return None
        labels = kinds.index("labels")
        diagonal = kinds.index("normal") if "normal" in kinds else None
        widths, table = code_tables(parts[labels][2])
        with np.errstate(divide="ignore"):
            log_weights = np.log(params.weights)
        if diagonal is not None:
            factors = parts[diagonal][2].precisions_cholesky
            log_weights = log_weights + np.log(factors).sum(axis=1)
            log_weights -= 0.5 * math.log(2 * math.pi) * factors.shape[1]
        columns = np.asarray(parts[labels][1], dtype=np.int64)
        return cls(parts, labels, diagonal, columns, widths, table, log_weights)

    def numbers(self):
        """Return the normal columns, with moments that are zero."""
        columns, centre, means = (
            np.empty(0),
            np.empty(0),
            np.empty((len(self.table), 0)),
        )
        factors = means
        if self.diagonal is not None:
            _, columns, gaussian = self.parts[self.diagonal]
            centre, factors = (
                plain(gaussian.centre),
                plain(gaussian.precisions_cholesky),
            )
            means = gaussian.means - centre
        moments = np.zeros(means.shape), np.zeros(means.shape)
        columns = np.asarray(columns, dtype=np.int64)
        return _loop().Numbers(columns, centre, means, factors, *moments)


def expected_with_labels(X, weights, cells, terms, n_grouped):
    """Return sums of expected statistics and of log-likelihoods of a block of rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    weights : ndarray of shape (n,) or None
        Their weights.
    cells : ndarray of int of shape (n, n_groups)
        Those of the rows.
    terms : LabelTerms
        Those of the parameters.
    n_grouped : int
        Rows of the largest block.

    Returns
    -------
    tuple or None
        None if rows need what the loop does not do: rows that no component can produce,
        and numbers that are NaN.
    """
    K = len(terms.table)
    others = {
        i: (law, columns_of(X, columns), block)
        for i, (law, columns, block) in enumerate(terms.parts)
        if i not in (terms.labels, terms.diagonal)
    }
    densities = [law.log_density(part, block) for law, part, block in others.values()]
    rest = plain(reduce(np.add, densities)) if densities else np.empty((0, K))
    posteriors = np.empty((len(X) if others else 0, K))
    sums, numbers = np.empty((*terms.table.shape[1:], K)), terms.numbers()
    row_weights = np.empty(0) if weights is None else plain(weights)
    total = _loop().expected_counts(
        X, cells, n_grouped, terms.widths, terms.table, numbers, terms.log_weights,
        rest, row_weights, posteriors, sums,
    )  # fmt: skip
    if not np.isfinite(total):
        return None
    mass = sums[0].sum(axis=0)
    statistics = {i: e.statistics(x, posteriors, b) for i, (e, x, b) in others.items()}
    statistics[terms.labels] = counted_codes(sums, terms.parts[terms.labels][2])
    if terms.diagonal is not None:
        moments = numbers.first.ravel(), numbers.second.ravel()
        statistics[terms.diagonal] = np.concatenate([mass, *moments])
    return np.concatenate(
        [mass, *(statistics[i] for i in range(len(statistics)))]
    ), total


def _kind_of(emission):
    """Return the kind of a block in the loop: "labels", "normal" or "other"."""
    if type(emission) is Categorical:
        return "labels"
    is_normal = type(emission) is Gaussian and emission.covariance_type == "diag"
    return "normal" if is_normal else "other"


def _codes():
    """Return the compiled codes, imported on first use: numba is slow to import."""
    return import_module("sktem.emissions.kernels.categories")


def _loop():
    """Return the compiled loop, imported on first use: numba is slow to import."""
    return import_module("sktem.mixture.kernels.labels")
