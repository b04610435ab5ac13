"""The E-step: the public path of :mod:`sktem.e_step.expectation`."""

from sktem.e_step.expectation import Batch, Expectation

__all__ = ["Batch", "Expectation"]
