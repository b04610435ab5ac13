"""Chains at several parameters, the latents being the same."""

from __future__ import annotations

import numpy as np

from sktem import budget

__all__ = ["log_conditionals", "residual_sums", "values_in_step"]


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
    if model.is_in_step:
        return values_in_step(model, X, Z, several)[0]
    return np.stack([model.log_conditional(X, Z, p) for p in several], axis=-1)


def residual_sums(model, X, Z, several):
    """Return ``residual_sums`` of chains, (n_subjects, n_chains, n_parameters)."""
    sums = [model.residual_sums(X, Z, params.numeric) for params in several]
    return np.stack(sums, axis=-1)


def values_in_step(model, X, Z, several):
    """Return `log_conditionals` and `residual_sums` of a model that is in step.

    The parameters of a chain are integrated in step, once for both.
    """
    n, n_chains, d = Z.shape
    count, logs, sums = len(several), [], []
    numeric, sigma = (
        np.array([getattr(params, name) for params in several])
        for name in ("numeric", "sigma")
    )
    at_once = max(1, budget.MEMORY.rows // (n * count))
    for start in range(0, n_chains, at_once):
        part = Z[:, start : start + at_once]
        repeats = n * part.shape[1]
        copies = X.repeat(count * part.shape[1])
        chains = np.repeat(part.reshape(repeats, d), count, axis=0)
        errors, others = (
            np.tile(constants, (repeats, 1)) for constants in (sigma, numeric)
        )
        values = copies.sums(model.row_log_likelihood(copies, chains, errors, others))
        logs.append(values.reshape(n, -1, count))
        sums.append(model.residual_sums(copies, chains, others).reshape(n, -1, count))
    return np.concatenate(logs, axis=1), np.concatenate(sums, axis=1)
