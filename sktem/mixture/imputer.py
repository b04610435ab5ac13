"""Missing values replaced by those of a mixture, as a transformer."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sktem.choices import KnownParametersMixin, check_choice
from sktem.e_step.random import drawing_generator
from sktem.emissions.columns import Columns
from sktem.emissions.gaussian import Gaussian
from sktem.estimators.parameters import Auto, Seed
from sktem.links import DocumentationLinkMixin
from sktem.mixture.cells import CELLS, judged_cells, warn_of_cells
from sktem.mixture.emission_mixture import StochasticEMMixture
from sktem.mixture.scaled import PRIOR_ROWS, units_of
from sktem.mixture.stream import FIRST_ROWS
from sktem.rows.held import carrier_of

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

#: What ``n_components="auto"`` chooses from beside two components: one, with weights of
#: a prior by which columns have nothing to do with each other, over that of all rows.
#: The last one imputes means.
STRENGTHS = (0.0, 0.3, 1.0, 1e6)


def _gaussian_blocks(emission):
    """Return index, emission and columns of the Gaussian blocks of an emission."""
    if not isinstance(emission, Columns):
        return [(0, emission, slice(None))] if isinstance(emission, Gaussian) else []
    blocks = [(k, *block[1:]) for k, block in enumerate(emission.emissions)]
    return [block for block in blocks if isinstance(block[1], Gaussian)]


class _Mixtures:
    """Mixtures of rows whose Gaussian columns have a prior on their covariances.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        Rows; NaN means missing.
    sample_weight : array-like of shape (n_samples,) or None
        Weights.
    emission : str or Emission
        Distribution of a row in a component, without a prior.
    random_state : int, RandomState, Generator or None
        Seed of the starts.
    """

    def __init__(self, X, sample_weight, emission, random_state):
        self.X, self.sample_weight, self.random_state = X, sample_weight, random_state
        table = StochasticEMMixture(emission=emission)
        rows, weights = table._rows_of_fit(X, sample_weight)
        weights = np.ones(len(rows)) if weights is None else weights
        self.n = weights.sum()
        if not isinstance(rows, np.ndarray):
            rows = rows.take(np.arange(min(len(rows), FIRST_ROWS.least)))
        self.emission = deepcopy(table._table.emission)
        self.variances = {}
        for k, block, columns in _gaussian_blocks(self.emission):
            block.reg_covar, values = 0.0, rows[:, columns]
            _, deviations = units_of(values, weights[: len(rows)], FIT.constant)
            self.variances[k] = deviations**2

    def fit(self, n_components, strength=0.0, **options):
        """Return a mixture; strength 0 is the usual prior, from :attr:`pooled`."""
        priors = self.variances
        if not strength:
            priors = {k: self._pooled_block(k).covariances[0] for k in priors}
        return self._fitted(n_components, strength, priors, options)

    @cached_property
    def pooled(self):
        """One component, whose prior is by columns; its covariances are a prior."""
        return self._fitted(1, 0.0, self.variances, {})

    def _fitted(self, n_components, strength, priors, options):
        emission = deepcopy(self.emission)
        for k, block, _ in _gaussian_blocks(emission):
            block.covariance_prior_strength = strength or self._usual(k)
            block.covariance_prior = priors[k]
        # A component that the prior leaves without rows stays.
        options = {"weight_concentration": 2 / self.n, "tol": FIT.tol, **options}
        mixture = StochasticEMMixture(
            n_components, emission=emission, random_state=self.random_state, **options
        )
        return mixture.fit(self.X, sample_weight=self.sample_weight)

    def _usual(self, k):
        """Return the strength of the usual prior of a Gaussian block."""
        return PRIOR_ROWS.of(len(self.variances[k])) / self.n

    def _pooled_block(self, k):
        """Return the parameters of a Gaussian block of the only component."""
        params = self.pooled.params_
        return params.blocks[k] if isinstance(self.emission, Columns) else params

    def shrunk(self, strength):
        """Return one component, nearly that of :meth:`fit`, without passes.

        A stronger prior shrinks the covariances of :attr:`pooled` further; without one,
        these are the prior of what the rows say by themselves. That fit would also
        complete missing values by other covariances.
        """
        fitted = self.pooled.fitted_
        params = fitted.params.emission
        for k, block, _ in _gaussian_blocks(self.emission):
            own, usual = self._pooled_block(k), self._usual(k)
            alone, pooled = np.diag(self.variances[k]), own.covariances
            covariances = (pooled + strength * alone) / (1 + strength)
            if not strength:
                of_rows = pooled + usual * (pooled - alone)
                covariances = (of_rows + usual * pooled) / (1 + usual)
            factors = block.structure(*own.means.shape).precisions_cholesky(covariances)
            own = own._replace(covariances=covariances, precisions_cholesky=factors)
            if isinstance(self.emission, Columns):
                blocks = (*params.blocks[:k], own, *params.blocks[k + 1 :])
                own = params._replace(blocks=blocks)
            params = own
        return replace(fitted, params=fitted.params._replace(emission=params))


class MixtureImputer(
    DocumentationLinkMixin, KnownParametersMixin, TransformerMixin, BaseEstimator
):
    """Impute missing values by a mixture fitted to the observed values.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components. "auto" is two; but where Gaussian columns by name have
        fewer than ten rows each, or values far out, it is what imputes cells of rows
        that are left out best: two components, or one, also with a prior by which
        columns have less to do with each other, down to means.
    emission : str or Emission, default="gaussian"
        Distribution of a row in a component, see :class:`StochasticEMMixture`. If it is
        a name, a prior shrinks the covariances of Gaussian columns towards that of all
        rows, with a weight of half a row for each column beyond two. An instance has
        its own prior.
    method : {"mean", "draw", "mode"}, default="mean"
        What replaces a missing value, see :meth:`StochasticEMMixture.impute`.
    n_draws : int, default=1
        Number of completed tables that :meth:`draws` returns, for multiple imputation.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start and of the draws.

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
        n_components: int | Auto = "auto",
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
            Rows; NaN means missing.
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
        n_components = self.n_components
        if isinstance(n_components, str):
            check_choice("n_components", n_components, ("auto",), " or an integer")
            n_components = 2
        if isinstance(self.emission, str):
            self.mixture_ = self._fitted_by_name(X, sample_weight, n_components)
        else:
            mixture = StochasticEMMixture(n_components, emission=self.emission)
            mixture.set_params(tol=FIT.tol, random_state=self.random_state)
            self.mixture_ = mixture.fit(X, sample_weight=sample_weight)
        self.n_features_in_ = self.mixture_.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.mixture_, "feature_names_in_"):
            self.feature_names_in_ = self.mixture_.feature_names_in_
        return self

    def _fitted_by_name(self, X, sample_weight, n_components):
        """Return a mixture of an emission that is a name, with a prior."""
        mixtures = _Mixtures(X, sample_weight, self.emission, self.random_state)
        mixture = mixtures.fit(n_components)
        rows, weights = mixture._rows_of_fit(X, sample_weight)
        rows, blocks = carrier_of(rows), _gaussian_blocks(mixture.emission_)
        if not (blocks and rows.can_take):
            return mixture
        weights = np.ones(len(rows)) if weights is None else weights
        n, d = len(rows), mixture.n_features_in_
        some = np.random.default_rng(0).permutation(n)[: CELLS.n_rows]
        rows, weights = rows.take(some), weights[some]
        columns = np.concatenate([np.arange(d)[columns] for *_, columns in blocks])
        # Fits to parts of the rows begin where that to all of them has ended.
        shares = mixture.fitted_.posterior(rows)
        strengths = STRENGTHS if self.n_components == "auto" else ()

        def learn(taken):
            part = _Mixtures(rows[taken], weights[taken], mixture.emission_, 0)
            own = part.fit(n_components, init_params=lambda *_: shares[taken])
            return [own.fitted_, *map(part.shrunk, strengths)]

        choice, errors = judged_cells(rows, weights, columns, learn, 1 + len(strengths))
        if errors is not None:
            names = getattr(mixture, "feature_names_in_", range(d))
            others = "SimpleImputer" if strengths else 'n_components="auto"'
            warn_of_cells(errors, columns, names, others)
        return mixtures.fit(1, strengths[choice - 1]) if choice else mixture

    def transform(self, X):
        """Return the table with missing values imputed.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; NaN means missing.

        Returns
        -------
        table of shape (n_samples, n_features)
            A data frame if X is one, else an array.
        """
        check_is_fitted(self)
        return self.mixture_.impute(X, self.method)

    def draws(self, X):
        """Return several imputed tables, drawn independently.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; NaN means missing.

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
            Names to use if X had none.

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
