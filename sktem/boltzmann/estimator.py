"""Boltzmann machines with hidden units, with scikit-learn's face."""

from __future__ import annotations

import copy

from sklearn.base import BaseEstimator

from sktem.boltzmann.arrays import arrays_of
from sktem.boltzmann.draws import BoltzmannDraws
from sktem.boltzmann.loop import has_missing
from sktem.boltzmann.pretraining import pretrained
from sktem.boltzmann.run import BoltzmannRun
from sktem.boltzmann.scores import BoltzmannScores
from sktem.boltzmann.setup import BoltzmannSetup, one_blas_thread
from sktem.boltzmann.state import ContrastiveState
from sktem.boltzmann.stream import BoltzmannStream
from sktem.boltzmann.units import VisibleUnits
from sktem.e_step.random import seed_sequence, spawn_streams
from sktem.estimators.base import USER_FRAME, with_callbacks
from sktem.history import History
from sktem.links import DocumentationLinkMixin

__all__ = ["LatentBoltzmannMachine"]


class LatentBoltzmannMachine(
    BoltzmannScores,
    BoltzmannDraws,
    BoltzmannSetup,
    BoltzmannRun,
    DocumentationLinkMixin,
    BaseEstimator,
):
    """Pairwise model of binary units on any graph, some of them hidden.

    ``p(x)`` is proportional to ``exp(sum theta_i x_i + sum theta_ij x_i x_j)`` over
    the units i and the edges ij of a graph, x in {0, 1}. The visible units are the
    columns of X. Learned by Adiabatic Persistent Contrastive Divergence (Jang et al.
    2016), which moves Markov chains both for the posterior of the hidden units (E) and
    for the model (M), or by one of its relatives. Where the hidden units can be summed
    out at little cost, as in a restricted machine or when they fall into parts of small
    treewidth, the E-step is exact.

    Machines in layers take arrays of other namespaces under
    ``sklearn.config_context(array_api_dispatch=True)``, such as tensors of torch, and
    work on the device of X; fitted attributes and results are of the same kind.

    Parameters
    ----------
    graph : sparse matrix, array-like, Graph or networkx.Graph, default=None
        Symmetric adjacency matrix of all units, see :func:`sktem.graphs.grid_graph`, or
        a list of edges, pairs of numbers of units. The visible units, in increasing
        order, are the columns of X.
    hidden : array-like of int or bool, default=None
        Hidden units of the graph; None means none.
    hidden_layer_sizes : int or tuple of int, default=None
        Layers in place of a graph: one is a restricted machine, two or more a deep
        one. None means (100,) unless there is a graph.
    visible : {"binary", "gaussian"}, default="binary"
        Binary units for X in [0, 1]; Gaussian units (layers only) for real values,
        whose variances are learned. Columns are centred and scaled inside.
    solver : {"apcd", "hapcd", "mfpcd", "pcd", "cd"}, default="apcd"
        "apcd": persistent chains in both steps, posterior statistics averaged with the
        step a_t. "mfpcd": mean field in the E-step. "hapcd": mean field in the first
        half of the epochs, then a mixture that goes over to APCD. "pcd": as "apcd"
        without averaging. "cd": chains of the model start from the posterior of the
        batch at each update.
    e_step : {"auto", "exact", "gibbs", "mean_field"}, default="auto"
        Posterior expectations. "auto" is what the solver says; for "apcd", "pcd" and
        "cd" it is exact where that is cheap, otherwise Gibbs.
    n_chains : int, default=100
        Chains of the model, M of the M-step ("cd" has one per row of the batch).
    n_chains_e : int, default=1
        Posterior chains of each row, M of the E-step ("gibbs").
    n_gibbs_e : int, default=10
        Transitions of posterior chains at each visit ("gibbs", and the start of "cd").
    n_gibbs_m : int, default=5
        Transitions of the chains of the model at each update.
    n_mean_field : int, default=30
        Mean-field iterations, also in :meth:`transform` where the posterior is not
        exact.
    step_size_e : "auto", float, (float, float), schedule or callable, default="auto"
        a_t in (0, 1] of "apcd" and "hapcd". A pair goes linearly from the first epoch
        to the last; a schedule of :mod:`sktem.schedules` or a callable gets the number
        of the update. "auto" is (1, 0.05) where draws are averaged, 1 where
        expectations are exact.
    step_size_m : "auto", float, (float, float), schedule or callable, default="auto"
        b_t of the parameters, likewise. "auto" adapts the step of each parameter to the
        size of its gradient (Kingma and Ba 2015), in rounds: each has three times as
        many updates as the one before, in which the steps fall by a factor of 100. On
        NumPy arrays, and where the exact gradient of the likelihood is cheap, a round
        ends with an ascent along it, and the next one is twice as long. The fit stops
        after a round that adds too little to the log-likelihood, see `tol`.
    batch_size : int, default=100
        Rows per update.
    max_iter : int or "auto", default="auto"
        Most epochs of a fit; with given steps the fit takes all of them. "auto" is
        16,000 updates for small machines (8,000 up to 50 parameters, then 160 for each
        up to 100) and down to 3,500 for large ones, and at least 7 epochs.
    tol : float or None, default=0.02
        The fit has converged when its last round (with given steps, its second half)
        has changed the log-likelihood by less than this share of what it is above that
        of independent units. The log-likelihood of up to 1,000 rows (all of them where
        there are ascents) is exact where that is cheap and estimated elsewhere. None
        measures nothing, without ascents: the fit takes all epochs and says nothing
        about convergence.
    momentum : float or "auto", default="auto"
        In [0, 1). "auto" is 0.9 with adapted steps and 0 with given ones.
    weight_decay : float, default=0.0
        Strength of the L2 penalty on weights, not on biases.
    centering : bool, default=True
        Whether updates count each unit from its mean, a moving average of its posterior
        means, so that they do not depend on what is called 0 and what 1 (Montavon and
        Mueller 2012). The maxima are the same; it allows longer steps, mostly ends at a
        higher likelihood, and large deep machines may not leave the base rates without
        it. Without it hidden units are on less often, and those of one layer can be
        better features.
    rao_blackwell : bool, default=True
        Take conditional expectations in place of the last draws (of each unit given
        the others on a graph, of every second layer in layers). The result has the
        same mean and less noise.
    binarize : float, "sample" or None, default=None
        A threshold: values above it are 1 and others 0, in all methods. "sample" takes
        values in [0, 1] as probabilities and draws bits from them anew at each visit of
        the fit. With None values in [0, 1] stand as they are.
    pretrain : int, default=0
        Epochs of layer-wise pretraining of a deep machine by CD-1, each layer as a
        restricted machine with doubled inputs (Salakhutdinov and Hinton 2009).
    variance_floor : float, default=0.01
        Least conditional variance of a Gaussian unit, as a share of the variance of
        its column.
    random_state : int, RandomState, Generator or None, default=None
        Seed.
    n_jobs : int or None, default=None
        Threads, over blocks of 256 rows or, on a graph, 512 chains; the result does
        not depend on it. For NumPy arrays only.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the state of the fit before: parameters, averages,
        random numbers and chains (those of the rows if there are as many). Two fits
        with constant steps, or a schedule, are the same as one of all their epochs.
    verbose : int, default=0
        Prints a line per epoch.

    Attributes
    ----------
    params_ : ndarray of shape (n_parameters,)
        All parameters, see `biases_` and `weights_`.
    biases_ : ndarray of shape (n_units,) or list of ndarray
        On a graph, of all units; in layers, per layer. Of Gaussian units, the
        coefficient of the centred and scaled value.
    weights_ : csr_array of shape (n_units, n_units) or list of ndarray
        On a graph, the symmetric matrix; in layers, between each layer and the next.
    variances_ : ndarray of shape (n_features,)
        Conditional variances of Gaussian units in units of the data (Gaussian only).
    chains_ : ndarray
        Chains of the model at the end, one more thing to start sampling from; None for
        "cd".
    history_ : History
        The record of the fit; ``mean_field`` is the squared norm of the difference of
        the statistics at the end of each epoch, ``objective`` the log-likelihood as it
        was last measured, see `tol`.
    log_partition_ : AISResult
        log Z with its standard error and effective sample size, as :meth:`score` and
        :meth:`score_samples` last found it.
    n_iter_ : int
        Epochs, with those of the fits that a warm start goes on from.
    converged_ : bool
        Whether the fit has converged, see `tol`.
    n_features_in_ : int
        Visible units.
    n_samples_seen_ : int
        Rows seen by ``partial_fit``.

    See Also
    --------
    sklearn.neural_network.BernoulliRBM : Restricted machine by PCD.

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

    def __init__(
        self,
        graph=None,
        hidden=None,
        *,
        hidden_layer_sizes=None,
        visible="binary",
        solver="apcd",
        e_step="auto",
        n_chains=100,
        n_chains_e=1,
        n_gibbs_e=10,
        n_gibbs_m=5,
        n_mean_field=30,
        step_size_e="auto",
        step_size_m="auto",
        batch_size=100,
        max_iter="auto",
        tol=0.02,
        momentum="auto",
        weight_decay=0.0,
        centering=True,
        rao_blackwell=True,
        binarize=None,
        pretrain=0,
        variance_floor=0.01,
        random_state=None,
        n_jobs=None,
        warm_start=False,
        verbose=0,
    ):
        self.graph = graph
        self.hidden = hidden
        self.hidden_layer_sizes = hidden_layer_sizes
        self.visible = visible
        self.solver = solver
        self.e_step = e_step
        self.n_chains = n_chains
        self.n_chains_e = n_chains_e
        self.n_gibbs_e = n_gibbs_e
        self.n_gibbs_m = n_gibbs_m
        self.n_mean_field = n_mean_field
        self.step_size_e = step_size_e
        self.step_size_m = step_size_m
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.centering = centering
        self.rao_blackwell = rao_blackwell
        self.binarize = binarize
        self.pretrain = pretrain
        self.variance_floor = variance_floor
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: sparse and missing values are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.visible == "binary"
        tags.input_tags.allow_nan = True
        tags.array_api_support = self.graph is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self._model.n_hidden

    @with_callbacks
    @one_blas_thread
    def fit(self, X, y=None):
        """Learn the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Visible units, in [0, 1] if binary. NaN means not observed: such a unit is
            treated as a hidden one, by Gibbs sampling or mean field.
        y : None
            Ignored.

        Returns
        -------
        LatentBoltzmannMachine
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are out of range.
        """
        self._check_parameters()
        warm = self.warm_start and hasattr(self, "params_")
        X = self._validate(X, reset=not warm)
        units = self._units if warm else VisibleUnits.of(X, self.visible == "gaussian")
        arrays = arrays_of(units.scale)
        inputs = units.inputs(X, arrays.xp.float32)
        model = self._new_model(X.shape[1], arrays)
        settings = self._settings(model, has_missing(X), X.shape[0])
        if warm:
            self._check_same(model)

        def new_state():
            if warm:
                # They may have been changed, to what is out of bounds as well.
                params = arrays.copy(self.params_)
                model.project(params)
            if warm and self._stream.state is not None:
                history = copy.deepcopy(getattr(self, "history_", History()))
                shape = (X.shape[0], self.n_chains_e)
                return self._stream.goes_on(params, history, shape)
            streams = spawn_streams(seed_sequence(self.random_state))
            if warm:
                return ContrastiveState(params, streams)
            params = model.initial_params(units.logits, streams.initialisation)
            if self.pretrain:
                pretrained(settings, inputs, units, params, streams)
            return ContrastiveState(params, streams)

        state = self._run(settings, X, inputs, units, new_state)
        self._publish(model, units, state)
        self.history_ = state.history
        self.n_iter_ = state.epoch
        self.converged_ = state.converged
        self.__dict__.pop("n_samples_seen_", None)
        self._stream = BoltzmannStream.after_fit(model, units, state)
        if state.interrupted:
            raise KeyboardInterrupt
        self._warn(state.history.events, USER_FRAME + 1)
        return self

    @one_blas_thread
    def partial_fit(self, X, y=None):
        """Learn from a chunk of a stream.

        Rows are gathered into batches of ``batch_size``, each of which is one update,
        so that the result does not depend on how the stream is cut into chunks; the
        rows of an unfinished batch wait for the next call. The start is made from the
        first batch, or from the rows there are until it is full. Posterior chains of a
        stream start at each batch. A step that is a pair stays at its first value, and
        after ``fit`` at its last one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Visible units.
        y : None
            Ignored.

        Returns
        -------
        LatentBoltzmannMachine
            The estimator.
        """
        self._check_parameters()
        stream = getattr(self, "_stream", None)
        X = self._validate(X, reset=stream is None, method="partial_fit")
        if stream is None:
            if self.pretrain:
                raise ValueError("pretrain needs several passes over the data: use fit")
            stream = BoltzmannStream(seed_sequence(self.random_state))
        events = stream.update(self, X)
        self._stream = stream
        self._publish(stream.model, *stream.published(self))
        self.n_samples_seen_ = stream.n_rows
        self._warn(events, 3)
        return self
