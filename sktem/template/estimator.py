"""Templates of images by stochastic EM, with scikit-learn's face."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted
from threadpoolctl import threadpool_limits

from sktem.arrays import numpy_of
from sktem.choices import check_number, is_auto
from sktem.e_step.random import seed_sequence, spawn_generators
from sktem.estimators.base import FitProgress, LoopEstimator
from sktem.estimators.by_blocks import checked_rows
from sktem.estimators.parameters import (
    Average,
    BatchSize,
    Sampling,
    Seed,
    SolverLike,
    StepSize,
)
from sktem.estimators.runs import unchanged_by_errors, undone_if_refused, with_callbacks
from sktem.estimators.weights import positive_rows
from sktem.images.patches import Patches
from sktem.images.rows import answer, chunks_of, found_images, images_of_start
from sktem.images.shapes import Layout, is_flat, resolved_shape, rows_of
from sktem.images.units import (
    check_observed,
    checked_images,
    new_images,
    warn_of_outshining,
)
from sktem.loop.state import RunState
from sktem.rows.answers import in_memory
from sktem.rows.partitions import check_can_remember
from sktem.rows.sources import is_stream
from sktem.samplers import Sampler
from sktem.template.coarse import BlockRule, BlockStarts
from sktem.template.fitted import FittedTemplate
from sktem.template.geometry.registration import Registration
from sktem.template.judged import (
    BOUNDS,
    Judged,
    folds_of,
    has_settled,
    warn_of_channels,
    warn_of_pixels,
    warn_of_repetition,
)
from sktem.template.model.samplers import DEFORMATION_SAMPLERS, DeformationSampler
from sktem.template.new_images import warn_of_new
from sktem.template.prior import DeformableTemplatePrior
from sktem.template.settings import (
    Frame,
    TemplateFit,
    TemplateSettings,
    default_step,
    seeds_of_runs,
    starting_params,
)
from sktem.template.stream import STREAM, TemplateStream, TemplateStreamSettings
from sktem.template.turned import warn_of_turned, warn_of_unexplained

__all__ = ["DeformableTemplateEstimator"]

#: Parameters of the prior and the sampler, with these.
MOVED = {
    name: f"prior=DeformableTemplatePrior({name}=...)"
    for name in inspect.signature(DeformableTemplatePrior).parameters
} | {"n_steps": "sampler=DeformationMALA(n_steps=...)"}


@dataclass
class TemplateState(RunState):
    """State of a run whose end is compared with an earlier iteration.

    Attributes
    ----------
    compared : tuple
        Parameters and iteration after two thirds of the passes; empty before.
    objective : float
        What the best of several runs has most of: log-likelihood of an image, by
        Laplace's approximation, less the penalty of the priors.
    images, indices : ndarray or None
        Images in memory that have weight, and their indices for the user.
    few : ndarray or None
        Some of the images, by which folds are judged.
    """

    compared: tuple = ()
    objective: float = np.nan
    images: Any = None
    indices: Any = None
    few: Any = None


class DeformableTemplateEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, LoopEstimator
):
    """Template of a class of images, and the deformations of it.

    Every image is a template, warped by a smooth random displacement of its pixels,
    plus noise: ``y(u) = I(x_u - Phi(x_u)) + noise``. The template ``I`` and the
    displacements ``Phi`` are sums of Gaussian kernels centred at landmarks; the
    landmarks' displacements are Gaussian, with a covariance that is learned. With
    several components, each image belongs to one of several templates.

    A few images are enough, because the model knows what a deformation is. It is meant
    for small images (16 to 128 pixels a side) of one kind of object, centred and of
    similar size, such as handwriting, glyphs, cells or stamps, and also for signals
    (one axis) and small volumes (three axes). Displacements are not forced to be
    invertible: see ``fold_rate_``.

    The parameters come in groups: the *images* and the number of templates, the
    *geometry* (``template_landmarks`` to ``deformation_scale``), the *prior*, how
    images *differ* (``channel_axis`` to ``nuisances``, and ``covariance_type``), the
    *start* (``initial_template``, ``n_init``), the *algorithm* (``solver`` to
    ``max_iter``), and how the fit is *run* (``random_state`` to ``verbose_interval``).

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        Pixels along each of one to three axes; ``(m,)`` for signals. None takes the
        shape of ``X`` if it has more than two axes, and otherwise treats rows as
        squares.
    n_components : int, default=1
        Number of templates.
    template_landmarks : int, tuple of int or "auto", default="auto"
        Number of landmarks of the template along the longest axis, with the same
        spacing along the others, or the number along each axis. They extend beyond the
        image. "auto" is 18 for images of up to 16 pixels, and as dense (1.3 pixels
        apart) in larger ones, up to 5,000 in total (2,744 for volumes). A number may
        exceed that of the pixels by at most two.
    deformation_landmarks : int, tuple of int or "auto", default="auto"
        The same for the displacements, whose landmarks cover the image. "auto" is 10
        for signals, 6 for images and 4 for volumes, whatever their size. A number may
        be at most half that of the pixels.
    template_scale : float or "auto", default="auto"
        Standard deviation of the template's kernel in pixels; "auto" is 0.93 spacings
        of its landmarks (1.2 pixels for images of 16).
    deformation_width : float or "auto", default="auto"
        Standard deviation of the displacements' kernel in pixels; "auto" is one spacing
        of the landmarks (3 pixels for images of 16). Larger values make smoother
        deformations.
    deformation_scale : float or "auto", default="auto"
        Size of the displacements expected by the prior, as a standard deviation in
        pixels; "auto" is 0.3 pixels for images of up to 16, and in proportion for
        larger ones.
    prior : DeformableTemplatePrior or None, default=None
        Strength of the prior on the deformations, and priors on template, noise and
        weights; None takes the defaults of that class.
    channel_axis : int or None, default=None
        Axis of ``X`` along which the channels of colours or signals lie, such as -1 for
        ``(n, height, width, channels)``. They share the deformations, and have
        templates, offsets and scales of their own. None means one channel.
    deformation : {"linear", "diffeomorphic"}, default="linear"
        "linear" adds up the landmarks' displacements; strong ones can fold.
        "diffeomorphic" treats the sum as a velocity and follows it in eight small
        steps, so that nothing folds and every deformation has an inverse.
    nuisances : tuple of str or None, default=None
        Differences between images that are not deformations: any of "translation",
        "rotation" (about the centre of images of two axes), "scale", "gain" and
        "offset" (of brightness, for one component and one channel). They are estimated
        together with the deformation of every image, under wide Gaussian priors.
        Translation, rotation and log scale have mean 0 and standard deviations of an
        eighth of the longest side, 0.35 radians and 0.2; the gain has mean 1 and
        standard deviation 0.5, the offset mean 0 and the standard deviation of all
        pixels. The deformations are learned apart from them.
    initial_template : array-like of shape (n_components, ...) or None, default=None
        Templates to start from, in the units of the images; with one component, an
        array of the shape of an image is enough.
    n_init : int, default=1
        Number of runs with different random numbers; the one with the largest penalised
        likelihood is kept. Where images deform strongly, runs end at maxima that may
        differ by tens of nats per image.
    covariance_type : {"full", "shared", "isotropic"}, default="full"
        Covariance of the landmarks' displacements: unrestricted, the same along all
        axes and independent between them, or a multiple of the identity.
    solver : str or Solver, default="saem"
        "saem", "online", "isaem", "vrttem", "fittem", "biased-saem" (SAEM with
        unadjusted Langevin), or an instance. "auto" is "saem", which makes at least two
        passes in the time of one pass of "isaem" if there are more than some dozen
        images.
    sampler : str or Sampler, default="auto"
        How deformations are drawn: "mala" (Langevin, preconditioned by the curvature of
        the population), "ula" (the same without an accept-reject step), or an instance
        of a class of :mod:`sktem.samplers`. Chains persist between visits. "auto" is
        what the solver's name implies, else "mala". Samplers given by name make five
        transitions per visit of an image.
    batch_size : int or "auto", default="auto"
        Images per iteration; "auto" is a tenth of the images, at least 20.
    sampling : {"fixed", "shuffle", "inclusion"}, default="shuffle"
        Batches are distinct images drawn at random ("fixed"), consecutive ones in a
        shuffled order ("shuffle"), or images included independently ("inclusion").
    step_size : float, Schedule, callable or "auto", default="auto"
        Step gamma of the stochastic approximation; "auto" is 1 for half of the
        iterations, then ``k ** -0.6``, and ``(k + 2) ** -0.6`` on a stream.
    average : bool, int, "tail" or "random", default=False
        Which iterate is returned: the last, an average from an epoch on, an average
        over about the last quarter, or a random one.
    max_iter : int, default=80
        Number of passes over the images.
    random_state : int, RandomState, Generator or None, default=None
        Seed; an integer makes the result the same at every call.
    n_jobs : int or None, default=None
        Number of threads. The result does not depend on it.
    warm_start : bool, default=False
        Start from the parameters of the previous fit.
    verbose : int, default=0
        1 prints epochs. For progress bars see :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of epochs between prints.

    Attributes
    ----------
    templates_ : ndarray of shape (n_components, ...)
        Templates at the pixels, in the units of the images, at the mean deformation:
        ``inverse_transform(mean_deformations_)``. A template and the deformations of
        images are identified only up to a common deformation; these are the templates
        around which the images vary.
    mean_deformations_ : ndarray of shape (n_components, n_latents)
        Mean deformations of the training images.
    weights_ : ndarray of shape (n_components,)
        Weights of the components.
    covariances_ : ndarray of shape (n_components, n_latents, n_latents)
        Second moments of the landmarks' displacements in pixels, without nuisances;
        displacements of all landmarks along the first axis of the image come first.
    nuisance_means_ : ndarray of shape (n_components, n_nuisances)
        Means of the nuisances of the training images in the coordinates of the model,
        if there are any; ``nuisance_covariances_`` are their covariances. Samples are
        drawn from both.
    noise_variances_ : ndarray of shape (n_components,)
        Variances of the noise.
    fitted_ : FittedTemplate
        The templates with their frame, which the methods use.
    coefficients_ : ndarray of shape (n_components, n_template_landmarks)
        Template coefficients beta, in standardised units.
    offset_, scale_ : float
        Images are standardised as ``(X - offset_) / scale_``.
    fold_rate_ : float
        Share of the training images whose deformation folds (the Jacobian determinant
        of ``x - Phi(x)`` is not positive at some pixel); on a stream, a moving average
        over about the last fifty images.
    folded_pixels_ : float
        Share of the pixels of these images that lie in a fold. More than 0.05 gives a
        :class:`~sktem.exceptions.FitWarning`.
    converged_ : bool
        Whether template and noise had settled in the last third of the passes, judged
        by their change relative to what the steps allow. If they had not after 20
        passes or more, there is a ``ConvergenceWarning``.
    image_shape_ : tuple of int
        Shape of the images.
    grid_ : ImageGrid
        Landmarks and kernels.
    history_ : History
        Record of the run.
    n_iter_ : int
        Passes over the images, rounded up.
    n_samples_seen_ : int
        Number of images seen on a stream; set only by ``partial_fit``.
    n_features_in_ : int
        Number of pixels.

    See Also
    --------
    DeformableTemplateClassifier : One model per class, with Bayes' rule.

    Notes
    -----
    A pixel that is NaN is missing; it drops out of the likelihood and of the
    statistics. Intensities are centred at the median of the pixels along the border and
    divided by the standard deviation of all pixels.

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
    >>> zeros = X[y == 0][:30]
    >>> estimator = DeformableTemplateEstimator((8, 8), random_state=0).fit(zeros)
    >>> estimator.templates_.shape
    (1, 8, 8)
    >>> estimator.transform(zeros).shape
    (30, 32)
    """

    _samplers: ClassVar[Mapping[str, type]] = DEFORMATION_SAMPLERS
    _moved_parameters: ClassVar[Mapping[str, str]] = {
        **LoopEstimator._moved_parameters,
        **MOVED,
    }
    _blocks: ClassVar[BlockRule] = BlockRule()
    _stream: TemplateStream | None = None
    fitted_: FittedTemplate

    def __init__(
        self,
        image_shape=None,
        n_components: int = 1,
        *,
        template_landmarks="auto",
        deformation_landmarks="auto",
        template_scale="auto",
        deformation_width="auto",
        deformation_scale="auto",
        prior=None,
        channel_axis: int | None = None,
        deformation: Literal["linear", "diffeomorphic"] = "linear",
        nuisances=None,
        initial_template=None,
        n_init: int = 1,
        covariance_type: Literal["full", "isotropic", "shared"] = "full",
        solver: SolverLike = "saem",
        sampler: Literal["auto", "mala", "ula"] | Sampler = "auto",
        batch_size: BatchSize = "auto",
        sampling: Sampling = "shuffle",
        step_size: StepSize = "auto",
        average: Average = False,
        max_iter: int = 80,
        random_state: Seed = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ):
        self.image_shape = image_shape
        self.n_components = n_components
        self.template_landmarks = template_landmarks
        self.deformation_landmarks = deformation_landmarks
        self.template_scale = template_scale
        self.deformation_width = deformation_width
        self.deformation_scale = deformation_scale
        self.prior = prior
        self.channel_axis = channel_axis
        self.deformation = deformation
        self.nuisances = nuisances
        self.initial_template = initial_template
        self.n_init = n_init
        self.covariance_type = covariance_type
        self.solver = solver
        self.sampler = sampler
        self.batch_size = batch_size
        self.sampling = sampling
        self.step_size = step_size
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

    def _best_sampler(self, model, solver):
        return "mala"

    def _settings(self, model, n_rows=None, *, batch_size=None):
        settings = super()._settings(model, n_rows, batch_size=batch_size)
        has_more_latents = self.n_components > 1 or model.light is not None
        if has_more_latents and not isinstance(settings.sampler, DeformationSampler):
            raise ValueError(
                "a mixture of templates needs a sampler that moves labels, and gain "
                "and offset need one that draws them: one of "
                f"{sorted(self._samplers)} or an instance of their classes"
            )
        if isinstance(self.step_size, str) and n_rows is not None:
            settings = replace(
                settings, step_size=default_step(settings, n_rows, self.max_iter)
            )
        return replace(settings, monitor=False)

    def _resolved_batch_size(self, n_rows):
        if is_auto(self.batch_size):
            # An M-step costs as much as about twenty images.
            return max(1, min(n_rows, max(20, n_rows // 10)))
        return super()._resolved_batch_size(n_rows)

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the templates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, with NaN for missing pixels; or anything that :ref:`can be read in
            blocks <rows-estimators>`, such as the path of ``.npy`` files.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; an image of weight 2 counts as two equal images.

        Returns
        -------
        DeformableTemplateEstimator
            The fitted estimator.
        """
        state, fit = self._learn(X, sample_weight, patched=True)
        self._warn(state, fit.settings)
        images, fitted, odd = state.images, self.fitted_, False
        if images is not None:
            warn_of_outshining(images, self._layout, state.indices)
            warn_of_channels(images, self._layout.n_channels)
            warn_of_repetition(images, sample_weight)
        judged = Judged.of(vars(self))
        if self.history_.passes[-1:] >= [BOUNDS.least_passes]:
            if images is not None:
                odd = warn_of_turned(fitted, images, indices=state.indices)
                odd = odd or warn_of_unexplained(fitted, images, state.indices)
            if not self.converged_:
                judged.warn_of_drift(odd)
            warn_of_pixels(fitted.model, state.params, fitted.standardised(state.few))
        judged.warn(state.n_rows)
        return self

    def _learn(self, X, sample_weight=None, units=None, patched=False):
        """Fit without a warning; return the state of the run and its settings.

        Offset and scale may be given; None takes those of the images. Patches of one
        value are missing pixels where `patched`.
        """
        self._check_parameters()
        source, patches, indices = found_images(X), None, None
        if source is None:
            given = None if sample_weight is None else numpy_of(sample_weight)
            X, sample_weight = self._validated(X, sample_weight, reset=True)
            if given is not None and given.ndim:
                indices = np.flatnonzero(given)
            if patched:
                patches = Patches.of(X, self._layout)
                X = patches.missing(X)
        else:
            X, sample_weight = self._read_by_blocks(source, sample_weight)
        self._stream = None
        settings, start = self._template_settings(), None
        if self.warm_start and hasattr(self, "coefficients_"):
            if self.grid_.image_shape == self.image_shape_:
                settings.check_continues(self.fitted_)
                start = self._template.params
        if start is not None:
            frame = self._template.frame
        elif units is not None:
            frame = Frame(settings.grid, *units)
        else:
            rng = np.random.default_rng(0)
            frame = settings.frame_of(*images_of_start(X, sample_weight, rng))
        frame = frame._replace(patches=patches)
        state, fit, interrupted = self._run(frame, X, sample_weight, start)
        rows = np.linspace(0, len(X) - 1, min(BOUNDS.judged, len(X))).astype(int)
        state.few = np.asarray(X[rows])
        if source is None:
            state.images, state.indices = X, indices
        self._publish(self._fitted_attributes(fit, state, state.few))
        if interrupted:
            raise interrupted
        return state, fit

    def _template_settings(self) -> TemplateSettings:
        """Return the checked parameters of templates of images of the fit."""
        return TemplateSettings.of(vars(self), self._layout)

    def _check_parameters(self):
        """Raise if a parameter is out of its range."""
        TemplateSettings.of(vars(self), None).check()
        self._check_number("n_init", Integral, 1)
        self._check_number("verbose_interval", Integral, 1)

    def _validated(self, X, sample_weight=None, *, reset):
        """Return images as rows of float64, and weights."""
        if reset:
            flat = is_flat(X)
            X, layout = new_images(self, X)
            self._set_layout(X, layout, flat)
        else:
            X = checked_images(self, X, self._layout)
        return positive_rows(X, sample_weight)

    def _read_by_blocks(self, source, sample_weight):
        """Return images of a fit after a pass that checks them, and weights."""
        check_can_remember(type(self).__name__, source)
        X, sample_weight = checked_rows(
            self, source, sample_weight, dtype=np.float64, allow_nan=True
        )
        if self.channel_axis is not None:
            raise ValueError("images with channels are fitted in memory: pass an array")
        few, _ = images_of_start(X, None, np.random.default_rng(0))
        shape = getattr(source, "image_shape", ())
        flat = len(shape) < 2
        # One image shows what the shape means.
        image = None if flat else rows_of(np.empty((1, *shape)), self.image_shape)[1]
        layout = Layout(resolved_shape(few, self.image_shape, image))
        self._set_layout(few, layout, flat)
        return X, sample_weight

    def _set_layout(self, X, layout, flat):
        check_observed(X)
        self.image_shape_, self._layout, self._flat = layout.image_shape, layout, flat

    def _run(self, frame, X, sample_weight, start=None, task=None):
        """Run the loop on images, from given or from starting parameters."""
        mass = float(len(X) if sample_weight is None else sample_weight.sum())
        settings = self._template_settings()
        model = settings.model(frame.grid, mass, start is not None)
        fit = TemplateFit(self._settings(model, len(X)), frame)
        n_runs = 1 if start is not None else self.n_init
        seeds = seeds_of_runs(self.random_state, n_runs)

        def new_run(progress):
            generators = spawn_generators(seeds[progress.start])
            params = start
            if params is None:
                rng = generators.initialisation
                images, weights = images_of_start(X, sample_weight, rng)
                Y, rows = frame.standardised(images), settings.initial_templates(frame)
                params = starting_params(model, Y, weights, rng, rows)
            return TemplateState(params, generators)

        self._warn_of_unused(fit.settings)
        # The matrices are small: more threads of BLAS would only wait for each other.
        with threadpool_limits(1, "blas"):
            if start is None and self._blocks.size(frame.grid) > 1:
                step = default_step if isinstance(self.step_size, str) else None
                model.blocks = BlockStarts.fitted(
                    settings, fit, X, sample_weight, self.random_state, step,
                    self._blocks,
                )  # fmt: skip
            state, interrupted = self._run_starts(
                fit, X, sample_weight, new_run, n_runs, FitProgress(), task
            )
        return state, fit, interrupted

    def _run_epochs(self, fit, X, state, sample_weight, on_epoch):
        Y = fit.frame.standardised(X)
        super()._run_epochs(fit.settings, Y, state, sample_weight, on_epoch)
        if self.n_init > 1:
            model, params = fit.settings.model, state.params
            few = Y[np.arange(min(BOUNDS.judged, len(Y)))]
            mean = float(model.log_likelihoods(few, params).mean())
            state.objective = mean - model.penalty(params)

    def _epoch_count(self, fit, sample_weight):
        return super()._epoch_count(fit.settings, sample_weight)

    @undone_if_refused
    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a chunk of a stream of images, with constant memory.

        The first images are kept until there are enough for a start, 20 for every
        component; they are fitted like a data set. After that, each batch of images
        updates the averaged statistics by one step: see
        :class:`sktem.loop.stream.Stream` for what each solver means on a stream. Chains
        of new images start at a mode of their posterior; their draws, though not their
        distribution, depend on how the stream is cut.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, an iterator of such chunks, or anything that :ref:`can be read in
            blocks <rows-estimators>`, which is read once to its end.
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
        for chunk in chunks_of(X, sample_weight):
            stream, fitted = self._stream, hasattr(self, "coefficients_")
            reset = stream is None and not fitted
            Y, weights = self._validated(chunk, sample_weight, reset=reset)
            of_stream = self._stream_settings(STREAM.defaults)
            settings = TemplateStreamSettings(
                of_stream, self._template_settings(), self._fit_rows
            )
            if stream is None:
                stream = TemplateStream()
                if fitted:
                    stream = TemplateStream.after_fit(vars(self), settings)
            try:
                self._partial_fit(stream, settings, Y, weights, "images")
            except KeyboardInterrupt:  # what the run of a start has reached
                self._stream = stream
                self._publish(stream.attributes)
                raise
        Judged.of(vars(self)).warn()
        return self

    def _fit_rows(self, X, sample_weight, task):
        """Return fitted attributes of the first images, and the interrupt, if any.

        They are fitted like a data set, as a part of a task.
        """
        frame = self._template_settings().frame_of(X, sample_weight)
        state, fit, interrupted = self._run(frame, X, sample_weight, task=task)
        return self._fitted_attributes(fit, state, X), interrupted

    @property
    def _n_features_out(self):
        return self.grid_.n_latents + len(self._template.reported.names)

    @property
    def _template(self) -> FittedTemplate:
        """The fitted template, with the threads of the estimator."""
        check_is_fitted(self, "coefficients_")
        return replace(self.fitted_, n_jobs=self.n_jobs)

    def _fitted_attributes(self, fit, state, X):
        settings, frame = fit
        Y = frame.standardised(X[np.arange(min(BOUNDS.judged, len(X)))])
        folds = folds_of(settings.model, state.params, Y, state.chains)
        fitted = FittedTemplate.of(frame, self._layout, settings.model, state.params)
        return {
            **fitted.attributes(),
            "fold_rate_": folds[0],
            "folded_pixels_": folds[1],
            "converged_": has_settled(settings, state),
            "history_": state.history,
            "n_iter_": int(np.ceil(state.rows_visited / state.n_rows - 1e-9)),
            "image_shape_": self.image_shape_,
            "_layout": self._layout,
            "_flat": self._flat,
            "_statistics": state.returned,
            "n_features_in_": self.n_features_in_,
        }

    def _after_epoch(self, state):
        # What the end of the run is compared with.
        if not state.compared and 3 * state.history.passes[-1] >= 2 * self.max_iter:
            state.compared = (state.params, state.solver.iteration)
        return False

    def _outcome(self, state):
        noise = ", ".join(f"{std:.3g}" for std in np.sqrt(state.params.noise_variances))
        return f"Passes used up; noise {noise} of the pixels' standard deviation."

    def _checked(self, X):
        return self._validated(X, reset=False)[0]

    def transform(self, X, *, out=None):
        """Return the posterior mean of each image's deformation.

        The mean is taken over a Markov chain of 130 Langevin steps, which starts at the
        posterior mode. For a mixture, it is the deformation of the most probable
        template.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples, n_latents) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_latents) or iterator
            Coefficients of the landmarks, in pixels: those of all landmarks along the
            first axis of the image, then along the second. Nuisances are not included
            in these; they come last, as in :meth:`nuisances_of`. An iterator over
            blocks of them if X is read in blocks and ``out`` is not given.
        """
        template = self._template
        alone = not is_stream(X) and found_images(X) is None

        def means(images):
            if alone:
                warn_of_new(template, images)
            return template.posterior_means(images)

        return answer(self, X, means, out)

    def modes_of(self, X, *, out=None):
        """Return the most probable deformation of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples, n_latents) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_latents) or iterator
            Posterior modes, found by Levenberg-Marquardt steps while the noise is
            lowered to its estimate. For images that are fitted badly, several searches
            are made. An iterator over blocks of them if X is read in blocks and ``out``
            is not given.
        """
        return answer(self, X, self._template.modes_of, out)

    def nuisances_of(self, X):
        """Return the nuisances of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        dict of str to ndarray
            For each of the estimator's nuisances, relative to ``templates_``:
            "translation" (n_samples, n_axes) in pixels; "rotation" in radians about the
            centre of the image, from the first axis towards the second; "scale", above
            one where the object is larger; "gain" and "offset" with ``gain * template
            + offset``. An object is scaled and turned first, then moved. Posterior
            means given the modes of the landmarks.
        """
        return self._template.nuisances_of(self._checked(X))

    def _check_deformations(self, Z):
        check_is_fitted(self, "coefficients_")
        Z = check_array(Z, dtype=np.float64)
        widths = sorted({self.grid_.n_latents, self._n_features_out})
        if Z.shape[1] not in widths:
            text = " or ".join(map(str, widths))
            raise ValueError(f"Z must have {text} columns, got {Z.shape[1]}")
        return Z

    def _check_components(self, component, n):
        components = np.broadcast_to(np.asarray(component, dtype=int), (n,))
        T = len(self.weights_)
        if n and not (0 <= components.min() and components.max() < T):
            raise ValueError(f"component must be in 0, ..., {T - 1}, got {component!r}")
        return components

    def inverse_transform(self, Z, component=0):
        """Return images of deformed templates, without noise.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_latents)
            Deformations.
        component : int or array-like of int, default=0
            Index of the template, for all deformations or for each.

        Returns
        -------
        ndarray of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, as rows if the training images were rows.
        """
        Z = self._check_deformations(Z)
        components = self._check_components(component, len(Z))
        images = self._template.images_of(Z, components)
        return self._layout.stack_of(images, self._flat)

    def deformation_fields(self, X):
        """Return the displacement of every pixel of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_axes, ...)
            ``Phi(x)`` in pixels along each axis: the pixel at x shows the template at
            ``x - Phi(x)``.
        """
        return self._template.explained(self._checked(X))[1]

    def min_jacobians(self, X):
        """Return the smallest Jacobian determinant of each image's deformation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        ndarray of shape (n_samples,)
            Smallest determinant of the derivative of ``x - Phi(x)`` over the pixels; at
            most 0 where the deformation folds.
        """
        return self._template.min_jacobians(self._checked(X))

    def registration(self, X):
        """Return the registration of images, which maps pixels and points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.

        Returns
        -------
        Registration
            Its methods ``warp``, ``warp_points``, ``displacements`` and ``jacobians``
            map from the template to the images or, with ``inverse=True``, back.
        """
        template, X = self._template, self._checked(X)
        warn_of_new(template, X)
        return template.registration(X)

    def register(self, X, *, order=1):
        """Warp each image back to the template.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        order : int, default=1
            Order of the interpolating spline.

        Returns
        -------
        ndarray of the shape of X
            Images as they would be without deformation and nuisances. Missing pixels
            are filled with the deformed template.
        """
        template, images = self._template, self._checked(X)
        warn_of_new(template, images)
        return self._layout.stack_of(template.registered(images, order), is_flat(X))

    def warp(self, other, Z, component=0, *, inverse=False, order=1, channel_axis=None):
        """Warp masks, labels or other channels by deformations.

        Parameters
        ----------
        other : array-like of shape (n_pixels,), image_shape, or those of n images
            An array on the pixels of the template, as shown by ``templates_`` (or of
            each image, with ``inverse``); one for all deformations, or one for each.
        Z : array-like of shape (n_samples, n_latents)
            Deformations.
        component : int or array-like of int, default=0
            Index of the template, for all deformations or for each.
        inverse : bool, default=False
            Whether to warp from the image to the template instead of from the template
            to the image.
        order : int, default=1
            Order of the interpolating spline: 0 for labels and masks, 1, or 3.
        channel_axis : int or None, default=None
            Axis of ``other`` along which channels lie.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            The warped arrays, as rows where ``other`` has rows. Beyond the border, the
            nearest pixel is used.
        """
        Z = self._check_deformations(Z)
        components = self._check_components(component, len(Z))
        Z, _ = self._template.reported.whole(Z, components)
        registration = Registration(self.grid_, Z, self.mean_deformations_[components])
        return registration.warp(
            other, inverse=inverse, order=order, channel_axis=channel_axis
        )

    def principal_deformations(self, k=5, component=0):
        """Return the principal deformations about the mean deformation.

        Parameters
        ----------
        k : int, default=5
            Number of deformations.
        component : int, default=0
            Index of the template.

        Returns
        -------
        Z : ndarray of shape (k, n_latents)
            Deformations of one standard deviation, to be added to
            ``mean_deformations_``. They are the principal components of the
            displacement fields, in decreasing order of how much they displace.
        shares : ndarray of shape (k,)
            Their shares of the variance of the displacements.
        """
        template = self._template
        self._check_components(component, 1)
        return template.principal_deformations(k, component)

    def sample(self, n_samples=1, *, noise=True, random_state=None):
        """Draw images from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of images.
        noise : bool, default=True
            Whether to add the noise.
        random_state : int, RandomState, Generator or None, default=None
            Seed; None takes that of the estimator.

        Returns
        -------
        X : ndarray of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, as rows if the training images were rows.
        labels : ndarray of shape (n_samples,)
            Their components.
        """
        template = self._template
        check_number("n_samples", n_samples, Integral, 1)
        seed = self.random_state if random_state is None else random_state
        rng = np.random.default_rng(seed_sequence(seed))
        X, labels = template.drawn(n_samples, noise, rng)
        return self._layout.stack_of(X, self._flat), labels

    def score_samples(self, X, *, out=None):
        """Return the log-likelihood of each image by Laplace's approximation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Log-densities of the observed pixels. An iterator over blocks of them if X
            is read in blocks and ``out`` is not given.
        """
        return answer(self, X, self._template.log_likelihoods, out)

    def log_likelihood(self, X, *, n_draws=500, degrees=5, return_error=False):
        """Return the log-likelihood of all images together by importance sampling.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        n_draws : int, default=500
            Draws per image and component.
        degrees : int, default=5
            Degrees of freedom of the proposal; 0 means Gaussian.
        return_error : bool, default=False
            Whether to return the standard error as well.

        Returns
        -------
        float or tuple of float
            The sum of :meth:`likelihood_estimates`, and its error with
            ``return_error``.
        """
        estimates = self.likelihood_estimates(X, n_draws=n_draws, degrees=degrees)
        total = float(estimates.log_likelihood.sum())
        error = float(np.sqrt((estimates.standard_error**2).sum()))
        return (total, error) if return_error else total

    def likelihood_estimates(self, X, *, n_draws=500, degrees=5):
        """Return the log-likelihood of each image by importance sampling.

        The proposal is a Student distribution around the mode, with the inverse of the
        Gauss-Newton Hessian as scale. The estimates are slightly too low when the
        effective sample size is small.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        n_draws : int, default=500
            Draws per image and component.
        degrees : int, default=5
            Degrees of freedom of the proposal; 0 means Gaussian.

        Returns
        -------
        LikelihoodEstimate
            ``log_likelihood``, ``standard_error`` and ``effective_sample_size``; for a
            mixture, the last is the smallest over the components that matter.
        """
        return self._template.likelihood_estimates(self._checked(X), n_draws, degrees)

    def score(self, X, y=None, sample_weight=None):
        """Return the mean log-likelihood per image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the mean.

        Returns
        -------
        float
            Mean of ``score_samples``.
        """
        values = in_memory(self.score_samples(X))
        return float(np.average(values, weights=sample_weight))

    def predict_proba(self, X, *, out=None):
        """Return the probabilities of the components for each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples, n_components) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples, n_components) or iterator
            Posterior probabilities, by Laplace's approximation. An iterator over blocks
            of them if X is read in blocks and ``out`` is not given.
        """
        return answer(self, X, self._template.shares, out)

    def predict(self, X, *, out=None):
        """Return the most probable component of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, or anything that :ref:`can be read in blocks <rows-estimators>`.
        out : array of shape (n_samples,) or None, default=None
            Where to write the result, such as a memory map.

        Returns
        -------
        ndarray of shape (n_samples,) or iterator
            Labels. An iterator over blocks of them if X is read in blocks and ``out``
            is not given.
        """
        shares = self._template.shares
        return answer(self, X, lambda X: shares(X).argmax(axis=1), out)
