"""Intervals of estimates by resampling of subjects and of parameters."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from joblib import Parallel, delayed

from sktem.e_step.random import seed_sequence
from sktem.mixed_effects.ascent import Resolution, ascend, likelihood_at
from sktem.mixed_effects.checks.rows import fitted_of
from sktem.mixed_effects.summary import estimates_by_name
from sktem.progress import counted

__all__ = ["bootstrap", "sampling_importance_resampling"]

#: How finely likelihoods are integrated, and the Newton steps of a bootstrap sample.
FINE, STEPS = Resolution(per_subject=1000, most=9), 40


def bootstrap(estimator, n_samples=200, *, n_jobs=None, random_state=None):
    """Fit bootstrap data sets, whose subjects are drawn with replacement.

    Each fit begins at the estimates and takes Newton steps on its likelihood.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator, on data in memory.
    n_samples : int, default=200
        Number of data sets.
    n_jobs : int or None, default=None
        Number of joblib processes.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    DataFrame of shape (n_samples, n_parameters)
        Estimates, with population values on the natural scale; ``quantile([0.025,
        0.975])`` gives confidence intervals. Needs pandas.

    Raises
    ------
    ValueError
        If subjects are read in blocks.

    References
    ----------
    B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 9.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import bootstrap
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> found = bootstrap(line, 20, random_state=0)
    >>> bool(abs(found.slope.std() / line.standard_errors()["slope"] - 1) < 0.5)
    True
    """
    from pandas import DataFrame

    fitted = _checked(fitted_of(estimator), n_samples)
    n = len(fitted.rows)
    seeds = seed_sequence(random_state).spawn(n_samples)
    tasks = [(fitted, np.random.default_rng(seed), n) for seed in seeds]
    return DataFrame(in_processes(_refitted, tasks, n_jobs, "Bootstrap: data sets"))


def in_processes(function, tasks, n_jobs, label):
    """Return the values of a function for each task, under a progress bar."""
    calls = (delayed(function)(*arguments) for arguments in tasks)
    work = iter(Parallel(n_jobs=n_jobs, return_as="generator")(calls))
    return [next(work) for _ in counted(range(len(tasks)), label)]


def _refitted(fitted, rng, n):
    """Return the estimates for subjects drawn with replacement."""
    chosen = rng.integers(n, size=n)
    ascent = ascend(
        fitted.model,
        fitted.rows[chosen],
        fitted.params,
        rng.integers(2**63),
        fitted.modes()[0][chosen],
        most_steps=STEPS,
        least_gain=1e-6,
        resolution=FINE,
    )
    return estimates_by_name(fitted.at(ascent.params))


def sampling_importance_resampling(
    estimator,
    n_draws=1000,
    n_resamples=500,
    *,
    inflation=1.2,
    n_jobs=None,
    random_state=None,
):
    """Draw parameters from the likelihood by resampling Gaussian draws.

    Draws come from the Gaussian distribution given by the standard errors. They are
    kept, without replacement, with probabilities proportional to their likelihood
    divided by their density. With priors they are draws from the posterior.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator, on data in memory.
    n_draws : int, default=1000
        Number of draws; each needs an evaluation of the likelihood.
    n_resamples : int, default=500
        Number of draws to keep.
    inflation : float, default=1.2
        Factor by which the standard deviations of the draws are inflated.
    n_jobs : int or None, default=None
        Number of joblib processes.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    DataFrame of shape (n_resamples, n_parameters)
        Parameters, with population values on the natural scale. Needs pandas.

    Raises
    ------
    ValueError
        If more draws are to be kept than there are, or a standard error is unknown.

    References
    ----------
    A.-G. Dosne, M. Bergstrand, K. Harling and M. O. Karlsson, Improving the estimation
    of parameter uncertainty distributions in nonlinear mixed effects models using
    sampling importance resampling, J. Pharmacokinet. Pharmacodyn. 43, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import sampling_importance_resampling
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> found = sampling_importance_resampling(line, 200, 100, random_state=0)
    >>> bool(abs(found.slope.std() / line.standard_errors()["slope"] - 1) < 0.5)
    True
    """
    from pandas import DataFrame

    fitted = _checked(fitted_of(estimator), n_draws)
    if not 0 < n_resamples <= n_draws:
        raise ValueError(
            f"n_resamples must be between 1 and n_draws={n_draws}, got {n_resamples!r}"
        )
    covariance, vector = fitted.covariance(), fitted.vector
    unknown = ~np.isfinite(np.diag(covariance))
    if unknown.any():
        raise ValueError(
            f"{np.array(vector.names)[unknown].tolist()} have no standard errors, such "
            "as variances at their bounds: leave them out of the model, or resample by "
            "bootstrap"
        )
    rng = np.random.default_rng(seed_sequence(random_state))
    values, positive = vector.of(fitted.params), vector.positive
    # Variances and residual errors are drawn by their logarithms.
    slope = np.where(positive, values, 1.0)
    root = np.linalg.cholesky(covariance / slope[:, None] / slope) * inflation
    white = rng.standard_normal((n_draws, len(values)))
    shifts = white @ root.T
    moved = np.where(positive, values * np.exp(shifts * positive), values + shifts)
    tasks = [(fitted, vector.params(there, fitted.params)) for there in moved]
    label = "Resampling: likelihoods"
    log_weights = np.array(in_processes(_log_posterior, tasks, n_jobs, label))
    log_weights += 0.5 * (white**2).sum(axis=1)
    # Gumbel's keys draw without replacement, in proportion to the weights.
    keys = log_weights + rng.gumbel(size=n_draws)
    resampled = np.argsort(-keys)[:n_resamples]
    return DataFrame([estimates_by_name(fitted.at(tasks[k][1])) for k in resampled])


def _log_posterior(fitted, params):
    """Return the log-likelihood and the log-prior of parameters, -inf where none."""
    if (np.linalg.eigvalsh(params.omega) <= 0).any():
        return -np.inf
    modes = fitted.modes()[0]
    # The same nodes or draws for all: their errors are alike.
    return likelihood_at(fitted.model, fitted.rows, params, modes, 0, FINE).value


def _checked(fitted, count):
    """Return a fit, which has to be one that can be resampled."""
    if not isinstance(count, Integral) or count < 1:
        raise ValueError(f"the number of samples must be positive, got {count!r}")
    if not fitted.rows.in_memory:
        raise ValueError("subjects must be in memory, not read by blocks")
    return fitted
