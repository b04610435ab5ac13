"""Checks of names and numbers that a user passes: messages list the known ones."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

__all__ = [
    "KnownParametersMixin",
    "check_choice",
    "check_folder",
    "check_names",
    "check_number",
    "did_you_mean",
    "is_auto",
]

#: Names that parameters have in other libraries.
ELSEWHERE = {
    "epochs": "max_iter",
    "k": "n_components",
    "learning_rate": "step_size",
    "lr": "step_size",
    "n_clusters": "n_components",
    "n_components": "hidden_layer_sizes",
    "n_epochs": "max_iter",
    "n_hidden": "hidden_layer_sizes",
    "n_iter": "max_iter",
    "seed": "random_state",
}


def is_auto(value) -> bool:
    """Return whether a parameter is left to the estimator: not an array, and "auto"."""
    return isinstance(value, str) and value == "auto"


def did_you_mean(value, known: Iterable) -> str:
    """Return a question after the closest known name, empty if there is none."""
    if not isinstance(value, str):
        return ""
    known = list(known)
    if ELSEWHERE.get(value, "") in known:
        return f"; did you mean {ELSEWHERE[value]!r}?"
    folded = {name.casefold(): name for name in known if isinstance(name, str)}
    close = difflib.get_close_matches(value.casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def check_choice(name: str, value, known: Collection[str], other: str = "") -> Any:
    """Return a value that is one of the known names.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        The value passed by the user.
    known : collection of str
        The names.
    other : str, default=""
        Other values that are allowed, such as " or a callable".

    Returns
    -------
    str
        The value.

    Raises
    ------
    ValueError
        If it is not known; the message lists the names and asks for the closest one.
    """
    if not isinstance(value, str) or value not in known:
        raise ValueError(
            f"{name} must be one of {sorted(known)}{other}, got {value!r}"
            f"{did_you_mean(value, known)}"
        )
    return value


def check_folder(name: str, value) -> str | None:
    """Return the path of a folder, which need not exist yet, or None."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be the path of a folder or None, got {value!r}")
    path = os.fspath(value)
    if os.path.exists(path) and not os.path.isdir(path):
        raise ValueError(f"{name} must be the path of a folder, {path!r} is a file")
    return path


def check_names(name: str, names: Iterable, known: Collection, what: str) -> None:
    """Raise if some given names are not known."""
    unknown = [value for value in names if value not in known]
    if unknown:
        raise ValueError(
            f"{name} has unknown {what} {unknown}, the known ones are {list(known)}"
            f"{did_you_mean(unknown[0], known)}"
        )


def check_number(name: str, value, kind: type, low: float, *, strict=False) -> None:
    """Raise if a value is not a finite number from a bound on.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        The value passed by the user.
    kind : {numbers.Integral, numbers.Real}
        The required type.
    low : float
        Least value.
    strict : bool, default=False
        Whether it must be above `low`.

    Raises
    ------
    ValueError
        If it is not; booleans are no numbers.
    """
    right = isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
    right = right and bool(np.isfinite(value))
    if not right or value < low or (strict and value == low):
        what = "an integer" if kind is Integral else "a number"
        raise ValueError(
            f"{name} must be {what} {'>' if strict else '>='} {low}, got {value!r}"
        )


class KnownParametersMixin(BaseEstimator):
    """Suggests a known name of a parameter for an unknown one."""

    #: Names of parameters that objects given as parameters have, with how to give them.
    _moved_parameters: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **kwargs):
        """Keep the signature of ``__init__``, where Sphinx would take ``__new__``'s."""
        super().__init_subclass__(**kwargs)
        signature = inspect.signature(cls.__init__)
        parameters = list(signature.parameters.values())[1:]
        cls.__signature__ = signature.replace(parameters=parameters)

    def __new__(cls, *args, **kwargs):
        """Check the names before ``__init__`` refuses them."""
        known = cls.__signature__.parameters
        if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            for name in kwargs:
                if name not in known and (advice := cls._advice(name, known)):
                    raise TypeError(f"{cls.__name__} has no parameter {name!r}{advice}")
        return super().__new__(cls)

    @classmethod
    def _advice(cls, name, known):
        """Return where an unknown parameter is, or a known name that is close to it."""
        if name in cls._moved_parameters:
            return f": give it as {cls._moved_parameters[name]}"
        return did_you_mean(name, known)

    def set_params(self, **params):
        """Set parameters as in scikit-learn; an error suggests a known name.

        Parameters
        ----------
        **params : dict
            Parameters by name, with those of parts as ``part__name``.

        Returns
        -------
        estimator instance
            The estimator.
        """
        known = self.get_params(deep=False)
        unknown = [name for name in params if name.partition("__")[0] not in known]
        try:
            return super().set_params(**params)
        except ValueError as error:
            advice = "".join(self._advice(name, known) for name in unknown[:1])
            if not advice:
                raise
            raise ValueError(f"{str(error).rstrip('.')}{advice}") from None
