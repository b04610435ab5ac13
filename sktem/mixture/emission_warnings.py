"""What a fit of a mixture of any emission says about its components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.columns import Columns
from sktem.emissions.gaussian import Gaussian
from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.exceptions import FitWarning
from sktem.mixture.fit_warnings import flat_directions, warn_of_flat_directions

__all__ = ["warn_of_components"]


def warn_of_components(emission, state) -> None:
    """Warn of components that have ended with less than one row, or flat."""
    if event_message("", state.history.events):
        return  # what was repaired has been told
    weights, own = state.params
    empty = np.flatnonzero(weights * state.n_rows < 1)
    if len(empty):
        warn_user(
            f"Component(s) {', '.join(map(str, empty[:5]))} have less than one row: "
            "take fewer components, another start, or weight_concentration above 0.",
            FitWarning,
        )
        return
    for one, columns, params in _blocks(emission, own):
        if not isinstance(one, Gaussian) or one.reg_covar == 0:
            continue
        structure = one.structure(*params.means.shape)
        if structure.known:
            continue
        moments = _Moments(weights, params.means, params.covariances)
        if places := flat_directions(one.reg_covar, structure, moments):
            components, flat = places
            warn_of_flat_directions(
                one.reg_covar, components, sorted(columns[flat].tolist())
            )


class _Moments(NamedTuple):
    """What is looked at of Gaussian components."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def _blocks(emission, params):
    """Yield the emissions of blocks of columns, these and their parameters."""
    if not isinstance(emission, Columns):
        width = params.means.shape[1] if isinstance(emission, Gaussian) else 0
        yield emission, np.arange(width), params
        return
    parts = zip(emission.emissions, params.columns, params.blocks, strict=True)
    for (_, one, _), columns, block in parts:
        yield one, np.asarray(columns), block
