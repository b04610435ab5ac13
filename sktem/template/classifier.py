"""Classification of images: a deformable template per class, and Bayes' rule."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from numbers import Integral
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn import config_context, get_config
from sklearn.model_selection import StratifiedKFold

from sktem.choices import check_number
from sktem.estimators.base import (
    CallbackSupportMixin,
    unchanged_by_errors,
    with_callbacks,
)
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Auto, BatchSize, Seed, SolverLike
from sktem.exceptions import FitWarning
from sktem.images.classes import Calibration, certainties_of, given_temperature, log_of
from sktem.images.classifier import ImageClassifier, integer_seed
from sktem.images.units import n_copies_of, units_of
from sktem.images.usual import UsualImages
from sktem.progress import bar
from sktem.samplers import Sampler
from sktem.template.estimator import MOVED, DeformableTemplateEstimator
from sktem.template.judged import BOUNDS, Judged, warn_of_channels
from sktem.template.likelihoods import Likelihoods
from sktem.template.prior import DeformableTemplatePrior
from sktem.template.settings import TemplateSettings

__all__ = ["DeformableTemplateClassifier"]

#: By log-likelihoods, and distances of log-likelihoods per pixel. What is expected is
#: the temperature where a class has one image, about the best for new digits, letters
#: and drawn signs of 8 x 8 to 24 x 24 pixels.
CALIBRATION = Calibration((0.0, 7.0), 0.1, expected=60.0, deviation=1.0)


class ClassRule(NamedTuple):
    """Prior of a class, and images that are left out.

    Attributes
    ----------
    strength, least_strength : float
        Weight of the prior, in images for every image of a class, and at least; chosen
        on training images of handwritten digits.
    noise_scale : float
        Noise that is expected.
    most_folds : int
        Folds of images that are left out, at most.
    most_compared : int
        New images that are compared with those, at most.
    """

    strength: float = 20.0
    least_strength: float = 400.0
    noise_scale: float = 0.3
    most_folds: int = 3
    most_compared: int = 300


CLASS_RULE = ClassRule()


class DeformableTemplateClassifier(CallbackSupportMixin, ImageClassifier):
    """Classify images by their likelihoods under a deformable template of each class.

    There is a model of each class, and classes are predicted by Bayes' rule. The
    classifier provides likelihoods and the deformation of an image relative to the
    template of its class. It handles images with missing pixels and holes directly, and
    images that are nearly all noise. On clean images :class:`DeformedCopiesClassifier`
    makes fewer errors, and it is faster.

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        As in :class:`DeformableTemplateEstimator`, which describes the parameters of
        the templates and of their fits in full.
    n_components : int, default=1
        Number of templates of each class.
    template_landmarks, deformation_landmarks : int, tuple of int or "auto"
        Numbers of landmarks.
    template_scale, deformation_width, deformation_scale : float or "auto"
        Widths of the kernels and expected displacements, in pixels.
    prior : DeformableTemplatePrior or None, default=None
        Strength of the prior on the deformations, and priors on template, noise and
        weights; None takes the defaults of that class.
    channel_axis : int or None, default=None
        Axis of ``X`` along which the channels of colours or signals lie, such as -1 for
        ``(n, height, width, channels)``. They share the deformations; each of them is
        standardised over the images of all classes. None means one channel.
    deformation : {"linear", "diffeomorphic"}, default="linear"
        Sums of displacements, or flows of velocities, which do not fold.
    nuisances : tuple of str or None, default=None
        Differences between images that are not deformations: any of "translation",
        "rotation", "scale", "gain" and "offset".
    covariance_type : {"full", "shared", "isotropic"}, default="full"
        Covariance of the deformations.
    solver, sampler : str or instance, default="saem" and "auto"
        Algorithm of the fits.
    batch_size : int or "auto", default="auto"
        Images per iteration.
    max_iter : int, default=40
        Number of passes over the images. It is half that of the estimator, since fits
        with the stronger prior settle sooner; more passes do not reduce errors.
    class_prior : {"empirical", "uniform"} or array-like, default="empirical"
        Prior probabilities of the classes: their frequencies, equal ones, or given
        ones in the order of ``classes_``.
    temperature : float or "auto", default="auto"
        Divisor of the log-likelihoods before Bayes' rule; with equal priors it does not
        change the order of the classes. Likelihood ratios of images are overconfident,
        since the noise of their pixels is not independent. "auto" minimises the
        log-loss on held-out images in three folds (two where a class has two images),
        which makes a fit three times as long. About 60 is expected, and is used where a
        class has a single image.
    random_state : int, RandomState or None, default=None
        Seed of the models and of the folds.
    n_jobs : int or None, default=None
        Number of threads: over classes in a fit, over images in predictions.
    verbose : int, default=0
        1 prints the passes of each class. For progress bars see
        :func:`sktem.show_progress`.
    verbose_interval : int, default=10
        Number of passes between prints.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    estimators_ : list of DeformableTemplateEstimator
        Fitted model of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Prior probabilities.
    temperature_ : float
        Temperature in use.
    n_iter_ : int
        Number of passes over the images, in the class that took the most.
    image_shape_ : tuple of int
        Shape of the images, without channels.
    n_features_in_ : int
        Number of pixels, of all channels together.

    See Also
    --------
    DeformedCopiesClassifier : Kernel machine on deformed copies of the images.
    DeformableTemplateEstimator : The model of a class.

    Notes
    -----
    The distance of an image, which :meth:`outlier_proba` uses, is minus the largest
    log-likelihood per pixel. Typical distances come from the images held out to find
    the temperature, so that there are no outliers where a class has a single image or
    the temperature is given.

    References
    ----------
    S. Allassonniere, Y. Amit and A. Trouve, Towards a coherent statistical framework
    for dense deformable template estimation, JRSS B 69, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktem import DeformableTemplateClassifier
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> classifier = DeformableTemplateClassifier(random_state=0)
    >>> classifier.fit(X[:30], y[:30]).score(X[30:130], y[30:130]) > 0.9
    True
    """

    _moved_parameters: ClassVar[Mapping[str, str]] = MOVED

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
        covariance_type: Literal["full", "isotropic", "shared"] = "full",
        solver: SolverLike = "saem",
        sampler: Literal["auto", "mala", "ula"] | Sampler = "auto",
        batch_size: BatchSize = "auto",
        max_iter: int = 40,
        class_prior="empirical",
        temperature: float | Auto = "auto",
        random_state: Seed = None,
        n_jobs: int | None = None,
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
        self.covariance_type = covariance_type
        self.solver = solver
        self.sampler = sampler
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.class_prior = class_prior
        self.temperature = temperature
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def _model(self):
        values = self.get_params(deep=False)
        shared = DeformableTemplateEstimator().get_params(deep=False)
        parameters = {name: values[name] for name in shared if name in values}
        parameters |= {"image_shape": self.image_shape_, "n_jobs": None, "verbose": 0}
        return DeformableTemplateEstimator(**parameters)

    def _prior(self, mass):
        """Return the prior of a class of some weight."""
        prior = DeformableTemplatePrior() if self.prior is None else self.prior
        return prior.with_defaults(
            prior_strength=max(
                CLASS_RULE.least_strength,
                CLASS_RULE.strength * mass / self.n_components,
            ),
            noise_prior_scale=CLASS_RULE.noise_scale,
        )

    @unchanged_by_errors
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Learn a template for each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, in memory, because each class is fitted separately. NaN means a
            missing pixel.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the images.

        Returns
        -------
        DeformableTemplateClassifier
            The fitted classifier.
        """
        reason = "the images of each class are fitted apart, several times"
        X, labels, weights, *_ = self._labelled(X, y, sample_weight, reason)
        warn_of_channels(X, self._layout.n_channels)
        seed = integer_seed(self.random_state)
        check_number("verbose_interval", self.verbose_interval, Integral, 1)
        TemplateSettings.of(vars(self._model()), None).check()
        left_out, context = None, None
        self._folds: list = []
        if given_temperature(self.temperature) is None:
            left_out = self._held_out(X, labels, weights, seed)
        if hasattr(self, "_init_callback_context"):
            context = self._init_callback_context(max_subtasks=len(self.classes_))
            context.call_on_fit_task_begin(estimator=self, X=X)
        self.estimators_: list = self._fit_classes(
            X, labels, weights, seed, context, verbose=self.verbose
        )
        fits = [
            replace(model.fitted_, n_jobs=self.n_jobs) for model in self.estimators_
        ]
        self._predictor = Likelihoods(fits)
        places = "translation" not in fits[0].nuisance_names
        self._usual = UsualImages.of(X, self._layout, labels if places else None)
        self._seen = ~np.isnan(X).all(axis=0)
        self.n_iter_ = max(model.n_iter_ for model in self.estimators_)
        if context is not None:
            context.call_on_fit_task_end(estimator=self, X=X)
        _warn_of_classes(self.classes_, self.estimators_)
        if left_out is not None:
            _warn_of_copied_images(X, labels)
        lit = {"gain", "offset"} & set(fits[0].nuisance_names)
        self._calibrate(CALIBRATION, left_out, X, labels, weights, light=not lit)
        return self

    def _fit_classes(self, X, labels, weights, seed, context=None, verbose=0):
        """Return a fitted model for each class."""
        models, parts, masses = [], [], np.bincount(labels, weights)
        units = None
        if self._layout.n_channels > 1:
            # A class may lack a colour that another one has.
            units = units_of(X, weights, self._layout)
        for label, mass in enumerate(masses):
            in_class = labels == label
            model = self._model().set_params(random_state=seed, verbose=verbose)
            model.set_params(prior=self._prior(mass))
            models.append(model)
            images = self._layout.stack_of(X[in_class], flat=True)
            parts.append((images, weights[in_class], units))

        _learn_all(models, parts, self.n_jobs, context)
        for model in models:  # prediction has threads for images
            model.set_params(n_jobs=self.n_jobs)
        return models

    def _held_out(self, X, labels, weights, seed):
        """Return scores and distances of images left out, None of single images."""
        n_folds = min(CLASS_RULE.most_folds, int(np.bincount(labels).min()))
        if n_folds < 2:
            return None
        logs, distances = np.empty((len(X), len(self.classes_))), np.empty(len(X))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        for train, left_out in folds.split(labels, labels):
            models = self._fit_classes(X[train], labels[train], weights[train], seed)
            fits = [model.fitted_.without_derived(self.n_jobs) for model in models]
            fold = Likelihoods(fits)
            logs[left_out], distances[left_out] = fold.judge(X[left_out])
            self._folds.append(fold)
        return logs, distances

    def _as_left_out(self, X, distances, logs):
        """Return distances and certainties by the models of the folds.

        Each judges every n-th image, and has learned from fewer than the predictors.
        """
        if not self._folds:
            return super()._as_left_out(X, distances, logs)
        X = np.where(self._seen, X, np.nan)[:: -(-len(X) // CLASS_RULE.most_compared)]
        logs, distances = np.empty((len(X), logs.shape[1])), np.empty(len(X))
        for k, fold in enumerate(self._folds[: len(X)]):
            turn = slice(k, None, len(self._folds))
            logs[turn], distances[turn] = fold.judge(X[turn])
        logs = logs / self.temperature_ + log_of(self.class_prior_)
        return distances, certainties_of(logs)

    def _scores(self, X):
        # What no training image shows was not learned of any class.
        return self._predictor.judge(np.where(self._seen, X, np.nan))


def _learn_all(models, parts, n_jobs, context=None):
    """Fit models without their warnings, in threads."""

    def learn(model, part, task):
        # A filter of warnings would hold for the whole process, not for one thread.
        context = task.propagate_callback_context(model) if task else nullcontext()
        with config_context(**configuration), context:
            model._learn(*part)
        vars(model).pop("_callback_fit_ctx", None)  # scikit-learn's fit would do it
        advance()

    configuration = get_config()  # of this thread
    contexts = [context and context.subcontext(task_name="class") for _ in models]
    with bar("DeformableTemplateClassifier: classes", len(models)) as advance:
        Parallel(n_jobs, require="sharedmem")(
            delayed(learn)(*three)
            for three in zip(models, parts, contexts, strict=True)
        )


def _warn_of_classes(classes, models):
    """Warn once of problems in the fits of any class."""

    def names(chosen):
        labels = [str(c) for c, is_in in zip(classes, chosen, strict=True) if is_in]
        return f"the class{'es' if len(labels) > 1 else ''} {', '.join(labels)}"

    advice = [Judged.of(vars(model)).fold_advice() for model in models]
    if any(folds := [text is not None for text in advice]):
        texts = sorted({text for text in advice if text is not None})
        warn_user(
            f"Many pixels lie where deformations fold over themselves in {names(folds)}"
            f" (see folded_pixels_ of estimators_). {' '.join(texts)}",
            FitWarning,
        )
    recovered = [sum(model.history_.events.values()) > 0 for model in models]
    if any(recovered):
        warn_user(
            f"Fits of {names(recovered)} recovered from numerical problems (see "
            "history_.events of estimators_). Inspect the result; more images, fewer "
            "components or a larger prior_strength may help.",
            FitWarning,
        )


def _warn_of_copied_images(X, labels):
    """Warn where images that are left out have copies among the others."""
    n_copies = n_copies_of(X, labels.tolist())
    if n_copies > BOUNDS.copies * len(X):
        warn_user(
            f"{n_copies} of {len(X)} images are exact copies of others of their "
            "class. Copies show no noise and cannot be left out, by which "
            "probabilities and outlier_proba are judged: new images may look like "
            "outliers. Pass every image once, and class_prior for how often the "
            "classes come.",
            FitWarning,
        )
