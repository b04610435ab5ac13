"""Newton steps on the marginal likelihood of the robust Poisson regression."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sktem.regression.robust_poisson_model import (
    LEAST_VARIANCE,
    RobustPoissonModel,
    RobustPoissonParams,
)

__all__ = ["ascend", "best_start"]

#: Newton steps, and the longest of the linear predictor and of the log-variance.
N_STEPS, LONGEST_STEP = 100, 2.0
#: Curvature of a direction, relative to the largest, below which it is noise.
FLAT = 1e-12


def _derivatives(rows, params, weights):
    """Return the log-likelihood and its derivatives in coefficients and log-variance.

    Louis' formula for each row, with the moments of ``d = z - mean``.
    """
    D, v = rows[:, 1:], params.variance
    z, terms = RobustPoissonModel()._nodes(rows, params)
    total = logsumexp(terms, axis=1, keepdims=True)
    shares = np.exp(terms - total)
    d = z - (D @ params.coefficients)[:, None]
    mean, square = (shares * d).sum(axis=1), (shares * d**2).sum(axis=1)
    centred, deviation = d - mean[:, None], d**2 - square[:, None]
    variance = (shares * centred**2).sum(axis=1)
    cross = (shares * centred * deviation).sum(axis=1)
    fourth = (shares * deviation**2).sum(axis=1)
    gradient = np.append(D.T @ (weights * mean / v), weights @ (0.5 * (square / v - 1)))
    within = weights * (variance / v - 1) / v
    between = D.T @ (weights * (cross / (2 * v) - mean) / v)
    last = weights @ (fourth / (4 * v**2) - square / (2 * v))
    hessian = np.block(
        [[(D.T * within) @ D, between[:, None]], [between[None, :], np.array([[last]])]]
    )
    return weights @ total[:, 0], gradient, hessian


def _step(gradient, hessian, frozen):
    """Return a step uphill, and half of its gain by a quadratic."""
    free = np.arange(len(gradient) - frozen)
    gradient, hessian = gradient[free], hessian[np.ix_(free, free)]
    # Free of units: the diagonal is scaled to one.
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-300))
    values, vectors = np.linalg.eigh(-hessian / scale / scale[:, None])
    along = vectors.T @ (gradient / scale)
    curved = np.abs(values) > FLAT * np.abs(values).max()
    along = np.where(curved, along, 0.0)
    lengths = along / np.where(curved, np.abs(values), 1.0)
    step = np.append(vectors @ lengths / scale, np.zeros(frozen))
    return step, 0.5 * float(along @ lengths)


def ascend(rows, params, weights):
    """Climb to the maximum; return the parameters and the remaining gain, in nats."""
    value, gradient, hessian = _derivatives(rows, params, weights)
    left = np.inf
    for _ in range(N_STEPS):
        frozen = int(params.variance <= LEAST_VARIANCE and gradient[-1] <= 0)
        step, left = _step(gradient, hessian, frozen)
        if not left > 1e-9 * max(1.0, abs(value) * 1e-3):
            break
        moves = np.abs(rows[:, 1:] @ step[:-1]).max()
        size = min(1.0, LONGEST_STEP / max(moves, abs(step[-1]), 1e-300))
        while size > 1e-10:
            trial = RobustPoissonParams(
                params.coefficients + size * step[:-1],
                max(params.variance * np.exp(size * step[-1]), LEAST_VARIANCE),
            )
            found = _derivatives(rows, trial, weights)
            if np.isfinite(found[0]) and found[0] > value:
                break
            size /= 4
        else:
            break
        params, (value, gradient, hessian) = trial, found
    return params, left


def _poisson(rows, weights):
    """Return the coefficients of the Poisson regression, by Newton's method."""
    y, D = rows[:, 0], rows[:, 1:]
    b = np.zeros(D.shape[1])
    b[0] = np.log(np.average(y, weights=weights) + 1e-3)
    with np.errstate(over="ignore"):
        value = weights @ (y * (D @ b) - np.exp(D @ b))
        for _ in range(50):
            rate = np.exp(D @ b)
            hessian = (D.T * (weights * rate)) @ D
            step = np.linalg.lstsq(hessian, D.T @ (weights * (y - rate)), rcond=1e-12)
            step, size = step[0], 1.0
            while size > 1e-6:
                eta = D @ (b + size * step)
                new = weights @ (y * eta - np.exp(eta))
                if new > value:
                    break
                size /= 2
            else:
                break
            done = new - value < 1e-8 * abs(value)
            b, value = b + size * step, new
            if done:
                break
    return b


def _least_squares(rows, weights):
    """Return weighted least squares of ``log(y + 1/2)``."""
    target, root = np.log(rows[:, 0] + 0.5), np.sqrt(weights)
    D = rows[:, 1:]
    b = np.linalg.lstsq(D * root[:, None], target * root, rcond=None)[0]
    rest = np.average((target - D @ b) ** 2, weights=weights)
    return RobustPoissonParams(b, max(float(rest), 0.01))


def best_start(rows, weights):
    """Return the likelier of two starts: a Poisson regression and least squares."""
    model = RobustPoissonModel()
    y, D = rows[:, 0], rows[:, 1:]
    b = _poisson(rows, weights)
    rate = np.exp(np.minimum(D @ b, 300.0))
    excess = weights @ ((y - rate) ** 2 - rate) / max(weights @ rate**2, 1e-300)
    variance = float(np.clip(np.log1p(max(excess, 0.0)), 1e-3, 3.0))
    starts = [RobustPoissonParams(b, variance), _least_squares(rows, weights)]
    values = [weights @ model.log_likelihood(rows, start) for start in starts]
    return starts[int(np.nanargmax(values))]
