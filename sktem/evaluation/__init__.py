"""Measuring fitted models: likelihoods, exact sums, residuals, predictive checks.

The public names are imported on first use, so that names without compiled code do
not load it.
"""

from sktem.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
