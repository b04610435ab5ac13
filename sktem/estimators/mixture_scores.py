"""What a fitted Gaussian mixture answers: densities, labels, criteria, samples."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from sktem.models.gaussian_mixture import GaussianMixtureModel, GaussianMixtureParams

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
        model, params = self._fitted_model()
        X, _ = self._validate(X, reset=False)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return float(np.average(model.log_likelihood(X, params), weights=sample_weight))

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
        return model.posterior(X, params).astype(X.dtype, copy=False)

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

    def _n_parameters(self):
        model, _ = self._fitted_model()
        return model.n_parameters(self.means_.shape[1])

    def bic(self, X):
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        float
            The criterion.
        """
        log_density = self.score_samples(X)
        penalty = self._n_parameters() * np.log(len(log_density))
        return float(-2 * log_density.sum(dtype=np.float64) + penalty)

    def aic(self, X):
        """Return Akaike's information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        float
            The criterion.
        """
        log_density = self.score_samples(X)
        return float(-2 * log_density.sum(dtype=np.float64) + 2 * self._n_parameters())

    def icl(self, X):
        """Return the integrated completed likelihood criterion; lower is better.

        It is BIC plus twice the entropy of the posterior probabilities, and so prefers
        well separated components (Biernacki, Celeux and Govaert 2000).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        float
            The criterion.
        """
        probabilities = self.predict_proba(X).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(
                probabilities > 0, probabilities * np.log(probabilities), 0.0
            )
        return self.bic(X) - 2 * float(terms.sum())
