"""A Gaussian mixture whose result does not depend on the units of the columns."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from sktem.choices import KnownParametersMixin, check_choice, check_number
from sktem.emissions.gaussian import GaussianParams
from sktem.emissions.observed import check_observed
from sktem.estimators.by_blocks import needed_in_memory
from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.links import DocumentationLinkMixin
from sktem.mixture.estimator import StochasticEMGaussianMixture
from sktem.mixture.incomplete import observed_rows
from sktem.mixture.left_out import Judged
from sktem.mixture.prior import GaussianMixturePrior
from sktem.mixture.stream import FIRST_ROWS
from sktem.validation import validate_data

__all__ = [
    "PRIOR_ROWS",
    "ScaledMixture",
    "ScaledMixtureEstimator",
    "possible_components",
    "units_of",
]


class PooledFit(NamedTuple):
    """Convergence of the covariance of all rows: rows with holes take passes."""

    tol: float = 1e-4
    max_iter: int = 50


POOLED = PooledFit()


class Folds(NamedTuple):
    """Parts of the rows that mixtures of the other rows judge.

    Attributes
    ----------
    n_folds : int
        Number of parts.
    max_iter : int
        Passes over the other rows, at most, from the mixture of all rows on.
    per_component : int
        Distinct rows for each component, at least: of fewer, each is left out alone.
    per_parameter : int
        Rows for each parameter, at most: with more, a row has hardly any say.
    """

    n_folds: int = 5
    max_iter: int = 30
    per_component: int = 4
    per_parameter: int = 20


FOLDS = Folds()

#: A standard deviation below this share of the mean is a rounding error.
ROUNDING = 1e-12


class PriorRows(NamedTuple):
    """Weight of the covariance of all rows in the prior of covariances, in rows.

    Attributes
    ----------
    per_column : float
        Rows for each column beyond two, which few rows can correlate by chance.
    least : float
        Rows whatever the columns: no component shrinks to a point.
    """

    per_column: float = 0.5
    least: float = 0.01

    def of(self, n_columns):
        """Return the weight of the prior, in rows."""
        return self.per_column * max(n_columns - 2, 0) + self.least


PRIOR_ROWS = PriorRows()


def units_of(rows, weights, constant):
    """Return means and standard deviations of columns.

    That of a column without variance is ``constant`` times the size of its value, if
    that is above 1.
    """
    W = np.where(np.isnan(rows), 0.0, weights[:, None])
    total = np.maximum(W.sum(axis=0), 1e-300)
    values = np.nan_to_num(rows)
    means = (W * values).sum(axis=0) / total
    deviations = np.sqrt((W * (values - means) ** 2).sum(axis=0) / total)
    is_constant = deviations <= ROUNDING * np.abs(means)
    least = constant * np.maximum(np.abs(means), 1.0)
    return means, np.where(is_constant, least, deviations)


def possible_components(n_components, rows):
    """Return the number of components, at most that of distinct rows, with a warning.

    Rows of which nothing is observed are none.

    Parameters
    ----------
    n_components : int
        Components that are wanted.
    rows : ndarray of shape (n, d)
        Rows.

    Returns
    -------
    int
        Components that are possible.
    """
    if len(rows) > 10 * n_components:
        return n_components
    rows, _ = observed_rows(rows, None)
    distinct = max(len(np.unique(np.nan_to_num(rows, nan=np.inf), axis=0)), 1)
    if distinct >= n_components:
        return n_components
    warn_user(
        f"n_components={n_components} is more than the {distinct} distinct rows: "
        f"{distinct} are fitted.",
        FitWarning,
    )
    return distinct


class ScaledMixtureEstimator(
    KnownParametersMixin, DocumentationLinkMixin, BaseEstimator
):
    """Base of the estimators that learn by a mixture of standardised columns."""

    #: Parameters that are those of the mixture.
    mixture_settings = (
        "n_components",
        "covariance_type",
        "init_params",
        "n_init",
        "max_iter",
        "tol",
        "n_jobs",
        "random_state",
    )

    n_components: int
    covariance_type: str
    n_init: int

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: NaN is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self):
        check_number("n_components", self.n_components, Integral, 1)
        check_number("n_init", self.n_init, Integral, 1)
        check_choice("covariance_type", self.covariance_type, ("full", "tied", "diag"))

    def _inputs(self, X, reset, ensure_min_samples=1):
        """Return rows of float64; NaN is not observed."""
        reason = "fit leaves its rows out one by one, partial_fit takes parts of them"
        needed_in_memory(type(self).__name__, X, reason)
        options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return validate_data(
            self, X, reset=reset, ensure_min_samples=ensure_min_samples, **options
        )

    def _observed(self, rows, weights=None, names=()):
        """Return rows of which something is observed; raise of columns that are not.

        Names are those of columns beyond the features.
        """
        features = getattr(self, "feature_names_in_", range(self.n_features_in_))
        check_observed(rows, np.array([*features, *names], dtype=object))
        return observed_rows(rows, weights)

    def _scaled_mixture(self, n_components, **options):
        """Return the mixture to fit, with `n_components` components."""
        settings = {name: getattr(self, name) for name in self.mixture_settings}
        return ScaledMixture({**settings, "n_components": n_components}, **options)


class ScaledMixture:
    """Mixture of columns that are divided by their standard deviations.

    On a stream, these are those of the first rows, which are kept until there are
    enough for a start.

    Parameters
    ----------
    settings : dict
        Parameters of the mixture.
    prior_share : float
        Weight of a prior on covariances, towards that of all rows, as a share of the
        data.
    diagonal : bool
        Whether the prior has no correlations.
    prior_rows : float
        The same, in rows.
    constant : float or ndarray of shape (n_columns,)
        What columns without variance are divided by, times the size of their value if
        that is above 1.
    """

    def __init__(
        self, settings, *, prior_share=0.0, prior_rows=0.0, diagonal=False, constant=1.0
    ):
        self.settings = settings
        self.prior_share, self.prior_rows = prior_share, prior_rows
        self.diagonal, self.constant = diagonal, constant
        self.learner: Any = None
        self.chunks: list[tuple[np.ndarray, np.ndarray]] = []
        self._learned: Any = None
        self._found: Any = None

    def fit(self, rows, weights=None):
        """Learn from rows, whatever has been learned before."""
        self.chunks, self.learner = [], None
        self._learned = self._found = None
        weights = np.ones(len(rows)) if weights is None else weights
        self.learner = self._fitted(rows, weights)
        return self

    def partial_fit(self, rows, weights=None):
        """Learn from a chunk of a stream."""
        self._learned = self._found = None
        weights = np.ones(len(rows)) if weights is None else weights
        if self.learner is None:
            self.chunks.append((rows, weights))
            needed = FIRST_ROWS.needed(self.settings["n_components"], rows.shape[1])
            if sum(len(chunk) for chunk, _ in self.chunks) < needed:
                return self
            rows, weights = self._joined()
            self.chunks = []
            self.learner = self._new_learner(rows, weights)
        self.learner.partial_fit(self._scaled(rows), sample_weight=weights)
        return self

    def judged(self, rows, weights, rule: Folds = FOLDS):
        """Return the rows of the fit, each part by a mixture without it, standardised.

        A row's own output has a say in its component, the more so the fewer rows a
        component has. Only passes of EM over the others undo that.
        """
        learner, Z = self.learner, self._scaled(rows)
        weights = np.ones(len(rows)) if weights is None else weights
        K, total = learner.n_components, weights.sum()
        # Equal rows, which may be one row with a weight, are in one part.
        values = np.nan_to_num(rows, nan=np.inf)
        distinct, places = np.unique(values, axis=0, return_inverse=True)
        few = len(distinct) < rule.per_component * K
        count = learner.fitted_.model.n_parameters(rows.shape[1])
        if K == 1 or few or total > rule.per_parameter * count:
            R = learner.predict_proba(Z)
            return [Judged(learner.fitted_, Z, weights, R, weights @ R)]
        fold, parts = places.ravel() % rule.n_folds, []
        other = clone(learner).set_params(
            weights_init=learner.weights_, means_init=learner.means_,
            precisions_init=learner.precisions_, n_init=1, max_iter=rule.max_iter,
        )  # fmt: skip
        for index in range(rule.n_folds):
            out = fold == index
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", (FitWarning, ConvergenceWarning))
                other.fit(Z[~out], sample_weight=weights[~out])
            R = np.zeros((out.sum(), K))
            masses = (total - weights[out].sum()) * other.weights_
            masses = np.maximum(masses, 1e-300)  # a component may have lost its rows
            parts.append(Judged(other.fitted_, Z[out], weights[out], R, masses))
        return parts

    @property
    def standardised(self):
        """The fitted mixture of standardised columns."""
        if self._learned is None:
            # Of few rows of a stream it is what `fit` would learn.
            learned = self.learner
            self._learned = learned or self._fitted(*self._joined())
        return self._learned

    @property
    def mixture(self):
        """The estimator of the mixture in the units of the data."""
        if self._found is None:
            self._found = self.published(self._in_units())
        return self._found

    def _joined(self):
        """Return the rows that are kept, and their weights."""
        rows, weights = zip(*self.chunks, strict=True)
        return np.concatenate(rows), np.concatenate(weights)

    def _scaled(self, rows):
        """Return rows in standard deviations from the mean."""
        return (rows - self.shift) / self.scale

    def _fitted(self, rows, weights):
        """Return a mixture that is fitted to scaled rows."""
        learner = self._new_learner(rows, weights)
        with warnings.catch_warnings():
            # Only constant columns have no variance but reg_covar in these units.
            warnings.filterwarnings("ignore", "reg_covar=", FitWarning)
            return learner.fit(self._scaled(rows), sample_weight=weights)

    def _new_learner(self, rows, weights):
        """Return a mixture for rows like these, which give the units."""
        self.shift, self.scale = units_of(rows, weights, self.constant)
        share = self.prior_share + self.prior_rows / max(weights.sum(), 1e-300)
        learner = StochasticEMGaussianMixture(**self.settings)
        if share:
            learner.prior = GaussianMixturePrior(
                # A component that is left without rows stays, as a background.
                weight_concentration=1 / max(weights.sum(), 1.0),
                covariance_prior=self._pooled(rows, weights),
                covariance_prior_strength=share,
            )
        return learner

    def _pooled(self, rows, weights):
        """Return the covariance of all rows, in the units of the mixture."""
        if self.diagonal:
            return 1.0
        mixture = StochasticEMGaussianMixture(tol=POOLED.tol, max_iter=POOLED.max_iter)
        with warnings.catch_warnings():
            # A prior need not be exact, and columns may depend on each other.
            warnings.simplefilter("ignore", (FitWarning, ConvergenceWarning))
            mixture.fit(self._scaled(rows), sample_weight=weights)
        # Without reg_covar, which would make small components wider.
        return mixture.covariances_[0] - mixture.reg_covar * np.eye(rows.shape[1])

    def _in_units(self):
        """Return the mixture of unscaled rows."""
        twin, scale = self.standardised.fitted_.of_emission, self.scale
        scaled = twin.params.emission
        means = self.shift + scale * scaled.means
        is_diagonal = twin.model.emission.covariance_type == "diag"
        if scaled.covariances.ndim > 1 and is_diagonal:
            matrices = scaled.covariances * scale**2, scaled.precisions_cholesky / scale
        else:
            covariances = scaled.covariances * scale[:, None] * scale
            matrices = covariances, scaled.precisions_cholesky / scale[:, None]
        unscaled = GaussianParams(means, *matrices, self.shift)
        params = twin.params._replace(emission=unscaled)
        return replace(twin, params=params)

    def published(self, fitted):
        """Return the estimator of a mixture of the same columns."""
        return self.standardised._estimator_of(fitted, np.arange(len(self.scale)))
