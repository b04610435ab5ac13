"""The M-step of autoregressions about means, by alternating maximisation."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from sktem.emissions.base import left_alive
from sktem.emissions.lags import LEAST_VARIANCE, TURNS, pseudo_inverse

__all__ = ["LevelTurns"]


class LevelTurns(NamedTuple):
    """Generalised least squares of a column, by alternating maximisation.

    Attributes
    ----------
    histories : ndarray of int of shape (n_histories, 1 + order)
        States of a row and of those before.
    shared : ndarray of bool of shape (q,)
        Which columns of exog have the same coefficients in all states.
    switching_coefficients, switching_variance : bool
        Whether each state has its own coefficients of lags, and its own variance.
    reg_covar : float
        Added to the variances.
    """

    histories: np.ndarray
    shared: np.ndarray
    switching_coefficients: bool
    switching_variance: bool
    reg_covar: float

    @property
    def order(self) -> int:
        """Rows before that a row depends on."""
        return self.histories.shape[1] - 1

    def maximize(self, moments, levels, coefficients, variances):
        """Return levels, coefficients and sums of squared errors of a column.

        Parameters
        ----------
        moments : ndarray of shape (n_histories, width, width)
            Second moments of 1, the windows of the column, and those of exog.
        levels : ndarray of shape (K, 1 + q)
            Means of the last pass, about a centre, and coefficients of exog.
        coefficients : ndarray of shape (K, order)
            Coefficients of the last pass.
        variances : ndarray of shape (K,)
            Its variances.

        Returns
        -------
        levels, coefficients, left : ndarray
            Those of this pass, and sums of squared errors by state.
        """
        mass = np.bincount(self.histories[:, 0], moments[:, 0, 0])
        alive = left_alive(mass[:, None])[0][:, 0]
        left = _errors(self._about(moments, levels), coefficients)
        best = levels, coefficients, left
        first = least = self._deviance(mass, left, variances)
        for _ in range(TURNS.max_iter):
            levels = self._means(moments, levels, coefficients, variances)
            about = self._about(moments, levels)
            if not np.isfinite(about).all():
                break
            coefficients = self._coefficients(about, variances)
            left = _errors(about, coefficients)
            if self.switching_variance:
                estimates = left / np.where(alive, mass, 1.0) + self.reg_covar
                variances = np.where(
                    alive, np.maximum(estimates, LEAST_VARIANCE), variances
                )
            short = self._deviance(mass, left, variances)
            if not short < least:  # of rounding errors, where a mean is open
                break
            gain, least = least - short, short
            best = levels, coefficients, left
            if gain < TURNS.share * (first - short):
                break
        return best

    def _deviance(self, mass, left, variances):
        """Return minus twice the likelihood, with `reg_covar` in each squared error."""
        left = left + self.reg_covar * mass
        return mass @ np.log(variances) + (left / variances).sum()

    def _means(self, moments, before, coefficients, variances):
        """Return the levels of the states, (K, 1 + q), given all else."""
        K, q = len(before), len(self.shared)
        histories = self.histories
        steps = np.column_stack([np.ones(K), -coefficients])[histories[:, 0]]
        share = 1.0 / variances[histories[:, 0]]
        # Errors of a history are b' y - c (1, x) with the levels of all states.
        of_state = steps[:, :, None] * np.eye(K)[histories]
        c = np.zeros((len(histories), K, 1 + q, moments.shape[1]))
        c[:, :, 0, 0] = of_state.sum(axis=1)
        at = 2 + self.order
        for i, column in product(range(1 + self.order), range(q)):
            c[:, :, 1 + column, at + i * q + column] = of_state[:, i]
        c = c.reshape(len(histories), K * (1 + q), -1)
        onto = self._onto_shared(K)
        c = onto.T @ c
        turned = share[:, None, None] * c
        normal = (turned @ moments @ c.swapaxes(1, 2)).sum(axis=0)
        y = moments[:, :, 1:at] @ steps[:, :, None]
        response = (turned @ y).sum(axis=0)[:, 0]
        # Where a unit root leaves a mean open, it stays about where it is.
        places = [0, *range(at, at + q)]
        squares = np.tile(share @ moments[:, places, places], K) @ onto
        ridge = np.diag(np.maximum(TURNS.held * squares, LEAST_VARIANCE))
        previous = (before.ravel() @ onto) / onto.sum(axis=0)
        solution = np.linalg.solve(normal + ridge, response + ridge @ previous)
        return (onto @ solution).reshape(K, 1 + q)

    def _onto_shared(self, K) -> np.ndarray:
        """Return which of the levels of all states are one, (K * (1 + q), n)."""
        width, columns = 1 + len(self.shared), []
        for place in range(width):
            rows = np.eye(K * width)[:, place::width]
            is_shared = place > 0 and self.shared[place - 1]
            columns.append(rows.sum(axis=1, keepdims=True) if is_shared else rows)
        return np.concatenate(columns, axis=1)

    def _about(self, moments, levels):
        """Return second moments of windows about the means, by the state of the row."""
        histories, width = self.histories, 1 + self.order
        T = np.zeros((len(histories), width, moments.shape[1]))
        T[:, :, 0] = -levels[histories, 0]
        T[:, range(width), range(1, 1 + width)] = 1.0
        q = len(self.shared)
        for i in range(width if q else 0):
            at = 1 + width + i * q
            T[:, i, at : at + q] = -levels[histories[:, i], 1:]
        about = T @ moments @ T.swapaxes(1, 2)
        of_state = np.zeros((len(levels), width, width))
        np.add.at(of_state, histories[:, 0], about)
        return of_state

    def _coefficients(self, about, variances):
        """Return least squares, of all states together if they do not switch."""
        pooled = about
        if not self.switching_coefficients:
            pooled = (about / variances[:, None, None]).sum(axis=0)[None]
        inverse = pseudo_inverse(pooled[:, 1:, 1:])
        coefficients = np.einsum("kij,kj->ki", inverse, pooled[:, 1:, 0])
        return np.broadcast_to(coefficients, (len(about), self.order))


def _errors(about, coefficients):
    """Return sums of squared errors, of moments about the means."""
    steps = np.column_stack([np.ones(len(coefficients)), -coefficients])
    return np.maximum(np.einsum("ki,kij,kj->k", steps, about, steps), 0.0)
