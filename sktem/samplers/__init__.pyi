from sktem.e_step.chains import ChainState as ChainState
from sktem.e_step.chains import positions as positions
from sktem.samplers.base import Sampler as Sampler
from sktem.samplers.base import SamplerInfo as SamplerInfo
from sktem.samplers.component_walk import ComponentWalk as ComponentWalk
from sktem.samplers.exact import ExactDraws as ExactDraws
from sktem.samplers.exact import ExactExpectation as ExactExpectation
from sktem.samplers.exact import GrowingDraws as GrowingDraws
from sktem.samplers.hamiltonian import HMC as HMC
from sktem.samplers.langevin import MALA as MALA
from sktem.samplers.langevin import ULA as ULA
from sktem.samplers.random_walk import RandomWalk as RandomWalk
from sktem.template.model.samplers import DEFORMATION_SAMPLERS as DEFORMATION_SAMPLERS
from sktem.template.model.samplers import DeformationMALA as DeformationMALA
from sktem.template.model.samplers import DeformationULA as DeformationULA

SAMPLERS: dict[str, type[Sampler]]
