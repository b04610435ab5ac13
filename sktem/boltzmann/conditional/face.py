"""The common part of the estimators of outputs given inputs."""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sktem.boltzmann.fit_warnings import warn_of_small_weights
from sktem.choices import KnownParametersMixin, check_number, is_auto
from sktem.e_step.random import seed_sequence
from sktem.estimators.copies import COUNTED, COUNTED_ONCE, warn_of_copied_rows
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.links import DocumentationLinkMixin
from sktem.validation import validate_data

__all__ = ["DOUBTS", "ConditionalEstimator"]


class ConditionalDoubts(NamedTuple):
    """Limits beyond which few rows decide a fit, or its likelihood is too high.

    Attributes
    ----------
    scale : float
        Standard deviation of an input over the one that its quartiles have under a
        normal density. A log-normal column of scale 1 has 2.
    ends : float
        Share of the rows at either end that are the few.
    few : float
        Standard deviation of an input over the one that it has with these rows moved
        to where they begin.
    kurtosis : float
        Mean fourth power of the errors of an output, in standard deviations. Normal
        errors have 3, exponential ones 9.
    less_likely : float
        Nats by which new outputs may be less likely than those of the fit, for each
        output, before it is reported.
    """

    scale: float = 3.0
    ends: float = 0.02
    few: float = 1.5
    kurtosis: float = 20.0
    less_likely: float = 0.5


DOUBTS = ConditionalDoubts()


class ConditionalEstimator(KnownParametersMixin, DocumentationLinkMixin, BaseEstimator):
    """Base of restricted machines of outputs and hidden units, given inputs."""

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: y may have several outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_parameters(self, fewest_hidden):
        check_number("n_hidden", self.n_hidden, Integral, fewest_hidden)
        if not is_auto(self.weight_decay):
            check_number("weight_decay", self.weight_decay, Real, 0)
        check_number("max_iter", self.max_iter, Integral, 1)
        check_number("tol", self.tol, Real, 0, strict=True)

    def _warn_of_small_weights(self, n_rows, mass):
        """Warn if weights make many rows count as few to a penalty that counts them."""
        if self.weight_decay == "auto":
            warn_of_small_weights(n_rows, mass)

    def _warned_copies(self, X, y):
        """Warn of copies of rows, and return how often distinct rows occur."""
        is_auto = self.weight_decay == "auto"
        consequence = COUNTED_ONCE if is_auto else COUNTED
        return warn_of_copied_rows(X, y, consequence=consequence)

    def _warn_of_tails(self, X, scale):
        """Warn of inputs whose scales depend on a few rows."""
        shares = [DOUBTS.ends, 0.25, 0.75, 1 - DOUBTS.ends]
        low, first, third, high = np.quantile(X, shares, axis=0)
        spread, inner = (third - first) / 1.349, np.clip(X, low, high).std(axis=0)
        is_far = (spread > 0) & (scale > DOUBTS.scale * spread)
        heavy = np.flatnonzero(is_far & (scale > DOUBTS.few * inner))
        if len(heavy):
            names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))[heavy]
            warn_user(
                f"Inputs {', '.join(map(str, names[:3]))}"
                f"{', ...' if len(heavy) > 3 else ''} have heavy tails: a few rows far "
                "out decide their scale, beside which others hardly differ. Transform "
                'them first, by QuantileTransformer(output_distribution="normal") or '
                "logarithms, or leave these rows out.",
                FitWarning,
            )

    def _conclude(self, objective, n_iter, gradient):
        """Record the end of a fit, and warn of a gradient that is too large."""
        slope = float(np.abs(gradient).max())
        self.objective_, self.n_iter_ = float(objective), int(n_iter)
        self.converged_ = slope <= self.tol
        if not self.converged_:
            warn_user(
                f"The fit has not converged after {n_iter} iterations: the largest "
                f"entry of the gradient is {slope:.2g}. Increase max_iter, or tol to "
                "accept it.",
                ConvergenceWarning,
            )

    def _inputs(self, X):
        """Return checked inputs."""
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    def _outputs(self, X, y):
        """Return outputs of checked inputs as an array."""
        return y.toarray() if sparse.issparse(y) else np.asarray(y)

    def log_likelihood(self, X, y):
        """Return the log-likelihood of all outputs together given inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs.

        Returns
        -------
        float
            Exact sum over the rows, of log-densities for real outputs. Not available
            for a classifier whose `is_exact_` is False.
        """
        X = self._inputs(X)
        return float(self.fitted_.log_likelihoods(X, self._outputs(X, y)).sum())

    def sample(self, X):
        """Draw all outputs together given inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Exact and independent draws; for a classifier whose `is_exact_` is False,
            the ends of Gibbs chains.
        """
        X = self._inputs(X)
        rng = np.random.default_rng(seed_sequence(self.random_state))
        return self.fitted_.draws(X, rng)
