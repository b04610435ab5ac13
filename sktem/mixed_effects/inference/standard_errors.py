"""Standard errors of a fitted model from its observed information."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.differences import DIFFERENCES, numerical_hessian
from sktem.mixed_effects.floors import correlations
from sktem.mixed_effects.inference.likelihood import linearized
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.marginal_likelihood import single_point
from sktem.mixed_effects.inference.node_numbers import (
    covariance_of,
    information_by_nodes,
    uncorrelated,
)
from sktem.mixed_effects.priors import log_prior

__all__ = ["at_bounds", "information_of", "noise", "standard_errors"]


class InformationRule(NamedTuple):
    """Accuracy and budget of standard errors.

    Attributes
    ----------
    draws_in_all : int
        Importance draws of all subjects together.
    least_draws : int
        Importance draws of a subject, at least.
    most_draws : int
        The same, at most.
    largest_error : float
        Relative error of a standard error from which it is not reported.
    at_bound : float
        Eigenvalue of correlations that is at its bound, in units of the bound.
    promise : float
        Gain that a Newton step may promise at a maximum.
    """

    draws_in_all: int = 20_000
    least_draws: int = 64
    most_draws: int = 1000
    largest_error: float = 0.2
    at_bound: float = 10.0
    promise: float = 0.5


#: The rule of all standard errors.
ERRORS = InformationRule()


class ObservedInformation(NamedTuple):
    """The observed information, with the bounds and directions for its inverse.

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
        The information.
    is_held : ndarray of bool of shape (p,)
        Parameters at their bounds.
    basis : ndarray or None
        Directions in which parameters are less correlated.
    relative : ndarray of shape (p,)
        Relative errors of the standard errors.
    promise : float
        Gain in log-likelihood that a Newton step promises.
    """

    matrix: np.ndarray
    is_held: np.ndarray
    basis: np.ndarray | None
    relative: np.ndarray
    promise: float

    def covariance(self) -> np.ndarray:
        """Return the covariance of the estimates, NaN where there is none."""
        return covariance_of(self.matrix, self.is_held, self.basis)


def information_of(fitted, method, n_draws) -> ObservedInformation:
    """Return the observed information about the parameters of a fit."""
    vector, params = fitted.vector, fitted.params
    is_held = at_bounds(vector, params)
    basis = None
    # Directions would mix a variance at its bound with others; differences of the
    # likelihood have too few digits for them.
    if method == "louis" and not is_held[vector.omega].any():
        basis = uncorrelated(vector, params)
    relative, promise = np.zeros(len(vector)), 0.0
    if method == "linearized":
        information = -numerical_hessian(
            lambda v: linearized(fitted, vector.params(v, params)).sum(),
            vector.of(params),
            np.where(vector.positive, 1e-3, 1e-2)
            * vector.units(params, fitted.rows.covariates),
        )
        information += log_prior(vector, params)[2]
    else:
        louis, relative = _louis(fitted, n_draws, is_held, basis)
        information = louis.observed
        covariance = np.nan_to_num(covariance_of(information, is_held, basis))
        promise = 0.5 * float(louis.slope @ covariance @ louis.slope)
    return ObservedInformation(information, is_held, basis, relative, promise)


def standard_errors(fitted, method, n_draws):
    """Return standard errors by name, their errors, and unusual findings."""
    vector, observed = fitted.vector, fitted.information(method, n_draws)
    relative = observed.relative
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(observed.covariance()))
    names = np.array(vector.names)
    unusual = _unusual(
        names, observed.is_held, errors, relative, observed.promise,
        method != "louis" and DIFFERENCES.is_lost(fitted.model.structure),
    )  # fmt: skip
    errors = np.where(relative > ERRORS.largest_error, np.nan, errors)
    of_errors = relative * errors
    # Population values by the delta method.
    design, values = vector.design, vector.of(fitted.params)
    for j, name in enumerate(names):
        if (transform := design.transform_of(name)) is not None:
            slope = abs(float(transform.derivative(np.array(values[j]))))
            errors[j], of_errors[j] = errors[j] * slope, of_errors[j] * slope
    return (
        dict(zip(names.tolist(), errors.tolist(), strict=True)),
        dict(zip(names.tolist(), of_errors.tolist(), strict=True)),
        unusual,
    )


def at_bounds(vector, params):
    """Return which parameters are at their bounds."""
    model, omega = vector.model, params.omega
    at_floor = model.at_floor(params)
    singular = np.zeros(len(omega), dtype=bool)
    least = ERRORS.at_bound * model.floors.correlation
    for j in range(len(omega)):
        block = np.flatnonzero(model.design.pattern[j] & ~at_floor)
        inner, _ = correlations(omega[np.ix_(block, block)])
        if len(block) > 1 and np.linalg.eigvalsh(inner)[0] < least:
            singular[j] = True
    is_held = vector.residual_at_floor(params) | vector.at_box(params)
    is_held[vector.omega] = (at_floor | singular)[vector.lower].any(axis=1)
    return is_held


def _draws(fitted, n_draws):
    """Return importance draws, or the one point without random effects."""
    n = len(fitted.rows)
    if fitted.model.design.n_latents == 0:
        return single_point(n)
    if n_draws == "auto":
        bounds = ERRORS.least_draws, ERRORS.most_draws
        n_draws = int(np.clip(ERRORS.draws_in_all // n, *bounds))
    return fitted.draws(n_draws)[0]


def _louis(fitted, n_draws, is_held, basis):
    """Return the information, and relative errors of the standard errors."""
    model, rows, params = fitted.model, fitted.rows, fitted.params
    if n_draws == "auto" and model.design.n_latents:
        modes, covariances = fitted.modes()
        louis = information_by_nodes(
            model, rows, params, modes, covariances, is_held, basis
        )
        if louis is not None and np.isfinite(louis.change).all():
            return louis
    draws = _draws(fitted, n_draws)
    louis = louis_information(model, rows, params, draws)
    covariance = covariance_of(louis.observed, is_held, basis)
    relative = np.zeros(len(is_held))
    if draws.random:
        relative, _ = noise(model, rows, params, draws, covariance)
    return louis, relative


def noise(model, X, params, draws, covariance):
    """Return relative Monte Carlo errors of standard errors, and that of the maximum.

    The latter is the log-likelihood by which the place with a slope of zero is expected
    to be below the maximum.
    """
    known = np.nan_to_num(covariance)
    batches = [louis_information(model, X, params, part) for part in draws.parts()]
    observed, slopes = (
        np.array([getattr(batch, name) for batch in batches])
        for name in ("observed", "slope")
    )
    moved = known @ (observed - observed.mean(axis=0)) @ known
    changes = np.diagonal(moved, axis1=1, axis2=2).std(axis=0, ddof=1)
    variances = np.where(np.diag(known) > 0, np.diag(known), np.inf)
    root = np.sqrt(len(batches))
    spread = (slopes - slopes.mean(axis=0)) / root / np.sqrt(len(batches) - 1)
    return changes / (2 * variances) / root, 0.5 * float(
        (spread @ known * spread).sum()
    )


def _unusual(names, is_held, errors, relative, promise, is_coarse):
    """Return a message on unusual findings, empty if there are none."""
    parts = []
    if is_held.any():
        parts.append(
            f"{names[is_held].tolist()} are at their bounds and have none; those of "
            "the other parameters are conditional on them"
        )
    unknown = np.isnan(errors) & ~is_held
    if unknown.any():
        parts.append(
            "the observed information does not determine "
            f"{names[unknown].tolist()}: the data may not identify these parameters, "
            "or the fit is not at a maximum of the likelihood"
        )
    noisy = (relative > ERRORS.largest_error) & ~is_held & ~unknown
    if noisy.any():
        parts.append(
            f"the Monte Carlo error of those of {names[noisy].tolist()} is too large: "
            "increase n_draws"
        )
    if is_coarse:
        parts.append(
            "the model is integrated too coarsely for differences of its likelihood: "
            'have method="louis", or a smaller rtol, such as 1e-8'
        )
    if promise > ERRORS.promise:
        parts.append(
            "the estimates are not at a maximum of the likelihood, a Newton step "
            f"would raise its logarithm by about {promise:.2g}"
        )
    return f"Standard errors: {'; '.join(parts)}." if parts else ""
