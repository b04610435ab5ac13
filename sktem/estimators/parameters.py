"""Types of parameters that several estimators have, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from sktem.samplers.base import Sampler
from sktem.solvers.base import Solver

__all__ = [
    "Auto",
    "Average",
    "BatchSize",
    "NumberOfStates",
    "SamplerLike",
    "SamplerName",
    "Sampling",
    "Seed",
    "SolverLike",
    "SolverName",
    "StepSize",
]

Auto: TypeAlias = Literal["auto"]
Average: TypeAlias = bool | int | Literal["tail", "random"]
BatchSize: TypeAlias = int | Auto
NumberOfStates: TypeAlias = int | Literal["auto", "bic", "icl"]
Sampling: TypeAlias = Literal["fixed", "shuffle", "inclusion"]
Seed: TypeAlias = int | np.random.RandomState | np.random.Generator | None
StepSize: TypeAlias = float | Callable[[int], float] | Auto
SolverName: TypeAlias = Literal[
    "em",
    "squarem",
    "daarem",
    "mcem",
    "saem",
    "online",
    "iem",
    "isaem",
    "vrttem",
    "fittem",
    "biased-saem",
]
SolverLike: TypeAlias = SolverName | Auto | Solver
SamplerName: TypeAlias = Literal["exact", "mc", "rwm", "hmc", "mala", "ula"]
SamplerLike: TypeAlias = SamplerName | Auto | Sampler
