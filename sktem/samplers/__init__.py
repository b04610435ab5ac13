"""Samplers: how the latents are drawn."""

from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.component_walk import ComponentWalk
from sktem.samplers.deformation import (
    DEFORMATION_SAMPLERS,
    DeformationGibbs,
    DeformationMALA,
    DeformationRandomWalk,
    DeformationULA,
)
from sktem.samplers.exact import ExactDraws, ExactExpectation, GrowingDraws
from sktem.samplers.hamiltonian import HMC
from sktem.samplers.langevin import MALA, ULA
from sktem.samplers.random_walk import RandomWalk

__all__ = [
    "DEFORMATION_SAMPLERS",
    "DeformationGibbs",
    "DeformationMALA",
    "DeformationRandomWalk",
    "DeformationULA",
    "HMC",
    "MALA",
    "SAMPLERS",
    "ULA",
    "ComponentWalk",
    "ExactDraws",
    "ExactExpectation",
    "GrowingDraws",
    "RandomWalk",
    "Sampler",
    "SamplerInfo",
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
