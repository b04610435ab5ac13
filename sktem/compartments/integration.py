"""Integrations by compiled steps, of copies of subjects in step."""

from __future__ import annotations

import numpy as np

__all__ = ["TIGHT", "integrated"]

#: Relative tolerance of copies that cannot be integrated in step: their steps differ,
#: and derivatives are differences of them.
TIGHT = 1e-11


def integrated(rhs, control, steps, values, psi, initial, n_subjects):
    """Return the amounts at the records.

    Copies of subjects have the steps of the first of them, as many as control says.
    Where these have other events, or steady states, which are searched for, each is
    integrated by itself, with a tolerance that leaves digits to differences.
    """
    from sktem.compartments.kernels import integrate

    amounts = np.empty((len(psi.of_record), control.n_states))
    for start, stop, in_step in _parts(steps, control.in_step, n_subjects):
        part = control._replace(in_step=in_step)
        if in_step < control.in_step:
            relative = min(control.relative, TIGHT)
            share = relative / control.relative
            part = part._replace(relative=relative, absolute=share * control.absolute)
        integrate.integrate(
            rhs.address, part, steps, values, psi.of_record, initial, start, stop,
            amounts,
        )  # fmt: skip
    return amounts


def _parts(steps, count, n_subjects):
    """Return ranges of subjects, and how many of each range are in step."""
    if count == 1:
        return [(0, n_subjects, 1)]
    is_alike = _alike(steps, count).reshape(-1, count).all(axis=1)
    cuts = 1 + np.flatnonzero(is_alike[1:] != is_alike[:-1])
    edges = np.r_[0, cuts, len(is_alike)]
    return [
        (count * a, count * b, count if is_alike[a] else 1)
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def _alike(steps, count):
    """Return which subjects have the events of the first of their copies."""
    from sktem.compartments.kernels.schedule import STEADY

    counts = np.diff(steps.offsets)
    leader = count * (np.arange(len(counts)) // count)
    owner = np.repeat(np.arange(len(counts)), counts)
    first = (steps.offsets[leader] - steps.offsets[:-1])[owner] + np.arange(len(owner))
    differ = counts != counts[leader]
    first = np.where(differ[owner], np.arange(len(owner)), first)
    action, elapsed = steps.action[: len(owner)], steps.elapsed[: len(owner)] > 0
    others = (
        (action != action[first]) | (elapsed != elapsed[first]) | (action == STEADY)
    )
    return ~(differ | (np.bincount(owner, others, len(counts)) > 0))
