"""Nonlinear mixed-effects regression."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from sktem.e_step.random import spawn_streams
from sktem.estimators.base import (
    USER_FRAME,
    FitProgress,
    with_callbacks,
)
from sktem.exceptions import FitWarning
from sktem.loop.state import RunState
from sktem.mixed_effects.columns import blank_columns, subjects_of
from sktem.mixed_effects.layout import (
    group_rows,
    layout_of,
    structure_of,
)
from sktem.mixed_effects.likelihood import MixedEffectsLikelihoods
from sktem.mixed_effects.parts import (
    ENOUGH_CHAINS,
    LEAST_CHAINS,
    MOST_CHAIN_ROWS,
    MixedEffectsParts,
)
from sktem.mixed_effects.results import MixedEffectsResults
from sktem.mixed_effects.run import MixedEffectsRun
from sktem.mixed_effects.stream import MixedEffectsStream
from sktem.mixed_effects.trace import Trace
from sktem.mixed_effects.unusual_fits import unusual

__all__ = ["NonlinearMixedEffectsRegressor"]


class NonlinearMixedEffectsRegressor(
    MixedEffectsResults,
    MixedEffectsLikelihoods,
    MixedEffectsStream,
    MixedEffectsRun,
    RegressorMixin,
    MixedEffectsParts,
):
    """Nonlinear regression with random effects, by stochastic approximation EM.

    Row j of subject i is ``y_ij = f(psi_i, x_ij) + g(f) eps_ij`` with ``psi_i =
    transform(phi_i)``, ``phi_i ~ N(C_i mu, Omega)`` and Gaussian eps; or has a
    log-density of its own.

    Parameters
    ----------
    model : str, callable or None
        A model of the library, of ``sktem.models.STRUCTURAL_MODELS``:
        "linear", "one_compartment_oral", "one_compartment_oral_lag",
        "one_compartment_iv", "two_compartment_iv", "emax", "logistic_growth" or
        "exponential_growth"; or a function ``f(psi, X)``, vectorised over rows, that
        gets the parameters of each row by name and the rows of X (an array, or for a
        data frame an object whose columns can be had by name). None with
        ``log_density``, if nothing has to be predicted.
    parameters : dict
        Names and start values of the parameters, on the natural scale. Their order of
        magnitude need not be right: the fit begins at an optimum of the regression
        without random effects.
    inputs : list of str or int, or None, default=None
        Columns of X that a model of the library takes; None means those of a data frame
        that are called like its inputs, and the first ones of an array. The others may
        hold anything that is not read.
    transforms : str or dict, default="log-normal"
        "normal", "log-normal", "logit" or "probit": how a Gaussian parameter becomes
        psi; one for all, or by name (the others are "log-normal").
    covariates : dict or None, default=None
        Columns of X by the parameter that they shift, linearly on the Gaussian scale.
        They may vary within a subject.
    omega : {"diagonal", "full"}, list of str or array-like, default="diagonal"
        Covariance of the random effects: a list names the parameters that have one
        (diagonal), none with an empty list; a matrix of zeros and ones, in the order of
        ``parameters`` (of the model, for one of the library), is 0 on the diagonal for
        parameters without.
    fixed : list of str, dict or None, default=None
        What stays at its start, or (a dict) at the given value, by the names of
        ``monte_carlo_errors_``: population values such as "CL", effects of covariates
        that are constant within subjects ("beta_weight(CL)"), variances of random
        effects without covariances ("omega2_CL"), and "a" and "b" of the residual
        error, which need a value ("residual_a" and "residual_b" where a parameter of
        the model is called "a" or "b").
    residual_error : {"constant", "proportional", "combined", "exponential"}, \
default="constant"
        Standard deviation ``a``, ``b |f|``, ``sqrt(a^2 + b^2 f^2)``, or ``a`` on the
        logarithm of y. Not used with ``log_density``.
    log_density : callable or None, default=None
        ``log_density(psi, X, y)``, the log-density (or log-probability) of each row,
        in place of the residual error.
    gradient : callable or None, default=None
        ``gradient(psi, X)``, a dict with the derivatives of the model by the
        parameters, for the samplers "mala" and "ula"; None means finite differences.
    omega_start : float, dict or None, default=None
        Variances of the random effects at the start; None means what the residuals of
        the regression without random effects suggest.
    solver : str or Solver, default="saem"
        "saem", "isaem", "vrttem", "fittem", "online", "biased-saem" (SAEM with "ula"),
        or an instance of a class of :mod:`sktem.solvers`.
    sampler : str or Sampler, default="auto"
        "rwm" (random walks by coordinate and by block, and draws of the prior), "mala",
        "ula", or an instance of a class of :mod:`sktem.samplers`. "auto" is what the
        solver implies, else "rwm".
    n_chains : int or "auto", default="auto"
        Parallel chains per subject; "auto" makes 240 in all, or fewer where subjects
        have many rows. Not for an instance, which has its own number.
    batch_size : int or "auto", default="auto"
        Subjects per iteration, for solvers that do not visit all. "auto" is a twentieth
        of the subjects.
    rho : float or "auto", default="auto"
        Step of the variance reduction of "vrttem" and "fittem".
    step_size : float, Schedule, callable or "auto", default="auto"
        Steps of the stochastic approximation. "auto" is 1 for ``n_burn_in`` epochs and
        ``k ** -0.7`` after. Others do not look at the burn-in.
    n_burn_in : int, default=50
        Epochs before the steps fall, at least: as long as an estimate drifts there are
        more of them, up to half of ``max_iter``. The estimates from ten epochs later on
        are averaged.
    annealing : bool, default=True
        Whether variances fall by at most 3 % per epoch in the first 60 % of the
        burn-in, so that chains and estimates can leave a bad start.
    max_iter : int, default=1000
        Passes over the subjects, at most.
    tol : float, default=0.2
        The fit stops when the Monte Carlo error of each averaged estimate is below
        ``tol`` times the standard error that it would have if the random effects were
        seen. Newton steps on the likelihood then take what EM and its noise leave to
        gain. 0 means never, and no Newton steps.
    random_state : int, RandomState, Generator or None, default=None
        Seed; an integer makes the result the same at every call.
    n_jobs : int or None, default=None
        Threads, for models of the library. The result does not depend on it.
    verbose : int, default=0
        1 prints epochs.
    verbose_interval : int, default=10
        Epochs between prints.

    Attributes
    ----------
    population_parameters_ : dict
        Population values on the natural scale (at covariates of 0).
    covariate_effects_ : dict
        Coefficients by (parameter, column).
    omega_ : ndarray of shape (d, d)
        Covariance of the random effects, in the order of ``random_effects_``.
    random_effects_ : list of str
        Parameters with a random effect.
    residual_error_ : dict
        Parameters of the residual error.
    monte_carlo_errors_ : dict
        Monte Carlo error of each estimate (of coefficients on the Gaussian scale,
        unlike standard errors) before the Newton steps at the end, which leave next to
        nothing of it.
    trace_ : dict
        Estimates after each epoch.
    params_ : MixedEffectsParams
        All parameters.
    statistics_ : ndarray
        Averaged statistics, from which the parameters follow up to Newton steps.
    history_ : History
        Record of the run.
    groups_ : ndarray
        Labels of the subjects.
    n_iter_ : int
        Passes over the subjects.
    converged_ : bool
        Whether the Newton steps at the end have arrived at a maximum of the likelihood;
        without them, whether the Monte Carlo error fell below ``tol``.
    n_features_in_ : int
        Number of columns of X.

    Notes
    -----
    An exception of the model function is raised to the caller; where it returns NaN
    for some rows, a proposal is rejected for their subjects. Rows with a missing y are
    an error: leave rows out that hold a dose and no observation.

    References
    ----------
    E. Kuhn and M. Lavielle, Maximum likelihood estimation in nonlinear mixed effects
    models, Computational Statistics and Data Analysis, 2005.

    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import NonlinearMixedEffectsRegressor
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(40), 6)
    >>> X = np.column_stack([np.full(240, 100.0), np.tile(np.arange(1.0, 7.0), 40)])
    >>> CL = 2.0 * np.exp(0.3 * rng.standard_normal(40))[groups]
    >>> y = 100 / 10 * np.exp(-CL / 10 * X[:, 1]) + 0.2 * rng.standard_normal(240)
    >>> pk = NonlinearMixedEffectsRegressor(
    ...     "one_compartment_iv", parameters={"V": 5.0, "CL": 1.0}, random_state=0
    ... )
    >>> pk = pk.fit(X, y, groups=groups)
    >>> round(pk.population_parameters_["CL"], 1)
    2.0
    """

    def __init__(
        self,
        model,
        *,
        parameters,
        inputs=None,
        transforms="log-normal",
        covariates=None,
        omega="diagonal",
        fixed=None,
        residual_error="constant",
        log_density=None,
        gradient=None,
        omega_start=None,
        solver="saem",
        sampler="auto",
        n_chains="auto",
        batch_size="auto",
        rho="auto",
        step_size="auto",
        n_burn_in=50,
        annealing=True,
        max_iter=1000,
        tol=0.2,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
    ):
        self.model = model
        self.parameters = parameters
        self.inputs = inputs
        self.transforms = transforms
        self.covariates = covariates
        self.omega = omega
        self.fixed = fixed
        self.residual_error = residual_error
        self.log_density = log_density
        self.gradient = gradient
        self.omega_start = omega_start
        self.solver = solver
        self.sampler = sampler
        self.n_chains = n_chains
        self.batch_size = batch_size
        self.rho = rho
        self.step_size = step_size
        self.n_burn_in = n_burn_in
        self.annealing = annealing
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    # What the loop asks of all estimators and this one decides itself.
    sampling = "fixed"
    n_iter_no_change = 1
    n_draws = None

    average = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # How well it predicts is for the given model function to say.
        tags.regressor_tags.poor_score = True
        return tags

    def _validated(self, X, y, groups, *, reset=True):
        """Return X, y and (labels, numbers of the subjects)."""
        X = blank_columns(self, X)
        X, y = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, order="C", reset=reset
        )
        y = np.asarray(y, dtype=np.float64)
        if groups is None:
            return X, y, (np.arange(len(y)), None)
        return X, y, subjects_of(groups, len(y))

    @with_callbacks
    def fit(self, X, y, groups=None):
        """Learn the parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs and covariates, one row per observation.
        y : array-like of shape (n_samples,)
            Observations.
        groups : array-like of shape (n_samples,) or None, default=None
            Label of the subject of each row, in any order. None needs ``omega=[]``, no
            random effects: plain nonlinear regression.

        Returns
        -------
        NonlinearMixedEffectsRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If the model does not fit the parameters or the data.
        """
        self._check()
        X, y, (labels, numbers) = self._validated(X, y, groups)
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else tuple(names)
        structure, parameter_names = structure_of(self.model, self.parameters)
        layout = layout_of(self, X, names, numbers, structure, parameter_names)
        codes = np.arange(len(y)) if numbers is None else numbers
        rows, order = group_rows(layout, X, y, codes)
        chains = -(-LEAST_CHAINS // len(rows))
        chains = min(chains, max(ENOUGH_CHAINS, MOST_CHAIN_ROWS // len(rows.y)))
        if len(layout.design.random) == 0:
            chains = 1
        model = self._model_of(structure, layout, rows)
        settings = self._with_chains(self._settings(model, len(rows)), chains)

        def new_run(progress):
            state = RunState(model.start, spawn_streams(self.random_state))
            longest = max(self.n_burn_in, self.max_iter // 2)
            annealed = model.annealing.n_passes
            state.trace = Trace(model, rows, self.n_burn_in, annealed, longest)
            state.enter(state.trace.phase)
            return state

        state, interrupted = self._run_starts(
            settings, rows, None, new_run, 1, FitProgress()
        )
        if self.tol:
            self._finish(state)
        self._model, self._layout, self._rows = model, layout, rows
        self._order, self._cache = order, {}
        self._known = None if numbers is None else labels
        self.__dict__.pop("_stream_state", None)
        self.groups_ = labels
        self._chains = state.chains.values if state.chains is not None else None
        for name, value in self._fitted_attributes(settings, state, rows).items():
            setattr(self, name, value)
        if interrupted:
            raise KeyboardInterrupt
        self._warn(state, settings)
        return self

    def _fitted_attributes(self, settings, state, X):
        return {
            "params_": state.params,
            "statistics_": state.returned,
            "history_": state.history,
            "n_iter_": int(np.ceil(state.rows_visited / state.n_rows - 1e-9)),
            "converged_": state.converged,
            **self._described(settings.model, state.params),
            **self._traced(settings.model, state.trace),
        }

    def _warn(self, state, settings):
        trace, model = state.trace, settings.model
        doubt = trace.doubt
        if not (doubt or state.converged or state.stopped):
            doubt = (
                "The Monte Carlo error of an estimate is above tol after max_iter "
                "passes: see monte_carlo_errors_."
            )
        if self.tol > 0 and doubt and not state.converged:
            warnings.warn(
                f"{doubt} Try other start values, a simpler model (fewer random "
                "effects), or a larger max_iter, n_chains or tol.",
                ConvergenceWarning,
                stacklevel=USER_FRAME,
            )
        if told := unusual(model, trace.rows, state):
            warnings.warn(" ".join(told), FitWarning, stacklevel=USER_FRAME)
