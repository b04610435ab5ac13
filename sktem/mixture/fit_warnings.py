"""Warnings of fits of mixtures about components that cannot be trusted."""

from __future__ import annotations

from functools import partial

import numpy as np

from sktem.emissions.scarcity import doubt_of_labels
from sktem.emissions.spread import doubt_of_covariances
from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.exceptions import FitWarning
from sktem.mixture.given import some_rows
from sktem.rows.held import carrier_of

__all__ = ["doubt_of_components", "warn_of_components"]


def warn_of_components(model, state, X, sample_weight) -> bool:
    """Warn of covariances that are mostly ``reg_covar``, and of lacking rows.

    Returns whether enough has been said, or a prior makes up for few rows.
    """
    weights = state.params.weights
    is_repaired = bool(event_message("", state.history.events))
    if doubt := doubt_of_components(model, state.params, X, sample_weight, is_repaired):
        warn_user(doubt, FitWarning)
        return True
    spreads = model.spreads(state.params)
    if is_repaired or any(spread.has_prior for spread in spreads):
        return True
    empty = np.flatnonzero(weights * len(X) < 1)
    if len(empty):
        warn_user(
            f"Component(s) {', '.join(map(str, empty[:5]))} have less than one row: "
            "take fewer components, another start, or weight_concentration above 0.",
            FitWarning,
        )
    return bool(len(empty))


def doubt_of_components(
    model, params, X, sample_weight, is_repaired=False
) -> str | None:
    """Return why covariances or labels of components cannot be trusted, or None."""
    rows = partial(effective_rows, model, params, X, sample_weight)
    sample = partial(some_rows, X)
    for spread in model.spreads(params):
        if doubt := doubt_of_covariances(
            spread, params.weights, rows, sample, "Component", is_repaired
        ):
            return doubt
    return doubt_of_labels(model.label_shares(params), rows, "Component")


def effective_rows(model, params, X, sample_weight):
    """Return how many rows each component has: few, where few have all the weight.

    Of weights it is ``sum(w r)^2 / sum(w^2 r)`` (Kish 1965), r being the posterior
    probabilities of the component.
    """
    if sample_weight is None:
        return len(X) * params.weights
    weights = sample_weight / sample_weight.max()
    squares = weights**2
    masses = partial(_masses, model=model, params=params)
    mass = np.maximum(carrier_of(X).summed(masses, squares)[0], 0.0)
    totals = weights.sum() * params.weights
    return np.divide(totals**2, mass, out=np.zeros_like(mass), where=mass > 0)


def _masses(X, *, weights, model, params):
    """Return the weight of each component in a block of rows."""
    s, _ = model.expected_statistics(X, params, weights)
    return (s[: model.n_components] * weights.sum(),)
