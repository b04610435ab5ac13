"""Labels that no row of a state has, where the state has too few rows to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sktem.emissions.spread import listed

__all__ = ["LabelShares", "Scarcity", "doubt_of_labels"]


class Scarcity(NamedTuple):
    """When states have too few rows for the labels of a column.

    Attributes
    ----------
    labels : int
        Columns with more labels are looked at.
    rows : float
        Rows of a state for each label, at least.
    """

    labels: int = 10
    rows: float = 5.0


SCARCITY = Scarcity()


class LabelShares(NamedTuple):
    """Probabilities of the labels of columns.

    Attributes
    ----------
    columns : ndarray of int of shape (d,)
        The columns.
    probabilities : ndarray of shape (K, d, L)
        By state, column and label.
    least : float
        What labels have that no row of a state has.
    """

    columns: np.ndarray
    probabilities: np.ndarray
    least: float


def doubt_of_labels(
    shares: LabelShares,
    rows: Callable[[], np.ndarray],
    label: str,
    rule: Scarcity = SCARCITY,
) -> str | None:
    """Return why probabilities of labels cannot be trusted, or None.

    Parameters
    ----------
    shares : LabelShares
        The probabilities.
    rows : callable
        Returns the rows of each state.
    label : str
        Name of a state.
    rule : Scarcity, default=SCARCITY
        When rows are too few.
    """
    known = shares.probabilities.max(axis=0) > shares.least
    unmet = ((shares.probabilities <= shares.least) & known).any(axis=2)
    counts = known.sum(axis=1)
    doubtful = unmet & (counts > rule.labels)
    if not doubtful.any():
        return None
    doubtful &= rows()[:, None] < rule.rows * counts
    states, places = np.nonzero(doubtful)
    if not len(states):
        return None
    doubted, named = np.unique(states), listed(np.unique(shares.columns[places]))
    return (
        f"{label}(s) {listed(doubted)} have fewer than {rule.rows:g} rows for each of "
        f"the {counts[places[0]]} labels of column(s) {named}, and take those that "
        "none of their rows has for impossible: new rows can have very low "
        "likelihoods. Leave the columns out, join rare labels, or take "
        "Categorical(smoothing=0.01)."
    )
