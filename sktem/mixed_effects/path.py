"""The path of the estimates, and their Monte Carlo error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.m_step import Moments
from sktem.mixed_effects.vector import ParameterVector

__all__ = ["Path", "complete_data_errors"]


class DriftRule(NamedTuple):
    """Thresholds of drifting estimates, and lengths of their jumps.

    Attributes
    ----------
    batch : int
        Epochs whose noise is taken together, so that that of the chains averages out.
    least_epochs : int
        Epochs in the average, at least.
    slowest : float
        The slowest contraction that is assumed.
    largest : float
        Standard errors of a slope above which it counts as drift.
    longest_jump : float
        Longest jump along a drift, in units of the way of the last third of the path.
    """

    batch: int = 5
    least_epochs: int = 60
    slowest: float = 0.1
    largest: float = 4.0
    longest_jump: float = 4.0


#: The rule of every fit.
DRIFT = DriftRule()


class Path:
    """Estimates after each epoch."""

    def __init__(self, vector: ParameterVector, rule: DriftRule = DRIFT):
        self.vector, self.rule = vector, rule
        self.points: list[np.ndarray] = []
        self.gains: list[float] = []

    def __len__(self):
        """Return the number of epochs."""
        return len(self.points)

    def add(self, params, gain) -> None:
        """Add the estimates after an epoch with this sum of steps."""
        self.points.append(self.vector.of(params))
        self.gains.append(min(gain, 1.0))

    def by_name(self) -> dict[str, np.ndarray]:
        """Return the path of each parameter."""
        names = self.vector.names
        points = np.array(self.points).reshape(len(self), len(names))
        return dict(zip(names, points.T, strict=True))

    def _scaled(self, path):
        """Return the path with variances and residual errors on a log scale."""
        logs = np.log(np.maximum(path, 1e-300))
        return np.where(self.vector.positive, logs, path)

    def drift(self, start) -> np.ndarray:
        """Return which estimates drift, judged from an epoch on.

        They do where the slope is more than its noise, that of an autoregression.
        """
        path = self._scaled(np.array(self.points[start:]))
        n = len(path)
        time = np.arange(n) - (n - 1) / 2
        slope = time @ path / (time @ time)
        rest = path - path.mean(axis=0) - time[:, None] * slope
        variance = np.maximum((rest**2).mean(axis=0), 1e-300)
        correlation = (rest[1:] * rest[:-1]).mean(axis=0) / variance
        correlation = np.clip(correlation, 0.0, 0.95)
        inflation = (1 + correlation) / (1 - correlation)
        error = np.sqrt(variance * inflation / (time @ time))
        return np.abs(slope) > self.rule.largest * error

    def ahead(self, params, start, drifting):
        """Return the parameters that a geometric approach would end at."""
        path = self._scaled(np.array(self.points[start:]))
        third = len(path) // 3
        path = path[len(path) - 3 * third :].reshape(3, third, -1).mean(axis=1)
        before, last = np.diff(path, axis=0)
        ratio = np.divide(last, before, out=np.ones_like(last), where=before != 0)
        ratio = np.clip(
            ratio, 0.0, self.rule.longest_jump / (1 + self.rule.longest_jump)
        )
        jump = np.where(drifting, last * ratio / (1 - ratio), 0.0)
        values, positive = self.vector.of(params), self.vector.positive
        end = np.where(positive, values * np.exp(jump * positive), values + jump)
        new = self.vector.params(end, params)
        # Correlations stay as they are.
        scale = np.sqrt(np.diag(new.omega) / np.diag(params.omega))
        return new._replace(omega=params.omega * scale[:, None] * scale)

    def monte_carlo_errors(self, first):
        """Return standard errors of the averages from an epoch on, None if too few.

        An estimate moves by ``gain * (noise - rate * deviation)``. The regression of
        its moves on its deviations gives the rate at which it is drawn back, and the
        noise that remains; the error of the average is the mean noise divided by the
        rate (Polyak and Juditsky 1992). On short runs this is up to twice the error.
        """
        path = np.array(self.points[first:])
        n = (len(path) - 1) // self.rule.batch
        if len(path) < self.rule.least_epochs:
            return None
        gains = np.array(self.gains[first + 1 :])[:, None]
        moves = np.diff(path, axis=0) / gains
        deviations = path[:-1] - path.mean(axis=0)
        weights = gains**2 * deviations
        squares = (weights * deviations).sum(axis=0)
        # One rate for all: that of a single estimate is too uncertain on a short run.
        rates = -(weights * moves).sum(axis=0)[squares > 0] / squares[squares > 0]
        rate = 1.0
        if len(rates):
            rate = float(np.clip(np.median(rates), self.rule.slowest, 1.0))
        noise = (moves + rate * deviations)[: n * self.rule.batch]
        means = noise.reshape(n, self.rule.batch, -1).mean(axis=1)
        return means.std(axis=0, ddof=1) / np.sqrt(n) / rate


def complete_data_errors(vector, params, s, n_subjects):
    """Return standard errors as if the latents were observed.

    They are cheap lower bounds of the standard errors.
    """
    design, omega = vector.design, params.omega
    moments = Moments.of(s, *vector.model.sizes())
    squares = np.empty(len(vector))
    positions, columns = design.positions[design.free], design.columns[design.free]
    if len(positions):
        precision = np.linalg.inv(omega)[positions[:, None], positions]
        normal = precision * moments.covariates[columns[:, None], columns]
        scale = np.sqrt(np.maximum(np.diag(normal), 1e-300))
        inverse = np.linalg.pinv(normal / scale[:, None] / scale)
        squares[vector.coefficients] = np.diag(inverse) / scale**2
    if len(design.numeric):
        curvature = np.maximum(np.diag(moments.curvature), 1e-300)
        residual = vector.is_residual[vector.numeric]
        scale = np.where(residual, np.exp(2 * params.numeric * residual), 1.0)
        squares[vector.numeric] = scale / curvature
    j, k = vector.lower.T
    squares[vector.omega] = omega[j, j] * omega[k, k] + omega[j, k] ** 2
    if design.occasions is not None:
        squares[vector.omega][j >= len(design.random)] /= design.occasions.n_occasions
    variance = params.sigma[vector.closed] ** 2
    squares[vector.residual] = variance / (2 * max(moments.residual[1], 1e-9))
    return np.sqrt(squares / n_subjects)
