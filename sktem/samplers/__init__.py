"""Samplers: how the latents are drawn."""

from sktem.lazy import lazy
from sktem.samplers.exact import ExactDraws, ExactExpectation
from sktem.samplers.hamiltonian import HMC
from sktem.samplers.langevin import MALA, ULA
from sktem.samplers.random_walk import RandomWalk

#: Samplers by the name that estimators accept. A sampler is added by one line.
SAMPLERS = {
    "exact": ExactExpectation,
    "mc": ExactDraws,
    "rwm": RandomWalk,
    "hmc": HMC,
    "mala": MALA,
    "ula": ULA,
}

__getattr__, __dir__, _names = lazy(__name__, __file__)
__all__ = sorted([*_names, "SAMPLERS"])
