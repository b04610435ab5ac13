"""Which coefficients a mixed-effects model has, and how parameters follow from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "MixedEffectsDesign",
    "MixedEffectsParams",
    "NumericEntry",
    "effect_name",
]


class MixedEffectsParams(NamedTuple):
    """Parameters of a mixed-effects model.

    Attributes
    ----------
    coefficients : ndarray of shape (n_coefficients,)
        Coefficients of the random parameters on the Gaussian scale: population values
        and covariates, in the order of the design.
    omega : ndarray of shape (d, d)
        Covariance of the random effects.
    sigma : ndarray of shape (2,)
        Parameters a and b of the residual error; 0 for one that the error lacks.
    numeric : ndarray of shape (k,)
        Parameters without a closed-form M-step: coefficients of parameters without
        random effect and of covariates that vary within subjects, and the logarithms of
        a and b of the combined error.
    steps : int
        M-steps done, in units of a pass, which the annealing at the start counts.
    """

    coefficients: np.ndarray
    omega: np.ndarray
    sigma: np.ndarray
    numeric: np.ndarray
    steps: float = 0.0


def effect_name(covariate: str, parameter: str) -> str:
    """Return the name of the effect of a covariate among the estimates."""
    return f"beta_{covariate}({parameter})"


class NumericEntry(NamedTuple):
    """One of the parameters without a closed-form M-step.

    Attributes
    ----------
    kind : {"subject", "row", "residual"}
        A coefficient of a covariate of the subject, of one that varies by row, or a
        parameter of the residual error.
    parameter : int
        Which parameter of the model (a is 0 and b is 1, of the residual error).
    column : int
        Which covariate.
    """

    kind: str
    parameter: int
    column: int


class MixedEffectsDesign(NamedTuple):
    """Structure of a mixed-effects model.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters of the model function.
    transforms : tuple of str
        Their transforms.
    random : ndarray of int of shape (d,)
        Which of them are random.
    pattern : ndarray of bool of shape (d, d)
        Which entries of the covariance are free.
    positions, columns : ndarray of int of shape (n_coefficients,)
        Position among the random parameters, and column of the covariates, of each
        coefficient with a closed-form M-step.
    free : ndarray of bool
        Which of them are estimated.
    numeric : tuple of NumericEntry
        Parameters without a closed-form M-step.
    constant : ndarray of shape (n_parameters, n_covariates)
        Coefficients that stay: fixed parameters without a random effect.
    held_variances, held_residual : tuple of int, default=()
        Indices of the random effects and of the residual parameters whose values stay.
    covariate_names, row_covariate_names : tuple of str
        Names of the covariates of subjects, the first being that of the intercept, and
        of those that vary within a subject.
    residual_names : tuple of str, default=("a", "b")
        Names of the parameters a and b of the residual error among the estimates.
    given_effects : tuple of (str, str, float), default=()
        Parameter, covariate and value of effects that are part of ``constant``.
    """

    names: tuple[str, ...]
    transforms: tuple[str, ...]
    random: np.ndarray
    pattern: np.ndarray
    positions: np.ndarray
    columns: np.ndarray
    free: np.ndarray
    numeric: tuple[NumericEntry, ...]
    constant: np.ndarray
    held_variances: tuple[int, ...] = ()
    held_residual: tuple[int, ...] = ()
    covariate_names: tuple[str, ...] = ("intercept",)
    row_covariate_names: tuple[str, ...] = ()
    residual_names: tuple[str, str] = ("a", "b")
    given_effects: tuple[tuple[str, str, float], ...] = ()

    @property
    def free_variances(self) -> np.ndarray:
        """Indices of the random effects whose variances are estimated."""
        return np.setdiff1d(np.arange(len(self.random)), self.held_variances)

    def matrix(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the coefficients as a matrix, 0 where there is none."""
        matrix = np.zeros((len(self.random), self.constant.shape[1]))
        matrix[self.positions, self.columns] = coefficients
        return matrix

    def base(self, covariates: np.ndarray, numeric: np.ndarray) -> np.ndarray:
        """Return Gaussian parameters of subjects, without those that are random."""
        base = covariates @ self.constant.T
        for e, entry in enumerate(self.numeric):
            if entry.kind == "subject":
                base[:, entry.parameter] += (
                    numeric[..., e] * covariates[:, entry.column]
                )
        return base

    def shifts(self, row_covariates, numeric, subject_of_row) -> dict[int, np.ndarray]:
        """Return effects of covariates that vary by row, by index of the parameter."""
        shifts: dict[int, np.ndarray] = {}
        for e, entry in enumerate(self.numeric):
            if entry.kind == "row":
                value = numeric[..., e]
                if np.ndim(value):
                    value = value[subject_of_row]
                change = value * row_covariates[:, entry.column]
                shifts[entry.parameter] = shifts.get(entry.parameter, 0.0) + change
        return shifts
