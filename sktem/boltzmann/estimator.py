"""Boltzmann machines with hidden units, with scikit-learn's face."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace
from numbers import Integral
from typing import Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sktem import budget
from sktem.arrays import arrays_of
from sktem.boltzmann.column_warnings import warn_of_codes, warn_of_one_hot
from sktem.boltzmann.fit_warnings import (
    warn_of_events,
    warn_of_fit,
    warn_of_small_weights,
    warn_of_stream,
)
from sktem.boltzmann.fitted import FittedMachine
from sktem.boltzmann.learning.loop import MachineFit
from sktem.boltzmann.learning.row_weights import (
    check_weights,
    mean_of,
    shares_of,
    weighted_rows,
)
from sktem.boltzmann.learning.solvers import ContrastiveSolver
from sktem.boltzmann.learning.state import ContrastiveState
from sktem.boltzmann.normalisation.ais import AISResult
from sktem.boltzmann.normalisation.brackets import PartitionBracket
from sktem.boltzmann.normalisation.partition import METHODS
from sktem.boltzmann.settings import MachineSettings
from sktem.boltzmann.stream import BoltzmannStream
from sktem.boltzmann.tables import Table, holds_labels, is_tabular
from sktem.boltzmann.units import VisibleUnits
from sktem.boltzmann.values import ValueRule, ValuesSeen, check_arrays, refuse_missing
from sktem.choices import check_choice, check_number, is_auto
from sktem.e_step.blas_threads import one_blas_thread
from sktem.e_step.random import seed_sequence, spawn_generators
from sktem.estimators.by_blocks import answer, checked_rows, each_chunk
from sktem.estimators.copies import warn_of_copied_rows
from sktem.estimators.parameters import Auto, Seed
from sktem.estimators.progress import compile_notice
from sktem.estimators.runs import (
    EpochEstimator,
    unchanged_by_errors,
    undone_if_refused,
    with_callbacks,
)
from sktem.history import History
from sktem.rows.answers import gathered, in_memory
from sktem.rows.held import carrier_of
from sktem.rows.partitions import check_can_remember
from sktem.rows.sources import found_rows, is_stream
from sktem.validation import validate_data

__all__ = ["LatentBoltzmannMachine"]

#: Fitted attributes of some kinds of visible units.
OF_KINDS = ("variances_", "fields_", "couplings_", "unit_names_")


#: Parameters that are gone or that the solver has, and what does their work.
MOVED = {
    **{
        name: f"solver=ContrastiveSolver({name}=...)"
        for name in ("averaging", "momentum", "rao_blackwell")
    },
    "pretrain": "params_ of a fit with max_iter=0, and go on by warm_start=True "
    "(centred updates learn all layers at once)",
}


def query(method):
    """Wrap a method that is no fit: one thread of BLAS, notices of compilation."""

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        with compile_notice(self.verbose):
            return method(self, *args, **kwargs)

    return one_blas_thread(wrapped)


class LatentBoltzmannMachine(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, EpochEstimator
):
    """Pairwise model of binary units on any graph, some of them hidden.

    ``p(x)`` is proportional to ``exp(sum theta_i x_i + sum theta_ij x_i x_j)`` over the
    units i and the edges ij of a graph, x in {0, 1}. The visible units are the columns
    of X, which in layered machines may also be real numbers or categories. The machine
    is learned by Adiabatic Persistent Contrastive Divergence (Jang et al. 2016), which
    runs Markov chains both for the posterior of the hidden units (E) and for the model
    (M), or by one of its relatives. Where the hidden units can be summed out at little
    cost, as in a restricted machine or when they fall into parts of small treewidth,
    the E-step is exact.

    Layered machines accept arrays of other namespaces, such as PyTorch tensors, under
    ``sklearn.config_context(array_api_dispatch=True)`` and run on the device of X;
    fitted attributes and results are of the same kind.

    The parameters come in five groups: the *model* (``graph`` to ``variance_floor``),
    the *expectations* (``solver`` to ``n_mean_field``), the *updates* (``step_size_e``
    to ``centering``), the *end* (``max_iter`` and ``tol``), and how the fit is *run*
    (``random_state`` to ``verbose_interval``).

    Parameters
    ----------
    graph : sparse matrix, array-like, Graph or networkx.Graph, default=None
        Symmetric adjacency matrix of all units, see :func:`sktem.graphs.grid_graph`, or
        a list of edges as pairs of unit indices. The visible units, in increasing
        order, are the columns of X. The units of a networkx graph are its nodes in
        their order, whatever their labels.
    hidden : array-like of int or bool, default=None
        Hidden units of the graph, as indices or a mask; None means none.
    hidden_layer_sizes : int or tuple of int, default=None
        Sizes of the hidden layers, in place of a graph: one layer is a restricted
        machine, two or more are a deep one. None means (100,) unless there is a graph.
    visible : str or list of str, default="auto"
        "auto", "binary", "spin", "gaussian", "categorical", or a kind for each column.
        Binary units are for X in [0, 1]; spins are for X in {-1, 1}, and then all units
        are spins; Gaussian units (layers only) are for real values, whose variances are
        learned. Real-valued columns are centred and scaled internally. "categorical"
        (layers only) takes the distinct values of each column as its categories and has
        one unit for each, exactly one of which is on. A list gives the kind of each
        column of an array or data frame: "binary" (two values of any kind),
        "categorical", "gaussian" or "auto", which goes by type and values. A single
        "auto" goes by the rows of ``fit``, or the first ones of ``partial_fit``:
        numbers that are all in [0, 1] are "binary", all in {-1, 1} "spin". Otherwise
        columns of zeros and ones are "binary", other numbers "gaussian", text and
        categorical types "categorical". `visible_` has the kinds found; later rows that
        contradict them are an error.
    binarize : float, "sample" or None, default=None
        A threshold: in all methods, values above it become 1 and others 0 (for spins,
        -1). "sample" treats values in [0, 1] as probabilities (for spins, values in
        [-1, 1] as means) and draws from them anew at each visit during the fit; other
        methods use the values as they are, and their likelihoods are not means over
        draws. None uses values in [0, 1] as they are.
    variance_floor : float, default=0.01
        Least conditional variance of a Gaussian unit, as a share of the variance of
        its column.
    solver : {"apcd", "hapcd", "mfpcd", "pcd", "cd"} or ContrastiveSolver, \
            default="apcd"
        "apcd" has persistent chains in both steps and averages posterior statistics
        with the step a_t. "mfpcd" uses mean field in the E-step. "hapcd" uses mean
        field in the first half of the epochs, then a mixture that changes over to APCD;
        without ascents a fit takes all of its epochs. "pcd" is "apcd" without
        averaging. With "cd" the chains of the model start from the posterior of the
        batch at each update. A :class:`ContrastiveSolver` has one of these names and
        sets its momentum, the averaging of the parameters, and whether draws replace
        conditional expectations.
    e_step : {"auto", "exact", "gibbs", "mean_field"}, default="auto"
        How posterior expectations are computed. "auto" is what the solver implies; for
        "apcd", "pcd" and "cd" it is exact where that is cheap, otherwise Gibbs.
    n_chains : int, default=100
        Chains of the model, M of the M-step ("cd" has one per row of the batch). With
        small batches they are most of the cost of an update: for batches of ten, 10
        chains take 0.6 of the time of 100.
    n_chains_e : int, default=1
        Posterior chains of each row, M of the E-step ("gibbs").
    n_replicas : int or "auto", default="auto"
        Number of temperatures of the chains of the model, evenly spaced from
        independent units to the machine. With more than one, replicas of each chain are
        swapped (parallel tempering), so that the chains visit modes in the right
        proportions, also in :meth:`sample` and, given some of the units, in
        :meth:`sample_conditional`, :meth:`impute` and :meth:`gibbs`. The cost of the
        chains rises by that factor. Swaps between neighbours are frequent enough with
        about the square root of the number of units. "auto" begins with one. At the end
        of each round of adapted steps, see `step_size_m`, the chains are followed for a
        tenth of the round's transitions (at least 200, at most 1,000). If the
        correlation with their former states is above 0.1, as for chains that stay in
        one of several modes, the next rounds have 5 temperatures and two transitions
        per update, and up to 20 temperatures where fewer than a tenth of the swaps
        between neighbours are accepted.
    n_gibbs_e : int, default=10
        Transitions of the posterior chains at each visit ("gibbs", and the start of
        "cd").
    n_gibbs_m : int, default=5
        Transitions of the chains of the model at each update.
    n_mean_field : int, default=30
        Mean-field iterations, also in :meth:`transform` where the posterior is not
        exact.
    step_size_e : "auto", float, (float, float), schedule or callable, default="auto"
        The step a_t in (0, 1] of "apcd" and "hapcd". A pair is a step that goes
        linearly from the first epoch to the last; a schedule of :mod:`sktem.schedules`
        or a callable gets the index of the update. "auto" is (1, 0.05) where draws are
        averaged, and 1 where expectations are exact.
    step_size_m : "auto", float, (float, float), schedule or callable, default="auto"
        The step b_t of the parameters, given likewise. "auto" adapts the step of each
        parameter to the size of its gradient (Kingma and Ba 2015), in rounds: each has
        three times as many updates as the one before, and the steps fall by a factor of
        100 within it. On NumPy arrays, where the exact gradient of the likelihood is
        cheap, a round ends with an ascent along that gradient, and the next round is
        twice as long. The fit stops after a round that adds too little to the
        log-likelihood, see `tol`. If, in addition, no unit is hidden, each epoch is an
        ascent, and the fit ends at the maximum.
    batch_size : int, default=100
        Rows per update.
    weight_decay : float or "auto", default="auto"
        Strength of the L2 penalty on weights, but not on biases, in the mean
        log-likelihood of a row; 0 is maximum likelihood. "auto" is one over the number
        of rows (the sum of their weights; on a stream, the rows so far). This is a
        standard normal prior on every weight, as in
        :class:`~sklearn.linear_model.LogisticRegression`; it matters where rows are
        few, and hardly where they are many. The prior becomes wider if the sum of
        squared weights exceeds the number of weights or, with few binary columns, the
        number of free probabilities of their states, and there are five rows for each
        of these; this happens where a column follows from others without exception.
        "auto" also adds half a row of each value of each binary unit, as if its
        neighbours were 1 half of the time, so that columns that are constant by chance
        are not taken as certain. Real-valued columns in tight clusters need large
        weights, for which a smaller number can be better.
    centering : bool, default=True
        Whether updates measure each unit relative to its mean, a moving average of its
        posterior means, so that they do not depend on which value is called 0 and which
        1 (Montavon and Mueller 2012). The maxima are the same. Centering allows longer
        steps and mostly ends at a higher likelihood; large deep machines may never
        leave the base rates without it. Without it, hidden units are on less often, and
        those of a single layer can be better features.
    max_iter : int or "auto", default="auto"
        Maximum number of epochs of a fit; with given steps the fit takes all of them.
        "auto" is 16,000 updates for small machines (8,000 up to 50 parameters, then 160
        for each up to 100), falling to 3,300 for large ones, and at least 7 epochs.
        With several temperatures, see `n_replicas`, there are as many updates as have
        the same total cost, and at least 3,000.
    tol : float or None, default=0.02
        The fit has converged when its last round (with given steps, its second half)
        has changed the log-likelihood by less than this share of its gain over
        independent units, up to its standard error. The change in a last round that is
        more than three times as long as the one before is scaled down to that length,
        since likelihoods rise with the logarithm of the number of updates. With adapted
        steps, at least 500 rows and no ascents, a tenth of the rows (at most 1,000) is
        held out: the log-likelihood is that of the held-out rows, the fit stops when
        they gain nothing more, and the result is the round that is best for them.
        Otherwise it is the log-likelihood of up to 1,000 of the rows (all of them where
        there are ascents), less the penalty. It is exact where that is cheap. Elsewhere
        log Z is estimated at the end of each round, by annealed importance sampling
        from independent units with a twenty-fifth as many temperatures as the round has
        updates (at most 250; four times as many where the runs disagree). With None and
        without ascents nothing is measured: the fit takes all epochs and says nothing
        about convergence.
    random_state : int, RandomState, Generator or None, default=None
        Seed.
    n_jobs : int or None, default=None
        Number of threads, over blocks of 256 rows or, on a graph, 512 chains. The
        result does not depend on it. For NumPy arrays only.
    warm_start : bool, default=False
        Whether ``fit`` continues from the state of the previous fit: parameters,
        averages, random numbers and chains (those of the rows if there are as many).
        With constant steps or a schedule, two fits are the same as one fit with all
        their epochs.
    verbose : int, default=0
        1 prints every `verbose_interval` epochs, 2 also the time and the change. Both
        report the progress of annealed importance sampling, within a fit every 5
        seconds. For progress bars see :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of epochs between prints.

    Attributes
    ----------
    params_ : ndarray of shape (n_parameters,)
        All parameters, see `biases_` and `weights_`.
    biases_ : ndarray of shape (n_units,) or list of ndarray
        Biases of all units on a graph, or of each layer. For Gaussian units, the
        coefficient of the centred and scaled value.
    weights_ : csr_array of shape (n_units, n_units) or list of ndarray
        The symmetric matrix on a graph, or the matrices between each layer and the
        next.
    visible_ : str or list of str
        Kind of the visible units, or that of each column of a table, see `visible`.
    fields_, couplings_ : as `biases_` and `weights_`
        Fields h and couplings J of spins (spins only): p(s) is proportional to
        ``exp(sum h_i s_i + sum J_ij s_i s_j)``. `biases_` and `weights_` are those of
        the same machine in zeros and ones.
    variances_ : ndarray of shape (n_gaussian_features,)
        Conditional variances of Gaussian units, in the units of the data (Gaussian
        only).
    unit_names_ : list of str
        Names of the visible units (only with kinds by column): columns of numbers
        first, then one for each category, then columns of two values.
    chains_ : ndarray
        Chains of the model at the end of the fit, from which sampling can start; None
        for "cd".
    fitted_ : FittedMachine
        The machine itself (``model``), how it sees the columns of X (``units``), and
        its log Z; the methods of the estimator use it.
    weight_decay_ : float
        Strength of the penalty; on a stream, that of the last batch (0 before the
        first).
    history_ : History
        The record of the fit. ``gradient_norm`` is the norm of the gradient at the end
        of each epoch, ``objective`` the mean log-likelihood less the penalty as last
        measured, see `tol`.
    log_partition_ : AISResult or PartitionBracket
        log Z with its standard error and effective sample size, as last computed by
        :meth:`score` or :meth:`score_samples`.
    n_iter_ : int
        Number of epochs, including those of fits that a warm start continues.
    n_replicas_ : int
        Number of temperatures of the chains of the model at the end.
    converged_ : bool
        Whether the fit has converged, see `tol`.
    n_features_in_ : int
        Number of visible units.
    n_samples_seen_ : int
        Number of rows seen by ``partial_fit``.

    See Also
    --------
    sklearn.neural_network.BernoulliRBM : Restricted machine by PCD.
    BoltzmannMachineClassifier : Labels given inputs that are not modelled.
    BoltzmannMachineRegressor : Real outputs given inputs that are not modelled.

    Notes
    -----
    With ``weight_decay=0`` a fit maximises the likelihood of its own rows. With fewer
    rows than parameters, such as some tens of rows and a hundred hidden units, new rows
    are then often less likely than under independent columns although the fit has
    converged. A :class:`~sktem.exceptions.FitWarning` says so if the gain over
    independent columns is no more than that many parameters would have by chance. The
    default prior mostly prevents this; :meth:`score` on held-out rows shows whether a
    larger `weight_decay` or fewer hidden units are better.

    References
    ----------
    H. Jang, H. Choi, Y. Yi and J. Shin, Adiabatic Persistent Contrastive Divergence
    Learning, 2016, Algorithm 1 and equations (7) and (8).

    D. P. Kingma and J. Ba, Adam: A Method for Stochastic Optimization, 2015.

    G. Montavon and K.-R. Mueller, Deep Boltzmann Machines and the Centering Trick,
    Neural Networks: Tricks of the Trade, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import LatentBoltzmannMachine
    >>> X = np.repeat([[0, 0, 1], [1, 1, 0]], 50, axis=0)
    >>> machine = LatentBoltzmannMachine(hidden_layer_sizes=2, random_state=0).fit(X)
    >>> machine.converged_, machine.score(X) > -1
    (True, True)
    """

    log_partition_: AISResult | PartitionBracket
    _moved_parameters = {**EpochEstimator._moved_parameters, **MOVED}

    def __init__(
        self,
        graph=None,
        hidden=None,
        *,
        hidden_layer_sizes=None,
        visible="auto",
        binarize: float | Literal["sample"] | None = None,
        variance_floor: float = 0.01,
        solver: Literal["apcd", "hapcd", "mfpcd", "pcd", "cd"]
        | ContrastiveSolver = "apcd",
        e_step: Literal["auto", "exact", "gibbs", "mean_field"] = "auto",
        n_chains: int = 100,
        n_chains_e: int = 1,
        n_replicas: int | Auto = "auto",
        n_gibbs_e: int = 10,
        n_gibbs_m: int = 5,
        n_mean_field: int = 30,
        step_size_e="auto",
        step_size_m="auto",
        batch_size: int = 100,
        weight_decay: float | Auto = "auto",
        centering: bool = True,
        max_iter: int | Auto = "auto",
        tol: float | None = 0.02,
        random_state: Seed = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ):
        self.graph = graph
        self.hidden = hidden
        self.hidden_layer_sizes = hidden_layer_sizes
        self.visible = visible
        self.binarize = binarize
        self.variance_floor = variance_floor
        self.solver = solver
        self.e_step = e_step
        self.n_chains = n_chains
        self.n_chains_e = n_chains_e
        self.n_replicas = n_replicas
        self.n_gibbs_e = n_gibbs_e
        self.n_gibbs_m = n_gibbs_m
        self.n_mean_field = n_mean_field
        self.step_size_e = step_size_e
        self.step_size_m = step_size_m
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.centering = centering
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: sparse and missing values are welcome."""
        tags = super().__sklearn_tags__()
        auto = is_auto(self.visible)
        tags.input_tags.sparse = auto or self.visible == "binary"
        tags.input_tags.allow_nan = True
        tabular = is_tabular(self.visible)
        labels = tabular or (auto and self.graph is None and self.binarize is None)
        tags.input_tags.string = tags.input_tags.categorical = labels
        tags.array_api_support = self.graph is None and not tabular
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.fitted_.model.n_hidden

    @unchanged_by_errors
    @with_callbacks
    @one_blas_thread
    def fit(self, X, y=None, sample_weight=None):
        """Learn the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or rows
            Visible units, in [0, 1] if binary, or anything that
            :func:`sktem.rows.as_rows` accepts, which is then read in blocks. NaN means
            missing: such a unit is treated as a hidden one, by Gibbs sampling or mean
            field.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows: 2 counts as two equal rows. An epoch has as many visits
            as there are rows of positive weight, and each row is visited in proportion
            to its weight; likelihoods and their exact gradients are weighted. The scale
            of the weights matters for ``weight_decay="auto"``, which counts rows by
            them.

        Returns
        -------
        LatentBoltzmannMachine
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are out of range.
        """
        machine = self._machine_settings()
        warm = self.warm_start and hasattr(self, "params_")
        X, kind, table = self._rows_of_fit(X, warm)
        X, weights, mass = weighted_rows(X, sample_weight)
        if warm:
            units = self.fitted_.units
        elif table is not None:
            units = VisibleUnits.of_table(X, table, weights)
        else:
            units = VisibleUnits.of(X, kind, weights)
        shares = shares_of(weights)
        arrays = arrays_of(units.scale)
        inputs = units.inputs(X, arrays.xp.float32)
        model = machine.model(X.shape[1], arrays, units.table, kind)
        settings = machine.of_run(model, carrier_of(X).has_nan, X.shape[0], mass)
        if warm and model.n_parameters != self.params_.shape[0]:
            raise ValueError(
                f"warm_start needs the same machine: it has {model.n_parameters} "
                f"parameters, and {self.params_.shape[0]} were fitted"
            )

        # Independent columns have no penalty.
        alone = model.initial_params(units.logits, np.random.default_rng(0), 0.0)
        prior = settings.prior.counted_from(model, alone)
        settings = replace(settings, prior=prior)

        def new_run(progress):
            if warm:
                # They may have been changed, to what is out of bounds as well.
                params = arrays.copy(self.params_)
                model.project(params)
            if warm and self._stream.state is not None:
                history = copy.deepcopy(getattr(self, "history_", History()))
                shape = (X.shape[0], self.n_chains_e)
                return self._stream.resumed(params, history, shape, settings.averaging)
            generators = spawn_generators(seed_sequence(self.random_state))
            if warm:
                return ContrastiveState(params, generators)
            params = model.initial_params(units.logits, generators.initialisation)
            return ContrastiveState(params, generators)

        def finish(state):
            self._forget()
            self.__dict__.pop("n_samples_seen_", None)
            self._stream = BoltzmannStream.after_fit(settings, units, state, mass)

        fit = MachineFit(
            settings, units, inputs, self.n_mean_field, shares, self.verbose, warm
        )
        state = self._fit(fit, X, weights, new_run, finish=finish)
        warn_of_fit(settings, state, mass, X, units)
        if self.weight_decay == "auto":
            warn_of_small_weights(X.shape[0], mass)
        if sample_weight is None:
            warn_of_copied_rows(X)
        if kind == "binary" and self.graph is None:
            warn_of_one_hot(X)
        if is_auto(self.visible) and not warm:
            warn_of_codes(X, units)
        return self

    def _run_epochs(self, fit, X, state, sample_weight, on_epoch):
        fit.run(state, on_epoch)

    def _epoch_count(self, fit, sample_weight):
        return fit.settings.n_epochs

    def _fitted_attributes(self, fit, state, X):
        return {
            **FittedMachine.of(fit.settings.model, fit.units, state).attributes(),
            "weight_decay_": fit.settings.prior.strength,
            "history_": state.history,
            "n_iter_": state.epoch,
            "converged_": state.converged,
        }

    @undone_if_refused
    @with_callbacks
    @one_blas_thread
    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a chunk of a stream.

        Rows are collected into batches of ``batch_size``, so that the result does not
        depend on how the stream is cut into chunks; the rows of an unfinished batch
        wait for the next call. The start is made from the first batch or, until it is
        full, from the rows so far. With adapted steps there are 200 updates on the
        first batch, 100 on the second, and so on in proportion down to one; the
        parameters are an average over the last tenth of the updates. Where all states
        can be summed in a millisecond, updates use these sums in place of the chains of
        the model, which are only draws from them. Posterior chains start anew at each
        batch. A step given as a pair stays at its first value, or after ``fit`` at its
        last one. After 400 updates, and from time to time after that, the chains of the
        model are checked: if they stay in one of several modes, they get five
        temperatures (``n_replicas="auto"``), and a warning says so. Rows should arrive
        in random order; a warning says if batches differ by more than chance.
        Real-valued columns learn slowly without the ascents of ``fit``: begin with
        ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix}, iterator or rows
            Visible units, an iterator of such chunks, or anything that
            :func:`sktem.rows.as_rows` accepts, which is read once to its end.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            How often each row is used; the fractional part is drawn at random. The
            scale of the weights matters, because the end of a stream is not known: they
            should be about 1 on average.

        Returns
        -------
        LatentBoltzmannMachine
            The estimator.
        """
        settings = self._machine_settings()

        def is_fresh():
            return getattr(self, "_stream", None) is None

        labels = is_auto(self.visible) and holds_labels(X)
        if is_fresh() and (is_tabular(self.visible) or labels):
            raise ValueError(
                "a stream cannot begin with a table, whose categories it does not "
                "know: use fit first"
            )
        for chunk, weights in each_chunk(self, X, sample_weight, is_fresh):
            if is_fresh():
                rule = self._value_rule(reset=True)
                rule = rule.for_rows(chunk) if rule.is_open else rule
                chunk = rule.values(chunk)
                stream = BoltzmannStream(seed_sequence(self.random_state), rule.kind)
            else:
                chunk = self._values("partial_fit", True)(chunk)
                stream = self._stream
            self._forget()
            self._partial_fit(stream, settings, chunk, weights)
            warn_of_events(stream.events)
            warn_of_stream(stream)
        return self

    def _forget(self):
        """Remove the attributes that belong to the fit before."""
        for name in ("log_partition_", *OF_KINDS):
            self.__dict__.pop(name, None)

    def _machine_settings(self) -> MachineSettings:
        """Return the checked parameters of the machine."""
        check_number("verbose_interval", self.verbose_interval, Integral, 1)
        return MachineSettings.of(vars(self))

    # Rows.

    def _value_rule(self, reset=False) -> ValueRule:
        """Return the rule of the values of the fitted machine, or of its coming fit."""
        kind, is_open = self.visible, is_auto(self.visible) and not reset
        if is_open:
            kind = getattr(self, "visible_", "auto")
        return ValueRule(kind, self.binarize, self.graph is not None, is_open)

    def _checked_rows(self, X, *, reset):
        """Return X, checked but for its range; float32 and float64 stay."""
        rule = self._value_rule(reset)
        if is_tabular(rule.kind):
            validate_data(self, X, reset=False, skip_check_array=True)
            return self.fitted_.units.table.encode(X)
        return validate_data(self, X, reset=reset, **rule.options(X))

    def _rows_of_fit(self, X, warm):
        """Return rows of a fit, the kind of their units, and the table of a new one."""
        rule = self._value_rule(reset=not warm)
        labels = rule.of_labels and holds_labels(X)
        if warm or not (is_tabular(rule.kind) or labels):
            rows, kind = self._values_of_fit(X, rule, warm)
            if warm or kind != "table":
                return rows, kind, None
        validate_data(self, X, skip_check_array=True)
        table = Table.of(X, self.visible)
        return table.encode(X), "table", table

    def _values_of_fit(self, X, rule, warm):
        """Return rows by a rule, as an array where they are few, and their kind.

        Those of a table are not yet as the machine needs them.
        """
        if (source := found_rows(X)) is None:
            rows = self._checked_rows(X, reset=not warm)
            if warm:
                check_arrays(self.params_, rows, f"{type(self).__name__}.fit()")
            if rule.is_open:
                rule = rule.for_rows(rows, not isinstance(rows, np.ndarray))
            return rule.values(rows), rule.kind
        check_can_remember(type(self).__name__, source)
        seen = ValuesSeen()
        check = seen.add if rule.is_open else rule.values
        checked, _ = checked_rows(self, source, None, check, allow_nan=True)
        if rule.is_open:
            rule = rule.resolved(seen, True)
        rows = checked.mapped(rule.values)
        if rows.shape[0] * rows.shape[1] <= budget.MEMORY.kept:
            return np.concatenate([block for _, block in rows.blocks()]), rule.kind
        return rows, rule.kind

    # What the fitted machine answers.

    def _machine(self) -> FittedMachine:
        """Return the fitted machine with parameters and threads as they are now."""
        return replace(
            self.fitted_,
            model=self.fitted_.model.with_n_jobs(self.n_jobs),
            params=self.params_,
            chains=self.chains_,
            n_mean_field=self.n_mean_field,
            n_replicas=(
                self.n_replicas_ if self.n_replicas == "auto" else self.n_replicas
            ),
        )

    def _validate(self, X, sample_weight, *, reset):
        """Return checked rows and their weights."""
        rows = self._checked_rows(X, reset=reset)
        return rows, check_weights(sample_weight, rows.shape[0])

    def _values(self, method, allow_nan, function=None):
        """Return a function of checked rows, by default the rows as the machine's."""
        rule, params = self._value_rule(), self.params_
        call = f"{type(self).__name__}.{method}()"

        def values(X):
            check_arrays(params, X, call)
            if not allow_nan:
                refuse_missing(X, method)
            X = rule.values(X)
            return X if function is None else function(X)

        return values

    def _answer(self, X, method, function, out, *, allow_nan=False):
        """Return a function of rows, by blocks where they are read so."""
        check_is_fitted(self)
        function = self._values(method, allow_nan, function)
        if is_tabular(self._value_rule().kind) and not is_stream(X):
            return gathered(X, [function(self._checked_rows(X, reset=False))], out)
        return answer(self, X, function, out)

    def _checked(self, X, method, *, allow_nan=False):
        """Return rows that a method of the fitted machine got, checked."""
        check_is_fitted(self)
        return self._values(method, allow_nan)(self._checked_rows(X, reset=False))

    def _generator(self):
        return np.random.default_rng(seed_sequence(self.random_state))

    @query
    def transform(self, X, *, out=None):
        """Return the probabilities of the hidden units given the rows.

        They are exact where the E-step can be (in a restricted machine, and on graphs
        whose hidden parts have a small treewidth), otherwise by mean field. For rows
        with NaN, mean field covers the missing values and the hidden units.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or anything that :func:`sktem.rows.as_rows` accepts.
        out : array of shape (n_samples, n_hidden) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_hidden) or iterator
            Probabilities (means for spins), on a graph in the order of the units,
            otherwise layer by layer. An iterator over blocks of them if X is read in
            blocks and ``out`` is not given.
        """
        check_is_fitted(self)
        means = self._machine().hidden_means
        return self._answer(X, "transform", means, out, allow_nan=True)

    @query
    def free_energy(self, X, *, out=None):
        """Return minus the log of the sum of ``exp <theta, phi(v, h)>`` over h.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or anything that :func:`sktem.rows.as_rows` accepts.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Free energies, or their mean-field upper bound where the hidden units cannot
            be summed out.
        """
        check_is_fitted(self)
        machine = self._machine()

        def energies(X):
            return -machine.log_unnormalised(X)

        return self._answer(X, "free_energy", energies, out)

    @query
    def log_partition(
        self, method="auto", *, n_runs=100, n_temperatures=1000, schedule="adaptive"
    ):
        """Return log Z, the normalising constant of the likelihood.

        Parameters
        ----------
        method : {"auto", "exact", "ais", "bracket"}, default="auto"
            "exact" sums over all states by elimination, which needs a small treewidth
            (a grid of at most 22 rows, a restricted machine of at most 22 hidden or
            visible units); "ais" is annealed importance sampling from independent units
            to the machine, which is mostly too low where it is wrong; "bracket" also
            runs back from states of the machine, which is mostly too high, and warns if
            the two disagree. These states are exact draws where the machine has them,
            see :meth:`sample`, and ends of chains elsewhere. "auto" is exact where that
            takes no more than about a second, and "bracket" elsewhere.
        n_runs : int, default=100
            Number of independent runs of AIS.
        n_temperatures : int, default=1000
            Number of steps of each run.
        schedule : {"adaptive", "linear"} or array-like, default="adaptive"
            Spacing of the inverse temperatures. "adaptive" places them by a pilot run.

        Returns
        -------
        AISResult or PartitionBracket
            Value, standard error and effective sample size (out of `n_runs`; if it is
            small, the error is underestimated). An exact value has error 0 and
            effective sample size inf. A bracket has both estimates and the bounds
            `lower` and `upper` as well.
        """
        check_is_fitted(self)
        check_choice("method", method, METHODS)
        check_number("n_runs", n_runs, Integral, 1)
        check_number("n_temperatures", n_temperatures, Integral, 1)
        return self._machine().estimated_partition(
            self._generator(), method, n_runs, n_temperatures, schedule, self.verbose
        )

    @query
    def score_samples(
        self, X, *, log_partition=None, n_runs=10, n_temperatures=200, method="auto",
        out=None,
    ):  # fmt: skip
        """Return the log-likelihood of each row.

        It is exact where the hidden units and log Z can be summed, see
        :meth:`log_partition`. Otherwise one or both are estimated by annealed
        importance sampling. log Z is kept in ``log_partition_``, with its standard
        error and effective sample size, until the parameters change. It is bracketed by
        100 runs of 1,000 temperatures from each end. If the two ends disagree or rest
        on few runs, 4,000 temperatures are used, and a
        :class:`~sktem.exceptions.FitWarning` says if this is still so.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows without NaN, or anything that :func:`sktem.rows.as_rows` accepts.
        log_partition : float or None, default=None
            log Z, such as the value of a longer run of :meth:`log_partition`; None
            means that it is computed here.
        n_runs, n_temperatures : int
            Numbers of runs and temperatures for the estimate of each row, where the
            hidden units cannot be summed out.
        method : {"auto", "exact", "ais", "bracket"}, default="auto"
            How log Z is computed, see :meth:`log_partition`.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Log-likelihoods in nats; for Gaussian units, log-densities of the columns of
            X.
        """
        check_is_fitted(self)
        check_choice("method", method, METHODS)
        machine = self._machine()
        if log_partition is None:
            self.log_partition_ = machine.remembered_partition(
                self._generator, method, self.verbose
            )
            log_partition = self.log_partition_.value

        def log_likelihoods(X):
            return machine.log_likelihoods(
                X, log_partition, self._generator, n_runs, n_temperatures
            )

        return self._answer(X, "score_samples", log_likelihoods, out)

    def score(self, X, y=None, sample_weight=None, *, method="auto"):
        """Return the mean log-likelihood per row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows in the mean.
        method : {"auto", "exact", "ais", "bracket"}, default="auto"
            How log Z is computed, see :meth:`log_partition`.

        Returns
        -------
        float
            Mean of :meth:`score_samples`.
        """
        values = in_memory(self.score_samples(X, method=method))
        shares = shares_of(check_weights(sample_weight, values.shape[0]))
        return mean_of(values, shares)

    @query
    def pseudo_log_likelihood(self, X, *, out=None):
        """Return the sum over units of their log-probability given all other units.

        It involves neither randomness nor log Z. Where the hidden units cannot be
        summed out, the mean-field bound replaces the free energy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of binary units. The cost is that of ``2 * n_features`` free energies.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Pseudo-log-likelihoods in nats.
        """
        check_is_fitted(self)
        if self._value_rule().kind not in ("binary", "spin"):
            raise ValueError("pseudo_log_likelihood needs visible='binary' or 'spin'")
        function = self._machine().pseudo_log_likelihoods
        return self._answer(X, "pseudo_log_likelihood", function, out)

    @query
    def sample(self, n_samples=1, n_steps=None):
        """Draw rows from the machine.

        Where all units can be summed out at little cost (a small treewidth, or few
        hidden units), the draws are exact and independent. Elsewhere each draw is the
        end of its own chain, which starts at one of `chains_` (for "cd", at fair coin
        flips).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        n_steps : int or None, default=None
            Gibbs transitions of each chain. None means exact draws where they are
            cheap, and 1,000 transitions elsewhere.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Visible units.
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, Integral, 1)
        if n_steps is not None:
            check_number("n_steps", n_steps, Integral, 1)
        return self._machine().sample(n_samples, n_steps, self._generator())

    @query
    def gibbs(self, X):
        """Draw hidden units given rows, then visible units given the hidden ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Visible units after one transition. Where the hidden units cannot be drawn
            jointly, they are the result of ``n_gibbs_e`` sweeps from a mean-field
            start.
        """
        X = self._checked(X, "gibbs")
        return self._machine().transition(X, self.n_gibbs_e, self._generator())

    @query
    def marginals(self, n_steps=None):
        """Return the means of units, and of products of connected units.

        Parameters
        ----------
        n_steps : int or None, default=None
            Gibbs transitions of 1,000 chains, whose conditional means are averaged.
            None means exact sums where they are cheap, and 1,000 transitions elsewhere.

        Returns
        -------
        units : ndarray or list of ndarray
            Probability that each unit is 1 (mean for spins), laid out as `biases_`.
        pairs : csr_array or list of ndarray
            Probability that both ends of an edge are 1 (mean of the product for spins),
            laid out as `weights_`.
        """
        check_is_fitted(self)
        if self.fitted_.model.gaussian:
            raise ValueError(
                "marginals needs visible='binary', 'spin' or 'categorical'"
            )
        if n_steps is not None:
            check_number("n_steps", n_steps, Integral, 1)
        return self._machine().marginals(n_steps, self._generator())

    @query
    def sample_conditional(self, X, n_steps=None):
        """Draw the units that are NaN given the observed ones.

        The draws are exact where all units can be summed out at little cost and all
        observed values are 0 or 1; elsewhere they are the ends of Gibbs chains.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; values to be drawn are NaN.
        n_steps : int or None, default=None
            Gibbs transitions from a mean-field start. None means exact draws where they
            are cheap, and 200 transitions elsewhere.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows with draws in place of NaN.
        """
        if n_steps is not None:
            check_number("n_steps", n_steps, Integral, 1)
        rows = self._checked(X, "sample_conditional", allow_nan=True)
        drawn = self._machine().draw_missing(rows, n_steps, self._generator())
        table = self.fitted_.units.table
        return drawn if table is None else table.filled(X, drawn)

    @query
    def impute(self, X, n_steps=None, n_chains=10):
        """Replace NaN by conditional expectations given the observed units.

        This is exact where all units can be summed out at little cost and all observed
        values are 0 or 1. Elsewhere the conditional means over the second half of Gibbs
        chains are averaged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN means missing.
        n_steps : int or None, default=None
            Gibbs transitions of a chain from a mean-field start. None means exact
            expectations where they are cheap, and 200 transitions elsewhere.
        n_chains : int, default=10
            Number of independent chains per row, where chains are used; their means are
            averaged. A single chain moves slowly between states that fit the observed
            values but are far apart. Several chains find more of them than one chain
            with the same total number of transitions, at the same cost.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows with probabilities (means for Gaussian units) in place of NaN.
        """
        if n_steps is not None:
            check_number("n_steps", n_steps, Integral, 1)
        check_number("n_chains", n_chains, Integral, 1)
        rows = self._checked(X, "impute", allow_nan=True)
        machine, rng = self._machine(), self._generator()
        imputed = machine.expect_missing(rows, n_steps, n_chains, rng)
        table = self.fitted_.units.table
        return imputed if table is None else table.filled(X, imputed)
