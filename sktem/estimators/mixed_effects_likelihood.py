"""Likelihoods and standard errors of a fitted mixed-effects estimator."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem.evaluation.louis import louis_information
from sktem.evaluation.marginal_likelihood import (
    linearized_log_likelihood,
    quadrature_draws,
    single_point,
)
from sktem.evaluation.observed_information import (
    from_vector,
    numerical_hessian,
    observed_information,
    to_vector,
)
from sktem.models.transforms import TRANSFORMS

__all__ = ["MixedEffectsLikelihoods"]

#: Importance draws of all subjects together for standard errors, and bounds per
#: subject.
INFORMATION_DRAWS, LEAST_DRAWS, MOST_DRAWS = 20_000, 64, 1000
#: Batches of the draws from whose scatter the Monte Carlo error follows.
N_BATCHES = 10


class MixedEffectsLikelihoods:
    """Methods on the likelihood of :class:`sktem.NonlinearMixedEffectsRegressor`."""

    def log_likelihood(
        self, method="importance", *, n_draws=2000, n_nodes=9, return_error=False
    ):
        """Return the marginal log-likelihood of the fitted data.

        Parameters
        ----------
        method : {"importance", "quadrature", "linearized"}, default="importance"
            Importance sampling from t distributions, or adaptive Gauss-Hermite
            quadrature, both at the conditional modes with full covariances; or the
            Gaussian law that the model has when its function is made linear there.
        n_draws : int, default=2000
            Importance draws per subject.
        n_nodes : int, default=9
            Quadrature nodes per random effect.
        return_error : bool, default=False
            Whether to return the Monte Carlo standard error as well, 0 for the other
            methods.

        Returns
        -------
        float or tuple of float
            The log-likelihood, and its error if asked for.

        Raises
        ------
        ValueError
            For an unknown method, or "linearized" with ``log_density``.
        """
        check_is_fitted(self)
        error = 0.0
        if self._model.design.random.size == 0:
            Z = np.empty((len(self._rows), 0))
            values = self._model.log_conditional(self._rows, Z, self.params_)
        elif method == "importance":
            draws, log_joint = self._draws(n_draws)
            values, error = draws.log_likelihood(log_joint)
        elif method == "quadrature":
            draws = quadrature_draws(*self._conditional(), n_nodes)
            log_joint = draws.log_conditional(self._model, self._rows, self.params_)
            log_joint += draws.log_prior(self._model, self._rows, self.params_)
            values, _ = draws.log_likelihood(log_joint)
        elif method == "linearized":
            values = self._linearized(self.params_)
        else:
            raise ValueError(
                "method must be one of ['importance', 'linearized', 'quadrature'], got "
                f"{method!r}"
            )
        total = float(np.sum(values))
        return (total, error) if return_error else total

    def _linearized(self, params):
        if self._model.error is None:
            raise ValueError("log_density has no residual error to linearize with")
        modes = self._conditional()[0]
        return linearized_log_likelihood(self._model, self._rows, params, modes)

    def aic(self, method="importance"):
        """Return Akaike's information criterion of the fitted data.

        Parameters
        ----------
        method : str, default="importance"
            As for :meth:`log_likelihood`.

        Returns
        -------
        float
            The lower, the better.
        """
        return -2 * self.log_likelihood(method) + 2 * len(self._names())

    def bic(self, method="importance"):
        """Return the Bayesian information criterion, with subjects as sample size.

        Parameters
        ----------
        method : str, default="importance"
            As for :meth:`log_likelihood`.

        Returns
        -------
        float
            The lower, the better.
        """
        penalty = np.log(len(self._rows)) * len(self._names())
        return -2 * self.log_likelihood(method) + float(penalty)

    # ----------------------------------------------------------------- standard errors

    @property
    def standard_errors_(self):
        """Standard errors of all parameters, from the observed information."""
        return self.standard_errors()

    def standard_errors(self, method="louis", *, n_draws="auto", return_error=False):
        """Return standard errors of all parameters, from the observed information.

        Parameters
        ----------
        method : {"louis", "importance", "linearized"}, default="louis"
            "louis" averages slopes and Hessians of the complete-data log-density over
            draws of the latents given the observations (Louis 1982): complete less
            missing information. "importance" takes differences of the likelihood by
            importance sampling, and "linearized" of that with the model function made
            linear at the conditional modes.
        n_draws : int or "auto", default="auto"
            Draws per subject. "auto" is 20,000 in all, within 64 to 1000 per subject.
        return_error : bool, default=False
            Whether to return Monte Carlo standard errors of the errors as well, from
            ten batches of the draws; only with "louis".

        Returns
        -------
        dict of float, or tuple of two dicts
            Standard errors by the names of ``monte_carlo_errors_``, those of population
            values on the natural scale; NaN where the information is singular.

        Raises
        ------
        ValueError
            For an unknown method, "linearized" with ``log_density``, or an error that
            is not of "louis".
        """
        check_is_fitted(self)
        if method not in ("louis", "importance", "linearized"):
            raise ValueError(
                "method must be one of ['importance', 'linearized', 'louis'], got "
                f"{method!r}"
            )
        if return_error and method != "louis":
            raise ValueError(f'return_error needs method="louis", got {method!r}')
        if n_draws == "auto":
            n_draws = int(
                np.clip(INFORMATION_DRAWS // len(self._rows), LEAST_DRAWS, MOST_DRAWS)
            )
        key = method, n_draws, return_error
        if key not in self._cache:
            self._cache[key] = self._errors(*key)
        errors, noise = self._cache[key]
        return (dict(errors), dict(noise)) if return_error else dict(errors)

    def _errors(self, method, n_draws, with_noise):
        """Return standard errors and their Monte Carlo errors, by name."""
        model, rows, params = self._model, self._rows, self.params_
        vector = to_vector(model, params)
        noise = np.zeros(len(vector))
        if method == "linearized":
            steps = 1e-3 * np.maximum(np.abs(vector), 1e-2)
            information = -numerical_hessian(
                lambda v: self._linearized(from_vector(model, params, v)).sum(),
                vector,
                steps,
            )
            covariance = _inverse(information)
        else:
            if model.design.random.size:
                draws, _ = self._draws(n_draws)
            else:
                draws = single_point(len(rows))
            find = louis if method == "louis" else observed_information
            covariance = _inverse(find(model, rows, params, draws))
            if with_noise and draws.random:
                noise = _noise(model, rows, params, draws, covariance)
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.diag(covariance))
        # Population values by the delta method.
        design, names = model.design, self._names()
        for j, name in enumerate(names):
            if name in design.names:
                kind = design.transforms[design.names.index(name)]
                slope = abs(float(TRANSFORMS[kind].derivative(np.array(vector[j]))))
                errors[j], noise[j] = errors[j] * slope, noise[j] * slope
        return (
            dict(zip(names, errors.tolist(), strict=True)),
            dict(zip(names, noise.tolist(), strict=True)),
        )


def louis(model, X, params, draws):
    """Return the observed information by Louis' formula."""
    return louis_information(model, X, params, draws).observed


def _inverse(information):
    scale = np.sqrt(np.abs(np.diag(information)))
    scale[~(scale > 0)] = 1.0
    return np.linalg.pinv(information / scale[:, None] / scale) / scale[:, None] / scale


def _noise(model, X, params, draws, covariance):
    """Return Monte Carlo errors of the roots of the diagonal of the covariance."""
    found = [
        louis(model, X, params, draws.part(slice(b, None, N_BATCHES)))
        for b in range(N_BATCHES)
    ]
    moved = covariance @ (np.array(found) - np.mean(found, axis=0)) @ covariance
    changes = np.diagonal(moved, axis1=1, axis2=2)
    with np.errstate(invalid="ignore"):
        changes = changes / (2 * np.sqrt(np.diag(covariance)))
    return changes.std(axis=0, ddof=1) / np.sqrt(N_BATCHES)
