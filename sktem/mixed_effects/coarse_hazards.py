"""Hazards that the nodes of their integrals do not follow."""

from __future__ import annotations

from copy import copy

import numpy as np

__all__ = ["coarse_hazards"]

#: Change of the log-likelihood with twice as many nodes from which they are too few, in
#: units of the root of the number of events and ends of intervals. It moves estimates
#: by about this share of their standard errors.
COARSE = 0.1


def coarse_hazards(fitted) -> list[str]:
    """Return a message on integrals of hazards that are far off, or none."""
    model, rows = fitted.model, fitted.rows
    if not getattr(model.structure, "hazards", None) or not rows.in_memory:
        return []
    finer = copy(model)
    finer.structure = copy(model.structure)
    finer.structure.n_nodes *= 2
    modes, numeric = fitted.modes()[0], fitted.params.numeric
    coarse, fine = (m.predict_rows(rows, modes, numeric) for m in (model, finer))
    differ = (coarse != fine) & (coarse > 0) & (fine > 0)  # a density may underflow
    change = np.abs(np.log(fine[differ] / coarse[differ])).sum()
    if not change > COARSE * np.sqrt(differ.sum()):
        return []
    return [
        f"{model.structure.n_nodes} nodes between two records are too few for the "
        f"hazards: with twice as many, logarithms of their densities change by "
        f"{change:.2g} in all. Pass a larger n_nodes to Responses, or add records with "
        "EVID 2 where hazards have kinks."
    ]
