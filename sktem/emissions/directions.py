"""Ways in which parameters can move freely, for scores and information."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Direction",
    "FreeRule",
    "elliptical_directions",
    "moved_fields",
    "positive_directions",
    "share_directions",
]


class FreeRule(NamedTuple):
    """Thresholds by which probabilities and rates count as free.

    Attributes
    ----------
    least : float
        Values below are at the bound of what they can be.
    small : float
        Smaller ones than this are on their way to it ...
    shrinks : float
        ... if a further M-step makes less than this share of them.
    inside : float
        Share of a bound within which values are at it.
    """

    least: float = 1e-8
    small: float = 1e-2
    shrinks: float = 0.99
    inside: float = 0.99


FREE = FreeRule()


class Direction(NamedTuple):
    """A way in which parameters can move.

    Attributes
    ----------
    name : str
        Field of the parameters.
    entries : tuple of (tuple of int, float)
        Entries of the field that move, with their signs.
    scale : float
        Size of a step.
    slot : hashable or None
        Label among those of one state, which move independently of other states; None
        of the parameters of a chain.
    state : int or None
        Whose log-densities change; None of all states.
    block : int or None
        Block of columns, where there are several.
    others : tuple of (str, tuple of int, float)
        Entries of any fields that move with these: fields, entries and factors.
    is_open : bool
        Whether no number of rows as these would say where it is.
    """

    name: str
    entries: tuple
    scale: float
    slot: Any = None
    state: int | None = None
    block: int | None = None
    others: tuple = ()
    is_open: bool = False

    @property
    def moving(self) -> list:
        """All entries that move: fields, entries and factors."""
        return [*((self.name, *entry) for entry in self.entries), *self.others]


def moved_fields(params, moves):
    """Return parameters moved along directions, each by a number of its scales."""
    arrays: dict[str, np.ndarray] = {}
    for direction, size in moves:
        for name, index, sign in direction.moving:
            if name not in arrays:
                arrays[name] = np.array(getattr(params, name), dtype=np.float64)
            arrays[name][index] += sign * size * direction.scale
    return params._replace(**arrays)


def share_directions(
    name, p, following, rows, slot=None, state=None, rule=FREE
) -> Iterator[Direction]:
    """Yield directions of probabilities, equal in some rows of a field, with sum 1."""
    falls = following < rule.shrinks * p
    used = np.flatnonzero((p > rule.least) & ((p > rule.small) | ~falls))
    if len(used) < 2:
        return
    # The largest is what the others leave.
    rest = used[p[used].argmax()]
    for j in used[used != rest]:
        entries = [((*row, j), 1.0) for row in rows]
        entries += [((*row, rest), -1.0) for row in rows]
        entry_slot = None if slot is None else (*slot, j)
        yield Direction(name, tuple(entries), p[j], entry_slot, state)


def positive_directions(
    name, values, scales=None, least=0.0, most=np.inf, rule=FREE
) -> Iterator[Direction]:
    """Yield directions of values of each state, those at a bound left out.

    ``scales`` are the values themselves by default. Values may have any unit: those
    without one have the bound of a rule.
    """
    scales = values if scales is None else scales
    least = least / rule.inside
    for index in np.ndindex(values.shape):
        if least < values[index] < rule.inside * most:
            slot = (name, *index[1:])
            yield Direction(name, ((index, 1.0),), scales[index], slot, index[0])


def elliptical_directions(structure, kind, params) -> Iterator[Direction]:
    """Yield directions of means and covariances of a structure."""
    K, d = params.means.shape
    covariances = params.covariances
    full = {
        "full": lambda k: covariances[k],
        "tied": lambda k: covariances,
        "diag": lambda k: np.diag(covariances[k]),
    }.get(kind, lambda k: covariances[k] * np.eye(d))
    # Steps are small against what a column varies given the others.
    scales = [1.0 / np.sqrt(np.diag(np.linalg.inv(full(k)))) for k in range(K)]
    for k, i in np.ndindex(K, d):
        yield Direction("means", (((k, i), 1.0),), scales[k][i], ("mean", i), k)
    if structure.known:
        return
    for k in range(1 if kind == "tied" else K):
        first, state = ((), None) if kind == "tied" else ((k,), k)
        for i in range(1 if kind == "spherical" else d):
            for j in range(i + 1 if kind in ("full", "tied") else 1):
                size = scales[k][i] * scales[k][j if kind in ("full", "tied") else i]
                if kind in ("full", "tied"):
                    places = {(*first, i, j), (*first, j, i)}
                else:
                    places = {first if kind == "spherical" else (*first, i)}
                entries = tuple((place, 1.0) for place in sorted(places))
                slot = ("covariance", i, j)
                yield Direction("covariances", entries, size, slot, state)
