"""Optima of a pooled regression: descents from many places."""

from __future__ import annotations

from bisect import bisect
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.pooled import Optimum, PooledRegression

__all__ = ["is_near", "optima"]


class PlaceRule(NamedTuple):
    """Limits of the search for optima.

    Attributes
    ----------
    places : int
        Random places that are looked at.
    places_per_plain : int
        How many more for each parameter whose size is not known.
    most_places : int
        Places, at most.
    widths : tuple of float
        How far they are from the start on a logarithmic scale, at most.
    kinds : tuple of float
        Shares, added up, of the ways in which places on the natural scale are drawn.
    trials : int
        Steps on which linearity is tried.
    linear : float
        Relative deviation from it that is none.
    descents : int
        Descents from the best places, at least.
    most_descents : int
        The same, at most, until two have ended at the lowest value.
    twice : float
        Up to a share of it.
    twice_log : float
        Up to a difference, of log-likelihoods.
    """

    places: int = 225
    places_per_plain: int = 150
    most_places: int = 600
    widths: tuple[float, ...] = (2.0, 6.0, 14.0)
    kinds: tuple[float, ...] = (0.25, 0.5, 0.7, 0.8, 0.9)
    trials: int = 5
    linear: float = 1e-6
    descents: int = 16
    most_descents: int = 30
    twice: float = 1e-6
    twice_log: float = 0.05


#: The search of every fit.
PLACES = PlaceRule()


def optima(problem: PooledRegression) -> list[Optimum]:
    """Return optima of a pooled regression, that of the given start first."""
    start = problem.vector()
    intercepts = problem.is_intercept
    first = problem.descend(start, intercepts)
    descents = [first]
    places = [] if _is_linear(problem, first) else _places(problem, start)
    all_terms = problem.terms_of(places) if places else []
    values = np.array([problem.value(terms) for terms in all_terms])
    enough = int(problem.effort * PLACES.descents)
    most = int(problem.effort * PLACES.most_descents)
    for k in np.argsort(values)[:most]:
        done = len(descents) > enough and _is_twice(problem, descents)
        if done or not np.isfinite(values[k]):
            break
        descents.append(problem.descend(places[k], intercepts, descents))
    different: list[Optimum] = []
    for optimum in descents:
        if not any(problem.is_same(optimum.vector, other) for other in different):
            different.append(optimum)
    few = (~intercepts).sum() < len(problem.rows) / 2
    if few and (~intercepts).any():
        different = [problem.descend(optimum.vector) for optimum in different]
    return different


def _is_linear(problem, optimum):
    """Return whether the terms are linear in all parameters: there is one optimum.

    Each one is looked at by itself too, lest one without effect at this place passes.
    """
    vector = optimum.vector
    if problem.has_densities or problem.weights is None or not problem.plain.all():
        return False
    reach = np.where(vector != 0, np.abs(vector), 1.0)
    slopes, terms = problem.slopes(vector, reach), problem.terms(vector)
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], (PLACES.trials, len(vector)))
    steps = signs * np.exp(rng.uniform(-3, 3, signs.shape)) * reach
    alone = [step * axis for step in steps for axis in np.eye(len(vector))]
    for step in [*steps, *alone]:
        change = problem.terms(vector + step) - terms
        size = np.linalg.norm(change)
        deviation = np.linalg.norm(change - slopes @ step)
        if not 0 < size < np.inf or not deviation <= PLACES.linear * size:
            return False
    return True


def _is_twice(problem, descents):
    """Return whether two descents have ended at the lowest value."""
    first, second = sorted(optimum.value for optimum in descents)[:2]
    near = PLACES.twice_log if problem.has_densities else PLACES.twice * abs(first)
    return second <= first + near


def _places(problem, start):
    """Return places that have the start's order of magnitude, or that of the data."""
    rng = np.random.default_rng(0)
    logarithmic = problem.is_intercept & ~problem.plain
    plain = problem.is_intercept & problem.plain
    places = []
    for factor in (-4.6, -2.3, 2.3, 4.6):
        place = start.copy()
        place[logarithmic] += factor
        place[plain] *= np.exp(factor)
        places.append(place)
    columns, y = _ranges(problem.rows.inputs.T), problem.rows.y
    low, high, spread = _ranges(y[None])[0]
    count = PLACES.places + PLACES.places_per_plain * int(plain.sum())
    count = int(problem.effort * min(count, PLACES.most_places))
    for _ in range(count if problem.is_intercept.any() else 0):
        place = start.copy()
        width = PLACES.widths[rng.integers(len(PLACES.widths))]
        place[logarithmic] += rng.uniform(-width, width, logarithmic.sum())
        for j in np.flatnonzero(plain):
            least, most, width = columns[rng.integers(len(columns))]
            sign = (-1, 1)[rng.integers(2)]
            place[j] = (
                rng.uniform(least, most),
                rng.uniform(low, high),
                sign * width * np.exp(rng.uniform(-3, 0)),
                sign * spread / width * np.exp(rng.uniform(-2, 2)),
                sign / width * np.exp(rng.uniform(-2, 3)),
                start[j] * np.exp(rng.uniform(-5, 5)),
            )[bisect(PLACES.kinds, rng.random())]
        places.append(place)
    return places


def _ranges(columns):
    """Return least, largest value and range of each column, 1 for no range."""
    least, most = columns.min(axis=1), columns.max(axis=1)
    width = np.where(most > least, most - least, 1.0)
    return np.column_stack([least, most, width]).tolist()


def is_near(problem: PooledRegression, optimum: Optimum, factor: float) -> bool:
    """Return whether an optimum is where the user expects it."""
    start = problem.vector()[problem.is_intercept]
    reached = optimum.vector[problem.is_intercept]
    plain = problem.plain[problem.is_intercept]
    near = np.abs(reached - start)[~plain] <= factor
    ratio = np.abs(reached - start)[plain] <= np.expm1(factor) * np.abs(start[plain])
    return bool(near.all() and ratio.all())
