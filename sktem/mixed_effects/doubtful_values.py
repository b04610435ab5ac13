"""Messages on values of records that are probably mistaken."""

from __future__ import annotations

import numpy as np

from sktem.mixed_effects.endpoints import EndpointError
from sktem.mixed_effects.outcomes import EventOutcome
from sktem.mixed_effects.residual_errors import ProportionalError

__all__ = ["doubtful_values", "has_error", "unobserved"]


def doubtful_values(model, rows):
    """Return messages on records whose values are probably mistaken."""
    if rows.events is None or model.error is None:
        return []
    censored = np.zeros(len(rows.y)) if rows.censored is None else rows.censored
    messages = []
    has_events = has_error(model.error, rows, EventOutcome).any()
    if has_events and (late := rows.events.begun_late()):
        messages.append(
            f"Hazards are integrated from time 0, and subjects such as {late[:3]} have "
            "no record for longer than they were followed: count time from the "
            "beginning of the observation."
        )
    relative = has_error(model.error, rows, ProportionalError)
    if (relative & (censored == 1) & (rows.y <= 0)).any():
        messages.append(
            "CENS is 1 where DV is zero or less, which says nothing but that values "
            "are negative: DV has to be the limit of quantification there."
        )
    zero = (rows.y == 0) & (censored == 0)
    zeros = np.flatnonzero(rows.sums((~zero).astype(float)) == 0)
    zeros = zeros[rows.lengths[zeros] > 1]
    if len(zeros) and model.error.regresses and len(zeros) <= len(rows) / 8:
        labels = rows.events.records.labels[zeros].tolist()
        messages.append(
            f"All observations of the subjects {labels} are zero: if they are below a "
            "limit of quantification, set CENS to 1 and DV to the limit; if the dose "
            "was not taken, leave it out."
        )
    exact = relative & (rows.y <= 0) & (censored == 0)
    exact &= ~rows.events.records.undosed[rows.events.records.observed]
    if exact.any():
        messages.append(
            f"{exact.sum()} of {rows.n_rows} observations after a dose are zero or "
            "less, which is all of the prediction to a proportional error, and "
            "inflates it. If they are below a limit of quantification, set CENS to 1 "
            'and DV to the limit, or MDV to 1; else pass residual_error="combined".'
        )
    return messages


def has_error(error, rows, of_class):
    """Return which rows have an error of a class."""
    if not isinstance(error, EndpointError):
        return np.full(len(rows.y), isinstance(error, of_class))
    kinds = [k for k, e in error.errors.items() if isinstance(e, of_class)]
    return np.isin(rows.kinds, kinds)


def unobserved(problem) -> list[str]:
    """Return a message on subjects without observations, who are left out."""
    labels = problem.left_out
    if not labels:
        return []
    first = f"{len(labels)} subjects, such as" if len(labels) > 5 else "The subjects"
    return [f"{first} {list(labels[:5])} have no observations and are left out."]
