"""Messages on a finished fit that needs a second look."""

from __future__ import annotations

import numpy as np

__all__ = ["unusual"]


def unusual(model, rows, state):
    """Return messages on data and estimates that ask for a second look."""
    design, params = model.design, state.params
    random = [design.names[p] for p in design.random]
    messages = []
    free = [random[j] for j in design.free_variances]
    error_is_free = model.closed_residual is not None or any(
        entry.kind == "residual" for entry in design.numeric
    )
    if free and len(rows) == 1:
        messages.append(
            f"There is one subject: the variances of {free} cannot be learned from it. "
            "Check groups, or pass omega=[]."
        )
    elif free and error_is_free and rows.lengths.max() == 1:
        messages.append(
            f"Each subject has one row: the variances of {free} and the residual error "
            "cannot be separated. Check groups, or pass omega=[]."
        )
    bound = [random[j] for j in np.flatnonzero(model.at_floor(params))]
    if bound:
        messages.append(
            f"The variances of the random effects of {bound} are at their lower bound: "
            "the data do not ask for them. Leave them out of omega, or take estimates "
            "and standard errors of the others as conditional on that."
        )
    closed = model.closed_residual
    if closed is not None and params.sigma[closed] ** 2 <= 1.001 * model.residual_floor:
        messages.append(
            "The residual error is at its lower bound: the model passes through all "
            "observations, and the likelihood has no maximum."
        )
    if count := state.history.events.get("infeasible", 0):
        messages.append(
            f"{count} steps of the variance reduction led to statistics that no data "
            'have and were replaced (history_.events["infeasible"]). A smaller '
            "step_size or a larger batch_size may help."
        )
    return messages
