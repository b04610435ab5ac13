"""Checks that a model has the methods of a sampler and a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sktem.choices import check_choice
from sktem.samplers.base import Sampler

__all__ = [
    "check_compatible",
    "missing_methods",
    "check_implied_sampler",
    "resolve_part",
]


def missing_methods(model, sampler) -> list[str]:
    """Return the methods that a sampler needs and a model lacks."""
    return [
        name for name in sampler.requires if not callable(getattr(model, name, None))
    ]


def check_compatible(model, sampler) -> None:
    """Raise if the model lacks a method that the sampler needs."""
    missing = missing_methods(model, sampler)
    if missing:
        raise TypeError(
            f"{type(sampler).__name__} cannot sample {type(model).__name__}: it needs "
            f"the method(s) {', '.join(sampler.requires)} and the model lacks "
            f"{', '.join(missing)}"
        )


def check_implied_sampler(
    name: str, solver: str, implied: str, sampler, known: Mapping, solvers: dict
) -> None:
    """Raise where the sampler implied by a solver's name is missing or contradicted.

    ``name`` is that of the estimator, which has the ``known`` samplers.
    """
    means = f"solver={solver!r} means the sampler {implied!r}"
    if implied not in known:
        allowed = {None, *known}
        working = [name for name, part in solvers.items() if part[1] in allowed]
        raise ValueError(
            f"{means}, which {name} does not have. Solvers that work: {working}"
        )
    resolved = resolve_part(sampler, known, Sampler, "sampler")
    if resolved is not known[implied] and not isinstance(resolved, known[implied]):
        raise ValueError(f"{means}, got sampler={sampler!r}")


def resolve_part(part, known: Mapping[str, Any], base: type, name: str):
    """Look up a part given by name, or check an instance."""
    if isinstance(part, str):
        return known[check_choice(name, part, known)]
    if not isinstance(part, base):
        raise TypeError(
            f"{name} must be one of {sorted(known)} or an instance of "
            f"{base.__name__}, got {part!r}"
        )
    return part
