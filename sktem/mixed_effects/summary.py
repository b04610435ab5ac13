"""Estimates of a fit as a table."""

from __future__ import annotations

import numpy as np

__all__ = ["summary_of"]


def summary_of(estimator):
    """Return a data frame of estimates, and figures of the whole fit in its attrs."""
    from pandas import DataFrame

    fitted = estimator.fitted_
    errors = estimator.standard_errors()
    estimates = _natural(fitted)
    shrinkage = fitted.shrinkage()
    names = list(errors)
    values = np.array([estimates[name] for name in names])
    spread = np.array([errors[name] for name in names])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = 100 * spread / np.abs(values)
    table = DataFrame(
        {
            "estimate": values,
            "standard_error": spread,
            "relative_standard_error": relative,
            "shrinkage": [shrinkage.get(name, np.nan) for name in names],
        },
        index=names,
    )
    log_likelihood = estimator.log_likelihood()
    table.attrs = {
        "minus_two_log_likelihood": -2 * log_likelihood,
        "aic": estimator.aic(),
        "bic": estimator.bic(),
        "n_subjects": len(fitted.rows),
        "n_observations": int(fitted.rows.n_rows),
    }
    return table


def _natural(fitted):
    """Return estimates by name, population values on the natural scale."""
    vector, found = fitted.vector, fitted.attributes()["population_parameters_"]
    values = vector.of(fitted.params).tolist()
    plain = dict(zip(vector.names, values, strict=True))
    return {name: found.get(name, value) for name, value in plain.items()}
