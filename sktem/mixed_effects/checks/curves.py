"""Curves of single subjects on a fine grid of time."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sktem.mixed_effects.checks.rows import OF_EVENTS, check_rows, time_column

__all__ = ["IndividualCurve", "individual_curves"]


class IndividualCurve(NamedTuple):
    """Observations of a subject and the curves predicted for it.

    Attributes
    ----------
    label : object
        Label of the subject.
    time, observed : ndarray of shape (n_rows,)
        Its observations.
    grid : ndarray of shape (n_points,)
        Times of the curves.
    individual : ndarray of shape (n_points,)
        Predictions with the mode of its random effects.
    population : ndarray of shape (n_points,)
        Predictions with random effects of zero.
    kind : int or None, default=None
        CMT of the observations, for records with several kinds of them.
    """

    label: Any
    time: np.ndarray
    observed: np.ndarray
    grid: np.ndarray
    individual: np.ndarray
    population: np.ndarray
    kind: int | None = None


def individual_curves(
    estimator,
    X,
    y=None,
    groups=None,
    *,
    events=None,
    time=None,
    subjects=None,
    n_points=100,
):
    """Predict the curves of subjects from the first to the last time.

    All other columns of X are carried forward from the previous row of the subject (or
    backward from the first row, for times before it). Curves of records have the doses
    of the subject, and the covariates of its next record.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        A fitted estimator with a model function.
    X : array-like of shape (n_rows, n_features) or Records
        Inputs and covariates, or records with their observations.
    y : array-like of shape (n_rows,) or None, default=None
        Observations; rows where it is NaN are left out. None with records.
    groups : array-like of shape (n_rows,) or None, default=None
        Subjects, all of them seen in ``fit``. None with records.
    events : Doses, data frame, dict or None, default=None
        Doses of the subjects, as in ``fit``.
    time : str, int or None, default=None
        Column along which curves are drawn; None means the last input of a model of the
        library, or the only column.
    subjects : array-like or None, default=None
        Labels of the subjects to predict; None means all.
    n_points : int, default=100
        Number of times of each curve, from the first to the last of all rows or
        records.

    Returns
    -------
    list of IndividualCurve
        One per subject; for records, one for each kind of its observations except
        events.

    Raises
    ------
    ValueError
        If a subject is unknown, or all observations are events.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> from sktem.evaluation import individual_curves
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(30), 5), np.tile(np.arange(5.0), 30)[:, None]
    >>> y = X[:, 0] + rng.normal(size=30)[groups] + 0.3 * rng.normal(size=150)
    >>> line = NonlinearMixedEffectsRegressor(
    ...     "linear", parameters={"intercept": 0.5, "slope": 0.5}, transforms="normal",
    ...     omega=["intercept"], random_state=0
    ... ).fit(X, y, groups=groups)
    >>> (curve,) = individual_curves(line, X, y, groups, subjects=[3], n_points=3)
    >>> curve.grid
    array([0., 2., 4.])
    """
    if not isinstance(n_points, Integral) or int(n_points) < 2:
        raise ValueError(f"n_points must be an integer of at least 2, got {n_points!r}")
    rows = check_rows(estimator, X, y, groups, events, known=subjects is None)
    if rows.labels is None:
        raise ValueError("groups must be given: a curve belongs to a subject")
    column = time_column(rows.fitted, time)
    if rows.records is not None and column != time_column(rows.fitted):
        raise ValueError("curves of records run along TIME")
    labels = rows.labels
    numbers = np.arange(len(labels))
    if subjects is not None:
        known = {label: i for i, label in enumerate(labels.tolist())}
        if estimator.random_effects_:
            fitted_labels = set(estimator.groups_.tolist())
            known = {label: i for label, i in known.items() if label in fitted_labels}
        wanted = np.asarray(subjects).tolist()
        if unknown := [label for label in wanted if label not in known]:
            raise ValueError(
                "subjects must have a row with an observation, and fit must have seen "
                f"them, got {unknown[:5]}"
            )
        numbers = np.array([known[label] for label in wanted], dtype=int)
    all_times = rows.X[:, column]
    ends = all_times if rows.records is None else rows.records["TIME"]
    grid = np.linspace(ends.min(), ends.max(), int(n_points))
    kinds = np.zeros(len(rows.y)) if rows.kinds is None else rows.kinds
    has_curve = ~rows.is_event()
    if not has_curve.any():
        raise ValueError(f"events have no curves{OF_EVENTS}")
    several = len(np.unique(kinds[has_curve])) > 1
    curves = []
    for number in numbers:
        chosen = (rows.subjects == number) & has_curve
        for kind in np.unique(kinds[chosen]):
            index = np.flatnonzero(chosen & (kinds == kind))
            index = index[np.argsort(all_times[index], kind="stable")]
            individual, population = rows.curves(index, column, grid)
            curve = IndividualCurve(
                labels.tolist()[number], all_times[index], rows.y[index], grid,
                individual, population, int(kind) if several else None,
            )  # fmt: skip
            curves.append(curve)
    return curves
