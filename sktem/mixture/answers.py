"""Answers of fitted mixtures: labels, densities, criteria, draws, other mixtures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice, check_number
from sktem.e_step.random import drawing_generator
from sktem.estimators.by_blocks import answer, total_over
from sktem.mixture.conditional import chosen_columns, given_values
from sktem.mixture.fitted import FittedMixture
from sktem.mixture.likelihood_ratio import likelihood_ratio_test
from sktem.rows.sources import rows_by_blocks

__all__ = ["MixtureAnswers"]


class MixtureAnswers:
    """Answers of estimators that have a model and its parameters."""

    n_features_in_: int
    random_state: Any
    _fitted: Callable[[], FittedMixture]
    _settings_of_columns: Callable
    _attributes_of_columns: Callable
    _given_row: Callable
    _filled: Callable
    _drawn: Callable
    _validate: Callable
    _seed: Callable

    @property
    def fitted_(self) -> FittedMixture:
        """The fitted mixture as an object: its model and its parameters."""
        check_is_fitted(self, "weights_")
        return self._fitted()

    @property
    def _check_block(self):
        """Return a check of a block of rows, None for none."""
        return None

    def score(self, X, y=None, sample_weight=None):
        """Return the mean log-likelihood of the rows that have observed values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the mean; a row of weight 2 counts as two equal rows.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        total, n_samples = self._total_log_likelihood(X, sample_weight)
        return total / n_samples

    def score_samples(self, X, *, out=None):
        """Return the log-density of the observed values of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or rows
            Rows.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Log-densities, 0 for rows without observed values; an iterator over blocks
            of them if X is read in blocks and ``out`` is not given.
        """
        return self._answered(X, self.fitted_.log_density, out)

    def predict(self, X, *, out=None):
        """Return the most probable component of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or rows
            Rows.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Component labels; an iterator over blocks of them if X is read in blocks and
            ``out`` is not given.
        """
        return self._answered(X, self.fitted_.labels, out)

    def predict_proba(self, X, *, out=None):
        """Return the posterior probability of each component for each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or rows
            Rows.
        out : array of shape (n_samples, n_components) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_components) or iterator
            Probabilities; an iterator over blocks of them if X is read in blocks and
            ``out`` is not given.
        """
        return self._answered(X, self.fitted_.posterior, out)

    def _answered(self, X, function, out):
        return answer(self, X, function, out, self._check_block)

    def _total_log_likelihood(self, X, sample_weight):
        """Return the log-likelihood of all rows, and how many rows that is."""
        terms = self.fitted_.likelihood
        return total_over(self, X, sample_weight, terms, self._check_block)

    def _n_parameters(self):
        return self.fitted_.model.n_parameters(self.n_features_in_)

    def impute(self, X, method="mean"):
        """Return a table with missing values replaced by means, draws or modes.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; NaN (None, NA) means missing.
        method : {"mean", "draw", "mode"}, default="mean"
            "mean" is the conditional mean given the observed values of the row,
            averaged over the components (for labels, the most probable label). "draw"
            is a draw from the conditional distribution. "mode" is the most probable
            label, or the conditional mean (for counts, the likeliest count) of the most
            probable component.

        Returns
        -------
        table of shape (n_samples, n_features)
            A data frame if X is one, else an array.
        """
        check_choice("method", method, ("mean", "draw", "mode"))
        return self._completed(X, method, drawing_generator(self.random_state))

    def _rows_in_memory(self, X):
        """Return checked rows; raise if they would have to be read by blocks."""
        if rows_by_blocks(X) is not None:
            raise TypeError(
                "X would be read by blocks, which fit, predictions, scores and "
                "criteria do: here, pass rows in memory, part by part if they are many"
            )
        return self._validate(X, reset=False)[0]

    def _completed(self, X, method, rng):
        """Return rows without holes, as given."""
        fitted, rows = self.fitted_, self._rows_in_memory(X)
        return self._filled(X, fitted.completed(rows, method, rng))

    def sample(self, n_samples=1, *, given=None):
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows; with ``given``, number of completions of each of its rows.
        given : table of shape (m, n_features) or None, default=None
            Rows with holes: missing values are drawn given the observed ones.

        Returns
        -------
        X : table of shape (n_samples, n_features) or (m * n_samples, n_features)
            Rows, sorted by component; with ``given``, the completions of its first row,
            then those of the second, and so on. A data frame if the mixture was fitted
            to one with labels.
        y : ndarray of shape (n_samples,) or (m * n_samples,)
            Their components.

        Raises
        ------
        ValueError
            If ``n_samples`` is below 1.
        """
        check_is_fitted(self, "weights_")
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. The sampling requires at "
                "least one sample."
            )
        if given is None:
            rows, labels = self._drawn(n_samples)
        else:
            given = self._rows_in_memory(given)
            rng = drawing_generator(self.random_state)
            rows, labels = self.fitted_.completions(given, n_samples, rng)
        return self._as_table(rows), labels

    def _as_table(self, rows):
        """Return drawn rows as a table."""
        return rows

    def bic(self, X, sample_weight=None):
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two equal rows.

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
            Weights; a row of weight 2 counts as two equal rows.

        Returns
        -------
        float
            The criterion.
        """
        total, _ = self._total_log_likelihood(X, sample_weight)
        return -2 * total + 2 * self._n_parameters()

    def icl(self, X, sample_weight=None):
        """Return the integrated completed likelihood criterion; lower is better.

        It is BIC plus twice the entropy of the posterior probabilities, and so favours
        well-separated components (Biernacki, Celeux and Govaert 2000).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two equal rows.

        Returns
        -------
        float
            The criterion.
        """
        terms = partial(self.fitted_.likelihood, with_entropy=True)
        total, mass, entropy = total_over(
            self, X, sample_weight, terms, self._check_block
        )
        bic = -2 * total + self._n_parameters() * float(np.log(mass))
        return bic + 2 * entropy

    def likelihood_ratio_test(self, X, *, n_bootstrap=99, n_jobs=None):
        """Test whether one component fewer would be enough.

        This is a parametric bootstrap (McLachlan 1987). The likelihood ratio between
        this mixture and one with a component fewer is compared with the ratios for
        samples from the smaller mixture. The usual chi-squared distribution does not
        hold, because the smaller mixture lies on the boundary of the larger one.
        Samples have the same holes as the data.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            The rows of ``fit``.
        n_bootstrap : int, default=99
            Number of samples; the smallest possible p-value is ``1 / (n_bootstrap +
            1)``.
        n_jobs : int or None, default=None
            Number of processes. The result does not depend on it.

        Returns
        -------
        LikelihoodRatioTest
            A tuple of ``statistic``, ``p_value``, ``n_components`` of the smaller
            mixture, and ``bootstrap``, the statistics of the samples.

        Examples
        --------
        >>> import numpy as np
        >>> from sktem import StochasticEMGaussianMixture
        >>> X = np.append(np.arange(10.0), 50 + np.arange(10.0))[:, None]
        >>> mixture = StochasticEMGaussianMixture(2, random_state=0).fit(X)
        >>> mixture.likelihood_ratio_test(X, n_bootstrap=9).p_value
        0.1
        """
        check_number("n_bootstrap", n_bootstrap, Integral, 1)
        K = len(self.fitted_.params.weights)
        if K < 2:
            raise ValueError("the mixture has one component: there is none less")
        rows = self._rows_in_memory(X)
        smaller = partial(self._trial, n_components=K - 1, **self._settings_of_rows())
        seed, _ = self._seed()
        return likelihood_ratio_test(smaller, rows, n_bootstrap, seed, n_jobs)

    def _trial(self, X, sample_weight=None, **parameters):
        """Return a fit with other parameters: the estimator, and its fitted mixture."""
        trial = clone(self).set_params(verbose=0, warm_start=False, **parameters)
        trial.fit(X, sample_weight=sample_weight)
        return trial, trial.fitted_

    def _settings_of_rows(self):
        """Return settings with which rows of numbers are fitted like the table."""
        return {}

    def marginal(self, columns):
        """Return the mixture of some columns, with the others integrated out.

        Parameters
        ----------
        columns : int, str, list, slice or mask
            Columns as in :class:`sklearn.compose.ColumnTransformer`; names are those of
            the data frame passed to ``fit``.

        Returns
        -------
        object
            A fitted estimator of the same class for these columns, in this order.

        Examples
        --------
        >>> import numpy as np
        >>> from sktem import StochasticEMGaussianMixture
        >>> X = np.array([[0.0, 2.0], [2.0, 4.0], [4.0, 9.0]])
        >>> mixture = StochasticEMGaussianMixture().fit(X)
        >>> mixture.marginal([1]).means_
        array([[5.]])
        """
        fitted, d = self.fitted_, self.n_features_in_
        others = chosen_columns(columns, d, getattr(self, "feature_names_in_", None))
        return self._estimator_of(fitted.part(others), others)

    def condition(self, columns, values):
        """Return the mixture of the other columns, given the values of some.

        Parameters
        ----------
        columns : int, str, list, slice or mask
            Columns as in :class:`sklearn.compose.ColumnTransformer`; names are those of
            the data frame passed to ``fit``.
        values : array-like of shape (n_columns,)
            Their values, or the value of a single column. NaN (None) means unknown:
            that column is integrated out.

        Returns
        -------
        object
            A fitted estimator of the same class for the other columns, in the order
            of the table. Its weights are the posterior probabilities of the components.

        Raises
        ------
        TypeError
            If the emission has no conditional distribution of its own kind.

        Examples
        --------
        >>> import numpy as np
        >>> from sktem import StochasticEMGaussianMixture
        >>> x = np.arange(10.0)
        >>> mixture = StochasticEMGaussianMixture().fit(np.column_stack([x, 2 * x]))
        >>> mixture.condition([0], [4.0]).means_.round(3)
        array([[8.]])
        """
        fitted = self.fitted_
        d, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        columns = chosen_columns(columns, d, names)
        others = np.setdiff1d(np.arange(d), columns)
        if not len(others):
            raise ValueError("values of all columns are given: none is left")
        row = self._given_row(columns, given_values(columns, values))
        return self._estimator_of(fitted.part(others, row), others)

    def _estimator_of(self, fitted, columns):
        """Return a fitted estimator of some columns, with these settings."""
        settings = self._settings_of_columns(fitted)
        twin = clone(self).set_params(warm_start=False, **settings)
        attributes = self._attributes_of_columns(fitted, columns)
        attributes["n_features_in_"] = len(columns)
        if hasattr(self, "feature_names_in_"):
            attributes["feature_names_in_"] = self.feature_names_in_[columns]
        vars(twin).update(attributes)
        return twin
