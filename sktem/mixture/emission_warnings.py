"""What a fit of a mixture of any emission says about its components."""

from __future__ import annotations

import numpy as np

from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.exceptions import FitWarning

__all__ = ["warn_of_components"]


def warn_of_components(state) -> None:
    """Warn of components that have ended with less than one row."""
    if event_message("", state.history.events):
        return  # what was repaired has been told
    empty = np.flatnonzero(state.params.weights * state.n_rows < 1)
    if len(empty):
        warn_user(
            f"Component(s) {', '.join(map(str, empty[:5]))} have less than one row: "
            "take fewer components, another start, or weight_concentration above 0.",
            FitWarning,
        )
