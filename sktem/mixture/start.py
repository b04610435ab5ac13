"""Starts of a Gaussian mixture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.random import sample_without_replacement

from sktem import budget
from sktem.emissions.clusters import k_means
from sktem.rows.held import carrier_of

__all__ = [
    "POINTS",
    "START_METHODS",
    "assigned_statistics",
    "chosen_rows",
    "given_latents",
    "kmeans_labels",
    "nearest",
    "random_latents",
    "start_statistics",
]


class StartRows(NamedTuple):
    """Rows of starts.

    Attributes
    ----------
    per_parameter : int
        Rows of a sample for each parameter of the means, if its size is not given.
    least_per_parameter : int
        The same, however many numbers these rows have.
    most_permuted : int
        Beyond it, rows are chosen without a permutation of all of them.
    most_counted : int
        Rows of which copies are looked for.
    n_clusterings : int
        Starts of k-means, but for rows of one Gaussian emission, which begin as in
        scikit-learn.
    most_clustered : int
        Rows up to which k-means has these starts; of more it has one.
    """

    per_parameter: int = 100
    least_per_parameter: int = 20
    most_permuted: int = 1 << 24
    most_counted: int = 1 << 14
    n_clusterings: int = 10
    most_clustered: int = 1 << 14

    def size(self, n_components, n_features) -> int:
        """Return the number of rows of a sample whose size is not given."""
        n_parameters, memory = n_components * (n_features + 1), budget.MEMORY
        least = self.least_per_parameter * n_parameters
        most = max(memory.kept // n_features, least)
        wanted = self.per_parameter * n_parameters
        return min(most, max(memory.cached // n_features, wanted))


START_ROWS = StartRows()


def kmeans_labels(X, n_components, random_state, sample_weight, n_starts=1):
    """Return the clusters of k-means, the tightest of several starts."""
    if n_components == 1:
        return np.zeros(len(X), dtype=np.intp)
    rows, weights, row_of = _counted(X, sample_weight, n_components)
    clusters = k_means(rows, n_components, n_starts, random_state, weights)
    return clusters.labels_[row_of]


def _counted(X, sample_weight, least):
    """Return distinct rows in order, their weights, and which of them each row is.

    A start is a draw, which depends on the order of the rows and on how weights are
    written: as numbers or as copies. Where there are weights, or mostly copies, it is
    made from the distinct rows. Elsewhere rows stay as they are, as in scikit-learn.
    """
    if len(X) > START_ROWS.most_counted:
        return X, sample_weight, slice(None)
    if sample_weight is None:
        # Equal rows have equal sums.
        sums = (X * np.linspace(1.0, 2.0, X.shape[1], dtype=X.dtype)).sum(axis=1)
        if 2 * len(np.unique(sums)) > len(X):
            return X, None, slice(None)
    rows, row_of = np.unique(X, axis=0, return_inverse=True)
    if len(rows) < least:
        return X, sample_weight, slice(None)
    row_of = row_of.ravel()
    return rows, np.bincount(row_of, sample_weight).astype(np.float64), row_of


def random_points(X, n_components, random_state, sample_weight):
    """Return random rows, different ones where there are enough."""
    share = None if sample_weight is None else sample_weight / sample_weight.sum()
    rows = random_state.choice(len(X), n_components, replace=False, p=share)
    points = X[rows]
    if len(np.unique(points, axis=0)) < len(points):
        # A point that is there twice would leave one of its components without rows.
        order = random_state.choice(len(X), len(X), replace=False, p=share)
        _, first = np.unique(X[order], axis=0, return_index=True)
        points = X[order[np.sort(first)[:n_components]]]
    return points


def spread_points(X, n_components, random_state, sample_weight):
    """Return the rows that k-means++ chooses."""
    rows, weights, _ = _counted(X, sample_weight, n_components)
    return kmeans_plusplus(
        rows, n_components, sample_weight=weights, random_state=random_state
    )[0]


#: Points to the nearest of which rows belong, by the name that ``init_params`` accepts.
POINTS = {"k-means++": spread_points, "random_from_data": random_points}
START_METHODS = ("kmeans", "random", *POINTS)


def nearest(X, points) -> np.ndarray:
    """Return the nearest of some points for each row."""
    return cdist(X, points, "sqeuclidean").argmin(axis=1)


def chosen_rows(X, n_components, size, random_state):
    """Return the sorted indices of the rows of a start, None for all of an array."""
    n_rows, n_features = X.shape
    if size == "auto":
        size = START_ROWS.size(n_components, n_features)
    if size is None or size >= n_rows:
        return None if carrier_of(X).array is not None else np.arange(n_rows)
    size = max(size, n_components)
    if n_rows <= START_ROWS.most_permuted:
        return np.sort(random_state.choice(n_rows, size, replace=False))
    chosen = sample_without_replacement(n_rows, size, random_state=random_state)
    return np.sort(chosen)


def assigned_statistics(model, X, params, sample_weight=None):
    """Return the statistics of all rows, each with the component of the nearest mean.

    Means from a sample of the rows become a start from all of them.
    """
    assigned = partial(_assigned, model=model, means=params.means)
    total, mass = carrier_of(X).summed(assigned, sample_weight, size=budget.MEMORY.rows)
    return total / mass


def _assigned(block, *, weights, model, means):
    """Return sums of statistics and of weights, for the components of nearest means."""
    identity = np.eye(model.n_components, dtype=np.uint8)
    nearest = pairwise_distances_argmin(block - model.centre, means)
    share = len(block) if weights is None else weights.sum()
    return share * model.mean_statistics(block, identity[nearest], weights), share


def start_statistics(model, X, method, random_state, sample_weight=None):
    """Return the statistics of the first M-step.

    Parameters
    ----------
    model : GaussianMixtureModel
        The model.
    X : ndarray of shape (n_samples, n_features)
        The data.
    method : str or callable
        A name of ``START_METHODS``, or ``method(X, n_components, random_state)`` that
        returns posterior probabilities (n_samples, n_components) or labels
        (n_samples,).
    random_state : numpy.random.RandomState
        Random numbers of the start.
    sample_weight : ndarray of shape (n_samples,) or None, default=None
        Weights.

    Returns
    -------
    ndarray of shape (n_statistics,)
        Mean statistics.

    Raises
    ------
    ValueError
        If a callable returns something else.
    """
    K = model.n_components
    latents: Callable
    if callable(method):
        latents = given_latents(method, X, K, random_state).__getitem__
    elif method == "kmeans":
        latents = kmeans_labels(X, K, random_state, sample_weight).__getitem__
    elif method == "random":

        def latents(rows):
            return random_latents(rows.stop - rows.start, K, random_state)

    else:
        # Hard assignment, as EM from narrow components begins. Components as wide as
        # the data, the other start that the points suggest, end in far worse optima
        # when each component has its own covariance.
        points = POINTS[method](X, K, random_state, sample_weight)

        def latents(rows):
            return nearest(X[rows], points)

    total, mass = 0.0, 0.0
    for first in range(0, len(X), budget.MEMORY.rows):
        rows = slice(first, min(first + budget.MEMORY.rows, len(X)))
        weights = None if sample_weight is None else sample_weight[rows]
        share = rows.stop - rows.start if weights is None else weights.sum()
        Z = latents(rows)
        Z = Z if Z.ndim == 2 else np.eye(K, dtype=np.uint8)[Z]
        total = total + share * model.mean_statistics(X[rows], Z, weights)
        mass += share
    return total / mass


def random_latents(n, K, random_state) -> np.ndarray:
    """Return random responsibilities of `n` rows."""
    uniform = random_state.uniform(size=(n, K))
    return uniform / uniform.sum(axis=1, keepdims=True)


def given_latents(method, X, n_components, random_state) -> np.ndarray:
    """Return the responsibilities or labels of a callable start.

    Raises
    ------
    ValueError
        If it returns something else.
    """
    latents = np.asarray(method(X, n_components, random_state))
    if latents.shape == (len(X), n_components):
        finite = np.isfinite(latents).all() and (latents >= 0).all()
        if finite and (latents.sum(axis=1) > 0).all():
            return np.asarray(latents, dtype=np.float64)
    whole = latents.shape == (len(X),) and np.issubdtype(latents.dtype, np.integer)
    if whole and latents.min() >= 0 and latents.max() < n_components:
        return latents
    raise ValueError(
        "init_params must return non-negative responsibilities of shape "
        f"(n_samples, n_components) = {(len(X), n_components)} or integer labels of "
        "shape (n_samples,) in [0, n_components), got an array of shape "
        f"{latents.shape} and dtype {latents.dtype}"
    )
