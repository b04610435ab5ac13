"""Likelihoods and standard errors of a fitted mixed-effects estimator."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice
from sktem.exceptions import FitWarning
from sktem.mixed_effects.inference.louis import louis_information
from sktem.mixed_effects.inference.marginal_likelihood import (
    linearized_log_likelihood,
    quadrature_draws,
    single_point,
)
from sktem.mixed_effects.inference.node_numbers import (
    covariance_of,
    information_by_nodes,
    log_likelihood_by_nodes,
)
from sktem.mixed_effects.inference.observed_information import (
    numerical_hessian,
    observed_information,
)
from sktem.mixed_effects.transforms import TRANSFORMS
from sktem.mixed_effects.vector import ParameterVector

__all__ = ["MixedEffectsLikelihoods"]

#: Importance draws of all subjects together for standard errors, and bounds per
#: subject.
INFORMATION_DRAWS, LEAST_DRAWS, MOST_DRAWS = 20_000, 64, 1000
#: Batches of the draws from whose scatter the Monte Carlo error follows.
N_BATCHES = 10
#: Error of a quadrature that is as good as none, and relative error of a standard error
#: from which it is not told.
EXACT, LARGEST_ERROR = 0.01, 0.2
#: Relative error that is due to rounding.
ROUNDING = 1e-12
#: Ways to a log-likelihood.
LIKELIHOODS = ["importance", "linearized", "quadrature", "auto"]
#: Eigenvalue of a correlation matrix that is at the bound, and what a Newton step may
#: promise at a maximum.
SINGULAR_CORRELATION, AT_MAXIMUM = 1e-5, 0.5


class MixedEffectsLikelihoods:
    """Methods on the likelihood of :class:`sktem.NonlinearMixedEffectsRegressor`."""

    def log_likelihood(
        self, method="auto", *, n_draws=2000, n_nodes="auto", return_error=False
    ):
        """Return the marginal log-likelihood of the fitted data.

        Parameters
        ----------
        method : {"auto", "quadrature", "importance", "linearized"}, default="auto"
            Adaptive Gauss-Hermite quadrature, or importance sampling from t
            distributions, both at the conditional modes with full covariances; or the
            Gaussian law that the model has when its function is made linear there.
            "auto" is quadrature where at most 2,000 nodes per subject determine the
            result, else the one of the first two with the smaller error.
        n_draws : int, default=2000
            Importance draws per subject.
        n_nodes : int or "auto", default="auto"
            Quadrature nodes per random effect. "auto" tries more of them until the
            result does not change.
        return_error : bool, default=False
            Whether to return the Monte Carlo standard error as well; of quadrature with
            ``n_nodes="auto"``, what the last increase of the number of nodes has
            changed; 0 for the others.

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
        check_choice("method", method, LIKELIHOODS)
        key = "log_likelihood", method, n_draws, n_nodes
        if key not in self._cache:
            self._cache[key] = self._log_likelihood(method, n_draws, n_nodes)
        total, error = self._cache[key]
        return (total, error) if return_error else total

    def _log_likelihood(self, method, n_draws, n_nodes):
        """Return the log-likelihood and its error."""
        model, rows, params = self._model, self._rows, self.params_
        if method == "linearized":
            return float(self._linearized(params).sum()), 0.0
        if model.design.random.size == 0:
            Z = np.empty((len(rows), 0))
            return float(model.log_conditional(rows, Z, params).sum()), 0.0
        if method == "importance":
            return self._by_importance(n_draws)
        if n_nodes != "auto":
            draws = quadrature_draws(*self._conditional(), n_nodes)
            log_joint = draws.log_conditional(model, rows, params)
            log_joint += draws.log_prior(model, rows, params)
            return float(draws.log_likelihood(log_joint)[0].sum()), 0.0
        values, error = log_likelihood_by_nodes(
            model, rows, params, *self._conditional()
        )
        total = float(values.sum())
        error = max(error, ROUNDING * abs(total))
        if method == "quadrature" or (error <= EXACT and np.isfinite(total)):
            return total, error
        drawn, noise = self._by_importance(n_draws)
        return (drawn, noise) if noise < error or np.isnan(total) else (total, error)

    def _by_importance(self, n_draws):
        draws, log_joint = self._draws(n_draws)
        values, error = draws.log_likelihood(log_joint)
        return float(values.sum()), error

    def _linearized(self, params):
        if self._model.error is None:
            raise ValueError("log_density has no residual error to linearize with")
        modes = self._conditional()[0]
        return linearized_log_likelihood(self._model, self._rows, params, modes)

    def aic(self, method="auto"):
        """Return Akaike's information criterion of the fitted data.

        Parameters
        ----------
        method : str, default="auto"
            As for :meth:`log_likelihood`.

        Returns
        -------
        float
            The lower, the better.
        """
        return -2 * self.log_likelihood(method) + 2 * len(self._names())

    def bic(self, method="auto"):
        """Return the Bayesian information criterion, with subjects as sample size.

        Parameters
        ----------
        method : str, default="auto"
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
        return dict(self._told_errors("louis", "auto")[0])

    def standard_errors(self, method="louis", *, n_draws="auto", return_error=False):
        """Return standard errors of all parameters, from the observed information.

        Variances at their lower bound, and the covariances of random effects with a
        correlation of one, have none (NaN); those of the other parameters are
        conditional on these.

        Parameters
        ----------
        method : {"louis", "importance", "linearized"}, default="louis"
            "louis" averages slopes and Hessians of the complete-data log-density over
            the latents given the observations (Louis 1982): complete less missing
            information. "importance" takes differences of the likelihood by importance
            sampling, and "linearized" of that with the model function made linear at
            the conditional modes.
        n_draws : int or "auto", default="auto"
            Importance draws per subject. "auto" averages over quadrature nodes, as many
            as change the result; where these are too many, and with "importance",
            it is 20,000 draws in all, within 64 to 1000 per subject.
        return_error : bool, default=False
            Whether to return the errors of the standard errors as well, only with
            "louis": from ten batches of the draws, or what the last increase of the
            number of nodes has changed.

        Returns
        -------
        dict of float, or tuple of two dicts
            Standard errors by the names of ``monte_carlo_errors_``. Those of population
            values are on the natural scale, unlike Monte Carlo errors, which are on the
            Gaussian one. NaN where the information is singular, and where the error of
            a standard error is more than a fifth of it; a warning says which.

        Raises
        ------
        ValueError
            For an unknown method, "linearized" with ``log_density``, or an error that
            is not of "louis".
        """
        check_is_fitted(self)
        check_choice("method", method, ("importance", "linearized", "louis"))
        if return_error and method != "louis":
            raise ValueError(f'return_error needs method="louis", got {method!r}')
        errors, noise = self._told_errors(method, n_draws)
        return (dict(errors), dict(noise)) if return_error else dict(errors)

    def _told_errors(self, method, n_draws):
        """Return standard errors and their errors; warn the caller of the caller."""
        check_is_fitted(self)
        key = "standard_errors", method, n_draws
        if key not in self._cache:
            self._cache[key] = self._errors(method, n_draws)
        errors, noise, told = self._cache[key]
        if told:
            warnings.warn(told, FitWarning, stacklevel=3)
        return errors, noise

    def _errors(self, method, n_draws):
        """Return standard errors, their errors, and what there is to say of them."""
        model, rows, params = self._model, self._rows, self.params_
        vector, held = ParameterVector(model), self._at_bounds()
        values = vector.of(params)
        relative, promise = np.zeros(len(vector)), 0.0
        if method == "linearized":
            units = vector.units(params, rows.covariates)
            information = -numerical_hessian(
                lambda v: self._linearized(vector.params(v, params)).sum(),
                values,
                np.where(vector.positive, 1e-3, 1e-2) * units,
            )
        elif method == "importance":
            draws = self._information_draws(n_draws)
            information = observed_information(model, rows, params, draws)
        else:
            found, relative = self._louis(n_draws, held)
            information = found.observed
            covariance = np.nan_to_num(covariance_of(information, held))
            promise = 0.5 * float(found.slope @ covariance @ found.slope)
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.diag(covariance_of(information, held)))
        names = np.array(vector.names)
        told = _told(names, held, errors, relative, promise)
        errors = np.where(relative > LARGEST_ERROR, np.nan, errors)
        noise = relative * errors
        # Population values by the delta method.
        design = model.design
        for j, name in enumerate(names):
            if name in design.names:
                kind = design.transforms[design.names.index(name)]
                slope = abs(float(TRANSFORMS[kind].derivative(np.array(values[j]))))
                errors[j], noise[j] = errors[j] * slope, noise[j] * slope
        return (
            dict(zip(names.tolist(), errors.tolist(), strict=True)),
            dict(zip(names.tolist(), noise.tolist(), strict=True)),
            told,
        )

    def _at_bounds(self):
        """Return which parameters are at their bounds."""
        model, omega = self._model, self.params_.omega
        vector = ParameterVector(model)
        at_floor = model.at_floor(self.params_)
        widths = np.sqrt(np.diag(omega))
        singular = np.zeros(len(omega), dtype=bool)
        for j in range(len(omega)):
            block = np.flatnonzero(model.design.pattern[j] & ~at_floor)
            inner = omega[np.ix_(block, block)] / widths[block][:, None] / widths[block]
            if len(block) > 1 and np.linalg.eigvalsh(inner)[0] < SINGULAR_CORRELATION:
                singular[j] = True
        held = np.zeros(len(vector), dtype=bool)
        bound = at_floor | singular
        held[vector.omega] = bound[vector.lower].any(axis=1)
        return held

    def _information_draws(self, n_draws):
        """Return importance draws, or the one point without random effects."""
        if self._model.design.random.size == 0:
            return single_point(len(self._rows))
        if n_draws == "auto":
            n_draws = int(
                np.clip(INFORMATION_DRAWS // len(self._rows), LEAST_DRAWS, MOST_DRAWS)
            )
        return self._draws(n_draws)[0]

    def _louis(self, n_draws, held):
        """Return the information, and relative errors of the standard errors."""
        model, rows, params = self._model, self._rows, self.params_
        if n_draws == "auto" and model.design.random.size:
            found = information_by_nodes(
                model, rows, params, *self._conditional(), held
            )
            if found is not None and np.isfinite(found.change).all():
                return found
        draws = self._information_draws(n_draws)
        found = louis_information(model, rows, params, draws)
        covariance = covariance_of(found.observed, held)
        noise = np.zeros(len(held))
        if draws.random:
            noise = _noise(model, rows, params, draws, covariance)
        return found, noise


def _noise(model, X, params, draws, covariance):
    """Return relative Monte Carlo errors of the roots of a covariance's diagonal."""
    known = np.nan_to_num(covariance)
    found = [
        louis_information(
            model, X, params, draws.part(slice(b, None, N_BATCHES))
        ).observed
        for b in range(N_BATCHES)
    ]
    moved = known @ (np.array(found) - np.mean(found, axis=0)) @ known
    changes = np.diagonal(moved, axis1=1, axis2=2).std(axis=0, ddof=1)
    variances = np.where(np.diag(known) > 0, np.diag(known), np.inf)
    return changes / (2 * variances) / np.sqrt(N_BATCHES)


def _told(names, held, errors, relative, promise):
    """Return what a user has to know of the standard errors, empty if nothing."""
    parts = []
    if held.any():
        parts.append(
            f"{names[held].tolist()} are at their bounds and have none; those of the "
            "other parameters are conditional on them"
        )
    unknown = np.isnan(errors) & ~held
    if unknown.any():
        parts.append(
            "the observed information does not determine "
            f"{names[unknown].tolist()}: the data may not identify these parameters, "
            "or the fit is not at a maximum of the likelihood"
        )
    noisy = (relative > LARGEST_ERROR) & ~held & ~unknown
    if noisy.any():
        parts.append(
            f"the Monte Carlo error of those of {names[noisy].tolist()} is too large: "
            "increase n_draws"
        )
    if promise > AT_MAXIMUM:
        parts.append(
            "the estimates are not at a maximum of the likelihood, a Newton step "
            f"would raise its logarithm by about {promise:.2g}"
        )
    return f"Standard errors: {'; '.join(parts)}." if parts else ""
