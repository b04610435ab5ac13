"""The number of quadrature nodes: it grows until results are stable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.marginal_likelihood import quadrature_draws

__all__ = [
    "NODES",
    "NodeInformation",
    "covariance_of",
    "information_by_nodes",
    "log_likelihood_by_nodes",
    "numbers",
    "uncorrelated",
]

#: Numbers of nodes per random effect that are tried, for log-likelihoods and for
#: information, and the first one where there is time for more.
NODES, INFORMATION_NODES = (3, 5, 7, 9, 15, 25, 41, 69, 115), (3, 5, 8, 13, 21, 35)
FIRST = 5
#: Nodes of a subject, and of all together, at most; and of all together for which those
#: of a subject may be more.
MOST_POINTS, MOST_IN_ALL, FEW_IN_ALL = 2000, 4_000_000, 200_000
#: Change of the log-likelihood, and relative one of a standard error, that is none.
SAME_LIKELIHOOD, SAME_ERROR = 1e-3, 3e-3
#: Eigenvalue of the scaled information below which a direction is not identified, and
#: the share of a parameter in it that counts.
SINGULAR, INVOLVED = 1e-9, 1e-4
#: Least eigenvalue of correlations where rounding leaves digits of the information.
LEAST_OWN_PART = 1e-6


class NodeInformation(NamedTuple):
    """Observed information by quadrature.

    Attributes
    ----------
    information : LouisInformation
        By the largest number of nodes.
    change : ndarray of shape (p,)
        Relative change of the standard errors from the number before, infinite where
        there was none.
    """

    information: object
    change: np.ndarray


def numbers(known, n, d):
    """Return the numbers of nodes that are tried for n subjects and d effects."""
    first = FIRST if n * 9**d <= FEW_IN_ALL else 0
    n = max(n, 1)
    most = min(max(MOST_POINTS, FEW_IN_ALL // n), MOST_IN_ALL // n)
    return [q for q in known if q >= first and q**d <= most]


def log_likelihood_by_nodes(model, X, params, modes, covariances):
    """Return log-likelihoods of subjects, with nodes doubled until they are stable.

    Subjects whose share of the sum is stable keep what they have.
    """
    n, d = modes.shape
    values, changes = np.full(n, np.nan), np.full(n, np.inf)
    left, error = np.arange(n), np.inf
    for n_nodes in numbers(NODES, n, d):
        rows = X if len(left) == n else X[left]
        draws = quadrature_draws(modes[left], covariances[left], n_nodes)
        log_joint = draws.log_joint(model, rows, params)
        new = draws.log_likelihood(log_joint)[0]
        changes[left], values[left] = new - values[left], new
        error = abs(float(changes.sum()))
        if error < SAME_LIKELIHOOD:
            break
        left = np.flatnonzero(~(np.abs(changes) < SAME_LIKELIHOOD / n))
    return values, np.inf if np.isnan(error) else error


def information_by_nodes(model, X, params, modes, covariances, is_held, basis=None):
    """Return the information, with nodes doubled until standard errors are stable."""
    by_nodes, errors = None, np.full(len(is_held), np.nan)
    for n_nodes in numbers(INFORMATION_NODES, *modes.shape):
        draws = quadrature_draws(modes, covariances, n_nodes)
        information = louis_information(model, X, params, draws)
        before = errors
        errors = np.sqrt(np.diag(covariance_of(information.observed, is_held, basis)))
        with np.errstate(invalid="ignore", divide="ignore"):
            change = np.abs(errors / before - 1)
        # A parameter without a standard error in both results has not changed.
        both = np.isnan(errors) & np.isnan(before) & (by_nodes is not None)
        change = np.where(both, 0.0, np.where(np.isnan(change), np.inf, change))
        by_nodes = NodeInformation(information, change)
        if (change < SAME_ERROR).all():
            break
    return by_nodes


def covariance_of(information, is_held, basis=None):
    """Return the inverse of an information matrix, NaN where it has none.

    The columns of a basis are directions in which the parameters are less correlated.
    """
    covariance = np.full(information.shape, np.nan)
    free = np.flatnonzero(~is_held)
    inner = information[np.ix_(free, free)]
    if len(free) == 0 or not np.isfinite(inner).all():
        return covariance
    if basis is not None:
        basis = basis[np.ix_(free, free)]
        inner = basis.T @ inner @ basis
    scale = np.sqrt(np.abs(np.diag(inner)))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(inner / scale[:, None] / scale)
    if basis is not None:
        vectors = basis @ (vectors / scale[:, None])
        scale = np.sqrt((vectors**2).sum(axis=1))
        vectors = vectors / scale[:, None]
        scale = 1 / scale
    singular = values <= SINGULAR
    determined = vectors[:, ~singular]
    inverse = (determined / values[~singular]) @ determined.T / scale[:, None] / scale
    involved = (vectors[:, singular] ** 2).sum(axis=1) > INVOLVED
    inverse[involved], inverse[:, involved] = np.nan, np.nan
    covariance[np.ix_(free, free)] = inverse
    return covariance


def uncorrelated(vector, params):
    """Return a basis of the parameters where random effects correlate closely, or None.

    Its directions are those of random effects that are standard normal and do not
    correlate: coefficients, and entries of the covariance, in the Cholesky factor T of
    the covariance, since ``d omega = T E T'``.
    """
    design = vector.design
    if vector.model.wide is None:
        return None
    widths = np.sqrt(np.diag(params.omega))
    correlations = params.omega / widths[:, None] / widths
    if np.linalg.eigvalsh(correlations)[0] < LEAST_OWN_PART:
        return None
    root = np.linalg.cholesky(params.omega)
    basis = np.eye(len(vector))
    places = np.arange(len(vector))[vector.coefficients]
    positions, columns = design.positions[design.free], design.columns[design.free]
    same = columns[:, None] == columns
    basis[np.ix_(places, places)] = np.where(
        same, root[positions[:, None], positions], 0.0
    )
    j, k = vector.lower.T
    turned = root[j[:, None], j] * root[k[:, None], k]
    turned += np.where(j == k, 0.0, root[j[:, None], k] * root[k[:, None], j])
    basis[vector.omega, vector.omega] = turned
    return basis
