"""Priors of population parameters, whose posterior a fit maximises."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.transforms import TRANSFORMS

__all__ = ["Priors", "log_prior", "priors_of", "split_fixed"]


class Priors(NamedTuple):
    """Normal priors of coefficients, and priors of variances.

    That of a variance v with value m and degrees of freedom k is proportional to
    ``v ** (-k / 2) exp(-k m / (2 v))``: what k subjects say of it whose random effects
    have the mean square m. Precisions and degrees of freedom are 0 where there is no
    prior.

    Attributes
    ----------
    means, precisions : ndarray of shape (n_coefficients,)
        Of coefficients with a closed-form M-step.
    numeric_means, numeric_precisions : ndarray of shape (k,)
        Of parameters without.
    variances, degrees : ndarray of shape (n_variances,)
        Values and degrees of freedom of variances.
    n_subjects : int, default=1
        Subjects of the fit.
    """

    means: np.ndarray
    precisions: np.ndarray
    numeric_means: np.ndarray
    numeric_precisions: np.ndarray
    variances: np.ndarray
    degrees: np.ndarray
    n_subjects: int = 1

    def pooled(self, omega: np.ndarray, tied: np.ndarray) -> np.ndarray:
        """Return a covariance whose variances are the modes, given those of the data.

        ``tied`` is the variance that each latent has.
        """
        counts = self.n_subjects * np.bincount(tied)
        weights = self.degrees / (self.degrees + counts)
        moved = weights[tied] * (self.variances[tied] - np.diag(omega))
        return omega + np.diag(moved)


def split_fixed(fixed) -> tuple:
    """Return what stays, and the pairs that are priors, by name."""
    if not isinstance(fixed, dict):
        return fixed, {}
    priors = {name: pair for name, pair in fixed.items() if isinstance(pair, tuple)}
    for name, pair in priors.items():
        right = len(pair) == 2 and all(
            isinstance(value, Real) and np.isfinite(float(value)) for value in pair
        )
        if not right or pair[1] <= 0:
            raise ValueError(
                f"fixed[{name!r}] must be a number, or a prior (value, deviation) with "
                f"a positive deviation, got {pair!r}"
            )
    return {name: v for name, v in fixed.items() if name not in priors}, priors


def priors_of(given, coefficients, design, n_residual) -> Priors | None:
    """Return the priors that pairs by name stand for, None without.

    ``coefficients`` are those of the design, whose last ``n_residual`` numeric
    parameters are of the residual error.
    """
    if not given:
        return None
    linear = [one for one in coefficients if one.is_linear(design.random)]
    free = [
        one for one in coefficients if not (one.is_linear(design.random) or one.fixed)
    ]
    labels = [one.label for one in linear]
    numeric = [one.label for one in free]
    _check_variances(given, design, {*labels, *numeric})
    means, precisions = _normal(given, labels, design)
    pairs = [given.get(name, (1.0, 0.0)) for name in design.variance_names]
    values = np.array(pairs, dtype=float).reshape(-1, 2)
    own, certain = _normal(given, numeric + [""] * n_residual, design)
    return Priors(means, precisions, own, certain, values[:, 0], values[:, 1])


def _normal(given, labels, design):
    """Return means and precisions by label."""
    means, precisions = np.zeros((2, len(labels)))
    for j, label in enumerate(labels):
        if label in given:
            value, deviation = given[label]
            if label in design.names:
                value = _gaussian(design, label, value)
            means[j], precisions[j] = value, deviation**-2.0
    return means, precisions


def _gaussian(design, name, value):
    """Return a population value on the Gaussian scale."""
    transform = TRANSFORMS[design.transforms[design.names.index(name)]]
    low, high = transform.support
    if not low < value < high:
        raise ValueError(
            f"fixed[{name!r}]: the value of the prior must be in ({low:g}, {high:g}), "
            f"got {value!r}"
        )
    return float(transform.inverse(np.array(float(value))))


def _check_variances(given, design, coefficients):
    """Raise an error for a prior of a variance that cannot have one."""
    variances = design.variance_names
    for name in [name for name in given if name not in coefficients]:
        if name not in variances:
            raise ValueError(
                f"fixed[{name!r}]: the residual error has no prior, pass a number"
            )
        if given[name][0] <= 0:
            raise ValueError(
                f"fixed[{name!r}]: the value of the prior must be positive"
            )
        if design.pattern[variances.index(name)].sum() > 1:
            raise ValueError(
                f"fixed: {name!r} has covariances with others, and must have no prior"
            )


def log_prior(vector, params) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the log-prior up to a constant, its slope, and minus its curvature.

    Slope and curvature are by the entries of the vector, which are independent.
    """
    priors, design = vector.design.priors, vector.design
    slope, curvature = np.zeros((2, len(vector)))
    if priors is None:
        return 0.0, slope, curvature
    values, free = vector.of(params), design.free
    normal = np.r_[
        np.arange(len(vector))[vector.coefficients],
        np.arange(len(vector))[vector.numeric],
    ]
    precision = np.append(priors.precisions[free], priors.numeric_precisions)
    rest = values[normal] - np.append(priors.means[free], priors.numeric_means)
    slope[normal], curvature[normal] = -precision * rest, precision
    value = -0.5 * float(precision @ rest**2)
    for place in np.flatnonzero(vector.is_variance):
        j = vector.lower[place - vector.omega.start, 0]
        k, m, v = priors.degrees[j], priors.variances[j], values[place]
        value -= 0.5 * k * (np.log(v) + m / v)
        slope[place] = -0.5 * k * (1 - m / v) / v
        curvature[place] = 0.5 * k * (2 * m / v - 1) / v**2
    return value, slope, curvature
