"""Parzen windows: a density from samples, for comparison with published figures."""

from __future__ import annotations

from numbers import Real

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from sktem.validation import validate_data

__all__ = ["ParzenWindow"]


class ParzenWindow(DensityMixin, BaseEstimator):
    """Gaussian kernel density with a bandwidth chosen by held-out likelihood.

    A side measure only: in many dimensions it says little about the likelihood of the
    model that made the samples (Theis, van den Oord and Bethge 2016), and it is here
    because published figures use it.

    Parameters
    ----------
    bandwidth : float or "auto", default="auto"
        Standard deviation of the kernel; "auto" chooses among `bandwidths`.
    bandwidths : array-like or None, default=None
        Candidates; None means 20 from 0.03 to 3, equally spaced on the log scale.
    n_splits : int, default=5
        Folds of the samples, where no validation rows are given.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth.
    samples_ : ndarray of shape (n_samples, n_features)
        The samples.
    """

    def __init__(self, bandwidth="auto", bandwidths=None, n_splits=5):
        self.bandwidth = bandwidth
        self.bandwidths = bandwidths
        self.n_splits = n_splits

    def fit(self, X, y=None, validation=None):
        """Keep the samples and choose the bandwidth.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of the model.
        y : None
            Ignored.
        validation : array-like of shape (n_rows, n_features) or None, default=None
            Data whose likelihood chooses the bandwidth; None means cross-validation
            among the samples.

        Returns
        -------
        ParzenWindow
            The fitted estimator.
        """
        X = validate_data(self, X, dtype=np.float64)
        self.samples_ = X
        if not isinstance(self.bandwidth, str):
            if not isinstance(self.bandwidth, Real) or not float(self.bandwidth) > 0:
                raise ValueError(
                    f"bandwidth must be 'auto' or positive, got {self.bandwidth!r}"
                )
            self.bandwidth_ = float(self.bandwidth)
            return self
        if self.bandwidth != "auto":
            raise ValueError(
                f"bandwidth must be 'auto' or positive, got {self.bandwidth!r}"
            )
        candidates = self.bandwidths
        if candidates is None:
            candidates = np.geomspace(0.03, 3.0, 20)
        candidates = np.asarray(candidates, np.float64)
        if validation is not None:
            validation = validate_data(self, validation, dtype=np.float64, reset=False)
            pairs = [(X, validation)]
        else:
            folds = KFold(self.n_splits).split(X)
            pairs = [(X[train], X[test]) for train, test in folds]
        totals = np.zeros(len(candidates))
        for samples, rows in pairs:
            totals += _log_densities(samples, rows, candidates).sum(axis=1)
        self.bandwidth_ = float(candidates[np.argmax(totals)])
        return self

    def score_samples(self, X):
        """Return the log-density of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Log-densities.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return _log_densities(self.samples_, X, np.array([self.bandwidth_]))[0]

    def score(self, X, y=None):
        """Return the mean log-density.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean over the rows.
        """
        return float(self.score_samples(X).mean())


def _log_densities(samples, X, bandwidths):
    """Return log-densities of rows, (n_bandwidths, n_rows)."""
    n, d = samples.shape
    out = np.empty((len(bandwidths), len(X)))
    squares = np.square(samples).sum(axis=1)
    for begin in range(0, len(X), 256):
        rows = X[begin : begin + 256]
        distances = (
            np.square(rows).sum(axis=1)[:, None] + squares - 2 * rows @ samples.T
        )
        np.maximum(distances, 0.0, out=distances)
        for position, bandwidth in enumerate(bandwidths):
            scaled = distances / (-2.0 * bandwidth**2)
            constant = np.log(n) + 0.5 * d * np.log(2 * np.pi * bandwidth**2)
            found = logsumexp(scaled, axis=1) - constant
            out[position, begin : begin + 256] = found
    return out
