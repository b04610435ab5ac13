"""Complete-data models, imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "DeformableTemplateModel": "sktem.models.deformable_template",
    "GaussianMixtureModel": "sktem.models.gaussian_mixture",
    "GaussianMixtureParams": "sktem.models.gaussian_mixture",
    "ImageGrid": "sktem.models.image_grid",
    "LatentModel": "sktem.models.base",
    "RandomInterceptModel": "sktem.models.random_intercept",
    "RandomInterceptParams": "sktem.models.random_intercept",
    "TemplateParams": "sktem.models.deformable_template",
    "TemplatePriors": "sktem.models.template_priors",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.models' has no attribute {name!r}")
