"""Clusters of rows with holes, from which fits begin."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

__all__ = ["Clusters", "centred", "k_means", "settled", "standardised"]

#: A standard deviation below this share of the mean is a rounding error.
ROUNDING = 1e-14


def _means(X, sample_weight):
    """Return the means of observed values of columns, 0 where there are none."""
    observed = ~np.isnan(X)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    counts = weights @ observed
    return weights @ np.where(observed, X, 0.0) / np.where(counts > 0, counts, 1.0)


def centred(X, sample_weight=None) -> np.ndarray:
    """Return columns whose observed values have the mean 0."""
    return X - _means(X, sample_weight)


def standardised(X, sample_weight=None) -> np.ndarray:
    """Return columns whose observed values have the mean 0 and the variance 1."""
    means = _means(X, sample_weight)
    values = X - means
    widths = np.sqrt(_means(values**2, sample_weight))
    return values / np.where(widths > ROUNDING * np.abs(means), widths, 1.0)


def k_means(X, n_clusters, n_init, random_state, sample_weight=None):
    """Return the fitted clusters of k-means; spare ones stay empty."""
    from sklearn.cluster import KMeans  # which most emissions never need

    clusters = KMeans(n_clusters, n_init=n_init, random_state=random_state)
    with warnings.catch_warnings():
        # It warns of fewer distinct rows than clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clusters.fit(X, sample_weight=sample_weight)


class Clusters(NamedTuple):
    """Clusters of points with holes.

    Attributes
    ----------
    labels : ndarray of int of shape (n,)
        Cluster of each point.
    inertia : float
        Sum of squared distances in the observed columns.
    """

    labels: np.ndarray
    inertia: float


def settled(points, labels, K, sample_weight=None, most_rounds=50) -> Clusters:
    """Return clusters that no point leaves, from given ones.

    Points go to the nearest centre in their observed columns, and centres to the means
    of their points (J. T. Chi, E. C. Chi and R. G. Baraniuk, k-POD: a method for
    k-means clustering of missing data, The American Statistician 70, 2016).

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Points; NaN is not observed.
    labels : ndarray of int of shape (n,)
        Clusters to begin with.
    K : int
        Number of clusters.
    sample_weight : ndarray of shape (n,) or None, default=None
        Weights.
    most_rounds : int, default=50
        Rounds, at most.

    Returns
    -------
    Clusters
        Clusters.
    """
    observed = ~np.isnan(points)
    filled, present = np.where(observed, points, 0.0), observed.astype(np.float64)
    weights = np.ones(len(points)) if sample_weight is None else sample_weight
    centres = np.zeros((K, points.shape[1]))
    for _ in range(most_rounds):
        members = np.eye(K)[labels].T * weights
        counts = members @ present
        some = counts > 0
        centres[some] = (members @ filled)[some] / counts[some]
        distances = present @ (centres**2).T - 2 * filled @ centres.T
        nearest = distances.argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
    distances = distances.min(axis=1) + (filled**2).sum(axis=1)
    return Clusters(nearest, float(weights @ distances))
