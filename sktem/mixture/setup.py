"""From the parameters of a Gaussian mixture estimator to a model and its start."""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from sktem.e_step.random import seed_sequence
from sktem.estimators.base import USER_FRAME
from sktem.estimators.fit_warnings import warn_of_run
from sktem.estimators.stochastic_em import drop_weightless
from sktem.exceptions import FitWarning
from sktem.mixture.covariances import COVARIANCES
from sktem.mixture.given import (
    as_dtype,
    central_point,
    check_given_parameters,
    check_magnitude,
    override_start,
)
from sktem.mixture.model import GaussianMixtureModel
from sktem.mixture.start import START_METHODS, start_statistics

__all__ = ["MixtureSetup"]


class MixtureSetup:
    """Validation, model, start and fitted attributes of a Gaussian mixture."""

    def _check_parameters(self):
        self._check_number("n_components", Integral, 1)
        self._check_number("n_init", Integral, 1)
        self._check_number("verbose_interval", Integral, 1)
        for name in (
            "reg_covar",
            "mean_penalty",
            "weight_concentration",
            "covariance_prior_strength",
        ):
            self._check_number(name, Real, 0)
        if self.init_size is not None:
            self._check_number("init_size", Integral, 1)
        if self.covariance_type not in COVARIANCES:
            raise ValueError(
                f"covariance_type must be one of {sorted(COVARIANCES)}, got "
                f"{self.covariance_type!r}"
            )
        if not callable(self.init_params) and self.init_params not in START_METHODS:
            raise ValueError(
                f"init_params must be one of {sorted(START_METHODS)} or a callable, "
                f"got {self.init_params!r}"
            )
        if (self.covariance_prior is None) != (self.covariance_prior_strength == 0):
            raise ValueError(
                "covariance_prior and covariance_prior_strength must be given together"
            )

    def _validate(self, X, sample_weight=None, *, reset, ensure_min_samples=1):
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=ensure_min_samples,
        )
        check_magnitude(X, getattr(self, "feature_names_in_", None))
        if sample_weight is None:
            return X, None
        sample_weight = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        return drop_weightless(X, sample_weight)

    def _new_model(self, X):
        d = X.shape[1]
        prior = self.covariance_prior
        if prior is not None:
            prior = np.asarray(prior, dtype=np.float64)
            if prior.shape not in ((), (d,), (d, d)):
                raise ValueError(
                    "covariance_prior must be a number, of shape "
                    f"({d},) or ({d}, {d}), got shape {prior.shape}"
                )
        if self.mean_prior is not None and np.shape(self.mean_prior) != (d,):
            raise ValueError(
                f"mean_prior must have shape ({d},), got {np.shape(self.mean_prior)}"
            )
        return GaussianMixtureModel(
            self.n_components,
            covariance_type=self.covariance_type,
            reg_covar=self.reg_covar,
            mean_penalty=self.mean_penalty,
            mean_prior=self.mean_prior,
            weight_concentration=self.weight_concentration,
            covariance_prior=prior,
            covariance_prior_strength=self.covariance_prior_strength,
            centre=central_point(X),
            n_jobs=self.n_jobs,
        )

    def _goes_on(self, n_features):
        """Return whether ``fit`` goes on from a previous one, which has to match."""
        if not (self.warm_start and hasattr(self, "means_")):
            return False
        self._check_same(self._stream.current_model, n_features)
        return True

    def _bound_to_beat(self, settings):
        """Return what EM compares its first lower bound with when a fit goes on."""
        # On other data or a sample of rows, what was reached before says nothing.
        comparable = settings.solver.n_index_sets == 0 and not hasattr(self, "n_steps_")
        return getattr(self, "lower_bound_", -np.inf) if comparable else -np.inf

    def _check_same(self, model, n_features):
        """Check that what was learned is a mixture of the same kind."""
        then = (model.n_components, model.covariance_type, self.means_.shape[1])
        now = (self.n_components, self.covariance_type, n_features)
        names = ("n_components", "covariance_type", "n_features")
        for name, before, after in zip(names, then, now, strict=True):
            if before != after:
                raise ValueError(
                    f"Cannot go on from a mixture with {name}={before!r}: it is now "
                    f"{after!r}. Set warm_start=False, or fit a new estimator."
                )

    def _seed(self):
        """Return the root of the streams and the random state of the starts."""
        seed = seed_sequence(self.random_state)
        if self.random_state is None or isinstance(
            self.random_state, np.random.Generator
        ):
            return seed, np.random.RandomState(seed.generate_state(4))
        return seed, check_random_state(self.random_state)

    def _given(self, n_features):
        """Return the checked parameters that the user gave for the start."""
        return check_given_parameters(self, n_features)

    def _start(self, model, X, sample_weight, given, random_state):
        """Return starting parameters and statistics."""
        complete = all(value is not None for value in given[:2]) and (
            given[2] is not None or self.covariance_type == "unit"
        )
        params = s = None
        if not complete:
            rows, weights = X, sample_weight
            if self.init_size is not None and self.init_size < len(X):
                size = max(self.init_size, self.n_components)
                chosen = np.sort(random_state.choice(len(X), size, replace=False))
                rows = X[chosen]
                weights = None if weights is None else weights[chosen]
            s = start_statistics(model, rows, self.init_params, random_state, weights)
            params = model.maximize(s, None)
        if any(value is not None for value in given):
            params = override_start(model, params, given, X)
            s = model.statistics_of(params)
        return params, s

    def _warn(self, state, settings):
        warn_of_run(state, settings, USER_FRAME)
        columns = self._swamped(settings.model, state.params)
        if len(columns):
            warnings.warn(
                f"reg_covar={self.reg_covar:g} is most of the variance that was found "
                f"in column(s) {', '.join(map(str, columns))}: divide the columns by "
                "their standard deviations, or choose a smaller reg_covar.",
                FitWarning,
                stacklevel=USER_FRAME,
            )

    def _swamped(self, model, params):
        """Return the columns in which all components are as wide as `reg_covar`."""
        structure = model.structure(params.means.shape[1])
        if structure.known or self.reg_covar == 0:
            return []
        diagonals = structure.diagonals(params.covariances)
        spherical = self.covariance_type == "spherical"
        diagonals = diagonals.reshape(-1, 1 if spherical else params.means.shape[1])
        rest = (diagonals - self.reg_covar) / self.reg_covar
        # Constant columns have nothing but rounding errors.
        found = (rest < 1).all(axis=0) & (rest > 1e-9).any(axis=0)
        return np.flatnonzero(found).tolist()

    def _fitted_attributes(self, settings, state, X):
        history = state.history
        lower_bounds = [float(value) for value in history.objective]
        return {
            **self._parameter_attributes(settings.model, state.params, X.dtype),
            "n_features_in_": X.shape[1],
            "n_iter_": int(np.ceil(state.rows_visited / max(state.n_rows, 1) - 1e-9)),
            "converged_": state.converged,
            "lower_bound_": lower_bounds[-1] if lower_bounds else -np.inf,
            "lower_bounds_": lower_bounds,
            "history_": history,
            "n_samples_seen_": len(X),
        }

    def _parameter_attributes(self, model, params, dtype):
        structure = model.structure(params.means.shape[1])
        factors = params.precisions_cholesky
        return {
            "weights_": params.weights.astype(dtype),
            "means_": (params.means + model.centre).astype(dtype),
            "covariances_": as_dtype(params.covariances, dtype),
            "precisions_cholesky_": as_dtype(factors, dtype),
            "precisions_": as_dtype(structure.precisions(factors), dtype),
        }
