"""Likelihoods of mixed-effects models given the random parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from sktem.kernels.blocks import iterate_blocks
from sktem.mixed_effects.rows import GroupedRows
from sktem.mixed_effects.structural import StructuralModel
from sktem.mixed_effects.transforms import TRANSFORMS
from sktem.models.base import LatentModel

__all__ = ["MixedEffectsLikelihood"]

#: Subjects per block of the compiled sweeps.
SUBJECTS_PER_BLOCK = 512


class MixedEffectsLikelihood(LatentModel):
    """What :class:`NonlinearMixedEffectsModel` knows of densities and gradients."""

    structure: Any
    design: Any
    error: Any
    log_density: Any
    gradient: Any
    least_prediction: float
    n_jobs: int | None

    def prior_moments(self, X, params):
        """Return the means of the random parameters and their Cholesky factor."""
        means = X.covariates @ self.design.matrix(params.coefficients).T
        return means, np.linalg.cholesky(params.omega)

    def individual_parameters(self, X: GroupedRows, Z, numeric):
        """Return the parameters psi by name, one value per row.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d)
            Random parameters.
        numeric : ndarray of shape (k,) or (n_subjects, k)
            Parameters without a closed form.

        Returns
        -------
        dict of ndarray of shape (n_rows,)
            Parameters.
        """
        design = self.design
        phi = design.base(X.covariates, numeric)
        phi[:, design.random] = Z
        shifts = design.shifts(X.row_covariates, numeric, X.subject_of_row)
        psi = {}
        for p, name in enumerate(design.names):
            forward = TRANSFORMS[design.transforms[p]].forward
            if p in shifts:
                psi[name] = forward(phi[X.subject_of_row, p] + shifts[p])
            else:
                psi[name] = forward(phi[:, p])[X.subject_of_row]
        return psi

    def predict_rows(self, X: GroupedRows, Z, numeric):
        """Return the model function at given random parameters.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d)
            Random parameters.
        numeric : ndarray of shape (k,) or (n_subjects, k)
            Parameters without a closed form.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions.
        """
        with np.errstate(all="ignore"):
            psi = self.individual_parameters(X, Z, numeric)
            return self._function(psi, X)

    def _function(self, psi, X):
        if isinstance(self.structure, StructuralModel):
            return self.structure.function(psi, X.inputs)
        return np.asarray(self.structure(psi, X.columns), dtype=float)

    def _sigma_rows(self, X, sigma, numeric):
        """Return a and b, per row where the numeric parameters are per subject."""
        found = [
            value[X.subject_of_row] if np.ndim(value) else value
            for value in np.moveaxis(sigma, -1, 0)
        ]
        for e, entry in enumerate(self.design.numeric):
            if entry.kind == "residual":
                value = np.exp(numeric[..., e])
                found[entry.parameter] = (
                    value[X.subject_of_row] if np.ndim(value) else value
                )
        return found

    def row_log_likelihood(self, X: GroupedRows, Z, sigma, numeric):
        """Return the log-density of each row given the random parameters.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d)
            Random parameters.
        sigma : ndarray of shape (2,) or (n_subjects, 2)
            Residual error.
        numeric : ndarray of shape (k,) or (n_subjects, k)
            Parameters without a closed form.

        Returns
        -------
        ndarray of shape (n_rows,)
            Log-densities, minus infinity where the function is not a number.
        """
        with np.errstate(all="ignore"):
            psi = self.individual_parameters(X, Z, numeric)
            if self.log_density is not None:
                values = np.asarray(self.log_density(psi, X.columns, X.y), dtype=float)
            else:
                f = self._function(psi, X)
                sigma = self._sigma_rows(X, sigma, numeric)
                values = self.error.log_density(X.y, f, sigma, self.least_prediction)
        return np.where(np.isnan(values), -np.inf, values)

    def residual_scale(self, X: GroupedRows, f, params):
        """Return the standard deviation of the residual of each row.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        f : ndarray of shape (n_rows,)
            Predictions.
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_rows,)
            Standard deviations, of the logarithm for the exponential error.
        """
        sigma = self._sigma_rows(X, params.sigma, params.numeric)
        return self.error.standard_deviation(f, sigma, self.least_prediction)

    def _compiled(self, X, params):
        """Return (kernels, model, rows) for the compiled code, None without."""
        library = isinstance(self.structure, StructuralModel)
        by_row = any(entry.kind == "row" for entry in self.design.numeric)
        if not library or by_row or self.error is None:
            return None
        from sktem.mixed_effects.kernels import subjects

        design = self.design
        codes = [TRANSFORMS[name].code for name in design.transforms]
        model = subjects.SubjectModel(
            self.structure.code,
            self.error.code,
            np.array(codes, dtype=np.int64),
            design.random,
            float(params.sigma[0]),
            float(params.sigma[1]),
            self.least_prediction,
        )
        base = design.base(X.covariates, params.numeric)
        rows = subjects.SubjectRows(X.by_column, X.y, X.offsets, base)
        return subjects, model, rows

    def log_conditional(self, X, Z, params):
        """Return the log-likelihood of subjects given their random parameters.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d)
            Random parameters.
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_subjects,)
            Log-likelihoods.
        """
        compiled = self._compiled(X, params)
        if compiled is None:
            return X.sums(self.row_log_likelihood(X, Z, params.sigma, params.numeric))
        subjects, model, rows = compiled
        result = np.empty((len(X), 1))
        chains = np.ascontiguousarray(Z)[:, None]
        self._in_blocks(
            lambda start, stop: subjects.log_likelihoods(
                model, rows, chains, start, stop, result
            ),
            len(X),
        )
        values = result[:, 0]
        return np.where(np.isnan(values), -np.inf, values)

    def _in_blocks(self, function, n):
        for _ in iterate_blocks(function, n, SUBJECTS_PER_BLOCK, self.n_jobs):
            pass

    def log_prior(self, X, Z, params):
        """Return the log-density of the random parameters.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d)
            Random parameters.
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_subjects,)
            Log-densities.
        """
        means, root = self.prior_moments(X, params)
        white = np.linalg.solve(root, (Z - means).T)
        constant = np.log(np.diag(root)).sum() + 0.5 * len(root) * np.log(2 * np.pi)
        return -0.5 * (white**2).sum(axis=0) - constant

    def log_joint(self, X, Z, params):
        """Return the log-density of observations and random parameters."""
        return self.log_conditional(X, Z, params) + self.log_prior(X, Z, params)

    def grad_log_joint(self, X, Z, params):
        """Return the gradient of ``log_joint`` in the random parameters."""
        means, root = self.prior_moments(X, params)
        gradient = -np.linalg.solve(params.omega, (Z - means).T).T
        if self.gradient is not None and self.error is not None:
            return gradient + self._supplied_gradient(X, Z, params)
        step = 1e-5 * np.sqrt((root**2).sum(axis=1))
        step = np.maximum(step, 1e-9 * np.abs(means).max(axis=0, initial=0.0))
        for j in range(Z.shape[1]):
            shift = np.zeros(Z.shape[1])
            shift[j] = step[j]
            with np.errstate(invalid="ignore"):
                above = self.log_conditional(X, Z + shift, params)
                below = self.log_conditional(X, Z - shift, params)
                gradient[:, j] += (above - below) / (2 * step[j])
        return gradient

    def _supplied_gradient(self, X, Z, params):
        design = self.design
        with np.errstate(all="ignore"):
            psi = self.individual_parameters(X, Z, params.numeric)
            f = self._function(psi, X)
            slopes = self.gradient(psi, X.columns)
            # d log-density / df by the residual error, exact up to rounding.
            sigma = self._sigma_rows(X, params.sigma, params.numeric)
            least = self.least_prediction
            # The least prediction is 1e-8 of the size of y.
            step = 1e-6 * np.maximum(np.abs(f), 1e5 * least)
            above = self.error.log_density(X.y, f + step, sigma, least)
            below = self.error.log_density(X.y, f - step, sigma, least)
            outer = (above - below) / (2 * step)
            found = np.empty_like(Z)
            for j, p in enumerate(design.random):
                transform = TRANSFORMS[design.transforms[p]]
                inner = transform.derivative(transform.inverse(psi[design.names[p]]))
                found[:, j] = X.sums(outer * slopes[design.names[p]] * inner)
        return found
