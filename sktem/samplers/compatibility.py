"""Checks that a model offers what a sampler and a solver need."""

from __future__ import annotations

from sktem.choices import check_choice
from sktem.samplers.base import Sampler

__all__ = [
    "check_compatible",
    "missing_methods",
    "check_implied_sampler",
    "resolve_part",
]


def missing_methods(model, sampler) -> list[str]:
    """Return the methods that a sampler needs and a model lacks.

    Parameters
    ----------
    model : LatentModel
        The model.
    sampler : Sampler
        The sampler.

    Returns
    -------
    list of str
        Their names.
    """
    return [
        name for name in sampler.requires if not callable(getattr(model, name, None))
    ]


def check_compatible(model, sampler) -> None:
    """Raise if the model lacks a method that the sampler needs.

    Parameters
    ----------
    model : LatentModel
        The model.
    sampler : Sampler
        The sampler.

    Raises
    ------
    TypeError
        Naming both parts and what is missing.
    """
    missing = missing_methods(model, sampler)
    if missing:
        raise TypeError(
            f"{type(sampler).__name__} cannot sample {type(model).__name__}: it needs "
            f"the method(s) {', '.join(sampler.requires)} and the model lacks "
            f"{', '.join(missing)}"
        )


def check_implied_sampler(estimator, implied: str, sampler, solvers: dict) -> None:
    """Raise where the sampler that the name of a solver means cannot be taken.

    Parameters
    ----------
    estimator : LoopEstimator
        The estimator.
    implied : str
        Name of the sampler that the solver means.
    sampler : str or Sampler
        What the user asks for.
    solvers : dict
        Solvers by name, each a class, the name of its sampler or None, and a step.

    Raises
    ------
    ValueError
        If the estimator lacks it, naming the solvers that work, or if the user asks for
        another one.
    """
    known = estimator._samplers
    means = f"solver={estimator.solver!r} means the sampler {implied!r}"
    if implied not in known:
        allowed = {None, *known}
        working = [name for name, part in solvers.items() if part[1] in allowed]
        raise ValueError(
            f"{means}, which {type(estimator).__name__} does not have. Solvers that "
            f"work: {working}"
        )
    found = resolve_part(sampler, known, Sampler, "sampler")
    if found is not known[implied] and not isinstance(found, known[implied]):
        raise ValueError(f"{means}, got sampler={estimator.sampler!r}")


def resolve_part(part, known: dict, base: type, name: str):
    """Look up a part given by name, or check an instance.

    Parameters
    ----------
    part : str or object
        What the user passed.
    known : dict
        Parts by name.
    base : type
        Class that an instance must have.
    name : str
        Name of the parameter.

    Returns
    -------
    object
        The entry of ``known``, or the instance.

    Raises
    ------
    ValueError
        For an unknown name; the message lists the known ones.
    TypeError
        For anything else.
    """
    if isinstance(part, str):
        return known[check_choice(name, part, known)]
    if not isinstance(part, base):
        raise TypeError(
            f"{name} must be one of {sorted(known)} or an instance of "
            f"{base.__name__}, got {part!r}"
        )
    return part
