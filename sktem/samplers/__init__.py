"""Samplers: how the latents are drawn."""

from importlib import import_module
from typing import Any

from sktem.e_step.chains import ChainState, positions
from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.component_walk import ComponentWalk
from sktem.samplers.exact import ExactDraws, ExactExpectation, GrowingDraws
from sktem.samplers.hamiltonian import HMC
from sktem.samplers.langevin import MALA, ULA
from sktem.samplers.random_walk import RandomWalk

#: Samplers of families, imported on first use: the core imports no family.
_OF_FAMILIES = {
    "DEFORMATION_SAMPLERS": "sktem.template.samplers",
    "DeformationGibbs": "sktem.template.samplers",
    "DeformationMALA": "sktem.template.samplers",
    "DeformationRandomWalk": "sktem.template.samplers",
    "DeformationULA": "sktem.template.samplers",
}

__all__ = [
    "ChainState",
    "ComponentWalk",
    "DEFORMATION_SAMPLERS",
    "DeformationGibbs",
    "DeformationMALA",
    "DeformationRandomWalk",
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


def __getattr__(name: str) -> Any:
    if name in _OF_FAMILIES:
        return getattr(import_module(_OF_FAMILIES[name]), name)
    raise AttributeError(f"module 'sktem.samplers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_OF_FAMILIES])
