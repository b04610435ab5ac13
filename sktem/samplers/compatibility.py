"""Checks that a model offers what a sampler and a solver need."""

from __future__ import annotations

from sktem.choices import check_choice

__all__ = ["check_compatible", "missing_methods", "resolve_part"]


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
