"""Chains that have run before their first rows: starts that follow from transitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

__all__ = [
    "joined_states",
    "moved_start",
    "start_slopes",
    "stationary",
    "transitions_of",
]


class Ascent(NamedTuple):
    """Limits of the M-step of transitions with their stationary start.

    Attributes
    ----------
    max_iter, halvings : int
        Steps, and halvings of each, at most.
    gain : float
        Gain of a step, as a share of the objective, below which it ends.
    least : float
        Probabilities are not below, so that states stay joined.
    sufficient : float
        Share of the gain of a step in its slope: less is gained where it goes too far.
    kept : float
        Share of a probability that is left after a step.
    damping : float
        Share of the first states that is added to the transitions of each state.
    """

    max_iter: int = 100
    halvings: int = 30
    gain: float = 1e-15
    least: float = 1e-100
    sufficient: float = 0.25
    kept: float = 0.01
    damping: float = 1e-3


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
    group = np.empty(len(first), dtype=np.intp)
    for number, members in enumerate(groups):
        group[members] = number
    rows = np.array([members[0] for members in groups])
    free, counts = candidates[0][rows] > 0, counts[rows]

    def above_zero(p):
        p = np.where(free, np.maximum(p, ASCENT.least), 0.0)
        return p / p.sum(axis=1, keepdims=True)

    def value(A):
        logs = np.log(np.where(free, A, 1.0))
        return (counts * logs).sum() + first @ np.log(stationary(A[group]))

    possible = [above_zero(A[rows]) for A in candidates]
    if not first.any():
        return possible[-1][group]
    A = max(possible, key=value)
    now = value(A)
    for _ in range(ASCENT.max_iter):
        step, gain = _scoring_step(first, counts, A, group)
        if not gain > ASCENT.gain * abs(now):
            break
        size = 1.0
        for _ in range(ASCENT.halvings):
            # What runs to zero takes large steps, and must not hold the others.
            moved = above_zero(np.maximum(A + size * step, ASCENT.kept * A))
            if (then := value(moved)) > now + ASCENT.sufficient * size * gain:
                break
            size /= 2.0
        else:
            break
        A, now = moved, then
    return A[group]


def _scoring_step(first, counts, A, group):
    """Return a step of rows of transitions by Fisher's scoring, and its gain.

    The information is that of the transitions, for each row, and that of the start,
    whose rank is below the number of states (Woodbury's identity).
    """
    transitions = A[group]
    start = stationary(transitions)
    Z = _fundamental(transitions, start)
    mass = counts.sum(axis=1) + ASCENT.damping * first.sum()
    weight = np.bincount(group, start)

    def by_rows(slopes):
        """Return the step of transitions alone, given slopes times transitions."""
        return (slopes - A * slopes.sum(axis=1, keepdims=True)) / mass[:, None]

    slopes = counts + A * np.outer(weight, Z @ (first / start))
    step = by_rows(slopes)
    w = weight**2 / mass
    spread = np.diag(w @ A) - (A.T * w) @ A
    inner = Z.T @ spread @ Z + np.diag(start / first.sum())
    solved = np.linalg.lstsq(inner, weight @ step @ Z, rcond=None)[0]
    step = step - by_rows(A * np.outer(weight, Z @ solved))
    return step, (step * slopes / np.where(A > 0, A, 1.0)).sum()
