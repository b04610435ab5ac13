"""Measuring fitted models: likelihoods, exact sums, Parzen windows, information."""

from sktem.evaluation.ais import AISResult, annealed_importance_sampling
from sktem.evaluation.enumeration import enumerate_moments, enumerate_states
from sktem.evaluation.parzen import ParzenWindow
from sktem.evaluation.transfer_matrix import grid_log_partition

__all__ = [
    "AISResult",
    "ParzenWindow",
    "annealed_importance_sampling",
    "enumerate_moments",
    "enumerate_states",
    "grid_log_partition",
]
