"""Compiled functions that others call by their address.

A function that is called by its name is compiled into each of its callers once more;
one that is called by its address costs a tenth of a microsecond a call.
"""

import numpy as np
from numba import njit, typeof, types

from sktem.kernels.options import OUTER

__all__ = ["FLAT", "NUMBER", "STEP", "TABLE", "by_address", "call", "for_types_of"]

#: Options of such functions. Python does not call them, but for some.
STEP = {"cache": True, "nogil": True, "no_cpython_wrapper": True}

#: Types of arguments: a flat array, a table along three axes, and a place in an array.
FLAT, TABLE, NUMBER = types.float64[::1], types.float64[:, :, ::1], types.uint64

#: What `for_types_of` has made.
_MADE: dict = {}


def for_types_of(make, grid, *records):
    """Return ``make(grid, *records)``, made once for all that have the same types.

    Types are those of others but for a flow and arrays that must not be written. numba
    goes through all fields to find them, which takes longer than to move an image.
    """
    fields = (field for record in (grid, *records) for field in record)
    arrays = (field for field in fields if isinstance(field, np.ndarray))
    key = make, len(grid.flow), *(array.flags.writeable for array in arrays)
    if key not in _MADE:
        _MADE[key] = make(grid, *records)
    return _MADE[key]


def by_address(function, *kinds):
    """Return a function, compiled for arguments of some types, as an argument."""
    function.compile(kinds)
    address = types.CompileResultWAP(function.overloads[kinds])
    # Else it is derived anew in every call.
    address._numba_type_ = typeof(address)
    return address


@njit(**OUTER)
def call(function, grid, work, flow):
    """Call a function that Python cannot call."""
    function(grid, work, flow)
