"""Common parts of checks of mixed-effects fits: rows, time column, simulations."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from sktem.choices import did_you_mean
from sktem.compartments.models import CompartmentModel
from sktem.mixed_effects.doubtful_values import has_error
from sktem.mixed_effects.fitted import FittedMixedEffects
from sktem.mixed_effects.given_data import as_records, checked_inputs
from sktem.mixed_effects.outcomes import EventOutcome
from sktem.mixed_effects.structural import StructuralModel

__all__ = [
    "OF_EVENTS",
    "CheckedRows",
    "check_level",
    "check_rows",
    "fitted_of",
    "limited",
    "rows_of_kind",
    "rows_of_records",
    "time_column",
    "time_name",
    "with_means",
    "with_times",
]

#: Where events are compared.
OF_EVENTS = ": kaplan_meier_check compares their times with simulated ones"
#: Simulated rows that are held at once.
ROWS_AT_ONCE = 1 << 21


class CheckedRows(NamedTuple):
    """Rows with an observation.

    Attributes
    ----------
    fitted : FittedMixedEffects
        The fit.
    X : ndarray of shape (n_rows, n_features)
        Inputs and covariates.
    y : ndarray of shape (n_rows,)
        Observations.
    subjects : ndarray of int of shape (n_rows,)
        Index of the subject of each row.
    labels : ndarray of shape (n_subjects,) or None
        Labels of the subjects; None if each row is one.
    used : ndarray of bool
        Which of the given rows, or of the records, these are.
    records : Records or None, default=None
        The records of all subjects, of which the rows are the observations.
    places : ndarray of int or None, default=None
        The record of each given row, -1 for those of other subjects.
    """

    fitted: FittedMixedEffects
    X: np.ndarray
    y: np.ndarray
    subjects: np.ndarray
    labels: Any
    used: np.ndarray
    records: Any = None
    places: np.ndarray | None = None

    @property
    def groups(self) -> Any:
        """Label of the subject of each row, or None."""
        return None if self.labels is None else self.labels[self.subjects]

    @property
    def kinds(self):
        """CMT of each row, or None."""
        if self.records is None:
            return None
        return np.maximum(self.records["CMT"][self.used].astype(np.int64), 1)

    @property
    def censored(self):
        """Side of bounds, 0 for values, or None."""
        return None if self.records is None else self.records["CENS"][self.used]

    def values_of_kind(self, kind=None) -> CheckedRows:
        """Return the rows of a kind or several, None for the only one but events."""
        shown = ~self.is_event()
        chosen = rows_of_kind(self.kinds, kind, shown)
        if not chosen.any():
            raise ValueError(f"the observations are events{OF_EVENTS}")
        return self.where(chosen)

    def means_of_kind(self, kind=None) -> CheckedRows:
        """Return the rows of a kind whose predictions are means."""
        return self.where(with_means(self.kinds, self.has_mean(), kind))

    def where(self, chosen) -> CheckedRows:
        """Return some of the rows."""
        used = self.used.copy()
        used[used] = chosen
        return self._replace(
            X=self.X[chosen],
            y=self.y[chosen],
            subjects=self.subjects[chosen],
            used=used,
        )

    def is_event(self):
        """Return which rows are events, which have no curve, scatter or residual."""
        error = self.fitted.model.error
        if error is None:
            return np.zeros(len(self.y), dtype=bool)
        return has_error(error, self, EventOutcome)

    def has_mean(self):
        """Return which rows have a prediction that is the mean of the observation."""
        error = self.fitted.model.error
        means = True if error is None else error.on(self).has_mean
        return np.broadcast_to(means, len(self.y))

    def predicted(self, individual=False):
        """Predict, with random effects of zero or the modes of known subjects."""
        if self.records is None:
            return self.fitted.predict(self.X, self.groups if individual else None)
        data = self.fitted.problem.given_records(self.records, every=True)
        return self.fitted.predict_records(data, individual)[self.used]

    def completed(self, rng):
        """Return observations, with draws in place of bounds."""
        if self.records is None or not self.censored.any():
            return self.y
        problem = self.fitted.problem
        there = self.fitted.on(problem.on(problem.given_records(self.records)))
        y = np.full(len(self.used), np.nan)
        y[self.records.observed] = there.completed(rng)
        return y[self.used]

    def simulated(self, chosen, n_copies, rng):
        """Draw data sets of chosen rows, all of their subjects being new."""
        if self.records is None:
            subjects = self.subjects[chosen] - self.subjects[chosen].min(initial=0)
            first = np.arange(n_copies)[:, None] * (subjects.max() + 1)
            X = np.tile(self.X[chosen], (n_copies, 1))
            drawn = self.fitted.simulate(X, (first + subjects).ravel(), rng)
            return _finite(drawn.reshape(n_copies, -1))
        wanted = np.unique(self.subjects[chosen])
        records = self.records.take(np.tile(wanted, n_copies))
        data = self.fitted.problem.given_records(records, every=True)
        values = self.fitted.simulate_records(data, rng).reshape(n_copies, -1)
        # The records of the chosen subjects, among which the rows are.
        all_rows = np.flatnonzero(np.isin(self.records.subject_of_record, wanted))
        rows = np.flatnonzero(self.used)[chosen]
        return _finite(values[:, np.searchsorted(all_rows, rows)])

    def curves(self, chosen, column, grid):
        """Return the individual curve of one subject and that of the population.

        Parameters
        ----------
        chosen : ndarray of int
            Rows of the subject, all of one kind.
        column : int
            Column along which curves run.
        grid : ndarray
            Values of it.
        """
        kinds = True, False
        if self.records is not None:
            records, is_new = self._with_times(chosen[0], grid)
            data = self.fitted.problem.given_records(records, every=True)
            return [self.fitted.predict_records(data, kind)[is_new] for kind in kinds]
        times = self.X[chosen, column]
        before = np.searchsorted(times, grid, side="right") - 1
        inputs = self.X[chosen[np.maximum(before, 0)]]
        inputs[:, column] = grid
        labels = self.groups[chosen[:1]].repeat(len(grid))
        return [self.fitted.predict(inputs, labels if kind else None) for kind in kinds]

    def _with_times(self, row, grid):
        """Return the records of the subject of a row and others at times, and which."""
        records = self.records.take(self.subjects[[row]])
        source, is_new, offsets, time = with_times(records, [grid])
        new = dict.fromkeys(("EVID", "AMT", "RATE", "II", "ADDL", "SS", "CENS"), 0.0)
        new |= {"MDV": 1.0, "CMT": self.kinds[row]}
        changes = {"TIME": time} | {
            name: np.where(is_new, value, records[name][source])
            for name, value in new.items()
        }
        return records.copied(source, offsets, records.labels, changes), is_new

    def spread_out(self, values):
        """Return values of all given rows, NaN where there is no observation."""
        all_values = np.full(len(self.used) + 1, np.nan)
        all_values[:-1][self.used] = values
        return all_values[:-1] if self.places is None else all_values[self.places]


def with_times(records, times):
    """Return the source, newness, offsets and time of records and others at times.

    ``times`` are those of each subject. New ones have the covariates of the next
    record, as all times do.
    """
    sources, new, all_times = [], [], []
    for begin, end, grid in zip(
        records.offsets[:-1], records.offsets[1:], times, strict=True
    ):
        known = records["TIME"][begin:end]
        if (np.diff(known) < 0).any():
            raise ValueError("TIME must not begin anew (EVID 3 or 4) for curves")
        order = np.argsort(np.r_[known, grid], kind="stable")
        after = np.minimum(np.searchsorted(known, grid), len(known) - 1)
        sources.append(begin + np.r_[np.arange(len(known)), after][order])
        new.append(order >= len(known))
        all_times.append(np.r_[known, grid][order])
    offsets = np.r_[0, np.cumsum([len(part) for part in sources])]
    return *map(np.concatenate, (sources, new)), offsets, np.concatenate(all_times)


def rows_of_kind(kinds, kind, shown):
    """Return which rows have a kind, None for the only one among those shown."""
    if kinds is None:
        if kind is not None:
            raise ValueError("kind is for records, whose CMT says it")
        return shown
    known, among = np.unique(kinds).tolist(), np.unique(kinds[shown]).tolist()
    if kind is None and len(among) > 1:
        raise ValueError(
            f"there are observations of CMT {among}: pass kind, one of them, or a "
            "list of those that are measured on the same scale"
        )
    wanted = among if kind is None else np.atleast_1d(kind).tolist()
    if unknown := [cmt for cmt in wanted if cmt not in known]:
        raise ValueError(f"kind must be among the CMT {known}, got {unknown[0]!r}")
    return np.isin(kinds, wanted) & shown


def with_means(kinds, has_mean, kind=None):
    """Return which rows have a kind, and predictions that are means."""
    chosen = rows_of_kind(kinds, kind, has_mean)
    if not chosen.any():
        raise ValueError(
            f"predictions of events and ordinal scores are no means{OF_EVENTS}, "
            "visual_predictive_check with scores"
        )
    return chosen


def check_level(level, n_simulations):
    """Raise an error unless simulations are enough for the ends of a band."""
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level!r}")
    # The ends of the band are order statistics, which must exist.
    least = int(np.ceil(2 / (1 - level) - 1e-9)) - 1
    if not isinstance(n_simulations, Integral) or n_simulations < least:
        raise ValueError(
            f"n_simulations must be an integer of at least {least} for level={level!r},"
            f" got {n_simulations!r}"
        )


def fitted_of(estimator, attribute="fitted_") -> FittedMixedEffects:
    """Return the fit of an estimator, which has to be a mixed-effects one."""
    if not hasattr(estimator, "individual_parameters"):
        raise TypeError(
            "estimator must be a NonlinearMixedEffectsRegressor, got "
            f"{type(estimator).__name__}"
        )
    check_is_fitted(estimator, attribute)
    return estimator.fitted_


def check_rows(
    estimator, X, y=None, groups=None, events=None, *, known=False
) -> CheckedRows:
    """Check data for a fitted estimator and drop rows with a missing observation."""
    fitted, random = fitted_of(estimator), estimator.random_effects_
    inputs = fitted.problem.settings.inputs
    if (indexed := as_records(inputs.model, X, y, groups, events)) is not None:
        rows = rows_of_records(fitted, *indexed)
    else:
        if groups is None and random:
            raise ValueError(f"groups must be given: {random} have random effects")
        check = partial(checked_inputs, estimator, inputs)
        rows = _observed_rows(fitted, X, y, groups, check)
    if known and random:
        fitted_labels = set(estimator.groups_.tolist())
        unknown = [
            label for label in rows.labels.tolist() if label not in fitted_labels
        ]
        if unknown:
            raise ValueError(
                "individual predictions need subjects that fit has seen, got "
                f"{unknown[:5]}"
            )
    return rows


def rows_of_records(fitted, records, places) -> CheckedRows:
    """Return the records with an observation, given that of each given row."""
    data = fitted.problem.given_records(records, places)
    used, (labels, subjects) = data.records.observed, data.groups
    return CheckedRows(
        fitted, data.X[used], data.y[used], subjects[used], labels, used, data.records,
        data.rows,
    )  # fmt: skip


def _observed_rows(fitted, X, y, groups, check) -> CheckedRows:
    """Return the rows of an array or a table that have an observation."""
    if y is None:
        raise ValueError("y must be given, unless X are records")
    y = np.asarray(y, dtype=np.float64)
    if y.ndim != 1:
        raise ValueError(f"y must have shape (n_rows,), got {y.shape}")
    if np.isinf(y).any():
        raise ValueError("y contains infinity")
    check_consistent_length(X, y, groups)
    used = ~np.isnan(y)
    if not used.any():
        raise ValueError("no row has an observation")
    X = check(_safe_indexing(X, np.flatnonzero(used)))
    if groups is None:
        return CheckedRows(fitted, X, y[used], np.arange(len(X)), None, used)
    groups = np.asarray(groups)
    if groups.ndim != 1:
        raise ValueError(f"groups must have shape (n_rows,), got {groups.shape}")
    labels, subjects = np.unique(groups[used], return_inverse=True)
    return CheckedRows(fitted, X, y[used], subjects, labels, used)


def time_column(fitted, time=None) -> int:
    """Return the position of the time column: by name or index, or the last input."""
    layout = fitted.problem.layout
    n_columns, names = layout.n_columns, list(layout.names or ())
    if time is None:
        if (used := _library_inputs(fitted)) is not None:
            return used[-1][0]
        if n_columns == 1:
            return 0
        if isinstance(fitted.model.structure, CompartmentModel):
            return names.index("TIME")
        raise ValueError(
            f"time must name one of the {n_columns} columns of X: the model is a "
            "function, which does not say which"
        )
    if isinstance(time, str) and time in names:
        return names.index(time)
    if isinstance(time, Integral) and not isinstance(time, bool):
        if 0 <= int(time) < n_columns:
            return int(time)
    known = names or f"numbers from 0 to {n_columns - 1}"
    raise ValueError(
        f"time must name a column of X: {known}, got {time!r}"
        f"{did_you_mean(time, names)}"
    )


def time_name(fitted, time=None) -> str:
    """Return the name of the time column: in X, of the input, or its index."""
    column, names = time_column(fitted, time), fitted.problem.layout.names
    if names is not None:
        return str(names[column])
    inputs = dict(_library_inputs(fitted) or ())
    return inputs.get(column, f"column {column}")


def _library_inputs(fitted):
    """Return column and name of each input of a fitted library model, else None."""
    structure, columns = fitted.model.structure, fitted.problem.layout.inputs
    if not isinstance(structure, StructuralModel):
        return None
    return list(zip(columns, structure.inputs, strict=True))


def limited(rows, values):
    """Return values, those beyond the strictest limit of the bounds at that limit."""
    side = rows.censored
    if side is None or not side.any():
        return values
    if (side > 0).any():
        values = np.maximum(values, rows.y[side > 0].max())
    if (side < 0).any():
        values = np.minimum(values, rows.y[side < 0].min())
    return values


def _finite(values):
    """Return simulated values, or raise an error if one is not finite."""
    if wrong := int((~np.isfinite(values)).sum()):
        raise ValueError(
            f"the model function is not finite for {wrong} of {values.size} simulated "
            "observations"
        )
    return values
