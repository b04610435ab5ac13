"""Compartment models with other parameters, and with covariates in any form."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from sktem.choices import did_you_mean
from sktem.compartments.models import CompartmentModel, at_records
from sktem.compartments.records import Records

__all__ = ["Reparametrized"]


class Reparametrized(CompartmentModel):
    """A compartment model whose parameters are functions of others and of covariates.

    Parameters
    ----------
    model : CompartmentModel
        The model.
    function : callable
        ``function(p, records)`` returns the parameters of the model, and of doses, as a
        dict of arrays or numbers. ``p.CL`` has one value for each record, and
        ``records["WT"]`` is a column.
    parameters : sequence of str
        Names of the new parameters.

    Attributes
    ----------
    parameters : tuple of str
        Names of the parameters.

    Examples
    --------
    >>> from sktem.compartments import OneCompartment, Reparametrized
    >>> model = Reparametrized(
    ...     OneCompartment(),
    ...     lambda p, r: {"CL": (p.TH1 + p.TH2 * (r["CRCL"] - 90)) * p.FREE, "V": p.V},
    ...     parameters=["TH1", "TH2", "V", "FREE"],
    ... )
    >>> records = {"ID": [1, 1], "TIME": [0, 1], "AMT": [100, 0], "CRCL": [80, 80]}
    >>> psi = {"TH1": 5.0, "TH2": 0.05, "V": 50.0, "FREE": 1.0}
    >>> model.predict(records, psi).round(3)
    array([2.   , 1.828])
    """

    def __init__(self, model: CompartmentModel, function: Callable, *, parameters):
        if not isinstance(model, CompartmentModel):
            raise TypeError(f"model must be a model of compartments, got {model!r}")
        if not callable(function):
            raise TypeError(f"function must be callable, got {function!r}")
        self.model = model
        self.function = function
        self.parameters = tuple(parameters)

    def __repr__(self):
        """Return the model and the names."""
        return f"Reparametrized({self.model!r}, parameters={list(self.parameters)})"

    @property
    def kinds(self) -> tuple[int, ...]:
        """Kinds of observations of the model."""
        return self.model.kinds

    @property
    def has_closed_form(self) -> bool:
        """Whether the model has a closed form."""
        return self.model.has_closed_form

    def _check_names(self, names):
        for name in names:
            if name not in self.parameters:
                raise ValueError(
                    f"{self!r} has the parameters {list(self.parameters)}, got "
                    f"{name!r}{did_you_mean(name, self.parameters)}"
                )
        if missing := [name for name in self.parameters if name not in names]:
            raise ValueError(f"{self!r} needs the parameters {missing} too")

    def _own(self, records: Records, parameters):
        """Return the parameters of the model, computed from the other ones."""
        self.check_names(parameters)
        values = {name: at_records(records, name, v) for name, v in parameters.items()}
        return self.function(SimpleNamespace(**values), records)

    def _predictions(self, records, parameters):
        return self.model._predictions(records, self._own(records, parameters))

    def _arrivals(self, records, parameters):
        return self.model._arrivals(records, self._own(records, parameters))

    def _all_amounts(self, records, parameters):
        return self.model.amounts(records, self._own(records, parameters))
