"""Samplers: how the latents are drawn."""

from sktem.samplers.base import Sampler, SamplerInfo
from sktem.samplers.exact import ExactDraws, ExactExpectation, GrowingDraws
from sktem.samplers.langevin import MALA, ULA
from sktem.samplers.random_walk import RandomWalk

__all__ = [
    "MALA",
    "SAMPLERS",
    "ULA",
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
    "mala": MALA,
    "ula": ULA,
}
