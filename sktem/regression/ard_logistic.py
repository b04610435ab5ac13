"""Logistic regression with automatic relevance determination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar, Literal

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice
from sktem.e_step.random import spawn_generators
from sktem.estimators.base import LoopEstimator, unchanged_by_errors, with_callbacks
from sktem.estimators.by_blocks import answer, needed_in_memory
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Seed, StepSize
from sktem.estimators.targets import split_target
from sktem.exceptions import FitWarning
from sktem.regression.ard_logistic_ascent import CHECKS, RelevanceState, RelevanceTrace
from sktem.regression.ard_logistic_model import (
    ARDLogisticModel,
    ARDLogisticParams,
    WholeData,
)
from sktem.regression.feature_scaling import Scaling
from sktem.regression.relevance_folds import unstable_relevance
from sktem.regression.relevance_start import (
    LEAST_VARIANCE,
    common_evidence,
    find_start,
    laplace_fit,
)
from sktem.rows.answers import in_memory
from sktem.rows.sources import found_rows
from sktem.samplers import MALA, ULA, Sampler
from sktem.schedules import Polynomial
from sktem.solvers.base import SolverState
from sktem.validation import validate_data

__all__ = ["ARDLogisticClassifier"]

#: Samplers by name, and their Langevin steps in units of the posterior covariance.
SAMPLERS = {"mala": MALA, "ula": ULA}
STEPS: dict[type, float] = {MALA: 1.0, ULA: 0.05}
#: Steps of the approximation.
STEP_SIZE = Polynomial(alpha=0.7, offset=10)
#: Largest variance, unless Laplace's approximation has found half of a larger one.
WIDE_VARIANCE = 100.0
#: Gain of one common variance, in nats, above which a warning names it.
TOGETHER = 1.0


class ARDLogisticClassifier(ClassifierMixin, LoopEstimator):
    """Logistic regression that finds which features matter.

    ``beta_j ~ N(0, 1 / theta_j^2)`` with theta learned by maximum marginal likelihood:
    the variance of a coefficient that is not needed goes to zero, and the feature is
    dropped. A feature that gains less than its price is dropped as well. Keeping k of p
    features costs the logarithm of p choose k (a uniform prior on k, up to p / 2);
    without this price, the best of many irrelevant features would be kept. Features are
    centred and scaled internally; the intercept for centred features is ``N(0, 10^2)``.

    The fit starts at the best of several maxima of Laplace's approximation to the
    marginal likelihood, found by MacKay's fixed point and by adding features one at a
    time. SAEM goes from there to a maximum of the marginal likelihood itself, with
    Newton steps where draws at fixed variances show that there is more to gain. The
    marginal likelihood has many maxima, of which this is one. If features separate the
    classes, its maximum is at infinity; prior variances of coefficients are therefore
    at most 100, or twice the largest one at the start. A warning says if a single
    variance for all coefficients is more likely than variances for a few, and if
    cross-validation shows that there are too few rows to select features.

    Parameters
    ----------
    solver : {"saem", "biased-saem"}, default="saem"
        "biased-saem" is SAEM with the unadjusted Langevin sampler.
    sampler : {"auto", "mala", "ula"} or Sampler, default="auto"
        How coefficients are drawn; "auto" is "mala", or the one that the solver
        implies. Samplers given by name are preconditioned by the curvature at the start
        and at the current variances.
    n_chains : int, default=4
        Number of parallel chains. Not used if ``sampler`` is an instance, which has its
        own number.
    n_steps : int, default=5
        Transitions per iteration. Not used if ``sampler`` is an instance.
    step_size : float, Schedule, callable or "auto", default="auto"
        Steps of the stochastic approximation. "auto" is ``(k + 10) ** -0.7``.
    max_iter : int, default=400
        Maximum number of iterations.
    tol : float, default=0.05
        The fit has converged when the marginal log-likelihood can gain no more than
        this, in nats, from the variances of kept features, and no dropped feature can
        gain more than this above its price. 0 means that nothing is checked and all
        iterations are done.
    threshold : float, default=0.0
        A feature is also dropped if its ``1 / theta_j``, for the scaled feature, is
        below this.
    n_posterior_draws : int, default=400
        Number of draws of the coefficients from which probabilities are predicted.
    random_state : int, RandomState, Generator or None, default=None
        Seed.
    verbose : int, default=0
        1 prints epochs. For progress bars see :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of epochs between prints.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    coef_ : ndarray of shape (1, n_features)
        Posterior means of the coefficients, 0 for dropped features.
    intercept_ : ndarray of shape (1,)
        Posterior mean of the intercept.
    theta_ : ndarray of shape (n_features,)
        Inverse prior standard deviations of the coefficients of the scaled features.
    support_ : ndarray of bool of shape (n_features,)
        Which features are kept.
    draws_ : ndarray of shape (n_posterior_draws, 1 + n_features)
        Draws of the intercept and the coefficients, in the units of X.
    history_ : History
        Record of the run.
    n_iter_ : int
        Iterations.
    converged_ : bool
        Whether at most ``tol`` is left to gain, judging by draws of the coefficients.
    n_features_in_ : int
        Number of features.

    References
    ----------
    D. J. C. MacKay, Bayesian interpolation, Neural Computation, 1992.

    J. G. Scott and J. O. Berger, Bayes and empirical-Bayes multiplicity adjustment in
    the variable-selection problem, Annals of Statistics, 2010.

    S. Gruffaz et al., Stochastic Approximation with Biased MCMC for Expectation
    Maximization, AISTATS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import ARDLogisticClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 6))
    >>> y = rng.random(400) < 1 / (1 + np.exp(-3 * X[:, 0]))
    >>> model = ARDLogisticClassifier(random_state=0).fit(X, y)
    >>> bool(model.support_[0]), int(model.support_.sum()) < 6
    (True, True)
    """

    def __init__(
        self,
        *,
        solver: Literal["saem", "biased-saem"] = "saem",
        sampler: Literal["auto", "mala", "ula"] | Sampler = "auto",
        n_chains: int = 4,
        n_steps: int = 5,
        step_size: StepSize = "auto",
        max_iter: int = 400,
        tol: float = 0.05,
        threshold: float = 0.0,
        n_posterior_draws: int = 400,
        random_state: Seed = None,
        verbose: int = 0,
        verbose_interval: int = 10,
    ):
        self.solver = solver
        self.sampler = sampler
        self.n_chains = n_chains
        self.n_steps = n_steps
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold
        self.n_posterior_draws = n_posterior_draws
        self.random_state = random_state
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    _samplers: ClassVar[Mapping[str, type]] = SAMPLERS

    def _best_sampler(self, model, solver):
        return "mala"

    def _with_settings(self, sampler, model):
        if not isinstance(sampler, type):
            return sampler
        adapts = {"adapt": 0.6} if sampler is MALA else {}
        return sampler(
            **adapts,
            step=STEPS[sampler],
            n_steps=self.n_steps,
            n_chains=self.n_chains,
            preconditioner="curvature",
        )

    def _loop_settings(self, model):
        for name in ("n_chains", "n_steps", "max_iter", "n_posterior_draws"):
            self._check_number(name, Integral, 1)
        self._check_number("threshold", Real, 0)
        check_choice("solver", self.solver, ("biased-saem", "saem"))
        settings = self._settings(model, 1)
        if isinstance(self.step_size, str):
            settings = replace(settings, step_size=STEP_SIZE)
        return replace(settings, monitor=False, tol=0.0)

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y):
        """Learn which features matter, and their coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, in memory, because the chains visit all rows in each of their
            thousands of steps.
        y : array-like of shape (n_samples,)
            Labels, of two classes.

        Returns
        -------
        ARDLogisticClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are not two classes.
        """
        needed_in_memory(
            type(self).__name__,
            X,
            "the chains visit all rows in each of their thousands of steps",
        )
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                "multiclass."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of 2 classes in the data, but the data "
                f"contains only one class: {self.classes_[0]!r}"
            )
        self._scaling = Scaling.of(X)
        X, labels = self._scaling.apply(X), labels.astype(np.float64)
        start, height = find_start(X, labels)
        together = common_evidence(X, labels)[0] - height
        columns = np.flatnonzero(start)
        all_variances, start, selected = (
            start,
            start[columns],
            np.ascontiguousarray(X[:, columns]),
        )
        weights = laplace_fit(selected, labels, start).weights
        data = WholeData(selected, labels, weights=weights)
        largest = max(WIDE_VARIANCE, 2 * start.max(initial=0.0))
        model = ARDLogisticModel(largest_variance=largest)
        settings = self._loop_settings(model)
        sampler = _shortened(settings.sampler, len(columns), self.sampler)
        settings = replace(settings, sampler=sampler)

        def new_run(progress):
            # The statistics of which the start is the M-step: chains do not lose it.
            solver = SolverState(s=start, S_tts=start)
            relevance = RelevanceTrace(columns, data, X, model, settings.sampler)
            params, generators = (
                ARDLogisticParams(start),
                spawn_generators(self.random_state),
            )
            return RelevanceState(
                params, generators, solver=solver, relevance=relevance
            )

        state = self._fit(settings, data, None, new_run)
        self._warn(state, settings)
        self._warn_of_maximum(state)
        self._warn_of_separation(data, model)
        if together > TOGETHER:
            warn_user(
                "Most features matter a little rather than few of them much: one "
                f"variance of all coefficients gains {together:.2g} nats over those of "
                "the kept ones. Prefer an l2 penalty chosen by cross-validation "
                "(LogisticRegressionCV).",
                FitWarning,
            )
        elif instability := unstable_relevance(X, labels, all_variances):
            warn_user(instability, FitWarning)
        return self

    def _after_epoch(self, state):
        epoch = len(state.history)
        last = epoch >= self.max_iter
        if not (last or epoch in CHECKS.epochs) or not self.tol:
            return False
        climb = state.relevance.climb
        for _ in range(CHECKS.last_steps if last else 1):
            state.converged = climb(state, self.n_posterior_draws, self.tol)
            if state.converged:
                break
        return state.converged

    def _fitted_attributes(self, settings, state, X):
        trace, active_variances = state.relevance, state.params.variances
        n_features = self.n_features_in_
        variances = np.full(n_features, LEAST_VARIANCE)
        variances[trace.columns] = active_variances
        deviations = np.sqrt(variances)
        support = (variances > 2 * LEAST_VARIANCE) & (deviations >= self.threshold)
        draws = np.zeros((self.n_posterior_draws, 1 + n_features))
        active_draws = trace.draws_at(state, self.n_posterior_draws)
        draws[:, np.append(0, 1 + trace.columns)] = active_draws
        draws[:, 1:][:, ~support] = 0.0
        draws = self._scaling.undo(draws)
        mean = draws.mean(axis=0)
        return {
            "coef_": mean[None, 1:],
            "intercept_": mean[:1],
            "theta_": 1 / deviations,
            "support_": support,
            "draws_": draws,
            "params_": ARDLogisticParams(variances),
            "history_": state.history,
            "n_iter_": int(state.rows_visited),
            "converged_": state.converged,
        }

    def _warn_of_maximum(self, state):
        """Warn where the maximum has not been reached, or is not there."""
        if self.tol and not (state.converged or state.stopped):
            trace = state.relevance
            warn_user(
                "The variances are not yet at the maximum of the marginal likelihood: "
                f"about {trace.left:.2g} nats can be gained by those of the kept "
                f"features and {trace.missed:.2g} by a dropped one, and tol is "
                f"{self.tol:g}. Increase max_iter or tol.",
                ConvergenceWarning,
            )

    def _warn_of_separation(self, data, model):
        """Warn where fewer samples than features are separated by those kept."""
        wide = self.params_.variances.max() > 0.99 * model.largest_variance
        if wide and len(data.X) <= self.n_features_in_:
            warn_user(
                "The kept features separate the classes, and a prior variance has "
                "reached its bound: the probabilities may be too sure of themselves. "
                "Prefer an l1 penalty chosen by cross-validation "
                "(LogisticRegressionCV).",
                FitWarning,
            )

    def decision_function(self, X, *, out=None):
        """Return the logarithm of the predicted odds of the second class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features, or anything that :func:`sktem.rows.as_rows` accepts.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Log-odds of the averaged probability; an iterator over blocks of them if X
            is read in blocks and ``out`` is not given.
        """

        def log_odds(X):
            second = np.clip(self._second(X), 1e-300, 1.0)
            return np.log(second) - np.log(np.maximum(1 - second, 1e-300))

        return self._answer(X, log_odds, out)

    def predict_proba(self, X, *, out=None):
        """Return probabilities, averaged over draws of the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features, or anything that :func:`sktem.rows.as_rows` accepts.
        out : array of shape (n_samples, 2) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, 2) or iterator
            Probabilities of the classes; an iterator over blocks of them if X is read
            in blocks and ``out`` is not given.
        """

        def probabilities(X):
            second = self._second(X)
            return np.column_stack([1 - second, second])

        return self._answer(X, probabilities, out)

    def predict(self, X, *, out=None):
        """Return the more probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features, or anything that :func:`sktem.rows.as_rows` accepts.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Labels; an iterator over blocks of them if X is read in blocks and ``out``
            is not given.
        """

        def labels(X):
            return self.classes_[(self._second(X) > 0.5).astype(int)]

        return self._answer(X, labels, out)

    def score(self, X, y, sample_weight=None):
        """Return the share of rows whose class is predicted correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Features, or anything that :func:`sktem.rows.as_rows` accepts.
        y : array-like of shape (n_samples,) or str
            Labels, or the name of their column if X is read in blocks.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        float
            Mean accuracy.
        """
        source = found_rows(X)
        if source is None:
            return super().score(X, y, sample_weight)
        source, y, _ = split_target(source, y)
        predicted = in_memory(self.predict(source))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _answer(self, X, function, out):
        check_is_fitted(self)
        return answer(self, X, function, out)

    def _second(self, X):
        """Return the probability of the second class."""
        support = self.support_
        logits = X[:, support] @ self.draws_[:, 1:][:, support].T + self.draws_[:, 0]
        return expit(logits).mean(axis=1)

    def _validate(self, X, sample_weight, *, reset):
        X = validate_data(self, X, reset=reset, dtype=np.float64)
        return X, sample_weight


def _shortened(sampler, n_coefficients, requested):
    """Return MALA, if it was not given as an instance, with a step for the number."""
    if isinstance(requested, str) and isinstance(sampler, MALA):
        step = min(1.0, 1.3 / (1 + n_coefficients) ** (1 / 3))
        return clone(sampler).set_params(step=step)
    return sampler
