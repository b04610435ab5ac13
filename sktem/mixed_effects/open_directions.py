"""Parameters that could be anywhere along a flat stretch of the likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.ascent import Resolution, likelihood_at
from sktem.mixed_effects.inference.node_numbers import covariance_of
from sktem.mixed_effects.inference.standard_errors import at_bounds

__all__ = ["exchanged", "open_directions"]


class FarRule(NamedTuple):
    """Distances at which the likelihood is checked for flatness, and thresholds of it.

    Attributes
    ----------
    unknown : float
        Standard error, of a logarithm or in units of the estimate, from which a
        parameter may be anywhere.
    far : float
        How many standard errors away the likelihood has to be lower.
    farthest : float
        Change of logarithms, and of logits, that is far enough.
    least_loss : float
        Log-likelihood that is lost there at least.
    resolution : Resolution
        How finely the likelihood is integrated.
    rounded : float
        Eigenvalue of the scaled information that may be an error of differences.
    cancelled : float
        The same for rounding, as a share of the complete information.
    involved : float
        Share of a parameter in its direction that counts.
    """

    unknown: float = 1.0
    far: float = 3.0
    farthest: float = 3.0
    least_loss: float = 0.05
    resolution: Resolution = Resolution(per_subject=700)
    rounded: float = 1e-6
    cancelled: float = 1e-12
    involved: float = 0.01


#: The rule of every fit.
FAR = FarRule()


def open_directions(model, rows, vector, ascent, rule=FAR) -> list[str]:
    """Return names of parameters far from whose estimates the likelihood is the same.

    Such a parameter drifts to infinity, and has a standard error where steps have ended
    as any other.
    """
    params, values, modes = ascent.params, vector.of(ascent.params), ascent.modes
    is_held = at_bounds(vector, params)
    covariance = covariance_of(ascent.information.observed, is_held)
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(covariance))
    known = [vector.design.transform_of(name) for name in vector.names]
    of_population = np.array([transform is not None for transform in known])
    plain = np.array([entry is None or entry.is_plain for entry in known])
    units = np.where(plain, np.abs(values), 1.0)
    unknown = (errors > rule.unknown * units) & (of_population | vector.is_variance)
    candidates = np.flatnonzero(unknown & ~is_held)  # False for NaN
    if not len(candidates):
        return []
    size = np.where(vector.positive, values, 1.0)

    def value_at(far):
        changed = vector.params(far, params)
        if np.linalg.eigvalsh(changed.omega).min(initial=1.0) <= 0:
            return -np.inf
        return likelihood_at(model, rows, changed, modes, 0, rule.resolution).value

    def is_flat(j, sign):
        length = rule.far * errors[j]
        if vector.positive[j] or not plain[j]:
            length = min(length, rule.farthest * units[j])
        shift = sign * length * covariance[:, j] / covariance[j, j]
        # Logarithms of what is positive, so that it stays so.
        with np.errstate(over="ignore"):
            grown = values * np.exp(np.where(vector.positive, shift / size, 0.0))
        far = np.where(vector.positive, grown, values + shift)
        return np.isfinite(far).all() and here - value_at(far) < rule.least_loss

    here, flat = value_at(values), []
    for j in candidates:
        # The other end of a variance is zero, and no flat stretch.
        if is_flat(j, 1) or (not vector.positive[j] and is_flat(j, -1)):
            flat.append(vector.names[j])
    return flat


def exchanged(vector, information, is_held, by_differences, rule=FAR) -> np.ndarray:
    """Return which parameters others make up for, up to errors of their information.

    These are errors of differences, and the rounding of complete less missing
    information, such as that of a random effect whose variance is at its bound.
    """
    free = np.flatnonzero(~is_held)
    observed, complete = (
        matrix[np.ix_(free, free)]
        for matrix in (information.observed, information.complete)
    )
    known = np.abs(np.diag(observed))
    scale = np.sqrt(np.where(known > 0, known, 1.0))
    values, vectors = np.linalg.eigh(observed / scale[:, None] / scale)
    errors = rule.cancelled * np.diag(complete) / scale**2
    if by_differences:
        is_numeric = np.isin(free, np.arange(len(is_held))[vector.numeric])
        errors[is_numeric] = np.maximum(errors[is_numeric], rule.rounded)
    is_involved = vectors**2 > rule.involved
    weak = values < np.where(is_involved, errors[:, None], 0.0).max(axis=0, initial=0.0)
    which = np.zeros(len(is_held), dtype=bool)
    which[free] = is_involved[:, weak].any(axis=1)
    return which
