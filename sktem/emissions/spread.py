"""Covariances that are hardly more than the number that was added to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sktem.emissions.clusters import centred
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.wording import AboutColumns, listed

__all__ = ["Spread", "doubt_of_covariances", "spread_of"]


class Narrowness(NamedTuple):
    """Thresholds for covariances that are hardly more than ``reg_covar``.

    Attributes
    ----------
    near : float
        A variance below this many times ``reg_covar`` is mostly that.
    much : float
        If all variances of a column are below this many times ``reg_covar``, that is a
        tenth of them or more, by which the states are too wide.
    spread : float
        It is an accident of the state where all rows together vary, in the same
        direction, by more than this many times ``reg_covar``.
    rounding : float
        A standard deviation below this share of a column's offset is a rounding error.
    share : float
        A variance below this share of that of all rows is none.
    """

    near: float = 2.0
    much: float = 10.0
    spread: float = 100.0
    rounding: float = 1e-10
    share: float = 1e-6


NARROWNESS = Narrowness()


class Spread(NamedTuple):
    """Covariances of the states in some columns.

    Attributes
    ----------
    covariance_type : str
        Name of their structure.
    means : ndarray of shape (K, d)
        Centres of the states.
    covariances : ndarray
        Covariances in the shape of the structure, ``reg_covar`` included.
    reg_covar : float
        What was added to the diagonals.
    columns : ndarray of shape (d,)
        Columns that they are of.
    offset : ndarray of shape (d,)
        Distance of the columns from zero.
    has_prior : bool
        Whether a prior keeps the covariances wide.
    """

    covariance_type: str
    means: np.ndarray
    covariances: np.ndarray
    reg_covar: float
    columns: np.ndarray
    offset: np.ndarray
    has_prior: bool = False

    @property
    def structure(self):
        """Structure of the covariances."""
        return COVARIANCES[self.covariance_type](*self.means.shape)

    def total(self, weights):
        """Return the covariance matrix of all rows together, weighted by state."""
        deviations = self.means - weights @ self.means
        full = self.structure.full(self.covariances)
        within = np.einsum("k,kij->ij", weights, full)
        return within + (weights[:, None] * deviations).T @ deviations

    def variances(self):
        """Return variances, one row for tied states, one column for spherical ones."""
        variances = self.structure.diagonals(self.covariances)
        is_spherical = self.covariance_type == "spherical"
        return np.atleast_2d(variances[:, None] if is_spherical else variances)


def spread_of(emission, params, covariances=None, covariance_type=None, **options):
    """Return the covariances of an emission with means, a centre and ``reg_covar``."""
    return Spread(
        covariance_type or emission.covariance_type,
        params.means,
        params.covariances if covariances is None else covariances,
        emission.reg_covar,
        np.arange(params.means.shape[1]),
        np.abs(params.centre),
        **options,
    )


def doubt_of_covariances(
    spread: Spread,
    weights: np.ndarray,
    rows: Callable[[], np.ndarray],
    sample: Callable[[], np.ndarray],
    label: str,
    is_repaired: bool = False,
) -> AboutColumns | None:
    """Return why covariances cannot be trusted, or None.

    Parameters
    ----------
    spread : Spread
        Covariances of an emission.
    weights : ndarray of shape (K,)
        Shares of the states.
    rows : callable
        Returns the rows of each state, (K,).
    sample : callable
        Returns some rows, with all columns.
    label : str
        Name of a state, such as "Component".
    is_repaired : bool, default=False
        Whether degenerate states have been reported already.

    Returns
    -------
    AboutColumns or None
        A message for the user.
    """
    structure, reg_covar = spread.structure, spread.reg_covar
    if structure.known or reg_covar == 0:
        return None
    if columns := _swamped_columns(spread, weights, sample):
        return AboutColumns(
            f"reg_covar={reg_covar:g} is a tenth or more of the variance that was "
            "found in column(s) {columns}: divide the columns by their standard "
            "deviations, or choose a smaller reg_covar.",
            columns,
        )
    narrow = structure.least_variances(spread.covariances)
    is_wide = not (narrow < NARROWNESS.near * reg_covar).any()
    if spread.has_prior or is_repaired or is_wide:
        return None
    if states := _short_of_rows(spread, rows()):
        return AboutColumns(
            f"{label}(s) {listed(states)} have fewer rows than a covariance "
            f"needs, and in some directions no variance but reg_covar={reg_covar:g}: "
            "new rows can have very low likelihoods. Take "
            f"fewer {label.lower()}s, a simpler covariance_type, a covariance_prior, "
            "or fewer columns."
        )
    if places := _flat_directions(spread, weights):
        states, columns = places
        return AboutColumns(
            f"{label}(s) {listed(states)} have no variance but "
            f"reg_covar={reg_covar:g} in directions (mostly of column(s) "
            "{columns}) in which other rows differ: likelihoods measure "
            "reg_covar there, and new rows can have very low ones. Where columns have "
            "few distinct values, take them for counts or labels, as integers or text "
            "with emission='auto' of StochasticEMMixture or HiddenMarkovModel, a "
            "larger reg_covar, such as a hundredth of the squared distance between two "
            "values, or a covariance_prior, or leave them out.",
            columns,
        )
    return None


def _swamped_columns(spread, weights, sample):
    """Return the columns in which `reg_covar` widens all states by much."""
    whole, reg_covar = spread.variances(), spread.reg_covar
    near = (whole < NARROWNESS.much * reg_covar).all(axis=0)
    if not near.any():
        return []
    # Where all rows of a state are equal, that is no fault of reg_covar.
    total = np.diagonal(spread.total(weights)) - reg_covar
    rounding = (NARROWNESS.rounding * spread.offset) ** 2
    least = np.maximum(rounding, NARROWNESS.share * total)
    varies = (whole - reg_covar > least).any(axis=0)
    if (near & ~varies).any():
        # Variances that are a rounding error of reg_covar are seen in rows only.
        columns = np.asarray(sample(), dtype=np.float64)[:, spread.columns]
        variances = (np.nan_to_num(centred(columns)) ** 2).mean(axis=0)
        varies |= (variances > rounding) & (variances < reg_covar)
    return spread.columns[near & varies].tolist()


def _short_of_rows(spread, rows):
    """Return the states with too few rows and hardly more than `reg_covar`.

    Both, since few rows of many states can still spread a covariance, and since columns
    that depend on each other have no variance whatever the number of rows.
    """
    structure, covariances = spread.structure, spread.covariances
    if spread.covariance_type == "tied":
        few = np.array([rows.sum() < structure.fewest_rows])
        sharing = np.arange(len(rows))[None]
        covariances = covariances[None]
    else:
        few = (rows > 0) & (rows < structure.fewest_rows)
        sharing = np.arange(len(rows))[:, None]
    if not few.any():
        return []
    least = structure.least_variances(covariances[few])
    narrow = least < NARROWNESS.near * spread.reg_covar
    return sharing[few][narrow].ravel().tolist()


def _flat_directions(spread, weights):
    """Return states without variance where all rows have some, and the columns."""
    covariances = spread.structure.full(spread.covariances)
    total = spread.total(weights)
    states, columns = [], set()
    for k in np.flatnonzero(weights > 0):
        values, vectors = np.diagonal(covariances[k]), np.eye(len(total))
        if spread.covariance_type not in ("diag", "spherical"):
            values, vectors = np.linalg.eigh(covariances[k])
        flat = vectors[:, values < NARROWNESS.near * spread.reg_covar]
        variances = np.einsum("if,ij,jf->f", flat, total, flat)
        flat = flat[:, variances > NARROWNESS.spread * spread.reg_covar]
        if flat.size:
            states.append(int(k))
            columns.update(spread.columns[np.abs(flat).argmax(axis=0)].tolist())
    return (states, sorted(columns)) if states else None
