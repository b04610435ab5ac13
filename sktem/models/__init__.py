"""Complete-data models, imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "DeformableTemplateModel": "sktem.template.model",
    "ARDLogisticModel": "sktem.regression.ard_logistic_model",
    "ARDLogisticParams": "sktem.regression.ard_logistic_model",
    "GaussianMixtureModel": "sktem.mixture.model",
    "GaussianMixtureParams": "sktem.mixture.model",
    "ImageGrid": "sktem.template.grid",
    "LatentModel": "sktem.models.base",
    "MixedEffectsParams": "sktem.mixed_effects.design",
    "NamedColumns": "sktem.mixed_effects.rows",
    "NonlinearMixedEffectsModel": "sktem.mixed_effects.model",
    "RandomInterceptModel": "sktem.models.random_intercept",
    "RandomInterceptParams": "sktem.models.random_intercept",
    "TemplateParams": "sktem.template.model",
    "TemplatePriors": "sktem.template.priors",
    "RobustPoissonModel": "sktem.regression.robust_poisson_model",
    "RobustPoissonParams": "sktem.regression.robust_poisson_model",
    "STRUCTURAL_MODELS": "sktem.mixed_effects.structural",
    "check_model": "sktem.loop.checking",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.models' has no attribute {name!r}")
