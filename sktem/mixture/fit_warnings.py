"""What a fit of a mixture says about components that cannot be trusted."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.emissions.categorical import LEAST_PROBABILITY, Categorical
from sktem.emissions.columns import Columns
from sktem.emissions.spread import doubt_of_covariances, listed
from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.exceptions import FitWarning

__all__ = ["warn_of_components"]


class Scarcity(NamedTuple):
    """When components have too few rows for the labels of a column.

    Attributes
    ----------
    labels : int
        Columns with more labels are looked at.
    rows : float
        Rows of a component for each label, at least.
    """

    labels: int = 10
    rows: float = 5.0


SCARCITY = Scarcity()


def warn_of_components(model, state, X, sample_weight) -> bool:
    """Warn of covariances that are mostly ``reg_covar``, and of lacking rows.

    Returns whether enough has been said, or a prior makes up for few rows.
    """
    weights = state.params.weights
    is_repaired = bool(event_message("", state.history.events))
    rows = partial(effective_rows, model, state.params, X, sample_weight)
    spreads = model.spreads(state.params)
    for spread in spreads:
        message = doubt_of_covariances(spread, weights, rows, "Component", is_repaired)
        if message:
            warn_user(message, FitWarning)
            return True
    if message := _scarce_labels(model, state.params, rows):
        warn_user(message, FitWarning)
        return True
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


def _scarce_labels(model, params, rows):
    """Return why probabilities of labels cannot be trusted, or None."""
    emission, block = (
        getattr(model, "emission", None),
        getattr(params, "emission", None),
    )
    blocks: list[tuple] = [(emission, None, block)]
    if isinstance(emission, Columns):
        blocks = list(emission.parts(params.emission))
    for law, columns, block in blocks:
        if not isinstance(law, Categorical):
            continue
        known = block.probabilities.max(axis=0) > LEAST_PROBABILITY
        unmet = (block.probabilities <= LEAST_PROBABILITY) & known
        counts = known.sum(axis=1)
        few = rows()[:, None] < SCARCITY.rows * counts
        states, places = np.nonzero(
            unmet.any(axis=2) & few & (counts > SCARCITY.labels)
        )
        if len(states):
            named = places if columns is None else np.asarray(columns)[places]
            states, named = listed(np.unique(states)), listed(np.unique(named))
            return (
                f"Component(s) {states} have fewer than {SCARCITY.rows:g} rows for "
                f"each of the {counts[places[0]]} labels of column(s) {named}, and "
                "take those that none of their rows has for impossible: new rows "
                "can have very low likelihoods. Leave the columns out, join rare "
                "labels, or take Categorical(smoothing=0.01)."
            )
    return None


def effective_rows(model, params, X, sample_weight):
    """Return how many rows each component has: few, where few have all the weight.

    Of weights it is ``sum(w r)^2 / sum(w^2 r)`` (Kish 1965), r being the posterior
    probabilities of the component.
    """
    if sample_weight is None:
        return len(X) * params.weights
    weights = sample_weight / sample_weight.max()
    squares = weights**2
    s, _ = model.expected_statistics(X, params, squares)
    mass = np.maximum(s[: model.n_components], 0.0) * squares.sum()
    totals = weights.sum() * params.weights
    return np.divide(totals**2, mass, out=np.zeros_like(mass), where=mass > 0)
