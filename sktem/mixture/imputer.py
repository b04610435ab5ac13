"""Missing values replaced by those of a mixture, as a transformer."""

from __future__ import annotations

from functools import partial
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
from sktem.mixture.scaled import PRIOR_ROWS, ROUNDING
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


class Candidate(NamedTuple):
    """A mixture that may impute.

    Attributes
    ----------
    n_components : int
        Number of components.
    strength : float
        Weight, over that of all rows, of a prior by which columns have nothing to do
        with each other; 0 is the usual prior.
    """

    n_components: int
    strength: float = 0.0


#: What ``n_components="auto"`` chooses from: the last one imputes means.
CANDIDATES = (
    Candidate(2), Candidate(1), Candidate(1, 0.3), Candidate(1, 1.0), Candidate(1, 1e6)
)  # fmt: skip


def _gaussian_blocks(emission):
    """Return index, emission and columns of the Gaussian blocks of an emission."""
    if not isinstance(emission, Columns):
        return [(0, emission, slice(None))] if isinstance(emission, Gaussian) else []
    blocks = [(k, *block[1:]) for k, block in enumerate(emission.emissions)]
    return [block for block in blocks if isinstance(block[1], Gaussian)]


def _with_prior(X, emission, sample_weight, strength):
    """Return an emission with a prior on covariances, and the number of rows."""
    model = StochasticEMMixture(emission=emission, tol=FIT.tol)
    rows, weights = model._rows_of_fit(X, sample_weight)
    n = len(rows) if weights is None else weights.sum()
    if not isinstance(rows, np.ndarray):
        rows = rows.take(np.arange(min(len(rows), FIRST_ROWS.least)))
    base = model._table.emission
    gaussian = _gaussian_blocks(base)
    if not gaussian:
        return emission, n
    for _, block, columns in gaussian:
        values = rows[:, columns]
        size, variances = np.abs(np.nanmean(values, axis=0)), np.nanvar(values, axis=0)
        least = FIT.constant * np.maximum(size, 1.0)
        is_constant = np.sqrt(variances) <= ROUNDING * size
        block.covariance_prior = np.where(is_constant, least**2, variances)
        usual = PRIOR_ROWS.of(values.shape[1]) / n
        block.covariance_prior_strength = strength or usual
        block.reg_covar = 0.0
    if strength:
        return base, n
    model.set_params(emission=base).fit(X, sample_weight=sample_weight)
    params = model.params_
    for k, block, _ in gaussian:
        block_params = params.blocks[k] if isinstance(base, Columns) else params
        block.covariance_prior = block_params.covariances[0]
    return base, n


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
        candidates = list(CANDIDATES)
        if isinstance(self.n_components, str):
            check_choice("n_components", self.n_components, ("auto",), " or an integer")
        else:
            candidates = [Candidate(self.n_components)]
        self.mixture_ = self._learned(X, self.emission, sample_weight, candidates[0])
        if isinstance(self.emission, str):
            choice = self._best_by_cells(X, sample_weight, candidates)
            if choice > 0:
                self.mixture_ = self._learned(
                    X, self.emission, sample_weight, candidates[choice]
                )
        self.n_features_in_ = self.mixture_.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.mixture_, "feature_names_in_"):
            self.feature_names_in_ = self.mixture_.feature_names_in_
        return self

    def _learned(
        self, X, emission, sample_weight, candidate, with_prior=False, **options
    ):
        """Return the mixture of rows, with a prior on the covariances of a name."""
        n_components, strength = candidate
        if with_prior or isinstance(emission, str):
            emission, n = _with_prior(X, emission, sample_weight, strength)
            # A component that the prior leaves without rows stays.
            options["weight_concentration"] = 2 / n
        options = {"tol": FIT.tol, "random_state": self.random_state, **options}
        mixture = StochasticEMMixture(n_components, emission=emission, **options)
        return mixture.fit(X, sample_weight=sample_weight)

    def _best_by_cells(self, X, sample_weight, candidates):
        """Return which candidate imputes best; warn where means would do better."""
        mixture = self.mixture_
        rows, weights = mixture._rows_of_fit(X, sample_weight)
        rows = carrier_of(rows)
        blocks = _gaussian_blocks(mixture.emission_)
        if not (blocks and rows.can_take):
            return 0
        weights = np.ones(len(rows)) if weights is None else weights
        n, d = len(rows), mixture.n_features_in_
        some = np.random.default_rng(0).permutation(n)[: CELLS.n_rows]
        rows, weights = rows.take(some), weights[some]
        columns = np.concatenate([np.arange(d)[columns] for *_, columns in blocks])
        # Fits to parts of the rows begin where that to all of them has ended.
        shares = mixture.fitted_.posterior(rows)

        def learn(taken, candidate):
            start = shares if candidate == candidates[0] else np.ones((len(rows), 1))
            return self._learned(
                rows[taken],
                mixture.emission_,
                weights[taken],
                candidate,
                with_prior=True,
                init_params=lambda *_: start[taken],
                random_state=0,
            ).fitted_

        learners = [partial(learn, candidate=candidate) for candidate in candidates]
        choice, errors = judged_cells(rows, weights, columns, learners)
        if errors is not None:
            names = getattr(mixture, "feature_names_in_", range(d))
            is_open = len(candidates) > 1
            others = "SimpleImputer" if is_open else 'n_components="auto"'
            warn_of_cells(errors, columns, names, others)
        return choice

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
