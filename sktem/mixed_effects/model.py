"""Nonlinear mixed-effects models: the complete-data model."""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from sktem.mixed_effects.compiled import CompiledSubjects
from sktem.mixed_effects.design import MixedEffectsDesign, MixedEffectsParams
from sktem.mixed_effects.differences import DIFFERENCES
from sktem.mixed_effects.floors import Floors
from sktem.mixed_effects.m_step import (
    Annealing,
    Moments,
    maximize_moments,
    solve_scaled,
)
from sktem.mixed_effects.rows import GroupedRows
from sktem.mixed_effects.structural import NamedValues, StructuralModel
from sktem.mixed_effects.transforms import TRANSFORMS
from sktem.models.base import LatentModel

__all__ = ["NonlinearMixedEffectsModel"]

#: No bound on how fast variances fall.
NO_ANNEALING = Annealing()


class NonlinearMixedEffectsModel(LatentModel):
    """Nonlinear regression with parameters that vary from subject to subject.

    ``y_ij = f(psi_i, x_ij) + g(f) eps_ij`` with ``psi_i = transform(phi_i)`` and
    ``phi_i ~ N(C_i mu, Omega)``; or observations with their own log-density. The
    latents of a subject are its random parameters phi.

    :class:`sktem.NonlinearMixedEffectsRegressor` builds and fits it. The M-step is
    exact for means, the covariance, and a residual error with one parameter. Parameters
    without a closed form (those without random effects, covariates that vary within a
    subject, the combined error) take a Newton step on the average of quadratic
    surrogates. The surrogates depend on the parameters at which they were made, which
    are therefore stored with the averaged latents (``annotate``).

    Parameters
    ----------
    structure : StructuralModel or callable
        The model function ``f(psi, X)``, where psi is a dict of arrays by name.
    design : MixedEffectsDesign
        Coefficients, transforms and random effects.
    start : MixedEffectsParams
        Starting parameters.
    error : ResidualError or None
        The residual error; None with ``log_density``.
    log_density : callable or None, default=None
        ``log_density(psi, X, y)`` returns the log-density of each row.
    draw : callable or None, default=None
        ``draw(psi, X, rng)`` draws an observation for each row with that density.
    gradient : callable or None, default=None
        ``gradient(psi, X)`` returns a dict with df / dpsi by name; None means finite
        differences.
    annealing : Annealing, default=Annealing()
        Bounds on how fast variances fall at the start.
    residual_floors : array-like of shape (2,), default=(1e-6, 1e-6)
        Smallest a and b of the residual error.
    least_prediction : float, default=1e-8
        Minimum size of predictions, for the scatter of a proportional error.
    n_jobs : int or None, default=None
        Threads of the compiled sweeps.
    numeric_units : ndarray of shape (k,) or None, default=None
        Sizes of changes of the parameters without a closed form that change the
        observations noticeably, for finite differences and longest steps; None means
        ones.
    wide : ndarray of shape (d, d) or None, default=None
        A large covariance of the random effects. Random effects whose coordinates are
        alike, such as a slope and an intercept far from the data, are bounded in units
        of it; None means the variances at the start.
    """

    def __init__(
        self,
        structure,
        design: MixedEffectsDesign,
        start: MixedEffectsParams,
        error,
        log_density=None,
        draw=None,
        gradient=None,
        annealing=NO_ANNEALING,
        residual_floors=(1e-6, 1e-6),
        least_prediction=1e-8,
        n_jobs=None,
        numeric_units=None,
        wide=None,
    ):
        self.structure = structure
        self.design = design
        self.start = start
        self.error = error
        self.log_density = log_density
        self.draw = draw
        self.gradient = gradient
        self.annealing = annealing
        self.residual_floors = residual_floors
        self.least_prediction = least_prediction
        self.n_jobs = n_jobs
        self.numeric_units = numeric_units
        self.wide = wide

    # ------------------------------------------------------------------- parameters

    @property
    def _centre(self):
        design, centre = self.design, np.zeros(self.design.n_latents)
        intercepts = design.columns == 0
        centre[design.positions[intercepts]] = self.start.coefficients[intercepts]
        return centre

    @property
    def floors(self) -> Floors:
        """Smallest variances and residual errors."""
        return Floors.of(self.start.omega, self.wide, self.residual_floors)

    def units_of_numeric(self):
        """Return the sizes of the parameters without a closed form.

        Returns
        -------
        ndarray of shape (k,)
            Units, ones where nothing is known.
        """
        if self.numeric_units is None:
            return np.ones(len(self.design.numeric))
        return self.numeric_units

    def sizes(self):
        """Return the numbers of covariates, random and numeric parameters.

        Returns
        -------
        tuple of int
            Sizes, as :meth:`Moments.of` takes them.
        """
        design = self.design
        return design.constant.shape[1], design.n_latents, len(design.numeric)

    def initial_params(self, X, rng):
        """Return the given start."""
        return self.start

    def initial_latents(self, X, params, rng):
        """Return the means of the subjects."""
        return self.prior_moments(X, params)[0]

    def annotate(self, Z, params):
        """Append the numeric parameters and sigma to the points of surrogates."""
        if len(params.numeric) == 0:
            return Z
        visit = np.concatenate([params.numeric, params.sigma])
        tail = np.broadcast_to(visit, (*Z.shape[:-1], len(visit)))
        return np.concatenate([Z, tail], axis=-1)

    @property
    def closed_residual(self):
        """Residual parameter that has a closed-form M-step, None without."""
        closed = None if self.error is None else self.error.closed_form
        stepped = any(entry.kind == "residual" for entry in self.design.numeric)
        if closed is None or stepped or closed in self.design.held_residual:
            return None
        return closed

    def in_step(self, count):
        """Return the model whose chains of a subject are integrated in step.

        Differences between them have no noise of steps of integration that change.

        Parameters
        ----------
        count : int
            Consecutive chains, or parameters of them, that have the steps of the first.

        Returns
        -------
        NonlinearMixedEffectsModel
            This model, where predictions are not integrated.
        """
        if count == 1 or not getattr(self.structure, "tolerance", 0.0):
            return self
        other = copy(self)
        other.structure = self.structure.in_step(count)
        return other

    @property
    def is_in_step(self) -> bool:
        """Whether chains are integrated in step."""
        return getattr(self.structure, "n_in_step", 1) > 1

    # -------------------------------------------------------------------- densities

    def prior_moments(self, X, params):
        """Return the means of the random parameters and their Cholesky factor."""
        means = X.covariates @ self.design.matrix(params.coefficients).T
        return means, np.linalg.cholesky(params.omega)

    def individual_parameters(self, X: GroupedRows, Z, numeric, by_subject=False):
        """Return the parameters psi by name, one value per row.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d)
            Random parameters.
        numeric : ndarray of shape (k,) or (n_subjects, k)
            Parameters without a closed form.
        by_subject : bool, default=False
            Whether one value per subject is enough where no covariate varies within
            subjects.

        Returns
        -------
        dict of ndarray of shape (n_rows,) or (n_subjects,)
            Parameters.
        """
        design = self.design
        phi = design.base(X.covariates, numeric)
        phi[:, design.random] = Z[:, : len(design.random)]
        shifts = design.shifts(X, Z, numeric)
        by_subject = by_subject and not shifts
        psi = NamedValues()
        for p, name in enumerate(design.names):
            forward = TRANSFORMS[design.transforms[p]].forward
            if p in shifts:
                psi[name] = forward(phi[X.subject_of_row, p] + shifts[p])
            else:
                values = forward(phi[:, p])
                psi[name] = values if by_subject else values[X.subject_of_row]
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
            if X.events is not None:
                compiled = self.compiled(X, self.start._replace(numeric=numeric))
                if compiled is not None:
                    return compiled.predictions(Z)
                rows = X.events.rows
                psi = self.individual_parameters(rows, Z, numeric, by_subject=True)
                return X.events.predict(self.structure, psi)
            psi = self.individual_parameters(X, Z, numeric)
            return self._function(psi, X)

    def _function(self, psi, X):
        if isinstance(self.structure, StructuralModel):
            return self.structure.function(psi, X.inputs)
        return np.asarray(self.structure(psi, X.columns), dtype=float)

    def sigma_of_rows(self, X, sigma, numeric):
        """Return a and b, per row where the numeric parameters are per subject.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        sigma : ndarray of shape (2,) or (n_subjects, 2)
            Residual error.
        numeric : ndarray of shape (k,) or (n_subjects, k)
            Parameters without a closed form.

        Returns
        -------
        list of float or ndarray of shape (n_rows,)
            Parameters of the residual error.
        """
        entries = [
            value[X.subject_of_row] if np.ndim(value) else value
            for value in np.moveaxis(sigma, -1, 0)
        ]
        for e, entry in enumerate(self.design.numeric):
            if entry.kind == "residual":
                value = np.exp(numeric[..., e])
                entries[entry.parameter] = (
                    value[X.subject_of_row] if np.ndim(value) else value
                )
        return entries

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
            if self.log_density is not None:
                psi, f = self.for_density(X, Z, numeric)
                values = self.log_density(psi, X.columns, X.y, *f)
                values = np.asarray(values, dtype=float)
            else:
                f = self.predict_rows(X, Z, numeric)
                sigma = self.sigma_of_rows(X, sigma, numeric)
                values = self.error.on(X).log_likelihood(
                    X.y, f, sigma, self.least_prediction, X.censored, X.limits
                )
        return np.where(np.isnan(values), -np.inf, values)

    def for_density(self, X: GroupedRows, Z, numeric):
        """Return parameters of rows, and a list with predictions if there are records.

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
        tuple of (dict, list)
            Arguments of a density and of draws from it.
        """
        f = [] if X.events is None else [self.predict_rows(X, Z, numeric)]
        return self.individual_parameters(X, Z, numeric), f

    def weighted_residuals(self, X: GroupedRows, f, params):
        """Return residuals over their deviations, NaN for bounds.

        Parameters
        ----------
        X : GroupedRows
            Rows with their observations.
        f : ndarray of shape (n_rows,)
            Predictions.
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_rows,)
            Residuals.
        """
        error = self.error.on(X)
        g = error.standard_deviation(f, params.sigma, self.least_prediction)
        rest = error.weighted(X.y, f, g)
        return rest if X.censored is None else np.where(X.censored == 0, rest, np.nan)

    def compiled(self, X, params):
        """Return the subjects for compiled code.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        CompiledSubjects or None
            The subjects, None where compiled code does not know the model.
        """
        return CompiledSubjects.of(self, X, params)

    def log_conditional(self, X, Z, params):
        """Return the log-likelihood of subjects given their random parameters.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d) or (n_subjects, n_chains, d)
            Random parameters.
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_subjects,) or (n_subjects, n_chains)
            Log-likelihoods.
        """
        compiled = self.compiled(X, params)
        if compiled is not None and compiled.has_density:
            values = compiled.log_likelihoods(Z)
            return np.where(np.isnan(values), -np.inf, values)
        rows = X if Z.ndim == 2 else X.repeat(Z.shape[1])
        flat = Z.reshape(len(rows), Z.shape[-1])
        values = self.row_log_likelihood(rows, flat, params.sigma, params.numeric)
        return rows.sums(values).reshape(Z.shape[:-1])

    def log_prior(self, X, Z, params):
        """Return the log-density of the random parameters.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d) or (n_subjects, n_chains, d)
            Random parameters.
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        ndarray of shape (n_subjects,) or (n_subjects, n_chains)
            Log-densities.
        """
        means, root = self.prior_moments(X, params)
        rest = Z - (means if Z.ndim == 2 else means[:, None])
        white = np.linalg.solve(
            root, rest.reshape(math.prod(Z.shape[:-1]), len(root)).T
        )
        constant = np.log(np.diag(root)).sum() + 0.5 * len(root) * np.log(2 * np.pi)
        return (-0.5 * (white**2).sum(axis=0) - constant).reshape(Z.shape[:-1])

    def log_joint(self, X, Z, params):
        """Return the log-density of observations and random parameters."""
        return self.log_conditional(X, Z, params) + self.log_prior(X, Z, params)

    def grad_log_joint(self, X, Z, params):
        """Return the gradient of ``log_joint`` in the random parameters."""
        means, root = self.prior_moments(X, params)
        gradient = -np.linalg.solve(params.omega, (Z - means).T).T
        if self.gradient is not None and self.error is not None:
            return gradient + _supplied_gradient(self, X, Z, params)
        step = 1e-5 * np.sqrt((root**2).sum(axis=1))
        step = np.maximum(step, 1e-9 * np.abs(means).max(axis=0, initial=0.0))
        axes = np.diag(step)
        places = Z[:, None] + np.concatenate([axes, -axes])
        model = self.in_step(places.shape[1])
        with np.errstate(invalid="ignore"):
            logs = model.log_conditional(X, places, params)
            above, below = np.split(logs, 2, axis=1)
            return gradient + (above - below) / (2 * step)

    # ------------------------------------------------------------------------- walk

    def walk(self, X, Z, params, moves, noise, log_uniforms):
        """Run the compiled moves of ``ComponentWalk``; return None without a kernel.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, n_chains, d)
            Chains.
        params : MixedEffectsParams
            Parameters.
        moves : Moves
            Proposals.
        noise : ndarray of shape (n_subjects, n_chains, n_normals)
            Normal variables.
        log_uniforms : ndarray of shape (n_subjects, n_chains, n_moves)
            Logarithms of uniform variables.

        Returns
        -------
        tuple of (ndarray, ndarray) or None
            New chains, and how often each move was accepted.
        """
        compiled = self.compiled(X, params)
        if compiled is None or not compiled.has_density:
            return None
        prior = self.prior_moments(X, params)
        return compiled.walk(Z, prior, moves, noise, log_uniforms)

    # ------------------------------------------------------------------- statistics

    def mean_statistics(self, X, Z, sample_weight=None):
        """Average the statistics of subjects, see :class:`Moments`."""
        _, d, k = self.sizes()
        weights = np.full(len(X), 1.0) if sample_weight is None else sample_weight
        weights = weights / weights.sum()
        phi, numeric, sigma = Z[:, :d] - self._centre, Z[:, d : d + k], Z[:, d + k :]
        weighted = X.covariates * weights[:, None]
        parts = [
            weighted.T @ X.covariates,
            weighted.T @ phi,
            (phi * weights[:, None]).T @ phi,
            [weights @ self.residual_sums(X, Z[:, :d], numeric), weights @ X.lengths],
            *self._surrogate(X, Z[:, :d], sigma, numeric, weights),
        ]
        return np.concatenate([np.ravel(part) for part in parts])

    def residual_sums(self, X, Z, numeric):
        """Return sums of squared residuals, for errors with one parameter.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d) or (n_subjects, n_chains, d)
            Random parameters.
        numeric : ndarray of shape (k,) or (n_subjects, k)
            Parameters without a closed form; one for all, where there are chains.

        Returns
        -------
        ndarray of shape (n_subjects,) or (n_subjects, n_chains)
            Sums of what has the parameter's square as mean, 0 for other errors.
        """
        if self.error is None or self.error.closed_form is None:
            return np.zeros(Z.shape[:-1])
        compiled = self.compiled(X, self.start._replace(numeric=numeric))
        if compiled is not None and compiled.has_density:
            return compiled.residual_sums(Z)
        rows = X if Z.ndim == 2 else X.repeat(Z.shape[1])
        f = self.predict_rows(rows, Z.reshape(len(rows), Z.shape[-1]), numeric)
        with np.errstate(all="ignore"):
            squares = self.error.square(rows.y, f, self.least_prediction)
        sums = rows.sums(np.where(np.isfinite(squares), squares, 0.0))
        return sums.reshape(Z.shape[:-1])

    def row_scores(self, X, Z, sigma, numeric):
        """Return the slope of each row's log-density in the numeric parameters.

        Parameters
        ----------
        X : GroupedRows
            Subjects.
        Z : ndarray of shape (n_subjects, d)
            Random parameters.
        sigma : ndarray of shape (2,) or (n_subjects, 2)
            Residual error.
        numeric : ndarray of shape (n_subjects, k)
            Where the slopes are taken.

        Returns
        -------
        ndarray of shape (n_rows, k)
            Slopes by central differences, 0 where there is none.
        """
        scores = np.empty((len(X.y), numeric.shape[1]))
        lengths = 0.1 * DIFFERENCES.step(self.structure) * self.units_of_numeric()
        for e in range(numeric.shape[1]):
            step = np.maximum(lengths[e], 1e-9 * np.abs(numeric[:, e]))
            above, below = numeric.copy(), numeric.copy()
            above[:, e] += step
            below[:, e] -= step
            with np.errstate(invalid="ignore"):
                change = self.row_log_likelihood(X, Z, sigma, above)
                change = change - self.row_log_likelihood(X, Z, sigma, below)
            scores[:, e] = change / (2 * step)[X.subject_of_row]
        return np.where(np.isfinite(scores), scores, 0.0)

    def _surrogate(self, X, Z, sigma, numeric, weights):
        """Return averages from which the numeric parameters' Newton step follows."""
        if numeric.shape[1] == 0:
            return np.empty(0), np.empty((0, 0))
        scores = self.row_scores(X, Z, sigma, numeric)
        row_weights = weights[X.subject_of_row]
        weighted = scores * row_weights[:, None]
        curvature = weighted.T @ scores
        products = (scores * numeric[X.subject_of_row]).sum(axis=1)
        return weighted.sum(axis=0) + weighted.T @ products, curvature

    def project(self, s):
        """Keep the spread of the random effects and the residuals positive."""
        n_covariates, d, k = self.sizes()
        inside = s.copy()
        moments = Moments.of(inside, n_covariates, d, k)
        left = False
        if d:
            matrix = solve_scaled(moments.covariates, moments.cross).T
            spread = moments.spread(matrix)
            # In units of the floors, since parameters have their own scales.
            units = np.sqrt(self.floors.variances)
            values, vectors = np.linalg.eigh(spread / units[:, None] / units)
            if values[0] < 1.0:
                left = True
                lifted = (vectors * np.maximum(values, 1.0)) @ vectors.T
                moments.second[...] += lifted * units[:, None] * units - spread
        if self.error is not None and moments.residual[0] < 0:
            left = True
            moments.residual[0] = 0.0
        return inside, left

    def maximize(self, s, params):
        """Return the parameters that follow from averaged statistics."""
        return maximize_moments(
            Moments.of(s, *self.sizes()),
            params,
            self.design,
            self._centre,
            self.floors,
            self.annealing,
            self.closed_residual,
            self.units_of_numeric(),
        )

    def at_floor(self, params):
        """Return which variances are at their floor.

        Parameters
        ----------
        params : MixedEffectsParams
            Parameters.

        Returns
        -------
        ndarray of bool of shape (d,)
            Whether each is.
        """
        return np.diag(params.omega) <= 1.001 * self.floors.variances

    def degeneracies(self, params):
        """Return how many variances are at their floor."""
        return int(self.at_floor(params).sum())


def _supplied_gradient(model, X, Z, params):
    """Return slopes of the log-likelihoods by the user's derivatives."""
    design = model.design
    with np.errstate(all="ignore"):
        psi = model.individual_parameters(X, Z, params.numeric)
        f = model._function(psi, X)
        slopes = model.gradient(psi, X.columns)
        error = model.error.on(X)
        outer = error.slope(X.y, f, params.sigma, model.least_prediction)
        gradient = np.empty_like(Z)
        for j, p in enumerate(design.latents[design.tied]):
            transform = TRANSFORMS[design.transforms[p]]
            inner = transform.derivative(transform.inverse(psi[design.names[p]]))
            by_row = outer * slopes[design.names[p]] * inner
            if j >= len(design.random):
                m = len(design.occasions.parameters)
                by_row = by_row * (X.occasions == (j - len(design.random)) // m)
            gradient[:, j] = X.sums(by_row)
    return gradient
