"""Public names that are imported on first use, of a stub that type checkers read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["lazy", "names_of_stub"]


def names_of_stub(file: str) -> dict[str, str]:
    """Return the names that the stub of a file imports, with their modules.

    Parameters
    ----------
    file : str
        A module with a stub, in which each name is imported as itself.

    Returns
    -------
    dict
        Modules in which the names lie, by name.
    """
    with open(os.path.splitext(file)[0] + ".pyi", encoding="utf-8") as stub:
        imports = re.findall(r"^from (\S+) import (\([^)]*\)|.*)", stub.read(), re.M)
    return {
        name: module
        for module, names in imports
        for name in re.findall(r"as (\w+)", names)
    }


def lazy(
    module: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a module with lazy names.

    Parameters
    ----------
    module : str
        Name of the module.
    file : str
        Its file, see :func:`names_of_stub`. A name that lies in the module itself is
        a module below it.

    Returns
    -------
    callable, callable, list of str
        The functions, and the names.
    """
    table = names_of_stub(file)

    def find(name: str) -> Any:
        if name in table:
            if table[name] == module:
                return import_module(f"{module}.{name}")
            return getattr(import_module(table[name]), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *table})

    return find, names, sorted(table)
