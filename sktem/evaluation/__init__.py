"""Measuring fitted models: likelihoods, exact sums, residuals, predictive checks.

The public names are imported on first use, so that names without compiled code do
not load it.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "AISResult": "sktem.boltzmann.ais",
    "IndividualCurve": "sktem.mixed_effects.checks.curves",
    "PartitionBracket": "sktem.boltzmann.brackets",
    "ParzenWindow": "sktem.boltzmann.parzen",
    "PopulationResiduals": "sktem.mixed_effects.checks.residuals",
    "VisualPredictiveCheck": "sktem.mixed_effects.checks.predictive",
    "annealed_importance_sampling": "sktem.boltzmann.ais",
    "bracket_log_partition": "sktem.boltzmann.brackets",
    "bin_times": "sktem.mixed_effects.checks.predictive",
    "enumerate_moments": "sktem.boltzmann.enumeration",
    "enumerate_states": "sktem.boltzmann.enumeration",
    "grid_log_partition": "sktem.boltzmann.transfer_matrix",
    "individual_curves": "sktem.mixed_effects.checks.curves",
    "individual_residuals": "sktem.mixed_effects.checks.residuals",
    "population_residuals": "sktem.mixed_effects.checks.residuals",
    "prediction_factors": "sktem.mixed_effects.checks.predictive",
    "reverse_annealed_importance_sampling": "sktem.boltzmann.brackets",
    "visual_predictive_check": "sktem.mixed_effects.checks.predictive",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.evaluation' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
