"""A user's own latent-variable model with every solver and sampler."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_number
from sktem.e_step.random import spawn_generators
from sktem.estimators.base import (
    LARGEST_BATCH,
    LoopEstimator,
    unchanged_by_errors,
    undone_if_refused,
    with_callbacks,
)
from sktem.estimators.by_blocks import (
    allows_nan,
    answer,
    checked_rows,
    each_chunk,
    total_over,
    weighted_sum,
)
from sktem.estimators.feasibility import warn_of_left_set
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.latents import diagnostics, latent_draws, warn_of_mixing
from sktem.estimators.louis import covariance_of, louis_information
from sktem.estimators.own_rows import validated_rows
from sktem.estimators.parameters import (
    Average,
    BatchSize,
    SamplerLike,
    Sampling,
    Seed,
    SolverLike,
    StepSize,
)
from sktem.estimators.stream import StreamDefaults, StreamRunner
from sktem.estimators.weights import positive_rows
from sktem.exceptions import FitWarning
from sktem.loop.iterates import IterateRule, check_average
from sktem.loop.state import RunState
from sktem.loop.stream import BatchGrowth, Stream, StreamState
from sktem.models.accepted import accepted_kinds, given_rows
from sktem.models.base import LatentModel
from sktem.models.entries import ParamsVector
from sktem.rows.held import carrier_of, count_rows
from sktem.rows.sources import found_rows, is_stream
from sktem.schedules import BurnInThenDecay

__all__ = ["StochasticEM"]

#: Rows that a model gets for its first parameters, where they are read by blocks.
MOST_ROWS_OF_START = 1 << 17

#: The default settings of streams.
STREAM = StreamDefaults(LARGEST_BATCH)


def _model_has(name):
    def check(self):
        return callable(getattr(self.model, name, None))

    return check


class ModelStream(StreamRunner):
    """A model that learns from chunks.

    Parameters
    ----------
    params, s : object or None, default=None
        Parameters and statistics of the fit that it continues.
    mass : float, default=0.0
        Weight of the rows of this fit.
    """

    model: LatentModel
    #: Rows whose means are compared with those of others.
    together = 100

    def __init__(self, params=None, s=None, mass=0.0):
        super().__init__()
        self.continued = params, s, mass

    def begin(self, settings, X, sample_weight, task):
        """Start from the first chunk, or from the parameters of a fit."""
        settings.merger_of(self.model)  # a wrong setting is an error before the start
        generators = spawn_generators(settings.seed)
        params, s, mass = self.continued
        if params is None:
            params = self.model.initial_params(X, generators.initialisation)
        average = IterateRule(check_average(settings.average))
        self.state = StreamState(params, s, generators, average, mass)

    def step(self, settings, X, sample_weight, task):
        """Learn from a chunk."""
        left_out = self.state.events["nan"]
        self.count_means(X, sample_weight, self.together)
        self.learn(settings.merger_of(self.model), X, sample_weight, task)
        if self.state.events["nan"] > left_out:
            warn_user(
                f"maximize of {type(self.model).__name__} returned NaN: what it "
                "was made from has been left out of the stream.",
                FitWarning,
            )

    def published(self, settings):
        """Return the fitted attributes that count every row seen."""
        params, s = settings.merger_of(self.model).published(self.state)
        return {"params_": params, "statistics_": s}


class StochasticEM(LoopEstimator):
    """Fit any latent-variable model by a stochastic EM algorithm.

    Parameters
    ----------
    model : LatentModel
        The complete-data model: see :class:`sktem.models.LatentModel` for what it must
        offer and :class:`sktem.models.RandomInterceptModel` for an example.
    solver : str or Solver, default="auto"
        "em", "squarem" and "daarem" (EM with extrapolated steps), "mcem", "saem",
        "online", "iem", "isaem", "vrttem", "fittem", "biased-saem" (SAEM with the
        unadjusted Langevin sampler), or an instance of a class of :mod:`sktem.solvers`.
        "auto" is "em" if the sampler is "exact" or can be, else "saem";
        ``history_.solver`` says which was used.
    sampler : str or Sampler, default="auto"
        How latents are drawn: "exact" (conditional expectations), "mc" (exact draws),
        "rwm", "hmc", "mala", "ula", or an instance of a class of :mod:`sktem.samplers`.
        "auto" is what the name of the solver implies ("em", "iem": exact, "mcem": mc,
        "biased-saem": ula), else the first for which the model has the methods: exact
        expectations (not with "saem"), exact draws, "hmc", "rwm". Markov samplers given
        by name adapt the length of their moves. Chains begin with some draws at the
        starting parameters, which do not count as passes.
    batch_size : int or "auto", default="auto"
        Rows per iteration. "auto" is a twentieth of the rows, at most 1024 (a million
        on Dask); on a stream batches grow from 50 rows to 1024. 1 is the papers'
        setting. Not used by solvers that visit all rows.
    sampling : {"fixed", "shuffle", "inclusion"}, default="fixed"
        "fixed": ``batch_size`` rows drawn uniformly at each iteration. "shuffle": the
        rows in a random order, reshuffled for each pass. "inclusion": each row
        independently with probability ``batch_size / n``.
    step_size : float, Schedule, callable or "auto", default="auto"
        Step gamma of the stochastic approximation. "auto": 1 with exact expectations,
        ``k ** -0.5`` with draws, ``(k + 2) ** -0.6`` for "online" and on a stream, and
        for "saem" with Markov chains 1 for half of the passes, then ``k ** -0.6``.
    average : bool, int, "tail" or "random", default=False
        Which iterate is returned: False is the last, an integer the average of the
        statistics from that epoch on (True means 1; on a stream it counts batches),
        "tail" a running average over about the last quarter of the iterates, "random"
        is iterate k with a probability proportional to its step.
    max_iter : int, default=100
        Maximum number of passes over the data. The initial pass, anchor passes and the
        second index set of "fittem" count.
    tol : float, default=1e-4
        The run stops when the objective has less than this left to gain, per row. With
        exact expectations of all rows, the gain is extrapolated from the last changes.
        Otherwise the mean over the last third of the epochs is compared with that over
        the third before. The change must be within its noise or, continued for as many
        steps again, below ``tol``, and so must the rest of an exponential approach
        fitted to all epochs; with Markov chains this has to hold for
        ``n_iter_no_change`` epochs in a row. If noise hides the answer, the run uses
        all its passes, and a warning says that convergence is not known. Without a
        likelihood, the relative root of the mean field is compared with ``tol``.
        Without ``average``, online EM with exact expectations, and runs with exact
        draws from a model that also has exact expectations, continue with passes of EM,
        which remove the noise of the last steps. Before a run with exact expectations
        counts as converged, up to 60 extrapolated passes over some of the rows, which
        do not count, begin at an M-step from draws, if the model has
        ``draw_posterior``. If they lead to more, as near a saddle point where
        components are nearly equal, the run continues from there. 0 means never.
    n_iter_no_change : int, default=3
        See ``tol``; also the least number of epochs in a third.
    random_state : int, RandomState, Generator or None, default=None
        Seed; an integer makes the result the same at every call.
    warm_start : bool, default=False
        Start from the parameters of the previous fit.
    verbose : int, default=0
        1 prints epochs, 2 also the change of the objective. For progress bars see
        :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of epochs between prints.
    memory : str or None, default=None
        Folder for what a solver remembers of each row, kept as a memory map in a file
        that is deleted after the fit; None keeps it in memory. For Dask collections see
        :ref:`rows-dask`.

    Attributes
    ----------
    params_ : object
        Parameters of the model.
    statistics_ : ndarray
        Averaged statistics, from which the parameters follow.
    history_ : History
        Record of the run.
    n_iter_ : int
        Passes over the data, rounded up.
    converged_ : bool
        Whether the run stopped by itself.
    n_features_in_ : int
        Number of features.

    References
    ----------
    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEM
    >>> from sktem.models import RandomInterceptModel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 1)) + rng.normal(size=(1000, 5))
    >>> em = StochasticEM(RandomInterceptModel(), solver="fittem", random_state=0)
    >>> float(em.fit(X).params_.variance.round(1))
    1.0
    """

    def __init__(
        self,
        model: LatentModel,
        *,
        solver: SolverLike = "auto",
        sampler: SamplerLike = "auto",
        batch_size: BatchSize = "auto",
        sampling: Sampling = "fixed",
        step_size: StepSize = "auto",
        average: Average = False,
        max_iter: int = 100,
        tol: float = 1e-4,
        n_iter_no_change: int = 3,
        random_state: Seed = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        memory: str | None = None,
    ):
        self.model = model
        self.solver = solver
        self.sampler = sampler
        self.batch_size = batch_size
        self.sampling = sampling
        self.step_size = step_size
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.memory = memory

    _stream: ModelStream | None = None
    _fitted_mass = 0.0

    def _validate(self, X, sample_weight, *, reset):
        if not isinstance(self.model, LatentModel):
            raise TypeError(
                f"model must be an instance of LatentModel, got {self.model!r}"
            )
        X = given_rows(X, self.model)
        if reset and (source := found_rows(X)) is not None:
            return checked_rows(self, source, sample_weight, allow_nan=allows_nan(self))
        X = validated_rows(self, X, reset=reset)
        return positive_rows(X, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        kinds = accepted_kinds(self.model)
        tags.input_tags.allow_nan = "nan" in kinds
        tags.input_tags.sparse = "sparse" in kinds
        tags.input_tags.three_d_array = "3d" in kinds
        return tags

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            The data, or anything that :func:`sktem.rows.as_rows` accepts, which is then
            read in blocks. If there are many rows, the model gets a sample of them for
            ``initial_params``.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two equal rows.

        Returns
        -------
        StochasticEM
            The fitted estimator.

        Raises
        ------
        TypeError
            If the model lacks a method that the sampler needs.
        """
        X, sample_weight = self._validate(X, sample_weight, reset=True)
        batch_size = self._batch_size_of(X)
        settings = self._settings(self.model, batch_size=batch_size)
        before = getattr(self, "params_", None) if self.warm_start else None

        def start():
            generators = spawn_generators(self.random_state)
            if before is not None:
                return before, generators
            rows = _rows_of_start(X, generators)
            return self.model.initial_params(
                rows, generators.initialisation
            ), generators

        starts = []

        def new_run(progress):
            starts.append(start())
            return RunState(*starts[0])

        def first_params():
            # A fit that goes on from a checkpoint has not made its start again.
            return (starts[0] if starts else start())[0]

        def finish(state):
            self._stream = None
            mass = count_rows(X) if sample_weight is None else sample_weight.sum()
            self._fitted_mass = float(mass)

        state = self._fit(settings, X, sample_weight, new_run, finish=finish)
        self._warn(state, settings)
        warn_of_left_set(settings, X, sample_weight, first_params, state.params)
        return self

    def _fitted_attributes(self, settings, state, X):
        return {
            "params_": state.params,
            "statistics_": state.returned,
            "history_": state.history,
            "n_iter_": int(np.ceil(state.rows_visited / state.n_rows - 1e-9)),
            "converged_": state.converged,
            "n_features_in_": self.n_features_in_,
        }

    @undone_if_refused
    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a chunk of a stream, with constant memory.

        Steps count rows, not calls: see :class:`sktem.loop.stream.Stream` for what each
        solver means on a stream.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), iterator or rows
            Rows, an iterator of such chunks, or anything that
            :func:`sktem.rows.as_rows` accepts, which is read once to its end.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        StochasticEM
            The estimator.
        """
        fresh = lambda: not hasattr(self, "params_")  # noqa: E731
        chunks = each_chunk(self, given_rows(X, self.model), sample_weight, fresh)
        settings = self._stream_settings(STREAM)
        for rows, weights in chunks:
            stream = self._stream
            if stream is None:
                params, s = (getattr(self, n, None) for n in ("params_", "statistics_"))
                stream = ModelStream(params, s, self._fitted_mass)
            stream.model = self.model
            self._partial_fit(stream, settings, rows, weights)
        return self

    def _settings(self, model, n_rows=None, *, batch_size=None):
        settings = super()._settings(model, n_rows, batch_size=batch_size)
        full = settings.solver.n_index_sets == 0 and self.solver != "mcem"
        if full and settings.sampler.markov and isinstance(self.step_size, str):
            # Chains forget the first parameters only if the statistics do.
            step_size = BurnInThenDecay(n_burn_in=self.max_iter // 2, alpha=0.6)
            settings = replace(settings, step_size=step_size)
        return replace(settings, stopping="gap", leaves_saddles=True)

    def _merger(self, defaults, model):
        """Return the stream of a model, whose batches grow unless they are given."""
        merger = super()._merger(defaults, model)
        if self.batch_size != "auto" or merger.settings.solver.remembers_rows:
            return merger
        growth = BatchGrowth()
        return Stream(replace(merger.settings, batch_size=growth.first), growth)

    @available_if(_model_has("log_likelihood"))
    def score_samples(self, X, *, out=None):
        """Return the log-likelihood of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows
            Rows.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Log-likelihoods; an iterator over blocks of them if X is read in blocks and
            ``out`` is not given.
        """
        check_is_fitted(self)
        values = partial(_row_likelihoods, model=self.model, params=self.params_)
        return answer(self, given_rows(X, self.model), values, out)

    @available_if(_model_has("log_likelihood"))
    def score(self, X, y=None, sample_weight=None):
        """Return the mean log-likelihood per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the mean.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        X = given_rows(X, self.model)
        if not is_stream(X) and found_rows(X) is None:
            return float(np.average(self.score_samples(X), weights=sample_weight))
        check_is_fitted(self)
        terms = partial(_likelihood, model=self.model, params=self.params_)
        total, mass = total_over(self, X, sample_weight, terms)
        return total / mass

    # ------------------------------------------------------------------------- latents

    def draw_latents(self, X, n_draws=100, *, random_state=None):
        """Draw the latents of rows from their posterior at the fitted parameters.

        If the model has ``draw_posterior``, the draws come from it. Otherwise they come
        from four new Markov chains per row, with the sampler of the fit; the first
        third of each chain is discarded. A warning says if the chains have not mixed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in memory.
        n_draws : int, default=100
            Draws for each row.
        random_state : int, RandomState, Generator or None, default=None
            Seed.

        Returns
        -------
        ndarray of shape (n_samples, n_draws, ...)
            Draws.
        """
        X, _ = self._rows_of_latents(X)
        draws = self._latents(X, n_draws, random_state)
        warn_of_mixing(draws)
        return draws.joined(n_draws)

    def posterior_mean(self, X, n_draws=100, *, random_state=None):
        """Return the posterior means of the latents of rows.

        They come from ``posterior`` if the model has it (its points average to the
        mean), else from draws, see :meth:`draw_latents`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in memory.
        n_draws : int, default=100
            Draws for each row, where they are needed.
        random_state : int, RandomState, Generator or None, default=None
            Seed, where draws are needed.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Means.
        """
        X, _ = self._rows_of_latents(X)
        if callable(getattr(self.model, "posterior", None)):
            Z = self.model.posterior(X, self.params_)
            return Z if self.model.averages_draws else Z.mean(axis=1)
        draws = self._latents(X, n_draws, random_state)
        warn_of_mixing(draws)
        return draws.values.mean(axis=(1, 2))

    @available_if(_model_has("log_joint"))
    def diagnose_chains(self, X, n_draws=400, *, random_state=None):
        """Run Markov chains at the fitted parameters and return how well they mix.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in memory; a subset is enough.
        n_draws : int, default=400
            Draws for each row, over four chains together.
        random_state : int, RandomState, Generator or None, default=None
            Seed.

        Returns
        -------
        ChainDiagnostics
            A named tuple: ``r_hat`` and ``effective_sample_size`` of each latent, the
            share of rows that ``never_moved``, and the ``acceptance_rate``. If the
            posterior of the model is known, they are those of a random walk.
        """
        X, _ = self._rows_of_latents(X)
        return diagnostics(self._latents(X, n_draws, random_state, chains=True))

    @available_if(_model_has("log_joint"))
    def standard_errors(
        self,
        X,
        sample_weight=None,
        *,
        n_draws=200,
        random_state=None,
        return_covariance=False,
    ):
        """Return standard errors of the parameters by Louis' formula.

        The observed information is the complete-data information less the missing
        information. Both are computed from draws of the latents and finite differences
        of ``log_joint`` in the parameters. By default the parameters are all
        real-valued entries of ``params_``. If they are constrained (weights that sum to
        one, covariances), the model needs two methods: ``to_vector(params)`` returns
        the free parameters as a vector, and ``from_vector(vector, params)`` returns
        parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of the fit, in memory.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Their weights; a row of weight 2 counts as two equal rows.
        n_draws : int, default=200
            Draws of the latents of each row.
        random_state : int, RandomState, Generator or None, default=None
            Seed.
        return_covariance : bool, default=False
            Whether to return the covariance matrix of the entries as well.

        Returns
        -------
        errors : object like ``params_``, or ndarray
            Standard errors in the places of the parameters, or a vector if the model
            has ``to_vector``. NaN, with a warning, where the information is not
            positive definite.
        covariance : ndarray of shape (p, p)
            Only with ``return_covariance``.

        References
        ----------
        T. A. Louis, Finding the observed information matrix when using the EM
        algorithm, Journal of the Royal Statistical Society B, 1982.
        """
        check_number("n_draws", n_draws, Integral, 2)
        X, weights = self._rows_of_latents(X, sample_weight)
        draws = self._latents(X, n_draws, random_state)
        warn_of_mixing(draws)
        vector = ParamsVector.of(self.model, self.params_)
        weights = np.ones(count_rows(X)) if weights is None else weights
        information = louis_information(
            self.model, X, draws.joined(n_draws), vector, weights
        )
        covariance = covariance_of(information)
        errors = vector.like_params(np.sqrt(np.diag(covariance)))
        return (errors, covariance) if return_covariance else errors

    def _rows_of_latents(self, X, sample_weight=None):
        """Return checked rows, which have to be in memory, and their weights."""
        check_is_fitted(self)
        X = given_rows(X, self.model)
        if is_stream(X) or found_rows(X) is not None:
            raise TypeError(
                "the latents of rows that are read by blocks would not fit in memory: "
                "pass some of the rows as an array"
            )
        return self._validate(X, sample_weight, reset=False)

    def _latents(self, X, n_draws, random_state, chains=False):
        check_number("n_draws", n_draws, Integral, 1)
        sampler = self._parts(self.model)[0]
        arguments = (self.model, sampler, X, self.params_, n_draws, random_state)
        return latent_draws(*arguments, chains=chains)


def _row_likelihoods(X, model, params):
    """Return the log-likelihood of each row."""
    return model.log_likelihood(X, params)


def _likelihood(X, *, weights, model, params):
    """Return log-likelihood and number of rows, summed."""
    total = weighted_sum(model.log_likelihood(X, params), weights)
    return total, float(count_rows(X) if weights is None else weights.sum())


def _rows_of_start(X, generators):
    """Return the rows from which a model makes its first parameters."""
    if carrier_of(X).in_memory:
        return X
    rows = np.arange(len(X))
    if len(X) > MOST_ROWS_OF_START:
        rows = generators.initialisation.choice(
            len(X), MOST_ROWS_OF_START, replace=False
        )
        rows.sort()
    return X.take(rows)
