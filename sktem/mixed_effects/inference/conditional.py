"""Modes and curvatures of the latents given the observations."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.differences import DIFFERENCES
from sktem.sequences.rows import each_block

__all__ = ["ConditionalModes", "conditional_modes"]


class ModeSearch(NamedTuple):
    """Limits of the search for conditional modes.

    Attributes
    ----------
    most_iterations : int
        Newton iterations, at most.
    shortest_step : float
        Length of a step that ends them, in prior standard deviations.
    longest_step : float
        Length of a first step, at most, in prior standard deviations.
    growth : float
        Its growth when a step of full length was good.
    least_gain : float
        Twice the gain of a step below which a search ends.
    smallest_gain : float
        Twice the gain of a step below which it is at its mode, and ends if the step
        leads down.
    rows_at_once : int
        Rows that are evaluated at once.
    away : float
        Standard deviations from a mode at which it is seen how far densities reach.
    least_drop : float
        Drop of a log-density there, as a share of that of a normal one, below which its
        standard deviation is too small, as of the curvature at a kink.
    most_widenings : int
        How often it is made larger, at most.
    least_curvature, least_share : float
        Curvature, at least, and as a share of the largest one, where rounding leaves a
        Cholesky factor.
    """

    most_iterations: int = 80
    shortest_step: float = 1e-6
    longest_step: float = 2.0
    growth: float = 4.0
    least_gain: float = 1e-10
    smallest_gain: float = 1e-4
    rows_at_once: int = 1 << 14
    away: float = 1.5
    least_drop: float = 0.4
    most_widenings: int = 6
    least_curvature: float = 1e-3
    least_share: float = 1e-14


#: The search of every fit.
MODES = ModeSearch()


class ConditionalModes(NamedTuple):
    """Modes of the conditional densities of the latents.

    Attributes
    ----------
    modes : ndarray of shape (n, d)
        Modes.
    covariances : ndarray of shape (n, d, d)
        Inverses of the negative Hessians there, made positive definite, and wider where
        the density reaches farther.
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
    at_start, central = model.log_joint(X, np.stack([Z, means], axis=1), params).T
    # Also where the given place has no density at all.
    Z = np.where((at_start >= central)[:, None], Z, means)
    value, slope, hessian = _derivatives(model, X, params, Z, units)
    damping, longest = np.zeros(n), np.full(n, MODES.longest_step)
    short, lost = np.zeros((2, n), dtype=bool)
    for _ in range(MODES.most_iterations):
        curvatures, axes = _positive(-hessian)
        along = np.einsum("nij,ni->nj", axes, slope)
        gain = (along**2 / curvatures).sum(axis=1)
        if (lost | (gain < MODES.least_gain)).all():
            break
        step = np.einsum("nij,nj->ni", axes, along / (curvatures + damping[:, None]))
        lengths = np.linalg.norm(step, axis=1).clip(1e-300)
        step *= np.minimum(1.0, longest / lengths)[:, None]
        short = np.abs(step).max(axis=1) < MODES.shortest_step
        if short.all():
            break
        proposed = Z + step * units
        new, new_slope, new_hessian = _derivatives(model, X, params, proposed, units)
        better = new >= value  # False for NaN
        # Differences of integrated equations do not tell so small a slope.
        lost |= ~better & (gain < MODES.smallest_gain)
        Z = np.where(better[:, None], proposed, Z)
        value = np.where(better, new, value)
        slope = np.where(better[:, None], new_slope, slope)
        hessian = np.where(better[:, None, None], new_hessian, hessian)
        damping = np.where(better, damping / 10, np.maximum(damping, 0.1) * 10)
        longer, shorter = longest * MODES.growth, longest / MODES.growth
        longest = np.where(better & (lengths >= longest), longer, longest)
        longest = np.where(better, longest, np.maximum(shorter, MODES.longest_step))
    else:
        curvatures, axes = _positive(-hessian)
    roots = axes * units[:, None] / np.sqrt(curvatures)[:, None]
    roots = _widened(model, X, params, Z, value, roots)
    covariances = roots @ roots.transpose(0, 2, 1)
    # A search that rounding has ended is at its mode too.
    return ConditionalModes(Z, covariances, short | (gain < MODES.smallest_gain))


def _widened(model, X, params, Z, value, roots):
    """Return roots of covariances, wider along columns where a density is."""
    d, away = Z.shape[1], MODES.away
    for _ in range(MODES.most_widenings):
        shifts = away * roots.transpose(0, 2, 1)
        points = Z[:, None] + np.concatenate([shifts, -shifts], axis=1)
        with np.errstate(invalid="ignore"):  # there may be no density at all
            drops = value[:, None] - model.log_joint(X, points, params)
        share = np.minimum(drops[:, :d], drops[:, d:]) / (0.5 * away**2)
        narrow = share < MODES.least_drop  # False for NaN
        if not narrow.any():
            break
        scales = np.where(narrow, 1 / np.sqrt(np.maximum(share, 1 / 16)), 1.0)
        roots = roots * scales[:, None]
    return roots


def _derivatives(model, X, params, Z, units):
    """Return values, slopes and Hessians by differences, in units of the prior."""
    n, d = Z.shape
    model = model.in_step(1 + d * (d + 1))
    step = DIFFERENCES.step(model.structure)
    slope, hessian = np.empty((n, d)), np.empty((n, d, d))
    lower, upper = np.tril_indices(d, -1)
    axes = step * np.diag(units)
    shifts = np.concatenate([axes, axes[lower] + axes[upper]])
    shifts = np.concatenate([np.zeros((1, d)), shifts, -shifts])
    with np.errstate(invalid="ignore"):
        values = _at_shifts(model, X, params, Z, shifts)
        value, (up, down) = values[0], np.split(values[1:], 2)
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
    return value, slope, hessian


def _at_shifts(model, X, params, Z, shifts):
    """Return log-joint densities at all shifts, of the shape (n_shifts, n)."""
    log_densities = np.empty((len(shifts), len(Z)))
    at_once = max(1, min(len(shifts), MODES.rows_at_once // len(X.y)))
    if model.is_in_step:
        at_once = len(shifts)
    for start in range(0, len(shifts), at_once):
        part = shifts[start : start + at_once]
        values = model.log_joint(X, Z[:, None] + part, params)
        log_densities[start : start + at_once] = values.T
    return log_densities


def _positive(curvature):
    """Return eigenvalues of curvatures, of at least a small size, and eigenvectors."""
    values, vectors = np.linalg.eigh(curvature)
    values = np.abs(values)
    least = MODES.least_share * values.max(axis=-1, keepdims=True)
    return np.maximum(values, np.maximum(least, MODES.least_curvature)), vectors
