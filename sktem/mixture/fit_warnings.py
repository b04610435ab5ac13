"""Warnings of fits of mixtures about components that cannot be trusted."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.emissions.scarcity import doubt_of_labels
from sktem.emissions.spread import doubt_of_covariances
from sktem.emissions.wording import AboutColumns
from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.exceptions import FitWarning
from sktem.mixture.given import some_rows
from sktem.rows.held import carrier_of

__all__ = ["doubt_of_components", "warn_of_components", "warn_of_equal"]


class EqualComponents(NamedTuple):
    """Distance of components that are taken for equal.

    Attributes
    ----------
    distance : float
        Total variation of their distributions, of which two that EM has parted have .1
        and more even where they describe one cluster.
    """

    distance: float = 0.06


EQUAL = EqualComponents()


def warn_of_components(model, state, X, sample_weight, names=None) -> bool:
    """Warn of covariances that are mostly ``reg_covar``, and of lacking rows.

    Returns whether enough has been said, or a prior makes up for few rows.
    """
    weights = state.params.weights
    is_repaired = bool(event_message("", state.history.events))
    if doubt := doubt_of_components(model, state.params, X, sample_weight, is_repaired):
        warn_user(doubt.worded(names), FitWarning)
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


def warn_of_equal(model, params, X, rule: EqualComponents = EQUAL) -> None:
    """Warn of components that EM has not parted, as where they start equal."""
    filled = np.flatnonzero(params.weights * len(X) >= 1)
    if len(filled) < 2:
        return
    # Densities over that of the mixture.
    densities = model.posterior(some_rows(X), params)[:, filled]
    densities = densities / params.weights[filled]
    for place, first in enumerate(filled[:-1]):
        others = densities[:, place + 1 :]
        distances = 0.5 * np.abs(others - densities[:, [place]]).mean(axis=0)
        if distances.min() < rule.distance:
            second = filled[place + 1 + distances.argmin()]
            warn_user(
                f"Components {first} and {second} are equal, and the fit is that of "
                "fewer components. EM does not part components that start so, or "
                "nearly: take other starts, such as init_params='kmeans', n_init above "
                "1 or means_init that differ, or fewer components.",
                FitWarning,
            )
            return


def doubt_of_components(
    model, params, X, sample_weight, is_repaired=False
) -> AboutColumns | None:
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
