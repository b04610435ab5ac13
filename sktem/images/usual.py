"""What training images look like, against which new images are held."""

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


class UsualImages(NamedTuple):
    """Brightness, contrast and places of training images.

    Attributes
    ----------
    layout : Layout
        How images are laid out.
    middle, spread : float
        Medians over images of the mean and the standard deviation of their pixels.
    spreads : tuple of float
        Least and largest standard deviation.
    centres : ndarray of shape (2, n_axes) or None
        Least and largest centre along each axis; None where places do not count.
    n_images : int
        Number of images.
    several : int
        Images from which on they are judged together.
    foreign : float
        Share of outliers among them from which on something is wrong with all.
    contrast, brightness : float
        Factor between spreads, and difference of middles in spreads, that is seen.
    margin, moved : float
        How far an object is out of place, as a share of the longest side, and the share
        of such images that is told, beside that of as many training images.
    usually_far, far, errors : float
        Share of images that were left out whose distance is over a standard deviation
        above the mean, the share of new ones that is told, and how many standard errors
        it has to be above.
    """

    layout: Layout
    middle: float
    spread: float
    spreads: tuple
    centres: np.ndarray | None
    n_images: int
    several: int = 5
    foreign: float = 0.5
    contrast: float = 1.5
    brightness: float = 0.5
    margin: float = 0.06
    moved: float = 0.25
    usually_far: float = 0.13
    far: float = 0.5
    errors: float = 1.5

    @classmethod
    def of(cls, X, layout, places=True) -> UsualImages:
        """Return those of some images; their places count or do not."""
        observed, centres = X[~np.isnan(X).all(axis=1)], None
        if places and len(known := _centres(X, layout)):
            centres = np.stack([np.fmin.reduce(known), np.fmax.reduce(known)])
        if not len(observed):
            return cls(layout, np.nan, np.nan, (np.nan, np.nan), centres, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            middles, spreads = np.nanmean(observed, axis=1), np.nanstd(observed, axis=1)
        spread = float(np.median(spreads))
        ends = float(spreads.min()), float(spreads.max())
        middle = float(np.median(middles))
        return cls(layout, middle, spread, ends, centres, len(observed))

    def warn_of_others(self, X, outlier_proba, excess) -> None:
        """Warn where several new images are not like the training images.

        ``excess`` are their distances in standard deviations above the mean of images
        that were left out, zero where none were. The advice depends on what differs.
        """
        if len(X) < self.several:
            return
        finding = self._moved(X) or self._foreign(X, outlier_proba) or self._far(excess)
        if finding:
            warn_user(finding, FitWarning)

    def _foreign(self, X, outlier_proba):
        """Return a warning of images of another kind or contrast, or None."""
        new = type(self).of(X, self.layout, places=False)
        share = float((outlier_proba > 0.5).mean())
        least, largest = self.spreads
        usual = least / self.contrast <= new.spread <= largest * self.contrast
        if share <= self.foreign and (usual or np.isnan(new.spread + least)):
            return None
        lighter = abs(new.middle - self.middle) > self.brightness * self.spread
        factor = max(new.spread, self.spread) / (min(new.spread, self.spread) or 1e-300)
        advice = (
            "Their labels may be wrong: look at them, and crop, centre and scale them "
            "as the training images were."
        )
        if lighter or factor > self.contrast:
            advice = (
                f"Their pixels have mean {new.middle:.3g} and standard deviation "
                f"{new.spread:.3g}, those of the training images {self.middle:.3g} and "
                f"{self.spread:.3g}: bring them to the same contrast and brightness."
            )
        finding = (
            f"{share:.0%} of {len(X)} images are like none of the training images (see "
            "outlier_proba)"
        )
        if share <= self.foreign:
            finding = f"Most of {len(X)} images have a contrast of no training image"
        return f"{finding}. {advice}"

    def _moved(self, X):
        """Return a warning of objects out of place, or None."""
        if self.centres is None:
            return None
        centres = _centres(X, self.layout)
        gaps = np.abs(np.clip(centres, *self.centres) - centres)
        is_moved = (gaps > self.margin * max(self.layout.image_shape)).any(axis=1)
        share = is_moved.sum() / len(X)
        # As many lie beyond all of n others by chance.
        if not share > self.moved + 1 / max(self.n_images, 1):
            return None
        return (
            f"In {share:.0%} of {len(X)} images the object is at a place where no "
            "training image has it, or the frame cuts it, and labels may be wrong: "
            "crop and centre them as the training images were, or fit with nuisances="
            '("translation",).'
        )

    def _far(self, excess):
        """Return a warning of distances that are too large on the whole, or None."""
        share, p = float((excess > 1.0).mean()), self.usually_far
        error = np.sqrt(p * (1 - p) * (1 / len(excess) + 1 / max(self.n_images, 1)))
        if not share > self.far + self.errors * error:
            return None
        return (
            f"{share:.0%} of {len(excess)} images are farther from the training images "
            f"than {1 - p:.0%} of those that were left out, and labels may be wrong: "
            "crop, centre and scale them as the training images were, pass NaN for "
            "patches without data, and train with images that are as noisy."
        )


def _centres(X, layout):
    """Return centres of the objects of whole images."""
    whole = X[~np.isnan(X).any(axis=1)]
    excess, _ = departures_of(whole, layout.image_shape, layout.n_channels)
    with np.errstate(over="ignore"):
        return centres_of(excess, layout.image_shape)
