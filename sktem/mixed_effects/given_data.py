"""Data of a fit as users give them: arrays, tables, blocks, and records of doses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.compartments.doses import Doses
from sktem.compartments.models import CompartmentModel
from sktem.compartments.records import Records, read_nonmem
from sktem.mixed_effects.columns import is_constant, named
from sktem.mixed_effects.effects import numbered
from sktem.mixed_effects.settings import MixedEffectsSettings
from sktem.rows.sources import rows_by_blocks
from sktem.sequences.labels import known_codes
from sktem.validation import validate_data

__all__ = [
    "GivenData",
    "as_records",
    "by_blocks",
    "checked_inputs",
    "given_records",
    "values_of_subjects",
]

#: Columns that say what is given; all others may be covariates.
EVENTS = ("ID", "DV", "AMT", "RATE", "II", "ADDL", "SS", "EVID", "MDV", "CENS",
          "LIMIT", "DUR")  # fmt: skip
#: What to do with a covariate that holds text.
NUMBERS = (
    "make a column of numbers of it, such as 0 and 1, or one for each category but one"
)


class GivenData(NamedTuple):
    """Checked data.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_columns) or None
        Columns of numbers, of records those that may be covariates.
    y : ndarray of shape (n_rows,) or None, default=None
        Observations, 0 in records where there is none.
    groups : tuple or None, default=None
        Labels of the subjects, and the index of that of each row; each row is one
        without.
    records : Records or None, default=None
        The records that the rows are, of subjects with observations.
    rows : ndarray of int or None, default=None
        The record of each given row, -1 for those of other subjects.
    blocks : SequenceBlocks or None, default=None
        Subjects that are read by blocks, in place of all that.
    left_out : tuple, default=()
        Labels of subjects without observations, which the records have no more.
    names : tuple of str or None, default=None
        Names of the columns.
    """

    X: Any
    y: Any = None
    groups: Any = None
    records: Any = None
    rows: np.ndarray | None = None
    blocks: Any = None
    left_out: tuple = ()
    names: Any = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return (self.X if self.blocks is None else self.blocks).shape[1]

    @property
    def has_bounds(self) -> bool:
        """Whether observations are bounds: no residual error has a closed form then."""
        records = self.records
        return records is not None and bool(records["CENS"][records.observed].any())

    @property
    def grouped(self) -> bool:
        """Whether the subjects are known."""
        return self.groups is not None or self.blocks is not None

    @property
    def labels(self) -> np.ndarray:
        """Labels of the subjects."""
        if self.blocks is not None:
            return self.blocks.labels
        return np.arange(len(self.X)) if self.groups is None else self.groups[0]

    @property
    def subjects(self) -> np.ndarray:
        """Index of the subject of each row."""
        return np.arange(len(self.X)) if self.groups is None else self.groups[1]

    def is_constant(self, column) -> bool:
        """Return whether a column has one value in each subject."""
        if self.blocks is not None:
            return not self.blocks.varies[column]
        return is_constant(self.X[:, column], self.subjects)

    def occasions(self, column) -> np.ndarray:
        """Return the labels of a column's occasions, (n_subjects, n_occasions)."""
        return numbered(self.X[:, column], self.subjects)[1]


def by_blocks(X):
    """Return a reader of X by blocks, None for data in memory."""
    return None if isinstance(X, Records) else rows_by_blocks(X)


def checked_inputs(estimator, inputs, X, y="no_validation", **options):
    """Return columns, and observations where they are given, as scikit-learn checks."""
    options = {"reset": False} | options
    return validate_data(
        estimator, inputs.blanked(X), y, dtype=np.float64, order="C", **options
    )


def as_records(model, X, y=None, groups=None, events=None):
    """Return the records of data, and the indices of those of the rows of X.

    None where X is an array or a table of observations, without doses.
    """
    indexed, has_doses = None, isinstance(model, CompartmentModel)
    if isinstance(X, Records):
        if y is not None or groups is not None or events is not None:
            raise ValueError(
                "records hold the observations, subjects and doses: y and groups must "
                "be None, and events too"
            )
        indexed = X, np.arange(len(X))
    elif events is not None:
        if groups is None:
            raise ValueError(
                "groups is missing: events are those of subjects; one patient has one "
                "label in all rows"
            )
        doses = events if isinstance(events, Doses) else Doses(events)
        indexed = doses.with_observations(X, y, groups=groups)
    elif has_doses and "AMT" in [str(c).upper() for c in getattr(X, "columns", ())]:
        table = {str(name): np.asarray(X[name]) for name in X.columns}
        if groups is not None:
            table["ID"] = np.asarray(groups)
        if y is not None:
            table["DV"] = np.asarray(y, dtype=float)
        indexed = read_nonmem(table), np.arange(len(X))
    if has_doses and indexed is None:
        raise ValueError(
            f"model {model!r} needs records: pass sktem.compartments.read_nonmem(table)"
            " alone (also where there are no doses), a table with AMT, or the doses as "
            "events. Cross-validation passes groups and events on after sklearn.set_"
            "config(enable_metadata_routing=True), set_fit_request(groups=True, "
            "events=True) and set_score_request(groups=True, events=True)"
        )
    if indexed is not None and not has_doses:
        raise ValueError(
            f"model {model!r} has no doses: records of sktem.compartments.read_nonmem "
            "and events go with the models of sktem.compartments"
        )
    return indexed


def given_records(
    settings: MixedEffectsSettings, records: Records, rows=None, *, names=None,
    every=False,
) -> GivenData:  # fmt: skip
    """Return the data of records, with columns of these names, None for all.

    Those that are no covariates may lack, or have gaps, which are NaN then. With
    ``every`` all records count as observations, of which nothing is known.
    """
    if names is None:
        names = [
            name
            for name, values in records.columns.items()
            if name not in EVENTS and values.dtype.kind in "biuf"
        ]
        names.sort(key=lambda name: name == "CMT")  # columns of an array come before
    names = tuple(names)
    used = _checked_columns(settings.inputs, records, names)
    if settings.log_density is None:
        error = settings.residual_error
        kinds = error if isinstance(error, dict) else ()
        settings.inputs.model.check_kinds(records, kinds)
    rows = np.arange(len(records)) if rows is None else rows
    if every:
        records = records.unknown()
    elif settings.log_density is not None:
        records.refuse(
            records.observed & (records["CENS"] != 0),
            "log_density does not know of bounds (CENS): pass a residual_error, which "
            "takes them, or set CENS to 0 and have bounds in a column of another name, "
            "such as X.BLQ, that log_density reads",
        )
    observed = ~np.isin(np.arange(records.n_subjects), records.unobserved)
    if not observed.any():
        raise ValueError("there are no observations among the records")
    left_out = tuple(records.labels[records.unobserved].tolist())
    if left_out:
        is_observed = observed[records.subject_of_record]
        rows = np.where(is_observed, np.cumsum(is_observed) - 1, -1)[rows]
        records = records.take(np.flatnonzero(observed))
    y = np.zeros(len(records))
    if not every:
        y = np.where(records.observed, records["DV"], 0.0)
    records.refuse(
        ~np.isfinite(y) & (records["CENS"] != 0),
        "DV is missing where CENS is not 0: it has to be the limit of quantification",
    )
    records.refuse(~np.isfinite(y), "DV is missing in an observation: set MDV to 1")
    unknown = np.full(len(records), np.nan)
    X = np.column_stack([
        records[name].astype(float) if name in records.columns else unknown
        for name in names
    ])  # fmt: skip
    for name, values in zip(names, X.T, strict=True):
        if name in used:
            records.refuse(
                ~np.isfinite(values),
                f"{name} must be a number: put a typical value where a covariate is "
                "missing, or leave the subject out",
            )
    groups = records.labels, records.subject_of_record
    return GivenData(X, y, groups, records, rows, left_out=left_out, names=names)


def _checked_columns(inputs, records, names):
    """Return the names of covariates and occasions, which have to be numbers."""
    used = named([*inputs.shifting, *(inputs.occasions or ())], names)
    for name in used:
        if name not in records.columns and name in names:
            raise ValueError(
                f"the records have no column {name!r}, which the fit has: there are "
                f"{list(records.columns)}"
            )
        known = records.columns.get(name)
        if known is not None and known.dtype.kind not in "biuf" and name not in EVENTS:
            is_occasion = name in (inputs.occasions or ())
            advice = (
                "number the occasions, such as 1, 2 and 3" if is_occasion else NUMBERS
            )
            raise ValueError(f"column {name!r} holds text: {advice}")
    return used


def values_of_subjects(labels, X, groups, columns):
    """Return columns of X, a line for each label, None where one varies within them."""
    if isinstance(X, Records):
        groups = X["ID"]
        table = [X[name] for name in columns]
    elif hasattr(X, "columns"):
        table = [np.asarray(X[name]) for name in columns]
    else:
        table = [np.asarray(X)[:, name] for name in columns]
    owner = known_codes(labels, groups).astype(np.int64)
    known, by_subject = owner >= 0, np.full((len(labels), len(columns)), np.nan)
    for k, values in enumerate(table):
        try:
            by_subject[owner[known], k] = values[known]
        except ValueError:
            raise ValueError(f"column {columns[k]!r} holds text: {NUMBERS}") from None
        if (by_subject[owner[known], k] != values[known]).any():
            return None
    return by_subject
