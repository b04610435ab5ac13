"""Missing values replaced by those of a mixture, as a transformer."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sktem.choices import KnownParametersMixin, check_choice
from sktem.e_step.random import drawing_generator
from sktem.emissions.columns import Columns
from sktem.emissions.gaussian import Gaussian
from sktem.estimators.parameters import Seed
from sktem.links import DocumentationLinkMixin
from sktem.mixture.emission_mixture import StochasticEMMixture
from sktem.mixture.scaled import PRIOR_ROWS, ROUNDING
from sktem.mixture.stream import FIRST_ROWS

__all__ = ["MixtureImputer"]


class ImputerFit(NamedTuple):
    """Convergence of mixtures: further passes hardly change imputed values.

    Attributes
    ----------
    tol : float
        Threshold of convergence, in nats per row.
    constant : float
        Standard deviation of a column that does not vary, as a share of its value.
    """

    tol: float = 1e-3
    constant: float = 1e-6


FIT = ImputerFit()


def _with_prior(X, emission, sample_weight):
    """Return the emission of a name, with a prior on covariances, and the rows."""
    model = StochasticEMMixture(emission=emission, tol=FIT.tol)
    rows, weights = model._rows_of_fit(X, sample_weight)
    n = len(rows) if weights is None else weights.sum()
    if not isinstance(rows, np.ndarray):
        rows = rows.take(np.arange(min(len(rows), FIRST_ROWS.least)))
    base = model._table.emission
    parts = base.emissions if isinstance(base, Columns) else [("", base, slice(None))]
    gaussian = [(k, *part[1:]) for k, part in enumerate(parts)]
    gaussian = [part for part in gaussian if isinstance(part[1], Gaussian)]
    if not gaussian:
        return emission, n
    for _, block, columns in gaussian:
        values = rows[:, columns]
        size, variances = np.abs(np.nanmean(values, axis=0)), np.nanvar(values, axis=0)
        least = FIT.constant * np.maximum(size, 1.0)
        is_constant = np.sqrt(variances) <= ROUNDING * size
        block.covariance_prior = np.where(is_constant, least**2, variances)
        block.covariance_prior_strength = PRIOR_ROWS.of(values.shape[1]) / n
        block.reg_covar = 0.0
    model.set_params(emission=base).fit(X, sample_weight=sample_weight)
    params = model.params_
    for k, block, _ in gaussian:
        block_params = params.blocks[k] if isinstance(base, Columns) else params
        block.covariance_prior = block_params.covariances[0]
    return base, n


class MixtureImputer(
    DocumentationLinkMixin, KnownParametersMixin, TransformerMixin, BaseEstimator
):
    """Replace missing values by a mixture that is fitted to the observed values.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    emission : str or Emission, default="gaussian"
        Distribution of a row in a component, see :class:`StochasticEMMixture`. Under a
        name, covariances of Gaussian columns have a prior towards that of all rows,
        with a weight of half a row for each column beyond two; that of an instance is
        its own.
    method : {"mean", "draw", "mode"}, default="mean"
        What is put in the place of a missing value, see
        :meth:`StochasticEMMixture.impute`.
    n_draws : int, default=1
        Completions that :meth:`draws` returns, for multiple imputation.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start and of draws.

    Attributes
    ----------
    mixture_ : StochasticEMMixture
        The fitted mixture.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import MixtureImputer
    >>> X = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, np.nan]])
    >>> MixtureImputer(1).fit_transform(X)[3].round(1)
    array([4., 4.])
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        emission="gaussian",
        method: Literal["mean", "draw", "mode"] = "mean",
        n_draws: int = 1,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.emission = emission
        self.method = method
        self.n_draws = n_draws
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Learn the mixture.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; NaN is missing.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        MixtureImputer
            The fitted transformer.
        """
        check_choice("method", self.method, ("mean", "draw", "mode"))
        self.mixture_ = StochasticEMMixture(
            self.n_components,
            emission=self.emission,
            tol=FIT.tol,
            random_state=self.random_state,
        )
        if isinstance(self.emission, str):
            emission, n = _with_prior(X, self.emission, sample_weight)
            # A component that the prior leaves without rows stays.
            self.mixture_.set_params(emission=emission, weight_concentration=2 / n)
        self.mixture_.fit(X, sample_weight=sample_weight)
        self.n_features_in_ = self.mixture_.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.mixture_, "feature_names_in_"):
            self.feature_names_in_ = self.mixture_.feature_names_in_
        return self

    def transform(self, X):
        """Return the table without holes.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; NaN is missing.

        Returns
        -------
        table of shape (n_samples, n_features)
            A data frame for a data frame, else an array.
        """
        check_is_fitted(self)
        return self.mixture_.impute(X, self.method)

    def draws(self, X):
        """Return several tables without holes, drawn independently.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; NaN is missing.

        Returns
        -------
        list of tables
            ``n_draws`` of them.
        """
        check_is_fitted(self)
        rng = drawing_generator(self.random_state)
        fitted = self.mixture_
        return [fitted._completed(X, "draw", rng) for _ in range(self.n_draws)]

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names, where X had none.

        Returns
        -------
        ndarray of str
            The names.
        """
        names = [f"x{i}" for i in range(self.n_features_in_)]
        names = names if input_features is None else input_features
        return np.asarray(getattr(self, "feature_names_in_", names), dtype=object)

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: NaN is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
