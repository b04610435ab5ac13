"""Visual predictive check: percentiles of the data and of simulations."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np

from sktem.e_step.random import seed_sequence
from sktem.mixed_effects.checks.rows import (
    ROWS_AT_ONCE,
    check_level,
    check_rows,
    limited,
    time_column,
)
from sktem.progress import counted

__all__ = [
    "VisualPredictiveCheck",
    "bin_times",
    "prediction_factors",
    "visual_predictive_check",
]

#: Up to this many distinct times get their own bin; otherwise this is the largest
#: number of bins, and the least number of rows in each.
MOST_TIMES, MOST_BINS, LEAST_ROWS = 12, 10, 15


class VisualPredictiveCheck(NamedTuple):
    """Percentiles of observed and simulated data in bins of time.

    Attributes
    ----------
    quantiles : ndarray of shape (n_quantiles,)
        Which percentiles, as shares.
    edges : ndarray of shape (n_bins + 1,)
        Edges of the bins.
    centres : ndarray of shape (n_bins,)
        Mean time of the rows in a bin.
    counts : ndarray of int of shape (n_bins,)
        Number of rows in each bin.
    observed : ndarray of shape (n_quantiles, n_bins)
        Percentiles of the observations.
    lower, median, upper : ndarray of shape (n_quantiles, n_bins)
        Band and median of the same percentiles of simulated data.
    level : float
        Probability of each band.
    time, values : ndarray of shape (n_rows,)
        The observations in the bins, corrected if ``prediction_corrected``.
    prediction_corrected : bool
        Whether values were scaled to the typical prediction in their bin.
    """

    quantiles: np.ndarray
    edges: np.ndarray
    centres: np.ndarray
    counts: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    median: np.ndarray
    upper: np.ndarray
    level: float
    time: np.ndarray
    values: np.ndarray
    prediction_corrected: bool


def bin_times(time, bins="auto"):
    """Sort times into bins.

    Parameters
    ----------
    time : ndarray of shape (n_rows,)
        Times.
    bins : int, array-like or "auto", default="auto"
        Number of bins with about equally many rows (fewer bins if there are not as many
        distinct times), or their edges. "auto" gives each of up to 12 distinct times
        its own bin, and otherwise makes 10 bins or fewer.

    Returns
    -------
    edges : ndarray of shape (n_bins + 1,)
        Edges; unless given, they are midway between times.
    bin_indices : ndarray of int of shape (n_rows,)
        Bin of each row, -1 outside given edges. A time on an edge is in the bin above,
        one on the last edge in the last bin.

    Raises
    ------
    ValueError
        If ``bins`` is none of these, or a bin between given edges is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.evaluation import bin_times
    >>> edges, bin_indices = bin_times(np.array([1.0, 1.0, 2.0, 4.0, 5.0, 9.0]), 3)
    >>> edges
    array([1. , 1.5, 4.5, 9. ])
    >>> bin_indices
    array([0, 0, 1, 1, 2, 2])
    """
    time = np.asarray(time, dtype=float)
    distinct, counts = np.unique(time, return_counts=True)
    if isinstance(bins, str):
        if bins != "auto":
            raise ValueError(f'bins must be "auto", an integer or edges, got {bins!r}')
        bins = int(np.clip(len(time) // LEAST_ROWS, 1, MOST_BINS))
        if len(distinct) <= MOST_TIMES:
            bins = len(distinct)
    if isinstance(bins, Integral) and not isinstance(bins, bool):
        if bins < 1:
            raise ValueError(f"bins must be at least 1, got {bins!r}")
        edges = _even_edges(distinct, counts, min(int(bins), len(distinct)))
    else:
        edges = np.asarray(bins)
        wrong = edges.dtype.kind not in "if" or edges.ndim != 1 or len(edges) < 2
        if wrong or not (np.diff(edges) > 0).all():
            raise ValueError(f"bins must be at least 1 or rising edges, got {bins!r}")
        edges = edges.astype(float)
    bin_indices = np.searchsorted(edges, time, side="right") - 1
    bin_indices[time == edges[-1]] = len(edges) - 2
    bin_indices[(time < edges[0]) | (time > edges[-1])] = -1
    empty = np.bincount(bin_indices[bin_indices >= 0], minlength=len(edges) - 1) == 0
    if empty.any():
        raise ValueError(
            f"no row lies in the bins that begin at {edges[:-1][empty].tolist()}"
        )
    return edges, bin_indices


def _even_edges(distinct, counts, n_bins):
    """Cut between distinct times so that bins have about the same number of rows."""
    total = np.cumsum(counts)
    cuts, first = [], 0
    for left in range(n_bins - 1, 0, -1):
        done = total[first - 1] if first else 0
        aim = done + (total[-1] - done) / (left + 1)
        # Each later bin needs its own time.
        choices = np.arange(first, len(distinct) - left)
        last = choices[np.argmin(np.abs(total[choices] - aim))]
        cuts.append((distinct[last] + distinct[last + 1]) / 2)
        first = last + 1
    ends = distinct[0], distinct[-1]
    if ends[0] == ends[1]:
        ends = np.nextafter(ends[0], -np.inf), np.nextafter(ends[1], np.inf)
    return np.array([ends[0], *cuts, ends[1]])


def prediction_factors(prediction, bin_indices, lower_bound=0.0):
    """Return the factors of the prediction correction.

    An observation y becomes ``bound + factor * (y - bound)`` with the factor ``(median
    prediction in the bin - bound) / (prediction - bound)``.

    Parameters
    ----------
    prediction : ndarray of shape (n_rows,)
        Population predictions.
    bin_indices : ndarray of int of shape (n_rows,)
        Bins.
    lower_bound : float, default=0.0
        Least value that an observation can have.

    Returns
    -------
    ndarray of shape (n_rows,)
        Factors, 1 where the prediction is the bound.

    Raises
    ------
    ValueError
        If a prediction is below the bound.

    References
    ----------
    M. Bergstrand, A. C. Hooker, J. E. Wallin and M. O. Karlsson, Prediction-corrected
    visual predictive checks for diagnosing nonlinear mixed-effects models, The AAPS
    Journal, 2011, equation 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.evaluation import prediction_factors
    >>> prediction_factors(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 0]))
    array([2. , 1. , 0.5])
    """
    above = np.asarray(prediction, dtype=float) - lower_bound
    if not (above >= 0).all():
        raise ValueError(
            "the prediction correction needs predictions of at least lower_bound="
            f"{lower_bound!r}, the least is {np.min(prediction)!r}"
        )
    medians = np.array(
        [np.median(above[bin_indices == b]) for b in np.unique(bin_indices)]
    )
    typical = medians[np.unique(bin_indices, return_inverse=True)[1]]
    return np.divide(typical, above, out=np.ones_like(above), where=above > 0)


def visual_predictive_check(
    estimator,
    X,
    y=None,
    groups=None,
    *,
    events=None,
    kind=None,
    time=None,
    bins="auto",
    quantiles=(0.05, 0.5, 0.95),
    level=0.9,
    n_simulations=500,
    prediction_corrected=False,
    lower_bound=0.0,
    random_state=None,
):
    """Compare percentiles of observations with those of simulated data sets.

    Under the model, in each bin and for each percentile, the band contains the
    percentile of the observations with probability ``level``, apart from the effect of
    fitting to them. With few data sets it is wide. For events,
    :func:`kaplan_meier_check` compares the times.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator with a residual error.
    X : array-like of shape (n_rows, n_features) or Records
        Inputs and covariates, or records with their observations. If some of these are
        bounds, all observed and simulated values beyond the strictest limit are set to
        that limit.
    y : array-like of shape (n_rows,) or None, default=None
        Observations; rows where it is NaN are left out. None with records.
    groups : array-like of shape (n_rows,) or None, default=None
        Subjects, which may be new ones; None only for a model without random effects.
    events : Doses, data frame, dict or None, default=None
        Doses of the subjects, as in ``fit``.
    kind : int, list of int or None, default=None
        CMT of the observations to compare; a list for several that are measured on the
        same scale. None means all, if there is only one besides events.
    time : str, int or None, default=None
        Column to bin; None means the last input of a model of the library, or the only
        column.
    bins : int, array-like or "auto", default="auto"
        As in :func:`bin_times`; rows outside given edges are left out.
    quantiles : array-like of float, default=(0.05, 0.5, 0.95)
        Which percentiles, as shares.
    level : float, default=0.9
        Probability of each band.
    n_simulations : int, default=500
        Number of simulated data sets, at least ``2 / (1 - level) - 1``.
    prediction_corrected : bool, default=False
        Whether to scale observations and simulations to the typical prediction of their
        bin, see :func:`prediction_factors`. It is meant for bins whose rows have
        different doses, covariates or times.
    lower_bound : float, default=0.0
        Smallest value that an observation can have, for this correction.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    VisualPredictiveCheck
        Percentiles and bands.

    Raises
    ------
    ValueError
        If quantiles or the level are outside (0, 1), there are too few simulations,
        bins are invalid, the model has a ``log_density`` but no ``draw``, observations
        have several CMT and there is no ``kind``, or observations are events.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import visual_predictive_check
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> check = visual_predictive_check(line, X, y, groups, random_state=0)
    >>> check.observed.shape, check.counts
    ((3, 5), array([30, 30, 30, 30, 30]))
    >>> inside = (check.lower <= check.observed) & (check.observed <= check.upper)
    >>> bool(inside.mean() > 0.5)
    True
    """
    shares = np.atleast_1d(np.asarray(quantiles, dtype=float))
    if shares.ndim != 1 or not ((shares > 0) & (shares < 1)).all():
        raise ValueError(f"quantiles must be in (0, 1), got {quantiles!r}")
    check_level(level, n_simulations)
    rows = check_rows(estimator, X, y, groups, events).values_of_kind(kind)
    column = time_column(rows.fitted, time)
    edges, bin_indices = bin_times(rows.X[:, column], bins)
    inside = bin_indices >= 0
    X, y, bin_indices = (part[inside] for part in (rows.X, rows.y, bin_indices))
    chosen = np.flatnonzero(inside)
    factors = np.ones(len(y))
    if prediction_corrected:
        factors = prediction_factors(rows.predicted()[inside], bin_indices, lower_bound)

    def corrected(values):
        return lower_bound + factors * (values - lower_bound)

    members = [np.flatnonzero(bin_indices == b) for b in range(len(edges) - 1)]

    def percentiles(values):
        """Return (n_quantiles, n_bins, n_data_sets)."""
        by_bin = [np.quantile(values[:, rows], shares, axis=1) for rows in members]
        return np.stack(by_bin, axis=1)

    rng = np.random.default_rng(seed_sequence(random_state))
    at_once = max(1, ROWS_AT_ONCE // len(y))
    parts = []
    label = "Visual predictive check: blocks of simulated data sets"
    for first in counted(range(0, int(n_simulations), at_once), label):
        n_copies = min(at_once, int(n_simulations) - first)
        drawn = limited(rows, rows.simulated(chosen, n_copies, rng))
        parts.append(percentiles(corrected(drawn)))
    # Among n + 1 exchangeable data sets, the chance to be below the r-th of the n
    # others is r / (n + 1): Weibull's positions make the level exact.
    tail = (1 - level) / 2
    lower, median, upper = np.quantile(
        np.concatenate(parts, axis=2), [tail, 0.5, 1 - tail], axis=2, method="weibull"
    )
    values = corrected(limited(rows, y))
    times = X[:, column]
    return VisualPredictiveCheck(
        shares,
        edges,
        np.array([times[index].mean() for index in members]),
        np.array([len(index) for index in members]),
        percentiles(values[None])[:, :, 0],
        lower,
        median,
        upper,
        float(level),
        times,
        values,
        bool(prediction_corrected),
    )
