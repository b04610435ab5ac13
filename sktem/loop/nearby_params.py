"""Parameters that differ from given ones in a single entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sktem.models.entries import float_fields

__all__ = ["neighbours"]


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
