"""A small library of structural models, functions of parameters and inputs."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import NamedTuple

import numpy as np

from sktem.choices import check_choice
from sktem.compartments.models import CompartmentModel

__all__ = ["STRUCTURAL_MODELS", "NamedValues", "StructuralModel", "check_model"]


class NamedValues(dict):
    """Values by name, as keys and as attributes."""

    def __getattr__(self, name):
        """Return a value."""
        if name not in self:
            raise AttributeError(f"there are {list(self)}, and no {name!r}")
        return self[name]


class StructuralModel(NamedTuple):
    """A named model function with a compiled twin.

    Attributes
    ----------
    code : int
        Code by which the compiled functions identify it.
    parameters : tuple of str
        Names of the parameters, in the order of the compiled twin.
    inputs : tuple of str
        Names of the inputs, in the order of the columns of X.
    function : callable
        ``function(psi, x)`` with psi by name and x the columns of inputs, ``x[:, 0]``
        and so on.
    """

    code: int
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    function: Callable


def _absorption(dose, time, ka, V, CL):
    """Bateman function, with its limit where both rates agree."""
    k = CL / V
    difference = ka - k
    equal = np.abs(difference) < 1e-7 * k
    divisor = np.where(equal, 1.0, difference)
    ratio = (np.exp(-k * time) - np.exp(-ka * time)) / divisor
    ratio = np.where(equal, time * np.exp(-k * time), ratio)
    return dose * ka / V * ratio


def _linear(psi, x):
    return psi["intercept"] + psi["slope"] * x[:, 0]


def _oral(psi, x):
    return _absorption(x[:, 0], x[:, 1], psi["ka"], psi["V"], psi["CL"])


def _oral_lag(psi, x):
    time = x[:, 1] - psi["lag"]
    value = _absorption(x[:, 0], np.maximum(time, 0.0), psi["ka"], psi["V"], psi["CL"])
    return np.where(time > 0, value, 0.0)


def _bolus(psi, x):
    return x[:, 0] / psi["V"] * np.exp(-psi["CL"] / psi["V"] * x[:, 1])


def _bolus_two(psi, x):
    k10, k12 = psi["CL"] / psi["V1"], psi["Q"] / psi["V1"]
    k21 = psi["Q"] / psi["V2"]
    total = k10 + k12 + k21
    root = np.sqrt(np.maximum(total**2 - 4 * k10 * k21, 0.0))
    alpha = 0.5 * (total + root)
    beta = k10 * k21 / alpha
    time = x[:, 1]
    fast = (alpha - k21) * np.exp(-alpha * time)
    slow = (k21 - beta) * np.exp(-beta * time)
    return x[:, 0] / psi["V1"] * (fast + slow) / (alpha - beta)


def _emax(psi, x):
    return psi["E0"] + psi["Emax"] * x[:, 0] / (psi["EC50"] + x[:, 0])


def _logistic_growth(psi, x):
    return psi["A"] / (1.0 + np.exp(-(x[:, 0] - psi["t50"]) / psi["scale"]))


def _exponential_growth(psi, x):
    return psi["A"] * (1.0 - psi["B"] * np.exp(-psi["k"] * x[:, 0]))


#: Structural models by name. Pharmacokinetic ones take the dose and the time since it.
STRUCTURAL_MODELS = {
    "linear": StructuralModel(0, ("intercept", "slope"), ("x",), _linear),
    "one_compartment_oral": StructuralModel(
        1, ("ka", "V", "CL"), ("dose", "time"), _oral
    ),
    "one_compartment_oral_lag": StructuralModel(
        2, ("lag", "ka", "V", "CL"), ("dose", "time"), _oral_lag
    ),
    "one_compartment_iv": StructuralModel(3, ("V", "CL"), ("dose", "time"), _bolus),
    "two_compartment_iv": StructuralModel(
        4, ("CL", "V1", "Q", "V2"), ("dose", "time"), _bolus_two
    ),
    "emax": StructuralModel(5, ("E0", "Emax", "EC50"), ("dose",), _emax),
    "logistic_growth": StructuralModel(
        6, ("A", "t50", "scale"), ("time",), _logistic_growth
    ),
    "exponential_growth": StructuralModel(
        7, ("A", "B", "k"), ("time",), _exponential_growth
    ),
}


def check_model(model):
    """Raise an error unless it is a model."""
    others = ", a model of sktem.compartments or a callable"
    if isinstance(model, str):
        check_choice("model", model, STRUCTURAL_MODELS, others)
    elif isinstance(model, type):
        raise TypeError(f"model is a class: pass an instance, {model.__name__}(...)")
    elif not (model is None or callable(model) or isinstance(model, CompartmentModel)):
        raise TypeError(f"model must be a name or a callable, got {model!r}")
    elif callable(model) and not isinstance(model, CompartmentModel):
        _check_function(model)


def _check_function(model):
    """Raise TypeError for a function that cannot take parameters and inputs by name."""
    if hasattr(model, "py_func"):
        raise TypeError(
            "model is compiled by numba, which does not take parameters by name: pass "
            "the Python function, model.py_func"
        )
    try:
        signature(model).bind("psi", "X")
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        name = getattr(model, "__name__", "the function")
        raise TypeError(
            "model must be a function model(psi, X) of parameters and inputs, as in "
            f"psi.slope * X[:, 0], not {name}{signature(model)}: {error}"
        ) from None
