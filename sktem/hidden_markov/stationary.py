"""Chains that have run before their first rows: starts that follow from transitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components

__all__ = [
    "joined_states",
    "moved_start",
    "start_slopes",
    "stationary",
    "transitions_of",
]


class Ascent(NamedTuple):
    """How an M-step of transitions with their stationary start ends.

    Attributes
    ----------
    max_iter : int
        Steps at most.
    gain : float
        Gain of a step, as a share of the objective, below which it ends.
    least : float
        Probabilities are not below, so that states stay joined.
    """

    max_iter: int = 100
    gain: float = 1e-15
    least: float = 1e-100


ASCENT = Ascent()


def joined_states(transitions) -> bool:
    """Return whether transitions lead from every state to every other."""
    return connected_components(transitions > 0, connection="strong")[0] == 1


def stationary(transitions) -> np.ndarray:
    """Return the stationary distribution of states that are joined.

    Nothing is subtracted, so that small probabilities have all digits (Grassmann,
    Taksar and Heyman 1985).
    """
    A, K = np.array(transitions), len(transitions)
    for k in range(K - 1, 0, -1):
        A[:k, k] /= A[k, :k].sum()
        A[:k, :k] += A[:k, k, None] * A[k, :k]
    p = np.ones(K)
    for k in range(1, K):
        p[k] = p[:k] @ A[:k, k]
    return p / p.sum()


def _fundamental(transitions, start) -> np.ndarray:
    """Return Z, by which the start moves by ``start @ change @ Z``."""
    return np.linalg.pinv(np.eye(len(start)) - transitions + start)


def start_slopes(first, transitions, start) -> np.ndarray:
    """Return derivatives of ``first @ log(start)`` by transitions, (K, K)."""
    return np.outer(start, _fundamental(transitions, start) @ (first / start))


def moved_start(moved, transitions, start) -> np.ndarray:
    """Return how the start moves with transitions, whose last axis are directions."""
    Z = _fundamental(transitions, start)
    return np.einsum("i,ij...,jk->k...", start, moved, Z)


def transitions_of(first, counts, candidates, groups) -> np.ndarray:
    """Return the most likely transitions of expected first states and transitions.

    The expected log-likelihood, which has the logarithm of the stationary distribution,
    is climbed from the best of some candidates, so that it cannot fall below the first.

    Parameters
    ----------
    first : ndarray of shape (K,)
        Expected first states.
    counts : ndarray of shape (K, K)
        Expected transitions; those of tied states are all of theirs together.
    candidates : list of ndarray of shape (K, K)
        Transitions to begin with.
    groups : list of ndarray of int
        States that share transitions.

    Returns
    -------
    ndarray of shape (K, K)
        Transitions.
    """
    used = candidates[0] > 0
    rows = np.array([members[0] for members in groups])
    group = np.empty(len(first), dtype=np.intp)
    for number, members in enumerate(groups):
        group[members] = number
    free = used[rows]

    def above_zero(p):
        p = np.where(free, np.maximum(p, ASCENT.least), 0.0)
        return p / p.sum(axis=1, keepdims=True)

    def losses(A):
        """Return minus the expected log-likelihood, and its slopes by log-odds."""
        start = stationary(A[group])
        logs = np.log(np.where(free, A, 1.0))
        value = (counts[rows] * logs).sum() + first @ np.log(start)
        slopes = np.zeros(A.shape)
        np.add.at(slopes, group, start_slopes(first, A[group], start))
        slopes = counts[rows] + A * slopes
        return -value, A * slopes.sum(axis=1, keepdims=True) - slopes

    def of_logits(x):
        logits = np.full(free.shape, -np.inf)
        logits[free] = x / scales
        return above_zero(np.exp(logits - logits.max(axis=1, keepdims=True)))

    def objective(x):
        value, slopes = losses(of_logits(x))
        return value, slopes[free] / scales

    possible = [above_zero(A[rows]) for A in candidates]
    if not first.any():
        return possible[-1][group]
    best = min(possible, key=lambda A: losses(A)[0])
    mass = counts[rows].sum(axis=1, keepdims=True) + first.sum()
    scales = np.sqrt(mass * best + 1e-3 * mass)[free]
    found = minimize(
        objective, np.log(best[free]) * scales, jac=True, method="L-BFGS-B",
        options={"maxiter": ASCENT.max_iter, "ftol": ASCENT.gain, "gtol": 0.0},
    )  # fmt: skip
    climbed = of_logits(found.x)
    return (climbed if found.fun <= losses(best)[0] else best)[group]
