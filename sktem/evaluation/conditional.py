"""Conditional laws of the latents given the observations: modes and curvatures."""

from __future__ import annotations

import numpy as np

__all__ = ["conditional_modes"]

#: Newton iterations at most, and the length of a step that ends them, in prior
#: standard deviations.
MOST_ITERATIONS, SHORTEST_STEP = 60, 1e-6


def conditional_modes(model, X, params, Z):
    """Find the modes of ``log_joint`` of all rows at once, by damped Newton steps.

    Parameters
    ----------
    model : LatentModel
        A model with ``log_joint`` and ``prior_moments``.
    X : GroupedRows
        Subjects.
    params : object
        Parameters.
    Z : ndarray of shape (n, d)
        Where the search begins.

    Returns
    -------
    modes : ndarray of shape (n, d)
        Modes.
    covariances : ndarray of shape (n, d, d)
        Inverses of the negative Hessians there, made positive definite.
    """
    n, d = Z.shape
    if d == 0:
        return Z, np.empty((n, 0, 0))
    root = model.prior_moments(X, params)[1]
    units = np.sqrt((root**2).sum(axis=1))
    Z = Z.copy()
    value = model.log_joint(X, Z, params)
    damping = np.zeros(n)
    for _ in range(MOST_ITERATIONS):
        slope, hessian = _derivatives(model, X, params, Z, value, units)
        curvature = _positive(-hessian)
        damped = curvature + damping[:, None, None] * np.eye(d)
        step = np.linalg.solve(damped, slope[:, :, None])[:, :, 0]
        lengths = np.linalg.norm(step, axis=1).clip(1e-300)
        step *= np.minimum(1.0, 2.0 / lengths)[:, None]
        proposed = Z + step * units
        new = model.log_joint(X, proposed, params)
        better = new >= value  # False for NaN
        Z = np.where(better[:, None], proposed, Z)
        value = np.where(better, new, value)
        damping = np.where(better, damping / 10, np.maximum(damping, 0.1) * 10)
        if np.abs(step).max() < SHORTEST_STEP:
            break
    slope, hessian = _derivatives(model, X, params, Z, value, units)
    covariances = np.linalg.inv(_positive(-hessian)) * units[:, None] * units
    return Z, covariances


def _derivatives(model, X, params, Z, value, units):
    """Return slopes and Hessians by finite differences, in units of the prior."""
    n, d = Z.shape
    step = 1e-3
    slope, hessian = np.empty((n, d)), np.empty((n, d, d))
    shifts = step * np.diag(units)
    with np.errstate(invalid="ignore"):
        above = [model.log_joint(X, Z + shifts[j], params) for j in range(d)]
        below = [model.log_joint(X, Z - shifts[j], params) for j in range(d)]
        for j in range(d):
            slope[:, j] = (above[j] - below[j]) / (2 * step)
            hessian[:, j, j] = (above[j] - 2 * value + below[j]) / step**2
            for k in range(j):
                both = model.log_joint(X, Z + shifts[j] + shifts[k], params)
                neither = model.log_joint(X, Z - shifts[j] - shifts[k], params)
                mixed = both + neither - above[j] - above[k] - below[j] - below[k]
                hessian[:, j, k] = (mixed + 2 * value) / (2 * step**2)
                hessian[:, k, j] = hessian[:, j, k]
    slope = np.where(np.isfinite(slope), slope, 0.0)
    identity = -np.eye(d)
    broken = ~np.isfinite(hessian).all(axis=(1, 2))
    hessian[broken] = identity
    return slope, hessian


def _positive(curvature):
    """Return curvatures with eigenvalues of at least a small one."""
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(np.abs(values), 1e-3)
    return np.einsum("nij,nj,nkj->nik", vectors, values, vectors)
