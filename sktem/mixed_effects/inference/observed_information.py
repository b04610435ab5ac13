"""Observed information by differences of the log-likelihood."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.differences import DIFFERENCES
from sktem.mixed_effects.vector import ParameterVector

__all__ = ["numerical_hessian", "observed_information"]


def numerical_hessian(function, vector, steps):
    """Return a Hessian by central differences."""
    p = len(vector)
    shifts = np.diag(steps)
    centre = function(vector)
    above = [function(vector + shifts[j]) for j in range(p)]
    below = [function(vector - shifts[j]) for j in range(p)]
    hessian = np.empty((p, p))
    for j in range(p):
        hessian[j, j] = (above[j] - 2 * centre + below[j]) / steps[j] ** 2
        for k in range(j):
            both = function(vector + shifts[j] + shifts[k])
            neither = function(vector - shifts[j] - shifts[k])
            mixed = both + neither - above[j] - above[k] - below[j] - below[k]
            value = (mixed + 2 * centre) / (2 * steps[j] * steps[k])
            hessian[j, k] = hessian[k, j] = value
    return hessian


def observed_information(model, X, params, draws):
    """Return minus the Hessian of the log-likelihood, on points that stay fixed.

    The same points serve for all differences, so that their noise cancels; only the
    parameters that the observations depend on ask for the model function again.
    """
    vector = ParameterVector(model)
    cache: dict[bytes, np.ndarray] = {}

    def log_likelihood(values):
        changed = vector.params(values, params)
        key = np.concatenate([changed.numeric, changed.sigma]).tobytes()
        if key not in cache:
            cache[key] = draws.log_conditional(model, X, changed)
        log_joint = cache[key] + draws.log_prior(model, X, changed)
        return draws.log_likelihood(log_joint)[0].sum()

    steps = DIFFERENCES.step(model.structure) * vector.units(params, X.covariates)
    steps[vector.coefficients] *= 10
    return -numerical_hessian(log_likelihood, vector.of(params), steps)
