"""Values that are far more likely with the decimal point moved by one place."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.doubtful_values import has_error
from sktem.mixed_effects.inference.conditional import conditional_modes
from sktem.mixed_effects.inference.marginal_likelihood import quadrature_draws
from sktem.mixed_effects.outcomes import Outcome

__all__ = ["slips_of_the_point"]


class SlipRule(NamedTuple):
    """Limits of the search for slips of the decimal point.

    Attributes
    ----------
    far : float
        Weighted residual, in robust standard deviations, from which a value is looked
        at.
    looks : int
        Values that are looked at, at most.
    gain : float
        Log-likelihood that a subject gains where the point is moved, at least.
    most : int
        Slips, at most: more of them are a wrong model.
    """

    far: float = 3.5
    looks: int = 10
    gain: float = 6.0
    most: int = 5


#: The rule of every fit.
SLIPS = SlipRule()


def slips_of_the_point(fitted) -> list[str]:
    """Return a message on measured values that are ten times too large or small.

    With the point moved, all observations of the subject have to fit, and this one by
    a factor of two: those of a wrong model, and outliers of another kind, do not.
    """
    model, rows = fitted.model, fitted.rows
    if model.error is None or not model.design.n_latents or not rows.in_memory:
        return []
    f, residuals = fitted.individual_rows()
    is_measured = np.isfinite(residuals) & ~has_error(model.error, rows, Outcome)
    is_measured &= (rows.y > 0) & (f > 0)
    # The least value is no measurement where it stands for all that are lower.
    is_least = is_measured & (rows.y == rows.y[is_measured].min(initial=np.inf))
    is_measured &= ~is_least | (is_least.sum() == 1)
    if not is_measured.any() or (rows.y < 0).any():
        return []
    sizes = np.where(is_measured, np.abs(residuals), 0.0)
    # Slips inflate the error of a fit, and most residuals of one new patient.
    limit = SLIPS.far * min(1.4826 * np.median(sizes[is_measured]), 1.0)
    which = np.argsort(-sizes)[: min(SLIPS.looks, (sizes > limit).sum())]
    if not len(which):
        return []
    subjects = rows.subject_of_row[which]
    factors = np.where(rows.y[which] > f[which], 0.1, 10.0)
    given, modes = rows[subjects], fitted.modes()[0][subjects]
    moved = copy(given)
    moved.y = given.y.copy()
    places = given.offsets[:-1] + which - rows.offsets[subjects]
    moved.y[places] *= factors
    after, f, residuals = _refitted(fitted, moved, modes)
    gains = after - _refitted(fitted, given, modes)[0]
    gains += np.log(factors)  # the density is that of y
    fits = np.abs(np.log2(moved.y[places] / np.maximum(f[places], 1e-300))) < 1
    fits &= np.maximum.reduceat(residuals, given.offsets[:-1]) < limit
    gains = np.where(fits, gains, 0.0)
    order = np.argsort(-gains)[: (gains > SLIPS.gain).sum()]
    # A slip draws other values of its subject away from their predictions.
    first = order[np.unique(subjects[order], return_index=True)[1]]
    if not 0 < len(first) <= SLIPS.most:
        return []
    labels, y = fitted.problem.labels[subjects].tolist(), rows.y[which]
    values = [f"{y[k]:.4g} of the subject {labels[k]}" for k in first]
    return [
        "With the decimal point moved by one place, these observations would fit the "
        f"others of their subjects, and as they are they do not: {', '.join(values)}."
    ]


def _refitted(fitted, rows, start):
    """Return Laplace's log-likelihoods of subjects, predictions and sizes of residuals.

    The modes are looked for near a start.
    """
    model, params = fitted.model, fitted.params
    modes, covariances, _ = conditional_modes(model, rows, params, start)
    draws = quadrature_draws(modes, covariances, 1)
    values = draws.log_likelihood(draws.log_joint(model, rows, params))[0]
    f = model.predict_rows(rows, modes, params.numeric)
    residuals = model.weighted_residuals(rows, f, params)
    return values, f, np.nan_to_num(np.abs(residuals))
