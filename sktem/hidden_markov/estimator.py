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
    """Hidden Markov model of sequences, with any emission, by (stochastic) EM.

    Row t of a sequence has a hidden state z_t. The first state has the probabilities
    ``start_``, the state i is followed by the state j with the probability
    ``transitions_[i, j]``, and the row has the distribution of its state, the
    ``emission``. Rows, or values of rows, that are NaN are not observed.

    Parameters
    ----------
    n_states : int, "auto", "bic" or "icl", default=2
        Number of states. A criterion by name ("auto" is "bic") looks for the number
        with the lowest: models with one more state each are fitted until it has not
        fallen for two of them.
    emission : str or Emission, default="gaussian"
        Distribution of a row given its state: a name, as of
        :class:`sktem.StochasticEMMixture` ("auto" takes columns of integers for
        counts, or labels where they are two), or an instance of a class of
        :mod:`sktem.emissions`, such as ``Gaussian("diag")``. Columns of labels of a
        data frame or a file are categorical whatever the name.
    start : {"free", "stationary"}, default="free"
        Whether first states have probabilities of their own, or the stationary ones of
        the transitions, as where sequences are parts of what began long before.
    start_init : array-like of shape (n_states,) or None, default=None
        Probabilities of first states to begin with. Those that are 0 stay 0.
    transitions_init : array-like of shape (n_states, n_states) or None, default=None
        Probabilities of transitions to begin with. Those that are 0 stay 0: a triangle
        makes a left-to-right model, a band one whose states have an order.
    emission_init : dict or None, default=None
        Parameters of the emission to begin with, by the names of the fields of
        ``emission_params_``, such as ``{"means": ..., "covariances": ...}``. If all
        parameters are given, the fit begins there; otherwise the others come from the
        start that has got furthest after short runs. Probabilities of labels that are 0
        stay 0.
    fixed : sequence of str, default=()
        Those of "start", "transitions", "durations" and "emission" that are not
        learned; also of "means" and "covariances" of a Gaussian emission, and of
        "weights" and "components" of a mixture.
    tied_transitions : array-like of int of shape (n_states,) or None, default=None
        States with the same number share the probabilities with which they are left.
    tied_emissions : array-like of int of shape (n_states,) or None, default=None
        States with the same number, from 0, have the same emission.
    start_prior : float or array-like of shape (n_states,), default=1.0
        Concentration of a Dirichlet prior of ``start_``: as many first states, less
        one, are added to the counts. 1 is no prior.
    transitions_prior : float or array-like of shape (n_states, n_states), default=1.0
        The same for the rows of ``transitions_``.
    durations : str, Durations or None, default=None
        Distributions of the numbers of rows that states last (a hidden semi-Markov
        model): "negative_binomial", "poisson", "table" or an instance of
        :class:`sktem.Durations`. ``transitions_`` are then those to other states. None
        is geometric, which follows from ``transitions_``.
    n_init : int, default=1
        Searches of a start; the run with the best lower bound is kept.
    solver : str or Solver, default="em"
        "em" (Baum and Welch), "squarem" and "daarem" (EM with extrapolated steps, which
        take fewer passes where EM is slow), "online", "iem", "isaem", "vrttem",
        "fittem", "saem", "mcem", or an instance of a class of :mod:`sktem.solvers`.
        Batches are of sequences.
    sampler : str or Sampler, default="auto"
        "exact" (smoothed probabilities) or "mc" (states drawn backward after a forward
        filter); "auto" is what the solver implies. ``ExactDraws(n_draws=...)`` takes
        another number of draws than 10 a visit.
    batch_size : int or "auto", default="auto"
        Sequences per iteration, for solvers that do not visit all. "auto" is a
        twentieth of them, at most 1024.
    sampling : {"shuffle", "fixed", "inclusion"}, default="shuffle"
        How batches are drawn, see :class:`sktem.StochasticEM`.
    step_size : float, Schedule, callable or "auto", default="auto"
        Steps of the stochastic approximation.
    average : bool, int, "tail" or "random", default=False
        Which iterate is returned, see :class:`sktem.StochasticEM`.
    max_iter : int, default=1000
        Passes over the data, at most.
    tol : float, default=1e-6
        The run stops when the log-likelihood has less than this left to gain, per row,
        extrapolated from its last changes. 0 means never.
    n_iter_no_change : int, default=3
        Epochs without progress before a run with noise counts as converged.
    n_jobs : int or None, default=None
        Threads of the E-step, over sequences. The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seed; an integer makes the result the same at every call.
    warm_start : bool, default=False
        Start from the parameters of the previous fit.
    verbose : int, default=0
        1 prints epochs, 2 also their change of the objective.
    verbose_interval : int, default=10
        Epochs between prints.

    Attributes
    ----------
    fitted_ : FittedSequences
        The fitted model as an object: its parameters, and answers by them.
    n_states_ : int
        Number of states.
    state_search_ : list of StateSearchStep
        Numbers of states that were fitted, with their criteria; only after a search.
    start_ : ndarray of shape (n_states,)
        Probabilities of first states.
    transitions_ : ndarray of shape (n_states, n_states)
        Probabilities of transitions; row i of the states that follow state i. With
        covariates those where these are at their means.
    transition_coefficients_ : ndarray of shape (n_states, n_states, n_covariates)
        Slopes of the logarithms of the odds of going from state i to state j against
        staying in it, or where state i cannot be kept against the first state that can
        follow it.
    covariates_mean_ : ndarray of shape (n_covariates,)
        Means of the covariates of transitions.
    durations_ : ndarray of shape (n_states, longest)
        Probabilities of durations of 1, 2, ... rows; only with ``durations``.
    emission_params_ : NamedTuple
        Parameters of the emission, such as ``emission_params_.means``.
    emission_ : Emission
        The emission.
    categories_ : dict of int to ndarray
        Labels of each column of labels, in the order of their codes.
    converged_ : bool
        Whether the run stopped by itself.
    n_iter_ : int
        Passes over the data, rounded up.
    lower_bound_ : float
        Log-likelihood per row, less the penalty of priors, at the last record.
    lower_bounds_ : list of float
        The same for each epoch of the best run.
    history_ : History
        The record of the best run.
    n_sequences_seen_ : int
        Sequences seen by ``fit`` or on the stream.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    StochasticEMGaussianMixture : States that do not depend on each other.

    Notes
    -----
    Recursions are scaled, not logarithmic, and fall back to logarithms for sequences in
    which a probability is too small for a float and could matter.

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

    Several sequences are distinguished by labels of their rows, or by their lengths:

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
            Rows in the order of time; NaN is not observed. A list has an array for each
            sequence. What :func:`sktem.rows.as_rows` reads by blocks, such as Parquet
            files and Dask data frames, may be larger than the memory; ``groups`` and
            ``covariates`` are then columns of it, and a partition of a Dask collection
            has all rows of its sequences. Files without ``groups`` are one sequence.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), str or int, default=None
            Label of the sequence of each row, rows of a sequence being next to each
            other; or the name of their column in a data frame. Without ``groups`` and
            ``lengths`` all rows are one sequence.
        lengths : array-like of int or None, default=None
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of the transition to each row, of shape (n_samples,) or
            (n_samples, n_covariates), or the names of their columns in a data frame.
            With them the logarithms of the odds of transitions are linear in the
            covariates of the row that is entered; those of the first row of a sequence
            are not used.
        states : array-like of int of shape (n_samples,) or None, default=None
            States that are known, -1 for those that are not.
        sample_weight : array-like of shape (n_samples,) or (n_sequences,), default=None
            Weights of rows, the same in all rows of a sequence, or of sequences; a
            weight means repetition.

        Returns
        -------
        HiddenMarkovModel
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, rows of a group are not next to each other,
            or a column has values that the emission cannot produce.
        """
        self._check_parameters()
        source = source_of(X)
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
        self._reader.check_observed(X, self.n_features_in_, names)
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
                searched.append(given.best(model, X, generators.initialisation))
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
        warn_of_states(model, state.params, state, X)
        if self.durations is not None:
            warn_of_cut(state.params.chain, X.row_counts.max(initial=0))
        if n_covariates_of(X):
            warn_of_covariates(model, state)
        return self

    @undone_if_refused
    @with_callbacks
    def partial_fit(
        self, X, y=None, *, groups=None, lengths=None, covariates=None,
        continues=False, sample_weight=None,
    ):  # fmt: skip
        """Learn from sequences of a stream, or from a piece of an endless sequence.

        A start is made of the first call, and made again until it has seen 100 rows a
        state. After that each sequence is seen once: the step of the k-th batch of
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
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        continues : bool, default=False
            Whether the first sequence continues the last one of the call before. The
            probabilities of its states given all rows so far, and of how long they have
            lasted, are carried over, so that cutting a sequence does not change what is
            filtered.
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
        """The fitted model as an object: its parameters, and answers by them."""
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
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        method : {"viterbi", "marginal"}, default="viterbi"
            The states that are most probable together, or each for itself.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            States; an iterator of those of blocks, where X is read by blocks.
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
        """Return the most probable states and their joint log-density with the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        scores : ndarray of shape (n_sequences,)
            Joint log-densities of rows and states.
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
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
            Probabilities; an iterator of those of blocks, where X is read by blocks.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        return answers_of(X, fitted.smooth, fitted.long_smooth)

    def smooth(self, X, *, groups=None, lengths=None, covariates=None):
        """Return :meth:`predict_proba`, by its name in the field.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Numbers of rows of the sequences.
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
        """Return the probability of each state given the rows up to it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        previous : array-like of shape (n_states,) or None, default=None
            Filtered probabilities of the row before the first one, where the first
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
        """Return the states and rows that follow each sequence.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows.
        steps : int, default=1
            How many rows ahead.
        n_draws : int, default=100
            Draws of the rows to come; their mean and quantiles are the forecast.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        future_covariates : array-like or None, default=None
            Covariates of the rows to come, of shape (n_sequences, steps,
            n_covariates), or (steps, n_covariates) for all sequences.
        future_exog : array-like or None, default=None
            Columns ``exog`` of a :class:`~sktem.emissions.Regression` or
            :class:`~sktem.emissions.Autoregression` in the rows to come, in the order
            of ``exog``, of such a shape.

        Returns
        -------
        Forecast
            ``probabilities`` of shape (n_sequences, steps, n_states), and ``draws`` of
            shape (n_draws, n_sequences, steps, n_features), with codes of text.
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
            Rows; NaN is not observed.
        method : {"mean", "mode", "draw"}, default="mean"
            Conditional means given all rows of a sequence; those of the most probable
            state; or a draw of the states and then of the values.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Numbers of rows of the sequences.
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
            Numbers of rows of the sequences.
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
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        sample_weight : array-like of shape (n_samples,) or (n_sequences,), default=None
            Weights, see :meth:`fit`.

        Returns
        -------
        float
            Log-likelihood of all sequences over the number of rows.
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
            Numbers of rows of the sequences.
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
            Numbers of rows of the sequences.
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
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.

        Returns
        -------
        float
            BIC, with the joint likelihood of the rows and the most probable states.
        """
        fitted, X = self._asked(X, groups, lengths, covariates)
        return criterion(fitted, X, "icl")

    def standard_errors(
        self, X, *, groups=None, lengths=None, covariates=None, states=None,
        sample_weight=None,
    ):  # fmt: skip
        """Return standard errors by the observed information, at the optimum of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such
            Rows, those of the fit.
        groups : array-like of shape (n_samples,), str or int, default=None
            Labels of the sequences, see :meth:`fit`.
        lengths : array-like of int or None, default=None
            Numbers of rows of the sequences.
        covariates : array-like, str, list of str or None, default=None
            Covariates of transitions, as in :meth:`fit`.
        states : array-like of int of shape (n_samples,) or None, default=None
            States that are known, as in :meth:`fit`.
        sample_weight : array-like of shape (n_samples,) or (n_sequences,), default=None
            Weights, see :meth:`fit`.

        Returns
        -------
        StandardErrors
            ``start``, ``transitions``, and ``emission``, a dict by the names of the
            fields of ``emission_params_`` (of blocks of columns one for each block);
            also ``coefficients``, ``durations`` and ``mean_durations``. NaN of what is
            fixed or at a bound, such as probabilities of 0, and of what the data leave
            open, which a warning names. Priors do not count.

        Raises
        ------
        ValueError
            With an emission whose parameters are not identified: factor analysers
            and mixtures.
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
            Numbers of rows of several sequences, in place of ``n_samples``.
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
            Rows up to which probabilities are returned.

        Returns
        -------
        StateDurations
            ``mean`` and ``standard_deviation`` in rows, and ``probabilities`` of
            lasting 1 to ``longest`` rows, (n_states, longest).
        """
        return self.fitted_.durations(longest)
