"""Regression by a Gaussian mixture of inputs and outputs together."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from sktem import budget
from sktem.choices import check_number
from sktem.e_step.random import drawing_generator
from sktem.emissions.base import bisected, draw_indices
from sktem.emissions.marginals import Marginal
from sktem.emissions.patterns import Pattern, grouped
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Auto, Seed
from sktem.estimators.peers import judged_rows, warn_of_means
from sktem.estimators.runs import unchanged_by_errors
from sktem.estimators.weights import checked_weights
from sktem.exceptions import FitWarning
from sktem.mixture.incomplete import observed_rows
from sktem.mixture.left_out import widened, widening
from sktem.mixture.scaled import (
    PRIOR_ROWS,
    ScaledMixtureEstimator,
    possible_components,
)
from sktem.validation import checked_outputs

__all__ = ["GaussianMixtureRegressor"]


class _Outputs(NamedTuple):
    """Mixtures of the outputs given inputs: of rows in which the same are known."""

    rows: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def mean(self):
        """Return the means, (n, m)."""
        return np.einsum("nk,nkm->nm", self.weights, self.means)

    def std(self):
        """Return the standard deviations, (n, m)."""
        within = np.diagonal(self.covariances, axis1=1, axis2=2)
        between = (self.means - self.mean()[:, None]) ** 2
        variances = np.einsum("nk,nkm->nm", self.weights, within + between)
        return np.sqrt(np.maximum(variances, 0.0))

    def quantiles(self, shares):
        """Return quantiles, (n, m, q)."""
        within = np.diagonal(self.covariances, axis1=1, axis2=2)
        widths = np.sqrt(np.maximum(within, 0.0))[None, :, :, None]
        means, weights = self.means[..., None], self.weights[:, :, None, None]
        # That of a mixture is between those of its components.
        quantiles = means + widths * ndtri(shares)
        safe = np.where(widths > 0, widths, 1.0)

        def short(values):
            z = (values[:, None] - means) / safe
            reached = np.where(widths > 0, ndtr(z), z >= 0)
            return shares - (weights * reached).sum(axis=1)

        return bisected(short, quantiles.min(axis=1), quantiles.max(axis=1))

    def draws(self, n_samples, rng):
        """Return draws, (n, n_samples, m)."""
        n, _, m = self.means.shape
        values, vectors = np.linalg.eigh(self.covariances)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        rows = np.repeat(np.arange(n), n_samples)
        states = draw_indices(self.weights[rows], rng)
        samples = self.means[rows, states]
        noise = rng.standard_normal(samples.shape)
        for k in np.unique(states):
            members = states == k
            samples[members] += noise[members] @ roots[k].T
        return samples.reshape(n, n_samples, m)


class GaussianMixtureRegressor(RegressorMixin, ScaledMixtureEstimator):
    """Regression by conditioning a Gaussian mixture of inputs and outputs.

    A Gaussian mixture is fitted to the columns of X and y together. Given the inputs,
    the outputs are again distributed as a mixture: one of linear regressions whose
    weights depend on the inputs. It can bend, be wider in some places than in others,
    and have several modes. All predictions from it are exact. Inputs that are NaN are
    missing and are integrated out, in `fit` and in all other methods; so are outputs in
    `fit`. The scales and offsets of columns and outputs do not matter. When rows are
    few, they lie closer to the fitted regressions than new rows will: `fit` therefore
    widens the distributions of the outputs, by an amount found from rows that are left
    out.

    Parameters
    ----------
    n_components : int, default=5
        Number of components.
    covariance_type : {"full", "tied", "diag"}, default="full"
        Each component has its own matrix, all share one matrix, or there are no
        correlations; in that case predictions are averages of one constant per
        component.
    prior_rows : float or "auto", default="auto"
        Weight, in rows, of a prior that shrinks the covariances of components towards
        the covariance of all rows. With few rows the fit is thus pulled towards one
        linear regression. "auto" is half a row for each column beyond two, outputs
        included, plus 0.01; 0 is no prior.
    init_params : str or callable, default="k-means++"
        The start, see :class:`StochasticEMGaussianMixture`. Distances are between
        standardised columns and outputs.
    n_init : int, default=5
        Number of starts; the run with the best lower bound is kept.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    tol : float, default=1e-5
        Threshold of convergence, in nats per row.
    n_jobs : int or None, default=None
        Threads of the E-step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starts and of the draws.

    Attributes
    ----------
    mixture_ : StochasticEMGaussianMixture
        The mixture of inputs and outputs, in this order and in their units.
    n_outputs_ : int
        Number of outputs.
    widening_ : float
        Factor, at least 1, by which `fit` has multiplied the covariances of the outputs
        given the inputs, so that they hold for new rows. It maximises the likelihood of
        the residuals of rows that are left out of the fit. 1 on a stream.
    converged_ : bool
        Whether the fit stopped by itself; set by `fit`.
    n_iter_ : int
        Passes over the data; set by `fit`.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of str
        Names of the inputs, if X is a data frame.

    See Also
    --------
    StochasticEMGaussianMixture.condition : The mixture of some columns given others.
    BoltzmannMachineRegressor : Outputs given inputs, which are not modelled.

    References
    ----------
    Z. Ghahramani and M. I. Jordan, Supervised learning from incomplete data via an EM
    approach, NIPS 6, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import GaussianMixtureRegressor
    >>> X = np.linspace(-5, 5, 200)[:, None]
    >>> y = np.abs(X[:, 0])
    >>> regressor = GaussianMixtureRegressor(2, random_state=0).fit(X, y)
    >>> regressor.predict([[-4.0], [4.0]]).round(1)
    array([4., 4.])
    """

    _advice_on_labels = (
        ", or take StochasticEMMixture, which has distributions of labels: impute "
        "fills a column of outputs that is NaN"
    )

    def __init__(
        self,
        n_components: int = 5,
        *,
        covariance_type: Literal["full", "tied", "diag"] = "full",
        prior_rows: float | Auto = "auto",
        init_params="k-means++",
        n_init: int = 5,
        max_iter: int = 1000,
        tol: float = 1e-5,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.prior_rows = prior_rows
        self.init_params = init_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: several outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # Learning -------------------------------------------------------------------

    @unchanged_by_errors
    def fit(self, X, y, sample_weight=None):
        """Learn the mixture.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; NaN means missing.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs; NaN means missing.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights; a row of weight 2 counts as two equal rows.

        Returns
        -------
        GaussianMixtureRegressor
            The fitted estimator.
        """
        rows, weights = self._rows(X, y, sample_weight, reset=True)
        outputs = [f"y[{j}]" for j in range(self.n_outputs_)]
        rows, weights = self._observed(rows, weights, outputs)
        self._scaled = self._new_mixture(rows, weights).fit(rows, weights)
        scaled, d = self._scaled, self.n_features_in_
        self.widening_ = widening(scaled.judged(rows, weights), d, scaled.prior_rows)
        self._widened = None
        if self.widening_ > 1:
            wider = widened(scaled.mixture.fitted_, d, self.widening_)
            self._widened = scaled.published(wider)
        learner = self._scaled.learner
        self.converged_, self.n_iter_ = learner.converged_, learner.n_iter_
        self._warn_of_means(rows, weights)
        return self

    def _warn_of_means(self, rows, weights):
        """Warn of means that are behind those of a kernel ridge regression."""
        d = self.n_features_in_
        complete = np.flatnonzero(np.isfinite(rows).all(axis=1))
        places = judged_rows(rows[complete])
        if places is None:
            return
        rows = rows[complete[places]]
        weights = np.ones(len(rows)) if weights is None else weights[complete[places]]
        means = _in_order(self._outputs(rows[:, :d]), _Outputs.mean)
        advice = "Increase n_components where there are rows enough"
        warn_of_means(rows[:, :d], rows[:, d:], means, weights, advice)

    @unchanged_by_errors
    def partial_fit(self, X, y, sample_weight=None):
        """Learn from a chunk of a stream, with constant memory.

        Columns are standardised by the first rows, which are kept until there are
        enough for a start: see :meth:`StochasticEMGaussianMixture.partial_fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; NaN means missing.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs; NaN means missing.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights.

        Returns
        -------
        GaussianMixtureRegressor
            The estimator, ready to predict.
        """
        first = not hasattr(self, "_scaled")
        rows, weights = self._rows(X, y, sample_weight, reset=first)
        rows, weights = observed_rows(rows, weights)
        if not len(rows):
            return self
        if first:
            self._scaled = self._new_mixture(None, None)
        self._scaled.partial_fit(rows, weights)
        self._widened, self.widening_ = None, 1.0
        return self

    def _rows(self, X, y, sample_weight, reset):
        """Return inputs and outputs side by side, and weights."""
        self._check_parameters()
        if y is None:
            raise ValueError(
                "This GaussianMixtureRegressor estimator requires y to be passed, but "
                "the target y is None"
            )
        X = self._inputs(X, reset)
        y = checked_outputs(y, self._advice_on_labels)
        check_consistent_length(X, y)
        Y = y.reshape(len(y), -1)
        if reset:
            self.n_outputs_, self._is_flat = Y.shape[1], y.ndim == 1
        elif Y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but the fit has seen {self.n_outputs_}"
            )
        rows = np.column_stack([X, Y])
        if sample_weight is None:
            return rows, None
        weights = checked_weights(sample_weight, X)
        return rows[weights > 0], weights[weights > 0]

    def _check_parameters(self):
        super()._check_parameters()
        if self.prior_rows != "auto":
            check_number("prior_rows", self.prior_rows, Real, 0)

    def _new_mixture(self, rows, weights):
        """Return the mixture to fit, and warn of few rows."""
        K, p = self.n_components, self.n_features_in_ + self.n_outputs_
        if rows is not None:
            total = len(rows) if weights is None else weights.sum()
            K = possible_components(K, rows)
            # With as many, more than four fifths of new outputs lie in intervals of .9.
            if K == self.n_components and total < K * (p + 1):
                warn_user(
                    f"{total:g} rows are few for {K} component(s) of {p} columns and "
                    "outputs: standard deviations and intervals of predictions may be "
                    "too narrow. Take fewer components or columns, or a larger "
                    "prior_rows.",
                    FitWarning,
                )
        prior = PRIOR_ROWS.of(p) if self.prior_rows == "auto" else self.prior_rows
        # An input that has not varied says nothing, an output is what it was.
        constant = np.repeat([1e6, 1e-9], [self.n_features_in_, self.n_outputs_])
        return self._scaled_mixture(K, prior_rows=prior, constant=constant)

    # Answers --------------------------------------------------------------------

    @property
    def mixture_(self):
        """The mixture of inputs and outputs, in this order and in their units."""
        check_is_fitted(self, "n_outputs_")
        return self._widened or self._scaled.mixture

    def _outputs(self, X):
        """Yield the mixtures of the outputs of blocks of checked rows."""
        mixture = self.mixture_
        d, m = self.n_features_in_, self.n_outputs_
        twin = mixture.fitted_.of_emission
        gaussian = twin.params.emission
        K = len(gaussian.means)
        full = twin.model.emission.structure(K, d + m).full(gaussian.covariances)
        gaussian = gaussian._replace(covariances=full)
        inputs, outputs = mixture.marginal(np.arange(d)), np.arange(d, d + m)
        size = max(1, budget.MEMORY.cached // (K * max(m, d)))
        nothing = np.empty(0, dtype=np.intp)
        for start in range(0, len(X), size):
            block = X[start : start + size]
            empty = np.flatnonzero(np.isnan(block).all(axis=1))
            patterns = grouped(block).large
            if len(empty):
                patterns.append(Pattern(empty, nothing, nothing))
            for pattern in patterns:
                rows = np.arange(len(block))[pattern.rows]
                known = block[rows]
                fill = Marginal(gaussian, pattern.observed, outputs)
                means = [fill.expected(known, gaussian.means[k], k) for k in range(K)]
                yield _Outputs(
                    start + rows,
                    inputs.predict_proba(known),
                    np.stack(means, axis=1),
                    fill.spreads,
                )

    def _collected(self, X, answer):
        """Return answers to all rows, in order."""
        check_is_fitted(self, "n_outputs_")
        return _in_order(self._outputs(self._inputs(X, reset=False)), answer)

    def predict(self, X):
        """Return the means of the outputs given inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; NaN means missing.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Means.
        """
        means = self._collected(X, _Outputs.mean)
        return means[:, 0] if self._is_flat else means

    def predict_std(self, X):
        """Return the standard deviations of the outputs given inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; NaN means missing.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations of new outputs, noise included.
        """
        deviations = self._collected(X, _Outputs.std)
        return deviations[:, 0] if self._is_flat else deviations

    def predict_quantiles(self, X, quantiles=(0.05, 0.5, 0.95)):
        """Return quantiles of each output given inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; NaN means missing.
        quantiles : float or array-like of shape (n_quantiles,), \
                default=(0.05, 0.5, 0.95)
            Probabilities between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples[, n_outputs][, n_quantiles])
            Quantiles. There is no axis for the outputs if y had one dimension, and none
            for the quantiles if a single number is given.
        """
        shares = np.asarray(quantiles, dtype=np.float64)
        if shares.ndim > 1 or not ((shares > 0) & (shares < 1)).all():
            raise ValueError(
                f"quantiles must be numbers between 0 and 1, got {quantiles!r}"
            )
        flat = np.atleast_1d(shares)
        values = self._collected(X, lambda part: part.quantiles(flat))
        values = values[:, 0] if self._is_flat else values
        return values[..., 0] if shares.ndim == 0 else values

    def sample(self, X, n_samples=1):
        """Draw outputs given inputs.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs; NaN means missing.
        n_samples : int, default=1
            Draws for each row.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_samples, n_outputs)
            Draws.
        """
        check_number("n_samples", n_samples, Integral, 1)
        rng = drawing_generator(self.random_state)
        draws = self._collected(X, lambda part: part.draws(n_samples, rng))
        return draws[..., 0] if self._is_flat else draws

    def score_samples(self, X, y=None):
        """Return log-densities of outputs given inputs, or of inputs alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; NaN means missing.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs) or None, \
                default=None
            Outputs; NaN means missing. None asks for the density of the inputs, which
            is low where predictions extrapolate.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities.
        """
        inputs = self.mixture_.marginal(np.arange(self.n_features_in_))
        if y is None:
            return inputs.score_samples(self._inputs(X, reset=False))
        rows, _ = self._rows(X, y, None, reset=False)
        joint = self.mixture_.score_samples(rows)
        return joint - inputs.score_samples(rows[:, : self.n_features_in_])


def _in_order(parts, answer):
    """Return answers to all rows of parts, in the order of the rows."""
    pairs = [(part.rows, answer(part)) for part in parts]
    rows = np.concatenate([rows for rows, _ in pairs])
    return np.concatenate([values for _, values in pairs])[np.argsort(rows)]
