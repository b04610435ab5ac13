"""Measuring fitted models: likelihoods, exact sums, residuals, predictive checks.

The public names are imported on first use, so that what needs no compiled code does
not load it.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "AISResult": "sktem.evaluation.ais",
    "IndividualCurve": "sktem.evaluation.subject_curves",
    "ParzenWindow": "sktem.evaluation.parzen",
    "PopulationResiduals": "sktem.evaluation.mixed_effects_residuals",
    "VisualPredictiveCheck": "sktem.evaluation.predictive_check",
    "annealed_importance_sampling": "sktem.evaluation.ais",
    "bin_times": "sktem.evaluation.predictive_check",
    "enumerate_moments": "sktem.evaluation.enumeration",
    "enumerate_states": "sktem.evaluation.enumeration",
    "grid_log_partition": "sktem.evaluation.transfer_matrix",
    "individual_curves": "sktem.evaluation.subject_curves",
    "individual_residuals": "sktem.evaluation.mixed_effects_residuals",
    "population_residuals": "sktem.evaluation.mixed_effects_residuals",
    "prediction_factors": "sktem.evaluation.predictive_check",
    "visual_predictive_check": "sktem.evaluation.predictive_check",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.evaluation' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
