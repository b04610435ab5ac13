"""Records of doses and observations as data of a fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.compartments.records import Records

__all__ = ["GivenRecords", "given_records"]

#: Columns that say what is given; all others may be covariates.
EVENTS = ("ID", "DV", "AMT", "RATE", "II", "ADDL", "SS", "EVID", "MDV", "CENS")


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


def given_records(estimator, records: Records, *, reset=False, every=False):
    """Return what a fit takes of records; the columns are noted or checked.

    With ``every`` all records count as observations, of which nothing is known.
    """
    names = [
        name
        for name, values in records.columns.items()
        if name not in EVENTS and values.dtype.kind in "biuf"
    ]
    if reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator.n_features_in_ = len(names)
    else:
        names = list(estimator.feature_names_in_)
    if every:
        records = records.take(np.arange(records.n_subjects))
        records.observed = np.ones(len(records), dtype=bool)
    seen = np.add.reduceat(records.observed.astype(int), records.offsets[:-1]) > 0
    if not seen.any():
        raise ValueError("there are no observations among the records")
    if not seen.all():
        records = records.take(np.flatnonzero(seen))
    y = np.zeros(len(records))
    if not every:
        y = np.where(records.observed, records["DV"], 0.0)
    records._refuse(~np.isfinite(y), "DV is missing in an observation: set MDV to 1")
    X = np.column_stack([records[name].astype(float) for name in names])
    for name, values in zip(names, X.T, strict=True):
        records._refuse(~np.isfinite(values), f"{name} must be a number")
    groups = records.labels, records.subject_of_record
    return GivenRecords(X, y, groups, records)
