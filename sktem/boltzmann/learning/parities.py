"""Columns that depend on each other in threes, though no two of them do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Parities", "gain_of_parities"]


class ParityLimits(NamedTuple):
    """Budget and significance of the search.

    Attributes
    ----------
    n_operations : float
        Products of all triples and rows, at most.
    sure : float
        Minus the logarithm of the probability that one triple of all gains by chance
        what is subtracted as such.
    """

    n_operations: float = 1e9
    sure: float = 7.0


class Parities(NamedTuple):
    """The best independent triples of columns by their parities.

    Attributes
    ----------
    gain : float
        What a row gains at least over independent columns if the parities of these
        triples have their shares, less what they gain by chance.
    columns : tuple of int
        The triple that gains most.
    odd : float
        Share of rows in which an odd number of its columns is 1.
    """

    gain: float = 0.0
    columns: tuple[int, ...] = ()
    odd: float = float("nan")


def gain_of_parities(X, shares=None, limits: ParityLimits | None = None) -> Parities:
    """Return the gain of parities of three columns over independent columns.

    The distribution that differs from independent columns by the share of odd sums of
    three of them only is more likely by the divergence of that share from what
    independent columns have. Those of triples without common columns add up.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Zeros and ones.
    shares : ndarray of shape (n,) or None, default=None
        Weights of the rows, whose sum is 1.
    limits : ParityLimits or None, default=None
        Budget and significance.

    Returns
    -------
    Parities
        The gain, and the best triple.
    """
    limits = limits or ParityLimits()
    n, d = X.shape
    first, second = np.triu_indices(d, 1)
    if d < 3 or len(first) * d * n > limits.n_operations:
        return Parities()
    shares = np.full(n, 1 / n) if shares is None else shares
    signs = (1.0 - 2.0 * X).astype(np.float32)
    pairs = signs[:, first] * signs[:, second]
    means = shares @ signs
    moments = (pairs * shares[:, None].astype(np.float32)).T @ signs
    expected = (means[first] * means[second])[:, None] * means
    odd = np.clip(0.5 - 0.5 * moments, 0.0, 1.0)
    gains = _divergence(odd, 0.5 - 0.5 * expected)
    gains[second[:, None] >= np.arange(d)] = 0.0  # each triple once
    by_chance = (np.log(d * (d - 1) * (d - 2) / 6) + limits.sure) * (shares @ shares)
    gains -= by_chance
    total, best = 0.0, None
    while (gain := gains.max()) > 0:
        pair, third = np.unravel_index(gains.argmax(), gains.shape)
        triple = (int(first[pair]), int(second[pair]), int(third))
        best = best or (triple, float(odd[pair, third]))
        total += float(gain)
        gains[np.isin(first, triple) | np.isin(second, triple)] = 0.0
        gains[:, triple] = 0.0
    return Parities(total, *best) if best else Parities()


def _divergence(p, q):
    """Return the Kullback-Leibler divergence of coins with these shares."""
    tiny = np.finfo(float).tiny
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            np.where(a > 0, a * np.log(a / np.maximum(b, tiny)), 0.0)
            for a, b in ((p, q), (1 - p, 1 - q))
        ]
    return parts[0] + parts[1]
