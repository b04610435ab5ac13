"""Averaged statistics of mixed-effects models and their M-step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.design import MixedEffectsDesign, MixedEffectsParams
from sktem.mixed_effects.floors import Floors, correlations

__all__ = [
    "Annealing",
    "Moments",
    "maximize_moments",
    "repaired_covariance",
    "solve_scaled",
]

#: A Newton step of a parameter without a closed form is at most this many units long,
#: or this share of its value.
LONGEST_STEP = 0.5


class Annealing(NamedTuple):
    """Bounds on how fast variances may fall at the start.

    Attributes
    ----------
    n_passes : float
        Passes over the data that it lasts.
    factor : float
        No variance falls below this share of its last value, per pass.
    per_step : float
        Share of a pass that an M-step stands for.
    """

    n_passes: float = 0.0
    factor: float = 0.97
    per_step: float = 1.0


class Moments(NamedTuple):
    """The parts of a vector of averaged statistics, as views.

    Attributes
    ----------
    covariates : ndarray of shape (n_covariates, n_covariates)
        Mean of ``c c'`` over subjects.
    cross : ndarray of shape (n_covariates, d)
        Mean of ``c (phi - centre)'``.
    second : ndarray of shape (d, d)
        Mean of ``(phi - centre) (phi - centre)'``.
    residual : ndarray of shape (2,)
        Mean sum of squared residuals, and mean number of rows.
    linear : ndarray of shape (k,)
        Mean of ``score + curvature @ value`` of the numeric parameters.
    curvature : ndarray of shape (k, k)
        Mean curvature.
    """

    covariates: np.ndarray
    cross: np.ndarray
    second: np.ndarray
    residual: np.ndarray
    linear: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of(cls, s: np.ndarray, n_covariates: int, d: int, k: int) -> Moments:
        """Split a vector of statistics."""
        shapes = ((n_covariates,) * 2, (n_covariates, d), (d, d), (2,), (k,), (k, k))
        parts, start = [], 0
        for shape in shapes:
            stop = start + math.prod(shape)
            parts.append(s[start:stop].reshape(shape))
            start = stop
        return cls(*parts)

    def spread(self, matrix: np.ndarray) -> np.ndarray:
        """Return the mean of ``(phi - M c - centre) (phi - M c - centre)'``."""
        product = matrix @ self.cross
        return self.second - product - product.T + matrix @ self.covariates @ matrix.T


def maximize_moments(
    moments: Moments,
    params: MixedEffectsParams,
    design: MixedEffectsDesign,
    centre: np.ndarray,
    floors: Floors,
    annealing: Annealing,
    closed_error: int | None,
    units: np.ndarray | float = 1.0,
) -> MixedEffectsParams:
    """Do the M-step."""
    coefficients, omega = params.coefficients, params.omega
    separable = _is_separable(design) and design.priors is None
    if design.n_latents:
        for _ in range(1 if separable else 2):
            weights = np.ones(len(omega)) if separable else None
            coefficients = _solve_means(
                moments, omega, weights, coefficients, design, centre
            )
            matrix = design.matrix(coefficients)
            matrix[:, 0] -= centre
            omega = np.where(design.pattern, moments.spread(matrix), 0.0)
            omega = _equal(omega, design)
            if design.priors is not None:
                omega = design.priors.pooled(omega, design.tied)
            omega = repaired_covariance(omega, floors)
            fixed = np.ix_(*[list(design.held_variances)] * 2)  # with their blocks
            omega[fixed] = params.omega[fixed]
    sigma = params.sigma.copy()
    variance = 0.0
    if closed_error is not None:
        least_residual = floors.residual[closed_error] ** 2
        variance = moments.residual[0] / moments.residual[1]
        if design.priors is not None:
            variance = design.priors.of_error(
                variance, closed_error, moments.residual[1]
            )
        variance = max(variance, least_residual)
    if params.steps < annealing.n_passes:
        least = annealing.factor**annealing.per_step
        falls = np.sqrt(np.maximum(least * np.diag(params.omega) / np.diag(omega), 1.0))
        falls[list(design.held_variances)] = 1.0
        omega = omega * falls[:, None] * falls
        if closed_error is not None:
            variance = max(variance, least * sigma[closed_error] ** 2)
    if closed_error is not None:
        sigma[closed_error] = np.sqrt(variance)
    numeric = _newton(moments, params.numeric, units, design)
    for e, entry in enumerate(design.numeric):
        if entry.kind == "residual":
            numeric[e] = max(numeric[e], np.log(floors.residual[entry.parameter]))
            sigma[entry.parameter] = np.exp(numeric[e])
    return MixedEffectsParams(
        coefficients, omega, sigma, numeric, params.steps + annealing.per_step
    )


def _equal(omega, design):
    """Return the covariance with the mean of those of the occasions."""
    if design.occasions is None:
        return omega
    d, m = len(design.random), len(design.occasions.parameters)
    starts = range(d, len(omega), m)
    mean = np.mean([omega[s : s + m, s : s + m] for s in starts], axis=0)
    averaged = omega.copy()
    averaged[d : d + m, d : d + m] = mean
    return design.spread_out(averaged)


def _is_separable(design):
    """Return whether the means do not depend on the covariance: a diagonal one."""
    return np.count_nonzero(design.pattern) == len(design.pattern)


def _solve_means(moments, omega, weights, coefficients, design, centre):
    """Return generalised least squares, with the fixed coefficients given."""
    free, positions, columns = design.free, design.positions, design.columns
    if not free.any():
        return coefficients
    target = moments.cross + moments.covariates[:, :1] * centre
    if moments.covariates.shape[0] == 1 and weights is not None and free.all():
        return (target[0] / moments.covariates[0, 0])[positions]
    # A diagonal covariance drops out of the normal equations, without priors.
    precision = np.linalg.inv(omega) if weights is None else np.diag(weights)
    normal = precision[positions[:, None], positions]
    normal = normal * moments.covariates[columns[:, None], columns]
    right = (precision @ target.T)[positions, columns]
    right = right[free] - normal[free][:, ~free] @ coefficients[~free]
    if design.priors is not None:
        prior_precisions = design.priors.precisions / design.priors.n_subjects
        normal = normal + np.diag(prior_precisions)
        right = right + (prior_precisions * design.priors.means)[free]
    solved = coefficients.copy()
    # Covariates that are constant or collinear leave a coefficient open.
    solved[free] = solve_scaled(normal[free][:, free], right)
    return solved


def repaired_covariance(omega, floors: Floors):
    """Return a covariance with variances and correlations' eigenvalues above floors."""
    variances = np.maximum(np.diag(omega), floors.variances)
    if np.count_nonzero(omega) == len(omega):
        return np.diag(variances)
    off = omega - np.diag(np.diag(omega))
    root = np.sqrt(variances)
    correlation = off / root[:, None] / root + np.eye(len(omega))
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < floors.correlation:
        lifted = (vectors * np.maximum(values, floors.correlation)) @ vectors.T
        correlation, _ = correlations(lifted)
    return correlation * root[:, None] * root


def solve_scaled(matrix, right):
    """Return a least-squares solution of normal equations of variables of any scale."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    shaped = scale if np.ndim(right) == 1 else scale[:, None]
    scaled = matrix / scale[:, None] / scale
    return np.linalg.lstsq(scaled, right / shaped, rcond=1e-12)[0] / shaped


def _newton(moments, value, units, design):
    """Return the maximum of the averaged quadratic surrogate, not too far away.

    What is at a bound of its box, and would leave it, stays there.
    """
    if len(value) == 0:
        return value
    curvature, slope = moments.curvature, moments.linear - moments.curvature @ value
    if (priors := design.priors) is not None:
        prior_precisions = priors.numeric_precisions / priors.n_subjects
        curvature = curvature + np.diag(prior_precisions)
        slope = slope - prior_precisions * (value - priors.numeric_means)
        for e, entry in enumerate(design.numeric):
            if entry.kind == "residual":
                square = priors.of_errors[entry.parameter] * np.exp(2 * value[e])
                slope[e] -= square / priors.n_subjects
                curvature[e, e] += 2 * square / priors.n_subjects
    low, high = design.box
    free = ~(((value <= low) & (slope < 0)) | ((value >= high) & (slope > 0)))
    slope, curvature = slope * free, curvature * free * free[:, None]
    scale = np.sqrt(np.maximum(np.diag(curvature), 1e-300))
    scaled = curvature / scale[:, None] / scale + 1e-8 * np.eye(len(value))
    step = np.linalg.lstsq(scaled, slope / scale, rcond=1e-10)[0] / scale
    bound = LONGEST_STEP * np.maximum(units, np.abs(value))
    step = np.where(np.isfinite(step), step, 0.0)
    step = step / max(1.0, float(np.max(np.abs(step) / bound)))
    return np.clip(value + step, low, high)
