"""Measuring fitted models: likelihoods, exact sums, residuals, predictive checks."""

from sktem.evaluation.ais import AISResult, annealed_importance_sampling
from sktem.evaluation.enumeration import enumerate_moments, enumerate_states
from sktem.evaluation.individual_curves import IndividualCurve, individual_curves
from sktem.evaluation.mixed_effects_residuals import (
    PopulationResiduals,
    individual_residuals,
    population_residuals,
)
from sktem.evaluation.parzen import ParzenWindow
from sktem.evaluation.predictive_check import (
    VisualPredictiveCheck,
    bin_times,
    prediction_factors,
    visual_predictive_check,
)
from sktem.evaluation.transfer_matrix import grid_log_partition

__all__ = [
    "AISResult",
    "IndividualCurve",
    "ParzenWindow",
    "PopulationResiduals",
    "VisualPredictiveCheck",
    "annealed_importance_sampling",
    "bin_times",
    "enumerate_moments",
    "enumerate_states",
    "grid_log_partition",
    "individual_curves",
    "individual_residuals",
    "population_residuals",
    "prediction_factors",
    "visual_predictive_check",
]
