"""Chains at several parameters, the latents being the same."""

from __future__ import annotations

import numpy as np

__all__ = ["log_conditionals", "residual_sums"]

#: Copies of subjects that are integrated in step at once.
COPIES_AT_ONCE = 1 << 16


def log_conditionals(model, X, Z, several):
    """Return ``log_conditional`` of chains, (n_subjects, n_chains, n_parameters).

    The parameters differ in those without a closed-form M-step.
    """
    errors_only = all(entry.kind == "residual" for entry in model.design.numeric)
    compiled = model.compiled(X, several[0]) if errors_only else None
    if compiled is not None and compiled.has_density:
        errors = np.array([params.sigma for params in several])
        values = compiled.log_likelihoods_of_errors(Z, errors)
        return np.where(np.isnan(values), -np.inf, values)
    if not model.is_in_step:
        return np.stack([model.log_conditional(X, Z, p) for p in several], axis=-1)

    def function(rows, Z, sigma, numeric):
        return rows.sums(model.row_log_likelihood(rows, Z, sigma, numeric))

    return _stacked(function, X, Z, several)


def residual_sums(model, X, Z, several):
    """Return ``residual_sums`` of chains, (n_subjects, n_chains, n_parameters)."""
    if not model.is_in_step:
        sums = [model.residual_sums(X, Z, params.numeric) for params in several]
        return np.stack(sums, axis=-1)

    def function(rows, Z, _, numeric):
        return model.residual_sums(rows, Z, numeric)

    return _stacked(function, X, Z, several)


def _stacked(function, X, Z, several):
    """Return values of a function of copies of subjects, those of a chain in step.

    ``function(rows, Z, sigma, numeric)`` has one value for each of rows.
    """
    n, n_chains, d = Z.shape
    count, values = len(several), []
    numeric, sigma = (
        np.array([getattr(params, name) for params in several])
        for name in ("numeric", "sigma")
    )
    at_once = max(1, COPIES_AT_ONCE // (n * count))
    for start in range(0, n_chains, at_once):
        part = Z[:, start : start + at_once]
        repeats = n * part.shape[1]
        flat = np.repeat(part.reshape(repeats, d), count, axis=0)
        others = (np.tile(one, (repeats, 1)) for one in (sigma, numeric))
        found = function(X.repeat(count * part.shape[1]), flat, *others)
        values.append(found.reshape(n, -1, count))
    return np.concatenate(values, axis=1)
