"""Responses to concentrations: further outcomes, and hazards of events."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from sktem.choices import check_number
from sktem.compartments.models import CompartmentModel, check_shape
from sktem.compartments.records import Records
from sktem.compartments.schedules import arrivals_of

__all__ = ["Responses"]


class Nodes(NamedTuple):
    """Records between which quadrature nodes have been inserted.

    Attributes
    ----------
    records : Records
        All of them; nodes have the covariates of the record that follows.
    source : ndarray of int
        Record that each of them stands for.
    weights : ndarray
        Quadrature weights, in units of time; 0 for records.
    place : ndarray of int of shape (n_records,)
        Where the given records are.
    """

    records: Records
    source: np.ndarray
    weights: np.ndarray
    place: np.ndarray


class Responses(CompartmentModel):
    """A compartment model with further outcomes that depend on its prediction.

    Parameters
    ----------
    model : CompartmentModel or None
        The model, whose prediction (a concentration) drives the outcomes. None is for
        outcomes without a concentration, which is then 0.
    outcomes : dict of callable or None, default=None
        For each CMT of observations, a function ``function(p, records, c)`` that
        returns the prediction, such as the mean of a count. ``p.CL`` and the model's
        prediction c have one value for each record, and ``records["WT"]`` is a column.
    hazards : dict of callable or None, default=None
        Functions of the same form by CMT that return the hazard of an event. Records of
        that CMT are events (DV 1) or the end of an interval without one (DV 0). The
        last record of a subject ends the observation; several events are repeated
        events. The prediction is the probability of no event since the previous record
        of this kind, or since time 0. In a fit, it is the density of the event for a
        record with DV 1, or the probability that the event was before this time if CENS
        is 1.
    parameters : sequence of str, default=()
        Names of those parameters of the functions that the model does not have.
    driver : int, default=0
        CMT of the model's prediction that is used as c.
    n_nodes : int, default=8
        Number of Gauss-Legendre nodes between two records or doses, with which hazards
        are integrated. Where the risk begins (at time 0, and after an event), there are
        twice as many, which crowd at the beginning, so that a hazard may be infinite
        there (Weibull's with a shape below 1).

    Attributes
    ----------
    parameters : tuple of str
        Names of all parameters.

    Notes
    -----
    Hazards are integrated between records and doses, where doses count from their
    arrival, after a lag time. A kink elsewhere, such as in a hazard that is a function
    of time, reduces the accuracy; a record with EVID 2 at the kink helps.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem.compartments import OneCompartment, Responses
    >>> model = Responses(
    ...     OneCompartment(),
    ...     outcomes={2: lambda p, records, c: p.BASE * np.exp(-p.SLOPE * c)},
    ...     hazards={3: lambda p, records, c: p.RATE * c},
    ...     parameters=["BASE", "SLOPE", "RATE"],
    ... )
    >>> psi = {"CL": 1.0, "V": 10.0, "BASE": 5.0, "SLOPE": 0.1, "RATE": 0.01}
    >>> records = {"ID": [1] * 4, "TIME": [0, 4, 4, 4], "AMT": [100, 0, 0, 0],
    ...            "CMT": [1, 1, 2, 3]}
    >>> model.predict(records, psi).round(4)
    array([10.    ,  6.7032,  2.5577,  0.7192])
    """

    def __init__(
        self, model, *, outcomes=None, hazards=None, parameters=(), driver=0, n_nodes=8
    ):
        if model is not None and not isinstance(model, CompartmentModel):
            raise TypeError(f"model must be a model of compartments, got {model!r}")
        check_number("driver", driver, Integral, 0)
        check_number("n_nodes", n_nodes, Integral, 1)
        self.model = model
        self.outcomes = _functions("outcomes", outcomes)
        self.hazards = _functions("hazards", hazards)
        if both := sorted(set(self.outcomes) & set(self.hazards)):
            raise ValueError(f"CMT {both[0]} is both an outcome and a hazard")
        names = [] if model is None else list(model.parameters)
        self.parameters = (*names, *(name for name in parameters if name not in names))
        self._own = tuple(name for name in self.parameters if name not in names)
        self.driver = driver
        self.n_nodes = n_nodes

    def __repr__(self):
        """Return the model and the kinds."""
        kinds = sorted([*self.outcomes, *self.hazards])
        return f"Responses({self.model!r}, CMT {kinds})"

    @property
    def kinds(self) -> tuple[int, ...]:
        """Kinds of observations: outcomes, events, and those of the model."""
        others = () if self.model is None else self.model.kinds
        return tuple(sorted({*others, *self.outcomes, *self.hazards}))

    @property
    def has_closed_form(self) -> bool:
        """Whether the model has a closed form and there is no hazard to integrate."""
        plain = self.model is None or self.model.has_closed_form
        return plain and not self.hazards

    def _check_names(self, names):
        if missing := [name for name in self._own if name not in names]:
            raise ValueError(f"{self!r} needs the parameters {missing} too")
        rest = [name for name in names if name not in self._own]
        if self.model is not None:
            self.model.check_names(rest)
        elif rest:
            raise ValueError(
                f"{self!r} has the parameters {list(self.parameters)}, got {rest[0]!r}"
            )

    def _predictions(self, records, parameters):
        self.check_names(parameters)
        nodes = self._nodes(records, parameters)
        inner = nodes.records
        values = {
            name: _on_nodes(name, value, records, nodes)
            for name, value in parameters.items()
        }
        c = np.zeros(len(inner))
        if self.model is not None:
            c = self.model._predictions(inner, self._of_model(values))
        of_record = inner.subject_of_record
        p = SimpleNamespace(**{
            name: value[of_record] if value.shape == (inner.n_subjects,)
            else np.broadcast_to(value, c.shape)
            for name, value in values.items()
        })  # fmt: skip
        predictions, kind = c[nodes.place], np.maximum(records["CMT"], 1)
        for cmt, function in self.outcomes.items():
            outcome = _values(function, p, inner, c, cmt)
            predictions = np.where(kind == cmt, outcome[nodes.place], predictions)
        for cmt, function in self.hazards.items():
            with np.errstate(divide="ignore"):
                hazard = _values(function, p, inner, c, cmt)
            # A hazard may be infinite at a record where the risk begins.
            terms = np.where(nodes.weights > 0, hazard, 0.0) * nodes.weights
            here = (kind == cmt) & (records["EVID"] == 0)
            survival = np.exp(-_since(records, here, terms, nodes))
            event = records["DV"] == 1
            exact = event & (records["CENS"] == 0)
            density = np.where(event, 1 - survival, survival)
            density = np.where(exact, hazard[nodes.place] * survival, density)
            predictions = np.where(here, density, predictions)
        return predictions

    def _all_amounts(self, records, parameters):
        self.check_names(parameters)
        if self.model is None:
            return np.zeros((len(records), 0))
        return self.model.amounts(records, self._of_model(parameters))

    def _nodes(self, records, parameters) -> Nodes:
        """Return the records with nodes between them.

        They are made once, unless parameters say when doses arrive and infusions end.
        """
        kinds = tuple(self.outcomes), tuple(self.hazards)
        key = kinds, self.driver, self.n_nodes
        arrivals = self._arrivals(records, parameters) if self.hazards else None
        if arrivals is not None:
            return _with_nodes(records, *key, arrivals)
        return records.once(key, lambda: _with_nodes(records, *key, None))

    def _arrivals(self, records, parameters):
        if self.model is None:
            return None
        return self.model._arrivals(records, self._of_model(parameters))

    def _of_model(self, parameters) -> dict:
        """Return the parameters of the model, without those of the functions."""
        return {n: v for n, v in parameters.items() if n not in self._own}


def _functions(name, functions) -> dict:
    """Return functions by CMT."""
    functions = {} if functions is None else functions
    right = isinstance(functions, Mapping) and all(
        isinstance(cmt, Integral) and callable(function)
        for cmt, function in functions.items()
    )
    if not right:
        raise TypeError(f"{name} must be a dict of functions by CMT, got {functions!r}")
    return dict(functions)


def _values(function, p, records, c, cmt):
    """Return the checked output of a user's function, one number for each record."""
    values = np.asarray(function(p, records, c), dtype=float)
    if values.shape not in {(), c.shape}:
        raise ValueError(
            f"the function of CMT {cmt} must return one value for each of {len(c)} "
            f"records, got the shape {values.shape}"
        )
    return np.broadcast_to(values, c.shape)


def _on_nodes(name, value, records, nodes):
    """Return a parameter for the records with nodes."""
    value = check_shape(records, name, value)
    by_record = value.shape not in {(), (records.n_subjects,)}
    return value[nodes.source] if by_record else value


def _since(records, here, terms, nodes):
    """Return sums of terms up to each record since the one of its kind before."""
    by_record = np.bincount(nodes.source, terms, len(records))
    starts = np.r_[True, here[:-1]]
    starts[records.offsets[:-1]] = True
    first = np.flatnonzero(starts)
    totals = np.zeros(len(records))
    totals[np.r_[first[1:], len(records)] - 1] = np.add.reduceat(by_record, first)
    return totals


def _with_nodes(records, kinds, driver, n_nodes, arrivals) -> Nodes:
    """Return records with nodes before those of hazards.

    ``arrivals`` are the lags and durations of doses, None where the records say them.
    """
    outcomes, hazards = kinds
    n, columns = len(records), records.columns
    kind, observed = np.maximum(columns["CMT"], 1), columns["EVID"] == 0
    ends = observed & np.isin(kind, hazards)
    owner, from_, until, is_fresh = _intervals(records, ends, arrivals)
    units, unit_weights = _rules(n_nodes)
    owner, from_, length, rule = (
        np.repeat(values, 1 + is_fresh)
        for values in (owner, from_, until - from_, is_fresh.astype(int))
    )
    rule[np.flatnonzero(rule)[1::2]] = 2
    times = from_[:, None] + length[:, None] * units[rule]
    counts = 1 + n_nodes * np.bincount(owner, minlength=n)
    source = np.repeat(np.arange(n), counts)
    place = np.cumsum(counts) - 1
    inserted = np.ones(len(source), dtype=bool)
    inserted[place] = False
    time, weights = columns["TIME"][source], np.zeros(len(source))
    time[inserted] = times.ravel()
    weights[inserted] = (length[:, None] * unit_weights[rule]).ravel()
    changes = {"TIME": time}
    for name in ("AMT", "RATE", "II", "ADDL", "SS", "CENS"):
        changes[name] = np.where(inserted, 0.0, columns[name][source])
    others = inserted | (observed & np.isin(kind, [*hazards, *outcomes]))[source]
    changes["EVID"] = np.where(others, 2.0, columns["EVID"][source])
    changes["MDV"] = np.where(others, 1.0, columns["MDV"][source])
    changes["CMT"] = np.where(others, float(driver), columns["CMT"][source])
    offsets = np.r_[0, np.cumsum(np.add.reduceat(counts, records.offsets[:-1]))]
    return Nodes(
        records.copied(source, offsets, records.labels, changes), source, weights, place
    )


def _rules(n_nodes):
    """Return nodes and weights on (0, 1): a plain rule, and both halves of another.

    The other one has twice as many nodes, at fourth powers, which integrates powers of
    time that are infinite at 0.
    """
    plain, weight = np.polynomial.legendre.leggauss(n_nodes)
    root, root_weight = np.polynomial.legendre.leggauss(2 * n_nodes)
    root = (1 + root) / 2
    units = np.r_[(1 + plain) / 2, root**4]
    weights = np.r_[weight, root_weight * 4 * root**3] / 2
    return units.reshape(3, -1), weights.reshape(3, -1)


def _intervals(records, ends, arrivals):
    """Return intervals up to records, cut where doses come.

    Those up to the last record of a subject in ``ends``, of positive length: record,
    start and end of each, and whether the risk begins anew with it.
    """
    columns, n = records.columns, len(records)
    time, kind = columns["TIME"], columns["EVID"]
    subject = records.subject_of_record
    first = np.zeros(n, dtype=bool)
    first[records.offsets[:-1]] = True
    # A reset ends neither the interval nor its risk, unless time begins anew.
    begins = first | ((kind >= 3) & np.r_[False, time[1:] < time[:-1]])
    part = np.cumsum(begins) - 1
    # Times at which doses come and infusions end; of steady states also before.
    doses = np.flatnonzero((kind == 1) | (kind == 4))
    interval = columns["II"][doses]
    lag, lasts = arrivals_of(records) if arrivals is None else arrivals
    lag, lasts = lag[doses], lasts[doses]
    steady = (columns["SS"][doses] > 0) & (interval > 0)
    before = np.where(steady, (lag + lasts) / np.where(steady, interval, 1.0), 0.0)
    before = np.ceil(before).astype(np.int64)
    more = before + columns["ADDL"][doses].astype(np.int64) + 1
    index = np.repeat(np.arange(len(doses)), more)
    rank = np.arange(len(index)) - np.repeat(np.cumsum(more) - more + before, more)
    dose_times = time[doses][index] + lag[index] + rank * interval[index]
    stop = dose_times + lasts[index]
    index = doses[index]
    cut, of_part = np.r_[dose_times, stop], np.r_[part[index], part[index]]
    # Parts one after the other, so that times rise.
    low, span = time.min(), np.ptp(time) + 1.0
    keys = part * span + (time - low)
    inside = (cut >= np.r_[time[index], time[index]]) & (cut - low < span)
    cut, of_part = cut[inside], of_part[inside]
    owner = np.searchsorted(keys, of_part * span + (cut - low))
    has_record = owner < n
    has_record[has_record] = part[owner[has_record]] == of_part[has_record]
    owner, cut = np.r_[np.arange(n), owner[has_record]], np.r_[time, cut[has_record]]
    order = np.lexsort([cut, owner])
    owner, until = owner[order], cut[order]
    before = np.r_[0.0, until[:-1]]
    starts = np.r_[True, owner[1:] != owner[:-1]] & begins[owner]
    at_first = np.where(first[owner], np.minimum(until, 0.0), until)
    before = np.where(starts, at_first, before)
    last = np.full(records.n_subjects, -1)
    np.maximum.at(last, subject[ends], np.flatnonzero(ends))
    wanted = (until > before) & (owner <= last[subject[owner]])
    owner = owner[wanted]
    happened = ends & (columns["DV"] == 1)
    risk = np.cumsum(begins | np.r_[True, happened[:-1]])[owner]
    is_fresh = np.diff(risk, prepend=0) > 0
    return owner, before[wanted], until[wanted], is_fresh
