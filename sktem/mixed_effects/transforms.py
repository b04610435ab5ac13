"""Transforms between individual parameters and the scale on which they are Gaussian."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

__all__ = ["TRANSFORMS", "Transform"]


class Transform(NamedTuple):
    """A monotone map ``psi = forward(phi)``.

    Attributes
    ----------
    code : int
        Code by which the compiled functions identify it.
    forward, inverse, derivative : callable
        The map, its inverse, and d psi / d phi as a function of phi.
    support : tuple of float
        Open interval of psi.
    """

    code: int
    forward: Callable
    inverse: Callable
    derivative: Callable
    support: tuple[float, float]


def _normal_density(phi):
    return np.exp(-0.5 * phi**2) / np.sqrt(2 * np.pi)


#: Transforms by name.
TRANSFORMS = {
    "normal": Transform(0, lambda v: v, lambda v: v, np.ones_like, (-np.inf, np.inf)),
    "log-normal": Transform(1, np.exp, np.log, np.exp, (0.0, np.inf)),
    "logit": Transform(
        2, expit, logit, lambda v: expit(v) * (1 - expit(v)), (0.0, 1.0)
    ),
    "probit": Transform(3, ndtr, ndtri, _normal_density, (0.0, 1.0)),
}
