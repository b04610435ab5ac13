"""Rows whose posterior density of the latents ends where it is not near zero."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["rows_without_edge"]


class EdgeSearch(NamedTuple):
    """Search of edges.

    Attributes
    ----------
    directions : int
        Random directions, followed forward and back.
    length : float
        Length of the way, in standard deviations of the latents of all rows.
    halvings : int
        Steps by which an edge is approached.
    fall : float
        Fall of the log-density at an edge, at least, for it to be none.
    """

    directions: int = 10
    length: float = 10.0
    halvings: int = 40
    fall: float = 5.0


RULE = EdgeSearch()


def rows_without_edge(log_joint, Z, rng, rule: EdgeSearch = RULE) -> np.ndarray:
    """Return which rows have a density that falls to zero before it ends.

    Integration by parts leaves a remainder at an edge, such as that of a truncated
    normal distribution, or around a latent that is known.

    Parameters
    ----------
    log_joint : callable
        ``log_joint(Z)``, the log-densities of the rows.
    Z : ndarray of shape (n, ...)
        Latents inside.
    rng : numpy.random.Generator
        Random numbers.
    rule : EdgeSearch
        The search.

    Returns
    -------
    ndarray of bool of shape (n,)
        Rows.
    """

    def density(Z):
        with np.errstate(all="ignore"):  # outside of what is allowed
            values = log_joint(Z)
        return np.where(np.isnan(values), -np.inf, values)

    top = density(Z)
    smooth = np.isfinite(top)
    spread = Z.std(axis=0) + 1e-6 * np.abs(Z).max(axis=0, initial=1e-300)
    shape = (len(Z), *(1,) * (Z.ndim - 1))
    for k in range(2 * rule.directions):
        if k % 2 == 0:
            way = rule.length * spread * rng.standard_normal(Z.shape)
        way = -way
        ends = density(Z + way) == -np.inf
        inside, outside, edge = np.zeros(len(Z)), np.ones(len(Z)), top.copy()
        for _ in range(rule.halvings if ends.any() else 0):
            middle = (inside + outside) / 2
            values = density(Z + middle.reshape(shape) * way)
            within = values > -np.inf
            edge = np.where(within, values, edge)
            inside = np.where(within, middle, inside)
            outside = np.where(within, outside, middle)
        smooth &= ~(ends & (edge > top - rule.fall))
    return smooth
