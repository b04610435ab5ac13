"""What a fitted mixed-effects estimator tells: predictions, likelihoods, errors."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from sktem.choices import check_choice
from sktem.e_step.random import seed_sequence
from sktem.mixed_effects.columns import blank_columns
from sktem.mixed_effects.inference.conditional import conditional_modes
from sktem.mixed_effects.inference.marginal_likelihood import (
    importance_draws,
)
from sktem.mixed_effects.layout import group_rows
from sktem.mixed_effects.transforms import TRANSFORMS
from sktem.mixed_effects.vector import ParameterVector

__all__ = ["MixedEffectsResults"]


class MixedEffectsResults:
    """Methods of a fitted :class:`sktem.NonlinearMixedEffectsRegressor`."""

    # ------------------------------------------------------------- fitted attributes

    def _names(self):
        """Return the names of the estimated parameters."""
        return ParameterVector(self._model).names

    def _traced(self, model, trace):
        """Return fitted attributes on the path of the estimates."""
        names = trace.vector.names
        path = np.array(trace.vectors).reshape(-1, len(names))
        errors = trace.monte_carlo_errors()
        if errors is None:
            errors = np.full(len(names), np.nan)
        return {
            "monte_carlo_errors_": dict(zip(names, errors.tolist(), strict=True)),
            "trace_": dict(zip(names, path.T, strict=True)),
        }

    def _described(self, model, params):
        """Return fitted attributes that name the parameters."""
        design = model.design
        subject, by_row = design.covariate_names, design.row_covariate_names
        base = design.constant[:, 0].copy()
        matrix = design.matrix(params.coefficients)
        base[design.random] += matrix[:, 0]
        effects = {}
        for position, column, value in zip(
            design.positions, design.columns, params.coefficients, strict=True
        ):
            if column:
                name = design.names[design.random[position]]
                effects[name, subject[column]] = float(value)
        for name, column, value in design.given_effects:
            effects[name, column] = value
        residual = {}
        for entry, value in zip(design.numeric, params.numeric, strict=True):
            if entry.kind == "residual":
                continue
            if entry.kind == "subject" and entry.column == 0:
                base[entry.parameter] += value
            else:
                labels = by_row if entry.kind == "row" else subject
                name = design.names[entry.parameter]
                effects[name, labels[entry.column]] = float(value)
        if model.error is not None:
            sigma = params.sigma[list(model.error.indices)].tolist()
            residual = dict(zip(model.error.names, sigma, strict=True))
        return {
            "population_parameters_": {
                name: float(TRANSFORMS[kind].forward(value))
                for name, kind, value in zip(
                    design.names, design.transforms, base, strict=True
                )
            },
            "covariate_effects_": effects,
            "omega_": params.omega,
            "random_effects_": [design.names[p] for p in design.random],
            "residual_error_": residual,
        }

    # --------------------------------------------------------------------- prediction

    def _positions(self, groups, n_rows):
        """Return the fitted subject of each row, -1 for unknown ones."""
        if groups is None or self._known is None:
            return np.full(n_rows, -1)
        labels = np.asarray(groups)
        if labels.shape != (n_rows,):
            raise ValueError(
                f"groups must have one label per row, shape ({n_rows},), got "
                f"{labels.shape}"
            )
        place = {label: i for i, label in enumerate(self._known.tolist())}
        return np.array([place.get(label, -1) for label in labels.tolist()], dtype=int)

    def predict(self, X, groups=None):
        """Predict the mean of new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs and covariates.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects. Rows of subjects that ``fit`` has seen are predicted with the mode
            of their random effects, all others with random effects of zero.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions of the model function.

        Raises
        ------
        ValueError
            If the model function was None.
        """
        check_is_fitted(self)
        if self.model is None:
            raise ValueError("model is None: there is no function to predict with")
        X = validate_data(
            self, blank_columns(self, X), reset=False, dtype=np.float64, order="C"
        )
        rows, _ = group_rows(self._layout, X, np.zeros(len(X)), np.arange(len(X)))
        Z = self._model.prior_moments(rows, self.params_)[0]
        positions = self._positions(groups, len(X))
        known = positions >= 0
        if known.any() and Z.shape[1]:
            Z = Z.copy()
            Z[known] += self._random_effects()[positions[known]]
        return self._model.predict_rows(rows, Z, self.params_.numeric)

    def score(self, X, y, groups=None, sample_weight=None):
        """Return the coefficient of determination of the predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs and covariates.
        y : array-like of shape (n_samples,)
            Observations.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects, as in :meth:`predict`.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        float
            R^2.
        """
        prediction = self.predict(X, groups=groups)
        return float(r2_score(y, prediction, sample_weight=sample_weight))

    # --------------------------------------------------------------- conditional laws

    def _conditional(self):
        """Return modes and covariances of the random parameters, found once."""
        if "modes" not in self._cache:
            start = self._model.prior_moments(self._rows, self.params_)[0]
            if self._chains is not None and self._chains.shape[-1]:
                start = self._chains.mean(axis=1)
            self._cache["modes"] = conditional_modes(
                self._model, self._rows, self.params_, start
            )
        return self._cache["modes"][:2]

    def _random_effects(self):
        modes = self._conditional()[0]
        return modes - self._model.prior_moments(self._rows, self.params_)[0]

    def _rng(self):
        return np.random.default_rng(seed_sequence(self.random_state))

    def _draws(self, n_draws):
        """Return importance draws and their log-joint densities."""
        modes, covariances = self._conditional()
        draws = importance_draws(modes, covariances, n_draws, self._rng())
        log_joint = draws.log_conditional(self._model, self._rows, self.params_)
        return draws, log_joint + draws.log_prior(self._model, self._rows, self.params_)

    def _natural(self, Z):
        """Return parameters of the subjects on the natural scale."""
        design = self._model.design
        phi = design.base(self._rows.covariates, self.params_.numeric)
        shape = (*Z.shape[:-1], len(design.names))
        phi = np.broadcast_to(phi, shape).copy()
        phi[..., design.random] = Z
        return {
            name: TRANSFORMS[kind].forward(phi[..., p])
            for p, (name, kind) in enumerate(
                zip(design.names, design.transforms, strict=True)
            )
        }

    def individual_parameters(self, method="mode", n_draws=1000):
        """Return the parameters of the fitted subjects.

        Parameters
        ----------
        method : {"mode", "mean", "draws"}, default="mode"
            Mode of the conditional law (of the Gaussian parameters), conditional mean,
            or draws of it.
        n_draws : int, default=1000
            Draws, or importance draws that make the mean.

        Returns
        -------
        dict of ndarray
            Values on the natural scale by name, of shape (n_subjects,) in the order of
            ``groups_``, with "draws" of shape (n_draws, n_subjects). What covariates
            add that vary within a subject is left out.

        Raises
        ------
        ValueError
            For an unknown method.
        """
        check_is_fitted(self)
        if method == "mode":
            return self._natural(self._conditional()[0])
        check_choice("method", method, ("draws", "mean", "mode"))
        draws, log_joint = self._draws(max(n_draws, 1000))
        terms = log_joint + draws.log_weights
        weights = np.exp(terms - logsumexp(terms, axis=0))
        if method == "mean":
            natural = self._natural(draws.points)
            return {name: (weights * v).sum(axis=0) for name, v in natural.items()}
        rng = self._rng()
        chosen = np.empty((n_draws, *draws.points.shape[1:]))
        for i in range(chosen.shape[1]):
            # Systematic resampling, in random order.
            uniforms = (rng.random() + np.arange(n_draws)) / n_draws
            ends = np.cumsum(weights[:, i])
            picked = np.searchsorted(ends / ends[-1], uniforms)
            chosen[:, i] = draws.points[rng.permutation(picked), i]
        return self._natural(chosen)

    def shrinkage(self):
        """Return how far the modes of random effects are drawn to zero.

        Returns
        -------
        dict of float
            ``1 - var(modes) / variance`` by parameter: 0 where observations tell
            everything, 1 where they tell nothing.
        """
        check_is_fitted(self)
        variances = self._random_effects().var(axis=0)
        share = 1 - variances / np.diag(self.params_.omega)
        return dict(zip(self.random_effects_, share.tolist(), strict=True))

    # ---------------------------------------------------------------------- simulation

    def simulate(self, X, groups=None, random_state=None):
        """Draw observations of new subjects.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs and covariates.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects: rows of one label share their random effects. None means that each
            row is a subject.
        random_state : int, RandomState, Generator or None, default=None
            Seed.

        Returns
        -------
        ndarray of shape (n_samples,)
            Observations.

        Raises
        ------
        ValueError
            With ``log_density``, which says nothing of how to draw.
        """
        check_is_fitted(self)
        if self._model.error is None:
            raise ValueError("log_density does not say how observations are drawn")
        X = validate_data(
            self, blank_columns(self, X), reset=False, dtype=np.float64, order="C"
        )
        rng = np.random.default_rng(seed_sequence(random_state))
        rows, _ = group_rows(self._layout, X, np.zeros(len(X)), np.arange(len(X)))
        means, root = self._model.prior_moments(rows, self.params_)
        subjects = np.arange(len(X))
        if groups is not None:
            subjects = np.unique(np.asarray(groups), return_inverse=True)[1]
        effects = rng.standard_normal((subjects.max() + 1, len(root))) @ root.T
        Z = means + effects[subjects]
        f = self._model.predict_rows(rows, Z, self.params_.numeric)
        g = self._model.residual_scale(rows, f, self.params_)
        return self._model.error.draw(f, g, rng.standard_normal(len(f)))
