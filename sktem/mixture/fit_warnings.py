"""What a fit of a Gaussian mixture says about covariances that cannot be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.emissions.covariances import COVARIANCES
from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.exceptions import FitWarning

__all__ = ["flat_directions", "warn_of_covariances", "warn_of_flat_directions"]

#: Columns or components that a message names at most.
NAMED = 5


class Narrowness(NamedTuple):
    """When a covariance is said to be hardly more than ``reg_covar``.

    Attributes
    ----------
    own : float
        A variance below this many times ``reg_covar`` is mostly that.
    spread : float
        It is an accident of the component where all rows together vary, in the same
        direction, by more than this many times ``reg_covar``.
    rounding : float
        A standard deviation below this share of a column's offset is a rounding error.
    share : float
        A variance below this share of that of all rows is none.
    """

    own: float = 2.0
    spread: float = 100.0
    rounding: float = 1e-10
    share: float = 1e-6


NARROWNESS = Narrowness()


def warn_of_covariances(model, state, X, sample_weight) -> None:
    """Warn where ``reg_covar`` is what most of a covariance consists of."""
    params = state.params
    structure = model.structure(params.means.shape[1])
    if structure.known or model.reg_covar == 0:
        return
    if columns := _swamped_columns(model, structure, state):
        warn_user(
            f"reg_covar={model.reg_covar:g} is most of the variance that was found in "
            f"column(s) {_listed(columns)}: divide the columns by their standard "
            "deviations, or choose a smaller reg_covar.",
            FitWarning,
        )
        return
    if model.covariance_prior is not None or event_message("", state.history.events):
        return  # what was repaired has been told
    narrow = structure.least_variances(params.covariances)
    if not (narrow < NARROWNESS.own * model.reg_covar).any():
        return
    if components := _short_of_rows(model, structure, params, X, sample_weight):
        warn_user(
            f"Component(s) {_listed(components)} have fewer rows than a covariance "
            "needs, and in some directions no variance but "
            f"reg_covar={model.reg_covar:g}: new rows can have very low likelihoods. "
            "Take fewer components, a simpler covariance_type, a covariance_prior, or "
            "fewer columns.",
            FitWarning,
        )
    elif places := flat_directions(model.reg_covar, structure, params):
        warn_of_flat_directions(model.reg_covar, *places)


def warn_of_flat_directions(reg_covar, components, columns) -> None:
    """Warn of components without variance in directions in which others have some."""
    warn_user(
        f"Component(s) {_listed(components)} have no variance but "
        f"reg_covar={reg_covar:g} in directions (mostly of column(s) "
        f"{_listed(columns)}) in which other rows differ: likelihoods measure "
        "reg_covar there, and new rows can have very low ones. Where columns have few "
        "distinct values, take a larger reg_covar, such as a hundredth of the squared "
        "distance between two values, a covariance_prior, or leave them out.",
        FitWarning,
    )


def _listed(numbers):
    """Return the first numbers, and how many more there are."""
    more = len(numbers) - NAMED
    listed = ", ".join(map(str, numbers[:NAMED]))
    return f"{listed} and {more} more" if more > 0 else listed


def _swamped_columns(model, structure, state):
    """Return the columns in which all components are as wide as `reg_covar`."""
    mass, first, moments = model.split(state.solver.s)
    mass = np.maximum(mass, 0.0)
    means = first / np.where(mass > 0, mass, 1.0)[:, None]
    scatter = structure.unpack(moments) - structure.outer(means, mass)
    # Without reg_covar, beside which the variances of small columns would vanish.
    own = _by_column(model, structure, structure.normalise(scatter, mass))
    whole = _by_column(model, structure, state.params.covariances)
    # Where all rows of a component are equal, that is no fault of reg_covar.
    total = np.diagonal(_total_covariance(structure, state.params)) - model.reg_covar
    least = np.maximum(
        (NARROWNESS.rounding * model.centre) ** 2, NARROWNESS.share * total
    )
    varies = (own > least).any(axis=0)
    return np.flatnonzero(
        (whole < NARROWNESS.own * model.reg_covar).all(axis=0) & varies
    ).tolist()


def _by_column(model, structure, covariances):
    """Return variances, one row for tied components, one column for spherical ones."""
    variances = structure.diagonals(covariances)
    if model.covariance_type == "spherical":
        variances = variances[:, None]
    return np.atleast_2d(variances)


def effective_rows(model, params, X, sample_weight):
    """Return how many rows each component has: few, where few have all the weight.

    Of weights it is ``sum(w r)^2 / sum(w^2 r)`` (Kish 1965), r being the posterior
    probabilities of the component.
    """
    if sample_weight is None:
        return len(X) * params.weights
    weights = sample_weight / sample_weight.max()
    squares = weights**2
    s, _ = model.expected_statistics(X, params, squares)
    mass = np.maximum(model.split(s)[0], 0.0) * squares.sum()
    own = weights.sum() * params.weights
    return np.divide(own**2, mass, out=np.zeros_like(mass), where=mass > 0)


def _short_of_rows(model, structure, params, X, sample_weight):
    """Return the components with too few rows and hardly more than `reg_covar`.

    Both, since few rows of many components can still spread a covariance, and since
    columns that depend on each other have no variance whatever the number of rows.
    """
    rows = effective_rows(model, params, X, sample_weight)
    covariances = params.covariances
    if model.covariance_type == "tied":
        few = np.array([rows.sum() < structure.fewest_rows])
        sharing = np.arange(len(rows))[None]
        covariances = covariances[None]
    else:
        few = (rows > 0) & (rows < structure.fewest_rows)
        sharing = np.arange(len(rows))[:, None]
    least = structure.least_variances(covariances[few])
    narrow = least < NARROWNESS.own * model.reg_covar
    return sharing[few][narrow].ravel().tolist()


def _total_covariance(structure, params):
    """Return the covariance matrix of all rows together."""
    weights, means = params.weights, params.means
    deviations = means - weights @ means
    within = np.einsum("k,kij->ij", weights, structure.full(params.covariances))
    return within + (weights[:, None] * deviations).T @ deviations


def flat_directions(reg_covar, structure, params):
    """Return components without variance where all rows have some, and the columns."""
    covariances = structure.full(params.covariances)
    total, weights = _total_covariance(structure, params), params.weights
    by_axis = issubclass(type(structure), COVARIANCES["diag"])
    components, columns = [], set()
    for k in np.flatnonzero(weights > 0):
        values, vectors = np.diagonal(covariances[k]), np.eye(len(total))
        if not by_axis:
            values, vectors = np.linalg.eigh(covariances[k])
        flat = vectors[:, values < NARROWNESS.own * reg_covar]
        spread = np.einsum("if,ij,jf->f", flat, total, flat)
        flat = flat[:, spread > NARROWNESS.spread * reg_covar]
        if flat.size:
            components.append(int(k))
            columns.update(np.abs(flat).argmax(axis=0).tolist())
    return (components, sorted(columns)) if components else None
