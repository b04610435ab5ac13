"""Samplers: how the latents are drawn."""

from typing import TYPE_CHECKING

from sktem.e_step.chains import ChainState, positions
from sktem.lazy import lazy
from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.component_walk import ComponentWalk
from sktem.samplers.exact import ExactDraws, ExactExpectation, GrowingDraws
from sktem.samplers.hamiltonian import HMC
from sktem.samplers.langevin import MALA, ULA
from sktem.samplers.random_walk import RandomWalk

#: Samplers of families, imported on first use: the core imports no family.
_OF_FAMILIES = {
    "DEFORMATION_SAMPLERS": "sktem.template.model.samplers",
    "DeformationMALA": "sktem.template.model.samplers",
    "DeformationULA": "sktem.template.model.samplers",
}

__all__ = [
    "ChainState",
    "ComponentWalk",
    "DEFORMATION_SAMPLERS",
    "DeformationMALA",
    "DeformationULA",
    "ExactDraws",
    "ExactExpectation",
    "GrowingDraws",
    "HMC",
    "MALA",
    "RandomWalk",
    "SAMPLERS",
    "Sampler",
    "SamplerInfo",
    "ULA",
    "positions",
]

#: Samplers by the name that estimators accept. A sampler is added by one line.
SAMPLERS = {
    "exact": ExactExpectation,
    "mc": ExactDraws,
    "rwm": RandomWalk,
    "hmc": HMC,
    "mala": MALA,
    "ula": ULA,
}


if TYPE_CHECKING:
    from sktem.template.model.samplers import (
        DEFORMATION_SAMPLERS as DEFORMATION_SAMPLERS,
    )
    from sktem.template.model.samplers import DeformationMALA as DeformationMALA
    from sktem.template.model.samplers import DeformationULA as DeformationULA
else:
    __getattr__, __dir__ = lazy(__name__, _OF_FAMILIES)
