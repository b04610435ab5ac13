"""Emissions: what is observed given one of K discrete states, imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "Bernoulli": "sktem.emissions.bernoulli",
    "BernoulliParams": "sktem.emissions.bernoulli",
    "Categorical": "sktem.emissions.categorical",
    "CategoricalParams": "sktem.emissions.categorical",
    "Emission": "sktem.emissions.base",
    "Gaussian": "sktem.emissions.gaussian",
    "GaussianParams": "sktem.emissions.gaussian",
    "Poisson": "sktem.emissions.poisson",
    "PoissonParams": "sktem.emissions.poisson",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sktem.emissions' has no attribute {name!r}")
