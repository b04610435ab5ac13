"""Gradients from derivatives of the model function."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.transforms import TRANSFORMS

__all__ = ["supplied_gradient"]


def supplied_gradient(model, X, Z, params):
    """Return slopes of the log-likelihoods by the user's derivatives."""
    design = model.design
    with np.errstate(all="ignore"):
        psi = model.individual_parameters(X, Z, params.numeric)
        f = model._function(psi, X)
        slopes = model.gradient(psi, X.columns)
        sigma = model.sigma_of_rows(X, params.sigma, params.numeric)
        outer = model.error.on(X).slope(X.y, f, sigma, model.least_prediction)
        gradient = np.empty_like(Z)
        for j, p in enumerate(design.latents[design.tied]):
            transform = TRANSFORMS[design.transforms[p]]
            inner = transform.derivative(transform.inverse(psi[design.names[p]]))
            by_row = outer * slopes[design.names[p]] * inner
            if j >= len(design.random):
                m = len(design.occasions.parameters)
                by_row = by_row * (X.occasions == (j - len(design.random)) // m)
            gradient[:, j] = X.sums(by_row)
    return gradient
