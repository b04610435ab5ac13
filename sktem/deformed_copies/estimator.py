"""Classification of images from few examples and deformed copies of them."""

from __future__ import annotations

from itertools import product
from numbers import Integral, Real
from typing import Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktem.choices import check_choice, check_number, is_auto
from sktem.deformed_copies.deformations import Deformations, Sizes
from sktem.deformed_copies.gaps import GapFiller
from sktem.deformed_copies.light_and_place import LightAndPlace
from sktem.deformed_copies.pixel_noise import pixel_noise
from sktem.deformed_copies.ridge import Equations, learn_ridge
from sktem.deformed_copies.search import Budget, Images, Law, Trials, chosen_law
from sktem.e_step.random import seed_sequence
from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.parameters import Auto, Seed
from sktem.estimators.runs import unchanged_by_errors
from sktem.exceptions import FitWarning
from sktem.images.classes import Calibration, given_temperature, log_of
from sktem.images.classifier import ImageClassifier, integer_seed
from sktem.images.units import units_of
from sktem.images.usual import UsualImages

__all__ = ["DeformedCopiesClassifier"]

#: By scores of the regression, and squared distances between features. What is expected
#: is the temperature where a class has one image.
CALIBRATION = Calibration((-6.0, 2.0), 0.03, expected=0.1, deviation=0.5, sure=0.5)

#: Landmarks of smooth fields along the longest side, whose distance is the usual width,
#: for signals, images and volumes.
FIELD_LANDMARKS = {1: 10, 2: 6, 3: 4}

#: Deformations that a single axis does not have.
NOT_FOR_SIGNALS = ("stretch", "rotation", "shear")

#: Standardised images are kept from values whose powers overflow.
LARGEST = 1e12


class DeformedCopiesClassifier(ImageClassifier):
    """Classify images by a kernel machine on deformed copies of the training images.

    It is meant for few labelled images, signals or volumes of one kind of object. Each
    image gets copies under random scales, rotations, shears, shifts and smooth
    displacements, and a kernel ridge regression of the classes is fitted to images and
    copies. Its features are gradient magnitudes by direction and place, which do not
    depend on contrast, and to a small extent the brightness. For signals, and images of
    fewer than eight pixels a side, the centred and scaled values are features too; for
    signals also how often each local shape occurs, wherever it does.

    The amount of deformation is chosen on held-out images, so that classes that differ
    only by size or angle are distinguished, too.

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        Pixels along each of one to three axes; ``(m,)`` for signals. None takes the
        shape of ``X`` if it has more than two axes, and otherwise treats rows as
        squares.
    channel_axis : int or None, default=None
        Axis of ``X`` along which the channels of colours or signals lie, such as -1 for
        ``(n, height, width, channels)``. They share the deformations; each of them is
        standardised. None means one channel.
    scale : float or "auto", default="auto"
        Standard deviation of the size of copies, relative to that of the image. Here
        and below, "auto" chooses on held-out images among 0, a half, one and two times
        the usual value, which is 0.13 over the square root of the number of axes.
    stretch : float or "auto", default="auto"
        Standard deviation of the lengths along the axes at constant size; usually 0.13.
        Signals are not stretched, rotated or sheared.
    rotation : float or "auto", default="auto"
        Standard deviation of the angles in radians; usually 0.18.
    shear : float or "auto", default="auto"
        Standard deviation of shears; usually 0.18.
    shift : float or "auto", default="auto"
        Standard deviation of shifts in pixels; usually 0.04 of the longest side.
    field : float or "auto", default="auto"
        Standard deviation of smooth displacements in pixels; usually 0.6 for images of
        16 pixels a side, and in proportion for others. With ``fields``, usually their
        size.
    field_width : float or "auto", default="auto"
        Number of pixels over which smooth displacements are similar, the standard
        deviation of a Gaussian covariance; "auto" is a ninth of the longest side for
        signals, a fifth for images and a third for volumes.
    fields : array-like of shape (n_fields, n_axes, ...) or None, default=None
        Displacement fields of images, such as
        ``DeformableTemplateEstimator.deformation_fields(X)``. Random combinations of
        them replace the smooth displacements of copies. None draws smooth ones.
    brightness : {"auto", "absolute", "relative"}, default="auto"
        Whether the brightness among the features is that of the pixels, or relative to
        the median along the border of an image, so that adding a constant to an image
        changes nothing. "auto" is "relative" unless held-out images, or classes that do
        not differ otherwise, require "absolute".
    values : float or "auto", default="auto"
        Weight, from 0 to 1, of a kernel of the pixel values beside the kernel of the
        features. "auto" chooses on held-out images among 0, which is best for most
        objects, 0.5 and 1.
    max_rows : int, default=6000
        Maximum number of images and copies in the regression. There are at least 600
        for each class and three for each image. Memory grows with the square of this
        number, time with its cube. Images beyond it are left out, with a warning.
    ridge : float, default=0.1
        Ridge penalty of the regression.
    class_prior : {"empirical", "uniform"} or array-like, default="empirical"
        Prior probabilities of the classes: their frequencies, equal ones, or given
        ones in the order of ``classes_``.
    temperature : float or "auto", default="auto"
        Divisor of the scores of the regression before Bayes' rule. "auto" minimises the
        log-loss on images held out together with their copies, at no cost. A prior
        around 0.1 is used, since few images may all be classified correctly. It is 0.1
        where a class has a single image.
    random_state : int, RandomState or None, default=None
        Seed of the copies.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    class_prior_ : ndarray of shape (n_classes,)
        Prior probabilities.
    deformations_ : dict of str to float
        Standard deviations in use: "scale", "stretch", "rotation", "shear", "shift" and
        "field".
    brightness_ : {"absolute", "relative"}
        The kind of brightness in use.
    values_ : float
        Weight of the values in use.
    temperature_ : float
        Temperature in use.
    n_rows_ : int
        Number of images and copies in the regression.
    image_shape_ : tuple of int
        Shape of the images, without channels.
    n_features_in_ : int
        Number of pixels, of all channels together.

    See Also
    --------
    DeformableTemplateClassifier : A model of each class, with Bayes' rule.

    Notes
    -----
    The distance of an image, which :meth:`outlier_proba` uses, is the squared distance
    between its features and those of the nearest image or copy. Images are held out
    with their copies, unless a class has a single image.

    New images whose contrast or position no training image has are moved to contrasts
    and positions of the training images, and then count as what is nearest to them.
    Equal images of a class count as one image with the sum of their weights. Missing
    pixels are filled from surrounding pixels and similar images. A warning says if
    holes are too large for this; for such images there is
    :class:`DeformableTemplateClassifier`, which uses only the observed pixels. Pixels
    that are missing in all training images are treated as missing in all other images.
    The gradients of several channels are added up.

    References
    ----------
    N. Dalal and B. Triggs, Histograms of oriented gradients for human detection, CVPR
    2005.

    P. Y. Simard, D. Steinkraus and J. C. Platt, Best practices for convolutional neural
    networks applied to visual document analysis, ICDAR 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktem import DeformedCopiesClassifier
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> classifier = DeformedCopiesClassifier(max_rows=600, random_state=0)
    >>> classifier.fit(X[:30], y[:30]).score(X[30:130], y[30:130]) > 0.95
    True
    """

    def __init__(
        self,
        image_shape=None,
        *,
        channel_axis: int | None = None,
        scale="auto",
        stretch="auto",
        rotation="auto",
        shear="auto",
        shift="auto",
        field="auto",
        field_width: float | Auto = "auto",
        fields=None,
        brightness: Literal["auto", "absolute", "relative"] = "auto",
        values: float | Auto = "auto",
        max_rows: int = 6000,
        ridge: float = 0.1,
        class_prior="empirical",
        temperature: float | Auto = "auto",
        random_state: Seed = None,
    ):
        self.image_shape = image_shape
        self.channel_axis = channel_axis
        self.scale = scale
        self.stretch = stretch
        self.rotation = rotation
        self.shear = shear
        self.shift = shift
        self.field = field
        self.field_width = field_width
        self.fields = fields
        self.brightness = brightness
        self.values = values
        self.max_rows = max_rows
        self.ridge = ridge
        self.class_prior = class_prior
        self.temperature = temperature
        self.random_state = random_state

    def _sizes(self, shape, fields):
        """Return the sizes to begin with, and which of them are free."""
        usual, fixed = Sizes.usual(shape), {}
        if fields is not None:
            size = float(np.sqrt(np.mean(fields**2)))
            usual = usual._replace(field=size)
        for name in Sizes._fields:
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(name, value, ("auto",), " or a number >= 0")
                continue
            check_number(name, value, Real, 0)
            if len(shape) == 1 and value > 0 and name in NOT_FOR_SIGNALS:
                raise ValueError(f"{name} is for images and volumes, not for signals")
            fixed[name] = float(value)
        sizes = usual._replace(**fixed)
        free = [
            name for name in Sizes._fields if name not in fixed and getattr(sizes, name)
        ]
        return sizes, tuple(free)

    def _settings(self, shape, fields):
        """Return the further arguments of the deformations."""
        if isinstance(self.field_width, str):
            check_choice("field_width", self.field_width, ("auto",), " or a number > 0")
            spaces = FIELD_LANDMARKS[len(shape)] - 1
            return {"width": max((max(shape) - 1) / spaces, 0.5), "fields": fields}
        check_number("field_width", self.field_width, Real, 0, strict=True)
        return {"width": float(self.field_width), "fields": fields}

    def _given_fields(self, shape):
        """Return the fields of the user as an array, or None."""
        if self.fields is None:
            return None
        fields = np.asarray(self.fields, dtype=float)
        if fields.ndim != len(shape) + 2 or fields.shape[1:] != (len(shape), *shape):
            raise ValueError(
                f"fields must have shape (n_fields, {len(shape)}, "
                f"{', '.join(map(str, shape))}), got {fields.shape}"
            )
        if not np.isfinite(fields).all():
            raise ValueError("fields contains NaN or infinity")
        return fields

    @unchanged_by_errors
    def fit(self, X, y, sample_weight=None):
        """Learn from images and copies of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images, in memory. NaN means a missing pixel.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the images; an image of weight 2 counts as two equal images.

        Returns
        -------
        DeformedCopiesClassifier
            The fitted classifier.
        """
        check_number("max_rows", self.max_rows, Integral, 2)
        check_number("ridge", self.ridge, Real, 0, strict=True)
        if not is_auto(self.values):
            check_number("values", self.values, Real, 0)
            if float(self.values) > 1:
                raise ValueError(f"values must be at most 1, got {self.values!r}")
        check_choice("brightness", self.brightness, ("auto", "absolute", "relative"))
        given_temperature(self.temperature)
        reason = "images are copied and compared with each other"
        data = self._labelled(X, y, sample_weight, reason)
        shape, n_classes = self.image_shape_, len(self.classes_)
        # Objects out of place are moved.
        self._usual = UsualImages.of(data.X, data.layout, data.labels, places=False)
        seed = integer_seed(self.random_state)
        rng = np.random.default_rng(seed)

        X, labels, weights = self._thinned(_merged(data), n_classes, rng)
        self._units = [
            np.repeat(unit, X.shape[1] // np.size(unit))
            for unit in units_of(X, weights, data.layout)
        ]
        Y = self._standardised(X)
        noise = pixel_noise(Y, shape, data.layout.n_channels)
        self._filler = GapFiller.of(Y, data.layout)
        means = np.bincount(labels, weights) / np.bincount(labels)
        images = Images(
            self._filler.fill(Y), labels, weights / means[labels], noise, self._filler
        )
        equations = Equations(float(self.ridge))
        law, settings = self._law(images, equations, seed)
        deformations = Deformations(shape, law.sizes, **settings)
        rows = images.with_copies(deformations, Budget(most=int(self.max_rows)), rng)
        self._regression, left_out = learn_ridge(
            images.similarity(law.relative, law.values), rows, n_classes, equations
        )
        several = np.bincount(labels).min() > 1
        left_out = left_out if several else None
        self._calibrate(CALIBRATION, left_out, images.X, labels, images.weights)
        self.n_rows_ = len(rows.X)
        self.deformations_ = law.sizes._asdict()
        self._deformations, self._noise = deformations, noise
        self._filler = self._filler.knowing(rows.X)
        self._ranges = LightAndPlace.of(images.X, shape, noise, law.sizes.shift)
        self.brightness_ = "relative" if law.relative else "absolute"
        self.values_ = law.values
        return self

    def _thinned(self, merged, n_classes, rng):
        """Select images at random where there are too many, with a warning."""
        (X, labels, weights), most = merged, max(int(self.max_rows) // n_classes, 1)
        chosen = [
            rng.permutation(np.flatnonzero(labels == k))[:most]
            for k in range(n_classes)
        ]
        rows = np.sort(np.concatenate(chosen))
        if len(rows) < len(X):
            warn_user(
                f"{len(X) - len(rows)} of {len(X)} images are left out, since max_rows="
                f"{self.max_rows} for {n_classes} classes. Increase max_rows (memory "
                "grows with its square, time with its cube), or use a classifier "
                "without copies, which this many images hardly need.",
                FitWarning,
            )
        return X[rows], labels[rows], weights[rows]

    def _law(self, images, equations, seed):
        """Return the deformations of copies, and their further settings."""
        fields = self._given_fields(images.shape)
        sizes, free = self._sizes(images.shape, fields)
        settings = self._settings(images.shape, fields)
        chosen = self.brightness == "auto"
        share = 0.0 if is_auto(self.values) else float(self.values)
        law = Law(sizes, self.brightness != "absolute", share)
        if np.bincount(images.labels).min() > 1:
            log_prior = log_of(self.class_prior_)
            trials = Trials(images, settings, equations, log_prior, seed)
            shares = trials.search.shares if is_auto(self.values) else (share,)
            kinds = (True, False) if chosen else (law.relative,)
            laws = [Law(sizes, *look) for look in product(kinds, shares)]
            law = chosen_law(trials, laws, free)
        elif chosen:
            law = law._replace(relative=images.differ_relatively())
        return law, settings

    def _standardised(self, X):
        """Return images in the units of the features, a copy."""
        with np.errstate(over="ignore"):
            return np.clip((X - self._units[0]) / self._units[1], -LARGEST, LARGEST)

    def deform(self, X, n_copies=1, *, random_state=None):
        """Return copies of images under the deformations used in the fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels) or (n_samples, ...)
            Images; missing pixels are filled.
        n_copies : int, default=1
            Number of copies of each image.
        random_state : int, RandomState or None, default=None
            Seed; None takes that of the classifier.

        Returns
        -------
        ndarray of shape (n_samples * n_copies, n_pixels) or (n_samples * n_copies, ...)
            Copies, those of the first image first; as rows if ``X`` has rows.
        """
        check_is_fitted(self)
        check_number("n_copies", n_copies, Integral, 1)
        flat = np.ndim(X) == 2
        Y = self._filler.fill(self._standardised(self._checked(X)))
        seed = self.random_state if random_state is None else random_state
        rng = np.random.default_rng(seed_sequence(seed))
        copies = self._deformations.copies(np.repeat(Y, n_copies, 0), self._noise, rng)
        return self._layout.stack_of(self._units[0] + self._units[1] * copies, flat)

    def _scores(self, X):
        holes = self._filler.holes(X)
        if holes.any():
            warn_user(
                f"{holes.sum()} of {len(X)} images have holes, missing pixels without "
                "a neighbour that was seen, which are filled from like images. "
                "DeformableTemplateClassifier goes by the pixels that were seen.",
                FitWarning,
            )
        Y = self._filler.fill(self._standardised(X))
        return self._ranges.judged(
            Y, self._regression.judge, self._filler.fill,
            self.brightness_ == "relative", ~holes,
        )  # fmt: skip


def _merged(data):
    """Return images, labels and weights with equal images of a class as one."""
    index_of: dict = {}
    keys = [
        index_of.setdefault((label, row.tobytes()), len(index_of))
        for label, row in zip(data.labels.tolist(), data.X, strict=True)
    ]
    _, first = np.unique(keys, return_index=True)
    return data.X[first], data.labels[first], np.bincount(keys, data.weights)
