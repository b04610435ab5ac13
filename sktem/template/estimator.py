"""Templates of images by stochastic EM, with scikit-learn's face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from threadpoolctl import threadpool_limits

from sktem.e_step.random import spawn_streams
from sktem.estimators.base import USER_FRAME, FitProgress, LoopEstimator, with_callbacks
from sktem.estimators.fit_warnings import warn_of_unused
from sktem.estimators.progress import print_chunk
from sktem.loop.state import RunState
from sktem.template.attributes import TemplateAttributes
from sktem.template.images import TemplateImages
from sktem.template.samplers import DEFORMATION_SAMPLERS
from sktem.template.scores import TemplateScores
from sktem.template.setup import TemplateSetup
from sktem.template.stream import TemplateStream

__all__ = ["DeformableTemplateEstimator"]


class DeformableTemplateEstimator(
    TemplateScores,
    TemplateImages,
    TemplateSetup,
    TemplateAttributes,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    DensityMixin,
    LoopEstimator,
):
    """Template of a class of images, and how they deform it.

    Every image is a template, carried along by a smooth random displacement of its
    pixels, plus noise: ``y(u) = I(x_u - Phi(x_u)) + noise``. The template ``I`` and the
    displacements ``Phi`` are sums of Gaussian kernels about landmarks; the landmarks'
    displacements are Gaussian, with a covariance that is learned. With several
    components, an image belongs to one of several templates.

    A few images are enough: the model knows what a deformation is. It is meant for
    small images (16 to 128 pixels a side) of one kind of object, centred and of similar
    size: handwriting, glyphs, cells, stamps; for signals (one axis) and small volumes
    (three axes). Displacements are not forced to be invertible: see ``fold_rate_``.

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        Pixels along each of one to three axes; ``(m,)`` for signals. None takes the
        shape of ``X`` if it has more than two axes; rows are squares then.
    n_components : int, default=1
        Number of templates.
    template_landmarks : int, tuple of int or "auto", default="auto"
        Landmarks of the template along the longest axis, equally spaced along the
        others, or their numbers along each axis. They reach beyond the image. "auto"
        is 18 for images of up to 16 pixels, and as dense (1.3 pixels apart) in larger
        ones, up to 5,000 altogether (2,744 for volumes). A number means at most two
        more than the pixels.
    deformation_landmarks : int, tuple of int or "auto", default="auto"
        The same for the displacements; they cover the image. "auto" is 10 for signals,
        6 for images and 4 for volumes, whatever their size. A number means at most
        half the pixels.
    template_scale : float or "auto", default="auto"
        Standard deviation of the template's kernel in pixels; "auto" is 0.93 spacings
        of its landmarks (1.2 pixels for images of 16).
    deformation_width : float or "auto", default="auto"
        Standard deviation of the displacements' kernel in pixels; "auto" is one
        spacing of the landmarks (3 pixels for images of 16). Larger ones make smoother
        deformations.
    deformation_scale : float or "auto", default="auto"
        Displacements that the prior expects, as a standard deviation in pixels; "auto"
        is 0.3 pixels for images of up to 16, and in proportion for larger ones.
    prior_strength : float or "auto", default="auto"
        Weight of that prior, in images; 0 turns it off. "auto" is 50. Strong priors
        keep few images from being explained by wild deformations.
    template_prior : float or None, default=0.5
        Prior standard deviation of the template's values, in standard deviations of
        the pixels; None turns the prior off. It decides where no pixel does.
    noise_prior_scale : float, default=0.3
        Noise that a prior expects, in standard deviations of the pixels.
    noise_prior_strength : float, default=0.0
        Weight of that prior, in pixels; 0 turns it off.
    weight_concentration : float, default=1.0
        Images that a Dirichlet prior adds to every component.
    covariance_type : {"full", "shared", "isotropic"}, default="full"
        Covariance of the landmarks: any, the same along all axes and independent
        between them, or a multiple of the identity.
    solver : str or Solver, default="isaem"
        "saem", "online", "isaem", "vrttem", "fittem", "biased-saem" (SAEM with
        unadjusted Langevin), or an instance.
    sampler : str or Sampler, default="auto"
        How deformations are drawn: "mala" (Langevin, preconditioned by the curvature
        of the population), "ula" (the same without accept test), "rwm" (random walk of
        landmarks), "gibbs" (coordinates from their prior given the others), or an
        instance of a class of :mod:`sktem.samplers`. Chains persist between visits.
        "auto" is what the solver's name implies, else "mala".
    n_steps : int or None, default=None
        Transitions per visit of an image; None means 5 (1 sweep with "gibbs").
    batch_size : int or "auto", default="auto"
        Images per iteration; "auto" is a tenth of the images, at least 20.
    sampling : {"fixed", "shuffle", "inclusion"}, default="shuffle"
        Batches of distinct images drawn at random, consecutive ones of a shuffled
        order, or images included independently.
    step_size : float, Schedule, callable or "auto", default="auto"
        Step gamma of the stochastic approximation; "auto" is 1 for half of the
        iterations, then ``k ** -0.6``, and ``(k + 2) ** -0.6`` on a stream.
    rho : float or "auto", default="auto"
        Step of the variance reduction of "vrttem" and "fittem"; "auto" is ``(n /
        batch_size) ** (-2 / 3)``.
    average : bool, int, "tail" or "random", default=False
        Returned iterate: the last, an average from an epoch on, an average over about
        the last quarter, or a random one.
    max_iter : int, default=40
        Passes over the images.
    random_state : int, RandomState, Generator or None, default=None
        Seed; an integer makes the result the same at every call.
    n_jobs : int or None, default=None
        Threads; the result does not depend on their number.
    warm_start : bool, default=False
        Start from the parameters of the previous fit.
    verbose : int, default=0
        1 prints epochs.
    verbose_interval : int, default=10
        Epochs between prints.

    Attributes
    ----------
    templates_ : ndarray of shape (n_components, ...)
        Templates at the pixels, in units of the images, at the mean deformation:
        ``inverse_transform(mean_deformations_)``. A template and the deformations of
        images are known only up to a common deformation; here they vary about the
        template that is shown.
    mean_deformations_ : ndarray of shape (n_components, n_latents)
        Mean deformations of the training images.
    weights_ : ndarray of shape (n_components,)
        Shares of the components.
    covariances_ : ndarray of shape (n_components, n_latents, n_latents)
        Second moments of the landmarks' displacements in pixels; those of all landmarks
        along the first axis of the image come first.
    noise_variances_ : ndarray of shape (n_components,)
        Variances of the noise.
    coefficients_ : ndarray of shape (n_components, n_template_landmarks)
        Template coefficients beta, in standardised units.
    fold_rate_ : float
        Share of the training images whose deformation folds (the Jacobian determinant
        of ``x - Phi(x)`` is not positive at some pixel); on a stream a
        moving average over about the latest fifty.
    folded_pixels_ : float
        Share of the pixels of these images that lie in a fold. More than 0.05 give a
        :class:`~sktem.exceptions.FitWarning`.
    converged_ : bool
        Whether template and noise had settled in the last third of the passes, by
        their change relative to what the steps allow. If they had not in 20 passes or
        more, there is a ``ConvergenceWarning``.
    image_shape_ : tuple of int
        Shape of the images.
    grid_ : ImageGrid
        Landmarks and kernels.
    history_ : History
        Record of the run.
    n_iter_ : int
        Passes over the images, rounded up.
    n_samples_seen_ : int
        Images of a stream so far; set by ``partial_fit`` only.
    n_features_in_ : int
        Number of pixels.

    See Also
    --------
    DeformableTemplateClassifier : One model per class and Bayes' rule.

    Notes
    -----
    A pixel that is NaN was not observed; it drops out of the likelihood and of the
    statistics. Intensities are standardised by the standard deviation of all pixels,
    about the median of those along the border.

    References
    ----------
    S. Allassonniere, Y. Amit and A. Trouve, Towards a coherent statistical framework
    for dense deformable template estimation, JRSS B 69, 2007.

    B. Karimi and P. Li, Two-Timescale Stochastic EM Algorithms, 2021, section IV.B.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktem import DeformableTemplateEstimator
    >>> X, y = load_digits(return_X_y=True)
    >>> fives = X[y == 5][:30]
    >>> estimator = DeformableTemplateEstimator((8, 8), max_iter=80, random_state=0)
    >>> estimator = estimator.fit(fives)
    >>> estimator.templates_.shape
    (1, 8, 8)
    >>> estimator.transform(fives).shape
    (30, 32)
    """

    _samplers: ClassVar[Mapping[str, type]] = DEFORMATION_SAMPLERS
    # What the base class asks for and this estimator does without.
    n_draws: ClassVar[None] = None
    tol: ClassVar[float] = 0.0
    n_iter_no_change: ClassVar[int] = 3

    def __init__(
        self,
        image_shape=None,
        n_components=1,
        *,
        template_landmarks="auto",
        deformation_landmarks="auto",
        template_scale="auto",
        deformation_width="auto",
        deformation_scale="auto",
        prior_strength="auto",
        template_prior=0.5,
        noise_prior_scale=0.3,
        noise_prior_strength=0.0,
        weight_concentration=1.0,
        covariance_type="full",
        solver="isaem",
        sampler="auto",
        n_steps=None,
        batch_size="auto",
        sampling="shuffle",
        step_size="auto",
        rho="auto",
        average=False,
        max_iter=40,
        random_state=None,
        n_jobs=None,
        warm_start=False,
        verbose=0,
        verbose_interval=10,
    ):
        self.image_shape = image_shape
        self.n_components = n_components
        self.template_landmarks = template_landmarks
        self.deformation_landmarks = deformation_landmarks
        self.template_scale = template_scale
        self.deformation_width = deformation_width
        self.deformation_scale = deformation_scale
        self.prior_strength = prior_strength
        self.template_prior = template_prior
        self.noise_prior_scale = noise_prior_scale
        self.noise_prior_strength = noise_prior_strength
        self.weight_concentration = weight_concentration
        self.covariance_type = covariance_type
        self.solver = solver
        self.sampler = sampler
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.sampling = sampling
        self.step_size = step_size
        self.rho = rho
        self.average = average
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags

    def _best_sampler(self, model):
        return "mala"

    def _with_settings(self, sampler, model):
        if isinstance(sampler, type):
            return sampler() if self.n_steps is None else sampler(n_steps=self.n_steps)
        if self.n_steps is not None:
            raise ValueError(
                "n_steps is a parameter of the sampler: set it there, not on the "
                "estimator, when sampler is an instance"
            )
        return sampler

    def _settings(self, model, n_rows):
        settings = super()._settings(model, n_rows)
        if self.n_components > 1 and not hasattr(settings.sampler, "kind"):
            raise ValueError(
                "a mixture of templates needs a sampler that moves labels: one of "
                f"{sorted(self._samplers)} or an instance of their classes"
            )
        if isinstance(self.step_size, str):
            settings = replace(settings, step_size=self._default_step(settings, n_rows))
        return replace(settings, monitor=False)

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the templates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images; NaN where a pixel was not observed.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a weight means repetition.

        Returns
        -------
        DeformableTemplateEstimator
            The fitted estimator.
        """
        state, settings = self._learn(X, sample_weight)
        self._warn(state, settings)
        self._warn_of_drift()
        self._warn_of_folds()
        return self

    def _learn(self, X, sample_weight=None):
        """Fit without a warning; return the state and the settings of the run."""
        self._check_parameters()
        X, sample_weight = self._validate(X, sample_weight, reset=True)
        self.__dict__.pop("_stream", None)
        mass = float(len(X) if sample_weight is None else sample_weight.sum())
        warm = self.warm_start and hasattr(self, "coefficients_")
        if warm and self.grid_.image_shape == self.image_shape_:
            self._check_same()
        else:
            warm = False
            self.grid_ = self._new_grid()
            self._offset, self._scale = self._standards(X, sample_weight)
        start = self._params() if warm else None
        state, settings, interrupted = self._run(X, sample_weight, mass, start)
        for name, value in self._fitted_attributes(settings, state, X).items():
            setattr(self, name, value)
        self._statistics = state.returned
        if interrupted:
            raise KeyboardInterrupt
        return state, settings

    def _run(self, X, sample_weight, mass, start):
        """Run the loop on images, from given or from starting parameters."""
        Y = (X - self._offset) / self._scale
        model = self._new_model(self.grid_, mass, start_at_mode=start is not None)
        settings = self._settings(model, len(X))

        def new_run(progress):
            streams = spawn_streams(self.random_state)
            params = start
            if params is None:
                params = self._start(model, Y, sample_weight, streams.initialisation)
            return RunState(params, streams)

        warn_of_unused(self, settings, USER_FRAME + 1)
        # The matrices are small: more threads of BLAS would only wait for each other.
        with threadpool_limits(1, "blas"):
            state, interrupted = self._run_starts(
                settings, Y, sample_weight, new_run, 1, FitProgress()
            )
        return state, settings, interrupted

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a chunk of a stream of images, with constant memory.

        The first images are kept until there are enough to start from, 20 for every
        component; they are fitted like a data set. Afterwards each batch of images
        changes the averaged statistics by a step: see :class:`sktem.loop.stream.Stream`
        for what each solver means on a stream. Chains of new images start at a mode of
        their posterior; their draws, though not the law of these, depend on how the
        stream is cut.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        DeformableTemplateEstimator
            The estimator.
        """
        self._check_parameters()
        first = not hasattr(self, "_stream") and not hasattr(self, "coefficients_")
        X, sample_weight = self._validate(X, sample_weight, reset=first)
        if not hasattr(self, "_stream"):
            self._stream = TemplateStream(self)
        self._stream.update(self, X, sample_weight)
        self.n_samples_seen_ = self._stream.n_rows
        self._warn_of_folds()
        print_chunk(self, len(X), "images")
        return self

    @property
    def _n_features_out(self):
        return self.grid_.n_latents
