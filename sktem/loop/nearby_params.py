"""Parameters that differ from given ones in a single entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

__all__ = ["neighbours"]


def neighbours(params: Any, constrained) -> Iterator[tuple[str, Any]]:
    """Move the entries of parameters one at a time.

    Parameters
    ----------
    params : object
        A named tuple, a dataclass, an array or a number. Others have no neighbours.
    constrained : tuple of str
        Fields of a named tuple or dataclass that are left alone.

    Yields
    ------
    what : str
        Which entry is moved, and by how much.
    params : object
        Parameters of which one entry is moved.
    """
    names = getattr(params, "_fields", None)
    replaced: Any = None
    if names is not None:
        replaced = params._replace
    elif is_dataclass(params) and not isinstance(params, type):
        names = [field.name for field in fields(params) if field.init]
        replaced = partial(replace, params)
    if names is not None:
        named = {n: getattr(params, n) for n in names if n not in constrained}
    elif isinstance(params, (float, np.ndarray)):
        named = {"params": params}

        def replaced(params):
            return params
    else:
        return
    for name, value in named.items():
        if not isinstance(value, (float, np.ndarray)) or np.size(value) == 0:
            continue
        value = np.asarray(value)
        if value.dtype.kind != "f":
            continue
        for place in list(np.ndindex(value.shape))[:50]:
            for size in (-1e-2, -1e-3, 1e-3, 1e-2):
                moved = value.copy()
                moved[place] += size * (np.abs(value).max() or 1.0)
                new = float(moved) if value.ndim == 0 else moved
                yield f"with {name} moved by {size:.1%}", replaced(**{name: new})
