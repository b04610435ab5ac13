"""Likelihoods and labels of images under fitted templates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

__all__ = ["LikelihoodEstimate", "TemplateScores"]


class LikelihoodEstimate(NamedTuple):
    """Log-likelihoods by importance sampling.

    Attributes
    ----------
    log_likelihood : ndarray of shape (n_samples,)
        Estimates.
    standard_error : ndarray of shape (n_samples,)
        Their standard errors, to first order.
    effective_sample_size : ndarray of shape (n_samples,)
        Draws that the weighted ones are worth; below about 10 do not trust the
        standard error.
    """

    log_likelihood: np.ndarray
    standard_error: np.ndarray
    effective_sample_size: np.ndarray


class TemplateScores:
    """Likelihoods of a fitted template or mixture of templates."""

    def _component_log_likelihoods(self, X, thorough=True):
        """Return Laplace log-likelihoods under each component, in units of X."""
        Y = self._standardised(X)
        model, params = self._fitted_model()
        search = model.search_modes if thorough else model.modes_of
        logs = [search(Y, params, t)[1] for t in range(len(self.weights_))]
        observed = (~np.isnan(Y)).sum(axis=1, keepdims=True)
        logs = np.stack(logs, axis=1)
        return np.where(np.isnan(logs), -np.inf, logs) - observed * np.log(self._scale)

    def score_samples(self, X):
        """Return the log-likelihood of each image by Laplace's approximation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities of the observed pixels.
        """
        check_is_fitted(self, "coefficients_")
        return self._log_likelihoods(X)

    def _log_likelihoods(self, X, thorough=True):
        """Return log-likelihoods, by one search for modes or by several."""
        logs = self._component_log_likelihoods(X, thorough)
        return logsumexp(logs + np.log(self.weights_), axis=1)

    def log_likelihood(self, X, *, n_draws=500, degrees=5, return_error=False):
        """Return the log-likelihood of all images together by importance sampling.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        n_draws : int, default=500
            Draws per image and component.
        degrees : int, default=5
            Degrees of freedom of the proposal; 0 means Gaussian.
        return_error : bool, default=False
            Whether to return the standard error as well.

        Returns
        -------
        float or tuple of float
            The sum of :meth:`likelihood_estimates`, and its error if asked for.
        """
        found = self.likelihood_estimates(X, n_draws=n_draws, degrees=degrees)
        total = float(found.log_likelihood.sum())
        error = float(np.sqrt((found.standard_error**2).sum()))
        return (total, error) if return_error else total

    def likelihood_estimates(self, X, *, n_draws=500, degrees=5):
        """Return the log-likelihood of each image by importance sampling.

        Proposals are Student distributed about the mode, with the inverse of the
        Gauss-Newton Hessian as scale. The estimates are slightly low when the effective
        sample size is small.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        n_draws : int, default=500
            Draws per image and component.
        degrees : int, default=5
            Degrees of freedom of the proposal; 0 means Gaussian.

        Returns
        -------
        LikelihoodEstimate
            ``log_likelihood``, ``standard_error`` and ``effective_sample_size``; for a
            mixture, the last is the least over components that matter.
        """
        if n_draws < 2 or degrees < 0:
            raise ValueError(
                f"n_draws must be >= 2 and degrees >= 0, got {n_draws!r}, {degrees!r}"
            )
        Y = self._standardised(X)
        model, params = self._fitted_model()
        found = [
            model.importance(Y, params, t, n_draws, 0, degrees)
            for t in range(len(self.weights_))
        ]
        logs, errors, sizes = (
            np.stack(part, axis=1) for part in zip(*found, strict=True)
        )
        logs = logs + np.log(self.weights_)
        total = logsumexp(logs, axis=1)
        shares = np.exp(logs - total[:, None])
        observed = (~np.isnan(Y)).sum(axis=1)
        return LikelihoodEstimate(
            total - observed * np.log(self._scale),
            np.sqrt(((shares * errors) ** 2).sum(axis=1)),
            np.where(shares > 0.01, sizes, np.inf).min(axis=1),
        )

    def score(self, X, y=None, sample_weight=None):
        """Return the mean log-likelihood per image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the mean.

        Returns
        -------
        float
            Mean of ``score_samples``.
        """
        return float(np.average(self.score_samples(X), weights=sample_weight))

    def predict_proba(self, X):
        """Return the probabilities of the components for each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Posterior probabilities, by Laplace's approximation.
        """
        check_is_fitted(self, "coefficients_")
        logs = self._component_log_likelihoods(X) + np.log(self.weights_)
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    def predict(self, X):
        """Return the most probable component of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        return self.predict_proba(X).argmax(axis=1)
