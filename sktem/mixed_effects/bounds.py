"""Variances, and parameters of the residual error, at their bounds."""

from __future__ import annotations

from functools import partial

import numpy as np

from sktem.mixed_effects.ascent import (
    Ascent,
    Resolution,
    ascend,
    likelihood_at,
)
from sktem.mixed_effects.floors import correlation_floor, variance_floors
from sktem.mixed_effects.m_step import repaired_covariance

__all__ = ["to_the_bounds"]

#: The loss in log-likelihood allowed for a variance at its bound, before and after the
#: other parameters have moved.
WORTH_A_TRY, AT_BOUND = 0.1, 1e-4
#: Quadrature points for a first look, and the cost there that ends it.
FEW_POINTS, HOPELESS = Resolution(per_subject=64), 2.0


def to_the_bounds(model, rows, ascent: Ascent, rng, **options) -> Ascent:
    """Put parameters that the likelihood has no use for at their bounds.

    Newton steps approach such a bound without reaching it. A variance, or the part not
    explained by others, or one of two parameters of the residual error, goes to its
    least value if the likelihood does not fall, and the rest moves on.
    """
    seed, resolution = rng.integers(2**63), options["resolution"]
    moves = [partial(_bounded, model, j) for j in model.design.free_variances]
    for e, entry in enumerate(model.design.numeric):
        if entry.kind == "residual":
            moves.append(partial(_without, model, e))
    for move in moves:
        for params in move(ascent.params):
            rough = likelihood_at(model, rows, params, ascent.modes, seed, FEW_POINTS)
            if not rough.value >= ascent.value - HOPELESS:
                continue
            there = likelihood_at(model, rows, params, rough.modes, seed, resolution)
            if not there.value >= ascent.value - WORTH_A_TRY:
                continue
            other = ascend(model, rows, params, rng, ascent.modes, **options)
            if other.value >= ascent.value - AT_BOUND:
                gain = ascent.gain + other.value - ascent.value
                ascent = other._replace(gain=gain)
                break
    return ascent


def _without(model, e, params):
    """Yield parameters with one of the residual error at its bound."""
    j = model.design.numeric[e].parameter
    least = model.residual_floors[j]
    if least < 0.9 * params.sigma[j]:
        sigma, numeric = params.sigma.copy(), params.numeric.copy()
        sigma[j], numeric[e] = least, np.log(least)
        yield params._replace(sigma=sigma, numeric=numeric)


def _bounded(model, j, params):
    """Yield parameters with a variance, and a conditional variance, at its bound."""
    omega = params.omega
    share = np.sqrt(variance_floors(model)[j] / omega[j, j])
    if share < 0.9:
        scale = np.ones(len(omega))
        scale[model.design.tied == j] = share
        yield params._replace(omega=omega * scale[:, None] * scale)
    others = np.flatnonzero(model.design.pattern[j])
    if len(others) > 1:
        floors = variance_floors(model), correlation_floor(model)
        yield params._replace(omega=repaired_covariance(_singular(omega, j), *floors))


def _singular(omega, j):
    """Return the covariance with a conditional variance of zero."""
    rest = np.flatnonzero(np.arange(len(omega)) != j)
    explained = omega[j, rest] @ np.linalg.solve(
        omega[np.ix_(rest, rest)], omega[rest, j]
    )
    singular = omega.copy()
    if explained > 0:
        factor = np.sqrt(omega[j, j] / explained)
        singular[j, rest] *= factor
        singular[rest, j] *= factor
    return singular
