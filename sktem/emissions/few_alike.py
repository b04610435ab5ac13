"""Gaussians on rows with holes, few of which have the same columns.

Compiled loops factor the covariances of the observed columns for each pattern, which
takes the third power of their number. Where these are many and holes are few, the
conditional covariances of the holes are the inverse of a small block of the precision
matrix.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import NamedTuple

import numpy as np

from sktem.kernels.blocks import plain

__all__ = ["by_state", "few_alike", "has_few_holes"]


class HoleRule(NamedTuple):
    """Rows whose holes are completed by blocks of precisions.

    Attributes
    ----------
    n_observed : int
        Observed columns of a row on average, at least: of fewer, compiled loops are
        faster.
    share : float
        Share of the cells that are missing, at most.
    inflation : float
        Variance of a column over that given all others, at most: precisions have lost
        as many digits as it has.
    """

    n_observed: int = 96
    share: float = 0.2
    inflation: float = 1e8


RULE = HoleRule()


@functools.cache
def _kernels():
    """Return the compiled loops, imported on first use: numba is slow to import."""
    return import_module("sktem.emissions.kernels.groups")


def by_state(params):
    """Return centre, means and covariances with the state as the last axis."""
    K, d = params.means.shape
    stack = np.broadcast_to(params.covariances, (K, d, d))
    means = plain((params.means - params.centre).T)
    covariances = plain(np.moveaxis(stack, 0, 2))
    return plain(params.centre), means, covariances


def few_alike(X, groups, params):
    """Return the groups of few rows, which answer in the faster way."""
    way = FewHoles if has_few_holes(X, groups, params) else ByFactors
    return way(X, groups, params)


def has_few_holes(X, groups, params, rule: HoleRule = RULE) -> bool:
    """Return whether blocks of precisions are the faster way, and exact enough."""
    d = params.means.shape[1]
    if d < rule.n_observed:
        return False
    share = np.isnan(X[groups.rows]).mean()
    if share > rule.share or d * (1 - share) < rule.n_observed:
        return False
    variances = np.diagonal(params.covariances, axis1=-2, axis2=-1)
    precisions = (params.precisions_cholesky**2).sum(axis=-1)
    return bool((variances * precisions).max() <= rule.inflation)


class ByFactors:
    """Groups of rows, for which the covariances of observed columns are factored.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    groups : Groups
        Which of them, and which have the same holes.
    params : NamedTuple
        Means, covariances, factors of their inverses, and a centre.
    """

    def __init__(self, X, groups, params):
        self.X, self.places = plain(X), (groups.rows, groups.starts)
        self.params, self.shape = by_state(params), params.means.shape

    def distances(self):
        """Return squared distances and log-determinants of the observed columns."""
        shape = len(self.X), self.shape[0]
        results = np.empty(shape), np.empty(shape)
        _kernels().group_distances(self.X, *self.places, *self.params, *results)
        return tuple(values[self.places[0]] for values in results)

    def moments(self, R, W):
        """Return first and second moments about the centre.

        W are weights of all rows, R those of the conditional covariances.
        """
        K, d = self.shape
        first, second, weights = (
            np.zeros((d, K)),
            np.zeros((d, d, K)),
            map(plain, (R, W)),
        )
        places = self.places
        _kernels().group_moments(self.X, *weights, *places, *self.params, first, second)
        return first.T, np.moveaxis(second, 2, 0)

    def averages(self, R):
        """Return rows with conditional means in the holes, averaged over the states."""
        filled = np.array(self.X, dtype=np.float64)
        _kernels().group_means(self.X, plain(R), *self.places, *self.params, filled)
        return filled[self.places[0]]


class FewHoles:
    """Groups of rows with few holes among many columns, by blocks of precisions.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    groups : Groups
        Which of them, and which have the same holes.
    params : NamedTuple
        Means, covariances, factors of their inverses, and a centre.
    """

    def __init__(self, X, groups, params):
        K, d = params.means.shape
        self.factors = np.broadcast_to(params.precisions_cholesky, (K, d, d))
        self.precisions = self.factors @ np.swapaxes(self.factors, 1, 2)
        self.params, self.chosen = params, groups.rows
        self.rows = X[groups.rows] - params.centre
        self.missing = np.isnan(self.rows)
        edges = groups.starts
        self.slices = [slice(*pair) for pair in zip(edges[:-1], edges[1:], strict=True)]
        self.holes = [np.flatnonzero(self.missing[start]) for start in edges[:-1]]

    def _blocks(self, k):
        """Yield rows and holes of each group, and the precisions of the holes."""
        precision = self.precisions[k]
        for rows, holes in zip(self.slices, self.holes, strict=True):
            yield rows, holes, precision[holes[:, None], holes]

    def _deviations(self, k):
        """Return completed rows, as deviations from the mean of a state."""
        mean = self.params.means[k] - self.params.centre
        deviations = np.where(self.missing, 0.0, self.rows - mean)
        pulls = deviations @ self.precisions[k]
        for rows, holes, block in self._blocks(k):
            shifts = np.linalg.solve(block, pulls[rows][:, holes].T).T
            deviations[rows, holes] = -shifts
        return deviations

    def distances(self):
        """Return squared distances and log-determinants of the observed columns."""
        n, K = len(self.rows), len(self.precisions)
        squares, log_dets = np.empty((n, K)), np.empty((n, K))
        for k, factor in enumerate(self.factors):
            squares[:, k] = ((self._deviations(k) @ factor) ** 2).sum(axis=1)
            log_dets[:, k] = np.log(np.diagonal(factor)).sum()
            for rows, _, block in self._blocks(k):
                log_dets[rows, k] -= 0.5 * np.linalg.slogdet(block)[1]
        return squares, log_dets

    def moments(self, R, W):
        """Return first and second moments, as `ByFactors` does."""
        R, W = R[self.chosen], W[self.chosen]
        K, d = self.params.means.shape
        first, second = np.empty((K, d)), np.empty((K, d, d))
        for k in range(K):
            completed = self._deviations(k) + self.params.means[k] - self.params.centre
            weighted = completed * W[:, [k]]
            first[k], second[k] = weighted.sum(axis=0), weighted.T @ completed
            for rows, holes, block in self._blocks(k):
                mass = R[rows, k].sum()
                second[k][holes[:, None], holes] += mass * np.linalg.inv(block)
        return first, second

    def averages(self, R):
        """Return completed rows, averaged over the states."""
        R, total = R[self.chosen], np.zeros(self.rows.shape)
        for k, mean in enumerate(self.params.means):
            total += R[:, [k]] * (self._deviations(k) + mean)
        return np.where(self.missing, total, self.rows + self.params.centre)
