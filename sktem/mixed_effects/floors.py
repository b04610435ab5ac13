"""Least variances of random effects, and least shares that correlations leave."""

from __future__ import annotations

import numpy as np

__all__ = ["correlation_floor", "floors", "own_part", "own_shares", "variance_floors"]

#: Least variance and least eigenvalue of correlations, in units of the wide ones.
LEAST = 1e-6
#: Least eigenvalue of correlations at all: rounding leaves a Cholesky factor there.
ROUNDED = 1e-13


def variance_floors(model) -> np.ndarray:
    """Return shares of variances at the start, or of what each wide one has alone."""
    if model.wide is None:
        return LEAST * np.diag(model.start.omega)
    return LEAST / np.diag(np.linalg.inv(model.wide))


def correlation_floor(model) -> float:
    """Return the least eigenvalue of the correlations, a share of the wide ones'."""
    return max(LEAST * own_part(model), ROUNDED)


def own_part(model) -> float:
    """Return the least eigenvalue of the wide correlations, one without these."""
    if model.wide is None:
        return 1.0
    widths = np.sqrt(np.diag(model.wide))
    correlations = model.wide / widths[:, None] / widths
    return float(np.linalg.eigvalsh(correlations)[0])


def own_shares(model) -> np.ndarray:
    """Return shares of wide deviations that random effects before do not explain."""
    if model.wide is None:
        return np.ones(model.design.n_latents)
    root = np.linalg.cholesky(model.wide)
    return np.diag(root) / np.sqrt(np.diag(model.wide))


def floors(model) -> tuple[np.ndarray, np.ndarray, float]:
    """Return floors of variances, residual errors, and correlations."""
    return variance_floors(model), model.residual_floors, correlation_floor(model)
