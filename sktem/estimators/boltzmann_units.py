"""Visible units: from the columns of X to what a machine sees, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

__all__ = ["VisibleUnits"]


@dataclass
class VisibleUnits:
    """Centre, scale and base rates of the visible units.

    Attributes
    ----------
    gaussian : bool
        Whether the units are real-valued.
    centre, scale : ndarray of shape (n_features,)
        Of Gaussian units; 0 and 1 otherwise.
    logits : ndarray of shape (n_features,)
        Where the biases start: logits of the means; of Gaussian units, zero.
    """

    gaussian: bool
    centre: np.ndarray
    scale: np.ndarray
    logits: np.ndarray

    @classmethod
    def of(cls, X, gaussian):
        """Return the units of data.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            Data; NaN means not observed.
        gaussian : bool
            Whether the units are real-valued.

        Returns
        -------
        VisibleUnits
            Centre, scale and base rates.
        """
        n, d = X.shape
        if sparse.issparse(X):
            total, count = np.asarray(X.sum(axis=0)).ravel(), np.full(d, float(n))
        else:
            total = np.nansum(X, axis=0, dtype=np.float64)
            count = np.sum(~np.isnan(X), axis=0).astype(np.float64)
        if not gaussian:
            # One row of 1/2 in addition keeps the logits finite.
            mean = (total + 0.5) / (count + 1.0)
            logits = np.log(mean) - np.log1p(-mean)
            return cls(False, np.zeros(d), np.ones(d), logits)
        centre = total / np.maximum(count, 1.0)
        squares = np.nansum(np.square(X - centre, dtype=np.float64), axis=0)
        scale = np.sqrt(squares / np.maximum(count, 1.0))
        # A column that hardly varies gets a small share of the typical scale.
        typical = np.sqrt(np.mean(scale**2))
        scale = np.maximum(scale, 1e-3 * typical) if typical > 0 else np.ones(d)
        return cls(True, centre, scale, np.zeros(d))

    @staticmethod
    def missing(X):
        """Return whether a value is not observed."""
        return not sparse.issparse(X) and bool(np.isnan(X).any())

    def inputs(self, X, dtype):
        """Return what the machine sees; NaN stays NaN."""
        if self.gaussian:
            X = (X - self.centre) / self.scale
        return X.astype(dtype, copy=False)

    def outputs(self, values):
        """Return values of the machine as values of the columns of X."""
        return values * self.scale + self.centre if self.gaussian else values

    @property
    def log_scale(self):
        """Sum of the logarithms of the scales."""
        return float(np.log(self.scale).sum())
