"""Records of doses and observations as data of a fit."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sktem.compartments.doses import Doses
from sktem.compartments.models import CompartmentModel
from sktem.compartments.records import Records, read_nonmem
from sktem.mixed_effects.columns import listed

__all__ = ["GivenRecords", "as_records", "given_records"]

#: Columns that say what is given; all others may be covariates.
EVENTS = ("ID", "DV", "AMT", "RATE", "II", "ADDL", "SS", "EVID", "MDV", "CENS",
          "LIMIT")  # fmt: skip


class GivenRecords(NamedTuple):
    """Records, and what a fit takes of them.

    Attributes
    ----------
    X : ndarray of shape (n_records, n_columns)
        Columns of numbers that may be covariates.
    y : ndarray of shape (n_records,)
        Observations, 0 where there is none.
    groups : tuple
        Labels of the subjects, and the index of that of each record.
    records : Records
        The records of subjects that are observed.
    """

    X: np.ndarray
    y: np.ndarray
    groups: tuple[Any, np.ndarray]
    records: Records


def as_records(estimator, X, y=None, groups=None, events=None):
    """Return the records that data stand for, and those of the rows of X.

    None where X is an array or a table of observations, without doses.
    """
    if isinstance(X, Records):
        if y is not None or groups is not None or events is not None:
            raise ValueError(
                "records hold the observations, subjects and doses: y and groups must "
                "be None, and events too"
            )
        return X, np.arange(len(X))
    if events is not None:
        if groups is None:
            raise ValueError("groups is missing: events are those of subjects")
        doses = events if isinstance(events, Doses) else Doses(events)
        return doses.with_observations(X, y, groups=groups)
    has_doses = hasattr(X, "columns") and "AMT" in [str(n).upper() for n in X.columns]
    if not (has_doses and isinstance(estimator.model, CompartmentModel)):
        return None
    table = {str(name): np.asarray(X[name]) for name in X.columns}
    if groups is not None:
        table["ID"] = np.asarray(groups)
    if y is not None:
        table["DV"] = np.asarray(y, dtype=float)
    return read_nonmem(table), np.arange(len(X))


def given_records(estimator, records: Records, *, reset=False, every=False):
    """Return what a fit takes of records; the columns are noted or checked.

    Those that are no covariates may lack, or have gaps, which are NaN then. With
    ``every`` all records count as observations, of which nothing is known.
    """
    names = [
        name
        for name, values in records.columns.items()
        if name not in EVENTS and values.dtype.kind in "biuf"
    ]
    names.sort(key=lambda name: name == "CMT")  # the columns of an array come before
    if reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator.n_features_in_ = len(names)
    else:
        names = list(estimator.feature_names_in_)
    used = _checked_columns(estimator, records, names)
    if every:
        records = records.take(np.arange(records.n_subjects))
        records.observed = np.ones(len(records), dtype=bool)
        records.columns["DV"] = np.full(len(records), np.nan)
    observed = np.add.reduceat(records.observed.astype(int), records.offsets[:-1]) > 0
    if not observed.any():
        raise ValueError("there are no observations among the records")
    if not observed.all():
        records = records.take(np.flatnonzero(observed))
    y = np.zeros(len(records))
    if not every:
        y = np.where(records.observed, records["DV"], 0.0)
    records._refuse(~np.isfinite(y), "DV is missing in an observation: set MDV to 1")
    unknown = np.full(len(records), np.nan)
    X = np.column_stack([
        records[name].astype(float) if name in records.columns else unknown
        for name in names
    ])  # fmt: skip
    for name, values in zip(names, X.T, strict=True):
        if name in used:
            records._refuse(~np.isfinite(values), f"{name} must be a number")
    groups = records.labels, records.subject_of_record
    return GivenRecords(X, y, groups, records)


def _checked_columns(estimator, records, names):
    """Return the names of covariates and occasions, which have to be numbers."""
    used = [c for keys in (estimator.covariates or {}).values() for c in listed(keys)]
    used = [*used, *(estimator.occasions or ())]
    used = [names[c] if isinstance(c, Integral) and c < len(names) else c for c in used]
    for name in used:
        if name not in records.columns and name in names:
            raise ValueError(
                f"the records have no column {name!r}, which the fit has: there are "
                f"{list(records.columns)}"
            )
        held = records.columns.get(name)
        if held is not None and held.dtype.kind not in "biuf" and name not in EVENTS:
            raise ValueError(
                f"column {name!r} holds text: make a column of numbers of it, such as "
                "0 and 1, or one for each category but one"
            )
    return used
