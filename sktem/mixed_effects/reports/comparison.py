"""Comparisons of fits of the same data by their likelihoods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from sktem.mixed_effects.checks.rows import fitted_of

__all__ = ["LikelihoodRatio", "compare", "likelihood_ratio_test"]


class LikelihoodRatio(NamedTuple):
    """Result of a likelihood-ratio test.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    degrees_of_freedom : int
        Difference in the number of parameters.
    p_value : float
        Probability of a statistic at least as large if the smaller model holds.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float


def compare(*fits, names=None):
    """Return a table of fits to the same data, sorted by AIC.

    Parameters
    ----------
    *fits : NonlinearMixedEffectsRegressor
        Fitted estimators.
    names : sequence of str or None, default=None
        Names of the rows; None numbers the fits in the given order.

    Returns
    -------
    DataFrame
        Number of parameters, -2 log-likelihood, AIC, BIC, their differences from the
        smallest, and whether the fit has converged. Needs pandas.

    Raises
    ------
    ValueError
        If the fits have different numbers of subjects or observations.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import compare
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> flat = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.0}, transforms="normal",
    ...     omega=["intercept"], fixed=["slope"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> compare(flat, line, names=["flat", "line"]).index[0]
    'line'
    """
    from pandas import DataFrame

    _check_same_data(fits)
    table = DataFrame(
        {
            "n_parameters": [len(fit.fitted_.vector) for fit in fits],
            "minus_two_log_likelihood": [-2 * fit.log_likelihood() for fit in fits],
            "aic": [fit.aic() for fit in fits],
            "bic": [fit.bic() for fit in fits],
            "converged": [fit.converged_ for fit in fits],
        },
        index=list(range(len(fits)) if names is None else names),
    )
    table["delta_aic"] = table.aic - table.aic.min()
    table["delta_bic"] = table.bic - table.bic.min()
    return table.sort_values("aic", kind="stable")


def likelihood_ratio_test(smaller, larger) -> LikelihoodRatio:
    """Test a model against a larger one that contains it.

    If the larger model has one variance more, which is at its bound of zero in the
    smaller model, half of the distribution of the statistic has one degree of freedom
    less.

    Parameters
    ----------
    smaller, larger : NonlinearMixedEffectsRegressor
        Fitted estimators of the same data.

    Returns
    -------
    LikelihoodRatio
        The statistic and its p-value.

    Raises
    ------
    ValueError
        If the data differ, the second model is not larger, or a model has priors.

    References
    ----------
    S. G. Self and K.-Y. Liang, Asymptotic properties of maximum likelihood estimators
    and likelihood ratio tests under nonstandard conditions, Journal of the American
    Statistical Association, 1987, case 6.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import likelihood_ratio_test
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> settings = {"parameters": {"intercept": 0.5, "slope": 0.9},
    ...     "transforms": "normal", "omega": ["intercept"], "random_state": 0}
    >>> line = NonlinearMixedEffectsRegressor("linear", **settings)
    >>> known = NonlinearMixedEffectsRegressor("linear", fixed=["slope"], **settings)
    >>> line, known = (f.fit(X, y, groups=groups) for f in (line, known))
    >>> likelihood_ratio_test(known, line).p_value < 0.001
    True
    """
    _check_same_data((smaller, larger))
    if any(fit.fitted_.model.design.priors is not None for fit in (smaller, larger)):
        raise ValueError(
            "likelihood ratios compare maxima of the likelihood, and a fit has priors"
        )
    names = [set(fit.fitted_.vector.names) for fit in (smaller, larger)]
    degrees = len(names[1]) - len(names[0])
    if degrees <= 0:
        raise ValueError(
            f"the larger model must have more parameters, got {len(names[0])} and "
            f"{len(names[1])}"
        )
    statistic = 2 * (larger.log_likelihood() - smaller.log_likelihood())
    at = max(statistic, 0.0)
    p_value = chi2.sf(at, degrees)
    more = [n for n in names[1] - names[0] if n.startswith(("omega2_", "kappa2_"))]
    if len(more) == 1:
        below = chi2.sf(at, degrees - 1) if degrees > 1 else float(at <= 0)
        p_value = 0.5 * (p_value + below)
    return LikelihoodRatio(float(statistic), degrees, float(p_value))


def _check_same_data(fits):
    """Raise an error unless fits have as many subjects and observations."""
    rows_of_fits = [fitted_of(fit).rows for fit in fits]
    sizes = {(len(rows), int(rows.n_rows)) for rows in rows_of_fits}
    if len(sizes) != 1:
        raise ValueError(
            "fits must be of the same data, got numbers of subjects and observations "
            f"{sorted(sizes)}"
        )
    all_rows = [rows for rows in rows_of_fits if rows.in_memory]
    if not all(
        np.array_equal(getattr(rows, name), getattr(all_rows[0], name))
        for rows in all_rows
        for name in ("y", "censored")
    ):
        raise ValueError(
            "fits must be of the same data, got other observations: likelihoods of "
            "other units, or of logarithms, do not compare (an error on logarithms is "
            'residual_error="exponential", with y as it is)'
        )
    if not np.isfinite([f.log_likelihood() for f in fits]).all():
        raise ValueError("the log-likelihood of a fit is not finite")
