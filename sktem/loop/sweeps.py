"""Which compiled sweep stands for many iterations of the loop."""

from __future__ import annotations

from importlib import import_module
from itertools import product

__all__ = ["SWEEPS", "find"]

#: Module and function of the sweep for (model, sampler, solver), each by the name that
#: the part states as its ``kernel``. A sweep is added by one line.
SWEEPS: dict[tuple[str, str, str], tuple[str, str]] = {
    (f"gaussian_mixture:{covariance_type}", sampler, solver): (
        "sktem.mixture.kernels.sweep",
        "sweep",
    )
    for covariance_type, sampler, solver in product(
        ("unit", "spherical", "diag"),
        ("exact", "mc"),
        ("isaem", "vrttem", "fittem", "online"),
    )
}


def find(model, sampler, solver):
    """Return the fused sweep for three parts, or None.

    Parameters
    ----------
    model, sampler, solver : object
        Parts; those with a sweep have an attribute ``kernel``. It counts only where
        the class of the part itself defines it: a subclass may do other things than
        its base, so that it has to say anew that the sweep stands for it.

    Returns
    -------
    callable or None
        ``sweep(loop, gammas, averaging)``, which does ``len(gammas)`` iterations with
        batches of one. It is imported on first use.
    """
    parts = (model, sampler, solver)
    key = tuple(part.kernel if "kernel" in vars(type(part)) else None for part in parts)
    if key not in SWEEPS:
        return None
    module, function = SWEEPS[key]
    return getattr(import_module(module), function)
