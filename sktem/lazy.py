"""Public names that are imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(
    module: str, table: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module with lazy names.

    Parameters
    ----------
    module : str
        Name of the module.
    table : mapping of str to str
        Modules in which the names lie; the module itself for one below it.

    Returns
    -------
    callable, callable
        The functions. Types are those of imports under ``if TYPE_CHECKING``.
    """

    def find(name: str) -> Any:
        if name in table:
            if table[name] == module:
                return import_module(f"{module}.{name}")
            return getattr(import_module(table[name]), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *table})

    return find, names
