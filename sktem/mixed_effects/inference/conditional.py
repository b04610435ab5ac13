"""Modes and curvatures of the latents given the observations."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.sequences.rows import each_block

__all__ = ["ConditionalModes", "conditional_modes"]

#: Newton iterations at most, and the length of a step that ends them, in prior
#: standard deviations.
MOST_ITERATIONS, SHORTEST_STEP = 80, 1e-6
#: Longest first step, in prior standard deviations, and its growth when a step of
#: full length was good.
LONGEST_STEP, GROWTH = 2.0, 4.0
#: Twice the gain of a step below which a search is at its mode.
SMALLEST_GAIN = 1e-4
#: Rows that are evaluated at once.
ROWS_AT_ONCE = 1 << 14


class ConditionalModes(NamedTuple):
    """Modes of the conditional densities of the latents.

    Attributes
    ----------
    modes : ndarray of shape (n, d)
        Modes.
    covariances : ndarray of shape (n, d, d)
        Inverses of the negative Hessians there, made positive definite.
    converged : ndarray of bool of shape (n,)
        Whether the last step of a row was short.
    """

    modes: np.ndarray
    covariances: np.ndarray
    converged: np.ndarray


def conditional_modes(model, X, params, Z) -> ConditionalModes:
    """Find the modes of ``log_joint`` of all rows at once, by damped Newton steps.

    Each search begins at the given place or at the prior mean, whichever has the larger
    density.
    """
    n, d = Z.shape
    if d == 0:
        return ConditionalModes(Z, np.empty((n, 0, 0)), np.ones(n, dtype=bool))
    of_block = partial(_modes_of_block, model, params)
    blocks = each_block(X, of_block, lambda subjects: (Z[subjects],))
    return ConditionalModes(*map(np.concatenate, zip(*blocks, strict=True)))


def _modes_of_block(model, params, X, Z):
    """Find the modes of subjects that are in memory."""
    n, d = Z.shape
    means, root = model.prior_moments(X, params)
    units = np.sqrt((root**2).sum(axis=1))
    value = model.log_joint(X, Z, params)
    central = model.log_joint(X, means, params)
    # Also where the given place has no density at all.
    better = ~(value >= central)
    Z = np.where(better[:, None], means, Z)
    value = np.where(better, central, value)
    damping, longest = np.zeros(n), np.full(n, LONGEST_STEP)
    for _ in range(MOST_ITERATIONS):
        slope, hessian = _derivatives(model, X, params, Z, value, units)
        curvature = _positive(-hessian)
        damped = curvature + damping[:, None, None] * np.eye(d)
        step = np.linalg.solve(damped, slope[:, :, None])[:, :, 0]
        lengths = np.linalg.norm(step, axis=1).clip(1e-300)
        step *= np.minimum(1.0, longest / lengths)[:, None]
        proposed = Z + step * units
        new = model.log_joint(X, proposed, params)
        better = new >= value  # False for NaN
        Z = np.where(better[:, None], proposed, Z)
        value = np.where(better, new, value)
        damping = np.where(better, damping / 10, np.maximum(damping, 0.1) * 10)
        longest = np.where(better & (lengths >= longest), GROWTH * longest, longest)
        longest = np.where(better, longest, np.maximum(longest / GROWTH, LONGEST_STEP))
        short = np.abs(step).max(axis=1) < SHORTEST_STEP
        if short.all():
            break
    slope, hessian = _derivatives(model, X, params, Z, value, units)
    curvature = _positive(-hessian)
    covariances = np.linalg.inv(curvature) * units[:, None] * units
    # The gain of another step; a search that rounding has ended is at its mode too.
    gain = np.einsum("ni,nij,nj->n", slope, np.linalg.inv(curvature), slope)
    return ConditionalModes(Z, covariances, short | (gain < SMALLEST_GAIN))


def _derivatives(model, X, params, Z, value, units):
    """Return slopes and Hessians by finite differences, in units of the prior."""
    n, d = Z.shape
    step = 1e-3
    slope, hessian = np.empty((n, d)), np.empty((n, d, d))
    lower, upper = np.tril_indices(d, -1)
    axes = step * np.diag(units)
    shifts = np.concatenate([axes, axes[lower] + axes[upper]])
    with np.errstate(invalid="ignore"):
        up, down = _at_shifts(model, X, params, Z, np.stack([shifts, -shifts]))
        above, below = up[:d], down[:d]
        slope[:] = ((above - below) / (2 * step)).T
        hessian[:, range(d), range(d)] = ((above - 2 * value + below) / step**2).T
        mixed = up[d:] + down[d:] - above[lower] - above[upper]
        mixed = mixed - below[lower] - below[upper] + 2 * value
        hessian[:, lower, upper] = (mixed / (2 * step**2)).T
        hessian[:, upper, lower] = hessian[:, lower, upper]
    slope = np.where(np.isfinite(slope), slope, 0.0)
    identity = -np.eye(d)
    broken = ~np.isfinite(hessian).all(axis=(1, 2))
    hessian[broken] = identity
    return slope, hessian


def _at_shifts(model, X, params, Z, shifts):
    """Return log-joint densities at all shifts, of the shape (2, n_shifts, n)."""
    n, d = Z.shape
    flat = shifts.reshape(-1, d)
    log_densities = np.empty((len(flat), n))
    at_once = max(1, min(len(flat), ROWS_AT_ONCE // len(X.y)))
    for start in range(0, len(flat), at_once):
        part = flat[start : start + at_once]
        values = model.log_joint(X, Z[:, None] + part, params)
        log_densities[start : start + at_once] = values.T
    return log_densities.reshape(*shifts.shape[:2], n)


def _positive(curvature):
    """Return curvatures with eigenvalues of at least a small one."""
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(np.abs(values), 1e-3)
    return np.einsum("nij,nj,nkj->nik", vectors, values, vectors)
