"""Stochastic EM for latent-variable models, with scikit-learn's conventions.

The public names are imported on first use, so that ``import sktem`` is cheap.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "BoltzmannMachineClassifier": "sktem.boltzmann.classifier",
    "BoltzmannMachineRegressor": "sktem.boltzmann.regressor",
    "DeformableTemplateClassifier": "sktem.template.classifier",
    "DeformableTemplateEstimator": "sktem.template.estimator",
    "LatentBoltzmannMachine": "sktem.boltzmann.estimator",
    "ARDLogisticClassifier": "sktem.regression.ard_logistic",
    "NonlinearMixedEffectsRegressor": "sktem.mixed_effects.estimator",
    "RobustPoissonRegressor": "sktem.regression.robust_poisson",
    "StochasticEM": "sktem.estimators.stochastic_em",
    "StochasticEMGaussianMixture": "sktem.mixture.estimator",
    "show_progress": "sktem.progress",
    "show_versions": "sktem.versions",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
