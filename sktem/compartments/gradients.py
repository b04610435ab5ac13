"""Derivatives of predictions by parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["gradient"]


class ShiftRule(NamedTuple):
    """Shifts of parameters for derivatives.

    Attributes
    ----------
    share : float
        Shift, as a share of the largest size of the parameter in a subject: the third
        root of rounding balances it with what differences leave out.
    of_zero : float
        Shift of a parameter that is zero.
    """

    share: float = 1e-5
    of_zero: float = 1e-5


#: The shifts of all derivatives.
SHIFTS = ShiftRule()


def gradient(model, records, parameters) -> dict[str, np.ndarray]:
    """Return derivatives of the predictions by each parameter.

    Each subject has copies whose parameters are shifted, integrated with the steps of
    one that is not: their difference has no noise of steps that change (internal
    numerical differentiation, Bock 1981).
    """
    names, n_subjects = list(parameters), records.n_subjects
    count = 1 + 2 * len(names)
    subjects = np.repeat(np.arange(n_subjects), count)
    copies = records.take(subjects)
    # Where the copies of each record are, and the record of each copy.
    subject = records.subject_of_record
    place = copies.offsets[:-1].reshape(n_subjects, count)[subject]
    place = place + (np.arange(len(records)) - records.offsets[subject])[:, None]
    source = np.empty(len(copies), dtype=np.int64)
    source[place] = np.arange(len(records))[:, None]
    values, shifts = {}, {}
    for j, (name, value) in enumerate(parameters.items()):
        value = np.asarray(value, dtype=float)
        by_record = value.shape not in {(), (n_subjects,)}
        size = np.abs(value)
        if by_record:
            size = np.maximum.reduceat(size, records.offsets[:-1])
        shift = np.where(size > 0, SHIFTS.share * size, SHIFTS.of_zero)
        shifts[name] = shift = np.broadcast_to(shift, n_subjects)
        direction = np.zeros(count)
        direction[1 + 2 * j], direction[2 + 2 * j] = 1.0, -1.0
        moved = np.outer(shift, direction)
        if by_record:
            values[name] = value[source] + moved.ravel()[copies.subject_of_record]
        else:
            values[name] = np.broadcast_to(value, n_subjects)[subjects] + moved.ravel()
    predictions = model.in_step(count)._predictions(copies, values)[place]
    here = predictions[:, 0]
    slopes = {}
    for j, name in enumerate(names):
        above, below = predictions[:, 1 + 2 * j], predictions[:, 2 + 2 * j]
        # On one side a parameter may be out of its range.
        up, down = np.isfinite(above), np.isfinite(below)
        change = np.where(up, above, here) - np.where(down, below, here)
        sides = np.where(up | down, up.astype(float) + down, np.nan)
        slopes[name] = change / (sides * shifts[name][subject])
    return slopes
