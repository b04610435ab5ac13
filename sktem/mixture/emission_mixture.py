"""Mixtures of any emission, with holes."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features

from sktem.e_step.random import drawing_generator
from sktem.emissions.columns import Columns
from sktem.emissions.tables import Table, is_frame
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
from sktem.mixture.emission_model import EmissionMixtureModel, EmissionMixtureParams
from sktem.mixture.face import MixtureEstimator
from sktem.mixture.fitted import FittedMixture
from sktem.mixture.latent_classes import classification_table, entropy_r2, profiles_of
from sktem.mixture.repeated import distinct_rows
from sktem.mixture.settings import EmissionMixtureSettings
from sktem.rows.sources import found_rows
from sktem.validation import validate_data, without_mask

__all__ = ["StochasticEMMixture"]


class StochasticEMMixture(MixtureEstimator):
    """Mixture with any emission, for tables with labels, counts and missing values.

    Each component has its own distribution of a row, the *emission*: see
    :mod:`sktem.emissions`. Values that are NaN (None, pandas' NA) are missing and are
    integrated out, in ``fit`` and in all other methods; they are assumed to be missing
    at random given what is observed. Data frames need no encoding: columns of labels
    (strings, categories, booleans) are categorical.

    Parameters
    ----------
    n_components : int, "auto", "bic" or "icl", default=1
        Number of components. The name of a criterion ("auto" is "bic") searches for the
        number with its lowest value. The search begins with one component and takes the
        best split of a component, or the best merge of two, as long as this lowers the
        criterion; it tries splits for two more components after that. Components are
        split by k-means with ``n_init`` starts. Components with fewer than five rows
        per parameter of a column, and fits that end with a warning, are rejected.
    emission : str or Emission, default="gaussian"
        The name of an emission for the columns of numbers: "gaussian", "student_t",
        "factor_analyser", "bernoulli", "categorical", "poisson", "negative_binomial",
        "gamma", "exponential", "log_normal", "multinomial", "von_mises" or
        "von_mises_fisher"; "auto" treats columns of integers as counts
        ("negative_binomial"), or as labels if they have only two values and counts
        would hardly have those two alone, and booleans as labels. Whole numbers that
        are stored as floats are included if some are zero or missing. Other numbers
        are "gaussian", and so are integers of more than ten values whose mean is more
        than four standard deviations from zero, such as years and heights.
        Columns of labels of a data frame or a file are categorical whatever the name.
        Alternatively, an instance of a class of :mod:`sktem.emissions` for all columns,
        such as ``Columns([(name, emission, columns), ...])``, which gives each group of
        columns its own emission.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"} or callable, \
            default="kmeans"
        The start. Distances are those of standardised numbers and of indicators of
        labels; complete rows of a Gaussian emission are not standardised. Rows with
        holes belong to the cluster that is nearest in their observed columns
        ("kmeans"), or have their holes filled with the mean. With up to 16,384 rows,
        "kmeans" is the tightest of ten clusterings, or one of four starts around random
        rows if fifteen passes of EM lead higher from there. A Gaussian emission starts
        as in :class:`~sktem.StochasticEMGaussianMixture`. A callable gets ``(X,
        n_components, random_state)``, where X has codes in place of labels, and returns
        responsibilities (n_samples, n_components) or labels (n_samples,).
    init_size : int, "auto" or None, default="auto"
        Number of rows, drawn at random, from which the start is made; None means all.
    n_init : int, default=1
        Number of starts; the run with the best lower bound is kept.
    solver : str or Solver, default="em"
        The algorithm: "em", "mcem", "saem", "online", "iem", "isaem", "vrttem",
        "fittem", or an instance of a class of :mod:`sktem.solvers`; "auto" is "em",
        or "saem" with ``sampler="mc"``.
    sampler : {"auto", "exact", "mc"} or Sampler, default="auto"
        How latents are treated: "exact" posterior probabilities, or "mc", draws from
        them. "auto" is what the solver's name implies, else "exact". The number of
        draws per visit is 10; ``ExactDraws(n_draws=...)`` changes it.
    batch_size : int or "auto", default="auto"
        Rows per iteration of the stochastic solvers. "auto" is a twentieth of the
        rows, at most 1024.
    sampling : {"shuffle", "fixed", "inclusion"}, default="shuffle"
        How batches are drawn: see :class:`StochasticEMGaussianMixture`.
    step_size : float, Schedule, callable or "auto", default="auto"
        Step gamma of the stochastic approximation. "auto": 1 with exact posterior
        probabilities, ``k ** -0.5`` with draws ("saem": 1 for 50 passes or half of
        ``max_iter``, then ``k ** -0.6``), ``(k + 2) ** -0.6`` for "online", and
        ``(k + 2) ** -0.5`` in ``partial_fit``.
    average : bool, int, "tail", "random" or "auto", default="auto"
        Which iterate is returned; "auto" is the last one in ``fit``, and on a stream
        "tail" if ``step_size="auto"``, else the last.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    tol : float or "auto", default="auto"
        Threshold of convergence, in nats per row, for the change of the lower bound in
        a pass. "auto" is 1e-6; "em" then continues with steps of "squarem" if, by
        extrapolation, at least five times that much is left to gain. Once they have
        converged, "online" and solvers with draws continue with passes of "em", unless
        ``average`` is set, because their last steps leave noise in the parameters. 0
        means never.
    n_iter_no_change : int, default=3
        Number of epochs without a rise by ``tol`` after which stochastic solvers stop.
    weight_concentration : float, default=0.0
        Dirichlet penalty epsilon, per row: ``weight_k = (s_k + epsilon) / (1 + epsilon
        n_components)``. Priors on the components are parameters of the emissions.
    n_jobs : int or None, default=None
        Threads of the E-step. The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start and of the solvers.
    warm_start : bool, default=False
        Continue from the previous fit.
    verbose : int, default=0
        1 prints epochs, 2 also the time and the change of the lower bound.
    verbose_interval : int, default=10
        Number of epochs between prints.
    memory : str or None, default=None
        Folder for what a solver remembers of each row; None keeps it in memory.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Mixing weights.
    params_ : NamedTuple
        Parameters of the emission for each component.
    emission_ : Emission
        The fitted emission, with columns given by index.
    categories_ : dict of int to ndarray
        Labels of the categorical columns, by column index.
    converged_ : bool
        Whether the run stopped by itself.
    n_iter_ : int
        Passes over the data, rounded up.
    lower_bound_ : float
        Mean log-likelihood of the observed values per row (less the penalty), as last
        recorded.
    lower_bounds_ : list of float
        The same for each epoch of the best run.
    history_ : History
        The record of the best run.
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
    StochasticEMGaussianMixture : Gaussian components in compiled code.
    MixtureImputer : Missing values replaced, as a transformer.

    Notes
    -----
    Solvers that remember rows ("iem", "isaem", "fittem", and "vrttem" with draws) also
    remember the parameters at the time each row was visited, with which its holes were
    filled.

    References
    ----------
    A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data
    via the EM algorithm, JRSS B 39, 1977.

    Examples
    --------
    >>> import numpy as np
    >>> from sktem import StochasticEMMixture
    >>> X = np.array([[1.0, 2], [1, 4], [1, np.nan], [10, 2], [10, 4], [np.nan, 0]])
    >>> mixture = StochasticEMMixture(2, emission="poisson", random_state=0).fit(X)
    >>> np.sort(mixture.params_.rates[:, 0]).round(1)
    array([ 1., 10.])
    >>> mixture.impute(X)[2].round(1)
    array([1. , 2.2])
    """

    _parameter_names = (
        "weights_", "n_components_", "params_", "emission_", "categories_",
    )  # fmt: skip

    def __init__(
        self,
        n_components: NumberOfStates = 1,
        *,
        emission="gaussian",
        init_params="kmeans",
        init_size: int | Auto | None = "auto",
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
        weight_concentration: float = 0.0,
        n_jobs: int | None = None,
        random_state: Seed = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        memory: str | None = None,
    ):
        self.n_components = n_components
        self.emission = emission
        self.init_params = init_params
        self.init_size = init_size
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
        self.weight_concentration = weight_concentration
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.memory = memory

    def _check_parameters(self):
        self._check_start()
        self._check_number("weight_concentration", Real, 0)

    # Tables as rows of numbers --------------------------------------------------

    def _validate(self, X, sample_weight=None, *, reset, ensure_min_samples=1):
        if reset and (source := found_rows(X)) is not None:
            self._learn_table(source)
            source, least = self._table.read(source), ensure_min_samples
            rows, weights = checked_rows(
                self, source, sample_weight, self._check_block, least, allow_nan=True
            )
            if self._table.has_labels:
                rows = rows.mapped(self._table.of_codes().encode)
            return rows, weights
        X = self._as_rows(X, reset, ensure_min_samples)
        X, weights = positive_rows(X, sample_weight)
        self._table.check_rows(X)
        return X, weights

    def _as_rows(self, X, reset, ensure_min_samples):
        """Return a table as rows of float64."""
        if isinstance(X, (np.ma.MaskedArray, list, tuple)):
            X = without_mask(X)
        labelled = is_frame(X) or str(getattr(X, "dtype", "")) == "object"
        if reset and len(getattr(X, "shape", ())) == 2:
            labelled = labelled or np.asarray(X).dtype.kind in "US"
            if labelled and min(X.shape):
                self._table = Table(X, self.emission)
                labelled = self._table.has_labels or self._leaves_columns(X)
        elif not reset:
            labelled = self._table.has_labels and hasattr(X, "shape")
            labelled = labelled or self._leaves_columns(X)
        if labelled and min(X.shape):
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            if len(X) < ensure_min_samples:
                raise ValueError(
                    f"Found array with {len(X)} sample(s) while a minimum of "
                    f"{ensure_min_samples} is required by {type(self).__name__}."
                )
            return self._table.encode(X)
        options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        rows = validate_data(
            self, X, reset=reset, ensure_min_samples=ensure_min_samples, **options
        )
        if reset:
            table = X if is_frame(X) else np.asarray(X)
            typed = is_frame(X) or table.dtype.kind in "iub"
            self._table = Table(table if typed else rows, self.emission)
        return self._table.encode(rows) if self._table.has_labels else rows

    def _leaves_columns(self, X):
        """Return whether a frame may have columns of no block, of any kind."""
        return is_frame(X) and isinstance(self.emission, Columns)

    def _learn_table(self, source):
        """Learn how the columns of rows that are read by blocks become numbers."""
        self._table = Table.of_rows(source, self.emission)

    @property
    def _check_block(self):
        """Return a check of a block, without the estimator."""
        return self._table.of_codes().check if hasattr(self, "_table") else None

    # The parts of a fit ---------------------------------------------------------

    def _mixture(self):
        """Return the settings of the mixture."""
        names = getattr(self, "feature_names_in_", None)
        parameters = {**self.get_params(deep=False), "emission": self._table.emission}
        return EmissionMixtureSettings.of(parameters, self._n_components, names)

    def _run_epochs(self, settings, X, state, sample_weight, on_epoch):
        """Run the epochs of one start, exact passes over each distinct row once."""
        if settings.solver.n_index_sets == 0 and settings.sampler.deterministic:
            X, sample_weight = distinct_rows(X, sample_weight)
        super()._run_epochs(settings, X, state, sample_weight, on_epoch)

    def _continued(self, model):
        """Return parameters of the previous fit; its statistics are not needed."""
        model.like = self.params_
        return EmissionMixtureParams(self.weights_, self.params_), None

    def _parameter_attributes(self, model, params, X):
        return {
            "weights_": params.weights,
            "n_components_": len(params.weights),
            "params_": params.emission,
            "emission_": model.emission,
            "categories_": self._table.categories,
        }

    def _fitted(self):
        """Return the fitted attributes as an object."""
        params = EmissionMixtureParams(self.weights_, self.params_)
        model = EmissionMixtureModel(
            self._table.emission,
            len(self.weights_),
            like=self.params_,
            n_jobs=self.n_jobs,
        )
        return FittedMixture(model, params)

    def _settings_of_rows(self):
        """Return settings for codes in the place of labels."""
        return {"emission": self._table.emission, "n_jobs": None}

    def _given_row(self, columns, values):
        """Return a row of numbers that has only the given values."""
        row = np.full((1, self.n_features_in_), None, dtype=object)
        row[0, columns] = values
        rows = self._table.encode(row)
        self._table.check_rows(rows)
        return rows[0]

    def _settings_of_columns(self, fitted):
        """Return the settings of a mixture of some columns that are its own."""
        return {"emission": fitted.model.emission}

    def _attributes_of_columns(self, fitted, columns):
        """Return fitted attributes of a mixture of some columns."""
        table = self._table.part(fitted.model.emission, columns)
        attributes = self._parameter_attributes(fitted.model, fitted.params, None)
        return {**attributes, "categories_": table.categories, "_table": table}

    def _filled(self, X, rows):
        """Return rows without holes as a table like the given one."""
        names = getattr(self, "feature_names_in_", None) if is_frame(X) else None
        return self._table.decode(rows, names, X)

    def _drawn(self, n_samples):
        """Return rows of the mixture and their components."""
        fitted = self.fitted_
        emission, params = fitted.model.emission, fitted.params
        rng = drawing_generator(self.random_state)
        share = params.weights / params.weights.sum()
        labels = np.repeat(np.arange(len(share)), rng.multinomial(n_samples, share))
        return emission.sample(params.emission, labels, rng), labels

    def _as_table(self, rows):
        """Return drawn rows as a table, with names if it has labels."""
        names = getattr(self, "feature_names_in_", None)
        return self._table.decode(rows, names if self._table.has_labels else None)

    # Latent classes -------------------------------------------------------------

    def entropy_r2(self, X, sample_weight=None):
        """Return how certain the assignment of rows to components is; 1 is certainty.

        This is one minus the mean entropy of the posterior probabilities, divided by
        its maximum, ``log(n_components)``.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return entropy_r2(self.predict_proba(X), sample_weight)

    def classification_table(self, X, sample_weight=None):
        """Return the mean posterior probabilities of the rows of each component.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        ndarray of shape (n_components, n_components)
            Row k is the mean over the rows whose most probable component is k, NaN if
            there are none.
        """
        return classification_table(self.predict_proba(X), sample_weight)

    def class_profiles(self):
        """Return the components as a data frame.

        Returns
        -------
        pandas.DataFrame
            One column per component: its weight, then for each column of the table the
            probability of each label, or the mean.
        """
        fitted, categories = self.fitted_, self._table.categories
        names, d = getattr(self, "feature_names_in_", None), self.n_features_in_
        emission, params = fitted.model.emission, fitted.params
        return profiles_of(emission, params, categories, d, names)
