"""Records of doses and observations, as pharmacometric data sets list them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sktem.choices import did_you_mean
from sktem.compartments.record_columns import COLUMNS, complete, unread
from sktem.compartments.record_files import comments, read_table

__all__ = ["Records", "read_nonmem"]

#: Times below may be those of a clock.
HOURS_OF_DAY = 24.0


class Records:
    """Records of doses and observations of subjects.

    :func:`read_nonmem` creates them from files and data frames.

    Parameters
    ----------
    columns : dict of ndarray of shape (n_records,)
        Columns by name, among them "ID" and "TIME". The meaning of "DV", "AMT", "RATE",
        "II", "ADDL", "SS", "CMT", "EVID", "MDV" and "CENS" is explained there; all
        others are covariates. The records of a subject are contiguous and in temporal
        order.

    Attributes
    ----------
    columns : dict of ndarray
        All columns; those with a defined meaning are complete.
    labels : ndarray of shape (n_subjects,)
        Labels of the subjects, in the order of their records.
    offsets : ndarray of int of shape (n_subjects + 1,)
        Where the records of each subject begin.
    observed : ndarray of bool of shape (n_records,)
        Which records are observations: EVID is 0 and MDV is 0.
    unread : ndarray of bool of shape (n_records,)
        Which records are no observations and have a DV that is not 0, though MDV was
        not given as 1.
    has_steady_states : bool
        Whether any record, of these or of those from which they were taken, has SS.

    Raises
    ------
    ValueError
        If a record is impossible; the message names it.

    Examples
    --------
    >>> from sktem.compartments import Records
    >>> records = Records({"ID": [1, 1, 1], "TIME": [0, 1, 2], "AMT": [100, 0, 0]})
    >>> len(records), records.observed.tolist()
    (3, [False, True, True])
    """

    def __init__(self, columns):
        columns = {name: np.asarray(values) for name, values in columns.items()}
        for name in ("ID", "TIME"):
            if name not in columns:
                raise ValueError(
                    f"records need a column {name!r}, got {list(columns)}"
                    f"{did_you_mean(name, columns)}"
                    f"{'; one patient has one label in all' if name == 'ID' else ''}"
                )
        n = len(columns["TIME"])
        for name, values in columns.items():
            if values.shape != (n,):
                raise ValueError(
                    f"column {name!r} must have the shape ({n},), got {values.shape}"
                )
        if n == 0:
            raise ValueError("there are no records")
        self.columns = complete(columns, n)
        self.unread = unread(self.columns, columns.get("MDV"))
        ids = self.columns["ID"]
        missing = np.array([one is None or one != one for one in ids.tolist()])
        if missing.any():
            raise ValueError(f"record {np.argmax(missing) + 1}: ID is missing")
        starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
        self.offsets = np.r_[starts, n]
        self.labels = ids[starts]
        self._check()
        kind, missing = self.columns["EVID"], self.columns["MDV"]
        self.observed = (kind == 0) & (missing == 0)
        self.has_steady_states = bool((self.columns["SS"] > 0).any())
        self._made: dict[Any, Any] = {}

    def take(self, subjects) -> Records:
        """Return the records of some subjects, which may occur several times.

        Parameters
        ----------
        subjects : array-like of int of shape (n_taken,)
            Indices of subjects.

        Returns
        -------
        Records
            Their records, with all columns.
        """
        subjects = np.asarray(subjects)
        lengths = np.diff(self.offsets)[subjects]
        offsets = np.r_[0, np.cumsum(lengths)]
        rows = np.arange(offsets[-1])
        rows += np.repeat(self.offsets[subjects] - offsets[:-1], lengths)
        return self.copied(rows, offsets, self.labels[subjects])

    def copied(self, rows, offsets, labels, changes=None) -> Records:
        """Return copies of records, without checking them again.

        Parameters
        ----------
        rows : ndarray of int of shape (n_copies,)
            Indices of the records.
        offsets : ndarray of int of shape (n_subjects + 1,)
            Offsets at which those of each subject begin.
        labels : ndarray of shape (n_subjects,)
            Labels of the subjects.
        changes : dict of ndarray or None, default=None
            Columns of the copies that differ.

        Returns
        -------
        Records
            The copies.
        """
        changes = {} if changes is None else changes
        copy = object.__new__(type(self))
        copy.columns = {
            name: changes[name] if name in changes else values[rows]
            for name, values in self.columns.items()
        }
        copy.offsets = offsets
        copy.labels = labels
        copy.observed = self.observed[rows]
        copy.unread = self.unread[rows]
        if changes:
            copy.observed = (copy["EVID"] == 0) & (copy["MDV"] == 0)
        copy.has_steady_states = self.has_steady_states
        copy._made = {}
        return copy

    def __getstate__(self):
        """Return the state without the cache."""
        return {**self.__dict__, "_made": {}}

    def once(self, key, make):
        """Return a quantity derived from the records, computed once for each key.

        Parameters
        ----------
        key : hashable
            Key of the quantity.
        make : callable
            Function that computes it, without arguments.

        Returns
        -------
        object
            The quantity.
        """
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def unknown(self) -> Records:
        """Return the records with all of them as unknown observations.

        Returns
        -------
        Records
            Copies with NaN in DV.
        """
        unknown = self.take(np.arange(self.n_subjects))
        unknown.observed = np.ones(len(self), dtype=bool)
        unknown.columns["DV"] = np.full(len(self), np.nan)
        return unknown

    def __len__(self):
        """Return the number of records."""
        return len(self.columns["TIME"])

    def __getitem__(self, name):
        """Return a column."""
        if name not in self.columns:
            raise KeyError(
                f"no column {name!r}, there are {list(self.columns)}"
                f"{did_you_mean(name, self.columns)}"
            )
        return self.columns[name]

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return len(self.labels)

    @property
    def subject_of_record(self) -> np.ndarray:
        """Index of the subject of each record."""
        return np.repeat(np.arange(self.n_subjects), np.diff(self.offsets))

    @property
    def unobserved(self) -> np.ndarray:
        """Subjects without observations, by index."""
        counts = np.add.reduceat(self.observed.astype(int), self.offsets[:-1])
        return np.flatnonzero(counts == 0)

    @property
    def repeated_doses(self) -> np.ndarray:
        """Mask of the doses that are the same as the dose before in all columns."""
        kind = self.columns["EVID"]
        doses = np.flatnonzero((kind == 1) | (kind == 4))
        same = np.full(max(len(doses) - 1, 0), True)
        for values in self.columns.values():
            here, before = values[doses[1:]], values[doses[:-1]]
            same &= (here == before) | ((here != here) & (before != before))
        repeated = np.full(len(self), False)
        repeated[doses[1:]] = same
        return repeated

    @property
    def undosed(self) -> np.ndarray:
        """Mask of the records before any dose of their subject."""
        kind, amount = self.columns["EVID"], self.columns["AMT"]
        given = (amount > 0) | (self.columns["RATE"] > 0)
        doses = np.cumsum(((kind == 1) | (kind == 4)) & given)
        before = np.r_[0, doses][self.offsets[:-1]]
        return doses == before[self.subject_of_record]

    def name(self, i) -> str:
        """Return the name of a record in messages.

        Parameters
        ----------
        i : int
            Index of the record.

        Returns
        -------
        str
            Its number, subject and time.
        """
        subject, time = self.columns["ID"][i], self.columns["TIME"][i]
        return f"record {i + 1} (ID {subject}, TIME {time:g})"

    def _check(self):
        """Raise an error that names the first impossible record."""
        columns = self.columns
        kind, amount, rate = columns["EVID"], columns["AMT"], columns["RATE"]
        interval, steady = columns["II"], columns["SS"]
        doses = (kind == 1) | (kind == 4)
        constant = (amount == 0) & (rate > 0) & (steady > 0)
        several = doses & ((columns["ADDL"] > 0) | ((steady > 0) & ~constant))
        whole = ("EVID", "ADDL", "SS", "CMT", "MDV", "CENS")
        for name in COLUMNS:
            if name in columns and name not in ("ID", "DV", "LIMIT"):
                self.refuse(~np.isfinite(columns[name]), f"{name} must be a number")
        for name in whole:
            self.refuse(columns[name] % 1 != 0, f"{name} must be an integer")
        self.refuse((kind < 0) | (kind > 4), "EVID must be 0, 1, 2, 3 or 4")
        self.refuse((steady < 0) | (steady > 2), "SS must be 0, 1 or 2")
        self.refuse(amount < 0, "AMT must not be negative")
        if "DUR" in columns:
            lasts = columns["DUR"]
            self.refuse(lasts < 0, "DUR must not be negative")
            self.refuse(
                (lasts > 0) & ~np.isclose(lasts * rate, amount, rtol=1e-3),
                "DUR is the duration of an infusion, AMT / RATE: RATE differs",
            )
        self.refuse(np.abs(columns["CENS"]) > 1, "CENS must be -1, 0 or 1")
        limit, side = columns["LIMIT"], columns["CENS"]
        self.refuse(
            (side != 0) & (side * (limit - columns["DV"]) >= 0),
            "LIMIT must be below DV where CENS is 1, and above it where CENS is -1",
        )
        self.refuse(columns["ADDL"] < 0, "ADDL must not be negative")
        self.refuse(columns["CMT"] < 0, "CMT must not be negative")
        self.refuse(
            ~doses & ((amount > 0) | (rate > 0)),
            "AMT and RATE are for doses: EVID must be 1 or 4",
        )
        self.refuse(
            (rate < 0) & (rate != -1) & (rate != -2),
            "RATE must be positive, 0 (bolus), -1 (its rate is a parameter) or -2 (its "
            "duration is one)",
        )
        self.refuse(
            doses & (amount == 0) & (rate != 0) & ~constant,
            "an infusion without AMT needs SS 1 and RATE > 0 (a constant one)",
        )
        self.refuse(
            several & (interval <= 0), "ADDL and SS need the time between doses, II > 0"
        )
        time = columns["TIME"]
        back = np.r_[False, time[1:] < time[:-1]]
        back[self.offsets[:-1]] = False
        for name in columns:
            if str(name).upper() in ("DATE", "DAT1", "DAT2", "DAT3"):
                new = np.r_[False, columns[name][1:] != columns[name][:-1]]
                new[self.offsets[:-1]] = False
                self.refuse(
                    new & (time < HOURS_OF_DAY),
                    f"{name} is another day, and days are not added to TIME: have TIME "
                    f"since the first record of the subject, and no column {name}",
                )
        self.refuse(
            back & (kind < 3),
            "TIME is before that of the record above (EVID 3 and 4 may begin anew): "
            "sort the records by ID and TIME",
        )
        earlier: dict[Any, int] = {}
        for subject, label in enumerate(self.labels.tolist()):
            if label in earlier:
                first = self.offsets[subject]
                raise ValueError(
                    f"{self.name(first)}: this subject has other records further up; "
                    "those of one subject must be next to each other, sorted by TIME"
                )
            earlier[label] = subject

    def refuse(self, wrong, reason) -> None:
        """Raise an error for the first invalid record.

        Parameters
        ----------
        wrong : ndarray of bool of shape (n_records,)
            Which records are invalid.
        reason : str
            What is wrong with them, for the message.

        Raises
        ------
        ValueError
            If there are any.
        """
        if wrong.any():
            raise ValueError(f"{self.name(int(np.argmax(wrong)))}: {reason}")


def read_nonmem(source, *, columns=None, ignore="#@C") -> Records:
    """Read records of doses and observations in NONMEM's format.

    Each line is an observation, a dose, or another event of a subject. A missing value
    is "." or an empty field.

    Parameters
    ----------
    source : str, path, data frame or dict of array-like
        A text file with the column names in its first line and fields separated by
        commas, tabs or blanks, which may be compressed (``.gz``, ``.bz2``, ``.xz``); a
        pandas or polars data frame; or a dict of columns. The names below may be in
        lower case.

        - ID: the subject, whose records are contiguous.
        - TIME: in any unit, which is that of all rates; a clock time such as 13:30 is
          in hours.
        - DV: the observation, or the limit of a censored one.
        - EVID: 0 observation, 1 dose, 2 other event, 3 reset of all amounts, 4 reset
          and then dose. Without the column, a record with AMT or RATE is a dose.
        - AMT, RATE: amount, and rate of an infusion: 0 for a bolus, -1 where the rate
          and -2 where the duration is a parameter of the model.
        - DUR: duration of an infusion, AMT / RATE, instead of RATE.
        - ADDL, II: additional doses, and the time between doses.
        - SS: 1 for a steady state of doses at intervals of II that replaces the
          amounts, 2 for one that is added to them.
        - CMT: compartment of a dose, from 1; kind of an observation. 0 is the first.
        - MDV: 1 where DV is not used; without the column, it is 1 in records that are
          not observations.
        - CENS: 1 where the value is below DV, -1 where it is above.
        - LIMIT: the other end of an interval that holds a censored value.

        All other columns are covariates. Covariates and parameters of a record hold
        over the interval that ends at it. An observation includes a dose at the same
        time if it comes after the dose.
    columns : dict of str or None, default=None
        Names of the columns in the source, keyed by the names above, where they differ,
        such as ``{"DV": "conc"}``.
    ignore : str, default="#@C"
        Lines of a file that begin with one of these characters are skipped. Lines that
        begin with a letter among them are skipped only if all other lines begin with a
        number, because labels may begin with that letter. A table whose first column
        has such marks is an error.

    Returns
    -------
    Records
        The records.

    Raises
    ------
    ValueError
        If a record is impossible; the message names it.

    Examples
    --------
    >>> from sktem.compartments import read_nonmem
    >>> records = read_nonmem(
    ...     {"ID": [1, 1, 1], "TIME": [0, 1, 2], "AMT": [100, 0, 0], "DV": [0, 4, 3]}
    ... )
    >>> records["EVID"].tolist()
    [1.0, 0.0, 0.0]
    """
    if isinstance(source, Records):
        return source
    return Records(named_columns(source, columns, ignore))


def named_columns(source, columns=None, ignore="#@C") -> dict:
    """Return the columns of a source by the names that have a meaning here."""
    if isinstance(source, (str, Path)) or hasattr(source, "__fspath__"):
        table = read_table(Path(source), ignore)
    elif isinstance(source, dict):
        table = dict(source)
    elif hasattr(source, "columns"):
        table = {str(name): np.asarray(source[name]) for name in source.columns}
    else:
        raise TypeError(
            "records are read from a path, a data frame or a dict of columns, got "
            f"{type(source).__name__}"
        )
    if not isinstance(source, (str, Path)) and not hasattr(source, "__fspath__"):
        _refuse_marks(table, ignore)
    requested = {} if columns is None else dict(columns)
    named = {}
    for name, source_name in requested.items():
        if name not in COLUMNS:
            raise ValueError(
                f"columns must be names among {list(COLUMNS)}, got {name!r}"
                f"{did_you_mean(name, COLUMNS)}"
            )
        if source_name not in table:
            raise ValueError(
                f"columns: there is no {source_name!r}, only {list(table)}"
                f"{did_you_mean(source_name, table)}"
            )
        named[source_name] = name
    by_name = {}
    for name, values in table.items():
        upper = name.upper()
        if name in named:
            new = named[name]
        elif upper in COLUMNS and upper not in requested and (
            upper == name or upper not in table
        ):  # fmt: skip
            new = upper
        else:
            new = name
        by_name[new] = np.asarray(values)
    return by_name


def _refuse_marks(table, ignore):
    """Raise an error for a table with records that a file would be read without."""
    name, values = next(iter(table.items()), ("ID", ()))
    values = np.asarray(values)
    if name.upper() == "ID" or values.dtype.kind not in "OUS":
        return
    if count := sum(comments([str(value) for value in values], "\t", ignore)):
        raise ValueError(
            f"column {name!r} marks {count} records as {ignore!r}, which are left out "
            "of a file: drop these records, or the column"
        )
