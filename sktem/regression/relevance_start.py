"""Start of relevance determination: maxima of Laplace's approximate evidence.

The evidence of k of p features is penalised by the logarithm of p choose k: a uniform
prior of their number, and of the sets of each number (Scott and Berger, 2010). Without
it the best of many features that say nothing are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import expit, gammaln

__all__ = [
    "LaplaceFit",
    "common_evidence",
    "entry_price",
    "find_start",
    "laplace_fit",
    "price_of",
    "scaled_design",
]

#: Bounds of the variance of a coefficient of a scaled feature. At the lower one the
#: feature is dropped.
LEAST_VARIANCE, LARGEST_VARIANCE = 1e-10, 1e4
#: Variance of the intercept.
INTERCEPT_VARIANCE = 100.0


class StartSearch(NamedTuple):
    """Budget of the search for a start.

    Attributes
    ----------
    affordable : float
        Multiplications per iteration up to which it begins from all features, too.
    common_variances : int
        Variances that are tried where all coefficients have the same.
    falls, additions : int
        Iterations from all features, and of one feature at a time, at most.
    least_gain : float
        Gain of a feature, in nats, below which the latter end.
    """

    affordable: float = 3e8
    common_variances: int = 11
    falls: int = 200
    additions: int = 300
    least_gain: float = 1e-3


START_SEARCH = StartSearch()


def price_of(n_kept, n_features):
    """Return the penalty of a number of kept features, in nats.

    More than half of the features cost as much as half of them.
    """
    k = min(n_kept, n_features // 2)
    return float(gammaln(n_features + 1) - gammaln(k + 1) - gammaln(n_features - k + 1))


def entry_price(n_kept, n_features):
    """Return the penalty of one feature more than a number of kept ones, in nats."""
    return max(float(np.log(max(n_features - n_kept, 1) / (n_kept + 1))), 0.0)


class LaplaceFit(NamedTuple):
    """Mode of the coefficients at given variances, and derived quantities.

    Attributes
    ----------
    scaled : ndarray of shape (n_active + 1,)
        Mode of intercept and coefficients, divided by their prior deviations.
    factor : tuple
        Cholesky factor of the Hessian in the scaled coefficients.
    remaining : ndarray of shape (n_active + 1,)
        Posterior variances over prior variances.
    residuals, weights : ndarray of shape (n_samples,)
        ``y - p`` and ``p (1 - p)`` at the mode.
    log_evidence : float
        Laplace's approximation of the marginal log-likelihood.
    """

    scaled: np.ndarray
    factor: tuple
    remaining: np.ndarray
    residuals: np.ndarray
    weights: np.ndarray
    log_evidence: float


def scaled_design(X, variances):
    """Return ``[1, X]`` times the prior deviations."""
    roots = np.sqrt(np.append(INTERCEPT_VARIANCE, variances))
    return np.column_stack([np.full(len(X), roots[0]), X * roots[1:]])


def laplace_fit(X, y, variances, start=None):
    """Find the mode by Newton's method and expand about it."""
    A = scaled_design(X, variances)
    u = np.zeros(A.shape[1]) if start is None else start

    def objective(u, f):
        return np.logaddexp(0.0, f).sum() - y @ f + 0.5 * u @ u

    f = A @ u
    value = objective(u, f)
    for _ in range(100):
        p = expit(f)
        gradient = A.T @ (p - y) + u
        factor, dual = _hessian(A, p * (1 - p))
        step = -_solve(factor, dual, gradient)
        decrease = -gradient @ step
        if decrease < 1e-10:
            break
        size, move = 1.0, A @ step
        while size > 1e-8:
            new = objective(u + size * step, f + size * move)
            if new <= value - 1e-4 * size * decrease:
                break
            size /= 2
        u, f = u + size * step, f + size * move
        value = objective(u, f)
    p = expit(f)
    weights = p * (1 - p)
    factor, dual = _hessian(A, weights)
    log_determinant = 2 * np.log(np.diag(factor[0])).sum()
    if dual is None:
        inverse = linalg.cho_solve(factor, np.eye(len(u)))
        remaining = np.diag(inverse)
    else:
        half = linalg.solve_triangular(factor[0], dual, lower=True)
        remaining = 1 - (half**2).sum(axis=0)
    evidence = -value - 0.5 * log_determinant
    return LaplaceFit(u, factor, remaining, y - p, weights, float(evidence))


def _hessian(A, weights):
    """Return a factor of ``I + A' W A`` or of its dual, and this one."""
    if A.shape[1] <= A.shape[0]:
        inner = (A.T * weights) @ A
        inner[np.diag_indices_from(inner)] += 1
        return linalg.cho_factor(inner, lower=True), None
    dual = np.sqrt(weights)[:, None] * A
    inner = dual @ dual.T
    inner[np.diag_indices_from(inner)] += 1
    return linalg.cho_factor(inner, lower=True), dual


def _solve(factor, dual, right):
    """Solve ``(I + A' W A) x = right``."""
    if dual is None:
        return linalg.cho_solve(factor, right)
    return right - dual.T @ linalg.cho_solve(factor, dual @ right)


def _fall(X, y, variances):
    """Iterate MacKay's fixed point from given variances of all features."""
    v, active, u = variances.copy(), np.arange(X.shape[1]), None
    for _ in range(START_SEARCH.falls):
        fit = laplace_fit(X[:, active], y, v[active], u)
        known = np.maximum(1 - fit.remaining[1:], 1e-12)
        ratio = np.maximum(fit.scaled[1:] ** 2 / known, 1e-4)
        new = np.minimum(v[active] * ratio, LARGEST_VARIANCE)
        change = np.abs(np.log(new / v[active]))[new > 1e-5]
        v[active] = new
        keep = new > 1e-8
        # The coefficients stay where they are, though their scale has changed.
        u = fit.scaled / np.sqrt(np.append(1.0, ratio))
        v[active[~keep]], active, u = 0.0, active[keep], u[np.append(True, keep)]
        if change.max(initial=0.0) < 1e-2:
            break
    return np.where(v > 1e-5, v, 0.0)


class Margins(NamedTuple):
    """Penalised evidence as a function of one variance at a time."""

    gains: np.ndarray
    variances: np.ndarray


def _margins(X, v, fit):
    """Return the best variance of each feature and its gain (Tipping)."""
    active = np.flatnonzero(v)
    A = scaled_design(X[:, active], v[active])
    cross = (A.T * fit.weights) @ X
    if A.shape[1] <= A.shape[0]:
        half = linalg.solve_triangular(fit.factor[0], cross, lower=True)
        explained = (half**2).sum(axis=0)
    else:
        dual = np.sqrt(fit.weights)[:, None] * A
        inner = linalg.cho_solve(fit.factor, dual @ cross)
        explained = (cross**2).sum(axis=0) - ((dual @ cross) * inner).sum(axis=0)
    sparsity = np.maximum(fit.weights @ X**2 - explained, 1e-12)
    quality = fit.residuals @ X
    # Without the feature itself: 1 / s' = 1 / s - v.
    downdate = np.maximum(1 - v * sparsity, 1e-12)
    mean = np.zeros(len(v))
    mean[active] = fit.scaled[1:] * np.sqrt(v[active])
    quality = np.where(v > 0, mean / np.maximum(v * downdate, 1e-300), quality)
    sparsity = sparsity / downdate
    excess = quality**2 - sparsity
    best = np.where(excess > 0, excess / sparsity**2, 0.0)
    best = np.minimum(best, LARGEST_VARIANCE)

    def evidence(variance):
        known = 1 + variance * sparsity
        return 0.5 * (quality**2 * variance / known - np.log(known))

    n, p = len(active), len(v)
    price = np.where(v > 0, entry_price(max(n - 1, 0), p), entry_price(n, p))
    value = evidence(best) - price
    best, value = np.where(value > 0, best, 0.0), np.maximum(value, 0.0)
    return Margins(value - np.where(v > 0, evidence(v) - price, 0.0), best)


def _ascend(X, y, variances):
    """Change the variance that gains most, one at a time, until none does."""
    v, p = variances.copy(), len(variances)
    fit = laplace_fit(X[:, v > 0], y, v[v > 0])
    height = fit.log_evidence - price_of(np.count_nonzero(v), p)
    refused = np.zeros(len(v), dtype=bool)
    for _ in range(START_SEARCH.additions):
        margins = _margins(X, v, fit)
        gains = np.where(refused, 0.0, margins.gains)
        j = int(np.argmax(gains))
        if gains[j] < START_SEARCH.least_gain:
            break
        trial = v.copy()
        trial[j] = margins.variances[j]
        u = np.zeros(len(v) + 1)
        u[0], u[1:][v > 0] = fit.scaled[0], fit.scaled[1:]
        if trial[j] > 0 and v[j] > 0:
            u[1 + j] *= np.sqrt(v[j] / trial[j])
        active = trial > 0
        new = laplace_fit(X[:, active], y, trial[active], u[np.append(True, active)])
        reached = new.log_evidence - price_of(active.sum(), p)
        if reached < height + 0.1 * START_SEARCH.least_gain:
            refused[j] = True
            continue
        v, fit, height = trial, new, reached
    return height, v


def find_start(X, y):
    """Return the best of several maxima of Laplace's evidence, and its height.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scaled features.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1.

    Returns
    -------
    variances : ndarray of shape (n_features,)
        Prior variances, 0 for features that are dropped.
    height : float
        Evidence at these less the penalty of their number.
    """
    n, p = X.shape
    maxima = [_ascend(X, y, np.zeros(p))]
    if n * p * min(n, p) <= START_SEARCH.affordable:
        for variance in (1.0, 3.0 / p):
            maxima.append(_ascend(X, y, _fall(X, y, np.full(p, variance))))
    height, variances = max(maxima, key=lambda maximum: maximum[0])
    return variances, height


def common_evidence(X, y):
    """Return the best evidence with one variance of all coefficients, and these."""
    p, u, best = X.shape[1], None, (-np.inf, np.empty(0))
    for variance in np.geomspace(1e-4, 10.0, START_SEARCH.common_variances):
        variances = np.full(p, variance)
        fit = laplace_fit(X, y, variances, u)
        u = fit.scaled
        if fit.log_evidence > best[0]:
            best = (fit.log_evidence, variances)
    return best
