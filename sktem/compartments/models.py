"""Compartment models: amounts at records, given parameters."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

from sktem.choices import did_you_mean
from sktem.compartments.gradients import gradient
from sktem.compartments.integration import TIGHT
from sktem.compartments.records import Records, read_nonmem
from sktem.compartments.schedules import (
    DOSING,
    arrivals_of,
    dosing_of,
    most_steps,
    steps_of,
)
from sktem.exceptions import FitWarning, warn_user

__all__ = [
    "CompartmentModel",
    "LinearPlan",
    "Psi",
    "SolvedModel",
    "at_records",
    "check_shape",
    "kept_steps",
]

#: Other names of the parameters of doses.
ALIASES = {"LAG": "ALAG", "TLAG": "ALAG", "DUR": "D"}


class Psi(NamedTuple):
    """Parameters of a model by name, and which of them hold at each record.

    Attributes
    ----------
    values : dict of ndarray of shape (n_rows,)
        Parameters of the model.
    dosing : dict of ndarray of shape (n_records,)
        Parameters of doses that were given.
    of_record : ndarray of int of shape (n_records,)
        Row of the values that holds at each record.
    """

    values: dict
    dosing: dict
    of_record: np.ndarray

    def at_records(self, name) -> np.ndarray:
        """Return a parameter, one value for each record."""
        return self.values[name][self.of_record]


class LinearPlan(NamedTuple):
    """Plan of the closed form for records, computed once for many parameters.

    Attributes
    ----------
    sizes : tuple of int
        Numbers of depots, compartments and effects.
    order : ndarray of int
        Index of each argument of the closed form among the given names.
    steps : Steps
        Steps between the observations, without them.
    before : ndarray of int of shape (n_steps,)
        How many observations come before each.
    since : ndarray of shape (n_observations,)
        Time since the step before.
    is_effect : ndarray of bool of shape (n_observations,)
        Whether an observation is of the effect, and not of the concentration.
    events : Events or None
        The columns of the records, None where steps do not depend on parameters, so
        that no code for it is compiled.
    is_row : ndarray of bool of shape (n_records,)
        Whether a record is an observation.
    dosing : ndarray of int of shape (4, n_records)
        Index of the share, lag, duration and rate of the dose of each record among the
        given names, -1 where there is none.
    n_steps : int
        Steps of a subject that are made anew for its parameters, at most; 0 where steps
        do not depend on parameters.
    """

    sizes: tuple[int, int, int]
    order: np.ndarray
    steps: Any
    before: np.ndarray
    since: np.ndarray
    is_effect: np.ndarray
    events: Any
    is_row: np.ndarray
    dosing: np.ndarray
    n_steps: int

    def anew(self) -> LinearPlan:
        """Return the plan of steps that are made for each set of parameters."""
        return self if self.n_steps else self._replace(n_steps=most_steps(self.events))

    def for_kernels(self) -> LinearPlan:
        """Return the plan as compiled code takes it."""
        return self if self.n_steps else self._replace(events=None)


class CompartmentModel(ABC):
    """A model of the amounts in compartments that doses enter.

    Subclasses define their parameters and what they predict.

    Parameters
    ----------
    parameters : sequence of str
        Names of the parameters, without those of doses.

    Attributes
    ----------
    parameters : tuple of str
        Names of the parameters.
    """

    parameters: tuple[str, ...]
    #: The model that another one changes; steps and tolerance of an integration, and
    #: copies of a subject that are integrated in step.
    model: Any = None
    max_steps: int = 0
    rtol: float = 0.0
    n_in_step: int = 1

    @property
    def has_closed_form(self) -> bool:
        """Whether amounts are computed without integrating differential equations."""
        return False

    @property
    def tolerance(self) -> float:
        """Relative size of jumps of predictions where steps change, 0 without jumps.

        It is the tolerance of the integration; for copies in step, the tolerance for
        those that cannot be integrated in step.
        """
        if self.model is not None:
            return self.model.tolerance
        if self.has_closed_form:
            return 0.0
        return self.rtol if self.n_in_step == 1 else min(self.rtol, TIGHT)

    @property
    def hindrance(self) -> str:
        """Reason why a fit is slow, known after predictions; empty if there is none."""
        return "" if self.model is None else self.model.hindrance

    def plan(self, records: Records, names) -> LinearPlan | None:
        """Return the plan of the closed form for parameters of these names.

        Parameters
        ----------
        records : Records
            The records.
        names : sequence of str
            Names of the parameters.

        Returns
        -------
        LinearPlan or None
            The plan, or None without a closed form.
        """
        return None

    def hasty(self, most: int) -> CompartmentModel:
        """Return the model with a limit to steps between two records, for a search.

        Parameters
        ----------
        most : int
            Maximum number of integration steps.

        Returns
        -------
        CompartmentModel
            The model, whose predictions are NaN where more steps would be needed.
        """
        hasty = self._copy()
        hasty.max_steps = min(self.max_steps, most)
        hasty.model = None if self.model is None else self.model.hasty(most)
        return hasty

    def in_step(self, count: int) -> CompartmentModel:
        """Return the model for records that are copies of subjects.

        Consecutive copies are integrated with the same steps as the first of them, so
        that differences of their predictions have no noise from changing steps.

        Parameters
        ----------
        count : int
            Number of copies of a subject.

        Returns
        -------
        CompartmentModel
            The model, whose records have to be copies.
        """
        other = self._copy()
        other.n_in_step = count
        other.model = None if self.model is None else self.model.in_step(count)
        return other

    def _copy(self):
        """Return a copy, with its compiled functions."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def predict(self, records, parameters) -> np.ndarray:
        """Return the prediction at each record.

        Parameters
        ----------
        records : Records, path or data frame
            Records of doses and observations, as accepted by :func:`read_nonmem`.
        parameters : dict
            Values of the parameters by name: a number, an array of shape (n_subjects,)
            or one of shape (n_records,). In addition to those of the model, there are
            parameters of doses, with their defaults: "F" (bioavailability, 1), "ALAG"
            (lag time, 0), "D" (duration of infusions with a RATE of -2) and "R" (rate
            of those with -1). With the number of a compartment, such as "F2", they
            apply to doses into that compartment. Names are case-insensitive.

        Returns
        -------
        ndarray of shape (n_records,)
            Predictions for all records in their order. The prediction at a dose
            includes that dose.

        Raises
        ------
        ValueError
            If a parameter is missing, unknown or has a wrong shape, or if a record is
            impossible for the model.
        """
        records = read_nonmem(records)
        self.check_kinds(records)
        predictions = self._predictions(records, parameters)
        self._warn_of_ends(records, parameters, predictions)
        return predictions

    def gradient(self, records, parameters) -> dict[str, np.ndarray]:
        """Return the derivatives of the predictions with respect to each parameter.

        Parameters
        ----------
        records : Records, path or data frame
            Records of doses and observations, as accepted by :func:`read_nonmem`.
        parameters : dict
            Values of the parameters, as in :meth:`predict`.

        Returns
        -------
        dict of ndarray of shape (n_records,)
            Derivatives of the predictions at all records with respect to the parameters
            passed, including those of doses. If a parameter varies within a subject,
            all its values change together. At a bound of a parameter, such as a lag
            time of 0, derivatives are taken from the inside.

        Raises
        ------
        ValueError
            As :meth:`predict`.

        Notes
        -----
        The derivatives are central differences, accurate to 9 or 10 digits, between
        solutions with the same integration steps (internal numerical differentiation,
        Bock 1981). Even with a coarse tolerance they are thus the derivatives of the
        prediction, without noise from changing steps. There are exceptions, which are
        integrated to a relative tolerance of 1e-11 instead and give 5 or 6 digits:
        subjects whose steady states are searched for, subjects for whom shifting a lag
        time or a duration would change the order of doses and records, and functions
        that are not compiled.

        References
        ----------
        H. G. Bock, Numerical treatment of inverse problems in chemical reaction
        kinetics, Modelling of Chemical Reaction Systems, Springer, 1981.

        Examples
        --------
        >>> from sktem.compartments import OneCompartment
        >>> records = {"ID": [1, 1, 1], "TIME": [0, 1, 2], "AMT": [100, 0, 0]}
        >>> slopes = OneCompartment().gradient(records, {"CL": 1.1, "V": 20})
        >>> slopes["CL"][1:].round(4)
        array([-0.2366, -0.4479])
        """
        records = read_nonmem(records)
        self.check_kinds(records)
        return gradient(self, records, parameters)

    def amounts(self, records, parameters) -> np.ndarray:
        """Return the amounts in all compartments at each record.

        Parameters
        ----------
        records : Records, path or data frame
            Records of doses and observations, as accepted by :func:`read_nonmem`.
        parameters : dict
            Values of the parameters, as in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_records, n_states)
            Amounts; the last one is the response, if there is one.

        Raises
        ------
        ValueError
            As :meth:`predict`.
        """
        records = read_nonmem(records)
        amounts = self._all_amounts(records, parameters)
        self._warn_of_ends(records, parameters, amounts.sum(axis=1))
        return amounts

    def _warn_of_ends(self, records, parameters, values):
        """Warn of the first record that an integration has not reached."""
        lost = ~np.isfinite(values)
        if not lost.any() or not self.tolerance:
            return
        for name, value in parameters.items():
            lost &= np.isfinite(at_records(records, name, value))
        if lost.any():
            others = f", nor {lost.sum() - 1} others" if lost.sum() > 1 else ""
            warn_user(
                f"{records.name(int(np.argmax(lost)))}: the integration of {self!r} "
                f"does not reach it{others}. It ends after max_steps steps between two "
                "records, where derivatives are not finite, and without a steady "
                "state: check the parameters, or have a larger max_steps, or "
                'method="stiff" for rates that differ by orders of magnitude.',
                FitWarning,
            )

    def check_names(self, names) -> None:
        """Raise an error unless parameters have these names.

        Parameters
        ----------
        names : iterable of str
            Names of parameters of the model and of doses.

        Raises
        ------
        ValueError
            If a name is unknown, given twice or missing.
        """
        self._check_names(list(names))

    def check_kinds(self, records: Records, others=()) -> None:
        """Raise an error for an observation of a kind that is not predicted.

        Parameters
        ----------
        records : Records
            The records. A CMT of 0 is the first.
        others : iterable of int, default=()
            Kinds that are predicted like the first one.

        Raises
        ------
        ValueError
            If there is one; the message names it.
        """
        known = list(dict.fromkeys([*self.kinds, *others]))
        unknown = ~np.isin(np.maximum(records["CMT"], 1), known)
        records.refuse(
            records.observed & unknown,
            f"CMT of an observation must be one of {known} for {self!r}: "
            "set MDV to 1 to leave it out, or, for another measurement of the same, "
            "have its CMT in residual_error",
        )

    @property
    @abstractmethod
    def kinds(self) -> tuple[int, ...]:
        """Kinds of observations that the model predicts, by CMT."""

    @abstractmethod
    def _predictions(self, records: Records, parameters) -> np.ndarray:
        """Return the prediction at each record, whatever its kind."""

    @abstractmethod
    def _all_amounts(self, records: Records, parameters) -> np.ndarray:
        """Return the amounts at each record."""

    @abstractmethod
    def _arrivals(self, records: Records, parameters):
        """Return lags of doses and how long they last, None where records say it all.

        Both have one value for each record.
        """

    @abstractmethod
    def _check_names(self, names: list[str]) -> None:
        """Raise an error unless parameters have these names."""


class SolvedModel(CompartmentModel):
    """A model whose amounts are solved for, from record to record.

    Subclasses say how amounts follow from steps, and what is observed.
    """

    @property
    @abstractmethod
    def _n_numbered(self) -> int:
        """Number of compartments that doses may name."""

    @abstractmethod
    def _amounts(self, records: Records, steps, psi: Psi) -> np.ndarray:
        """Return the amounts at the records, of shape (n_records, n_states)."""

    @abstractmethod
    def _observed(self, records: Records, amounts, psi: Psi) -> np.ndarray:
        """Return the predictions at the records."""

    def _events(self, records: Records):
        """Return the events of records, None where they are as the columns say."""
        return None

    def _predictions(self, records, parameters):
        psi = self._psi(records, parameters)
        return self._observed(records, self._solved(records, psi), psi)

    def _all_amounts(self, records, parameters):
        return self._solved(records, self._psi(records, parameters))

    def _arrivals(self, records, parameters):
        psi, events = self._psi(records, parameters), self._events(records)
        if events is None and not psi.dosing:
            return None
        dosing = dosing_of(records, psi.dosing)
        return arrivals_of(records, dosing, None if events is None else events.rate)

    def _solved(self, records, psi):
        """Return the amounts at the records."""
        events = self._events(records)
        if events is None and not psi.dosing:
            steps = kept_steps(records)
        else:
            steps = steps_of(records, dosing_of(records, psi.dosing), events)
        if not records.has_steady_states:
            steps = steps.without_steady_states()
        return self._amounts(records, steps, psi)

    def _check_names(self, names):
        self._named_values(dict.fromkeys(names, 1.0))

    def _psi(self, records: Records, parameters) -> Psi:
        """Return parameters by their own names, of shapes that agree."""
        return _aligned(records, *self._named_values(parameters))

    def _named_values(self, parameters):
        """Return parameters of the model and of doses by their own names."""
        known = {name.upper(): name for name in self.parameters}
        values: dict[str, np.ndarray] = {}
        dosing: dict[str, np.ndarray] = {}
        for name, value in dict(parameters).items():
            known_name = known.get(name.upper())
            if known_name is None and (known_name := dosing_name(name)) is None:
                raise ValueError(
                    f"{self!r} has the parameters {list(self.parameters)} and, of "
                    f"doses, {list(DOSING)}, got {name!r}"
                    f"{did_you_mean(name, self.parameters)}"
                )
            place = known_name.lstrip(ascii_uppercase)
            if known_name not in self.parameters and int(place or 0) > self._n_numbered:
                raise ValueError(
                    f"{name!r} is of doses into compartment {place}, but {self!r} has "
                    f"{self._n_numbered} compartments for doses"
                )
            if known_name in values or known_name in dosing:
                raise ValueError(f"parameter {known_name!r} is given twice")
            target = values if known_name in self.parameters else dosing
            target[known_name] = np.asarray(value, dtype=float)
        missing = [name for name in self.parameters if name not in values]
        if missing:
            raise ValueError(f"{self!r} needs the parameters {missing} too")
        return values, dosing

    def _check_doses(self, records):
        """Raise an error if a dose goes into a compartment that is not there."""
        kind = records["EVID"]
        doses = (kind == 1) | (kind == 4)
        records.refuse(
            doses & (records["CMT"] > self._n_numbered),
            f"CMT must be at most {self._n_numbered}, the compartments of {self!r}",
        )


def dosing_name(name) -> str | None:
    """Return the name of a parameter of doses in capitals, None for another."""
    match = re.fullmatch(r"([A-Z]+)([1-9]\d*)?", name.upper())
    if match is None:
        return None
    stem = ALIASES.get(match[1], match[1])
    return stem + (match[2] or "") if stem in DOSING else None


def kept_steps(records):
    """Return the steps that do not depend on parameters, cached."""
    return records.once(
        "steps", lambda: steps_of(records, dosing_of(records, {}), None)
    )


def check_shape(records, name, value) -> np.ndarray:
    """Return a parameter: a number, or one value for each subject or record."""
    value, n = np.asarray(value, dtype=float), len(records)
    if value.shape not in {(), (n,), (records.n_subjects,)}:
        raise ValueError(
            f"parameter {name!r} must be a number or have one value for each of the "
            f"{records.n_subjects} subjects or the {n} records, got the shape "
            f"{value.shape}"
        )
    return value


def at_records(records, name, value) -> np.ndarray:
    """Return a parameter, one value for each record."""
    value = check_shape(records, name, value)
    if value.shape == (records.n_subjects,):
        value = value[records.subject_of_record]
    return np.broadcast_to(value, (len(records),))


def _aligned(records, values, dosing) -> Psi:
    """Return parameters of a common shape: of one row, of subjects or of records."""
    n = len(records)
    for name, value in {**values, **dosing}.items():
        check_shape(records, name, value)
    subject = records.subject_of_record
    sizes = {value.shape for value in values.values() if value.ndim}
    if (n,) in sizes:
        of_record = np.arange(n)
    elif sizes:
        of_record = subject
    else:
        of_record = np.zeros(n, dtype=np.int64)
    rows = int(of_record[-1]) + 1

    def spread(value, rows):
        if value.ndim == 0:
            return np.full(rows, float(value))
        return value[subject] if rows != len(value) else value

    return Psi(
        {name: spread(value, rows) for name, value in values.items()},
        {name: spread(value, n) for name, value in dosing.items()},
        np.asarray(of_record, dtype=np.int64),
    )
