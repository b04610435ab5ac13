"""Parameters as one vector, and the observed information about them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "Entries",
    "entries",
    "from_vector",
    "natural_units",
    "numerical_hessian",
    "observed_information",
    "parameter_names",
    "to_vector",
]


class Entries(NamedTuple):
    """Masks over the vector of the estimated parameters.

    Attributes
    ----------
    of_omega, of_residual, variances : ndarray of bool of shape (p,)
        Entries of the covariance, residual parameters, and the diagonal of the former.
    """

    of_omega: np.ndarray
    of_residual: np.ndarray
    variances: np.ndarray

    @property
    def positive(self) -> np.ndarray:
        """Which entries are positive, so that they have a logarithm."""
        return self.variances | self.of_residual


def free_omega(design):
    """Return rows and columns of the free entries of the covariance."""
    return np.array([
        (j, k)
        for j in range(len(design.random))
        for k in range(j + 1)
        if design.pattern[j, k] and not (j == k and design.held_variances[j])
    ], dtype=np.int64).reshape(-1, 2)  # fmt: skip


def closed_residual(model):
    """Positions of the residual parameters with a closed form."""
    closed = model.closed_residual
    return [] if closed is None else [closed]


def parameter_names(model):
    """Return the names of the estimated parameters, in the order of the vector.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.

    Returns
    -------
    list of str
        Such as "ka", "beta_Weight(CL)", "omega2_ka", "cov_V_CL", "a".
    """
    design = model.design
    names = []

    def term(parameter, column, labels, intercept):
        plain = intercept and column == 0
        names.append(parameter if plain else f"beta_{labels[column]}({parameter})")

    random = [design.names[p] for p in design.random]
    terms = zip(design.positions, design.columns, design.free, strict=True)
    for position, column, free in terms:
        if free:
            term(random[position], column, design.covariate_names, True)
    for entry in design.numeric:
        if entry.kind == "residual":
            names.append(design.residual_names[entry.parameter])
        else:
            by_row = entry.kind == "row"
            labels = design.row_covariate_names if by_row else design.covariate_names
            term(design.names[entry.parameter], entry.column, labels, not by_row)
    for j, k in free_omega(design):
        names.append(
            f"omega2_{random[j]}" if j == k else f"cov_{random[k]}_{random[j]}"
        )
    return names + [design.residual_names[j] for j in closed_residual(model)]


def entries(model):
    """Return where the parts of the vector are.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.

    Returns
    -------
    Entries
        Masks over the vector.
    """
    design = model.design
    lower = free_omega(design)
    residual = [entry.kind == "residual" for entry in design.numeric]
    n_closed = len(closed_residual(model))
    before = int(design.free.sum()) + len(residual)
    p = before + len(lower) + n_closed
    of_omega, of_residual = np.zeros(p, dtype=bool), np.zeros(p, dtype=bool)
    of_omega[before : before + len(lower)] = True
    of_residual[before - len(residual) : before] = residual
    of_residual[before + len(lower) :] = True
    variances = np.zeros(p, dtype=bool)
    variances[of_omega] = lower[:, 0] == lower[:, 1]
    return Entries(of_omega, of_residual, variances)


def natural_units(model, params, covariates=None):
    """Return a size of each entry of the vector, by which steps can be chosen.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.
    params : MixedEffectsParams
        Where.
    covariates : ndarray of shape (n, n_covariates) or None, default=None
        Covariates of the subjects; None means that they are of order one.

    Returns
    -------
    ndarray of shape (p,)
        Standard deviations of random effects over the size of the covariate, what the
        model knows of parameters without a closed form, products of standard
        deviations, and residual errors themselves.
    """
    design = model.design
    spread = np.sqrt(np.diag(params.omega))
    width = np.ones(design.constant.shape[1])
    if covariates is not None:
        width = np.sqrt((covariates**2).mean(axis=0))
        width = np.where(width > 0, width, 1.0)
    free = design.free
    numeric = [
        np.exp(value) if entry.kind == "residual" else unit
        for entry, value, unit in zip(
            design.numeric, params.numeric, model.units_of_numeric(), strict=True
        )
    ]
    j, k = free_omega(design).T
    return np.concatenate([
        spread[design.positions[free]] / width[design.columns[free]],
        np.array(numeric, dtype=float),
        spread[j] * spread[k],
        params.sigma[closed_residual(model)],
    ])  # fmt: skip


def to_vector(model, params):
    """Return the estimated parameters as a vector.

    Coefficients are on the Gaussian scale, and residual parameters natural.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.
    params : MixedEffectsParams
        Parameters.

    Returns
    -------
    ndarray of shape (n_parameters,)
        The vector.
    """
    design = model.design
    residual = [entry.kind == "residual" for entry in design.numeric]
    numeric = np.where(residual, np.exp(params.numeric * residual), params.numeric)
    lower = free_omega(design)
    return np.concatenate([
        params.coefficients[design.free],
        numeric,
        params.omega[lower[:, 0], lower[:, 1]],
        params.sigma[closed_residual(model)],
    ])  # fmt: skip


def from_vector(model, params, vector):
    """Return parameters with the estimated ones taken from a vector.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.
    params : MixedEffectsParams
        The others.
    vector : ndarray of shape (n_parameters,)
        The vector.

    Returns
    -------
    MixedEffectsParams
        Parameters.
    """
    design = model.design
    coefficients, sigma = params.coefficients.copy(), params.sigma.copy()
    omega, first = params.omega.copy(), int(design.free.sum())
    coefficients[design.free] = vector[:first]
    numeric = vector[first : first + len(design.numeric)].copy()
    for e, entry in enumerate(design.numeric):
        if entry.kind == "residual":
            sigma[entry.parameter] = numeric[e]
            numeric[e] = np.log(numeric[e])
    lower = free_omega(design)
    first += len(design.numeric)
    values = vector[first : first + len(lower)]
    omega[lower[:, 0], lower[:, 1]] = omega[lower[:, 1], lower[:, 0]] = values
    closed = closed_residual(model)
    sigma[closed] = vector[len(vector) - len(closed) :]
    return params._replace(
        coefficients=coefficients, omega=omega, sigma=sigma, numeric=numeric
    )


def numerical_hessian(function, vector, steps):
    """Return a Hessian by central differences.

    Parameters
    ----------
    function : callable
        Maps a vector to a number.
    vector : ndarray of shape (p,)
        Where.
    steps : ndarray of shape (p,)
        Lengths of the differences.

    Returns
    -------
    ndarray of shape (p, p)
        The Hessian.
    """
    p = len(vector)
    shifts = np.diag(steps)
    centre = function(vector)
    above = [function(vector + shifts[j]) for j in range(p)]
    below = [function(vector - shifts[j]) for j in range(p)]
    hessian = np.empty((p, p))
    for j in range(p):
        hessian[j, j] = (above[j] - 2 * centre + below[j]) / steps[j] ** 2
        for k in range(j):
            both = function(vector + shifts[j] + shifts[k])
            neither = function(vector - shifts[j] - shifts[k])
            mixed = both + neither - above[j] - above[k] - below[j] - below[k]
            value = (mixed + 2 * centre) / (2 * steps[j] * steps[k])
            hessian[j, k] = hessian[k, j] = value
    return hessian


def observed_information(model, X, params, draws):
    """Return minus the Hessian of the log-likelihood, on points that stay fixed.

    The same points serve for all differences, so that their noise cancels; only the
    parameters that the observations depend on ask for the model function again.

    Parameters
    ----------
    model : NonlinearMixedEffectsModel
        The model.
    X : GroupedRows
        Subjects.
    params : MixedEffectsParams
        Where.
    draws : ImportanceDraws
        Points of the latents.

    Returns
    -------
    ndarray of shape (p, p)
        Information about the vector of :func:`to_vector`.
    """
    kept: dict[bytes, np.ndarray] = {}

    def log_likelihood(vector):
        changed = from_vector(model, params, vector)
        key = np.concatenate([changed.numeric, changed.sigma]).tobytes()
        if key not in kept:
            kept[key] = draws.log_conditional(model, X, changed)
        log_joint = kept[key] + draws.log_prior(model, X, changed)
        return draws.log_likelihood(log_joint)[0].sum()

    vector = to_vector(model, params)
    steps = 1e-3 * natural_units(model, params, X.covariates)
    steps[: int(model.design.free.sum())] *= 10
    return -numerical_hessian(log_likelihood, vector, steps)
