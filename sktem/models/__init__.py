"""Complete-data models, imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "DeformableTemplateModel": "sktem.models.deformable_template",
    "ARDLogisticModel": "sktem.models.ard_logistic",
    "ARDLogisticParams": "sktem.models.ard_logistic",
    "GaussianMixtureModel": "sktem.models.gaussian_mixture",
    "GaussianMixtureParams": "sktem.models.gaussian_mixture",
    "ImageGrid": "sktem.models.image_grid",
    "LatentModel": "sktem.models.base",
    "MixedEffectsParams": "sktem.models.mixed_design",
    "NamedColumns": "sktem.models.grouped_rows",
    "NonlinearMixedEffectsModel": "sktem.models.mixed_effects",
    "RandomInterceptModel": "sktem.models.random_intercept",
    "RandomInterceptParams": "sktem.models.random_intercept",
    "TemplateParams": "sktem.models.deformable_template",
    "TemplatePriors": "sktem.models.template_priors",
    "RobustPoissonModel": "sktem.models.robust_poisson",
    "RobustPoissonParams": "sktem.models.robust_poisson",
    "STRUCTURAL_MODELS": "sktem.models.structural",
    "check_model": "sktem.models.checking",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.models' has no attribute {name!r}")
