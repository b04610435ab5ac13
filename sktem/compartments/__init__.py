"""Compartment models of pharmacometrics: event records to amounts.

The public names are imported on first use.
"""

from typing import TYPE_CHECKING

from sktem.lazy import lazy

_PUBLIC = {
    "Doses": "sktem.compartments.doses",
    "ODE": "sktem.compartments.ode",
    "OneCompartment": "sktem.compartments.mammillary",
    "Records": "sktem.compartments.records",
    "Reparametrized": "sktem.compartments.reparametrized",
    "Responses": "sktem.compartments.responses",
    "ThreeCompartment": "sktem.compartments.mammillary",
    "TwoCompartment": "sktem.compartments.mammillary",
    "read_nonmem": "sktem.compartments.records",
}

__all__ = sorted(_PUBLIC)


if TYPE_CHECKING:
    from sktem.compartments.doses import Doses as Doses
    from sktem.compartments.mammillary import OneCompartment as OneCompartment
    from sktem.compartments.mammillary import ThreeCompartment as ThreeCompartment
    from sktem.compartments.mammillary import TwoCompartment as TwoCompartment
    from sktem.compartments.ode import ODE as ODE
    from sktem.compartments.records import Records as Records
    from sktem.compartments.records import read_nonmem as read_nonmem
    from sktem.compartments.reparametrized import Reparametrized as Reparametrized
    from sktem.compartments.responses import Responses as Responses
else:
    __getattr__, __dir__ = lazy(__name__, _PUBLIC)
