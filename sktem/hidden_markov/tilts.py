"""Ways in which distributions of durations can move within their families."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import digamma, gammaln

from sktem.emissions.directions import FREE, Direction, share_directions
from sktem.hidden_markov.durations import BOUNDS

__all__ = ["duration_directions", "tangents", "tilted"]


def duration_directions(family, table, following, states) -> Iterator[Direction]:
    """Yield the directions of the durations of some states."""
    if family == "table":
        for k in states:
            yield from share_directions("durations", table[k], following[k], [(k,)])
        return
    slopes, inside = _log_slopes(family, table), np.ones((len(table), 2), dtype=bool)
    if family == "negative_binomial":
        low, high = FREE.inside * np.transpose(BOUNDS)
        theta = _parameters(table)
        inside = ((low < theta) & (theta < high))[:, ::-1]
    for k in states:
        p = table[k]
        for i in range(slopes.shape[1] if p.max() < 1.0 - FREE.least else 0):
            deviation = np.sqrt(p @ (slopes[k, i] - p @ slopes[k, i]) ** 2)
            if inside[k, i]:
                yield Direction("tilts", (((k, i), 1.0),), 1.0 / max(deviation, 1.0))


def tangents(family, table) -> np.ndarray:
    """Return derivatives of probabilities by tilts, (K, n, longest)."""
    slopes = _log_slopes(family, table)
    return table[:, None] * (slopes - slopes @ table[:, :, None])


def tilted(family, table, tilts) -> np.ndarray:
    """Return distributions whose parameters are changed, (K, longest)."""
    counts = np.arange(table.shape[1], dtype=float)
    with np.errstate(divide="ignore"):
        logs = np.log(table) + tilts[:, :1] * counts
    if family == "negative_binomial":
        sizes = np.exp(_parameters(table)[:, :1])
        moved = sizes * np.exp(tilts[:, 1:])
        rises = [gammaln(counts + r) - gammaln(r) for r in (moved, sizes)]
        logs += rises[0] - rises[1]
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _log_slopes(family, table) -> np.ndarray:
    """Return slopes of log-probabilities by tilts, (K, n, longest).

    They are up to what is the same for all durations: of the logarithm of the rate of a
    Poisson distribution, of the ratio and of the size of a negative binomial.
    """
    counts = np.arange(table.shape[1], dtype=float)
    if family == "poisson":
        return np.broadcast_to(counts, (len(table), 1, len(counts)))
    sizes = np.exp(_parameters(table)[:, :1])
    by_size = sizes * (digamma(counts + sizes) - digamma(sizes))
    return np.stack([np.broadcast_to(counts, table.shape), by_size], axis=1)


def _parameters(table) -> np.ndarray:
    """Return log-sizes and log-odds of negative binomials, within their bounds, (K, 2).

    Ratios of neighbours, times counts, are linear in the counts.
    """
    counts, theta = np.arange(table.shape[1] - 1, dtype=float), []
    for p in table:
        sides = np.column_stack([counts * p[:-1], p[:-1]])
        q, intercept = np.linalg.lstsq(sides, (counts + 1.0) * p[1:], rcond=None)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            theta.append([np.log(intercept / q), np.log(q) - np.log1p(-q)])
    return np.clip(np.nan_to_num(theta, nan=np.inf), *np.transpose(BOUNDS))
