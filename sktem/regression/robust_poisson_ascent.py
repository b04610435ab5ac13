"""Newton steps on the marginal likelihood of the robust Poisson regression."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sktem.regression.robust_poisson_model import (
    LEAST_VARIANCE,
    N_NODES,
    RobustPoissonParams,
    quadrature_nodes,
)
from sktem.rows.checked import share_of
from sktem.rows.held import carrier_of

__all__ = ["ascend", "best_start", "has_maximum"]


class Climb(NamedTuple):
    """Limits of the ascent to the maximum, and thresholds for a missing one.

    Attributes
    ----------
    steps : int
        Newton steps, at most.
    longest_step : float
        The longest, of the linear predictor (a root mean square over the rows) and of
        the logarithm of the variance.
    flat : float
        Curvature of a direction, relative to the largest, below which it is noise.
    run_off : float
        Standard error of the logarithm of rates from which it has run off.
    """

    steps: int = 100
    longest_step: float = 2.0
    flat: float = 1e-12
    run_off: float = 100.0


CLIMB = Climb()


def _derivatives(rows, params, weights):
    """Return the log-likelihood and its derivatives in coefficients and log-variance.

    Louis' formula for each row, with the moments of ``d = z - mean``.
    """
    # Two moments of a narrow posterior need few nodes.
    n_nodes = 3 if params.variance <= LEAST_VARIANCE else N_NODES
    function = partial(_of_block, params=params, n_nodes=n_nodes)
    return carrier_of(rows).summed(function, weights)


def _of_block(rows, params, n_nodes, weights):
    """Return the part of a block in the log-likelihood and its derivatives."""
    D, v = rows[:, 1:], params.variance
    z, terms = quadrature_nodes(rows, params, n_nodes)
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
    curved = np.abs(values) > CLIMB.flat * np.abs(values).max()
    along = np.where(curved, along, 0.0)
    lengths = along / np.where(curved, np.abs(values), 1.0)
    step = np.append(vectors @ lengths / scale, np.zeros(frozen))
    return step, 0.5 * float(along @ lengths)


def ascend(rows, params, weights, is_held=False):
    """Climb to the maximum; return the parameters and the remaining gain, in nats.

    The variance may be held.
    """
    value, gradient, hessian = _derivatives(rows, params, weights)
    compute = partial(_information, params=params)
    gram = carrier_of(rows).summed(compute, weights)[1] / weights.sum()
    left = np.inf
    for _ in range(CLIMB.steps):
        at_least = params.variance <= LEAST_VARIANCE and gradient[-1] <= 0
        frozen = int(is_held or at_least)
        step, left = _step(gradient, hessian, frozen)
        if not left > 1e-9 * max(1.0, abs(value) * 1e-3):
            break
        moves = np.sqrt(step[:-1] @ gram @ step[:-1])
        size = min(1.0, CLIMB.longest_step / max(moves, abs(step[-1]), 1e-300))
        while size > 1e-10:
            trial = RobustPoissonParams(
                params.coefficients + size * step[:-1],
                max(params.variance * np.exp(size * step[-1]), LEAST_VARIANCE),
            )
            derivatives = _derivatives(rows, trial, weights)
            if np.isfinite(derivatives[0]) and derivatives[0] > value:
                break
            size /= 4
        else:
            break
        params, (value, gradient, hessian) = trial, derivatives
    return params, left


def has_maximum(rows, params, weights):
    """Return whether no rates run off to zero, where only counts of zero are.

    Weights count in proportion only: theirs may be any unit.
    """
    weights = weights / weights.mean()
    compute = partial(_information, params=params)
    information, gram = carrier_of(rows).summed(compute, weights)
    values, vectors = np.linalg.eigh(gram / weights.sum())
    # Columns that depend on others leave the likelihood as it is.
    identified = values > CLIMB.flat * values[-1]
    units = vectors[:, identified] / np.sqrt(values[identified])
    least = np.linalg.eigvalsh(units.T @ information @ units)[0]
    return bool(least > CLIMB.run_off**-2)


def _information(rows, weights, params):
    """Return the part of a block in the information, roughly, and in products."""
    D = rows[:, 1:]
    rate = np.exp(np.minimum(D @ params.coefficients + params.variance / 2, 300.0))
    shares = weights * rate / (1 + params.variance * rate)
    return (D.T * shares) @ D, (D.T * weights) @ D


def _mean_count(total, rows, weights):
    """Return the part of a block in the mean of the counts."""
    mean = np.average(rows[:, 0], weights=weights)
    return (share_of(rows, weights, total) * mean,)


def _excess(rows, weights, b):
    """Return the part of a block in squares beyond those of counts, and of rates."""
    rate = np.exp(np.minimum(rows[:, 1:] @ b, 300.0))
    return weights @ ((rows[:, 0] - rate) ** 2 - rate), weights @ rate**2


def best_start(rows, weights):
    """Return a Poisson regression, and the variance by its excess scatter.

    At each variance the likelihood has one maximum, wherever a climb begins.
    """
    (mean,) = carrier_of(rows).summed(partial(_mean_count, weights.sum()), weights)
    b = np.append(np.log(mean + 1e-3), np.zeros(rows.shape[1] - 2))
    poisson = RobustPoissonParams(b, LEAST_VARIANCE)
    b = ascend(rows, poisson, weights, is_held=True)[0].coefficients
    beyond, squares = carrier_of(rows).summed(partial(_excess, b=b), weights)
    excess = beyond / max(squares, 1e-300)
    variance = float(np.clip(np.log1p(max(excess, 0.0)), 1e-3, 3.0))
    return RobustPoissonParams(b, variance)
