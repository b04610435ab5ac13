"""Tables of doses, next to tables of observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from sktem.compartments.record_columns import COLUMNS, numbers
from sktem.compartments.records import Records, named_columns

__all__ = ["Doses"]

#: Columns with a meaning that observations have.
OF_OBSERVATIONS = ("TIME", "DV", "CMT", "CENS", "LIMIT", "MDV")


class Doses:
    """Doses of subjects, in a table without observations.

    Parameters
    ----------
    source : path, data frame or dict of array-like
        One row per dose, with the columns TIME and AMT and, if needed, ID, RATE, II,
        ADDL, SS, CMT and EVID as described in :func:`read_nonmem`. Without ID, all
        subjects get these doses. Without EVID, all rows are doses. Other columns are
        covariates.
    columns : dict of str or None, default=None
        Names of the columns in the source, keyed by the names above, where they differ.

    Notes
    -----
    A dose precedes observations at the same time, which therefore include it. If this
    is not intended, as for a trough, give the dose a later time. If a covariate is
    missing from one of the tables, its value is that of the subject's next record in
    the other table, or of the last one.

    Examples
    --------
    >>> from sktem.compartments import Doses, OneCompartment
    >>> doses = Doses({"TIME": [0], "AMT": [100], "II": [12], "ADDL": [5]})
    >>> records, rows = doses.with_observations({"TIME": [1, 13]}, groups=["A", "A"])
    >>> model = OneCompartment("first-order")
    >>> found = model.predict(records, {"CL": 1.1, "V": 20, "KA": 1.5})
    >>> found[rows].round(3)
    array([3.754, 6.293])
    """

    def __init__(self, source, *, columns=None):
        self.columns = dict(named_columns(source, columns))
        for name in ("TIME", "AMT"):
            if name not in self.columns:
                raise ValueError(
                    f"doses need a column {name!r}, got {list(self.columns)}"
                )
        n = len(self.columns["TIME"])
        self.columns.setdefault("EVID", np.ones(n))
        for name in ("TIME", "EVID"):
            self.columns[name] = numbers(name, self.columns[name])
        self.columns.pop("DV", None)
        self._check_order()

    def _check_order(self):
        """Raise an error if time begins anew, for observations have no place then."""
        time, kind = self.columns["TIME"], self.columns["EVID"]
        latest: dict[Any, float] = {}
        owners = self.columns.get("ID", np.zeros(len(time)))
        for i, owner in enumerate(owners.tolist()):
            if kind[i] >= 3 and time[i] <= latest.get(owner, -np.inf):
                raise ValueError(
                    f"dose {i + 1}: TIME begins anew (EVID {kind[i]:g}), so that an "
                    "observation's time does not say what comes before it: have doses "
                    "and observations in one table of records (read_nonmem)"
                )
            latest[owner] = max(time[i], latest.get(owner, -np.inf))

    def __len__(self):
        """Return the number of doses."""
        return len(self.columns["TIME"])

    def with_observations(self, X, y=None, *, groups):
        """Return the records of doses and observations.

        Parameters
        ----------
        X : data frame, dict or array of shape (n_observations, n_columns)
            Times of the observations ("TIME", or the first column of an array), and
            covariates; "CMT" is the kind of an observation, and "CENS" is 1 where the
            observation is below y, -1 where it is above.
        y : array-like of shape (n_observations,) or None, default=None
            Observations; None if they are unknown.
        groups : array-like of shape (n_observations,)
            Label of the subject of each observation, as in ID.

        Returns
        -------
        records : Records
            The records of the subjects with observations, sorted by label.
        rows : ndarray of int of shape (n_observations,)
            The record of each observation.

        Raises
        ------
        ValueError
            If columns are missing or a record is impossible; the message names it.
        """
        observed = _columns_of(X)
        if "TIME" not in observed:
            raise ValueError(f"X needs a column 'TIME', got {list(observed)}")
        n = len(observed["TIME"])
        labels, subject = np.unique(np.asarray(groups), return_inverse=True)
        if subject.shape != (n,):
            raise ValueError(f"groups must have one label for each of {n} rows of X")
        if "ID" in self.columns:
            place = {label: i for i, label in enumerate(labels.tolist())}
            owners = [place.get(label, -1) for label in self.columns["ID"].tolist()]
            dose, owner = np.flatnonzero(np.array(owners) >= 0), np.array(owners)
            if len(self) and not len(dose):
                raise ValueError(
                    "no dose is of a subject in groups: ID has labels such as "
                    f"{self.columns['ID'].tolist()[0]!r}, and groups such as "
                    f"{labels.tolist()[0]!r}"
                )
            owner = owner[dose]
        else:
            dose = np.tile(np.arange(len(self)), len(labels))
            owner = np.repeat(np.arange(len(labels)), len(self))
        owner = np.concatenate([owner, subject])
        is_dose = np.arange(len(owner)) < len(dose)
        doses = {name: values[dose] for name, values in self.columns.items()}
        doses["DV"] = np.full(len(dose), np.nan)
        observed["DV"] = np.full(n, 0.0) if y is None else np.asarray(y, dtype=float)
        columns = {}
        for name in dict.fromkeys([*observed, *doses]):
            if name != "ID":
                parts = doses.get(name), observed.get(name)
                columns[name] = _joined(name, *parts, len(dose), n)
        time = numbers("TIME", columns["TIME"])
        order = np.lexsort((~is_dose, time, owner))
        columns = {name: values[order] for name, values in columns.items()}
        owner = owner[order]
        for name, values in columns.items():
            if name not in COLUMNS:
                columns[name] = _carried(values, owner)
        records = Records({"ID": labels[owner], **columns})
        rows = np.empty(len(order), dtype=np.int64)
        rows[order] = np.arange(len(order))
        return records, rows[len(dose) :]


def _columns_of(X):
    """Return the columns of a table by name; those of an array begin with TIME."""
    if hasattr(X, "columns") or isinstance(X, dict):
        return {k: v for k, v in named_columns(X).items() if k not in ("ID", "DV")}
    X = np.asarray(X, dtype=float)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got the shape {X.shape}")
    return {"TIME": X[:, 0]} | {f"x{j}": X[:, j] for j in range(1, X.shape[1])}


def _joined(name, of_doses, of_observations, n_doses, n):
    """Return a column of both tables, with defaults where a table lacks it."""
    default = COLUMNS.get(name)
    if name == "EVID":
        default = 0.0
    if name == "MDV":
        of_doses = np.ones(n_doses)
        default = 0.0
    default = np.nan if default is None else default
    if of_doses is None:
        of_doses = np.full(n_doses, default)
    if of_observations is None or (
        name in COLUMNS and name not in (*OF_OBSERVATIONS, "DV")
    ):
        of_observations = np.full(n, default)
    return np.concatenate([of_doses, of_observations])


def _carried(values, owner):
    """Return values of the next record of a subject, or the last, where missing."""
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return values
    places = np.arange(len(values))
    known = ~np.isnan(values)
    after = np.minimum.accumulate(np.where(known, places, len(values))[::-1])[::-1]
    before = np.maximum.accumulate(np.where(known, places, -1))
    of_next = np.minimum(after, len(values) - 1)
    good = (after < len(values)) & (owner[of_next] == owner)
    chosen = np.where(good, of_next, np.maximum(before, 0))
    fits = owner[chosen] == owner
    return np.where(fits, values[chosen], np.nan)
