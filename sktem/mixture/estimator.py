"""Gaussian mixture with scikit-learn's face and stochastic EM inside."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import copy
from functools import partial
from numbers import Real
from typing import ClassVar, Literal

import numpy as np
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from sktem.arrays import TensorRows, input_arrays, numpy_of
from sktem.choices import check_choice
from sktem.emissions.covariances import COVARIANCES
from sktem.emissions.frames import as_frame
from sktem.emissions.magnitudes import check_magnitude
from sktem.emissions.tables import is_frame
from sktem.estimators.by_blocks import checked_rows
from sktem.estimators.parameters import (
    Auto,
    Average,
    BatchSize,
    NumberOfStates,
    SamplerLike,
    Sampling,
    Seed,
    SolverLike,
    StepSize,
)
from sktem.estimators.weights import positive_rows
from sktem.mixture.face import MixtureEstimator
from sktem.mixture.fitted import FittedGaussianMixture
from sktem.mixture.given import as_dtype
from sktem.mixture.model import GaussianMixtureModel, GaussianMixtureParams
from sktem.mixture.prior import GaussianMixturePrior
from sktem.mixture.settings import GaussianMixtureSettings
from sktem.mixture.tensors import like_rows
from sktem.rows.held import carrier_of
from sktem.rows.sources import found_rows
from sktem.validation import validate_data

__all__ = ["StochasticEMGaussianMixture"]

#: Fitted attributes that scikit-learn's class has too.
SHARED_ATTRIBUTES = (
    "weights_",
    "means_",
    "covariances_",
    "precisions_",
    "precisions_cholesky_",
    "converged_",
    "n_iter_",
    "lower_bound_",
    "lower_bounds_",
    "n_features_in_",
    "feature_names_in_",
)

#: Those of a stream that are computed when they are read.
PARAMETER_ATTRIBUTES = SHARED_ATTRIBUTES[:5]


class StochasticEMGaussianMixture(MixtureEstimator):
    """Gaussian mixture for large data and streams.

    A superset of :class:`sklearn.mixture.GaussianMixture`: the same parameters,
    attributes and methods, plus stochastic solvers, ``partial_fit``, ``sample_weight``,
    priors and a fixed unit covariance. The E-step is compiled, allocates no array of
    size (n_samples, n_components), and gives the same result to the last bit for any
    number of threads ``n_jobs``. Arrays of other namespaces, such as PyTorch tensors,
    are accepted under ``sklearn.config_context(array_api_dispatch=True)``; the E-step
    then runs on their device.

    The parameters come in five groups: the *model* (``n_components`` to ``reg_covar``),
    the *start* (``init_params`` to ``n_init``), the *algorithm* (``solver`` to
    ``n_iter_no_change``), the *prior*, and how the fit is *run* (``n_jobs`` to
    ``memory``). A batch fit needs only the first two.

    Parameters
    ----------
    n_components : int, "auto", "bic" or "icl", default=1
        Number of components. The name of a criterion ("auto" is "bic") searches for the
        number with its lowest value. The search begins with one component and takes the
        best split of a component, or the best merge of two, as long as this lowers the
        criterion; it tries splits for two more components after that. Components are
        split by k-means with ``n_init`` starts. Components with fewer than five rows
        per parameter of a column, and fits that end with a warning, are rejected.
    covariance_type : {"full", "tied", "diag", "spherical", "unit"}, default="full"
        Each component has its own matrix, all share one matrix, each has its own
        variances, each has a single variance, or all have the identity (known, not
        learned).
    reg_covar : float, default=1e-6
        Added to the diagonal of covariances.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"} or callable, \
            default="kmeans"
        The start. For rows without holes, "kmeans" and "random" are scikit-learn's to
        the bit. Under "kmeans", rows with holes belong to the cluster that is nearest
        in their observed columns (Chi, Chi and Baraniuk 2016). "k-means++" and
        "random_from_data" assign each row to the nearest of the chosen rows. A callable
        gets ``(X, n_components, random_state)`` and returns responsibilities
        (n_samples, n_components) or labels (n_samples,). With ``tol="auto"``, a fit
        from clusters or random rows continues from the best of eight short runs around
        random rows if that gains at least eight nats in total and each of its
        components has at least ``2 * (n_features + 1)`` rows.
    init_size : int, "auto" or None, default="auto"
        Number of rows, drawn at random, from which the start is made; None means all.
        "auto" takes all rows up to ``max(2**18 // n_features, 100 * n_components *
        (n_features + 1))``, or fewer where these would hold more than four million
        numbers. If there are more rows, the means come from a sample of that size and
        each row begins with the nearest mean, because k-means on all rows would cost
        more than the fit.
    weights_init : array-like of shape (n_components,) or None, default=None
        Starting weights.
    means_init : array-like of shape (n_components, n_features) or None, default=None
        Starting means.
    precisions_init : array-like or None, default=None
        Starting precisions, in the shape of ``precisions_``. When weights, means and
        precisions are given, no other start is made.
    n_init : int, default=1
        Number of starts; the run with the best lower bound is kept.
    solver : str or Solver, default="em"
        The algorithm: "em", "squarem" and "daarem" (EM with extrapolated steps, which
        may end in another optimum), "mcem", "saem", "online", "iem", "isaem", "vrttem",
        "fittem", or an instance of a class of :mod:`sktem.solvers`; "auto" is "em", or
        "saem" with ``sampler="mc"``. The default is the compiled EM: it is the only one
        that is never below scikit-learn's result on any data set of
        ``benchmarks/default_solver.py``, because it follows the same path.
        ``VRTTEM(rho=0.1)`` needs several times fewer passes where EM converges slowly
        (overlapping components, many rows), and can end in another optimum, better or
        worse.
    sampler : {"auto", "exact", "mc"} or Sampler, default="auto"
        How latents are treated: "exact" posterior probabilities, or "mc", draws from
        them (the setting of the papers). "auto" is what the solver's name implies ("mc"
        for "mcem" and "saem"), else "exact". The number of draws per visit is 10;
        ``ExactDraws(n_draws=...)`` changes it.
    batch_size : int or "auto", default="auto"
        Rows per iteration of the stochastic solvers. "auto" is a twentieth of the
        rows, at most 1024 (a million on Dask); 1 is the papers' setting.
    sampling : {"shuffle", "fixed", "inclusion"}, default="shuffle"
        "shuffle": the rows in a random order, reshuffled for each pass. "fixed":
        ``batch_size`` rows drawn uniformly at each iteration. "inclusion": each row
        independently with probability ``batch_size / n_samples``.
    step_size : float, Schedule, callable or "auto", default="auto"
        Step gamma of the stochastic approximation. "auto": 1 with exact posterior
        probabilities, ``k ** -0.5`` with draws ("saem" on rows with holes: 1 for 50
        passes or half of ``max_iter``, then ``k ** -0.6``), ``(k + 2) ** -0.6`` for
        "online" (with small batches ``(k + k_0) ** -0.6``, so that the first step is
        not above ``batch_size`` over the number of parameters), and ``(k + 2) ** -0.5``
        in ``partial_fit``. A constant step forgets the past.
    average : bool, int, "tail", "random" or "auto", default="auto"
        Which iterate is returned: False is the last; an integer is the average of the
        statistics from that epoch on (True means 1; on a stream it counts batches);
        "tail" is a running average over about the last quarter of the iterates;
        "random" is iterate k with a probability proportional to its step. "auto" is the
        last iterate in ``fit``, and on a stream "tail" if ``step_size="auto"``, else
        the last.
    max_iter : int, default=1000
        Maximum number of passes over the data (on average, for
        ``sampling="inclusion"``). The initial pass, anchor passes and second index sets
        count.
    tol : float or "auto", default="auto"
        Threshold of convergence, in nats per row. "em" stops when the lower bound
        changes by less, as in scikit-learn, and so does "vrttem" from anchor to anchor.
        "auto" is 1e-6. In addition, if the changes of "em" hardly shrink any more, so
        that by extrapolation at least five times that much is left to gain, the run
        continues with steps of "squarem" until less is left. The other solvers stop
        when the lower bound, measured on a fixed sample of rows, has not risen by
        ``tol`` for ``n_iter_no_change`` epochs. "online" and solvers with draws then
        continue with passes of "em", unless ``average`` is set, because their last
        steps leave noise in the parameters. 0 means never. Scikit-learn's default,
        1e-3, stops up to 0.02 nats per row short, and 1e-6 alone by more where EM
        passes a saddle.
    n_iter_no_change : int, default=3
        See ``tol``.
    prior : GaussianMixturePrior or None, default=None
        Penalties on weights, means and covariances; None is maximum likelihood.
    n_jobs : int or None, default=None
        Threads of the E-step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start and of the solvers.
    warm_start : bool, default=False
        Continue from the previous fit.
    verbose : int, default=0
        1 prints epochs, 2 also the time and the change of the lower bound. For progress
        bars see :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of epochs between prints.
    memory : str or None, default=None
        Folder for what a solver remembers of each row, kept as a memory map in a file
        that is deleted after the fit; None keeps it in memory. For Dask collections see
        :ref:`rows-dask`.

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
        Mean log-likelihood per row over all rows (less the penalty). With "em" it is
        the value before the last M-step, as in scikit-learn.
    lower_bounds_ : list of float
        The objective of each epoch of the best run, see :class:`sktem.history.History`.
        Extrapolated steps that were given up are included.
    history_ : History
        The record of the best run: passes, mean field, steps, events.
    fitted_ : FittedMixture
        The fitted mixture as an object: its model and its parameters.
    n_components_ : int
        Number of components.
    component_search_ : list of SearchStep
        Tuples ``(n_components, move, criterion)`` of the mixtures fitted during the
        search for the number of components, if there was one.
    n_samples_seen_ : int
        Number of rows seen by ``fit`` or on the stream.
    n_steps_ : int
        Number of steps made on a stream; set by ``partial_fit``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all names in X are strings.

    See Also
    --------
    StochasticEM : Any latent-variable model with the same solvers.

    Notes
    -----
    All statistics are kept in float64 relative to a fixed centre, so that a common
    offset of the data costs no digits; results of float32 data are float32. A component
    that loses all its data keeps its parameters with weight zero, and a covariance that
    is not positive definite is floored. Both are counted in ``history_.events`` and
    reported in one :class:`sktem.exceptions.FitWarning`.

    References
    ----------
    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, section IV.A.

    O. Cappe and E. Moulines, On-line expectation-maximization algorithm for latent
    data models, JRSS B 71, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEMGaussianMixture
    >>> X = np.array([[0, 2], [1, 4], [2, 0], [9, 2], [10, 4], [11, 0]])
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

    _parameter_names = PARAMETER_ATTRIBUTES
    _moved_parameters: ClassVar[Mapping[str, str]] = {
        **MixtureEstimator._moved_parameters,
        **{
            name: f"prior=GaussianMixturePrior({name}=...)"
            for name in inspect.signature(GaussianMixturePrior).parameters
        },
    }

    _advice_on_labels = (
        ", or take StochasticEMMixture, which has distributions of labels"
    )

    def __init__(
        self,
        n_components: NumberOfStates = 1,
        *,
        covariance_type: Literal["full", "tied", "diag", "spherical", "unit"] = "full",
        reg_covar: float = 1e-6,
        init_params="kmeans",
        init_size: int | Auto | None = "auto",
        weights_init=None,
        means_init=None,
        precisions_init=None,
        n_init: int = 1,
        solver: SolverLike = "em",
        sampler: SamplerLike = "auto",
        batch_size: BatchSize = "auto",
        sampling: Sampling = "shuffle",
        step_size: StepSize = "auto",
        average: Average | Auto = "auto",
        max_iter: int = 1000,
        tol: float | str = "auto",
        n_iter_no_change: int = 3,
        prior=None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        memory: str | None = None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.init_params = init_params
        self.init_size = init_size
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
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
        self.prior = prior
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.memory = memory

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: arrays of other namespaces are welcome."""
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def _continued(self, model):
        """Return parameters and statistics of the previous fit."""
        params = self._fitted_params(model.centre)
        return params, model.statistics_of(params)

    def _fitted_params(self, centre):
        """Return the fitted attributes as parameters of a model."""
        names = ("weights_", "means_", "covariances_", "precisions_cholesky_")
        values = (numpy_of(getattr(self, name), np.float64) for name in names)
        weights, means, *matrices = values
        return GaussianMixtureParams(weights, means - centre, *matrices)

    def _fitted(self):
        """Return the fitted attributes as an object."""
        model = GaussianMixtureModel(
            self.means_.shape[0],
            covariance_type=self.covariance_type,
            centre=numpy_of(self.means_, np.float64).mean(axis=0),
            n_jobs=self.n_jobs,
        )
        return FittedGaussianMixture(model, self._fitted_params(model.centre))

    def _settings_of_rows(self):
        """Return settings without a start of another number of components."""
        names = ("weights_init", "means_init", "precisions_init")
        return {**dict.fromkeys(names), "n_jobs": None}

    def _given_row(self, columns, values):
        """Return a row that has only the given values."""
        row = np.full(self.n_features_in_, np.nan)
        row[columns] = values
        check_array(row[None], ensure_all_finite="allow-nan")
        check_magnitude(row[None], getattr(self, "feature_names_in_", None))
        return row

    def _settings_of_columns(self, fitted):
        """Return the settings of a mixture of some columns: no start, no prior."""
        names = ("weights_init", "means_init", "precisions_init", "prior")
        return dict.fromkeys(names)

    def _attributes_of_columns(self, fitted, columns):
        """Return fitted attributes of a mixture of some columns."""
        gaussian, centre = fitted.params.emission, np.zeros(len(columns))
        matrices = gaussian.covariances, gaussian.precisions_cholesky
        model = GaussianMixtureModel(
            len(gaussian.means), covariance_type=self.covariance_type, centre=centre
        )
        params = GaussianMixtureParams(fitted.params.weights, gaussian.means, *matrices)
        like = self.means_
        like = like if isinstance(like, np.ndarray) else TensorRows(like)
        return self._parameter_attributes(model, params, like)

    @property
    def _check_block(self):
        """Return a check of a block, without the estimator."""
        names = getattr(self, "feature_names_in_", None)
        return partial(check_magnitude, names=names)

    def _filled(self, X, rows):
        """Return rows without holes as a table like the given one."""
        return as_frame(dict(enumerate(rows.T)), like=X) if is_frame(X) else rows

    def _drawn(self, n_samples):
        """Return rows of the mixture and their components."""
        fitted = self.fitted_
        model, params = fitted.model, fitted.params
        K, d = params.means.shape
        seed = self.random_state
        if isinstance(seed, np.random.Generator):
            rng: np.random.Generator | np.random.RandomState = seed
        else:
            rng = check_random_state(seed)
        counts = rng.multinomial(n_samples, params.weights / params.weights.sum())
        structure = model.structure(d)
        parts = [
            mean + structure.draw(params.covariances, k, int(counts[k]), rng)
            for k, mean in enumerate(numpy_of(self.means_, np.float64))
        ]
        X = np.vstack(parts)
        labels = np.repeat(np.arange(K), counts)
        if isinstance(self.means_, np.ndarray):
            return X.astype(self.means_.dtype), labels
        like = TensorRows(self.means_)
        return like_rows(like, X), like_rows(like, labels)

    def to_sklearn(self):
        """Return a fitted ``GaussianMixture`` of scikit-learn with the same parameters.

        It gives the same predictions where sktem is not installed, and converters such
        as skl2onnx support it.

        Returns
        -------
        sklearn.mixture.GaussianMixture
            A new object; fitting it again does not change this one.

        Examples
        --------
        >>> import numpy as np
        >>> from sktem import StochasticEMGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> mixture = StochasticEMGaussianMixture(2, random_state=0, tol=1e-3).fit(X)
        >>> bool(np.allclose(mixture.to_sklearn().score(X), mixture.score(X)))
        True
        """
        check_is_fitted(self)
        kind = "spherical" if self.covariance_type == "unit" else self.covariance_type
        twin = GaussianMixture(len(self.weights_), covariance_type=kind)
        for name in SHARED_ATTRIBUTES:
            if hasattr(self, name):
                setattr(twin, name, copy(getattr(self, name)))
        return twin

    def _check_parameters(self):
        self._check_start()
        self._check_number("reg_covar", Real, 0)
        if not isinstance(self.prior, GaussianMixturePrior | None):
            raise TypeError(
                f"prior must be a GaussianMixturePrior or None, got {self.prior!r}"
            )
        check_choice("covariance_type", self.covariance_type, COVARIANCES)

    def _validate(self, X, sample_weight=None, *, reset, ensure_min_samples=1):
        if reset and (source := found_rows(X)) is not None:
            args = partial(check_magnitude, names=source.names), ensure_min_samples
            return checked_rows(self, source, sample_weight, *args, allow_nan=True)
        X = X.values if carrier_of(X).holds_tensors else X  # of a callback
        arrays = input_arrays(X)
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=[arrays.xp.float64, arrays.xp.float32],
            order="C" if arrays.is_numpy else None,
            ensure_all_finite="allow-nan" if arrays.is_numpy else True,
            ensure_min_samples=ensure_min_samples,
        )
        X = X if arrays.is_numpy else TensorRows(X)
        check_magnitude(X, getattr(self, "feature_names_in_", None))
        X, sample_weight = positive_rows(X, sample_weight)
        return X, sample_weight

    def _mixture(self):
        """Return the settings of the mixture."""
        names = getattr(self, "feature_names_in_", None)
        parameters = self.get_params(deep=False)
        return GaussianMixtureSettings.of(parameters, self._n_components, names)

    def _parameter_attributes(self, model, params, X):
        dtype = X.dtype
        structure = model.structure(params.means.shape[1])
        factors = params.precisions_cholesky
        values = {
            "weights_": params.weights.astype(dtype),
            "means_": (params.means + model.centre).astype(dtype),
            "covariances_": as_dtype(params.covariances, dtype),
            "precisions_cholesky_": as_dtype(factors, dtype),
            "precisions_": as_dtype(structure.precisions(factors), dtype),
        }
        if carrier_of(X).holds_tensors:
            values = {name: like_rows(X, value) for name, value in values.items()}
        # Of float64 where the dtype of X cannot hold them.
        return {**values, "n_components_": len(params.weights)}
