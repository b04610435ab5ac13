"""Compartment models of pharmacometrics: from event records to amounts.

The public names are imported on first use.
"""

from sktem.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
