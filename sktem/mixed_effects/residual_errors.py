"""Residual errors: how observations scatter about the prediction.

One class for each; those with a code have a twin in ``kernels/structural.py``, which
knows it by that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

__all__ = [
    "ALIASES",
    "RESIDUAL_ERRORS",
    "PositiveError",
    "ResidualError",
    "least_prediction",
]

#: Predictions nearer to zero than this have the scatter of one of this size, so that a
#: proportional error does not make them exact; a share of the median size of y.
LEAST_PREDICTION = 1e-8
#: Error at the start, in units of the weights of observations, beside outcomes that are
#: no measurements.
ROUGH_ERROR = 0.3


def least_prediction(y: np.ndarray) -> float:
    """Return the size below which predictions have the scatter of one of this size."""
    sizes = np.abs(y[y != 0])
    return LEAST_PREDICTION * (float(np.median(sizes)) if len(sizes) else 1.0)


class ResidualError(ABC):
    """A residual error ``y = f + g(f) eps`` with parameters a and b.

    All methods take both parameters as ``sigma``, two floats or arrays, of which those
    that the error does not have are not used; and ``least``, see
    :func:`least_prediction`.

    Attributes
    ----------
    code : int or None
        Code of its compiled twin, if it has one.
    slots : tuple of str
        Names of the entries of ``sigma``.
    names : tuple of str
        Which of these it has.
    closed_form : int or None
        Index of the parameter whose M-step is the root of the mean of ``square``, if
        there is one. Without, its parameters take Newton steps on their logarithms.
    relative : bool
        Whether errors grow with the prediction.
    on_logarithms : bool
        Whether the errors are those of the logarithm of the observations.
    regresses : bool
        Whether predictions are looked for by least squares at the start; by the density
        of observations otherwise.
    has_mean : bool or ndarray of bool
        Whether predictions are means of observations; of each row, where kinds differ.
    needs : str
        The observations and predictions that it is for.
    """

    code: ClassVar[int | None] = None
    slots: tuple[str, ...] = ("a", "b")
    names: tuple[str, ...]
    closed_form: ClassVar[int | None] = None
    relative: ClassVar[bool] = True
    on_logarithms: bool | np.ndarray = False
    regresses: bool = True
    has_mean: bool | np.ndarray = True
    needs = "positive y and a positive model function"

    @property
    def indices(self) -> tuple[int, ...]:
        """Indices of its parameters in ``sigma``."""
        return tuple(self.slots.index(name) for name in self.names)

    def on(self, rows) -> ResidualError:
        """Return the error of some rows."""
        return self

    @abstractmethod
    def standard_deviation(self, f, sigma, least: float):
        """Return g(f), on the logarithmic scale for errors of logarithms."""

    def weighted(self, y, f, g):
        """Return residuals over their standard deviations g, NaN without a mean."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rest = np.where(self.on_logarithms, np.log(y) - np.log(f), y - f) / g
        return np.where(self.has_mean, rest, np.nan)

    def log_density(self, y, f, sigma, least: float):
        """Return the log-density of observations given predictions."""
        g = self.standard_deviation(f, sigma, least)
        return -0.5 * ((y - f) / g) ** 2 - np.log(g) - 0.5 * np.log(2 * np.pi)

    def log_likelihood(self, y, f, sigma, least: float, side=None, limit=None):
        """Return the log-density, or the log-probability of bounds: side is not 0.

        A limit that is not NaN is the other end of an interval.
        """
        values = self.log_density(y, f, sigma, least)
        if side is None:
            return values
        bounds = self.log_probability(y, f, sigma, least, side)
        if limit is not None:
            within = ~np.isnan(limit)
            other = np.where(within, limit, y)
            beyond = self.log_probability(other, f, sigma, least, side)
            # Where both are nearly one, the difference of what is left has the digits.
            late = beyond > np.log(0.5)
            more = np.where(
                late, self.log_probability(other, f, sigma, least, -side), bounds
            )
            less = np.where(
                late, self.log_probability(y, f, sigma, least, -side), beyond
            )
            difference = more + np.log1p(-np.exp(less - more))
            bounds = np.where(within, difference, bounds)
        return np.where(side == 0, values, bounds)

    def log_probability(self, y, f, sigma, least: float, side):
        """Return the log-probability to be below y, or above where ``side`` is -1."""
        g = self.standard_deviation(f, sigma, least)
        if self.on_logarithms:
            y, f = np.log(y), np.log(f)
        return log_ndtr(side * (y - f) / g)

    def draw_beyond(self, y, f, sigma, least: float, side, limit, uniform):
        """Return observations beyond bounds, for uniform variables.

        They are quantiles of the part of the distribution that is left.
        """
        farther = np.full(len(y), -np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = self.log_likelihood(y, f, sigma, least, side, limit)
            if limit is not None:
                within = ~np.isnan(limit)
                other = np.where(within, limit, y)
                beyond = self.log_probability(other, f, sigma, least, side)
                farther = np.where(within, beyond, farther)
            log_share = np.logaddexp(farther, np.log(uniform) + share)
        normal = side * ndtri_exp(log_share)
        return self.draw(f, sigma, least, normal)

    def slope(self, y, f, sigma, least: float):
        """Return the derivative of the log-density by f, exact up to rounding."""
        # The least prediction is 1e-8 of the size of y.
        step = 1e-6 * np.maximum(np.abs(f), 1e5 * least)
        above = self.log_density(y, f + step, sigma, least)
        below = self.log_density(y, f - step, sigma, least)
        return (above - below) / (2 * step)

    def square(self, y, f, least: float):
        """Return squares whose mean is that of the closed-form parameter, else 0."""
        return np.zeros_like(y)

    @abstractmethod
    def start(self, y, f):
        """Return starting values of a and b for the residuals at the start."""

    def weights(self, y, positive: bool):
        """Return weights of the residuals in a pooled regression.

        None means residuals of logarithms; ``positive`` says that observations and
        predictions have them.
        """
        if positive:
            return None
        size = np.abs(y) + 0.1 * np.sqrt(np.mean(y**2))
        return 1 / np.where(size > 0, size, 1.0)

    def floors(self, y) -> np.ndarray:
        """Return the least a and b, shares of the spread of y and of that over y."""
        spread, size = float(np.std(y)), float(np.sqrt(np.mean(y**2)))
        least = 1e-5 * spread if spread > 1e-10 * size else (1e-8 * size or 1e-10)
        return np.array([least, least / size if size > 0 else 1e-5])

    def allows(self, y, f) -> np.ndarray:
        """Return which observations are possible with their predictions."""
        return np.ones(len(y), dtype=bool)

    def draw(self, f, sigma, least, normal):
        """Return observations for predictions and normal variables."""
        return f + self.standard_deviation(f, sigma, least) * normal

    def rough_log_density(self, y, f, sigma, least, weights):
        """Return the log-density up to a constant, before errors are known.

        Errors of a usual size stand for those of a measurement.
        """
        if self.regresses:
            return -0.5 * (weights * (y - f) / ROUGH_ERROR) ** 2
        return self.log_density(y, f, sigma, least)


class ConstantError(ResidualError):
    """Standard deviation a."""

    code, names, closed_form, relative = 0, ("a",), 0, False

    def standard_deviation(self, f, sigma, least):
        """Return a."""
        return np.broadcast_to(sigma[0], np.shape(f))

    def square(self, y, f, least):
        """Return squared residuals."""
        return (y - f) ** 2

    def start(self, y, f):
        """Return the root of the mean square."""
        return np.array([_size(y, f, _least_size(y)), 0.0])

    def weights(self, y, positive):
        """Return ones."""
        return np.ones(len(y))


class ProportionalError(ResidualError):
    """Standard deviation b |f|."""

    code, names, closed_form = 1, ("b",), 1

    def standard_deviation(self, f, sigma, least):
        """Return b |f|."""
        return sigma[1] * np.maximum(np.abs(f), least)

    def square(self, y, f, least):
        """Return squared relative residuals."""
        return ((y - f) / np.maximum(np.abs(f), least)) ** 2

    def start(self, y, f):
        """Return the root of the mean relative square."""
        return np.array([0.0, _share(y, f)])

    def floors(self, y):
        """Return a least share of the prediction."""
        return np.full(2, 1e-5)


class LinearError(ResidualError):
    """Standard deviation a + b |f|."""

    names = ("a", "b")

    def standard_deviation(self, f, sigma, least):
        """Return a + b |f|."""
        return sigma[0] + sigma[1] * np.abs(f)

    def start(self, y, f):
        """Return start values as shares of those of each alone."""
        return np.array([0.7 * _size(y, f, _least_size(y)), 0.3 * _share(y, f)])

    def weights(self, y, positive):
        """Return weights of errors of both kinds."""
        if positive:
            return 1 / (y + np.sqrt(np.mean(y**2)))
        return super().weights(y, positive)


class CombinedError(LinearError):
    """Standard deviation sqrt(a^2 + b^2 f^2)."""

    code = 2

    def standard_deviation(self, f, sigma, least):
        """Return the root of a^2 + b^2 f^2."""
        return np.sqrt(sigma[0] ** 2 + (sigma[1] * f) ** 2)


class PowerError(ResidualError):
    """Standard deviation b |f| ** c."""

    slots = names = ("b", "c")

    def standard_deviation(self, f, sigma, least):
        """Return b |f| ** c."""
        return sigma[0] * np.maximum(np.abs(f), least) ** sigma[1]

    def start(self, y, f):
        """Return a proportional error."""
        return np.array([_share(y, f), 1.0])

    def floors(self, y):
        """Return a least share, and nearly no dependence on the prediction."""
        return np.array([1e-5, 1e-3])


class ExponentialError(ResidualError):
    """Standard deviation a of the logarithm."""

    code, names, closed_form, on_logarithms = 3, ("a",), 0, True

    def standard_deviation(self, f, sigma, least):
        """Return a."""
        return np.broadcast_to(sigma[0], np.shape(f))

    def log_density(self, y, f, sigma, least):
        """Return the log-density of y, with the Jacobian of the logarithm."""
        log_y = np.log(y)
        return super().log_density(log_y, np.log(f), sigma, least) - log_y

    def square(self, y, f, least):
        """Return squared residuals of the logarithm."""
        return (np.log(y) - np.log(f)) ** 2

    def start(self, y, f):
        """Return the root of the mean square of the logarithm's residuals."""
        return np.array([_size(np.log(y), np.log(f), 1e-3), 0.0])

    def floors(self, y):
        """Return a least share of the prediction."""
        return np.full(2, 1e-5)

    def allows(self, y, f):
        """Return where both have logarithms."""
        return (y > 0) & (f > 0)

    def draw(self, f, sigma, least, normal):
        """Return log-normal observations."""
        return f * np.exp(self.standard_deviation(f, sigma, least) * normal)


def _least_size(y):
    """Return the least standard deviation at the start."""
    typical = float(np.sqrt(np.mean(y**2)))
    return 1e-3 * typical if typical > 0 else 1e-3


def _size(y, f, least):
    """Return the root of the mean squared residual, or the size of y."""
    with np.errstate(over="ignore"):
        size = float(np.sqrt(np.mean((y - f) ** 2)))
    return max(size, least) if np.isfinite(size) else float(np.sqrt(np.mean(y**2)))


def _share(y, f):
    """Return the root of the mean squared relative residual, at most one."""
    relative = np.abs(y - f) / np.maximum(np.abs(f), least_prediction(y))
    return float(np.clip(np.sqrt(np.mean(np.minimum(relative, 1.0) ** 2)), 1e-3, 1.0))


#: Other names of residual errors, those of other programs.
ALIASES = {
    "additive": "constant",
    "combined1": "linear",
    "combined2": "combined",
    "log-additive": "exponential",
}
#: Residual errors by name.
RESIDUAL_ERRORS: dict[str, ResidualError] = {
    "constant": ConstantError(),
    "proportional": ProportionalError(),
    "combined": CombinedError(),
    "linear": LinearError(),
    "power": PowerError(),
    "exponential": ExponentialError(),
}


class PositiveError(ResidualError):
    """Another error, given that all observations are positive.

    With bounds of observations this is the method M4 of S. L. Beal, Ways to fit a PK
    model with some data below the quantification limit, J. Pharmacokinet. Pharmacodyn.
    28, 2001.

    Parameters
    ----------
    error : ResidualError
        The error without that condition, which is not one of logarithms.
    """

    def __init__(self, error):
        self.error = error
        self.slots, self.names = error.slots, error.names

    def standard_deviation(self, f, sigma, least):
        """Return the standard deviations without the condition."""
        return self.error.standard_deviation(f, sigma, least)

    def _log_share(self, f, sigma, least):
        """Return the log-probability of a positive observation."""
        return log_ndtr(f / self.standard_deviation(f, sigma, least))

    def log_density(self, y, f, sigma, least):
        """Return the log-density of positive observations."""
        values = self.error.log_density(y, f, sigma, least)
        values = values - self._log_share(f, sigma, least)
        return np.where(y > 0, values, -np.inf)

    def log_probability(self, y, f, sigma, least, side):
        """Return the log-probability to be between 0 and y, or above."""
        args = f, sigma, least
        within = self.error.log_likelihood(y, *args, np.ones_like(y), np.zeros_like(y))
        within = np.where(y > 0, within, -np.inf)
        above = self.error.log_probability(np.maximum(y, 0.0), *args, -1)
        return np.where(np.greater(side, 0), within, above) - self._log_share(*args)

    def start(self, y, f):
        """Return starting values of the error without the condition."""
        return self.error.start(y, f)

    def weights(self, y, positive):
        """Return weights of the error without the condition."""
        return self.error.weights(y, positive)

    def floors(self, y):
        """Return least values of the error without the condition."""
        return self.error.floors(y)

    def allows(self, y, f):
        """Return which observations are positive."""
        return y > 0

    def draw(self, f, sigma, least, normal):
        """Return positive observations, by the quantile function."""
        g = self.standard_deviation(f, sigma, least)
        log_above = log_ndtr(-normal) + log_ndtr(f / g)
        return f - g * ndtri_exp(log_above)
