"""Outliers: rows of low density under a Gaussian mixture."""

from __future__ import annotations

from numbers import Real
from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_number
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Auto, Seed
from sktem.estimators.power_transforms import PowerTransform
from sktem.estimators.runs import unchanged_by_errors
from sktem.exceptions import FitWarning
from sktem.mixture.incomplete import observed_rows
from sktem.mixture.left_out import Components, left_out_scores
from sktem.mixture.scaled import ScaledMixtureEstimator, possible_components

__all__ = ["MixtureOutlierDetector"]


class Threshold(NamedTuple):
    """Level of the density that separates outliers.

    Attributes
    ----------
    share : float
        Share of draws from the fitted mixture below the level "auto".
    least : float
        Share of the rows below it, at least.
    most : float
        Share of the rows below it, at most.
    draws : int
        How many of them are made.
    recent : int
        Rows of a stream whose scores give the level of a contamination.
    excess, more : float, int
        What the share of new rows below the level of a contamination is above it, as a
        share of it, and rows of the fit, at least, that is reported.
    many, n_skewed : float, int
        Share of the rows below the level "auto" from which on skewed columns are
        looked for, and rows that are looked at, at most.
    fewest : int
        Values of a column, at least, for which a power transform is looked for.
    """

    share: float = 0.02
    least: float = 0.01
    most: float = 0.25
    draws: int = 10_000
    recent: int = 4096
    excess: float = 0.5
    more: int = 2
    many: float = 0.06
    n_skewed: int = 2000
    fewest: int = 20


THRESHOLD = Threshold()


class MixtureOutlierDetector(OutlierMixin, ScaledMixtureEstimator):
    """Detect outliers as rows of low density under a Gaussian mixture.

    Columns are standardised internally, and covariances are shrunk towards uncorrelated
    columns, so that a few outliers do not get a narrow component of their own. Values
    that are NaN are missing; they contribute their expected score.

    Parameters
    ----------
    n_components : int, default=3
        Number of components.
    contamination : float or "auto", default="auto"
        Share of outliers in the data, in (0, 0.5], which sets `offset_`; a warning says
        if the share among new rows will be larger. With "auto" the threshold is the
        log-density that 98 of 100 rows drawn from the fitted mixture exceed. It is
        shifted and scaled so that the quartiles of the draws match those of the data,
        where each row is scored under the mixture without it; otherwise few rows would
        give a threshold that new rows cannot reach. At least a hundredth of the rows
        are below it, unless they are all alike, and at most a quarter.
    covariance_type : {"full", "tied", "diag"}, default="full"
        Each component has its own matrix, all share one matrix, or there are no
        correlations.
    shrinkage : float, default=0.2
        Weight of the prior, as a share of the data. The prior shrinks covariances
        towards uncorrelated columns with the variances of all rows.
    init_params : str or callable, default="k-means++"
        The start, see :class:`StochasticEMGaussianMixture`.
    n_init : int, default=1
        Number of starts.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    tol : float, default=1e-4
        Threshold of convergence, in nats per row.
    n_jobs : int or None, default=None
        Threads of the E-step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start and of the draws behind "auto".

    Attributes
    ----------
    mixture_ : StochasticEMGaussianMixture
        The fitted mixture, in the units of the data.
    offset_ : float
        Log-density below which rows are outliers.
    converged_ : bool
        Whether the fit stopped by itself; set by `fit`.
    n_iter_ : int
        Passes over the data; set by `fit`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a data frame.

    See Also
    --------
    StochasticEMMixture : Mixtures of other distributions, whose ``score_samples`` are
        log-densities too.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import MixtureOutlierDetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)) + np.repeat([[0.0], [9.0]], 100, axis=0)
    >>> detector = MixtureOutlierDetector(2, random_state=0).fit(X)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0], [0.0, 9.0]])
    array([ 1,  1, -1])
    """

    _advice_on_labels = (
        ", or take StochasticEMMixture, which has distributions of labels: outliers "
        "are the rows with the lowest score_samples"
    )

    def __init__(
        self,
        n_components: int = 3,
        *,
        contamination: float | Auto = "auto",
        covariance_type: Literal["full", "tied", "diag"] = "full",
        shrinkage: float = 0.2,
        init_params="k-means++",
        n_init: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.contamination = contamination
        self.covariance_type = covariance_type
        self.shrinkage = shrinkage
        self.init_params = init_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    @unchanged_by_errors
    def fit(self, X, y=None):
        """Learn the mixture and the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means missing.
        y : None
            Ignored.

        Returns
        -------
        MixtureOutlierDetector
            The fitted estimator.
        """
        X, _ = self._observed(self._rows(X, reset=True, ensure_min_samples=2))
        self._scaled = self._new_mixture(possible_components(self.n_components, X))
        self._scaled.fit(X)
        learner = self._scaled.learner
        self.converged_, self.n_iter_ = learner.converged_, learner.n_iter_
        self._offset, self._recent = self._level(X), X[-THRESHOLD.recent :]
        if self.contamination != "auto":
            self._warn_of_new_rows(X, self.contamination)
        else:
            self._warn_of_skew(X)
        return self

    @unchanged_by_errors
    def partial_fit(self, X, y=None):
        """Learn from a chunk of a stream, with constant memory.

        Columns are standardised by the first rows, which are kept until there are
        enough for a start: see :meth:`StochasticEMGaussianMixture.partial_fit`. If
        `contamination` is a number, the threshold is that of the last 4,096 rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means missing.
        y : None
            Ignored.

        Returns
        -------
        MixtureOutlierDetector
            The estimator, ready to predict.
        """
        first = not hasattr(self, "_scaled")
        X, _ = observed_rows(self._rows(X, reset=first), None)
        if not len(X):
            return self
        if first:
            self._scaled = self._new_mixture(self.n_components)
            self._recent = X[:0]
        self._scaled.partial_fit(X)
        self._recent = np.concatenate([self._recent, X])[-THRESHOLD.recent :]
        self._offset = None  # computed when it is read
        return self

    def _rows(self, X, reset, ensure_min_samples=1):
        """Return rows of float64."""
        if reset:
            self._check_parameters()
        return self._inputs(X, reset, ensure_min_samples)

    def _check_parameters(self):
        super()._check_parameters()
        check_number("shrinkage", self.shrinkage, Real, 0)
        if self.contamination != "auto":
            check_number("contamination", self.contamination, Real, 0, strict=True)
            if self.contamination > 0.5:
                raise ValueError(
                    "contamination must be in the range (0, 0.5] or 'auto', got "
                    f"{self.contamination!r}"
                )

    def _new_mixture(self, n_components):
        """Return the mixture to fit."""
        # A column that was constant is not expected to change.
        options = {"prior_share": self.shrinkage, "diagonal": True, "constant": 1e-3}
        return self._scaled_mixture(n_components, **options)

    def _level(self, X):
        """Return the threshold, by rows or by draws."""
        if self.contamination != "auto":
            return float(np.quantile(self._scores(X), self.contamination))
        mixture = self._scaled.standardised
        drawn = mixture.score_samples(mixture.sample(THRESHOLD.draws)[0])
        lowest, *of_draws = np.quantile(drawn, [THRESHOLD.share, 0.25, 0.5, 0.75])
        quantiles = np.quantile(
            self._scores(X, left_out=True), [THRESHOLD.least, 0.25, 0.5, 0.75]
        )
        lowest_own, low, middle, high = quantiles
        # Shrunk covariances are wider than the rows, which are thus denser than draws.
        narrower = (high - low) / max(of_draws[2] - of_draws[0], 1e-300)
        level = float(max(middle - narrower * (of_draws[1] - lowest), lowest_own))
        return _below_most(level, self._scores(X))

    def _warn_of_new_rows(self, X, meant):
        """Warn if far more new rows than intended will be below the threshold.

        The density is higher where rows have been learned, the more so the fewer.
        """
        share = np.mean(self._scores(X, left_out=True) < self._offset)
        if share - meant >= max(THRESHOLD.excess * meant, THRESHOLD.more / len(X)):
            warn_user(
                f"contamination={meant:g} is the share of outliers among the rows of "
                f"`fit`; of new rows like them about {share:.0%} will be called "
                "outliers, since the mixture is denser where it has learned. "
                "contamination='auto' allows for that; fewer components, or a larger "
                "shrinkage, make the difference smaller.",
                FitWarning,
            )

    def _warn_of_skew(self, X):
        """Warn of many outliers where single columns are better when transformed."""
        share = np.mean(self._scores(X) < self._offset)
        most = THRESHOLD.many
        if share < most + 2 * np.sqrt(most * (1 - most) / len(X)):
            return
        X = X[:: -(-len(X) // THRESHOLD.n_skewed)]
        alone = sum(
            _transformed_likelihood(column[~np.isnan(column)]) for column in X.T
        )
        density = self._scores(X, left_out=True).mean()
        if alone > density:
            warn_user(
                f"{share:.0%} of the rows are called outliers, and columns are skewed "
                "or have heavy tails: after PowerTransformer(), columns that do not "
                f"depend on each other are more likely ({alone:.4g} per row) than "
                f"under the mixture ({density:.4g}). Transform the columns first, by "
                "it or by their logarithms, take more components, or set "
                "contamination.",
                FitWarning,
            )

    def _scores(self, X, left_out=False):
        """Return log-densities, averaged over missing values.

        Given a Gaussian, the density at the conditional mean is exp(1/2) times the
        geometric mean, for each missing value. ``left_out``: each under the mixture
        without the row.
        """
        mixture, missing = self._scaled.mixture, np.isnan(X)
        complete = mixture.impute(X, "mode") if missing.any() else X
        if left_out:
            R, prior_rows = mixture.predict_proba(complete), self.shrinkage * len(X)
            kind, factors = mixture.covariance_type, mixture.precisions_cholesky_
            components = Components(kind, mixture.means_, factors)
            scores = left_out_scores(components, complete, R, prior_rows)
        else:
            scores = mixture.score_samples(complete)
        return scores - missing.sum(axis=1) / 2

    @property
    def mixture_(self):
        """The fitted mixture, in the units of the data."""
        check_is_fitted(self, "_scaled")
        return self._scaled.mixture

    @property
    def offset_(self):
        """Log-density below which rows are outliers."""
        check_is_fitted(self, "_scaled")
        if self._offset is None:
            self._offset = self._level(self._recent)
        return self._offset

    def score_samples(self, X):
        """Return the log-density of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means missing and contributes its expected score.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities; the lower, the more abnormal.
        """
        check_is_fitted(self, "_scaled")
        return self._scores(self._rows(X, reset=False))

    def decision_function(self, X):
        """Return log-densities less the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            Negative for outliers.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        """Return which rows are outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means missing.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            -1 for outliers, 1 for others.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)


def _transformed_likelihood(values):
    """Return the mean log-density of a column that is normal after a power transform.

    It is that of the column as it is, less what three parameters gain by chance; minus
    infinity if it has few values, or such as no transform can be found for.
    """
    if len(values) < THRESHOLD.fewest:
        return -np.inf
    transform = PowerTransform.of(values, fewest_distinct=len(values) / 2)
    return -np.inf if transform is None else transform.likelihood - 3 / len(values)


def _below_most(level, scores):
    """Return a level that most rows reach, also where they are alike.

    Without quartiles that differ, it is below the score that all but two in a hundred
    reach.
    """
    quarter = np.quantile(scores, THRESHOLD.most, method="lower")
    slack = 1e-6 * (1 + abs(quarter))
    if level < quarter - slack:
        return level
    usual = np.quantile(scores, THRESHOLD.share, method="lower")
    lower = scores[scores < usual - slack]
    return float((usual + lower.max()) / 2 if len(lower) else usual - 1)
