"""Transforms between individual parameters and the scale on which they are Gaussian."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from sktem.choices import check_choice

__all__ = ["TRANSFORMS", "Transform", "check_transform", "is_box"]


class Transform(NamedTuple):
    """A monotone map ``psi = forward(phi)``.

    Attributes
    ----------
    code : int or None
        Code by which the compiled functions identify it, if they know it.
    forward, inverse, derivative : callable
        The map, its inverse, and d psi / d phi as a function of phi.
    support : tuple of float
        Open interval of psi.
    """

    code: int | None
    forward: Callable
    inverse: Callable
    derivative: Callable
    support: tuple[float, float]

    @property
    def is_plain(self) -> bool:
        """Whether a parameter is its own transform."""
        return self.derivative is np.ones_like


def _normal_density(phi):
    return np.exp(-0.5 * phi**2) / np.sqrt(2 * np.pi)


class _Transforms(dict):
    """Transforms by name, or by kind and bounds, which are made on request."""

    def __missing__(self, key):
        """Return a transform onto an interval, ``(kind, low, high)``."""
        kind, low, high = key
        if kind == "box":
            return Transform(
                None,
                lambda phi: np.clip(phi, low, high),
                lambda psi: psi,
                np.ones_like,
                (low, high),
            )
        base, width = self[kind], high - low
        return Transform(
            None,
            lambda phi: low + width * base.forward(phi),
            lambda psi: base.inverse((psi - low) / width),
            lambda phi: width * base.derivative(phi),
            (low, high),
        )


def is_box(kind) -> bool:
    """Return whether a parameter is its own transform, within bounds."""
    return isinstance(kind, tuple) and kind[0] == "box"


def check_transform(entry) -> None:
    """Raise an error unless this is a name, or a kind of two bounds.

    Parameters
    ----------
    entry : str or tuple
        The transform.
    """
    if not isinstance(entry, tuple):
        check_choice("transforms", entry, TRANSFORMS)
        return
    numbers = entry[1:]
    whole = len(entry) == 3 and all(
        isinstance(value, Real) and (np.isfinite(float(value)) or is_box(entry))
        for value in numbers
    )
    known = ("logit", "probit", "box")
    if not whole or entry[0] not in known or not numbers[0] < numbers[1]:
        raise ValueError(
            "a transform with bounds must be (kind, low, high) with the kind "
            f'"logit", "probit" or "box", such as ("logit", 0.5, 2.0), got {entry!r}'
        )


#: Transforms by name.
TRANSFORMS: dict = _Transforms(
    {
        "normal": Transform(
            0, lambda v: v, lambda v: v, np.ones_like, (-np.inf, np.inf)
        ),
        "log-normal": Transform(1, np.exp, np.log, np.exp, (0.0, np.inf)),
        "logit": Transform(
            2, expit, logit, lambda v: expit(v) * (1 - expit(v)), (0.0, 1.0)
        ),
        "probit": Transform(3, ndtr, ndtri, _normal_density, (0.0, 1.0)),
    }
)
