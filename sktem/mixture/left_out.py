"""Log-densities of rows under Gaussian mixtures that have not learned them.

A mixture without a row has the weights, means and covariances of an M-step without the
row's responsibilities, while those of the other rows stay as they are: a change of rank
one, so that all rows together cost an E-step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from sktem import budget
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.marginals import Marginal

__all__ = ["Components", "Judged", "left_out_scores", "widened", "widening"]


class Widening(NamedTuple):
    """Settings of the search for the factor of conditional covariances.

    Attributes
    ----------
    tol : float
        Relative change of the factor at which it has converged.
    max_iter : int
        Steps at most.
    complete : int
        Complete rows, at least; with fewer, rows with holes judge too.
    least_left : float
        What is left of a component without one of its rows, at least, as a share.
    """

    tol: float = 1e-3
    max_iter: int = 200
    complete: int = 30
    least_left: float = 1e-9


WIDENING = Widening()


class Components(NamedTuple):
    """Gaussian components without their weights.

    Attributes
    ----------
    covariance_type : {"full", "tied", "diag"}
        Structure of the covariances.
    means : ndarray of shape (K, d)
        Means.
    precisions_cholesky : ndarray
        Factors P with ``P P' = inverse covariance``.
    """

    covariance_type: str
    means: np.ndarray
    precisions_cholesky: np.ndarray


class LeftOut(NamedTuple):
    """Densities of rows, each under the components without it.

    Attributes
    ----------
    log_joint : ndarray of shape (n, K)
        Logarithms of weight times density.
    moved : ndarray of shape (n, K)
        Factor by which a row is farther from the mean without it.
    leverage : ndarray of shape (n, K)
        The row's share in its own squared distance.
    """

    log_joint: np.ndarray
    moved: np.ndarray
    leverage: np.ndarray

    @classmethod
    def of(cls, components, X, R, masses, prior_rows) -> LeftOut:
        """Return the densities of rows, given the responsibilities of their M-step.

        Parameters
        ----------
        components : Components
            Means and covariances.
        X : ndarray of shape (n, d)
            Rows, complete.
        R : ndarray of shape (n, K)
            Responsibilities.
        masses : ndarray of shape (K,)
            Sums of the responsibilities of all rows that are learned.
        prior_rows : float
            Weight of the prior of the covariances, in rows.
        """
        n, d, least = masses.sum(), X.shape[1], WIDENING.least_left
        tied, diagonal = (components.covariance_type == t for t in ("tied", "diag"))
        factors = components.precisions_cholesky
        log_joint, moves, leverages = (np.empty(R.shape) for _ in range(3))
        for k, (r, mass) in enumerate(zip(R.T, masses, strict=True)):
            factor = factors if tied else factors[k]
            apart = X - components.means[k]
            # Variances of single columns change each for itself, a matrix as a whole.
            if diagonal:
                squares, size, roots = (apart * factor) ** 2, 1, factor
            else:
                squares, size = ((apart @ factor) ** 2).sum(axis=1)[:, None], d
                roots = np.diag(factor)
            total = (n if tied else mass) + prior_rows
            rest = np.maximum(mass - r, least * mass)
            left = np.maximum(total - r, least * total)
            moved = mass / rest
            leverage = np.minimum((r * moved / total)[:, None] * squares, 1 - least)
            distance = (moved**2 * left / total)[:, None] * squares / (1 - leverage)
            log_size = size * np.log(total / left)[:, None] + np.log1p(-leverage)
            log_joint[:, k] = np.log(rest / max(n - 1, 1)) + np.log(roots).sum()
            log_joint[:, k] -= (distance + log_size).sum(axis=1) / 2
            moves[:, k], leverages[:, k] = moved, 0.0 if diagonal else leverage[:, 0]
        return cls(log_joint - d * np.log(2 * np.pi) / 2, moves, leverages)


def left_out_scores(components, X, R, prior_rows) -> np.ndarray:
    """Return the log-density of each row under the mixture without that row.

    It is exact for one component; with "tied" covariances, the row's share in each
    component is taken for itself.

    Parameters
    ----------
    components : Components
        Means and covariances.
    X : ndarray of shape (n_samples, n_features)
        The rows that they have learned, complete.
    R : ndarray of shape (n_samples, n_components)
        Probabilities of the components of the rows.
    prior_rows : float
        Weight of the prior of the covariances, in rows.

    Returns
    -------
    ndarray of shape (n_samples,)
        Log-densities.
    """
    masses, scores = R.sum(axis=0), np.empty(len(X))
    for rows in _blocks(X):
        of_rows = LeftOut.of(components, X[rows], R[rows], masses, prior_rows)
        scores[rows] = logsumexp(of_rows.log_joint, axis=1)
    return scores


class Judged(NamedTuple):
    """Rows by which a mixture of inputs and outputs is judged.

    Attributes
    ----------
    fitted : FittedGaussianMixture
        A mixture with covariances "full", "tied" or "diag".
    rows : ndarray of shape (n, d)
        The rows, inputs first; NaN is not observed.
    weights : ndarray of shape (n,)
        How often each row is there.
    R : ndarray of shape (n, K)
        Responsibilities with which it has learned the rows, zeros if it has not.
    masses : ndarray of shape (K,)
        Sums of the responsibilities of all rows that it has learned.
    """

    fitted: Any
    rows: np.ndarray
    weights: np.ndarray
    R: np.ndarray
    masses: np.ndarray

    def distances(self, n_inputs, prior_rows):
        """Return squares and log-densities of inputs without the rows, (n, K)."""
        inputs, outputs = np.split(np.arange(self.rows.shape[1]), [n_inputs])
        gaussian, kind, full = _matrices(self.fitted)
        fill = Marginal(gaussian._replace(covariances=full), inputs, outputs)
        part, X = self.fitted.part(inputs), self.rows
        X = self.fitted.completed(X, "mean", None) if np.isnan(X).any() else X
        X = X[:, inputs]
        of_inputs = part.params.emission
        components = Components(kind, of_inputs.means, of_inputs.precisions_cholesky)
        squares, log_joint = np.empty(self.R.shape), np.empty(self.R.shape)
        for block in _blocks(self.rows):
            learned = self.R[block], self.masses, prior_rows
            left_out = LeftOut.of(components, X[block], *learned)
            for k, spread in enumerate(fill.spreads):
                apart = self.rows[block, n_inputs:] - fill.expected(
                    X[block], gaussian.means[k], k
                )
                distances = (apart * np.linalg.solve(spread, apart.T).T).sum(axis=1)
                squares[block, k] = distances
            squares[block] *= (left_out.moved / (1 - left_out.leverage)) ** 2
            log_joint[block] = left_out.log_joint
        return squares, log_joint - np.linalg.slogdet(fill.spreads)[1] / 2


def widening(parts, n_inputs, prior_rows) -> float:
    """Return the factor of the covariances of outputs given inputs, at least 1.

    It is the one under which rows that are left out have the largest likelihood. For
    one component that is the mean square of the residuals of leave-one-out regressions
    over the variance.

    Parameters
    ----------
    parts : list of Judged
        Rows that are left out one by one, or of which a mixture has learned none.
    n_inputs : int
        Number of the first columns.
    prior_rows : float
        Weight of the prior of the covariances, in rows.
    """
    missing = np.isnan(np.concatenate([part.rows for part in parts]))
    known = ~missing.any(axis=1)
    if known.sum() < WIDENING.complete:  # inputs are completed, by outputs too
        known = ~missing[:, n_inputs:].any(axis=1)
    found = [(*part.distances(n_inputs, prior_rows), part.weights) for part in parts]
    squares, log_joint, weights = map(np.concatenate, zip(*found, strict=True))
    arrays = squares[known], log_joint[known], weights[known]
    return _widening(*arrays, missing.shape[1] - n_inputs)


def widened(fitted, n_inputs, factor):
    """Return a mixture whose last columns, given the first, have wider covariances.

    The distribution of the first columns and the means of the last, given them, do not
    change.
    """
    gaussian, kind, full = _matrices(fitted)
    structure = COVARIANCES[kind](*gaussian.means.shape)
    inputs, outputs = np.split(np.arange(structure.d), [n_inputs])
    spreads = Marginal(gaussian._replace(covariances=full), inputs, outputs).spreads
    full[:, n_inputs:, n_inputs:] += (factor - 1) * spreads
    wider = {
        "full": lambda: full,
        "tied": lambda: full[0],
        "diag": lambda: np.diagonal(full, axis1=1, axis2=2).copy(),
    }[kind]()
    gaussian = gaussian._replace(
        covariances=wider, precisions_cholesky=structure.precisions_cholesky(wider)
    )
    twin = fitted.of_emission
    return replace(twin, params=twin.params._replace(emission=gaussian))


def _matrices(fitted):
    """Return parameters, structure and matrices of covariances of a mixture."""
    twin = fitted.of_emission
    gaussian, kind = twin.params.emission, twin.model.emission.covariance_type
    structure = COVARIANCES[kind](*gaussian.means.shape)
    return gaussian, kind, np.array(structure.full(gaussian.covariances))


def _blocks(rows):
    """Return slices of rows that stay in the cache."""
    size = max(1, budget.MEMORY.cached // rows.shape[1])
    return [slice(start, start + size) for start in range(0, len(rows), size)]


def _widening(squares, log_joint, weights, n_outputs) -> float:
    """Return the factor, by EM for it alone, or 1 if that is below."""
    factor = 1.0
    for _ in range(WIDENING.max_iter if len(squares) else 0):
        shares = softmax(log_joint - squares / (2 * factor), axis=1)
        before, factor = factor, weights @ (shares * squares).sum(axis=1)
        factor /= weights.sum() * n_outputs
        if factor <= 1:  # each step of EM continues in the direction of the first
            return 1.0
        if factor - before <= WIDENING.tol * factor:
            break
    return float(factor)
