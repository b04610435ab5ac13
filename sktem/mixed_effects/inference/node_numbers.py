"""The number of quadrature nodes: it grows until results are stable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.floors import correlations
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.marginal_likelihood import (
    quadrature_draws,
    thin_latents,
    thin_size,
)

__all__ = [
    "NUMBERS",
    "NodeInformation",
    "covariance_of",
    "information_by_nodes",
    "least_share",
    "log_likelihood_by_nodes",
    "numbers",
    "uncorrelated",
]


class NodeNumbers(NamedTuple):
    """Numbers of quadrature nodes, and when there are enough of them.

    Attributes
    ----------
    likelihood : tuple of int
        Nodes per random effect that are tried for log-likelihoods.
    information : tuple of int
        The same for information.
    first : int
        The first of them where there is time for more.
    most_of_subject : int
        Nodes of a subject, at most.
    most_in_all : int
        Nodes of all subjects together, at most.
    few_in_all : int
        Nodes of all together for which those of a subject may be more.
    same_likelihood : float
        Change of the log-likelihood that is none.
    same_error : float
        Relative change of a standard error that is none.
    singular : float
        Eigenvalue of the scaled information below which a direction is not identified.
    involved : float
        Share of a parameter in such a direction that counts.
    least_own_part : float
        Eigenvalue of correlations, at least, where rounding leaves digits of the
        information.
    """

    likelihood: tuple[int, ...] = (3, 5, 7, 9, 15, 25, 41, 69, 115)
    information: tuple[int, ...] = (3, 5, 8, 13, 21, 35)
    first: int = 5
    most_of_subject: int = 2000
    most_in_all: int = 4_000_000
    few_in_all: int = 200_000
    same_likelihood: float = 1e-3
    same_error: float = 3e-3
    singular: float = 1e-9
    involved: float = 1e-4
    least_own_part: float = 1e-7


#: The numbers of every fit.
NUMBERS = NodeNumbers()


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


def numbers(known, n, d, thin=()):
    """Return the numbers of nodes that are tried for n subjects and d effects."""
    d, size = d - len(thin), thin_size(len(thin))
    first = NUMBERS.first if n * 9**d <= NUMBERS.few_in_all else 0
    n = max(n, 1)
    most = max(NUMBERS.most_of_subject, NUMBERS.few_in_all // n)
    most = min(most, NUMBERS.most_in_all // n)
    return [q for q in known if q >= first and q**d * size <= most]


def log_likelihood_by_nodes(model, X, params, modes, covariances):
    """Return log-likelihoods of subjects, with nodes doubled until they are stable.

    Subjects whose share of the sum is stable keep what they have.
    """
    n, d = modes.shape
    values, changes = np.full(n, np.nan), np.full(n, np.inf)
    left, error, thin = np.arange(n), np.inf, thin_latents(model, params)
    for n_nodes in numbers(NUMBERS.likelihood, n, d, thin):
        rows = X if len(left) == n else X[left]
        draws = quadrature_draws(modes[left], covariances[left], n_nodes, thin)
        log_joint = draws.log_joint(model, rows, params)
        new = draws.log_likelihood(log_joint)[0]
        changes[left], values[left] = new - values[left], new
        error = abs(float(changes.sum()))
        if error < NUMBERS.same_likelihood:
            break
        left = np.flatnonzero(~(np.abs(changes) < NUMBERS.same_likelihood / n))
    return values, np.inf if np.isnan(error) else error


def information_by_nodes(model, X, params, modes, covariances, is_held, basis=None):
    """Return the information, with nodes doubled until standard errors are stable."""
    by_nodes, errors = None, np.full(len(is_held), np.nan)
    (n, d), thin = modes.shape, thin_latents(model, params)
    for n_nodes in numbers(NUMBERS.information, n, d, thin):
        draws = quadrature_draws(modes, covariances, n_nodes, thin)
        information = louis_information(model, X, params, draws)
        before = errors
        errors = np.sqrt(np.diag(covariance_of(information.observed, is_held, basis)))
        with np.errstate(invalid="ignore", divide="ignore"):
            change = np.abs(errors / before - 1)
        # A parameter without a standard error in both results has not changed.
        both = np.isnan(errors) & np.isnan(before) & (by_nodes is not None)
        change = np.where(both, 0.0, np.where(np.isnan(change), np.inf, change))
        by_nodes = NodeInformation(information, change)
        if (change < NUMBERS.same_error).all():
            break
    return by_nodes


def least_share(information) -> float:
    """Return the least share of complete information of any direction, 0 for NaN."""
    with np.errstate(all="ignore"):
        widths = np.sqrt(np.diag(information.complete))
        shares = information.observed / widths[:, None] / widths
    return np.linalg.eigvalsh(shares)[0] if np.isfinite(shares).all() else 0.0


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
    singular = values <= NUMBERS.singular
    determined = vectors[:, ~singular]
    inverse = (determined / values[~singular]) @ determined.T / scale[:, None] / scale
    involved = (vectors[:, singular] ** 2).sum(axis=1) > NUMBERS.involved
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
    if np.linalg.eigvalsh(correlations(params.omega)[0])[0] < NUMBERS.least_own_part:
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
