"""Least variances of random effects, and least shares that correlations leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Floors", "correlations"]

#: Least variance and least eigenvalue of correlations, in units of the wide ones.
LEAST = 1e-6
#: Least eigenvalue of correlations at all: rounding leaves a Cholesky factor there.
ROUNDED = 1e-13


class Floors(NamedTuple):
    """Least values of the variances and of the residual error.

    Attributes
    ----------
    variances : ndarray of shape (d,)
        Shares of variances at the start, or of what each wide one has alone.
    residual : ndarray
        Parameters of the residual error.
    own_part : float
        Least eigenvalue of the wide correlations, one without these.
    own_shares : ndarray of shape (d,)
        Shares of wide deviations that random effects before do not explain.
    """

    variances: np.ndarray
    residual: np.ndarray
    own_part: float
    own_shares: np.ndarray

    @classmethod
    def of(cls, omega: np.ndarray, wide: np.ndarray | None, residual) -> Floors:
        """Return the floors at a covariance at the start, and a wide one or none."""
        if wide is None:
            return cls(LEAST * np.diag(omega), residual, 1.0, np.ones(len(omega)))
        inner, widths = correlations(wide)
        own_shares = np.diag(np.linalg.cholesky(wide)) / widths
        own_part = float(np.linalg.eigvalsh(inner)[0])
        return cls(LEAST / np.diag(np.linalg.inv(wide)), residual, own_part, own_shares)

    @property
    def correlation(self) -> float:
        """Least eigenvalue of the correlations, a share of the wide ones'."""
        return max(LEAST * self.own_part, ROUNDED)


def correlations(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the correlations of a covariance, and the deviations."""
    widths = np.sqrt(np.diag(covariance))
    return covariance / widths[:, None] / widths, widths
