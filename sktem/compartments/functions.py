"""Right-hand sides as addresses, so that integrators are compiled once."""

from __future__ import annotations

from dis import get_instructions
from functools import cache
from inspect import getclosurevars
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

__all__ = [
    "RightHandSide",
    "address_of",
    "check_values",
    "compilable",
    "compiled_rhs",
    "outside_of",
]


class RightHandSide(NamedTuple):
    """A compiled right-hand side, and its address for compiled code.

    Attributes
    ----------
    address : int
        Where it is.
    dispatcher : object
        The compiled function; the address is valid as long as it lives.
    """

    address: int
    dispatcher: Any


def _is_compiled(function) -> bool:
    """Return whether a function has been compiled by numba."""
    return hasattr(function, "py_func")


def compilable(function):
    """Return a function for numba, None for one that may not be the same there.

    Values from outside could change later, and what is raised would be lost.
    """
    from numba import njit

    if _is_compiled(function):
        return function
    if not isinstance(function, FunctionType) or outside_of(function):
        return None
    if any(one.opname == "RAISE_VARARGS" for one in get_instructions(function)):
        return None
    return njit(function, error_model="numpy")


def outside_of(function) -> list[str]:
    """Return names of values from outside that are no modules or compiled functions."""
    # To getclosurevars the name of an attribute is that of a global too.
    code = get_instructions(function)
    names = {one.argval for one in code if one.opname == "LOAD_GLOBAL"}
    outside = getclosurevars(function)
    values = {k: value for k, value in outside.globals.items() if k in names}
    values |= outside.nonlocals
    return [
        name
        for name, one in values.items()
        if not (isinstance(one, ModuleType) or _is_compiled(one))
    ]


def check_values(function, p, n_states) -> None:
    """Raise an error if a right-hand side has another number of values than states."""
    import numpy as np

    plain = getattr(function, "py_func", function)
    try:
        with np.errstate(all="ignore"):
            values = np.ravel(plain(0.0, np.zeros(n_states), p))
    except (ArithmeticError, TypeError, ValueError):
        return  # nothing is known of it at zero
    if len(values) != n_states:
        raise ValueError(
            f"rhs must return {n_states} derivatives, one for each of n_states, got "
            f"{len(values)}"
        )


@cache
def address_of(dispatcher) -> RightHandSide:
    """Return the address of a compiled ``f(t, amounts, psi, result)``.

    Its arguments are arrays as C passes them. Code that takes the address is compiled
    once for all functions, and kept.
    """
    from numba import types

    array = types.CPointer(types.float64)
    signature = types.void(types.float64, array, array, array)
    if signature.args not in dispatcher.overloads:
        dispatcher.compile(signature)
    result = dispatcher.overloads[signature.args]

    name = result.fndesc.llvm_func_name
    address = result.library.get_pointer_to_function(name)
    return RightHandSide(address, dispatcher)


def compiled_rhs(function, record, n_states) -> RightHandSide:
    """Return a user's compiled ``rhs(t, A, p)`` as an address.

    ``record`` is the class of named tuples that p is.
    """
    from numba import carray, njit

    from sktem.kernels.borrowed import fields

    def write(t, amounts, psi, result):
        values = function(t, carray(amounts, (n_states,)), fields(psi, record))
        for j in range(n_states):
            result[j] = values[j]

    return address_of(njit(write))
