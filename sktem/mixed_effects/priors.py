"""Priors of population parameters, whose posterior a fit maximises."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.columns import listed

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
    of_deviations : ndarray of shape (n_variances,)
        Precisions of half-normal priors of their roots.
    of_errors : ndarray of shape (n_residual,)
        Precisions of half-normal priors of the parameters of the residual error.
    blocks : tuple of (ndarray of int, ndarray, float), default=()
        Inverse-Wishart priors of covariance blocks: random effects, value, and degrees
        of freedom, which are those of subjects as above.
    n_subjects : int, default=1
        Subjects of the fit.
    """

    means: np.ndarray
    precisions: np.ndarray
    numeric_means: np.ndarray
    numeric_precisions: np.ndarray
    variances: np.ndarray
    degrees: np.ndarray
    of_deviations: np.ndarray
    of_errors: np.ndarray
    blocks: tuple = ()
    n_subjects: int = 1

    def pooled(self, omega: np.ndarray, tied: np.ndarray) -> np.ndarray:
        """Return a covariance whose variances are the modes, given those of the data.

        ``tied`` is the variance that each latent has.
        """
        counts = self.n_subjects * np.bincount(tied)
        weights = self.degrees / (self.degrees + counts)
        moved = weights[tied] * (self.variances[tied] - np.diag(omega))
        omega = omega + np.diag(moved)
        modes = _with_half_normal(
            np.diag(omega), self.of_deviations[tied], (self.degrees + counts)[tied]
        )
        omega = omega + np.diag(modes - np.diag(omega))
        for places, value, degrees in self.blocks:
            share = degrees / (degrees + self.n_subjects)
            inner = omega[np.ix_(places, places)]
            omega[np.ix_(places, places)] = inner + share * (value - inner)
        return omega

    def padded(self, n_coefficients: int, n_numeric: int) -> Priors:
        """Return the priors with further parameters, which have none."""
        linear, numeric = np.zeros(n_coefficients), np.zeros(n_numeric)
        return self._replace(
            means=np.append(self.means, linear),
            precisions=np.append(self.precisions, linear),
            numeric_means=np.append(self.numeric_means, numeric),
            numeric_precisions=np.append(self.numeric_precisions, numeric),
        )

    def of_error(self, variance: float, j: int, count: float) -> float:
        """Return the mode of an error's variance, given that of a row of the data.

        ``count`` are the rows of a subject.
        """
        rows = count * self.n_subjects
        return float(_with_half_normal(variance, self.of_errors[j], rows))


def _with_half_normal(variance, precision, count):
    """Return the mode of variances, given those of the data and how many they had.

    The root of ``precision v^2 + count v = count variance``.
    """
    root = np.sqrt(1 + 4 * precision * variance / count)
    return 2 * variance / (1 + root)


def split_fixed(fixed) -> tuple:
    """Return the fixed coefficients, and the priors by name."""
    if not isinstance(fixed, dict):
        return listed(() if fixed is None else fixed), {}
    priors = {name: pair for name, pair in fixed.items() if isinstance(pair, tuple)}
    for name, pair in priors.items():
        if isinstance(name, tuple) or _is_half_normal(pair):
            continue
        right = len(pair) == 2 and all(
            isinstance(value, Real) and np.isfinite(float(value)) for value in pair
        )
        if not right or pair[1] <= 0:
            raise ValueError(
                f"fixed[{name!r}] must be a number, or a prior (value, deviation) with "
                f"a positive deviation, got {pair!r}"
            )
    return {name: v for name, v in fixed.items() if name not in priors}, priors


def _is_half_normal(pair) -> bool:
    """Return whether a prior is ("half-normal", scale)."""
    if not (pair and isinstance(pair[0], str)):
        return False
    right = len(pair) == 2 and pair[0] == "half-normal" and isinstance(pair[1], Real)
    if not right or not 0 < float(pair[1]) < np.inf:
        raise ValueError(
            'a prior by name must be ("half-normal", scale) with a positive scale, got '
            f"{pair!r}"
        )
    return True


def priors_of(priors, design) -> Priors | None:
    """Return the priors of pairs by name, None without any."""
    if not priors:
        return None
    blocks = tuple(
        _block(name, priors[name], design) for name in priors if isinstance(name, tuple)
    )
    priors = {name: pair for name, pair in priors.items() if isinstance(name, str)}
    half = {name: pair[1] for name, pair in priors.items() if _is_half_normal(pair)}
    priors = {name: pair for name, pair in priors.items() if name not in half}
    labels = design.labels
    numeric = [e.label if e.kind != "residual" else "" for e in design.numeric]
    _check_half_normal(half, design)
    _check_variances(priors, design, {*labels, *numeric})
    means, precisions = _normal(priors, labels, design)
    pairs = [priors.get(name, (1.0, 0.0)) for name in design.variance_names]
    values = np.array(pairs, dtype=float).reshape(-1, 2)
    centres, certain = _normal(priors, numeric, design)
    deviations, errors = (
        np.array([half[name] ** -2.0 if name in half else 0.0 for name in names])
        for names in (design.variance_names, design.residual_names)
    )
    values, degrees = values.T
    return Priors(
        means, precisions, centres, certain, values, degrees, deviations, errors, blocks
    )


def _check_half_normal(half, design):
    """Raise an error for a half-normal prior of something else than a deviation."""
    variances = design.variance_names
    for name in half:
        if name not in [*variances, *design.residual_names]:
            raise ValueError(
                f"fixed[{name!r}]: half-normal priors are for variances (of their "
                "roots) and parameters of the residual error"
            )
        _check_alone(name, design)


def _check_alone(name, design):
    """Raise an error for a prior of a variance that has covariances."""
    variances = design.variance_names
    if name in variances and design.pattern[variances.index(name)].sum() > 1:
        raise ValueError(
            f"fixed: {name!r} has covariances with others, and must have no prior: "
            "pass one of the whole block"
        )


def _block(names, pair, design):
    """Return random effects, value and degrees of freedom of an inverse-Wishart."""
    random = [design.names[p] for p in design.random]
    places = np.array([random.index(n) for n in names if n in random], dtype=np.int64)
    whole = len(places) == len(names) and (
        np.flatnonzero(design.pattern[places[0]]).tolist() == sorted(places.tolist())
    )
    if not whole:
        raise ValueError(
            f"fixed[{names!r}]: the prior of a block names all random effects that "
            f"correlate with each other, of {random}"
        )
    value = np.asarray(pair[0], dtype=float) if len(pair) == 2 else np.zeros(0)
    size = len(names)
    right = (
        value.shape == (size, size) and isinstance(pair[1], Real) and float(pair[1]) > 0
    )
    if not right or (value != value.T).any() or np.linalg.eigvalsh(value)[0] <= 0:
        raise ValueError(
            f"fixed[{names!r}] must be a positive definite {size} x {size} matrix and "
            f"how many subjects it counts as, got {pair!r}"
        )
    return places, value, float(pair[1])


def _normal(priors, labels, design):
    """Return means and precisions by label."""
    means, precisions = np.zeros((2, len(labels)))
    for j, label in enumerate(labels):
        if label in priors:
            value, deviation = priors[label]
            if label in design.names:
                value = _gaussian(design, label, value)
            means[j], precisions[j] = value, deviation**-2.0
    return means, precisions


def _gaussian(design, name, value):
    """Return a population value on the Gaussian scale."""
    transform = design.transform_of(name)
    low, high = transform.support
    if not low < value < high:
        raise ValueError(
            f"fixed[{name!r}]: the value of the prior must be in ({low:g}, {high:g}), "
            f"got {value!r}"
        )
    return float(transform.inverse(np.array(float(value))))


def _check_variances(priors, design, coefficients):
    """Raise an error for a prior of a variance that cannot have one."""
    variances = design.variance_names
    for name in [name for name in priors if name not in coefficients]:
        if name not in variances:
            raise ValueError(
                f"fixed[{name!r}]: the residual error has no such prior, pass a number "
                'or ("half-normal", scale)'
            )
        if priors[name][0] <= 0:
            raise ValueError(
                f"fixed[{name!r}]: the value of the prior must be positive"
            )
        _check_alone(name, design)


def log_prior(vector, params) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the log-prior up to a constant, its slope, and minus its curvature.

    Slope and curvature, a matrix, are by the entries of the vector.
    """
    priors, design = vector.design.priors, vector.design
    slope, curvature = np.zeros((2, len(vector)))
    if priors is None:
        return 0.0, slope, np.diag(curvature)
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
        h = priors.of_deviations[j]
        value -= 0.5 * (k * (np.log(v) + m / v) + h * v)
        slope[place] = -0.5 * (k * (1 - m / v) / v + h)
        curvature[place] = 0.5 * k * (2 * m / v - 1) / v**2
    errors = np.flatnonzero(vector.is_residual)
    h = priors.of_errors[vector.which_residual]
    value -= 0.5 * float(h @ values[errors] ** 2)
    slope[errors], curvature[errors] = -h * values[errors], h
    curvature = np.diag(curvature)
    for places, mean, degrees in priors.blocks:
        inner = params.omega[np.ix_(places, places)]
        value += _of_block(vector, places, inner, mean, degrees, slope, curvature)
    return value, slope, curvature


def _of_block(vector, places, omega, mean, degrees, slope, curvature):
    """Return the log-prior of a block, and add its slope and curvature."""
    precision = np.linalg.inv(omega)
    rank = {place: r for r, place in enumerate(places.tolist())}
    moves, entries = [], []
    for e, (j, k) in enumerate(vector.lower.tolist()):
        if j in rank and k in rank:
            move = np.zeros_like(omega)
            move[rank[j], rank[k]] = move[rank[k], rank[j]] = 1.0
            moves.append(precision @ move)
            entries.append(vector.omega.start + e)
    inside = precision @ mean
    for a, move in zip(entries, moves, strict=True):
        slope[a] -= 0.5 * degrees * float(np.trace(move) - np.trace(move @ inside))
        for b, other in zip(entries, moves, strict=True):
            both = np.trace(move @ other @ inside) + np.trace(other @ move @ inside)
            curvature[a, b] += 0.5 * degrees * float(both - np.trace(move @ other))
    return -0.5 * degrees * float(np.linalg.slogdet(omega)[1] + np.trace(inside))
