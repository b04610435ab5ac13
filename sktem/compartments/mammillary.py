"""Models of one to three compartments."""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from sktem.choices import check_choice, check_number
from sktem.compartments.integration import integrated
from sktem.compartments.models import LinearPlan, Psi, SolvedModel, kept_steps
from sktem.compartments.schedules import (
    between_observations,
    dosing_places,
    events_of,
    most_steps,
    no_steps,
)

__all__ = ["OneCompartment", "ThreeCompartment", "TwoCompartment"]


class Absorption(NamedTuple):
    """A way into the central compartment.

    Attributes
    ----------
    parameters : tuple of str
        Its parameters.
    n_depots : int
        Depots before the central compartment.
    input_kind : int
        Code of the density of the time of entry, 0 for doses that enter at once.
    """

    parameters: tuple[str, ...] = ()
    n_depots: int = 0
    input_kind: int = 0


#: Ways into the central compartment by name.
ABSORPTIONS = {
    "intravenous": Absorption(),
    "first-order": Absorption(("KA",), 1),
    "zero-order": Absorption(("D1",)),
    "parallel": Absorption(("KA1", "KA2", "FR1"), 2),
    "transit": Absorption(("MTT", "N", "KA"), 1, 1),
    "weibull": Absorption(("TD", "BETA"), 0, 2),
    "inverse-gaussian": Absorption(("MAT", "CV2"), 0, 3),
}
ELIMINATIONS = {
    "linear": ("CL",),
    "michaelis-menten": ("VMAX", "KM"),
    "mixed": ("CL", "VMAX", "KM"),
}
#: Responses by name, with their codes and parameters.
RESPONSES = {
    "effect": (1, ("KE0",)),
    "inhibited-production": (2, ("KIN", "KOUT", "IMAX", "IC50")),
    "inhibited-loss": (3, ("KIN", "KOUT", "IMAX", "IC50")),
    "stimulated-production": (4, ("KIN", "KOUT", "EMAX", "EC50")),
    "stimulated-loss": (5, ("KIN", "KOUT", "EMAX", "EC50")),
}


class _Mammillary(SolvedModel):
    """A central compartment and peripheral ones that exchange with it."""

    _flows: tuple[str, ...]
    _volumes: tuple[str, ...]

    def __init__(
        self,
        absorption=None,
        *,
        elimination="linear",
        response=None,
        rtol=1e-8,
        atol=1e-10,
        max_steps=10_000,
    ):
        if absorption is None:
            absorption = "intravenous"
        check_choice("absorption", absorption, ABSORPTIONS, " or None (intravenous)")
        check_choice("elimination", elimination, ELIMINATIONS)
        if response is not None:
            check_choice("response", response, RESPONSES, " or None")
        check_number("rtol", rtol, Real, 0, strict=True)
        check_number("atol", atol, Real, 0, strict=True)
        check_number("max_steps", max_steps, Integral, 1)
        self.absorption = absorption
        self.elimination = elimination
        self.response = response
        self.rtol = rtol
        self.atol = atol
        self.max_steps = max_steps
        self._entry = ABSORPTIONS[absorption]
        self._code, effect = RESPONSES.get(response, (0, ()))
        self.parameters = (
            *ELIMINATIONS[elimination],
            *self._volumes[:1],
            *(name for pair in zip(self._flows, self._volumes[1:], strict=True)
              for name in pair),
            *self._entry.parameters,
            *effect,
        )  # fmt: skip

    def __repr__(self):
        """Return the call that makes it."""
        settings = {"absorption": self.absorption, "elimination": self.elimination,
                 "response": self.response}  # fmt: skip
        defaults = ("intravenous", "linear", None)
        shown = [
            f"{name}={value!r}"
            for (name, value), default in zip(settings.items(), defaults, strict=True)
            if value != default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def _n_numbered(self) -> int:
        """Number of compartments that doses may name: the depots count as one."""
        return len(self._volumes) + min(self._entry.n_depots, 1)

    @property
    def kinds(self) -> tuple[int, ...]:
        """Kinds of observations: concentrations, also by CMT 1, and the response."""
        central = 1 + min(self._entry.n_depots, 1)
        response = (self._n_numbered + 1,) * (self._code > 0)
        return tuple(range(1, central + 1)) + response

    @property
    def has_closed_form(self) -> bool:
        """Whether amounts are computed without integrating differential equations."""
        closed = self.elimination == "linear" and self._entry.input_kind == 0
        return closed and self._code in (0, 1)

    def is_slowly_absorbed(self, parameters) -> bool:
        """Return whether the dose is absorbed more slowly than it is eliminated.

        Parameters
        ----------
        parameters : dict of float
            Values of the parameters; names are case-insensitive.

        Returns
        -------
        bool
            Whether it is, for one compartment with first-order absorption.
        """
        values = {name.upper(): value for name, value in parameters.items()}
        known = self.absorption == "first-order" and self.elimination == "linear"
        if not known or len(self._volumes) > 1 or not {"KA", "CL", "V"} <= set(values):
            return False
        return values["KA"] * values["V"] < values["CL"]

    @property
    def _is_exact_transit(self) -> bool:
        """Whether transit compartments lead to a linear system."""
        is_transit = self.absorption == "transit" and self._code == 0
        return is_transit and self.elimination == "linear"

    def _psi(self, records, parameters):
        """Return parameters; those of a zero-order absorption are of doses too."""
        psi = super()._psi(records, parameters)
        if self.absorption == "zero-order":
            psi.dosing["D1"] = psi.at_records("D1")
        return psi

    def _events(self, records):
        """Return events; a zero-order absorption gives boluses a modelled duration."""
        self._check_doses(records)
        if self.absorption != "zero-order":
            return None
        events = events_of(records)
        enters = (events.amount > 0) & (events.rate == 0) & (events.compartment == 0)
        return events._replace(rate=np.where(enters, -2.0, events.rate))

    def _amounts(self, records, steps, psi: Psi):
        """Return amounts by the closed form, or by integration."""
        solver = self._solve_linear if self.has_closed_form else self._integrate
        return solver(records, steps, psi)

    @property
    def _n_states(self) -> int:
        """Number of amounts."""
        return self._entry.n_depots + len(self._volumes) + (self._code > 0)

    def _solve_linear(self, records, steps, psi):
        """Return amounts by the closed form."""
        from sktem.compartments.kernels import observations

        values = np.column_stack([psi.values[name] for name in self._arguments])
        amounts = np.empty((len(records), self._n_states))
        observations.solve(
            *self._sizes,
            steps,
            np.ascontiguousarray(values),
            psi.of_record,
            0,
            records.n_subjects,
            amounts,
        )
        return amounts

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """Numbers of depots, compartments and effects."""
        return self._entry.n_depots, len(self._volumes), int(self._code > 0)

    @property
    def _arguments(self) -> list[str]:
        """Names of the parameters in the order of the closed form."""
        names = ["CL", *self._disposition, *self._entry.parameters]
        if self.absorption == "zero-order":
            names.remove("D1")
        return names + ["KE0"] * (self._code > 0)

    def plan(self, records, names):
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
        if not self.has_closed_form:
            return None
        places = {name: k for k, name in enumerate(names)}
        values, dosing = self._named_values(places)
        events = self._events(records)
        if self.absorption == "zero-order":
            dosing["D1"] = values["D1"]
        kept = no_steps() if dosing else kept_steps(records)
        steps, before, since = between_observations(
            kept, records.observed, records.has_steady_states
        )
        events = events_of(records) if events is None else events
        effect = records["CMT"][records.observed] == self._n_numbered + 1
        return LinearPlan(
            self._sizes,
            np.array([values[name] for name in self._arguments], dtype=np.int64),
            steps,
            before,
            since,
            effect & (self._code > 0),
            events,
            records.observed,
            dosing_places(records, dosing),
            most_steps(events) if dosing else 0,
        )

    @property
    def _disposition(self):
        """Names of volumes and flows in the order of the compiled functions."""
        names = list(self._volumes[:1])
        for flow, volume in zip(self._flows, self._volumes[1:], strict=True):
            names += [flow, volume]
        return names

    def _integrate(self, records, steps, psi):
        """Return amounts by integration."""
        from sktem.compartments.functions import address_of
        from sktem.compartments.kernels import mammillary as places
        from sktem.compartments.kernels import stepping

        entry, values = self._entry, psi.values
        if entry.input_kind:
            records.refuse(
                records["SS"] == 2, f"SS must be 1, not 2, for {self.absorption}"
            )
        rows = len(next(iter(values.values())))
        table = np.zeros((rows, places.SIZE))
        table[:, places.N_DEPOTS] = entry.n_depots
        table[:, places.N_COMPARTMENTS] = len(self._volumes)
        table[:, places.RESPONSE] = self._code
        table[:, places.KM] = 1.0
        where = {"CL": places.CL, "VMAX": places.VMAX, "KM": places.KM}
        where |= {name: places.V1 + j for j, name in enumerate(self._disposition)}
        if self.absorption == "parallel":
            where |= {"KA1": places.KA1, "KA2": places.KA2, "FR1": places.SHARE}
        elif entry.n_depots:
            where["KA"] = places.KA1
        if entry.input_kind:
            first, second = entry.parameters[:2]
            where |= {first: places.INPUT, second: places.INPUT + 1}
        where |= {"KE0": places.KOUT, "KIN": places.KIN, "KOUT": places.KOUT}
        where |= {"IMAX": places.MOST, "EMAX": places.MOST}
        where |= {"IC50": places.HALF, "EC50": places.HALF}
        for name, column in values.items():
            if name in where:
                table[:, where[name]] = column
        initial = np.zeros((rows, self._n_states))
        if self._code > 1:
            initial[:, -1] = values["KIN"] / values["KOUT"]
        control = stepping.Control(
            float(self.rtol),
            float(self.atol),
            int(self.max_steps),
            entry.input_kind,
            places.INPUT,
            places.SHARE if self.absorption == "parallel" else -1,
            self._n_states,
            0,
            1 if self._is_exact_transit else None,
            in_step=self.n_in_step,
        )
        rhs, n = address_of(places.derivatives), records.n_subjects
        return integrated(rhs, control, steps, table, psi, initial, n)

    def _observed(self, records, amounts, psi):
        """Return concentrations, and responses where CMT names them."""
        central = amounts[:, self._entry.n_depots]
        predictions = central / psi.at_records(self._volumes[0])
        if self._code:
            here = records["CMT"] == self._n_numbered + 1
            predictions = np.where(here, amounts[:, -1], predictions)
        return predictions


class OneCompartment(_Mammillary):
    """One compartment that doses enter and from which they are eliminated.

    Predictions are concentrations, ``A / V``.

    Parameters
    ----------
    absorption : str or None, default=None
        How doses into compartment 1 reach the central compartment. The parameters named
        here describe the input into a depot or the central compartment over time.

        - None or "intravenous": at once, or as an infusion. The central compartment has
          the number 1, the others follow.
        - "first-order": from a depot at the rate KA. The depot is compartment 1, the
          central one 2.
        - "zero-order": at a constant rate over the duration D1. The central compartment
          has the number 1.
        - "parallel": a fraction FR1 at the rate KA1, the rest at KA2. Both depots are
          compartment 1, the central one is 2.
        - "transit": through N transit compartments with a mean transit time of MTT into
          the depot, and from there at the rate KA. N need not be an integer.
        - "weibull": directly into the central compartment, at a time that has a Weibull
          density with scale TD and shape BETA.
        - "inverse-gaussian": likewise, with an inverse Gaussian density of mean MAT and
          squared coefficient of variation CV2.
    elimination : {"linear", "michaelis-menten", "mixed"}, default="linear"
        Clearance CL; ``VMAX C / (KM + C)`` as amount per time; or both.
    response : str or None, default=None
        A response, as a last compartment. Records whose CMT is its number observe the
        response, all others the concentration.

        - "effect": an effect compartment, ``E' = KE0 (C - E)``.
        - "inhibited-production", "stimulated-production": a turnover ``E' = KIN g -
          KOUT E`` that starts at KIN / KOUT, with ``g = 1 - IMAX C / (IC50 + C)`` or
          ``g = 1 + EMAX C / (EC50 + C)``.
        - "inhibited-loss", "stimulated-loss": ``E' = KIN - KOUT g E``.
    rtol : float, default=1e-8
        Relative tolerance of an integration step, where there is no closed form.
    atol : float, default=1e-10
        Absolute tolerance of a step, as a share of the largest amount of a subject.
    max_steps : int, default=10000
        Maximum number of steps between two records; predictions beyond that are NaN.

    Attributes
    ----------
    parameters : tuple of str
        Names of the parameters: CL (or VMAX and KM), V, and those of absorption and
        response.

    Notes
    -----
    The amounts of linear models have a closed form, from record to record and at steady
    state: divided differences of exponentials where rates coincide, and of incomplete
    gamma functions after transit compartments. Other models are integrated by Dormand
    and Prince's method of order 8 (DOP853).

    References
    ----------
    R. M. Savic, D. M. Jonker, T. Kerbusch and M. O. Karlsson, Implementation of a
    transit compartment model for describing drug absorption in pharmacokinetic studies,
    J. Pharmacokinet. Pharmacodyn. 34, 2007.

    N. L. Dayneka, V. Garg and W. J. Jusko, Comparison of four basic models of indirect
    pharmacodynamic responses, J. Pharmacokinet. Biopharm. 21, 1993.

    Examples
    --------
    >>> from sktem.compartments import OneCompartment
    >>> records = {"ID": [1, 1, 1], "TIME": [0, 1, 2], "AMT": [100, 0, 0]}
    >>> model = OneCompartment(absorption="first-order")
    >>> model.predict(records, {"CL": 1.1, "V": 20, "KA": 1.5}).round(3)
    array([0.   , 3.754, 4.391])
    """

    _flows, _volumes = (), ("V",)


class TwoCompartment(_Mammillary):
    """A central and a peripheral compartment.

    Predictions are concentrations in the central compartment, ``A / V1``.

    Parameters
    ----------
    absorption : str or None, default=None
        As for :class:`OneCompartment`. The central compartment has the number 1, or 2
        with a depot; the peripheral one has the next number.
    elimination : {"linear", "michaelis-menten", "mixed"}, default="linear"
        As for :class:`OneCompartment`.
    response : str or None, default=None
        As for :class:`OneCompartment`.
    rtol, atol : float, default=1e-8, 1e-10
        Tolerances, as for :class:`OneCompartment`.
    max_steps : int, default=10000
        As for :class:`OneCompartment`.

    Attributes
    ----------
    parameters : tuple of str
        Names of the parameters: CL (or VMAX and KM), V1, Q (the clearance between the
        compartments), V2, and those of absorption and response.

    Examples
    --------
    >>> from sktem.compartments import TwoCompartment
    >>> records = {"ID": [1, 1, 1], "TIME": [0, 1, 2], "AMT": [100, 0, 0]}
    >>> model = TwoCompartment()
    >>> model.predict(records, {"CL": 1, "V1": 20, "Q": 2, "V2": 40}).round(3)
    array([5.   , 4.315, 3.744])
    """

    _flows, _volumes = ("Q",), ("V1", "V2")


class ThreeCompartment(_Mammillary):
    """A central and two peripheral compartments.

    Predictions are concentrations in the central compartment, ``A / V1``.

    Parameters
    ----------
    absorption : str or None, default=None
        As for :class:`OneCompartment`. The central compartment has the number 1, or 2
        with a depot; the peripheral ones follow.
    elimination : {"linear", "michaelis-menten", "mixed"}, default="linear"
        As for :class:`OneCompartment`.
    response : str or None, default=None
        As for :class:`OneCompartment`.
    rtol, atol : float, default=1e-8, 1e-10
        Tolerances, as for :class:`OneCompartment`.
    max_steps : int, default=10000
        As for :class:`OneCompartment`.

    Attributes
    ----------
    parameters : tuple of str
        Names of the parameters: CL (or VMAX and KM), V1, Q2, V2, Q3, V3, and those of
        absorption and response.

    Examples
    --------
    >>> from sktem.compartments import ThreeCompartment
    >>> records = {"ID": [1, 1, 1], "TIME": [0, 1, 2], "AMT": [100, 0, 0]}
    >>> psi = {"CL": 5, "V1": 10, "Q2": 2, "V2": 20, "Q3": 1.5, "V3": 30}
    >>> ThreeCompartment().predict(records, psi).round(3)
    array([10.   ,  4.351,  2.008])
    """

    _flows, _volumes = ("Q2", "Q3"), ("V1", "V2", "V3")
