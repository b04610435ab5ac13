"""Starts of a mixture of any emission: responsibilities of rows with holes."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from sktem.emissions.categorical import Categorical
from sktem.emissions.columns import Columns
from sktem.emissions.exponential import Exponential
from sktem.emissions.gamma import Gamma
from sktem.emissions.gaussian import Gaussian
from sktem.emissions.log_normal import LogNormal
from sktem.emissions.negative_binomial import NegativeBinomial
from sktem.emissions.poisson import Poisson
from sktem.emissions.von_mises import VonMises
from sktem.mixture import start
from sktem.mixture.start import kmeans_labels, random_points, spread_points

__all__ = ["points_of", "start_responsibilities"]

#: A standard deviation below this share of the mean is a rounding error.
ROUNDING = 1e-14


def points_of(X, emission, sample_weight=None) -> np.ndarray:
    """Return rows as points whose distances mean something, without holes.

    Numbers have variance 1, counts and positive numbers being taken in roots and
    logarithms, categories are indicators, angles are points of the circle; what is
    missing is at the mean. Complete rows of Gaussians are left as they are, as in
    scikit-learn.
    """
    if isinstance(emission, Gaussian) and not np.isnan(X).any():
        return X
    if isinstance(emission, Columns):
        parts = [
            points_of_block(X[:, columns], block_emission, sample_weight)
            for _, block_emission, columns in emission.resolved(X).emissions
        ]
        return np.concatenate(parts, axis=1)
    return points_of_block(X, emission, sample_weight)


def points_of_block(X, emission, sample_weight):
    """Return the columns of one emission as columns of points."""
    if isinstance(emission, Categorical):
        return _filled(_indicators(X), sample_weight)
    if isinstance(emission, VonMises):
        circle = np.concatenate([np.cos(X), np.sin(X)], axis=1)
        return _filled(circle, sample_weight)
    if isinstance(emission, (Poisson, NegativeBinomial)):
        X = np.sqrt(X)
    elif isinstance(emission, (LogNormal, Gamma, Exponential)):
        X = np.log(np.maximum(X, 1e-300))
    points = _filled(X, sample_weight)
    means = np.average(points, axis=0, weights=sample_weight)
    points = points - means
    widths = np.sqrt(np.average(points**2, axis=0, weights=sample_weight))
    return points / np.where(widths > ROUNDING * np.abs(means), widths, 1.0)


def _indicators(X):
    """Return columns of ones and zeros for each code of each column."""
    columns = []
    for column in X.T:
        observed = ~np.isnan(column)
        codes = np.unique(column[observed])
        flags = (column[:, None] == codes).astype(np.float64)
        flags[~observed] = np.nan
        # Two categories that differ count as two numbers that differ by the same.
        columns.append(flags)
    return np.concatenate(columns, axis=1) if columns else np.empty((len(X), 0))


def _filled(X, sample_weight):
    """Return columns with their means where nothing is observed."""
    observed = ~np.isnan(X)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    counts = weights @ observed
    means = weights @ np.where(observed, X, 0.0) / np.where(counts > 0, counts, 1.0)
    return np.where(observed, X, means)


def start_responsibilities(
    X, emission, n_components, method, random_state, sample_weight=None
) -> np.ndarray:
    """Return responsibilities from which the first M-step is made.

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
        given = np.asarray(method(X, K, random_state))
        if given.shape == (n, K):
            return np.asarray(given, dtype=np.float64)
        whole = given.shape == (n,) and np.issubdtype(given.dtype, np.integer)
        if whole and given.min() >= 0 and given.max() < K:
            return np.eye(K)[given]
        raise ValueError(
            "init_params must return responsibilities of shape (n_samples, "
            f"n_components) = {(n, K)} or integer labels of shape (n_samples,) in [0, "
            f"n_components), got shape {given.shape} and dtype {given.dtype}"
        )
    if method == "random":
        uniform = random_state.uniform(size=(n, K))
        return uniform / uniform.sum(axis=1, keepdims=True)
    points = points_of(X, emission, sample_weight)
    if method == "kmeans":
        rule, n_starts = start.START_ROWS, 1
        if not isinstance(emission, Gaussian) and n <= rule.most_clustered:
            n_starts = rule.n_clusterings
        labels = kmeans_labels(points, K, random_state, sample_weight, n_starts)
        return np.eye(K)[labels]
    choose = spread_points if method == "k-means++" else random_points
    chosen = choose(points, K, random_state, sample_weight)
    return np.eye(K)[pairwise_distances_argmin(points, chosen)]
