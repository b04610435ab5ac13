"""Likelihoods and standard errors of a fitted mixed-effects estimator."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem.evaluation.marginal_likelihood import (
    linearized_log_likelihood,
    quadrature_draws,
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

    def standard_errors(self, method="importance"):
        """Return standard errors of all parameters.

        Parameters
        ----------
        method : {"importance", "linearized"}, default="importance"
            Whether the observed information is that of the likelihood by importance
            sampling, or of the linearised one.

        Returns
        -------
        dict of float
            Standard errors by the names of ``monte_carlo_errors_``, those of population
            values on the natural scale; NaN where the information is singular.
        """
        check_is_fitted(self)
        if method not in ("importance", "linearized"):
            raise ValueError(
                f"method must be one of ['importance', 'linearized'], got {method!r}"
            )
        if method not in self._cache:
            self._cache[method] = self._errors(method)
        return dict(self._cache[method])

    def _errors(self, method):
        model, params = self._model, self.params_
        vector = to_vector(model, params)
        if method == "importance":
            n_draws = int(
                np.clip(INFORMATION_DRAWS // len(self._rows), LEAST_DRAWS, MOST_DRAWS)
            )
            draws, _ = self._draws(n_draws)
            information = observed_information(model, self._rows, params, draws)
        else:
            steps = 1e-3 * np.maximum(np.abs(vector), 1e-2)
            information = -numerical_hessian(
                lambda v: self._linearized(from_vector(model, params, v)).sum(),
                vector,
                steps,
            )
        scale = np.sqrt(np.abs(np.diag(information)))
        scale[~(scale > 0)] = 1.0
        covariance = np.linalg.pinv(information / scale[:, None] / scale)
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.diag(covariance)) / scale
        names = self._names()
        found = dict(zip(names, errors.tolist(), strict=True))
        # Population values by the delta method.
        design = model.design
        natural = dict(zip(names, vector.tolist(), strict=True))
        for name, kind in zip(design.names, design.transforms, strict=True):
            if name in found:
                slope = TRANSFORMS[kind].derivative(np.array(natural[name]))
                found[name] = float(found[name] * slope)
        return found
