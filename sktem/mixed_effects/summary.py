"""Estimates of a fit as a table."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.floors import correlations

__all__ = ["estimates_by_name", "summary_of"]


def summary_of(fitted, errors, log_likelihood, aic, bic):
    """Return a data frame of estimates, and figures of the whole fit in its attrs."""
    from sktem.mixed_effects.summary_table import SummaryTable

    estimates = estimates_by_name(fitted)
    shrinkage = fitted.shrinkage()
    names = list(errors)
    values = np.array([estimates[name] for name in names])
    spread = np.array([errors[name] for name in names])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = 100 * spread / np.abs(values)
    table = SummaryTable(
        {
            "estimate": values,
            "standard_error": spread,
            "relative_standard_error": relative,
            "shrinkage": [shrinkage.get(name, np.nan) for name in names],
        },
        index=names,
    )
    table.attrs = {
        "minus_two_log_likelihood": -2 * log_likelihood,
        "aic": aic,
        "bic": bic,
        "condition_number": _condition_number(fitted.covariance()),
        "epsilon_shrinkage": _epsilon_shrinkage(fitted),
        "n_subjects": len(fitted.rows),
        "n_observations": int(fitted.rows.n_rows),
    }
    return table


def _condition_number(covariance):
    """Return the ratio of the eigenvalues of the correlations of the estimates."""
    known = np.isfinite(np.diag(covariance))
    inner = covariance[np.ix_(known, known)]
    if not inner.size:
        return np.nan
    values = np.linalg.eigvalsh(correlations(inner)[0])
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf


def _epsilon_shrinkage(fitted):
    """Return by how much the deviation of individual residuals is below one."""
    if fitted.model.error is None or not fitted.rows.in_memory:
        return np.nan
    residuals = fitted.individual_rows()[1]
    known = residuals[~np.isnan(residuals)]
    return float(1 - known.std()) if len(known) else np.nan


def estimates_by_name(fitted):
    """Return estimates by name, population values on the natural scale."""
    vector, population = fitted.vector, fitted.attributes()["population_parameters_"]
    values = vector.of(fitted.params).tolist()
    plain = dict(zip(vector.names, values, strict=True))
    return {name: population.get(name, value) for name, value in plain.items()}
