"""Starts of a mixture of any emission: responsibilities of rows with holes."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from sktem.emissions.clusters import settled
from sktem.emissions.gaussian import Gaussian
from sktem.mixture import start
from sktem.mixture.start import POINTS, kmeans_labels

__all__ = ["points_of", "start_responsibilities"]


def points_of(X, emission, sample_weight=None) -> np.ndarray:
    """Return rows as points with comparable distances, with the holes of X.

    Complete rows of Gaussians are left as they are, as in scikit-learn.
    """
    if isinstance(emission, Gaussian) and not np.isnan(X).any():
        return X
    return emission.points(X, sample_weight)


def _clusters(points, K, random_state, sample_weight, n_starts) -> np.ndarray:
    """Return the clusters of k-means, the tightest of several starts.

    Of points with holes k-means begins with the means in them.
    """
    if not np.isnan(points).any():
        return kmeans_labels(points, K, random_state, sample_weight, n_starts)
    filled, clusters = np.nan_to_num(points), []
    for _ in range(n_starts):
        labels = kmeans_labels(filled, K, random_state, sample_weight)
        clusters.append(settled(points, labels, K, sample_weight))
    return min(clusters, key=attrgetter("inertia")).labels


def start_responsibilities(
    X, emission, n_components, method, random_state, sample_weight=None
) -> np.ndarray:
    """Return the responsibilities of the first M-step.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows; NaN is not observed.
    emission : Emission
        Emission, by which distances are measured.
    n_components : int
        Number of components.
    method : str or callable
        "kmeans", "k-means++", "random" or "random_from_data", or ``method(X,
        n_components, random_state)`` that returns responsibilities or labels.
    random_state : numpy.random.RandomState
        Random numbers of the start.
    sample_weight : ndarray of shape (n,) or None, default=None
        Weights.

    Returns
    -------
    ndarray of shape (n, n_components)
        Responsibilities.

    Raises
    ------
    ValueError
        If a callable returns something else.
    """
    K, n = n_components, len(X)
    if callable(method):
        latents = start.given_latents(method, X, K, random_state)
        return latents if latents.ndim == 2 else np.eye(K)[latents]
    if method == "random":
        return start.random_latents(n, K, random_state)
    points = points_of(X, emission, sample_weight)
    if method == "kmeans":
        rule, n_starts = start.START_ROWS, 1
        if points is not X and n <= rule.most_clustered:
            n_starts = rule.n_clusterings
        return np.eye(K)[_clusters(points, K, random_state, sample_weight, n_starts)]
    points = np.nan_to_num(points)
    chosen = POINTS[method](points, K, random_state, sample_weight)
    return np.eye(K)[start.nearest(points, chosen)]
