"""Stochastic EM for latent-variable models, with scikit-learn's conventions.

The public names are imported on first use, so that ``import sktem`` is cheap.
"""

from sktem.lazy import lazy

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
