"""Gaussian mixture with scikit-learn's face and stochastic EM inside."""

from __future__ import annotations

import numpy as np
from sklearn.base import DensityMixin

from sktem.e_step.random import spawn_streams
from sktem.estimators.base import FitProgress, LoopEstimator, with_callbacks
from sktem.loop.state import RunState
from sktem.mixture.scores import MixtureScores
from sktem.mixture.setup import MixtureSetup
from sktem.mixture.stream import MixtureStream

__all__ = ["StochasticEMGaussianMixture"]


class StochasticEMGaussianMixture(
    MixtureScores, MixtureSetup, DensityMixin, LoopEstimator
):
    """Gaussian mixture for data that are many or arrive as a stream.

    A superset of :class:`sklearn.mixture.GaussianMixture`: the same parameters,
    attributes and methods, and besides them stochastic solvers, ``partial_fit``,
    ``sample_weight``, priors and a fixed unit covariance. The E-step is compiled, forms
    nothing of size (n_samples, n_components) and runs on ``n_jobs`` threads with the
    same result to the last bit.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}, default="full"
        One matrix each, one matrix for all, variances each, one variance each, or the
        identity (known, not learned).
    tol : float, default=1e-6
        Threshold of convergence, in nats per row. "em" stops when the lower bound
        changes by less, as in scikit-learn, and so does "vrttem" from anchor to anchor.
        The other solvers stop when it has not risen by ``tol`` for
        ``n_iter_no_change`` epochs on a fixed sample of rows. 0 means never. The
        default is smaller than scikit-learn's 1e-3, which stops up to 0.02 nats per
        row short.
    reg_covar : float, default=1e-6
        Added to the diagonal of covariances.
    max_iter : int, default=1000
        Passes over the data, at most (on average, for ``sampling="inclusion"``). The
        initial pass, anchor passes and second index sets count.
    n_init : int, default=1
        Number of starts; the run with the best lower bound is kept.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"} or callable, \
            default="kmeans"
        The start. "kmeans" and "random" are scikit-learn's to the bit. "k-means++" and
        "random_from_data" assign each row to the nearest of the chosen ones. A callable
        gets ``(X, n_components, random_state)`` and returns responsibilities
        (n_samples, n_components) or labels (n_samples,).
    init_size : int or None, default=None
        Rows, drawn at random, from which the start is made; None means all. On
        millions of rows, k-means costs more than the fit.
    weights_init : array-like of shape (n_components,) or None, default=None
        Starting weights.
    means_init : array-like of shape (n_components, n_features) or None, default=None
        Starting means.
    precisions_init : array-like or None, default=None
        Starting precisions, in the shape of ``precisions_``. When weights, means and
        precisions are given, no other start is made.
    solver : str or Solver, default="em"
        The algorithm: "em", "mcem", "saem", "online", "iem", "isaem", "vrttem",
        "fittem", or an instance of a class of :mod:`sktem.solvers`. The default is
        the compiled EM: on all the data sets of ``benchmarks/default_solver.py`` it
        alone is never below scikit-learn's result, because it follows the same path.
        "vrttem" with ``rho=0.1`` needs several times fewer passes where EM converges
        slowly (overlapping components, many rows), and can end in another optimum,
        better or worse.
    sampler : {"auto", "exact", "mc"} or Sampler, default="auto"
        Latents: "exact" posterior probabilities, or "mc", draws from them (the setting
        of the papers). "auto" is what the solver's name implies, else "exact".
    n_draws : int, callable or None, default=None
        Draws per visit for ``sampler="mc"``, or a function of the iteration; None
        means 10. Used by that sampler only.
    batch_size : int or "auto", default="auto"
        Rows per iteration of the stochastic solvers. "auto" is a twentieth of the
        rows, at most 1024; 1 is the papers' setting.
    sampling : {"shuffle", "fixed", "inclusion"}, default="shuffle"
        "shuffle": the rows in a random order, drawn anew for each pass. "fixed":
        ``batch_size`` rows drawn uniformly at each iteration. "inclusion": each row
        independently with probability ``batch_size / n_samples``.
    step_size : float, Schedule, callable or "auto", default="auto"
        Step gamma of the stochastic approximation. "auto": 1 with exact posterior
        probabilities, ``k ** -0.5`` with draws, ``(k + 2) ** -0.6`` for "online", and
        ``(k + 2) ** -0.5`` in ``partial_fit``. A constant forgets the past.
    rho : float or "auto", default="auto"
        Step of the variance reduction of "vrttem" and "fittem"; "auto" is ``(n_samples
        / batch_size) ** (-2 / 3)``. Larger is faster until the noise of small
        components stops it; 0.1 is a good value with batches of a thousand.
    average : bool, int, "tail", "random" or "auto", default="auto"
        Returned iterate: False is the last; an integer is the average of the statistics
        from that epoch on (True means 1; on a stream it counts batches); "tail" is a
        running average over about the last quarter of the iterates; "random" is
        iterate k with probability proportional to its step. "auto" is the last iterate
        in ``fit``, and on a stream "tail" if ``step_size="auto"``, else the last.
    n_iter_no_change : int, default=3
        See ``tol``.
    mean_penalty : float, default=0.0
        Penalty delta on the means, per row: ``delta / 2 (m_k - m_0)' C_k^-1 (m_k -
        m_0)``. Pulls means towards ``mean_prior``.
    mean_prior : array-like of shape (n_features,) or None, default=None
        m_0; None is the origin.
    weight_concentration : float, default=0.0
        Dirichlet penalty epsilon, per row: ``weight_k = (s_k + epsilon) / (1 + epsilon
        n_components)``. Keeps components from emptying.
    covariance_prior : array-like, float or None, default=None
        Matrix, diagonal or number towards which covariances shrink (the scale of an
        inverse-Wishart prior).
    covariance_prior_strength : float, default=0.0
        Its weight tau, as a share of the data: ``C_k = (scatter_k + tau Psi) / (s_k +
        tau)``.
    n_jobs : int or None, default=None
        Threads of the E-step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start and of the solvers.
    warm_start : bool, default=False
        Go on from the previous fit.
    verbose : int, default=0
        1 prints epochs, 2 also the time and the change of the lower bound.
    verbose_interval : int, default=10
        Epochs between prints.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Mixing weights.
    means_ : ndarray of shape (n_components, n_features)
        Means.
    covariances_ : ndarray
        Covariances: (K, d, d) if full, (d, d) if tied, (K, d) if diag, (K,) if
        spherical or unit.
    precisions_ : ndarray
        Inverse covariances, in the same shape.
    precisions_cholesky_ : ndarray
        Factors P with ``P P' = precision``, in the same shape.
    converged_ : bool
        Whether the run stopped by itself.
    n_iter_ : int
        Passes over the data, rounded up.
    lower_bound_ : float
        Mean log-likelihood per row (less the penalty) at the last record.
    lower_bounds_ : list of float
        The same for each epoch of the best run.
    history_ : History
        The record of the best run: passes, mean field, steps, events.
    n_samples_seen_ : int
        Rows seen by ``fit`` or on the stream.
    n_steps_ : int
        Steps done on a stream; set by ``partial_fit``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when X has names that are all strings.

    See Also
    --------
    StochasticEM : Any latent-variable model with the same solvers.

    Notes
    -----
    All statistics are held about a fixed centre in float64, so that a common offset of
    the data costs no digits; float32 data stay float32 in what is returned.
    A component that loses all its data keeps its parameters with weight zero, a
    covariance that is not positive definite is floored; both are counted in
    ``history_.events`` and told in one :class:`sktem.exceptions.FitWarning`.

    References
    ----------
    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, section IV.A.

    O. Cappe and E. Moulines, On-line expectation-maximization algorithm for latent
    data models, JRSS B 71, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEMGaussianMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> mixture = StochasticEMGaussianMixture(n_components=2, random_state=0).fit(X)
    >>> mixture.means_[mixture.means_[:, 0].argsort()]
    array([[ 1.,  2.],
           [10.,  2.]])
    >>> mixture.predict([[0, 0], [12, 3]]).tolist() == mixture.predict(
    ...     [[1, 1], [11, 3]]
    ... ).tolist()
    True

    On a stream:

    >>> rng = np.random.default_rng(0)
    >>> stream = StochasticEMGaussianMixture(n_components=2, random_state=0)
    >>> for _ in range(20):
    ...     chunk = rng.normal(size=(500, 1)) + rng.choice([-5, 5], size=(500, 1))
    ...     stream = stream.partial_fit(chunk)
    >>> np.sort(stream.means_.ravel()).round()
    array([-5.,  5.])
    """

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        tol=1e-6,
        reg_covar=1e-6,
        max_iter=1000,
        n_init=1,
        init_params="kmeans",
        init_size=None,
        weights_init=None,
        means_init=None,
        precisions_init=None,
        solver="em",
        sampler="auto",
        n_draws=None,
        batch_size="auto",
        sampling="shuffle",
        step_size="auto",
        rho="auto",
        average="auto",
        n_iter_no_change=3,
        mean_penalty=0.0,
        mean_prior=None,
        weight_concentration=0.0,
        covariance_prior=None,
        covariance_prior_strength=0.0,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        verbose_interval=10,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.init_size = init_size
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.solver = solver
        self.sampler = sampler
        self.n_draws = n_draws
        self.batch_size = batch_size
        self.sampling = sampling
        self.step_size = step_size
        self.rho = rho
        self.average = average
        self.n_iter_no_change = n_iter_no_change
        self.mean_penalty = mean_penalty
        self.mean_prior = mean_prior
        self.weight_concentration = weight_concentration
        self.covariance_prior = covariance_prior
        self.covariance_prior_strength = covariance_prior_strength
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the mixture.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data. float32 stays float32 in what is returned.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights; a weight means repetition.

        Returns
        -------
        StochasticEMGaussianMixture
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer rows than components, or a parameter is out of range.
        """
        self._check_parameters()
        X, sample_weight = self._validate(
            X, sample_weight, reset=True, ensure_min_samples=2
        )
        if len(X) < self.n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {len(X)}"
            )
        given = self._given(X.shape[1])
        model = self._new_model(X)
        settings = self._settings(model, len(X))
        warm = self._goes_on(X.shape[1])
        seed, starts = self._seed()

        def new_run(progress):
            if warm:
                params = self._fitted_params(model.centre)
                s = model.statistics_of(params)
            else:
                params, s = self._start(model, X, sample_weight, given, progress.random)
            # By number, so that a fit that goes on from a checkpoint has the same.
            own = np.random.SeedSequence(seed.entropy, spawn_key=(progress.start,))
            state = RunState(params, spawn_streams(own))
            state.streams.monitoring = np.random.default_rng(seed)
            state.solver.s = state.solver.S_tts = s
            if warm:
                state.best_objective = self._bound_to_beat(settings)
            return state

        n_init = 1 if warm else self.n_init
        state, interrupted = self._run_starts(
            settings, X, sample_weight, new_run, n_init, FitProgress(random=starts)
        )
        for name, value in self._fitted_attributes(settings, state, X).items():
            setattr(self, name, value)
        total = float(len(X) if sample_weight is None else sample_weight.sum())
        self._stream = MixtureStream.after_fit(self, model, state, total)
        self.__dict__.pop("n_steps_", None)
        if interrupted:
            raise KeyboardInterrupt
        self._warn(state, settings)
        return self

    def fit_predict(self, X, y=None, sample_weight=None):
        """Learn the mixture and return the component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights.

        Returns
        -------
        ndarray of shape (n_samples,)
            Component labels, those of ``predict(X)``.
        """
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a chunk of a stream, with constant memory.

        The chunk can have any number of rows. The first ``max(1024, 20 * n_components *
        (n_features + 1))`` rows are kept; a start is made of them and, unless it is
        given, taken on by 20 EM passes. After that, rows are not kept. After ``fit``,
        the stream goes on from the fitted mixture.

        Time is counted in rows: with batches of ``batch_size`` rows ("auto": 256 on a
        stream), the step of the k-th batch is ``step_size(k)``, with k counted from one
        row per parameter on; a constant step forgets the past and follows drifting
        data, "auto" is ``(k + 2) ** -0.5`` with the average of the last quarter of the
        iterates. Under "em", "saem", "mcem" and "online" the result does not depend on
        how the stream is cut into chunks. Under "iem", "isaem", "vrttem" and "fittem" a
        chunk is the population of the solver: two passes over it (one to fill the
        memory), then its statistics are merged into the running ones with the step of
        its rows. ``n_init`` starts are compared on the first rows; ``max_iter``,
        ``tol`` and ``warm_start`` play no part.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Non-negative weights; a weight means repetition.

        Returns
        -------
        StochasticEMGaussianMixture
            The estimator, ready to predict.
        """
        self._check_parameters()
        stream = getattr(self, "_stream", None)
        X, sample_weight = self._validate(X, sample_weight, reset=stream is None)
        if stream is None:
            stream = MixtureStream(*self._seed())
        stream.update(self, X, sample_weight)
        self._stream = stream
        model, params = stream.published(self)
        for name, value in self._parameter_attributes(model, params, X.dtype).items():
            setattr(self, name, value)
        self.n_samples_seen_ = stream.n_rows
        self.n_steps_ = stream.n_steps
        return self
