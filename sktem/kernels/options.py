"""Options of compiled functions, which are compiled at their first call.

Every function would get a second one that takes Python's objects and a third one for
callers in C. For a function with many arguments these take longer to compile than the
function itself.
"""

__all__ = ["INNER", "OUTER"]

#: Functions that Python calls.
OUTER = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}

#: Functions that only compiled functions call. Python that calls them crashes.
INNER = {**OUTER, "no_cpython_wrapper": True}
