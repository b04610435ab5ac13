"""Hidden Markov model with scikit-learn's face."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import DensityMixin, clone
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice, check_number
from sktem.e_step.random import (
    drawing_generator,
    seed_sequence,
    spawn_generators,
)
from sktem.estimators.base import (
    LoopEstimator,
    unchanged_by_errors,
    undone_if_refused,
    with_callbacks,
)
from sktem.estimators.fit_warnings import warn_of_run
from sktem.estimators.parameters import (
    Average,
    BatchSize,
    NumberOfStates,
    SamplerLike,
    Sampling,
    Seed,
    SolverLike,
    StepSize,
)
from sktem.estimators.routing import warn_of_routing
from sktem.hidden_markov.blocks import (
    SeriesColumns,
    answers_of,
    n_covariates_of,
    source_of,
)
from sktem.hidden_markov.covariates import (
    checked_covariates,
    columns_of_covariates,
    future_covariates_of,
    future_exog_of,
    without_covariates,
)
from sktem.hidden_markov.durations import warn_of_cut
from sktem.hidden_markov.fit_warnings import (
    warn_of_covariates,
    warn_of_search,
    warn_of_states,
)
from sktem.hidden_markov.fitted import FittedSequences, StateDurations
from sktem.hidden_markov.given import (
    TableReader,
    check_enough,
    check_ignored,
    check_warm,
    kind_of_fit,
    known_states,
)
from sktem.hidden_markov.given_start import probabilities_of
from sktem.hidden_markov.information import standard_errors
from sktem.hidden_markov.long_sequence import LongSequence
from sktem.hidden_markov.rows import ObservedSequences
from sktem.hidden_markov.settings import SequenceSettings
from sktem.hidden_markov.start import SEARCH
from sktem.hidden_markov.state_search import (
    check_n_states,
    criterion,
    found_states,
)
from sktem.hidden_markov.stream import SequenceStream
from sktem.loop.state import RunState
from sktem.rows.checked import check_columns
from sktem.sequences.given import checked_sequence_weights, given_rows
from sktem.validation import validate_data

__all__ = ["HiddenMarkovModel"]

#: Solvers of one long sequence that is read by blocks.
WHOLE = ("em", "squarem", "daarem")
#: Requests of scikit-learn's metadata routing.
ROUTED = {"groups": True, "covariates": True}


class HiddenMarkovModel(DensityMixin, LoopEstimator):
    """Hidden Markov model with any emission, fitted by (stochastic) EM.

    Row t of a sequence has a hidden state z_t. The first state has the probabilities
    ``start_``, state i is followed by state j with probability ``transitions_[i, j]``,
    and the distribution of a row given its state is the ``emission``. Rows, or values
    in them, that are NaN are missing.

    Parameters
    ----------
    n_states : int, "auto", "bic" or "icl", default=2
        Number of states. The name of a criterion ("auto" is "bic") searches for the
        number with its lowest value: models with one more state each are fitted until
        it has not fallen for two of them.
    emission : str or Emission, default="gaussian"
        Distribution of a row given its state: a name, as in
        :class:`sktem.StochasticEMMixture` ("auto" treats columns of integers as counts,
        as labels if they have only two values, or as measurements if they are far from
        zero, and booleans as labels), or an instance of a class of
        :mod:`sktem.emissions`, such as ``Gaussian("diag")``.
        Columns of labels of a data frame or a file are categorical whatever the name.
    start : {"free", "stationary"}, default="free"
        Whether first states have their own probabilities, or the stationary ones of the
        transitions. The latter suits sequences that are parts of a process that began
        long before.
    start_init : array-like of shape (n_states,) or None, default=None
        Starting values of the probabilities of first states. Those that are 0 stay 0.
    transitions_init : array-like of shape (n_states, n_states) or None, default=None
        Starting values of the transition probabilities. Those that are 0 stay 0: a
        triangular matrix makes a left-to-right model, a band matrix a model whose
        states have an order.
    emission_init : dict or None, default=None
        Starting values of the parameters of the emission, by the names of the fields of
        ``emission_params_``, such as ``{"means": ..., "covariances": ...}``. If all
        parameters are given, the fit begins there; otherwise the others come from the
        start that is best after short runs. Probabilities of labels that are 0 stay 0.
    fixed : sequence of str, default=()
        What is not learned: any of "start", "transitions", "durations" and "emission".
        Also "means" and "covariances" for a Gaussian emission, and "weights" and
        "components" for a mixture.
    tied_transitions : array-like of int of shape (n_states,) or None, default=None
        States with the same number share the transition probabilities out of them.
    tied_emissions : array-like of int of shape (n_states,) or None, default=None
        States with the same number, from 0, have the same emission.
    start_prior : float or array-like of shape (n_states,), default=1.0
        Concentration of a Dirichlet prior on ``start_``: this value less 1 is added to
        the counts of first states. 1 is no prior.
    transitions_prior : float or array-like of shape (n_states, n_states), default=1.0
        The same for the rows of ``transitions_``.
    durations : str, Durations or None, default=None
        Distributions of state durations, in rows (a hidden semi-Markov model):
        "negative_binomial", "poisson", "table" or an instance of
        :class:`sktem.Durations`. ``transitions_`` are then those to other states. None
        means geometric durations, which follow from ``transitions_``.
    n_init : int, default=1
        Number of searches for a start; the run with the best lower bound is kept.
    solver : str or Solver, default="em"
        "em" (Baum and Welch), "squarem" and "daarem" (EM with extrapolated steps, which
        take fewer passes where EM is slow), "online", "iem", "isaem", "vrttem",
        "fittem", "saem", "mcem", or an instance of a class of :mod:`sktem.solvers`.
        Batches are of sequences.
    sampler : str or Sampler, default="auto"
        "exact" (smoothed probabilities) or "mc" (states drawn backward after a forward
        filter); "auto" is what the solver implies. The number of draws per visit is 10;
        ``ExactDraws(n_draws=...)`` changes it.
    batch_size : int or "auto", default="auto"
        Sequences per iteration, for solvers that do not visit all of them. "auto" is a
        twentieth of the sequences, at most 1024.
    sampling : {"shuffle", "fixed", "inclusion"}, default="shuffle"
        How batches are drawn, see :class:`sktem.StochasticEM`.
    step_size : float, Schedule, callable or "auto", default="auto"
        Steps of the stochastic approximation.
    average : bool, int, "tail" or "random", default=False
        Which iterate is returned, see :class:`sktem.StochasticEM`.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    tol : float, default=1e-6
        The run stops when the log-likelihood has less than this left to gain per row,
        as extrapolated from its last changes. 0 means never.
    n_iter_no_change : int, default=3
        Number of epochs without progress before a run with noise counts as converged.
    n_jobs : int or None, default=None
        Threads of the E-step, over sequences. The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seed; an integer makes the result the same at every call.
    warm_start : bool, default=False
        Start from the parameters of the previous fit.
    verbose : int, default=0
        1 prints epochs, 2 also the change of the objective.
    verbose_interval : int, default=10
        Number of epochs between prints.

    Attributes
    ----------
    fitted_ : FittedSequences
        The fitted model as an object: its parameters, and methods that use them.
    n_states_ : int
        Number of states.
    state_search_ : list of StateSearchStep
        The numbers of states that were tried, with their criteria; only after a search.
    start_ : ndarray of shape (n_states,)
        Probabilities of first states.
    transitions_ : ndarray of shape (n_states, n_states)
        Transition probabilities; row i holds those out of state i. With covariates, the
        probabilities with all covariates at their means.
    transition_coefficients_ : ndarray of shape (n_states, n_states, n_covariates)
        Slopes of the log-odds of going from state i to state j, against staying in
        state i or, where it cannot be kept, against the first state that can follow it.
    covariates_mean_ : ndarray of shape (n_covariates,)
        Means of the transition covariates.
    durations_ : ndarray of shape (n_states, longest)
        Probabilities of durations of 1, 2, ... rows; only with ``durations``.
    emission_params_ : NamedTuple
        Parameters of the emission, such as ``emission_params_.means``.
    emission_ : Emission
        The emission.
    categories_ : dict of int to ndarray
        Labels of each categorical column, in the order of their codes.
    converged_ : bool
        Whether the run stopped by itself.
    n_iter_ : int
        Passes over the data, rounded up.
    lower_bound_ : float
        Log-likelihood per row, less the penalty of priors, as last recorded.
    lower_bounds_ : list of float
        The same for each epoch of the best run.
    history_ : History
        The record of the best run.
    n_sequences_seen_ : int
        Number of sequences seen by ``fit`` or on the stream.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all names in X are strings.

    See Also
    --------
    StochasticEMGaussianMixture : States that do not depend on each other.

    Notes
    -----
    Recursions are scaled rather than computed with logarithms. They fall back to
    logarithms for sequences in which a probability that could matter is too small for a
    float.

    References
    ----------
    L. E. Baum, T. Petrie, G. Soules and N. Weiss, A maximization technique occurring in
    the statistical analysis of probabilistic functions of Markov chains, Annals of
    Mathematical Statistics 41, 1970.

    O. Cappe, E. Moulines and T. Ryden, Inference in Hidden Markov Models, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import HiddenMarkovModel
    >>> rng = np.random.default_rng(0)
    >>> states = np.repeat([0, 1, 0, 1], 50)
    >>> X = rng.normal(size=(200, 1)) + 6.0 * states[:, None]
    >>> hmm = HiddenMarkovModel(2, random_state=0).fit(X)
    >>> np.sort(hmm.emission_params_.means.ravel()).round()
    array([0., 6.])
    >>> path = hmm.predict(X)
    >>> int((path[1:] != path[:-1]).sum())
    3

    Several sequences are distinguished by a label for each row, or by their lengths:

    >>> hmm = hmm.fit(X, lengths=[120, 80])
    >>> hmm.score_samples(X, groups=np.repeat(["a", "b"], [120, 80])).shape
    (2,)
    """

    # Labels and covariates go through pipelines and searches without requests.
    __metadata_request__fit: ClassVar[dict] = ROUTED
    __metadata_request__partial_fit: ClassVar[dict] = ROUTED
    __metadata_request__predict: ClassVar[dict] = ROUTED
    __metadata_request__predict_proba: ClassVar[dict] = ROUTED
    __metadata_request__score: ClassVar[dict] = ROUTED

    def __init__(
        self,
        n_states: NumberOfStates = 2,
        *,
        emission="gaussian",
        start="free",
        start_init=None,
        transitions_init=None,
        emission_init=None,
        fixed=(),
        tied_transitions=None,
        tied_emissions=None,
        start_prior=1.0,
        transitions_prior=1.0,
        durations=None,
        n_init: int = 1,
        solver: SolverLike = "em",
        sampler: SamplerLike = "auto",
        batch_size: BatchSize = "auto",
        sampling: Sampling = "shuffle",
        step_size: StepSize = "auto",
        average: Average = False,
        max_iter: int = 1000,
        tol: float = 1e-6,
        n_iter_no_change: int = 3,
        n_jobs: int | None = None,
        random_state: Seed = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ):
        self.n_states = n_states
        self.emission = emission
        self.start = start
        self.start_init = start_init
        self.transitions_init = transitions_init
        self.emission_init = emission_init
        self.fixed = fixed
        self.tied_transitions = tied_transitions
        self.tied_emissions = tied_emissions
        self.start_prior = start_prior
        self.transitions_prior = transitions_prior
        self.durations = durations
        self.n_init = n_init
        self.solver = solver
        self.sampler = sampler
        self.batch_size = batch_size
        self.sampling = sampling
        self.step_size = step_size
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    _stream: SequenceStream | None = None
    _reader: TableReader

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: NaN is not observed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ------------------------------------------------------------------ learning

    @unchanged_by_errors
    @with_callbacks
    def fit(
        self, X, y=None, *, groups=None, lengths=None, covariates=None, states=None,
        sample_weight=None,
    ):  # fmt: skip
        """Learn the parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows in temporal order; NaN means missing. A list has one array per
            sequence. Data that :func:`sktem.rows.as_rows` reads in blocks, such as
            Parquet files and Dask data frames, may be larger than memory. ``groups``
            and ``covariates`` then name columns of X, and each partition of a Dask
            collection must have all rows of its sequences. Files without ``groups`` are
            one sequence.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), str or int, default=None
            Label of the sequence of each row, or the name of the column of labels in a
            data frame. Rows of a sequence have to be contiguous. Without ``groups`` and
            ``lengths``, all rows are one sequence.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of the transition to each row, of shape (n_samples,) or
            (n_samples, n_covariates), or the names of their columns in a data frame.
            The log-odds of a transition are then linear in the covariates of the row
            that it leads to; those of the first row of a sequence are not used.
        states : array-like of int of shape (n_samples,) or None, default=None
            Known states, -1 where the state is unknown.
        sample_weight : array-like of shape (n_samples,) or (n_sequences,), default=None
            Weights of rows, equal within a sequence, or weights of sequences. A
            sequence of weight 2 counts as two equal sequences.

        Returns
        -------
        HiddenMarkovModel
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, the rows of a group are not contiguous, or a
            column has values that the emission cannot produce.
        """
        self._check_parameters()
        source, covariate_names = source_of(X), columns_of_covariates(covariates)
        if source is None:
            X, covariates = without_covariates(X, covariates)
        warm, before = self.warm_start and hasattr(self, "emission_params_"), {}
        if warm:
            counts = len(self.start_), self.n_features_in_, self._n_covariates
            before = kind_of_fit(self._reader, hasattr(self, "durations_"), *counts)
        rows = {"states": states, "covariates": covariates}
        data = {"X": X, "groups": groups, "lengths": lengths, **rows,
                 "sample_weight": sample_weight}  # fmt: skip
        if source is None:
            X = self._sequences(X, groups, lengths, **rows, reset=True)
        else:
            X = self._blocks(source, groups, lengths, covariates, states, reset=True)
        names = getattr(self, "feature_names_in_", None)
        self._reader.check_observed(X, self.n_features_in_)
        check_ignored(y, X)
        if groups is None and lengths is None and len(X) == 1:
            warn_of_routing("the rows of a fold count as a single sequence")
        X, weights = checked_sequence_weights(X, sample_weight)
        check_enough(self.n_states, X.n_rows)
        if warm:
            counts = self._n_states, self.n_features_in_, n_covariates_of(X)
            now = kind_of_fit(self._reader, self.durations is not None, *counts)
            check_warm(before, now)
        begun = self.fitted_ if warm else None
        if isinstance(self.n_states, str) and not warm:
            begun = self._search(data, X, weights)
        model_settings = self._model_settings()
        given, model = model_settings.given, model_settings.model(X, weights, begun)
        settings = self._settings(model, batch_size=self._batch_size_of(X))
        seed = seed_sequence(self.random_state)
        searched = []

        def new_run(progress):
            run_seed = np.random.SeedSequence(seed.entropy, spawn_key=(progress.start,))
            generators = spawn_generators(run_seed)
            if begun is None:
                # All runs share the second round of starts, in the search of the first.
                search = SEARCH._replace(most_further=0) if progress.start else SEARCH
                searched.append(given.best(model, X, generators.initialisation, search))
            params = searched[-1].params if begun is None else begun.params
            model.set_params(start=params)
            return RunState(params, generators)

        def finish(state):
            self._stream = None

        is_given = begun is not None or given.is_complete(model.chain.is_stationary)
        options = {"n_init": 1 if is_given else self.n_init, "finish": finish}
        state = self._fit(settings, X, weights, new_run, **options)
        warn_of_run(state, settings)
        if len(searched) == 1:
            warn_of_search(searched[0])
        warn_of_states(model, state.params, state, X, names)
        if self.durations is not None:
            warn_of_cut(state.params.chain, X.row_counts.max(initial=0))
        if n_covariates_of(X):
            warn_of_covariates(model, state, covariate_names)
        return self

    @undone_if_refused
    @with_callbacks
    def partial_fit(
        self, X, y=None, *, groups=None, lengths=None, covariates=None,
        continues=False, sample_weight=None,
    ):  # fmt: skip
        """Learn from sequences of a stream, or from the next piece of an endless one.

        A start is made from the first call, and again until 100 rows per state have
        been seen. After that each sequence is seen once: the step of the k-th batch of
        ``batch_size`` sequences is ``step_size(k)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        continues : bool, default=False
            Whether the first sequence continues the last one of the previous call. The
            probabilities of its states given all rows so far, and of how long they have
            lasted, are carried over, so that cutting a sequence does not change
            filtered probabilities.
        sample_weight : array-like of shape (n_samples,) or (n_sequences,), default=None
            Weights, see :meth:`fit`.

        Returns
        -------
        HiddenMarkovModel
            The estimator, ready to predict.
        """
        self._check_parameters()
        first = not hasattr(self, "emission_params_") and self._stream is None
        if first and isinstance(self.n_states, str):
            raise ValueError(
                "partial_fit needs a number of states, which fit looks for; got "
                f"n_states={self.n_states!r}"
            )
        if source_of(X) is not None:
            raise TypeError("partial_fit takes rows in memory; fit reads X by blocks")
        X, covariates = without_covariates(X, covariates)
        X = self._sequences(X, groups, lengths, covariates, reset=first)
        check_ignored(y, X)
        X, weights = checked_sequence_weights(X, sample_weight)
        if continues and (order := self._reader.emission.order):
            raise ValueError(
                "continues=True needs rows that do not depend on rows before: those of "
                f"the piece before are not kept, and order is {order}"
            )
        stream = self._stream
        if stream is None and hasattr(self, "emission_params_"):
            stream = SequenceStream(self.fitted_, self.n_sequences_seen_)
        stream = stream or SequenceStream()
        stream.prepare(self._model_settings(), self._reader, continues)
        settings = self._stream_settings(stream.rule.defaults)
        return self._partial_fit(stream, settings, X, weights, "sequences")

    def _check_parameters(self):
        check_n_states(self.get_params(deep=False))
        self._check_number("n_init", Integral, 1)
        self._check_number("tol", Real, 0)

    def _settings(self, model, n_rows=None, *, batch_size=None):
        settings = super()._settings(model, n_rows, batch_size=batch_size)
        return replace(settings, stopping="gap")

    def _model_settings(self) -> SequenceSettings:
        """Return the settings of a model of the columns that have been learned."""
        # get_params takes as long as the answer about a row.
        return SequenceSettings.of(vars(self), self._n_states, self._reader.emission)

    def _search(self, data, X, weights):
        """Look for the number of states; return the best fit."""

        def fit(n_states, least_tol):
            options = {"n_states": n_states, "tol": max(self.tol, least_tol)}
            trial = clone(self).set_params(**options, verbose=0, warm_start=False)
            return trial.fit(**data).fitted_

        best, self.state_search_ = found_states(fit, self.n_states, X, weights)
        self.n_states_ = best.model.chain.n_states
        return best

    def _fitted_attributes(self, settings, state, X):
        bounds = [float(value) for value in state.history.objective]
        return {
            **FittedSequences(settings.model, state.params).attributes(),
            "categories_": self._reader.categories,
            "n_iter_": int(np.ceil(state.rows_visited / max(state.n_rows, 1) - 1e-9)),
            "converged_": state.converged,
            "lower_bound_": bounds[-1] if bounds else -np.inf,
            "lower_bounds_": bounds,
            "history_": state.history,
            "n_sequences_seen_": len(X),
        }

    @property
    def _n_states(self):
        """Number of states, the selected one after a search."""
        return self.n_states_ if isinstance(self.n_states, str) else self.n_states

    @property
    def _n_covariates(self):
        """Number of covariates of the fit."""
        return len(getattr(self, "covariates_mean_", ()))

    @property
    def fitted_(self) -> FittedSequences:
        """The fitted model as an object: its parameters, and methods that use them."""
        check_is_fitted(self, "emission_params_")
        return self._model_settings().fitted(
            self.start_,
            self.transitions_,
            self.emission_params_,
            None if self.durations is None else self.durations_,
            self.transition_coefficients_,
            self.covariates_mean_,
        )

    def _asked(self, X, groups, lengths, covariates=None, in_memory=False, states=None):
        """Return the fitted model and checked sequences."""
        fitted = self.fitted_
        if (source := source_of(X)) is not None:
            if in_memory:
                raise TypeError(
                    "X would be read by blocks, which fit, predict, predict_proba, "
                    "scores and criteria do: here, pass rows in memory"
                )
            return fitted, self._blocks(source, groups, lengths, covariates)
        X, covariates = without_covariates(X, covariates)
        return fitted, self._sequences(X, groups, lengths, covariates, states)

    def _sequences(
        self, X, groups, lengths, covariates=None, states=None, reset=False
    ) -> ObservedSequences:
        """Return checked sequences in memory, and learn their columns on a reset."""
        data = given_rows(X, groups, lengths)
        if reset:
            self._reader = TableReader.of(data.X, self.emission, self.emission_init)
        rows = self._reader.rows(data.X, partial(validate_data, self, reset=reset))
        offsets = data.offsets_of(len(rows))
        count = None if reset else self._n_covariates
        states = known_states(states, len(rows), self.n_states)
        covariates = checked_covariates(covariates, len(rows), count)
        return self._reader.sequences(rows, offsets, states, covariates)

    def _blocks(self, source, groups, lengths, covariates, states=None, reset=False):
        """Return sequences that are read by blocks."""
        if lengths is not None or states is not None:
            raise ValueError(
                "X is read by blocks, so that sequences are those of groups, a column "
                "of X, and states is not taken"
            )
        columns = SeriesColumns.of(source, groups, covariates)
        if reset:
            rows, start = (columns.source, columns.features), self.emission_init
            self._reader = TableReader.of_blocks(*rows, self.emission, start)
        else:
            columns.check_covariates(self._n_covariates)
        check_columns(self, columns, reset=reset)
        X = columns.sequences(self._reader)
        if isinstance(X, LongSequence) and (
            self.durations is not None or self.solver not in WHOLE
        ):
            raise ValueError(
                "X is one sequence that is read by blocks, which needs durations=None "
                f"and a solver of {WHOLE}: the others visit batches of sequences"
            )
        return X

    # ------------------------------------------------------------------- answers

    def predict(
        self, X, *, groups=None, lengths=None, covariates=None, method="viterbi"
    ):
        """Return the state of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        method : {"viterbi", "marginal"}, default="viterbi"
            "viterbi" is the most probable sequence of states, "marginal" the most
            probable state of each row.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            States; an iterator over blocks of them if X is read in blocks.
        """
        check_choice("method", method, ("viterbi", "marginal"))
        fitted, X = self._asked(X, groups, lengths, covariates)

        if method == "viterbi":
            return answers_of(X, lambda rows: fitted.paths(rows)[0], fitted.long_paths)
        return answers_of(
            X,
            lambda rows: fitted.smooth(rows).argmax(axis=1),
            lambda rows: (p.argmax(axis=1) for p in fitted.long_smooth(rows)),
        )

    def decode(self, X, *, groups=None, lengths=None, covariates=None):
        """Return the most probable sequence of states and its joint log-density.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        scores : ndarray of shape (n_sequences,)
            Joint log-densities of the rows and the states.
        states : ndarray of int of shape (n_samples,)
            States.
        """
        fitted, X = self._asked(X, groups, lengths, covariates, in_memory=True)
        states, scores = fitted.paths(X)
        return scores, states

    def predict_proba(self, X, *, groups=None, lengths=None, covariates=None):
        """Return the probability of each state given all rows of its sequence.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
            Probabilities; an iterator over blocks of them if X is read in blocks.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        return answers_of(X, fitted.smooth, fitted.long_smooth)

    def smooth(self, X, *, groups=None, lengths=None, covariates=None):
        """Return :meth:`predict_proba`, under its usual name for sequences.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
            Probabilities.
        """
        return self.predict_proba(
            X, groups=groups, lengths=lengths, covariates=covariates
        )

    def filter(self, X, *, groups=None, lengths=None, covariates=None, previous=None):
        """Return the probability of each state given the rows so far.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        previous : array-like of shape (n_states,) or None, default=None
            Filtered probabilities of the row before the first one, if the first
            sequence continues another one.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
            Probabilities.
        """
        fitted, X = self._asked(X, groups, lengths, covariates, in_memory=True)
        if previous is None:
            return fitted.filter(X)
        if self.durations is not None:
            raise ValueError(
                "previous needs durations=None: it does not say how long the state of "
                "the row before has lasted"
            )
        previous = probabilities_of("previous", previous, (self.n_states_,))
        return fitted.filter(X.continued(previous))[1:]

    def forecast(
        self, X, steps=1, *, n_draws=100, groups=None, lengths=None, covariates=None,
        future_covariates=None, future_exog=None,
    ):  # fmt: skip
        """Forecast the states and rows that follow each sequence.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        steps : int, default=1
            Number of rows to forecast.
        n_draws : int, default=100
            Number of draws of the future rows; their mean and quantiles are the
            forecast.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        future_covariates : array-like or None, default=None
            Covariates of the future rows, of shape (n_sequences, steps, n_covariates),
            or (steps, n_covariates) for all sequences.
        future_exog : array-like or None, default=None
            Values in the future rows of the columns ``exog`` of a
            :class:`~sktem.emissions.Regression` or
            :class:`~sktem.emissions.Autoregression`, in the order of ``exog``. The
            shape is as for ``future_covariates``.

        Returns
        -------
        Forecast
            ``probabilities`` of shape (n_sequences, steps, n_states), and ``draws`` of
            shape (n_draws, n_sequences, steps, n_features), with codes in place of
            text.
        """
        check_number("steps", steps, Integral, 1)
        check_number("n_draws", n_draws, Integral, 0)
        fitted, X = self._asked(X, groups, lengths, covariates, in_memory=True)
        future = future_covariates_of(
            future_covariates, len(X), steps, self._n_covariates
        )
        exog = future_exog_of(future_exog, len(X), steps, self.emission_)
        rng = drawing_generator(self.random_state)
        forecast = fitted.forecast(X, steps, n_draws, rng, future, exog)
        return forecast._replace(draws=self._reader.with_numbers(forecast.draws))

    def impute(self, X, *, method="mean", groups=None, lengths=None, covariates=None):
        """Return the rows with missing values replaced by means, modes or draws.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows; NaN means missing.
        method : {"mean", "mode", "draw"}, default="mean"
            "mean" is the conditional mean given all rows of the sequence, "mode" that
            of the most probable state, "draw" a draw of the states and then of the
            values.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows without NaN.
        """
        check_choice("method", method, ("mean", "mode", "draw"))
        original = given_rows(without_covariates(X, covariates)[0], groups, lengths).X
        fitted, X = self._asked(X, groups, lengths, covariates, in_memory=True)
        return self._as_given(
            fitted.impute(X, method, drawing_generator(self.random_state)), original
        )

    def _as_given(self, rows, like=None):
        """Return rows as a table with labels, if it was one that has been learned."""
        names = getattr(self, "feature_names_in_", None)
        return self._reader.decoded(rows, names, like)

    def score_samples(self, X, *, groups=None, lengths=None, covariates=None):
        """Return the log-likelihood of each sequence.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_sequences,)
            Log-likelihoods.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        return fitted.model.log_likelihood_of_sequences(X, fitted.params)

    def score(
        self,
        X,
        y=None,
        *,
        groups=None,
        lengths=None,
        covariates=None,
        sample_weight=None,
    ):
        """Return the log-likelihood per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        sample_weight : array-like of shape (n_samples,) or (n_sequences,), default=None
            Weights, see :meth:`fit`.

        Returns
        -------
        float
            Log-likelihood of all sequences, divided by the number of rows.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        check_ignored(y, X)
        X, weights = checked_sequence_weights(X, sample_weight)
        values = fitted.model.log_likelihood_of_sequences(X, fitted.params)
        weights = np.ones(len(X)) if weights is None else weights
        return float(weights @ values / (weights @ X.row_counts))

    def bic(self, X, *, groups=None, lengths=None, covariates=None):
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        float
            The criterion, with the number of rows as sample size.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        return criterion(fitted, X, "bic")

    def aic(self, X, *, groups=None, lengths=None, covariates=None):
        """Return Akaike's information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        float
            The criterion.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        return criterion(fitted, X, "aic")

    def icl(self, X, *, groups=None, lengths=None, covariates=None):
        """Return the integrated completed likelihood criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        float
            BIC with the joint likelihood of the rows and the most probable states.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        return criterion(fitted, X, "icl")

    def standard_errors(
        self, X, *, groups=None, lengths=None, covariates=None, states=None,
        sample_weight=None,
    ):  # fmt: skip
        """Return standard errors from the observed information, at the optimum of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows, those of the fit.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Number of rows of each sequence.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        states : array-like of int of shape (n_samples,) or None, default=None
            Known states, as in :meth:`fit`.
        sample_weight : array-like of shape (n_samples,) or (n_sequences,), default=None
            Weights, see :meth:`fit`.

        Returns
        -------
        StandardErrors
            ``start``, ``transitions``, and ``emission``, a dict by the names of the
            fields of ``emission_params_`` (with blocks of columns, one for each block);
            also ``coefficients``, ``durations`` and ``mean_durations``. NaN for what is
            fixed or at a bound, such as probabilities of 0, and for what the data do
            not determine, which a warning names. Priors are not taken into account.

        Raises
        ------
        ValueError
            If the parameters of the emission are not identified: factor analysers and
            mixtures.
        """
        fitted, X = self._asked(X, groups, lengths, covariates, True, states)
        X, weights = checked_sequence_weights(X, sample_weight)
        return standard_errors(fitted, X, weights)

    def sample(self, n_samples=1, *, lengths=None, covariates=None):
        """Draw rows and their states from the fitted model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows of one sequence.
        lengths : array-like of int or None, default=None
            Number of rows of each of several sequences, in place of ``n_samples``.
        covariates : array-like of shape (n_samples, n_covariates), default=None
            Covariates of the transitions to all these rows, as in :meth:`fit`.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        states : ndarray of int of shape (n_samples,)
            States.
        """
        fitted = self.fitted_
        lengths = np.asarray([n_samples] if lengths is None else lengths)
        if lengths.dtype.kind not in "iu" or not lengths.size or lengths.min() < 1:
            raise ValueError(
                "sequences must have at least one row, a whole number of them; got "
                f"lengths {lengths.tolist()}"
            )
        lengths = lengths.astype(np.int64)
        covariates = checked_covariates(covariates, lengths.sum(), self._n_covariates)
        rows, states = fitted.sample(
            lengths, drawing_generator(self.random_state), covariates
        )
        return self._as_given(rows), states

    def state_durations(self, longest=100) -> StateDurations:
        """Return how long the states last.

        Parameters
        ----------
        longest : int, default=100
            The longest duration, in rows, for which a probability is returned.

        Returns
        -------
        StateDurations
            ``mean`` and ``standard_deviation`` in rows, and ``probabilities`` of
            lasting 1 to ``longest`` rows, (n_states, longest).
        """
        return self.fitted_.durations(longest)
