"""What a fit of a Gaussian mixture says about covariances that cannot be trusted."""

from __future__ import annotations

import numpy as np

from sktem.estimators.fit_warnings import event_message, warn_user
from sktem.exceptions import FitWarning

__all__ = ["warn_of_covariances"]

#: Columns or components that a message names at most.
NAMED = 5
#: A standard deviation below this share of a column's offset is a rounding error.
ROUNDING = 1e-10


def warn_of_covariances(model, state) -> None:
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
    elif components := _short_of_rows(model, structure, state):
        warn_user(
            f"Component(s) {_listed(components)} have fewer rows than a covariance "
            "needs, and in some directions no variance but "
            f"reg_covar={model.reg_covar:g}: new rows can have very low likelihoods. "
            "Take fewer components, a simpler covariance_type, a covariance_prior, or "
            "fewer columns.",
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
    # A constant column has no variance, which is no fault of reg_covar.
    varies = (own > (ROUNDING * np.abs(model.centre)) ** 2).any(axis=0)
    return np.flatnonzero((whole < 2 * model.reg_covar).all(axis=0) & varies).tolist()


def _by_column(model, structure, covariances):
    """Return variances, one row for tied components, one column for spherical ones."""
    variances = structure.diagonals(covariances)
    if model.covariance_type == "spherical":
        variances = variances[:, None]
    return np.atleast_2d(variances)


def _short_of_rows(model, structure, state):
    """Return the components with too few rows and hardly more than `reg_covar`.

    Both, since few rows of many components can still spread a covariance, and since
    columns that depend on each other have no variance whatever the number of rows.
    """
    if model.covariance_prior is not None or event_message("", state.history.events):
        return []  # what was repaired has been told
    weights, covariances = state.params.weights, state.params.covariances
    if model.covariance_type == "tied":
        few = np.array([state.n_rows < structure.fewest_rows])
        sharing = np.arange(len(weights))[None]
        covariances = covariances[None]
    else:
        rows = state.n_rows * weights
        few = (rows > 0) & (rows < structure.fewest_rows)
        sharing = np.arange(len(weights))[:, None]
    narrow = structure.least_variances(covariances[few]) < 2 * model.reg_covar
    return sharing[few][narrow].ravel().tolist()
