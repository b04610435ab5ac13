"""Labels that no row of a state has, where there are too few rows to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sktem.emissions.wording import AboutColumns, listed

__all__ = ["LabelShares", "Scarcity", "counted_shares", "doubt_of_labels"]


class Scarcity(NamedTuple):
    """Thresholds for labels that a state may lack by chance.

    Attributes
    ----------
    met : float
        Rows of a state with a label, below which none has it.
    loss : float
        What a label that no row of a state has costs the mean log-likelihood of new
        rows, times the number of rows: a probability of half a row, and about 20 nats.
    most : float
        Nats that new rows may lose so, on average: some lose twice as much.
    parameters : float
        Free probabilities for each row, at least: with fewer, the rows are enough.
    distinct : float
        Labels of a column for each of its rows, above which it is an identifier.
    """

    met: float = 1e-3
    loss: float = 9.0
    most: float = 0.35
    parameters: float = 0.25
    distinct: float = 0.5


SCARCITY = Scarcity()


class LabelShares(NamedTuple):
    """Probabilities of the labels of columns.

    Attributes
    ----------
    columns : ndarray of int of shape (d,)
        The columns.
    probabilities : ndarray of shape (K, d, L)
        By state, column and label.
    kind : str, default="labels"
        What the labels are.
    """

    columns: np.ndarray
    probabilities: np.ndarray
    kind: str = "labels"


def counted_shares(some):
    """Return shares of any count, and of counts above zero, which are given, (K, d)."""
    both = np.stack([np.ones_like(some), some], axis=2)
    return LabelShares(np.arange(some.shape[1]), both, "counts above zero")


def doubt_of_labels(
    blocks: Sequence[LabelShares],
    rows: Callable[[], np.ndarray],
    label: str,
    rule: Scarcity = SCARCITY,
) -> AboutColumns | None:
    """Return why probabilities of labels cannot be trusted, or None.

    Parameters
    ----------
    blocks : sequence of LabelShares
        The probabilities.
    rows : callable
        Returns the rows of each state.
    label : str
        Name of a state.
    rule : Scarcity, default=SCARCITY
        When rows are too few.
    """
    if not blocks:
        return None
    each = rows()
    total, parameters, count = each.sum(), 0, 0
    by_kind: dict[str, tuple[list, list]] = {}
    for block in blocks:
        mass = each[:, None, None] * block.probabilities
        known = mass.sum(axis=0) >= rule.met
        n_labels = known.sum(axis=1)
        unique = n_labels > rule.distinct * mass.sum(axis=(0, 2))
        if block.kind == "labels" and unique.any():
            return AboutColumns(
                "Column(s) {columns} have a label of their own in most rows, as "
                "identifiers do: they say nothing about new rows, and "
                f"{label.lower()}s can follow them. Leave them out.",
                block.columns[unique].tolist(),
            )
        parameters += len(each) * int(np.maximum(n_labels - 1, 0).sum())
        # What a user has excluded from a state is no chance.
        possible = block.probabilities > 0
        unmet, places, _ = np.nonzero((mass < rule.met) & known & possible)
        if len(unmet):
            states, columns = by_kind.setdefault(block.kind, ([], []))
            states.extend(unmet)
            columns.extend(block.columns[places])
            count += len(unmet)
    few = parameters > rule.parameters * total
    if not few or rule.loss * count <= rule.most * total:
        return None
    kind, (states, columns) = max(by_kind.items(), key=lambda item: len(item[1][0]))
    label = label.lower()
    advice = f"Take fewer {label}s"
    if kind == "labels":
        advice += (
            ", join rare labels, or take "
            f"Categorical(smoothing={1 / total:.1g}), a prior worth one row "
            "(or smoothing of Bernoulli)"
        )
    return AboutColumns(
        f"No row of {label}(s) {listed(np.unique(states))} has {kind} of column(s) "
        f"{{columns}} that other rows have: {count} probabilities of zero, for "
        f"{total:.0f} rows, and new rows that have them are all but impossible. "
        f"{advice}.",
        np.unique(columns).tolist(),
    )
