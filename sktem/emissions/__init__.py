"""Distributions of observations given a discrete state, imported on first use."""

from sktem.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
