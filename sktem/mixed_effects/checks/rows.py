"""Common parts of checks of mixed-effects fits: rows, time column, simulations."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from sktem.choices import did_you_mean
from sktem.compartments.models import CompartmentModel
from sktem.compartments.records import Records
from sktem.mixed_effects.given_records import given_records
from sktem.mixed_effects.structural import StructuralModel
from sktem.validation import validate_data

__all__ = [
    "CheckedRows",
    "check_mixed_effects",
    "check_rows",
    "column_name",
    "limited",
    "predicted",
    "simulated",
    "time_column",
]

#: Simulated rows that are held at once.
ROWS_AT_ONCE = 1 << 21


class CheckedRows(NamedTuple):
    """Rows with an observation.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Inputs and covariates.
    y : ndarray of shape (n_rows,)
        Observations.
    subjects : ndarray of int of shape (n_rows,)
        Index of the subject of each row.
    labels : ndarray of shape (n_subjects,) or None
        Labels of the subjects; None if each row is one.
    used : ndarray of bool
        Which of the given rows these are.
    records : Records or None, default=None
        The records of all subjects, of which the rows are the observations.
    """

    X: np.ndarray
    y: np.ndarray
    subjects: np.ndarray
    labels: np.ndarray | None
    used: np.ndarray
    records: Records | None = None

    @property
    def groups(self):
        """Label of the subject of each row, or None."""
        return None if self.labels is None else self.labels[self.subjects]

    @property
    def kinds(self):
        """CMT of each row, or None."""
        if self.records is None:
            return None
        return np.maximum(self.records["CMT"][self.used].astype(np.int64), 1)

    @property
    def side(self):
        """Side of bounds, 0 for values, or None."""
        return None if self.records is None else self.records["CENS"][self.used]

    def predicted(self, estimator, individual=False):
        """Predict, with random effects of zero or the modes of known subjects."""
        if self.records is None:
            return predicted(estimator, self.X, self.groups if individual else None)
        predictions = estimator.fitted_.predict_records(
            given_records(estimator, self.records, every=True), individual
        )
        return predictions[self.used]

    def simulated(self, estimator, chosen, n_copies, rng):
        """Draw data sets of chosen rows, all of their subjects being new."""
        if self.records is None:
            subjects = self.subjects[chosen]
            subjects = subjects - subjects.min(initial=0)
            return simulated(estimator, self.X[chosen], subjects, n_copies, rng)
        wanted = np.unique(self.subjects[chosen])
        records = self.records.take(np.tile(wanted, n_copies))
        data = given_records(estimator, records, every=True)
        values = estimator.fitted_.simulate_records(data, rng)
        values = values.reshape(n_copies, -1)
        # The records of the chosen subjects, among which the rows are.
        all_rows = np.flatnonzero(np.isin(self.records.subject_of_record, wanted))
        rows = np.flatnonzero(self.used)[chosen]
        drawn = values[:, np.searchsorted(all_rows, rows)]
        return _finite(drawn)

    def spread_out(self, values):
        """Return values of all given rows, NaN where there is no observation."""
        all_values = np.full(len(self.used), np.nan)
        all_values[self.used] = values
        return all_values


def check_mixed_effects(estimator, attribute="params_"):
    """Raise an error unless this is a fitted mixed-effects estimator."""
    if not hasattr(estimator, "individual_parameters"):
        raise TypeError(
            "estimator must be a NonlinearMixedEffectsRegressor, got "
            f"{type(estimator).__name__}"
        )
    check_is_fitted(estimator, attribute)


def check_rows(estimator, X, y, groups=None, *, known=False) -> CheckedRows:
    """Check data for a fitted estimator and drop rows with a missing observation."""
    check_mixed_effects(estimator)
    if isinstance(X, Records):
        data = given_records(estimator, X)
        records, used = data.records, data.records.observed
        labels, subjects = data.groups
        return CheckedRows(
            data.X[used], data.y[used], subjects[used], labels, used, records
        )
    if y is None:
        raise ValueError("y must be given, unless X are records")
    random = list(estimator.random_effects_)
    if groups is None and random:
        raise ValueError(f"groups must be given: {random} have random effects")
    y = np.asarray(y, dtype=np.float64)
    if y.ndim != 1:
        raise ValueError(f"y must have shape (n_rows,), got {y.shape}")
    if np.isinf(y).any():
        raise ValueError("y contains infinity")
    check_consistent_length(X, y, groups)
    used = ~np.isnan(y)
    if not used.any():
        raise ValueError("no row has an observation")
    X = _safe_indexing(X, np.flatnonzero(used))
    X = validate_data(estimator, X, reset=False, dtype=np.float64, order="C")
    if groups is None:
        return CheckedRows(X, y[used], np.arange(len(X)), None, used)
    groups = np.asarray(groups)
    if groups.ndim != 1:
        raise ValueError(f"groups must have shape (n_rows,), got {groups.shape}")
    labels, subjects = np.unique(groups[used], return_inverse=True)
    fitted_labels = set(estimator.groups_.tolist())
    unknown = [label for label in labels.tolist() if label not in fitted_labels]
    if known and random and unknown:
        raise ValueError(
            f"individual predictions need subjects that fit has seen, got {unknown[:5]}"
        )
    return CheckedRows(X, y[used], subjects, labels, used)


def time_column(estimator, time=None) -> int:
    """Return the position of the time column: by name or index, or the last input."""
    n_columns = estimator.n_features_in_
    names = list(getattr(estimator, "feature_names_in_", ()))
    if time is None:
        if (used := _library_inputs(estimator)) is not None:
            return used[-1][0]
        if n_columns == 1:
            return 0
        if isinstance(estimator.fitted_.model.structure, CompartmentModel):
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


def column_name(estimator, column):
    """Return the name of a column: of the data frame, of the input, or its index."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return str(names[column])
    inputs = dict(_library_inputs(estimator) or ())
    return inputs.get(column, f"column {column}")


def _library_inputs(estimator):
    """Return column and name of each input of a fitted library model, else None."""
    fitted = estimator.fitted_
    structure, columns = fitted.model.structure, fitted.problem.layout.inputs
    if not isinstance(structure, StructuralModel):
        return None
    return list(zip(columns, structure.inputs, strict=True))


def predicted(estimator, X, groups=None):
    """Predict, from columns that have been checked already."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return estimator.predict(X, groups=groups)


def simulated(estimator, X, subjects, n_copies, rng):
    """Draw several data sets of new subjects."""
    first = np.arange(n_copies)[:, None] * (subjects.max() + 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        values = estimator.simulate(
            np.tile(X, (n_copies, 1)), (first + subjects).ravel(), random_state=rng
        )
    return _finite(values).reshape(n_copies, len(X))


def limited(rows, values):
    """Return simulated values, those beyond the limits of bounds at these limits."""
    side = rows.side
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
