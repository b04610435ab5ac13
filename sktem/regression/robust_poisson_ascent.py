"""Newton steps on the marginal likelihood of the robust Poisson regression."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sktem.regression.robust_poisson_model import (
    LEAST_VARIANCE,
    RobustPoissonModel,
    RobustPoissonParams,
)
from sktem.rows.checked import aligned_blocks, share_of

__all__ = ["ascend", "best_start"]

#: Newton steps, and the longest of the linear predictor and of the log-variance.
N_STEPS, LONGEST_STEP = 100, 2.0
#: Curvature of a direction, relative to the largest, below which it is noise.
FLAT = 1e-12


def _summed(function, rows, weights):
    """Return the sums over blocks of rows of what a function returns."""
    total = None
    for part, w in aligned_blocks(rows, weights):
        found = function(part, w)
        pairs = found if total is None else zip(total, found, strict=True)
        total = found if total is None else tuple(a + b for a, b in pairs)
    return total


def _derivatives(rows, params, weights):
    """Return the log-likelihood and its derivatives in coefficients and log-variance.

    Louis' formula for each row, with the moments of ``d = z - mean``.
    """
    return _summed(lambda part, w: _of_block(part, params, w), rows, weights)


def _of_block(rows, params, weights):
    """Return the part of a block in the log-likelihood and its derivatives."""
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
        moves = max(
            np.abs(part[:, 1:] @ step[:-1]).max() for part, _ in aligned_blocks(rows)
        )
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

    def value_at(b):
        def of(part, w):
            eta = part[:, 1:] @ b
            return (w @ (part[:, 0] * eta - np.exp(eta)),)

        return _summed(of, rows, weights)[0]

    def derivatives_at(b):
        def of(part, w):
            y, D = part[:, 0], part[:, 1:]
            rate = np.exp(D @ b)
            return (D.T * (w * rate)) @ D, D.T @ (w * (y - rate))

        return _summed(of, rows, weights)

    b = np.zeros(rows.shape[1] - 1)
    mean = sum(
        share_of(part, w, rows, weights) * np.average(part[:, 0], weights=w)
        for part, w in aligned_blocks(rows, weights)
    )
    b[0] = np.log(mean + 1e-3)
    with np.errstate(over="ignore"):
        value = value_at(b)
        for _ in range(50):
            hessian, gradient = derivatives_at(b)
            step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
            size = 1.0
            while size > 1e-6:
                new = value_at(b + size * step)
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
    reduced = np.empty((0, rows.shape[1]))
    for part, w in aligned_blocks(rows, weights):
        root = np.sqrt(w)
        target = np.log(part[:, 0] + 0.5) * root
        own = np.column_stack([part[:, 1:] * root[:, None], target])
        # Of several blocks the triangular factor stands for all rows before.
        joined = np.vstack([reduced, own])
        reduced = joined if len(reduced) == 0 else np.linalg.qr(joined).R
    b = np.linalg.lstsq(reduced[:, :-1], reduced[:, -1], rcond=None)[0]
    rest = sum(
        share_of(part, w, rows, weights)
        * np.average((np.log(part[:, 0] + 0.5) - part[:, 1:] @ b) ** 2, weights=w)
        for part, w in aligned_blocks(rows, weights)
    )
    return RobustPoissonParams(b, max(float(rest), 0.01))


def best_start(rows, weights):
    """Return the likelier of two starts: a Poisson regression and least squares."""
    model = RobustPoissonModel()
    b = _poisson(rows, weights)

    def moments(part, w):
        rate = np.exp(np.minimum(part[:, 1:] @ b, 300.0))
        return w @ ((part[:, 0] - rate) ** 2 - rate), w @ rate**2

    beyond, squares = _summed(moments, rows, weights)
    excess = beyond / max(squares, 1e-300)
    variance = float(np.clip(np.log1p(max(excess, 0.0)), 1e-3, 3.0))
    starts = [RobustPoissonParams(b, variance), _least_squares(rows, weights)]

    def values(part, w):
        return tuple(w @ model.log_likelihood(part, start) for start in starts)

    return starts[int(np.nanargmax(_summed(values, rows, weights)))]
