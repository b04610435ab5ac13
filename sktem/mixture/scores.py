"""What a fitted Gaussian mixture answers: densities, labels, criteria, samples."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sktem.mixture.model import GaussianMixtureModel, GaussianMixtureParams

__all__ = ["MixtureScores"]


class MixtureScores:
    """Methods of a fitted Gaussian mixture.

    They read the public attributes only, so that they follow when a user sets them.
    """

    def _fitted_params(self, centre):
        """Return the fitted attributes as parameters of a model."""
        return GaussianMixtureParams(
            weights=np.asarray(self.weights_, dtype=np.float64),
            means=np.asarray(self.means_, dtype=np.float64) - centre,
            covariances=np.asarray(self.covariances_, dtype=np.float64),
            precisions_cholesky=np.asarray(self.precisions_cholesky_, np.float64),
        )

    def _fitted_model(self):
        check_is_fitted(self, "means_")
        model = GaussianMixtureModel(
            len(self.means_),
            covariance_type=self.covariance_type,
            centre=np.asarray(self.means_, dtype=np.float64).mean(axis=0),
            n_jobs=self.n_jobs,
        )
        return model, self._fitted_params(model.centre)

    def score_samples(self, X):
        """Return the log-density of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities.
        """
        model, params = self._fitted_model()
        X, _ = self._validate(X, reset=False)
        return model.log_likelihood(X, params).astype(X.dtype, copy=False)

    def score(self, X, y=None, sample_weight=None):
        """Return the mean log-likelihood per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the mean; a weight means repetition.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        total, n_samples = self._total_log_likelihood(X, sample_weight)
        return total / n_samples

    def predict(self, X):
        """Return the most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Component labels.
        """
        model, params = self._fitted_model()
        X, _ = self._validate(X, reset=False)
        return model.predict(X, params)

    def predict_proba(self, X):
        """Return the posterior probability of each component for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Probabilities.
        """
        model, params = self._fitted_model()
        X, _ = self._validate(X, reset=False)
        probabilities = model.posterior(X, params).astype(X.dtype, copy=False)
        # Rounding makes ties, in which the label would not be the first of the largest.
        labels = model.predict(X, params)
        tied = np.flatnonzero(probabilities.argmax(axis=1) != labels)
        largest = probabilities[tied].max(axis=1)
        probabilities[tied, labels[tied]] = np.nextafter(largest, X.dtype.type(2))
        return probabilities

    def sample(self, n_samples=1):
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows, sorted by component.
        y : ndarray of shape (n_samples,)
            Their components.

        Raises
        ------
        ValueError
            If ``n_samples`` is below 1.
        """
        model, params = self._fitted_model()
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. The sampling requires at "
                "least one sample."
            )
        K, d = params.means.shape
        rng = check_random_state(self.random_state)
        counts = rng.multinomial(n_samples, params.weights / params.weights.sum())
        structure = model.structure(d)
        X = np.vstack(
            [
                mean + structure.draw(params.covariances, k, int(counts[k]), rng)
                for k, mean in enumerate(np.asarray(self.means_, dtype=np.float64))
            ]
        )
        return X.astype(self.means_.dtype), np.repeat(np.arange(K), counts)

    def _total_log_likelihood(self, X, sample_weight):
        """Return the log-likelihood of all rows, and how many rows that is."""
        model, params = self._fitted_model()
        X, weights = self._validate(X, sample_weight, reset=False)
        values = model.log_likelihood(X, params)
        if weights is None:
            return float(values.sum()), float(len(values))
        return float(values @ weights), float(weights.sum())

    def _n_parameters(self):
        model, _ = self._fitted_model()
        return model.n_parameters(self.means_.shape[1])

    def bic(self, X, sample_weight=None):
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a weight means repetition.

        Returns
        -------
        float
            The criterion.
        """
        total, n_samples = self._total_log_likelihood(X, sample_weight)
        return -2 * total + self._n_parameters() * float(np.log(n_samples))

    def aic(self, X, sample_weight=None):
        """Return Akaike's information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a weight means repetition.

        Returns
        -------
        float
            The criterion.
        """
        total, _ = self._total_log_likelihood(X, sample_weight)
        return -2 * total + 2 * self._n_parameters()

    def icl(self, X, sample_weight=None):
        """Return the integrated completed likelihood criterion; lower is better.

        It is BIC plus twice the entropy of the posterior probabilities, and so prefers
        well separated components (Biernacki, Celeux and Govaert 2000).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a weight means repetition.

        Returns
        -------
        float
            The criterion.
        """
        model, params = self._fitted_model()
        rows, weights = self._validate(X, sample_weight, reset=False)
        probabilities = model.posterior(rows, params)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(
                probabilities > 0, probabilities * np.log(probabilities), 0.0
            )
        if weights is not None:
            terms = terms * weights[:, None]
        return self.bic(X, sample_weight) - 2 * float(terms.sum())
