"""Compiled functions that others call by their address.

A function that is called by its name is compiled into each of its callers once more;
one that is called by its address costs a tenth of a microsecond a call.
"""

from functools import lru_cache

from numba import typeof, types

__all__ = ["FLAT", "NUMBER", "TABLE", "by_address"]

#: Types of arguments: a flat array, a table along three axes, and a place in an array.
FLAT, TABLE, NUMBER = types.float64[::1], types.float64[:, :, ::1], types.uint64


@lru_cache
def by_address(function, *kinds):
    """Return a function, compiled for arguments of some types, as an argument."""
    function.compile(kinds)
    address = types.CompileResultWAP(function.overloads[kinds])
    # Else it is derived anew in every call.
    address._numba_type_ = typeof(address)
    return address
