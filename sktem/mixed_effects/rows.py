"""Rows of several subjects, handed to the loop as a sequence of subjects."""

from __future__ import annotations

from copy import copy
from typing import ClassVar

import numpy as np

from sktem.sequences.rows import Sequences

__all__ = ["GroupedRows", "NamedColumns", "SubjectRecords"]


class NamedColumns:
    """Columns of a data frame, for model functions that refer to them by name.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        The numbers.
    names : sequence of str
        Names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.models import NamedColumns
    >>> X = NamedColumns(np.array([[1.0, 2.0], [3.0, 4.0]]), ["dose", "time"])
    >>> X["time"]
    array([2., 4.])
    >>> float(X[0, 1])
    2.0
    """

    def __init__(self, values, names):
        self.values = values
        self.names = tuple(names)

    def __getitem__(self, key):
        """Return a column by name, or index the array."""
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no column {key!r}, there are {list(self.names)}")
            return self.values[:, self.names.index(key)]
        return self.values[key]

    def __len__(self):
        """Return the number of rows."""
        return len(self.values)

    @property
    def shape(self):
        """Shape of the array."""
        return self.values.shape

    def __array__(self, dtype=None, copy=None):
        """Return the array."""
        return np.asarray(self.values, dtype=dtype)


class GroupedRows(Sequences):
    """A sequence of subjects, each with its own rows.

    Parameters
    ----------
    inputs : ndarray of shape (n_rows, n_columns)
        Inputs of the model function, the rows of a subject next to each other.
    y : ndarray of shape (n_rows,)
        Observations.
    offsets : ndarray of int of shape (n_subjects + 1,)
        Where the rows of each subject begin; the last entry is ``n_rows``.
    covariates : ndarray of shape (n_subjects, n_covariates)
        Covariates of the subjects, the first column being ones.
    row_covariates : ndarray of shape (n_rows, n_row_covariates)
        Covariates that vary within a subject.
    names : tuple of str or None, default=None
        Names of the inputs, for model functions that ask for columns by name.
    occasions : ndarray of int of shape (n_rows,) or None, default=None
        Index of the occasion of each row among those of its subject, -1 for one of
        which nothing is known.
    events : SubjectRecords or None, default=None
        All records of the subjects, in the order of which the observations are, where
        the model has doses.
    censored : ndarray of shape (n_rows,) or None, default=None
        1 where y is a bound of the observation from above, -1 from below.
    kinds : ndarray of int of shape (n_rows,) or None, default=None
        CMT of each observation.
    limits : ndarray of shape (n_rows,) or None, default=None
        Other ends of intervals that hold censored observations, NaN for others.

    Attributes
    ----------
    subject_of_row : ndarray of int of shape (n_rows,)
        Position of the subject of each row.
    """

    by_row: ClassVar[tuple[str, ...]] = (
        "inputs", "y", "row_covariates", "occasions", "censored", "kinds", "limits",
    )  # fmt: skip
    by_sequence: ClassVar[tuple[str, ...]] = ("covariates", "events")
    shared: ClassVar[tuple[str, ...]] = ("names",)

    def __init__(
        self,
        inputs,
        y,
        offsets,
        covariates,
        row_covariates,
        names=None,
        occasions=None,
        *,
        events=None,
        censored=None,
        kinds=None,
        limits=None,
    ):
        super().__init__(offsets)
        self.occasions = occasions
        self.inputs = inputs
        self.y = y
        self.covariates = covariates
        self.row_covariates = row_covariates
        self.names = names
        self.events = events
        self.censored = censored
        self.kinds = kinds
        self.limits = limits
        self.subject_of_row = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self._by_column: np.ndarray | None = None

    def observed_of(self, records) -> GroupedRows:
        """Return the observations among these rows, which are those of all records."""
        used = records.observed
        censored, limits = records["CENS"][used], records["LIMIT"][used]
        counts = np.add.reduceat(used.astype(np.int64), records.offsets[:-1])
        return GroupedRows(
            self.inputs[used],
            self.y[used],
            np.concatenate([[0], np.cumsum(counts)]),
            self.covariates,
            self.row_covariates[used],
            self.names,
            None if self.occasions is None else self.occasions[used],
            events=SubjectRecords(records, self),
            censored=censored if censored.any() else None,
            kinds=np.maximum(records["CMT"][used].astype(np.int64), 1),
            limits=limits if censored.any() and not np.isnan(limits).all() else None,
        )

    def with_occasions(self, occasions) -> GroupedRows:
        """Return the rows with other occasions, None without any."""
        rows = copy(self)
        rows.occasions = occasions
        if self.events is not None:  # all records, each of which is a row
            all_rows = self.events.rows.with_occasions(occasions)
            rows.events = SubjectRecords(self.events.records, all_rows)
        return rows

    @property
    def by_column(self):
        """Inputs with one row per column, for compiled code; made once and kept."""
        if self._by_column is None:
            self._by_column = np.ascontiguousarray(self.inputs.T)
        return self._by_column

    @property
    def columns(self):
        """Inputs in the form that a model function gets."""
        return (
            self.inputs if self.names is None else NamedColumns(self.inputs, self.names)
        )

    def __getstate__(self):
        """Return the state without the copies, which are made again when needed."""
        return {**super().__getstate__(), "_by_column": None}


class SubjectRecords:
    """Records of doses and observations of subjects, with cached plans and predictions.

    Parameters
    ----------
    records : Records
        The records.
    rows : GroupedRows
        Covariates of all of them.

    Attributes
    ----------
    most_kept : int
        Predictions that are kept, beside the last answer.
    """

    most_kept: ClassVar[int] = 1 << 22

    def __init__(self, records, rows):
        self.records = records
        self.rows = rows
        self._answers: dict[tuple, np.ndarray] = {}
        self._plan: tuple | None = None

    def __len__(self):
        """Return the number of subjects."""
        return len(self.rows)

    def plan(self, structure, names):
        """Return the compiled inputs of the closed form, cached."""
        cached = self._plan
        if cached is None or cached[0] is not structure or cached[1] != names:
            self._plan = cached = structure, names, structure.plan(self.records, names)
        return cached[2]

    def __getitem__(self, subjects):
        """Return the records of some subjects."""
        chosen = np.arange(len(self))[subjects]
        return SubjectRecords(self.records.take(chosen), self.rows[subjects])

    def predict(self, structure, psi):
        """Return the predictions of a compartment model for the observations.

        The last answers are kept: likelihoods, residuals and slopes ask for the same.
        """
        key = structure, *((name, psi[name].tobytes()) for name in psi)
        if key not in self._answers:
            predictions = structure._predictions(self.records, psi)
            answer = predictions[self.records.observed]
            self._answers[key] = answer
            while len(self._answers) > 1 + self.most_kept // max(len(answer), 1):
                del self._answers[next(iter(self._answers))]
        return self._answers[key]

    def refuse(self, wrong, reason):
        """Raise an error for the first of the observations that are wrong."""
        of_records = np.zeros(len(self.records), dtype=bool)
        of_records[self.records.observed] = wrong
        self.records.refuse(of_records, reason)

    def check_doses(self, y, f):
        """Raise an error for a value before any dose, where the model predicts none."""
        records, used = self.records, self.records.observed
        exact = records["CENS"][used] == 0
        self.refuse(
            (f == 0) & (y != 0) & exact & records.undosed[used],
            "no dose of this subject comes before, so that the model predicts 0, where "
            "a proportional error has no density for another value: check the doses "
            '(AMT, EVID), set MDV to 1, or pass residual_error="combined"',
        )

    def begun_late(self):
        """Return the labels of subjects who are dosed later than they are followed."""
        time, offsets = self.records["TIME"], self.records.offsets
        first, last = time[offsets[:-1]], time[offsets[1:] - 1]
        late = (first < last) & (last < 2 * first)
        late &= np.isin(self.records["EVID"][offsets[:-1]], [1, 4])
        return self.records.labels[late].tolist()

    def never_dosed(self, y, f):
        """Return the labels of subjects whose values all come before any dose.

        Those for which the model predicts 0, as it does without a baseline.
        """
        records = self.records
        used = records.observed
        owner, n = records.subject_of_record[used], records.n_subjects
        dosed = np.bincount(owner, ~records.undosed[used], n)
        values = np.bincount(owner, (y != 0) & (f == 0), n)
        return records.labels[(dosed == 0) & (values > 0)].tolist()

    def __getstate__(self):
        """Return the state without the cached predictions and plan."""
        return {**self.__dict__, "_answers": {}, "_plan": None}
