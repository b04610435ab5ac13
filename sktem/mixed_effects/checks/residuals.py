"""Residuals of mixed-effects models: of individuals, and of the population."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from sktem.e_step.random import seed_sequence
from sktem.mixed_effects.checks.rows import ROWS_AT_ONCE, check_rows
from sktem.progress import bar

__all__ = [
    "PopulationResiduals",
    "compared_residuals",
    "decorrelated",
    "individual_residuals",
    "population_residuals",
    "weighted_residuals",
]


class PopulationResiduals(NamedTuple):
    """Residuals relative to the marginal distribution of observations, by simulation.

    Attributes
    ----------
    mean : ndarray of shape (n_rows,)
        Mean of the simulated observations.
    weighted : ndarray of shape (n_rows,)
        Population weighted residuals, with mean 0 and covariance I under the model.
    npde : ndarray of shape (n_rows,)
        Normalised prediction distribution errors, standard normal under the model.
    """

    mean: np.ndarray
    weighted: np.ndarray
    npde: np.ndarray


def individual_residuals(estimator, X, y=None, groups=None, *, events=None):
    """Return individual weighted residuals (IWRES).

    They are ``(y - f) / g(f)`` with f predicted from the modes of the random effects;
    for the exponential error ``(log y - log f) / a``. If a subject has few
    observations, the modes follow them and residuals are too small (shrinkage).

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator with a residual error.
    X : array-like of shape (n_rows, n_features) or Records
        Inputs and covariates, or records with their observations.
    y : array-like of shape (n_rows,) or None, default=None
        Observations, NaN where there is none; None with records.
    groups : array-like of shape (n_rows,) or None, default=None
        Subjects, all of them seen in ``fit``; None only for a model without random
        effects.
    events : Doses, data frame, dict or None, default=None
        Doses of the subjects, as in ``fit``.

    Returns
    -------
    ndarray of shape (n_rows,)
        Residuals, NaN where there is no observation, or only a bound.

    Raises
    ------
    ValueError
        If the model has a ``log_density``, or subjects are unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import individual_residuals
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> bool(0.7 < individual_residuals(line, X, y, groups).std() < 1)
    True
    """
    rows = check_rows(estimator, X, y, groups, events, known=True)
    return rows.spread_out(weighted_residuals(rows)[0])


def weighted_residuals(rows):
    """Return individual weighted residuals of checked rows, and the predictions."""
    model = rows.fitted.model
    if model.error is None or not model.error.names:
        source = "log_density"
        if model.error is not None:
            source = f"residual_error={rows.fitted.problem.settings.residual_error!r}"
        raise ValueError(f"{source} has no residual error to weigh residuals with")
    if np.any(model.error.on(rows).on_logarithms & (rows.y <= 0)):
        raise ValueError("y must be positive for the exponential error")
    f = rows.predicted(individual=True)
    return model.weighted_residuals(rows, f, rows.fitted.params), f


def population_residuals(
    estimator,
    X,
    y=None,
    groups=None,
    *,
    events=None,
    n_simulations=1000,
    random_state=None,
):
    """Compare each subject with simulated ones (NPDE).

    The observations of a subject and of its simulated copies are decorrelated by the
    Cholesky factor of their common covariance, with rows in the given order. The share
    of copies below the observation (with ties, and the place among the copies,
    randomised) is uniform under the model for any number of simulations, because mean
    and covariance include the observations themselves. The NPDE is its normal quantile.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator with a residual error.
    X : array-like of shape (n_rows, n_features) or Records
        Inputs and covariates, or records with their observations, all of which then
        have a residual. In place of a bound (CENS), a draw beyond it, given the
        observations of the subject, is compared.
    y : array-like of shape (n_rows,) or None, default=None
        Observations, NaN where there is none; None with records.
    groups : array-like of shape (n_rows,) or None, default=None
        Subjects, which may be new ones; None only for a model without random effects.
    events : Doses, data frame, dict or None, default=None
        Doses of the subjects, as in ``fit``.
    n_simulations : int, default=1000
        Number of copies of each subject, more than a subject has rows.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    PopulationResiduals
        Means, weighted residuals and NPDE; NaN where there is no observation, and for
        events, whose times are compared by :func:`kaplan_meier_check`.

    Raises
    ------
    ValueError
        If there are too few simulations, simulated values do not vary, or the model has
        a ``log_density`` but no ``draw``.

    References
    ----------
    K. Brendel, E. Comets, C. Laffont, C. Laveille and F. Mentré, Metrics for external
    model evaluation with an application to the population pharmacokinetics of
    gliclazide, Pharmaceutical Research, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import population_residuals
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> residuals = population_residuals(line, X, y, groups, random_state=0)
    >>> bool(abs(residuals.npde.mean()) < 0.2), bool(0.8 < residuals.npde.std() < 1.2)
    (True, True)
    """
    rows = check_rows(estimator, X, y, groups, events)
    compared = compared_residuals(rows, n_simulations, random_state)
    return PopulationResiduals(*(rows.spread_out(values) for values in compared))


def compared_residuals(rows, n_simulations, random_state):
    """Return the residuals of checked rows about their marginal distribution."""
    residuals, used = np.full((3, len(rows.y)), np.nan), ~rows.is_event()
    if used.any():
        rows = rows.where(used)
        residuals[:, used] = decorrelated(
            rows, rows.simulated, n_simulations, random_state
        )
    return PopulationResiduals(*residuals)


def decorrelated(rows, simulated, n_simulations, random_state):
    """Return means, residuals and NPDE of rows about simulated ones.

    ``simulated(chosen, n_copies, rng)`` draws copies of all rows of some subjects, and
    ``rows.completed(rng)`` has draws in place of bounds.
    """
    order = np.argsort(rows.subjects, kind="stable")
    lengths = np.bincount(rows.subjects)
    if not isinstance(n_simulations, Integral) or n_simulations <= lengths.max():
        raise ValueError(
            "n_simulations must be an integer above the rows of a subject, here "
            f"{lengths.max()}, got {n_simulations!r}"
        )
    rng = np.random.default_rng(seed_sequence(random_state))
    ends = np.cumsum(lengths)
    residuals, y = np.empty((3, len(rows.y))), rows.completed(rng)
    start = 0
    with bar("NPDE: subjects", len(lengths)) as advance:
        while start < len(lengths):
            # As many subjects as fit into memory together, at least one.
            before = ends[start] - lengths[start]
            most = before + ROWS_AT_ONCE // n_simulations
            stop = max(start + 1, int(np.searchsorted(ends, most, side="right")))
            chosen = order[before : ends[stop - 1]]
            copies = simulated(chosen, n_simulations, rng)
            both = np.concatenate([y[None, chosen], copies])
            for i in start + np.flatnonzero(lengths[start:stop]):
                part = slice(ends[i] - lengths[i] - before, ends[i] - before)
                try:
                    residuals[:, chosen[part]] = _compared(both[:, part], rng)
                except np.linalg.LinAlgError:
                    name = i if rows.labels is None else rows.labels.tolist()[i]
                    raise ValueError(
                        f"simulated observations of subject {name!r} do not vary, "
                        "or one follows from the others"
                    ) from None
            advance(stop - start)
            start = stop
    return residuals


def _compared(values, rng):
    """Return means, weighted residuals and NPDE of the first row among all rows."""
    n_simulations = len(values) - 1
    mean, spread = values.mean(axis=0), values.std(axis=0)
    if not (np.ptp(values[1:], axis=0) > 0).all():
        raise np.linalg.LinAlgError
    scaled = (values - mean) / spread
    root = np.linalg.cholesky(scaled.T @ scaled / len(values))
    white = solve_triangular(root, scaled.T, lower=True)
    below = (white[:, 1:] < white[:, :1]).sum(axis=1)
    tied = (white[:, 1:] == white[:, :1]).sum(axis=1)
    share = (below + rng.random(len(below)) * (1 + tied)) / (n_simulations + 1)
    return values[1:].mean(axis=0), white[:, 0], ndtri(share)
