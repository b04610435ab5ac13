"""The numbers in parameters: named, moved one at a time, and as a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ParamsVector", "float_fields", "neighbours"]


def float_fields(params: Any) -> tuple[dict[str, np.ndarray], Callable]:
    """Return the real-valued parts of parameters, and a function to replace them.

    Parameters
    ----------
    params : object
        A named tuple, a dataclass, a dict, an array or a number. Others have none.

    Returns
    -------
    dict of str to ndarray
        Parts by name.
    callable
        ``replaced(name=value)`` returns parameters with other parts.
    """
    names: Any = getattr(params, "_fields", None)
    replaced: Callable
    if names is not None:
        named, replaced = params._asdict(), params._replace
    elif is_dataclass(params) and not isinstance(params, type):
        named = {f.name: getattr(params, f.name) for f in fields(params) if f.init}
        replaced = partial(replace, params)
    elif isinstance(params, dict):
        named, replaced = params, partial(dict, params)
    else:
        named, replaced = {"params": params}, _itself
    arrays = {
        name: np.asarray(value)
        for name, value in named.items()
        if isinstance(value, (float, np.ndarray))
    }
    floats = {
        name: value
        for name, value in arrays.items()
        if value.dtype.kind == "f" and value.size
    }
    return floats, replaced


def _itself(params):
    return params


def neighbours(params: Any, constrained) -> Iterator[tuple[str, Any]]:
    """Move the entries of parameters one at a time.

    Parameters
    ----------
    params : object
        A named tuple, a dataclass, a dict, an array or a number. Others have no
        neighbours.
    constrained : tuple of str
        Fields that are left alone.

    Yields
    ------
    what : str
        Which entry is moved, and by how much.
    params : object
        Parameters of which one entry is moved.
    """
    named, replaced = float_fields(params)
    for name, value in named.items():
        if name in constrained:
            continue
        for place in list(np.ndindex(value.shape))[:50]:
            for size in (-1e-2, -1e-3, 1e-3, 1e-2):
                moved = value.copy()
                moved[place] += size * (np.abs(value).max() or 1.0)
                new = float(moved) if value.ndim == 0 else moved
                yield f"with {name} moved by {size:.1%}", replaced(**{name: new})


class ParamsVector(NamedTuple):
    """Free parameters as a vector.

    Attributes
    ----------
    values : ndarray of shape (p,)
        The vector at the parameters.
    params_of : callable
        Parameters of another vector.
    like_params : callable
        Numbers that belong to the entries of the vector, such as standard errors, as a
        user reads them.
    """

    values: np.ndarray
    params_of: Callable[[np.ndarray], Any]
    like_params: Callable[[np.ndarray], Any]

    @classmethod
    def of(cls, model, params) -> ParamsVector:
        """Return the vector that a model gives, or that of all real-valued entries."""
        if callable(getattr(model, "to_vector", None)):
            values = np.asarray(model.to_vector(params), dtype=float)
            return cls(values, partial(_by_model, model, params), np.asarray)
        named, replaced = float_fields(params)
        if not named:
            raise TypeError(
                f"parameters of {type(model).__name__} are a {type(params).__name__}, "
                "whose entries are not known: use a named tuple, a dataclass, a dict "
                "or an array, or give the model the methods to_vector(params) and "
                "from_vector(vector, params)"
            )
        shapes = {name: value.shape for name, value in named.items()}
        values = np.concatenate([value.ravel() for value in named.values()])
        others = partial(_filled, shapes, replaced)
        return cls(values.astype(float), others, others)


def _by_model(model, params, vector):
    return model.from_vector(vector, params)


def _filled(shapes, replaced, vector):
    """Return parameters whose real-valued entries are those of a vector."""
    new, start = {}, 0
    for name, shape in shapes.items():
        stop = start + int(np.prod(shape))
        part = np.array(vector[start:stop]).reshape(shape)
        new[name], start = part if shape else float(part), stop
    return replaced(**new)
