from sktem.compartments.doses import Doses as Doses
from sktem.compartments.mammillary import (
    OneCompartment as OneCompartment,
)
from sktem.compartments.mammillary import (
    ThreeCompartment as ThreeCompartment,
)
from sktem.compartments.mammillary import (
    TwoCompartment as TwoCompartment,
)
from sktem.compartments.ode import ODE as ODE
from sktem.compartments.records import Records as Records
from sktem.compartments.records import read_nonmem as read_nonmem
from sktem.compartments.reparametrized import Reparametrized as Reparametrized
from sktem.compartments.responses import Responses as Responses
