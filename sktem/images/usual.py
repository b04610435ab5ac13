"""Usual brightness, contrast and places of training images, to check new images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.images.shapes import Layout, border_of

__all__ = ["UsualImages", "centres_of", "departures_of"]


def departures_of(X, image_shape, n_channels):
    """Return departures of pixels from backgrounds, and these, of each channel."""
    border = border_of(image_shape).ravel()
    X = X.reshape(len(X), n_channels, border.size)
    background = np.median(X[:, :, border], axis=2, keepdims=True)
    return X - background, background


def centres_of(excess, image_shape, limits=0.0):
    """Return centres of departures, NaN where none exceeds its limit."""
    masses = np.maximum(np.abs(excess) - limits, 0.0).sum(axis=1)
    places = np.indices(image_shape).reshape(len(image_shape), -1)
    with np.errstate(invalid="ignore", over="ignore"):
        centres = masses @ places.T / masses.sum(axis=1)[:, None]
    return np.round(centres, 6)  # rounding errors do not decide


#: Ends where there are no images.
NOTHING = (np.nan, np.nan)


class Places(NamedTuple):
    """Places of the objects of the classes.

    Attributes
    ----------
    layout : Layout
        How images are laid out.
    means : ndarray of shape (n_classes, n_axes)
        Mean centre of the objects of each class, NaN where none is known.
    sds : ndarray of shape (n_axes,)
        Standard deviations of the centres within classes.
    n_images : int
        Number of images whose centres are known.
    least : float
        Least standard deviation, as a share of the longest side.
    off, errors, most : float
        Standard deviations by which objects are out of place on average, standard
        errors beyond them, and the deviations that an object counts at most.
    """

    layout: Layout
    means: np.ndarray
    sds: np.ndarray
    n_images: int
    least: float = 0.02
    off: float = 0.75
    errors: float = 2.0
    most: float = 3.0

    @classmethod
    def of(cls, X, labels, layout) -> Places | None:
        """Return the places of objects, None where no class has several images."""
        centres = _centres(X, layout)
        is_known = ~np.isnan(centres).any(axis=1)
        centres, labels, n_classes = (
            centres[is_known],
            labels[is_known],
            labels.max() + 1,
        )
        counts = np.bincount(labels, minlength=n_classes)
        free = len(centres) - np.count_nonzero(counts)
        if free < 1:
            return None
        sums = [np.bincount(labels, along, n_classes) for along in centres.T]
        with np.errstate(invalid="ignore"):
            means = np.stack(sums, axis=1) / counts[:, None]
        sds = np.sqrt(((centres - means[labels]) ** 2).sum(axis=0) / free)
        sds = np.maximum(sds, cls._field_defaults["least"] * max(layout.image_shape))
        return cls(layout, means, sds, len(centres))

    def are_left(self, X, labels) -> bool:
        """Return whether objects of several images are out of place on average."""
        gaps = (_centres(X, self.layout) - self.means[labels]) / self.sds
        gaps = gaps[~np.isnan(gaps).any(axis=1)]
        if not len(gaps):
            return False
        error = self.errors * np.sqrt(1 / len(gaps) + 1 / self.n_images)
        far = np.abs(np.clip(gaps, -self.most, self.most).mean(axis=0))
        return bool((far > self.off + error).any())


class UsualImages(NamedTuple):
    """Brightness, contrast and places of training images.

    Attributes
    ----------
    layout : Layout
        How images are laid out.
    middle, spread : float
        Medians over images of the mean and the standard deviation of their pixels.
    middles, spreads : tuple of float
        Least and largest mean and standard deviation.
    centres : ndarray of shape (2, n_axes) or None
        Least and largest centre along each axis; None where places do not count.
    places : Places or None
        Where objects of the classes lie, if that is known.
    n_images : int
        Number of images.
    several, odd, known : int, tuple of float, int
        Images from which on they are judged together, the probabilities of being none
        of the training images that each of fewer ones has where these are reported, in
        another light and in the same, and the training images from which on it is known
        that well.
    contrast, brightness : float
        Factor beyond these spreads, and difference beyond these middles, in spreads,
        that is seen.
    margin, moved : float
        How far an object is out of place, as a share of the longest side, and the share
        of such images that is reported, above that of as many training images.
    wrong, errors, fewest, contradicted : float, float, int, float
        Share of images left out with a wrong label that is reported, standard errors
        beyond it, images that such a share is of at least, and the share of images that
        is reported if they surely look like another class.
    uneven, scattered : float
        Ratio of the contrasts of training images, and distance of their objects as a
        share of the longest side, that may be the cause.
    """

    layout: Layout
    middle: float
    spread: float
    middles: tuple
    spreads: tuple
    centres: np.ndarray | None
    places: Places | None
    n_images: int
    several: int = 5
    odd: tuple[float, float] = (0.9, 0.99999)
    known: int = 60
    contrast: float = 1.5
    brightness: float = 0.5
    margin: float = 0.06
    moved: float = 0.25
    wrong: float = 0.25
    errors: float = 2.0
    fewest: int = 16
    contradicted: float = 0.05
    uneven: float = 4.0
    scattered: float = 0.25

    @classmethod
    def of(cls, X, layout, labels=None, places=True) -> UsualImages:
        """Return the record of training images, with or without their places.

        Without labels nothing is known of the places of objects.
        """
        observed, centres, of_classes = X[~np.isnan(X).all(axis=1)], None, None
        if labels is not None:
            of_classes = Places.of(X, labels, layout)
            if places:
                known = _centres(X, layout)
                centres = np.stack([np.fmin.reduce(known), np.fmax.reduce(known)])
        if not len(observed):
            return cls(layout, np.nan, np.nan, NOTHING, NOTHING, centres, of_classes, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            middles, spreads = np.nanmean(observed, axis=1), np.nanstd(observed, axis=1)
        return cls(
            layout, float(np.median(middles)), float(np.median(spreads)),
            (float(middles.min()), float(middles.max())),
            (float(spreads.min()), float(spreads.max())), centres, of_classes,
            len(observed),
        )  # fmt: skip

    def warn_of_errors(self, joint_logs, labels, light=False, contradicted=0.0):
        """Warn where many of the images that were left out got a wrong label.

        `light` says whether another contrast of an image counts, and `contradicted` is
        the share of images that surely look like those of another class.
        """
        n, wrong = len(labels), float((joint_logs.argmax(axis=1) != labels).mean())
        error = self.errors * np.sqrt(wrong * (1 - wrong) / n)
        many, finding = wrong - error > self.wrong, "got the label of another class"
        # One image may be odd.
        if not many and contradicted > self.contradicted + 1 / n:
            many, wrong = True, contradicted
            finding = "look like those of another class beyond doubt"
        if n < self.fewest or not many:
            return
        if light and self.spreads[1] > self.uneven * self.spreads[0]:
            advice = (
                "Contrast and brightness differ much between images: bring them to the "
                'same, or fit with nuisances=("gain", "offset").'
            )
        elif self._is_scattered:
            advice = "Objects are at very different places: crop and centre them."
        else:
            advice = (
                "Look for wrong labels, pass more images, and compare classifiers of "
                "another kind."
            )
        warn_user(
            f"{wrong:.0%} of {n} images that were left out by folds {finding}. "
            f"{advice}",
            FitWarning,
        )

    @property
    def _is_scattered(self) -> bool:
        """Whether objects of training images are at very different places."""
        if self.centres is None:
            return False
        longest = max(self.layout.image_shape)
        return bool((np.ptp(self.centres, axis=0) > self.scattered * longest).any())

    def warn_of_others(self, X, labels, typical, distances, certainties) -> None:
        """Warn where several new images are not like the training images.

        Images that were left out decide, where there are any (``typical``): distances
        are larger on the whole, or labels less certain. What differs is the advice, and
        a reason for it to look closer.

        Parameters
        ----------
        X : ndarray of shape (n, n_channels * n_pixels)
            Images.
        labels : ndarray of int of shape (n,)
            Indices of the classes that they are taken for.
        typical : Typical or None
            What is known of images that were left out.
        distances, certainties : ndarray
            Distances and certainties, as of images that were left out.
        """
        moved = self._moved(X, labels)
        cause = moved or self._in_other_light(X)
        finding = f"Labels of {len(X)} images may be wrong"
        if typical is not None:
            difference = typical.difference(
                distances, certainties, moved is not None, self.centres is not None
            )
            if difference is None:
                return
            finding += f": they {difference}, unlike images that were left out"
            cause = cause or (
                "Look at them: crop, centre and scale them as the training images "
                "were, pass NaN for patches without data, and train with images that "
                "are as noisy."
            )
        if cause:
            warn_user(f"{finding}. {cause}", FitWarning)

    def warn_of_odd(self, X, outlier_proba, typical, distances, certainties) -> None:
        """Warn where few images, or one, are surely not like the training images.

        Parameters
        ----------
        X : ndarray of shape (n, n_channels * n_pixels)
            Images.
        outlier_proba : ndarray of shape (n,)
            Probabilities of being none of the training images.
        typical, distances, certainties
            As of `warn_of_others`.
        """
        if typical is None or self.n_images < self.known:
            return
        light = self._in_other_light(X)
        least = self.odd[0 if light else 1]
        is_odd = bool((outlier_proba > least).all())
        if not (is_odd or (light and typical.difference(distances, certainties))):
            return
        cause = light or (
            "Look at them: are they upside down, transposed, or light where the others "
            "are dark?"
        )
        warn_user(
            f"The new images ({len(X)}) are not like the training images (see "
            f"outlier_proba), and their labels are hardly right. {cause}",
            FitWarning,
        )

    def _in_other_light(self, X):
        """Return a sentence on another contrast or brightness, or None."""
        new = type(self).of(X, self.layout)
        least, largest = self.spreads
        usual = least / self.contrast <= new.spread <= largest * self.contrast
        beyond = abs(np.clip(new.middle, *self.middles) - new.middle)
        usual &= beyond <= self.brightness * self.spread
        if usual or np.isnan(new.spread + least):
            return None
        return (
            f"Their pixels have mean {new.middle:.3g} and standard deviation "
            f"{new.spread:.3g}, those of the training images {self.middle:.3g} and "
            f"{self.spread:.3g}: bring them to the same contrast and brightness."
        )

    def _moved(self, X, labels):
        """Return a sentence on objects out of place, or None."""
        is_moved = self.places is not None and self.places.are_left(X, labels)
        remedy = ""
        if self.centres is not None:
            centres = _centres(X, self.layout)
            gaps = np.abs(np.clip(centres, *self.centres) - centres)
            is_far = (gaps > self.margin * max(self.layout.image_shape)).any(axis=1)
            # As many lie beyond all of n others by chance.
            most = self.moved + 1 / max(self.n_images, 1)
            is_moved |= bool(is_far.sum() / len(X) > most)
            remedy = ', or fit with nuisances=("translation",)'
        if not is_moved:
            return None
        return (
            "Objects are at other places than in the training images, or the frame "
            f"cuts them: crop and centre them as the training images were{remedy}."
        )


def _centres(X, layout):
    """Return centres of the objects of images, NaN where pixels are missing."""
    with np.errstate(over="ignore", invalid="ignore"):
        excess, _ = departures_of(X, layout.image_shape, layout.n_channels)
        return centres_of(excess, layout.image_shape)
