"""Likelihoods and residuals with the model function made linear at the modes."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.differences import DIFFERENCES
from sktem.sequences.rows import each_block

__all__ = ["linearized_log_likelihood", "linearized_residuals"]


class LinearRows(NamedTuple):
    """Rows about which random effects have a linear influence.

    Attributes
    ----------
    residuals : ndarray of shape (n_rows,)
        Observations minus their marginal means, of logarithms for errors of these.
    slopes : ndarray of shape (n_rows, d)
        Derivatives by independent standard normal effects.
    deviations : ndarray of shape (n_rows,)
        Standard deviations of the residual error.
    on_logarithms : ndarray of bool of shape (n_rows,)
        Which rows are logarithms.
    """

    residuals: np.ndarray
    slopes: np.ndarray
    deviations: np.ndarray
    on_logarithms: np.ndarray

    @classmethod
    def of(cls, model, params, X, modes) -> LinearRows:
        """Return the rows of subjects in memory."""
        means, root = model.prior_moments(X, params)
        d = modes.shape[1]
        model = model.in_step(1 + 2 * d)
        step = 0.1 * DIFFERENCES.step(model.structure) * np.sqrt((root**2).sum(axis=1))
        step = np.maximum(step, 1e-9 * np.abs(modes).max(axis=0, initial=0.0))
        axes = np.diag(step)
        places = modes[:, None] + np.concatenate([np.zeros((1, d)), axes, -axes])
        predictions = _predicted(model, X, places, params.numeric)
        f, above, below = np.split(predictions, [1, 1 + d], axis=1)
        f, slopes = f[:, 0], (above - below) / (2 * step)
        error = model.error.on(X)
        g = error.standard_deviation(f, params.sigma, model.least_prediction)
        logs = np.broadcast_to(error.on_logarithms, len(f))
        with np.errstate(invalid="ignore", divide="ignore"):
            slopes = np.where(logs[:, None], slopes / f[:, None], slopes)
            residuals = np.where(logs, np.log(X.y) - np.log(f), X.y - f)
        residuals = residuals + (slopes * (modes - means)[X.subject_of_row]).sum(axis=1)
        return cls(residuals, slopes @ root, g, logs)

    def covariance(self, rows) -> np.ndarray:
        """Return the covariance of some rows of a subject."""
        slopes = self.slopes[rows]
        return slopes @ slopes.T + np.diag(self.deviations[rows] ** 2)


def _predicted(model, X, Z, numeric):
    """Return the predictions of rows at several places, of shape (n_rows, n_places)."""
    n_places = Z.shape[1]
    copies = X.repeat(n_places)
    f = model.predict_rows(copies, np.concatenate(Z), numeric)
    first = copies.offsets[:-1].reshape(-1, n_places)[X.subject_of_row]
    within = np.arange(len(X.y)) - X.offsets[:-1][X.subject_of_row]
    return f[first + within[:, None]]


def linearized_log_likelihood(model, X, params, modes):
    """Return log-likelihoods of the subjects."""
    of_block = partial(_log_likelihoods, model, params)
    return np.concatenate(each_block(X, of_block, lambda part: (modes[part],)))


def _log_likelihoods(model, params, X, modes):
    """Return log-likelihoods of subjects that are in memory."""
    linear = LinearRows.of(model, params, X, modes)
    values = np.empty(len(X))
    for i, (start, stop) in enumerate(zip(X.offsets[:-1], X.offsets[1:], strict=True)):
        rows = slice(start, stop)
        lower = np.linalg.cholesky(linear.covariance(rows))
        white = np.linalg.solve(lower, linear.residuals[rows])
        values[i] = -0.5 * white @ white - np.log(np.diag(lower)).sum()
        values[i] -= 0.5 * (stop - start) * np.log(2 * np.pi)
    y = np.where(linear.on_logarithms, X.y, 1.0)
    return values - X.sums(np.log(y))


def linearized_residuals(model, X, params, modes, used):
    """Return residuals over the root of their covariance, NaN for others than used."""
    linear = LinearRows.of(model, params, X, modes)
    residuals = np.full(len(X.y), np.nan)
    for start, stop in zip(X.offsets[:-1], X.offsets[1:], strict=True):
        rows = start + np.flatnonzero(used[start:stop])
        if np.isfinite(covariance := linear.covariance(rows)).all():
            values, axes = np.linalg.eigh(covariance)
            residuals[rows] = axes @ (axes.T @ linear.residuals[rows] / np.sqrt(values))
    return residuals
