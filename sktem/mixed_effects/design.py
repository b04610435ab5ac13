"""Coefficients of a mixed-effects model, and the parameters that follow from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.priors import Priors
from sktem.mixed_effects.transforms import TRANSFORMS, Transform, is_box

__all__ = [
    "MixedEffectsDesign",
    "MixedEffectsParams",
    "NumericEntry",
    "Occasions",
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
        Covariance of the random effects, those of occasions being last.
    sigma : ndarray of shape (2,)
        Parameters a and b of the residual error; 0 for one that the error does not
        have.
    numeric : ndarray of shape (k,)
        Parameters without a closed-form M-step: coefficients of parameters without
        random effect and of covariates that vary within subjects, and the logarithms of
        a and b of the combined error.
    steps : int
        Number of M-steps so far, in units of a pass, as counted by the annealing.
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
    label : str, default=""
        Name among the estimates.
    covariate : str or None, default=None
        Name of the covariate, None for a population value.
    """

    kind: str
    parameter: int
    column: int
    label: str = ""
    covariate: str | None = None


class Occasions(NamedTuple):
    """Random effects of occasions within subjects.

    Attributes
    ----------
    parameters : tuple of int
        Parameters that have one, on the Gaussian scale.
    n_occasions : int
        Occasions of a subject, at most.
    column : str
        Name of the column of occasions.
    blocks : tuple of int, default=()
        Block of each of the parameters, within which effects correlate; none do
        without.
    """

    parameters: tuple[int, ...]
    n_occasions: int
    column: str
    blocks: tuple[int, ...] = ()

    @property
    def pattern(self) -> np.ndarray:
        """Free entries of the covariance of the effects of all occasions."""
        blocks = np.array(self.blocks or range(len(self.parameters)))
        return self.repeated(blocks[:, None] == blocks)

    def repeated(self, block: np.ndarray) -> np.ndarray:
        """Return the matrix in which each occasion has the same block."""
        return np.kron(np.eye(self.n_occasions, dtype=block.dtype), block)


class MixedEffectsDesign(NamedTuple):
    """Structure of a mixed-effects model.

    The latents of a subject are its random parameters, and after them the effects of
    its first occasion, of the second, and so on. These have the same variances.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters of the model function.
    transforms : tuple of str or tuple
        Their transforms.
    random : ndarray of int of shape (d,)
        Which of them are random.
    pattern : ndarray of bool of shape (n_latents, n_latents)
        Which entries of the covariance of the latents are free.
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
    labels, covariates : tuple of str, default=()
        Names of the coefficients among the estimates, and of their covariates, None for
        population values.
    given_effects : tuple of (str, str, float), default=()
        Parameter, covariate and value of effects that are part of ``constant``, and of
        those that are not, since their covariates vary within a subject.
    given_shifts : tuple of (int, int, float), default=()
        Parameter, column and value of the latter.
    occasions : Occasions or None, default=None
        Random effects of occasions.
    priors : Priors or None, default=None
        Priors of population parameters.
    """

    names: tuple[str, ...]
    transforms: tuple
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
    residual_names: tuple[str, ...] = ("a", "b")
    labels: tuple[str, ...] = ()
    covariates: tuple[str | None, ...] = ()
    given_effects: tuple[tuple[str, str, float], ...] = ()
    given_shifts: tuple[tuple[int, int, float], ...] = ()
    occasions: Occasions | None = None
    priors: Priors | None = None

    def transform_of(self, name: str) -> Transform | None:
        """Return the transform of a population value, None of other estimates."""
        if name not in self.names:
            return None
        return TRANSFORMS[self.transforms[self.names.index(name)]]

    @property
    def box(self) -> np.ndarray:
        """Least and largest values of the numeric parameters, two rows."""
        bounds = np.full((2, len(self.numeric)), [[-np.inf], [np.inf]])
        for e, entry in enumerate(self.numeric):
            if entry.kind == "subject" and is_box(self.transforms[entry.parameter]):
                bounds[:, e] = self.transforms[entry.parameter][1:]
        return bounds

    @property
    def n_latents(self) -> int:
        """Number of the latents of a subject."""
        return len(self.tied)

    @property
    def tied(self) -> np.ndarray:
        """Index of the first latent that has the same variance as each."""
        d = len(self.random)
        if self.occasions is None:
            return np.arange(d)
        m = len(self.occasions.parameters)
        return np.r_[:d, np.tile(np.arange(d, d + m), self.occasions.n_occasions)]

    @property
    def latents(self) -> np.ndarray:
        """Index of the parameter that each latent with its own variance belongs to."""
        others = () if self.occasions is None else self.occasions.parameters
        return np.append(self.random, np.array(others, dtype=np.int64))

    @property
    def variance_names(self) -> list[str]:
        """Names of the variances among the estimates."""
        d = len(self.random)
        kinds = ["omega2"] * d + ["kappa2"] * (len(self.latents) - d)
        return [
            f"{kind}_{self.names[p]}"
            for kind, p in zip(kinds, self.latents, strict=True)
        ]

    @property
    def free_variances(self) -> np.ndarray:
        """Indices of the estimated variances, one index for tied ones."""
        return np.setdiff1d(np.arange(len(self.latents)), self.held_variances)

    def with_occasions(self, count: int) -> MixedEffectsDesign:
        """Return the design for subjects with another number of occasions."""
        if self.occasions is None:
            return self
        occasions = self.occasions._replace(n_occasions=count)
        design = self._replace(occasions=occasions)
        d = len(self.random)
        pattern = np.eye(design.n_latents, dtype=bool)
        pattern[:d, :d] = self.pattern[:d, :d]
        pattern[d:, d:] = occasions.pattern
        is_held = np.isin(design.tied, self.held_variances)
        return design._replace(
            pattern=pattern, held_variances=tuple(np.flatnonzero(is_held).tolist())
        )

    def spread_out(self, omega: np.ndarray) -> np.ndarray:
        """Return the covariance of all latents, given that of those before a tie."""
        d, spread = len(self.random), np.zeros((self.n_latents,) * 2)
        spread[:d, :d] = omega[:d, :d]
        if self.occasions is not None:
            stop = d + len(self.occasions.parameters)
            spread[d:, d:] = self.occasions.repeated(omega[d:stop, d:stop])
        return spread

    def with_sigma(self, params, sigma) -> MixedEffectsParams:
        """Return parameters with this residual error, also among the numeric ones."""
        numeric = params.numeric.copy()
        for e, entry in enumerate(self.numeric):
            if entry.kind == "residual":
                numeric[e] = np.log(sigma[entry.parameter])
        return params._replace(sigma=sigma, numeric=numeric)

    def matrix(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the coefficients as a matrix, 0 where there is none."""
        matrix = np.zeros((self.n_latents, self.constant.shape[1]))
        matrix[self.positions, self.columns] = coefficients
        return matrix

    def base(self, covariates: np.ndarray, numeric: np.ndarray) -> np.ndarray:
        """Return Gaussian parameters of subjects without random effects."""
        base = covariates @ self.constant.T
        for e, entry in enumerate(self.numeric):
            if entry.kind == "subject":
                base[:, entry.parameter] += (
                    numeric[..., e] * covariates[:, entry.column]
                )
        return base

    @property
    def varies_by_row(self) -> bool:
        """Whether a parameter may differ between the rows of a subject."""
        by_row = any(entry.kind == "row" for entry in self.numeric)
        return by_row or bool(self.given_shifts) or self.occasions is not None

    def shifts(self, X, Z, numeric) -> dict[int, np.ndarray]:
        """Return the shifts of parameters at rows, by index of the parameter."""
        shifts: dict[int, np.ndarray] = {}
        for p, column, value in self.given_shifts:
            change = value * X.row_covariates[:, column]
            shifts[p] = shifts.get(p, 0.0) + change
        for e, entry in enumerate(self.numeric):
            if entry.kind == "row":
                value = numeric[..., e]
                if np.ndim(value):
                    value = value[X.subject_of_row]
                change = value * X.row_covariates[:, entry.column]
                shifts[entry.parameter] = shifts.get(entry.parameter, 0.0) + change
        if self.occasions is None:
            return shifts
        effects = Z[:, len(self.random) :]
        effects = effects.reshape(len(Z), -1, len(self.occasions.parameters))
        by_row = effects[X.subject_of_row, X.occasions]
        by_row = np.where(X.occasions[:, None] < 0, 0.0, by_row)
        for p, change in zip(self.occasions.parameters, by_row.T, strict=True):
            shifts[p] = shifts.get(p, 0.0) + change
        return shifts
