"""Standard errors of own models: the observed information by Louis' formula."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.models.entries import ParamsVector

__all__ = ["LouisInformation", "covariance_of", "louis_information"]


class StepRule(NamedTuple):
    """Settings of differences in the parameters.

    Attributes
    ----------
    first : float
        First step, as a share of a parameter.
    share : float
        Step, as a share of the information of one row about a parameter.
    n_corrections : int
        Corrections of the steps.
    largest_promise : float
        Gain in log-likelihood that a Newton step may promise at a maximum.
    """

    first: float = 1e-3
    share: float = 1e-3
    n_corrections: int = 2
    largest_promise: float = 0.5


STEP_RULE = StepRule()


class LouisInformation(NamedTuple):
    """The information about the parameters, and the part that the latents hide.

    Attributes
    ----------
    complete : ndarray of shape (p, p)
        Conditional mean of minus the Hessian of the complete-data log-density.
    missing : ndarray of shape (p, p)
        Conditional covariance of its slope, summed over rows or subjects.
    slope : ndarray of shape (p,)
        Slope of the log-likelihood: the conditional mean of that of the complete data.
    """

    complete: np.ndarray
    missing: np.ndarray
    slope: np.ndarray

    @property
    def observed(self) -> np.ndarray:
        """Observed information."""
        return self.complete - self.missing


def louis_information(
    model, X, draws, vector: ParamsVector, weights, rule: StepRule = STEP_RULE
) -> LouisInformation:
    """Return the observed information as complete less missing information.

    ``I = sum_i E_i(-H_i) - cov_i(s_i)`` with slope s and Hessian H of ``log_joint`` in
    the parameters, by central differences, and moments over draws of the latents of
    row i (Louis 1982, equation (3.1)).

    Parameters
    ----------
    model : LatentModel
        A model with ``log_joint``.
    X : array-like
        Rows.
    draws : ndarray of shape (n, n_draws, ...)
        Draws of their latents.
    vector : ParamsVector
        Free parameters.
    weights : ndarray of shape (n,)
        Weights of the rows; a weight means repetition.
    rule : StepRule, default=STEP_RULE
        Settings.

    Returns
    -------
    LouisInformation
        The information.

    References
    ----------
    T. A. Louis, Finding the observed information matrix when using the EM algorithm,
    Journal of the Royal Statistical Society B, 1982.
    """
    difference = _Differences(model, X, vector, weights)
    difference.find_steps(draws[:, 0], rule)
    p, n_draws = len(vector.values), draws.shape[1]
    complete, square = np.zeros((p, p)), np.zeros((p, p))
    means = np.zeros((len(draws), p))
    for m in range(n_draws):
        scores, hessian = difference.at(draws[:, m])
        complete -= hessian / n_draws
        square += (weights[:, None] * scores).T @ scores / n_draws
        means += scores / n_draws
    slope = weights @ means
    missing = square - (weights[:, None] * means).T @ means
    # A covariance of few draws is too small by this share.
    return LouisInformation(complete, missing * n_draws / (n_draws - 1), slope)


class _Differences:
    """Slopes and curvatures of the complete-data log-density in the parameters."""

    def __init__(self, model, X, vector, weights):
        self.model, self.X = model, X
        self.vector, self.weights = vector, weights
        self.steps = np.zeros(len(vector.values))

    def value(self, Z, shift) -> np.ndarray:
        """Return the log-density of each row, with parameters that are shifted."""
        params = self.vector.params_of(self.vector.values + shift)
        with np.errstate(all="ignore"):
            values = self.model.log_joint(self.X, Z, params)
        if not np.isfinite(values).all():
            raise ValueError(
                f"log_joint of {type(self.model).__name__} is not finite at parameters "
                f"near those of the fit, {params!r}: a parameter at its bound has no "
                "standard error"
            )
        return values

    def find_steps(self, Z, rule):
        """Choose steps by the curvature at some latents."""
        values = np.abs(self.vector.values)
        self.steps = rule.first * np.where(values > 0, values, 1.0)
        total = self.weights.sum()
        for _ in range(rule.n_corrections):
            centre = self.value(Z, 0.0)
            for j, step in enumerate(self.steps):
                shift = np.zeros(len(values))
                shift[j] = step
                up, down = self.value(Z, shift), self.value(Z, -shift)
                curve = self.weights @ (2 * centre - up - down) / step**2
                if curve > 0:
                    self.steps[j] = rule.share * np.sqrt(total / curve)

    def at(self, Z) -> tuple[np.ndarray, np.ndarray]:
        """Return the slopes of the rows and the sum of their Hessians."""
        p, w, steps = len(self.steps), self.weights, self.steps
        slopes, hessian = np.zeros((len(Z), p)), np.zeros((p, p))
        centre, shifts = self.value(Z, 0.0), np.diag(steps)
        above: list[Any] = []
        below: list[Any] = []
        for e in range(p):
            up, down = self.value(Z, shifts[e]), self.value(Z, -shifts[e])
            slopes[:, e] = (up - down) / (2 * steps[e])
            hessian[e, e] = w @ (up - 2 * centre + down) / steps[e] ** 2
            above.append(up)
            below.append(down)
            for g in range(e):
                both = self.value(Z, shifts[e] + shifts[g])
                neither = self.value(Z, -shifts[e] - shifts[g])
                mixed = both + neither - up - above[g] - down - below[g] + 2 * centre
                mixed = w @ mixed / (2 * steps[e] * steps[g])
                hessian[e, g] = hessian[g, e] = mixed
        return slopes, hessian


def covariance_of(louis: LouisInformation, rule: StepRule = STEP_RULE) -> np.ndarray:
    """Return the covariance of the estimates; warn where it cannot be trusted."""
    information = (louis.observed + louis.observed.T) / 2
    scale = np.sqrt(np.abs(np.diag(louis.complete)))
    scale = np.where(scale > 0, scale, 1.0)
    values = np.linalg.eigvalsh(information / scale[:, None] / scale)
    if not values[0] > 1e-10:
        warn_user(
            "The observed information is not positive definite: the parameters are not "
            "at a maximum, depend on each other, or are not determined by the data. "
            "Standard errors are NaN. A model whose parameters are constrained says by "
            "to_vector and from_vector which are free.",
            FitWarning,
        )
        return np.full(information.shape, np.nan)
    covariance = np.linalg.inv(information / scale[:, None] / scale)
    covariance = covariance / scale[:, None] / scale
    promise = 0.5 * float(louis.slope @ covariance @ louis.slope)
    if promise > rule.largest_promise:
        warn_user(
            "The slope of the log-likelihood is not zero at the parameters: a Newton "
            f"step promises {promise:.2g}. Fit to a smaller tol, on the same rows; a "
            "model whose parameters are constrained, or that has a penalty, says by "
            "to_vector and from_vector which are free.",
            FitWarning,
        )
    return covariance
