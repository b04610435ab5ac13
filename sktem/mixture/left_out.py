"""Densities of rows under a Gaussian mixture that has not learned them."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

__all__ = ["left_out_scores"]

#: What is left of a component without one of its rows is at least this share of it.
LEAST_LEFT = 1e-9


def left_out_scores(mixture, X, prior_rows) -> np.ndarray:
    """Return the log-density of each row under the mixture without that row.

    The mixture without a row has the weights, means and covariances of an M-step
    without the row's responsibilities, while those of the others stay as they are: a
    change of rank one, so that all rows together cost an E-step. With one component
    that is exact; with "tied" covariances, the row's share in each is taken for itself.

    Parameters
    ----------
    mixture : StochasticEMGaussianMixture
        A fitted mixture with covariances "full", "tied" or "diag".
    X : ndarray of shape (n_samples, n_features)
        The rows that it has learned, complete.
    prior_rows : float
        Weight of the prior of the covariances, in rows.

    Returns
    -------
    ndarray of shape (n_samples,)
        Log-densities.
    """
    n, d = X.shape
    R, covariance_type = mixture.predict_proba(X), mixture.covariance_type
    factors = mixture.precisions_cholesky_
    terms = np.empty(R.shape)
    for k, (r, mass) in enumerate(zip(R.T, R.sum(axis=0), strict=True)):
        factor = factors if covariance_type == "tied" else factors[k]
        apart = X - mixture.means_[k]
        # Variances of single columns change each for itself, a matrix as a whole.
        if covariance_type == "diag":
            squares, size, roots = (apart * factor) ** 2, 1, factor
        else:
            squares, size = ((apart @ factor) ** 2).sum(axis=1)[:, None], d
            roots = np.diag(factor)
        total = (n if covariance_type == "tied" else mass) + prior_rows
        rest = np.maximum(mass - r, LEAST_LEFT * mass)
        left = np.maximum(total - r, LEAST_LEFT * total)
        moved = (mass / rest)[:, None]  # the mean goes away from the row
        own = np.minimum(r[:, None] * moved / total * squares, 1 - LEAST_LEFT)
        distance = moved**2 * squares / (1 - own) * (left / total)[:, None]
        log_size = size * np.log(total / left)[:, None] + np.log1p(-own)
        terms[:, k] = np.log(rest / max(n - 1, 1)) + np.log(roots).sum()
        terms[:, k] -= (distance + log_size).sum(axis=1) / 2
    return logsumexp(terms, axis=1) - d * np.log(2 * np.pi) / 2
