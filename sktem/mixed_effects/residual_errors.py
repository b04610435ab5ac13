"""Residual errors: how observations scatter about the prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "RESIDUAL_ERRORS",
    "ResidualError",
    "least_prediction",
    "row_log_density",
    "squared_residuals",
    "standard_deviation",
]

#: Predictions nearer to zero than this have the scatter of one of this size, so that a
#: proportional error does not make them exact; a share of the median size of y.
LEAST_PREDICTION = 1e-8


def least_prediction(y: np.ndarray) -> float:
    """Return the size below which predictions have the scatter of one of this size.

    Parameters
    ----------
    y : ndarray
        Observations.

    Returns
    -------
    float
        A share of the median size of the observations that are not zero.
    """
    sizes = np.abs(y[y != 0])
    return LEAST_PREDICTION * (float(np.median(sizes)) if len(sizes) else 1.0)


class ResidualError(NamedTuple):
    """A named residual error with standard deviation g(f).

    Attributes
    ----------
    code : int
        Number by which compiled code knows it.
    names : tuple of str
        Names of its parameters.
    """

    code: int
    names: tuple[str, ...]


#: Residual errors by name: ``a``, ``b |f|``, ``sqrt(a^2 + b^2 f^2)``, and ``a`` on the
#: logarithm of the observations.
RESIDUAL_ERRORS = {
    "constant": ResidualError(0, ("a",)),
    "proportional": ResidualError(1, ("b",)),
    "combined": ResidualError(2, ("a", "b")),
    "exponential": ResidualError(3, ("a",)),
}


def standard_deviation(code: int, f: np.ndarray, sigma, least: float) -> np.ndarray:
    """Return g(f), for the exponential error on the scale of the logarithm.

    Parameters
    ----------
    code : int
        Code of the residual error.
    f : ndarray
        Predictions.
    sigma : sequence of two floats or arrays
        Parameters a and b; the one that the error does not have is not used.
    least : float
        Size that predictions have at least, for the proportional error.

    Returns
    -------
    ndarray
        Standard deviations.
    """
    a, b = sigma
    if code == 1:
        return b * np.maximum(np.abs(f), least)
    if code == 2:
        return np.sqrt(a**2 + (b * f) ** 2)
    return np.broadcast_to(a, np.shape(f))


def row_log_density(
    code: int, y: np.ndarray, f: np.ndarray, sigma, least: float
) -> np.ndarray:
    """Return the log-density of observations given predictions.

    Parameters
    ----------
    code : int
        Code of the residual error.
    y, f : ndarray of shape (n_rows,)
        Observations and predictions.
    sigma : sequence of two floats or arrays
        Parameters a and b.
    least : float
        Size that predictions have at least, for the proportional error.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log-densities of y (with the Jacobian of the logarithm, if it is taken).
    """
    g = standard_deviation(code, f, sigma, least)
    if code == 3:
        log_y = np.log(y)
        residual = log_y - np.log(f)
        return -0.5 * (residual / g) ** 2 - np.log(g) - 0.5 * np.log(2 * np.pi) - log_y
    return -0.5 * ((y - f) / g) ** 2 - np.log(g) - 0.5 * np.log(2 * np.pi)


def squared_residuals(
    code: int, y: np.ndarray, f: np.ndarray, least: float
) -> np.ndarray:
    """Return squares whose mean is the variance parameter, for errors that have one.

    Parameters
    ----------
    code : int
        Code of the residual error.
    y, f : ndarray of shape (n_rows,)
        Observations and predictions.
    least : float
        Size that predictions have at least, for the proportional error.

    Returns
    -------
    ndarray of shape (n_rows,)
        Squares; zeros for the combined error, whose parameters have none.
    """
    if code == 0:
        return (y - f) ** 2
    if code == 1:
        return ((y - f) / np.maximum(np.abs(f), least)) ** 2
    if code == 3:
        return (np.log(y) - np.log(f)) ** 2
    return np.zeros_like(y)
