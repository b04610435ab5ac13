"""Nonlinear mixed-effects regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from types import SimpleNamespace
from typing import ClassVar, Literal

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sktem.choices import check_choice
from sktem.compartments.models import CompartmentModel
from sktem.compartments.records import Records
from sktem.e_step.random import seed_sequence, spawn_generators
from sktem.estimators.base import (
    LoopEstimator,
    unchanged_by_errors,
    undone_if_refused,
    with_callbacks,
)
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Auto, BatchSize, Seed, SolverLike, StepSize
from sktem.exceptions import FitWarning
from sktem.mixed_effects.fitted import FittedMixedEffects
from sktem.mixed_effects.given_data import (
    GivenData,
    as_records,
    by_blocks,
    checked_inputs,
    given_records,
)
from sktem.mixed_effects.inference.likelihood import LIKELIHOODS, doubtful
from sktem.mixed_effects.m_step import Annealing
from sktem.mixed_effects.problem import Problem
from sktem.mixed_effects.run import MixedEffectsRun, MixedEffectsState
from sktem.mixed_effects.settings import MixedEffectsSettings
from sktem.mixed_effects.stream import SubjectStream, check_same_columns
from sktem.mixed_effects.subject_blocks import predicted_blocks, subject_blocks
from sktem.mixed_effects.summary import summary_of
from sktem.mixed_effects.unusual_fits import inseparable, unusual, unusual_patients
from sktem.rows.checked import check_columns
from sktem.rows.partitions import check_can_remember
from sktem.samplers import MALA, ULA, ComponentWalk, Sampler
from sktem.schedules import Constant
from sktem.sequences.labels import are_of_one_kind, labelled

__all__ = ["NonlinearMixedEffectsRegressor"]

#: Samplers by name, for latents whose prior is Gaussian.
SAMPLERS = {"rwm": ComponentWalk, "mala": MALA, "ula": ULA}
#: Settings of the named samplers.
OPTIONS: dict[type, dict] = {
    ComponentWalk: {},
    MALA: {"step": 0.03, "n_steps": 5, "preconditioner": "prior", "adapt": 0.6},
    ULA: {"step": 0.005, "n_steps": 10, "preconditioner": "prior"},
}
#: Exponent of the steps after the burn-in.
DECAY = 0.7
#: Share of the burn-in in which variances are held up.
ANNEALED_SHARE = 0.6


class DecayAfterBurnIn(Constant):
    """Step 1 while the burn-in lasts, then a decay."""

    def in_phase(self, phase):
        """Return the schedule of the burn-in, or of the phase after it."""
        end = phase.burn_in_end
        if end is None:
            return self
        return lambda k: float(max(k - end, 1) ** -DECAY)


class NonlinearMixedEffectsRegressor(RegressorMixin, LoopEstimator):
    """Nonlinear regression with random effects, by stochastic approximation EM.

    Row j of subject i is ``y_ij = f(psi_i, x_ij) + g(f) eps_ij`` with ``psi_i =
    transform(phi_i)``, ``phi_i ~ N(C_i mu, Omega)`` and Gaussian eps; or its
    log-density is given.

    Parameters
    ----------
    model : str, CompartmentModel, callable or None
        One of these: a model of :mod:`sktem.compartments`, for records of doses; the
        name of a model of the library ``sktem.models.STRUCTURAL_MODELS``, "linear",
        "one_compartment_oral", "one_compartment_oral_lag", "one_compartment_iv",
        "two_compartment_iv", "emax", "logistic_growth" or "exponential_growth"; or a
        function ``f(psi, X)``, vectorised over rows. The function gets the parameters
        of each row by name, ``psi["ka"]`` or ``psi.ka``, and the rows of X (an array,
        or for a data frame an object with columns by name). None with ``log_density``,
        if there is nothing to predict.
    parameters : dict
        Names and start values of the parameters, on the natural scale. Their order of
        magnitude need not be right, because the fit begins at an optimum of the
        regression without random effects. Among optima that fit about equally well,
        such as those with absorption and elimination rates exchanged, it begins at the
        one nearest to these values, unless the log-likelihood of another is larger by
        about 10.
    inputs : list of str or int, or None, default=None
        Columns of X that a model of the library uses. None means the columns of a data
        frame that have the names of its inputs, or the first columns of an array. Other
        columns are not read and may hold anything.
    transforms : str, tuple or dict, default="log-normal"
        How a Gaussian parameter becomes psi: "normal", "log-normal", "logit" or
        "probit", one for all or a dict by name (parameters not named are "log-normal").
        For bounds other than 0 and 1, ``("logit", low, high)`` or ``("probit", low,
        high)``. ``("box", low, high)`` is the parameter itself, which ends at a bound
        if the likelihood has no maximum inside; it is for parameters without random
        effects and covariates.
    covariates : dict or None, default=None
        For each parameter that has covariates, the columns of X that shift it, linearly
        on the Gaussian scale. They may vary within a subject.
    omega : {"diagonal", "full"}, list of str or array-like, default="diagonal"
        Covariance of the random effects. A list names the parameters that have a random
        effect (with a diagonal covariance); an empty list means none. A matrix of zeros
        and ones marks the free entries, in the order of ``parameters`` (for a model of
        the library, in the order of the model); it is 0 on the diagonal for parameters
        without a random effect.
    occasions : dict or None, default=None
        A column of X with the occasions of a subject, such as visits, and the
        parameters that vary between occasions around the subject's value (on the
        Gaussian scale): ``{"OCC": ["CL"]}``. The variance is called "kappa2_CL". The
        effects in a tuple are correlated, ``{"OCC": [("CL", "V")]}``, with the
        covariance "kappa_cov_CL_V".
    fixed : list of str, dict or None, default=None
        Estimates that stay at their start or, with a dict, at given values. Their names
        are those of ``monte_carlo_errors_``: population values such as "CL", effects of
        covariates ("beta_weight(CL)"), variances of random effects ("omega2_CL"; in a
        block with covariances, all entries, such as "cov_CL_V"), and "a" and "b" of the
        residual error, which need a value ("residual_a" and "residual_b" where a
        parameter of the model is called "a" or "b"). A pair is a prior; the fit is then
        the posterior mode: ``{"CL": (2.0, 0.3)}`` is normal around 2 with a standard
        deviation of 0.3 on the Gaussian scale (here of the logarithm), and likewise for
        effects of covariates; ``{"omega2_CL": (0.1, 20)}`` counts as 20 subjects whose
        random effects have the variance 0.1; ``{("CL", "V"): (matrix, 20)}`` is the
        same for a block of the covariance (inverse Wishart); ``{"omega2_CL":
        ("half-normal", 0.5)}`` and ``{"a": ("half-normal", 1.0)}`` are half-normal
        priors with this scale, on the standard deviation and on a parameter of the
        residual error.
    residual_error : str, tuple or dict, default="constant"
        Standard deviation of y: ``a`` ("constant" or "additive"), ``b |f|``
        ("proportional"), ``sqrt(a^2 + b^2 f^2)`` ("combined" or "combined2"), ``a + b
        |f|`` ("linear" or "combined1"), ``b |f|^c`` ("power"), or ``a`` on the
        logarithm of y ("exponential" or "log-additive"). ``(name, "positive")`` is that
        error conditional on y being positive, such as ``("constant", "positive")``;
        bounds (CENS) then have conditional probabilities, which is Beal's method M4.
        For records with several endpoints, a dict by their CMT, such as ``{2:
        "proportional", 3: "constant"}``; the names of the parameters then end in the
        CMT ("b_2"). Instead of an error there may be an outcome: "poisson",
        "negative-binomial" (mean f), "bernoulli" (probability f), ``("ordinal", K)``
        (``logit P(y >= k) = f - c_k``, categories from 0, ``c_1 = 0``, then rising by
        d2, d3, ...) or "event", for hazards of :class:`sktem.compartments.Responses`.
        Not used with ``log_density``.
    log_density : callable or None, default=None
        ``log_density(psi, X, y)`` returns the log-density (or log-probability) of each
        row, in place of the residual error. For a model of :mod:`sktem.compartments` it
        is ``log_density(psi, X, y, f)``, where f are the predictions.
    draw : callable or None, default=None
        ``draw(psi, X, rng)``, or ``draw(psi, X, rng, f)`` as above, draws an
        observation for each row with that density, for :meth:`simulate`, predictive
        checks and NPDE.
    gradient : callable or None, default=None
        ``gradient(psi, X)`` returns a dict with the derivatives of the model with
        respect to the parameters, for the samplers "mala" and "ula"; None means finite
        differences.
    omega_start : float, dict or None, default=None
        Variances of the random effects at the start; None takes them from the residuals
        of the regression without random effects.
    solver : str or Solver, default="saem"
        "saem", "isaem", "vrttem", "fittem", "online", "biased-saem" (SAEM with "ula"),
        or an instance of a class of :mod:`sktem.solvers`. "auto" is "saem": the random
        effects are always drawn.
    sampler : str or Sampler, default="auto"
        "rwm" (random walks by coordinate and by block, and draws of the prior), "mala",
        "ula", or an instance of a class of :mod:`sktem.samplers`. "auto" is what the
        solver implies, else "rwm".
    n_chains : int or "auto", default="auto"
        Parallel chains per subject; "auto" means 240 in total, or fewer where subjects
        have many rows. Not used if ``sampler`` is an instance, which has its own
        number.
    batch_size : int or "auto", default="auto"
        Subjects per iteration, for solvers that do not visit all of them. "auto" is a
        twentieth of the subjects.
    step_size : float, Schedule, callable or "auto", default="auto"
        Steps of the stochastic approximation. "auto" is 1 for ``n_burn_in`` epochs and
        ``k ** -0.7`` after that. Other step sizes ignore the burn-in.
    n_burn_in : int, default=50
        Epochs after which Newton steps on a quadrature of the likelihood are tried; if
        they reach a maximum, they end the fit. Otherwise the steps of the stochastic
        approximation begin to fall after that many epochs, or later, at most after half
        of ``max_iter``, while an estimate drifts. The estimates are averaged from ten
        epochs after that.
    annealing : bool, default=True
        Whether variances fall by at most 3 % per epoch in the first 60 % of the
        burn-in, so that chains and estimates can leave a bad start.
    max_iter : int, default=1000
        Maximum number of passes over the subjects.
    tol : float, default=0.2
        Averaging ends when the Monte Carlo error of each estimate is below ``tol``
        times the standard error that the estimate would have if the random effects were
        observed. Newton steps on the likelihood then gain what EM and its noise have
        left. 0 means never, and no Newton steps.
    random_state : int, RandomState, Generator or None, default=None
        Seed; an integer makes the result the same at every call.
    n_jobs : int or None, default=None
        Threads, for models of the library. The result does not depend on it.
    verbose : int, default=0
        1 prints epochs. For progress bars see :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of epochs between prints.

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
    occasion_variances_ : dict
        Variances between the occasions of a subject, by parameter.
    residual_error_ : dict
        Parameters of the residual error.
    monte_carlo_errors_ : dict
        Monte Carlo error of each estimate before the final Newton steps, which leave
        hardly any of it; 0 where these have replaced the average. Unlike standard
        errors, those of coefficients are on the Gaussian scale.
    trace_ : dict
        Estimates after each epoch.
    phases_ : list of tuple of (str, int)
        The epochs after which "annealing ends", "steps fall" and "average begins".
    params_ : MixedEffectsParams
        All parameters.
    fitted_ : FittedMixedEffects
        The fitted problem, with ``modes()``, ``draws(n_draws)`` and
        ``log_likelihood(method)`` of the subjects; ``fitted_.at(params)`` is the same
        at other parameters.
    statistics_ : ndarray
        Averaged statistics, from which the parameters follow, apart from Newton steps.
    history_ : History
        Record of the run.
    groups_ : ndarray
        Labels of the subjects.
    n_iter_ : int
        Passes over the subjects.
    summary_ : DataFrame
        Estimates, standard errors, relative standard errors and shrinkage. The
        likelihood and information criteria are in ``summary_.attrs`` and printed below
        the table. Needs pandas.
    converged_ : bool
        Whether the final Newton steps have reached a maximum of the likelihood that the
        data determine; without them, whether the Monte Carlo error fell below ``tol``.
    n_features_in_ : int
        Number of columns of X.

    Notes
    -----
    Exceptions in the model function are passed on to the caller. Where it returns NaN
    for some rows, the proposal is rejected for their subjects. Rows with a missing y
    are an error: leave out rows that hold a dose but no observation.

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
        occasions=None,
        fixed=None,
        residual_error="constant",
        log_density=None,
        draw=None,
        gradient=None,
        omega_start=None,
        solver: SolverLike = "saem",
        sampler: Literal["auto", "rwm", "mala", "ula"] | Sampler = "auto",
        n_chains: int | Auto = "auto",
        batch_size: BatchSize = "auto",
        step_size: StepSize = "auto",
        n_burn_in: int = 50,
        annealing: bool = True,
        max_iter: int = 1000,
        tol: float = 0.2,
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        verbose_interval: int = 10,
    ):
        self.model = model
        self.parameters = parameters
        self.inputs = inputs
        self.transforms = transforms
        self.covariates = covariates
        self.omega = omega
        self.occasions = occasions
        self.fixed = fixed
        self.residual_error = residual_error
        self.log_density = log_density
        self.draw = draw
        self.gradient = gradient
        self.omega_start = omega_start
        self.solver = solver
        self.sampler = sampler
        self.n_chains = n_chains
        self.batch_size = batch_size
        self.step_size = step_size
        self.n_burn_in = n_burn_in
        self.annealing = annealing
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    # Settings of the loop that this estimator decides itself.
    _samplers: ClassVar[Mapping[str, type]] = SAMPLERS
    _stream: SubjectStream | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # How well it predicts is for the given model function to say.
        tags.regressor_tags.poor_score = True
        return tags

    # ------------------------------------------------------------- settings and parts

    def _check(self):
        MixedEffectsSettings.of(vars(self)).check()
        self._check_number("n_burn_in", Integral, 0)
        self._check_number("max_iter", Integral, 1)
        self._check_number("tol", Real, 0)
        if self.n_chains != "auto":
            self._check_number("n_chains", Integral, 1)

    def _best_sampler(self, model, solver):
        return "rwm"

    def _with_settings(self, sampler, model):
        if isinstance(sampler, type):
            chains = 1 if self.n_chains == "auto" else self.n_chains
            return sampler(**OPTIONS[sampler], n_chains=chains)
        if self.n_chains != "auto":
            raise ValueError(
                "n_chains is a parameter of the sampler: set it there, not on the "
                "estimator, when sampler is an instance"
            )
        return sampler

    def _settings(self, model, n_rows=None, *, batch_size=None):
        settings = super()._settings(model, n_rows, batch_size=batch_size)
        if isinstance(self.step_size, str):
            settings = replace(settings, step_size=DecayAfterBurnIn())
        return replace(settings, tol=0.0, monitor=False)

    def _settings_of(self, problem):
        """Return settings with as many chains as the problem asks for."""
        settings = self._settings(problem.model, len(problem.rows))
        if self.n_chains != "auto" or isinstance(self.sampler, Sampler):
            return settings
        sampler = settings.sampler
        values = {**sampler.get_params(), "n_chains": problem.n_chains}
        return replace(settings, sampler=type(sampler)(**values))

    # --------------------------------------------------------------------------- data

    def _given(self, X, y=None, groups=None, events=None, *, reset=False) -> GivenData:
        """Return data with observations; ``reset`` notes the columns, else checks."""
        parameters = MixedEffectsSettings.of(vars(self))
        settings = parameters if reset else self.fitted_.problem.settings
        check, model = partial(check_columns, self, reset=reset), settings.inputs.model
        if (indexed := as_records(model, X, y, groups, events)) is not None:
            if not reset:
                return self.fitted_.problem.given_records(*indexed)
            data = given_records(settings, *indexed)
            self.feature_names_in_ = np.array(data.names, dtype=object)
            self.n_features_in_ = len(data.names)
            return data
        if (source := by_blocks(X)) is not None:
            if reset:
                check_can_remember(type(self).__name__, source)
            data = GivenData(None, blocks=subject_blocks(source, y, groups, check))
        else:
            X, y = checked_inputs(
                self, settings.inputs, X, y, y_numeric=True, reset=reset
            )
            groups = None if groups is None else labelled(groups, len(y))
            data = GivenData(X, np.asarray(y, dtype=np.float64), groups)
        names = getattr(self, "feature_names_in_", None)
        return data._replace(names=None if names is None else tuple(names))

    def _given_inputs(self, X, groups, events) -> GivenData:
        """Return data without observations, of records all as such."""
        groups = None if isinstance(X, Records) else groups
        problem, inputs = self.fitted_.problem, self.fitted_.problem.settings.inputs
        if (indexed := as_records(inputs.model, X, None, groups, events)) is not None:
            return problem.given_records(*indexed, every=True)
        return GivenData(checked_inputs(self, inputs, X))

    def _in_memory(self, X, reason):
        """Raise an error if X would be read by blocks."""
        if by_blocks(X) is not None:
            raise TypeError(f"{reason}: X must be an array or a data frame in memory")

    # --------------------------------------------------------------------------- fits

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y=None, groups=None, events=None):
        """Learn the parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or Records
            Inputs and covariates, one row per observation. For a compartment model,
            either the records of :func:`sktem.compartments.read_nonmem`, which include
            observations and subjects, or a data frame with doses in the column AMT and
            other columns of these records, where y is NaN in the rows of doses. Data
            that :func:`sktem.rows.as_rows` reads in blocks, such as Parquet files and
            Dask data frames, may be larger than memory. All their columns must be
            numbers; labels of subjects may be text in tables and data frames. Each
            partition of a Dask collection must have all rows of its subjects; in other
            sources the rows of a subject must be contiguous.
        y : array-like of shape (n_samples,), str, int or None, default=None
            Observations, or the name of their column if X is read in blocks; None with
            records.
        groups : array-like of shape (n_samples,), str, int or None, default=None
            Label of the subject of each row, in any order, or the name of the column of
            labels if X is read in blocks. None requires ``omega=[]``, that is no random
            effects: plain nonlinear regression.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects for a compartment model, as accepted by
            :class:`sktem.compartments.Doses`. X then has the times of the observations
            in "TIME", or in the first column of an array.

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
        data = self._given(X, y, groups, events, reset=True)
        problem = Problem.of(MixedEffectsSettings.of(vars(self)), data)
        settings = self._settings_of(problem)
        full = self.solver in ("auto", "biased-saem", "saem")
        share = 1.0 if full else settings.batch_size / len(problem.rows)
        annealed = ANNEALED_SHARE * self.n_burn_in if self.annealing else 0.0
        problem.model.set_params(annealing=Annealing(annealed, per_step=share))
        hindrance = getattr(problem.model.structure, "hindrance", "")
        for message in (inseparable(problem), hindrance):
            if message:
                warn_user(message, FitWarning)

        def new_run(progress):
            longest = max(self.n_burn_in, self.max_iter // 2)
            state = MixedEffectsState(
                problem.model.start,
                spawn_generators(self.random_state),
                run=MixedEffectsRun(problem, self.n_burn_in, longest, self.tol),
            )
            state.enter(state.run.phase)
            return state

        def finish(state):
            if self.tol:
                state.run.finish(state)
            self._stream = None

        state = self._fit(settings, problem.rows, None, new_run, finish=finish)
        self._warn(state, settings)
        return self

    def _after_epoch(self, state):
        return state.run.after_epoch(state)

    def _fitted_attributes(self, settings, state, X):
        run, path, params = state.run, state.run.path, state.params
        errors = run.monte_carlo_errors()
        if errors is None:
            errors = np.full(len(path.vector), np.nan)
        chains = None if state.chains is None else state.chains.values
        if chains is not None and len(chains) < len(run.problem.rows):
            chains = None  # those of the other subjects are with their partitions
        fitted = FittedMixedEffects(run.problem, params, chains, self.random_state)
        return {
            **fitted.attributes(),
            "statistics_": state.returned,
            "history_": state.history,
            "n_iter_": int(np.ceil(state.rows_visited / state.n_rows - 1e-9)),
            "converged_": state.converged,
            "monte_carlo_errors_": dict(
                zip(path.vector.names, errors.tolist(), strict=True)
            ),
            "trace_": path.by_name(),
            "phases_": run.phases(),
        }

    def _warn(self, state, settings):
        run = state.run
        doubt = run.doubt
        if not (doubt or state.converged or state.stopped):
            doubt = (
                "The Monte Carlo error of an estimate is above tol after max_iter "
                "passes: see monte_carlo_errors_."
            )
        if self.tol > 0 and doubt and not state.converged:
            warn_user(
                f"{doubt} Try other start values, a simpler model (fewer random "
                "effects), or a larger max_iter, n_chains or tol.",
                ConvergenceWarning,
            )
        if findings := unusual(run.problem, state):
            warn_user(" ".join(findings), FitWarning)

    @undone_if_refused
    @with_callbacks
    def partial_fit(self, X, y, groups=None):
        """Learn from the rows of new subjects, with constant memory.

        Subjects must arrive in random order; a ``FitWarning`` says if they do not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs and covariates.
        y : array-like of shape (n_samples,)
            Observations.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects; those of each call are new. None requires ``omega=[]``, that is no
            random effects.

        Returns
        -------
        NonlinearMixedEffectsRegressor
            The estimator. Methods on fitted data refer to the subjects of this call.
        """
        self._check()
        self._in_memory(X, "partial_fit learns whole subjects from each call")
        if self.occasions is not None:
            raise ValueError("occasions need fit instead of partial_fit")
        stream, fresh = self._stream, not hasattr(self, "params_")
        model = None if stream is None else stream.problem.model
        data = self._given(X, y, groups, reset=fresh)
        problem = Problem.of(MixedEffectsSettings.of(vars(self)), data, model)
        if not fresh:
            check_same_columns(problem.layout, self.fitted_.problem.layout)
        if stream is None:
            fitted, s = (getattr(self, n, None) for n in ("fitted_", "statistics_"))
            stream = SubjectStream(problem, fitted, s)
        settings = self._stream_settings(stream.rule.defaults)
        stream = stream.on(problem)
        return self._partial_fit(stream, settings, problem.rows, what="subjects")

    # --------------------------------------------------------------------- predictions

    def predict(self, X, groups=None, events=None):
        """Predict the mean of new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or Records
            Inputs and covariates, or records, all of which are predicted. If it is read
            in blocks, it may have further columns with names.
        groups : array-like of shape (n_samples,), str, int or None, default=None
            Subjects, or the name of their column if X is read in blocks. Rows of
            subjects seen in ``fit`` are predicted with the mode of their random
            effects, all others with random effects of zero.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,), iterator or dask.array.Array
            Predictions of the model function; an iterator over blocks of them if X is
            read in blocks, and a Dask array for a Dask collection.

        Raises
        ------
        ValueError
            If the model function was None.
        """
        check_is_fitted(self)
        if (source := by_blocks(X)) is not None:
            check = partial(check_columns, self, reset=False)
            return predicted_blocks(self.fitted_, source, groups, check)
        data = self._given_inputs(X, groups, events)
        if data.records is not None:
            return self.fitted_.predict_records(data)[data.rows]
        problem = self.fitted_.problem
        if groups is not None and problem.grouped:
            if not are_of_one_kind(groups, problem.labels):
                warn_user(
                    "groups has text where those of the fit are numbers, or the other "
                    "way round: all subjects count as new ones.",
                    UserWarning,
                )
        return self.fitted_.predict(data.X, groups)

    def score(self, X, y=None, groups=None, sample_weight=None, events=None):
        """Return the coefficient of determination of the predictions.

        For records with observations of several CMT, which have different scales, it is
        the mean of their coefficients. Events and ordinal scores are left out, because
        their predictions are not means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or Records
            Inputs and covariates; or records, of which only observations that are not
            bounds count.
        y : array-like of shape (n_samples,) or None, default=None
            Observations; None with records.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects, as in :meth:`predict`.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in :meth:`fit`.

        Returns
        -------
        float
            R^2.

        Raises
        ------
        ValueError
            If none of the predictions are means.
        """
        self._in_memory(X, "score compares predictions with y")
        prediction = self.predict(X, groups=groups, events=events)
        kinds, used = np.ones(len(prediction)), np.ones(len(prediction), dtype=bool)
        y = None if y is None else np.asarray(y)
        settings = self.fitted_.problem.settings
        model = settings.inputs.model
        if (indexed := as_records(model, X, y, groups, events)) is not None:
            records, rows = indexed
            y, kinds = records["DV"][rows], np.maximum(records["CMT"][rows], 1)
            used = (records.observed & (records["CENS"] == 0))[rows]
        check_consistent_length(y, prediction, sample_weight)
        if (error := self.fitted_.model.error) is not None:
            used &= error.on(SimpleNamespace(kinds=kinds)).has_mean
        if not used.any():
            raise ValueError(
                "R^2 needs predictions that are means: there are none of "
                f"residual_error={settings.residual_error!r}"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight)
        scores = []
        for kind in np.unique(kinds[used]):
            of_kind = used & (kinds == kind)
            weight = None if weights is None else weights[of_kind]
            scores.append(
                r2_score(y[of_kind], prediction[of_kind], sample_weight=weight)
            )
        return float(np.mean(scores))

    def simulate(self, X, groups=None, random_state=None, events=None):
        """Draw observations of new subjects.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or Records
            Inputs and covariates; or records, where those that are not observations get
            NaN.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects: rows with the same label share their random effects. None means
            that each row is a subject of its own.
        random_state : int, RandomState, Generator or None, default=None
            Seed.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Observations.

        Raises
        ------
        ValueError
            If there is a ``log_density`` but no ``draw``.
        """
        check_is_fitted(self)
        self._in_memory(X, "new observations are drawn all at once")
        rng = np.random.default_rng(seed_sequence(random_state))
        data = self._given_inputs(X, groups, events)
        if data.records is not None:
            return self.fitted_.simulate_records(data, rng)[data.rows]
        return self.fitted_.simulate(data.X, groups, rng)

    # ------------------------------------------------------------------------ subjects

    def individual_parameters(
        self,
        X=None,
        y=None,
        groups=None,
        events=None,
        *,
        method="mode",
        n_draws=1000,
        by_occasion=False,
    ):
        """Return the parameters of subjects, given their observations.

        Without a fit, the population has the parameters that were passed: the values of
        ``parameters``, the variances ``omega_start``, and the residual error and
        covariate effects in ``fixed``. A published model can thus be applied to a new
        patient.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Records or None, default=None
            Inputs and covariates of new subjects; None, for X and y, means those of the
            fit.
        y : array-like of shape (n_samples,) or None, default=None
            Their observations.
        groups : array-like of shape (n_samples,) or None, default=None
            New subjects, as in :meth:`fit`.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in :meth:`fit`.
        method : {"mode", "mean", "draws"}, default="mode"
            Mode of the conditional distribution (of the Gaussian parameters), its mean,
            or draws from it.
        n_draws : int, default=1000
            Number of draws, or of importance draws for the mean.
        by_occasion : bool, default=False
            Whether to return the parameters of each occasion of a subject, in the order
            of their rows, instead of those of the subject.

        Returns
        -------
        dict of ndarray
            Values on the natural scale by name, of shape (n_subjects,), or (n_draws,
            n_subjects) with "draws". Subjects are in the order of ``groups_`` or, if
            new, of their sorted labels; those of records are in their own order. The
            effects of covariates that vary within a subject are left out.

        Raises
        ------
        ValueError
            If the method is unknown, or the data do not agree with those of the fit;
            without a fit, if a population parameter is missing.
        """
        check_choice("method", method, ("draws", "mean", "mode"))
        if X is not None and not hasattr(self, "fitted_"):
            fitted = self._as_given(X, y, groups, events)
        else:
            check_is_fitted(self)
            fitted = self._fitted_on(X, y, groups, events, "individual_parameters")
        if fitted is not getattr(self, "fitted_", None):
            if findings := unusual_patients(fitted):
                warn_user(" ".join(findings), FitWarning)
        return fitted.individual_parameters(method, n_draws, by_occasion)

    def _as_given(self, X, y=None, groups=None, events=None):
        """Return the model with the parameters that were passed, on new data."""
        self._check()
        self._in_memory(X, "a population without a fit")
        data = clone(self)._given(X, y, groups, events, reset=True)
        settings = MixedEffectsSettings.of(vars(self))
        problem = Problem.of(settings, data, as_given=True)
        return FittedMixedEffects(problem, problem.model.start, None, self.random_state)

    @property
    def summary_(self):
        """Estimates with standard errors, relative ones in percent, and shrinkage.

        A pandas data frame, in whose ``attrs`` are "minus_two_log_likelihood", "aic",
        "bic", "condition_number" (of the correlations of the estimates),
        "epsilon_shrinkage" (one less the standard deviation of individual weighted
        residuals), "n_subjects" and "n_observations". It is computed once, which takes
        as long as ``log_likelihood`` and ``standard_errors`` together.
        """
        check_is_fitted(self)
        errors, log_likelihood = self.standard_errors(), self.log_likelihood()
        return summary_of(self.fitted_, errors, log_likelihood, self.aic(), self.bic())

    def shrinkage(self):
        """Return how far the modes of random effects are shrunk towards zero.

        Returns
        -------
        dict of float
            ``1 - var(modes) / variance`` by parameter, and by the name of the variance
            ("kappa2_CL") for effects of occasions. It is 0 where the observations
            determine the random effects, and 1 where they carry no information about
            them.
        """
        check_is_fitted(self)
        shares = self.fitted_.shrinkage()
        return {name.removeprefix("omega2_"): share for name, share in shares.items()}

    # -------------------------------------------------- likelihoods and standard errors

    def log_likelihood(
        self,
        X=None,
        y=None,
        groups=None,
        events=None,
        *,
        method="auto",
        n_draws=2000,
        n_nodes="auto",
        return_error=False,
    ):
        """Return the log-likelihood of data, with the random effects integrated out.

        Priors on the parameters are not part of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Records or None, default=None
            Inputs and covariates; None, for X and y, means the data of the fit.
        y : array-like of shape (n_samples,) or None, default=None
            Observations.
        groups : array-like of shape (n_samples,) or None, default=None
            Subjects, all of them new ones, as in :meth:`fit`.
        events : Doses, data frame, dict or None, default=None
            Doses of the subjects, as in :meth:`fit`.
        method : {"auto", "quadrature", "importance", "linearized"}, default="auto"
            "quadrature" is adaptive Gauss-Hermite quadrature, "importance" is
            importance sampling from logistic distributions; both are centred at the
            conditional modes with full covariances. "linearized" uses the Gaussian
            distribution of the model with its function linearised at the modes. "auto"
            is quadrature where at most 2,000 nodes per subject determine the result,
            else the one of the first two with the smaller error.
        n_draws : int, default=2000
            Importance draws per subject; with the method "auto", at most a million in
            total if there are many subjects.
        n_nodes : int or "auto", default="auto"
            Quadrature nodes per random effect. "auto" increases the number until the
            result no longer changes.
        return_error : bool, default=False
            Whether to return the numerical error as well: the Monte Carlo standard
            error or, for quadrature with ``n_nodes="auto"``, the change made by the
            last increase of the number of nodes; 0 otherwise.

        Returns
        -------
        float or tuple of float
            The log-likelihood, and its error with ``return_error``.

        Raises
        ------
        ValueError
            If the method is unknown or is "linearized" with ``log_density``, or if the
            data do not agree with those of the fit.
        """
        check_is_fitted(self)
        check_choice("method", method, LIKELIHOODS)
        fitted = self._fitted_on(X, y, groups, events, "log_likelihood")
        total, error = fitted.log_likelihood(method, n_draws, n_nodes)
        if return_error:
            return total, error
        if message := doubtful(error):
            warn_user(message, FitWarning)
        return total

    def _fitted_on(self, X, y, groups, events, method):
        """Return the fit on other data, or on its own where there are none."""
        if X is None and y is None and groups is None and events is None:
            return self.fitted_
        model = self.fitted_.problem.settings.inputs.model
        holds_y = isinstance(model, CompartmentModel) and events is None
        if X is None or (y is None and not holds_y):
            raise ValueError(
                f"{method} needs X, y and groups as fit does, or none of them for "
                "the data of the fit"
            )
        data = self._given(X, y, groups, events)
        return self.fitted_.on(self.fitted_.problem.on(data))

    def aic(self, method="auto"):
        """Return Akaike's information criterion of the fitted data.

        Parameters
        ----------
        method : str, default="auto"
            As for :meth:`log_likelihood`.

        Returns
        -------
        float
            The lower, the better.
        """
        return -2 * self.log_likelihood(method=method) + 2 * len(self.fitted_.vector)

    def bic(self, method="auto"):
        """Return the Bayesian information criterion, with subjects as sample size.

        Parameters
        ----------
        method : str, default="auto"
            As for :meth:`log_likelihood`.

        Returns
        -------
        float
            The lower, the better.
        """
        penalty = np.log(len(self.fitted_.rows)) * len(self.fitted_.vector)
        return -2 * self.log_likelihood(method=method) + float(penalty)

    def standard_errors(self, method="louis", *, n_draws="auto", return_error=False):
        """Return standard errors of all parameters, from the observed information.

        With priors, the information is that of the posterior. Parameters at their
        bounds, and covariances of random effects with a correlation of one, have no
        standard errors (NaN); those of the other parameters are conditional on them.

        Parameters
        ----------
        method : {"louis", "linearized"}, default="louis"
            "louis" averages gradients and Hessians of the complete-data log-density
            over the latents given the observations (Louis 1982): complete less missing
            information. "linearized" takes finite differences of the likelihood with
            the model function linearised at the conditional modes.
        n_draws : int or "auto", default="auto"
            Importance draws per subject. "auto" averages over quadrature nodes, whose
            number is increased as long as the result changes. If that takes too many,
            "auto" is 20,000 draws in total, between 64 and 1000 per subject.
        return_error : bool, default=False
            Whether to return the errors of the standard errors as well (only with
            "louis"). They come from batches of the draws, or are the change made by the
            last increase of the number of nodes.

        Returns
        -------
        dict of float, or tuple of two dicts
            Standard errors by the names of ``monte_carlo_errors_``. Those of population
            values are on the natural scale, unlike Monte Carlo errors, which are on the
            Gaussian one. They are NaN where the information is singular, and where the
            error of a standard error is more than a fifth of it; a warning says which.

        Raises
        ------
        ValueError
            If the method is unknown or is "linearized" with ``log_density``, or if an
            error is asked for with a method other than "louis".
        """
        check_is_fitted(self)
        check_choice("method", method, ("linearized", "louis"))
        if return_error and method != "louis":
            raise ValueError(f'return_error needs method="louis", got {method!r}')
        errors, noise, unusual = self.fitted_.standard_errors(method, n_draws)
        if unusual:
            warn_user(unusual, FitWarning)
        return (dict(errors), dict(noise)) if return_error else dict(errors)
