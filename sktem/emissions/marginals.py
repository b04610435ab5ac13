"""Gaussians of observed columns, and conditional ones of missing columns."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sktem.emissions.covariances import COVARIANCES

__all__ = ["DiagonalMarginal", "Marginal"]


class Marginal:
    """K Gaussians with matrices of covariances, where some columns are missing.

    The covariances of the observed columns are factored once.

    Parameters
    ----------
    params : NamedTuple
        Means, covariances of shape (K, d, d) or (d, d), and factors of their inverses.
    seen, holes : ndarray of int
        Observed and missing columns.
    """

    def __init__(self, params, known, holes):
        self.params, self.known, self.holes = params, known, holes
        K, o = len(params.means), len(known)
        factors = params.precisions_cholesky
        if not o:
            factors = np.empty((0, 0))
        elif len(holes):
            block = params.covariances[..., known[:, None], known]
            kind = "full" if block.ndim == 3 else "tied"
            factors = COVARIANCES[kind](K, o).precisions_cholesky(block)
        #: Upper factors P with ``P P'`` the inverse, of shape (K, o, o).
        self.factors = np.broadcast_to(factors, (K, o, o))

    def of(self, left, right):
        """Return covariances of two sets of columns, of shape (K, m, n)."""
        block = self.params.covariances[..., left[:, None], right]
        return np.broadcast_to(block, (len(self.params.means), *block.shape[-2:]))

    @property
    def log_dets(self):
        """Logarithms of the determinants of the factors."""
        return np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)

    @cached_property
    def _explained(self):
        return np.swapaxes(self.factors, 1, 2) @ self.of(self.known, self.holes)

    @cached_property
    def slopes(self):
        """Slopes of the missing columns in the observed ones, of shape (K, o, m)."""
        return self.factors @ self._explained

    @cached_property
    def spreads(self):
        """Conditional covariances of the missing columns, of shape (K, m, m)."""
        explained = np.swapaxes(self._explained, 1, 2) @ self._explained
        return self.of(self.holes, self.holes) - explained

    def expected(self, z, mean, k):
        """Return the conditional means of the holes of rows in a state."""
        return mean[self.holes] + (z[:, self.known] - mean[self.known]) @ self.slopes[k]

    def completed(self, means, mass, first, second, row_mass):
        """Return moments of all columns from those of the observed ones.

        Parameters
        ----------
        means : ndarray of shape (K, d)
            Means about the point about which the moments are taken.
        mass, first, second : ndarray of shape (K,), (K, o) and (K, o, o)
            Weighted sums of the rows.
        row_mass : ndarray of shape (K,)
            Masses of the conditional covariances.

        Returns
        -------
        first, second : ndarray of shape (K, d) and (K, d, d)
            Weighted sums of the rows with what is missing completed.
        """
        K, d = means.shape
        known, holes = self.known, self.holes
        if not len(holes):
            return first, second
        # A completed row is linear in the observed one.
        T = np.zeros((K, d, len(known)))
        T[:, known, np.arange(len(known))] = 1.0
        T[:, holes] = np.swapaxes(self.slopes, 1, 2)
        shift = np.zeros((K, d))
        shift[:, holes] = means[:, holes] - np.einsum(
            "kom,ko->km", self.slopes, means[:, known]
        )
        moved = np.einsum("kdo,ko->kd", T, first)
        cross = moved[:, :, None] * shift[:, None, :]
        cross = cross + np.swapaxes(cross, 1, 2)
        squares = mass[:, None, None] * shift[:, :, None] * shift[:, None, :]
        all_second = T @ second @ np.swapaxes(T, 1, 2) + cross + squares
        all_second[:, holes[:, None], holes] += row_mass[:, None, None] * self.spreads
        return moved + mass[:, None] * shift, all_second


class DiagonalMarginal:
    """The same of variances of independent columns.

    Parameters
    ----------
    params : NamedTuple
        Means, variances of shape (K, d), and roots of their inverses.
    seen, holes : ndarray of int
        Observed and missing columns.
    """

    def __init__(self, params, known, holes):
        self.params, self.known, self.holes = params, known, holes
        self.factors = params.precisions_cholesky[:, known]

    def completed(self, means, mass, first, second, row_mass):
        """Return moments of all columns, as :meth:`Marginal.completed` does."""
        all_first = mass[:, None] * means
        all_second = all_first * means + row_mass[:, None] * self.params.covariances
        all_first[:, self.known], all_second[:, self.known] = first, second
        return all_first, all_second
