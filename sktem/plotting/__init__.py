"""Displays in scikit-learn's manner; they need matplotlib when they draw, not before.

The public names are imported on first use.
"""

from sktem.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
