"""Units of the intensities of images, weights and labels of images."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from sktem.estimators.fit_warnings import warn_user
from sktem.estimators.weights import checked_weights
from sktem.exceptions import FitWarning
from sktem.images.patches import Patches
from sktem.images.shapes import Layout, border_of, resolved_shape, rows_of
from sktem.validation import validate_data

__all__ = [
    "LabelledImages",
    "check_observed",
    "checked_images",
    "labelled_images",
    "n_copies_of",
    "new_images",
    "standards",
    "units_of",
    "warn_of_outshining",
]

#: Share of the squares of all pixels that one of several images must not have.
OUTSHINING, SEVERAL = 0.5, 5

#: Share of images with copies in another class from which on something is wrong.
CONTRADICTIONS = 0.1

#: How images are checked: as rows of numbers, NaN where a pixel is missing.
AS_ROWS: Any = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}


class LabelledImages(NamedTuple):
    """Images of a classifier, those of weight zero left out.

    Attributes
    ----------
    X : ndarray of shape (n, n_channels * n_pixels)
        Images, NaN where a pixel is missing.
    labels : ndarray of int of shape (n,)
        Indices of the classes.
    weights : ndarray of shape (n,)
        Weights.
    classes : ndarray of shape (n_classes,)
        Labels of the classes.
    layout : Layout
        How images are laid out.
    patches : Patches
        What of new images is missing.
    """

    X: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    classes: np.ndarray
    layout: Layout
    patches: Patches


def new_images(estimator, X, **labels):
    """Return images of a fit as rows, or these and labels, and their layout."""
    X, shape, n_channels = rows_of(X, estimator.image_shape, estimator.channel_axis)
    checked = validate_data(estimator, X, **labels, **AS_ROWS)
    X = checked[0] if labels else checked
    shape = resolved_shape(X, estimator.image_shape, shape)
    return checked, Layout(shape, n_channels, estimator.channel_axis)


def check_observed(X):
    """Raise ValueError if all images are blank."""
    if np.isnan(X).all():
        raise ValueError("all pixels of all images are NaN: nothing to learn")


def labelled_images(estimator, X, y, sample_weight) -> LabelledImages:
    """Check the data of a classifier with an image_shape and a channel_axis."""
    # Of all classes, so that each of them takes rows for the same.
    (X, y), layout = new_images(estimator, X, y=y)
    with warnings.catch_warnings():
        # One image a class is what these classifiers are for.
        warnings.filterwarnings("ignore", "The number of unique classes")
        check_classification_targets(y)
    weights = checked_weights(sample_weight, X)
    is_kept = weights > 0
    classes, labels = np.unique(y[is_kept], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            "The classifier needs at least 2 classes, but the data contains one "
            f"class: {classes.tolist()}"
        )
    X = X[is_kept]
    check_observed(X)
    warn_of_labels(X, labels)
    patches = Patches.of(X, layout)
    X = patches.missing(X)
    warn_of_outshining(X, layout, np.flatnonzero(is_kept))
    return LabelledImages(X, labels, weights[is_kept], classes, layout, patches)


def checked_images(estimator, X, layout) -> np.ndarray:
    """Return new images of a fitted estimator as rows."""
    X, _, n_channels = rows_of(X, layout.image_shape, layout.channel_axis)
    layout.check_channels(n_channels)
    return validate_data(estimator, X, reset=False, **AS_ROWS)


def units_of(X, sample_weight, layout):
    """Return offset and scale of the intensities, of each channel if several."""
    if layout.n_channels == 1:
        return standards(X, sample_weight, layout.image_shape)
    parts = np.split(X, layout.n_channels, axis=1)
    units = [standards(part, sample_weight, layout.image_shape) for part in parts]
    return np.array(units).T


def standards(X, sample_weight, image_shape):
    """Return the offset and the scale of intensities.

    The template falls to zero far outside of the image, so that zero should be
    what surrounds an object: the median along the border.
    """
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    observed = ~np.isnan(X)
    if not observed.any():
        return 0.0, 1.0
    edge = observed & border_of(image_shape).ravel()
    edge = edge if edge.any() else observed
    masses = np.broadcast_to(weights[:, None], X.shape)
    offset = _weighted_median(X[edge], masses[edge])
    values, masses = X[observed], masses[observed]
    size = float(np.abs(values).max())
    # Squares of huge values would overflow; those of tiny ones would vanish.
    unit = values / size if size > 0 else values
    deviation = unit - np.average(unit, weights=masses)
    spread = float(np.sqrt(np.average(deviation**2, weights=masses)))
    # Less than this is rounding error of the images' own size.
    scale = spread * size if spread > 1e-10 else 1.0
    if not 1e-150 < scale < 1e150:
        raise ValueError(f"the images' deviation is {scale:.0e}: rescale them")
    return offset, scale


def warn_of_outshining(X, layout, indices=None) -> None:
    """Warn of an image so bright that it alone decides the unit of intensities.

    `indices` are those that users know the images by, where some were left out.
    """
    offsets, _ = units_of(X, None, layout)
    gaps = X.reshape(len(X), layout.n_channels, -1) - np.reshape(offsets, (-1, 1))
    size = np.nanmax(np.abs(gaps), initial=0.0)
    squares = np.nansum((gaps / (size or 1.0)) ** 2, axis=(1, 2))
    index = int(squares.argmax())
    share = squares[index] / (squares.sum() or 1.0)
    if len(X) >= SEVERAL and share > OUTSHINING:
        known = index if indices is None else indices[index]
        warn_user(
            f"The image with the index {known} has {share:.0%} of the squares of the "
            f"{len(X)} images' intensities: it decides their scale and what is taken "
            "for noise. Bring images to the same range, or leave it out.",
            FitWarning,
        )


def n_copies_of(X, labels) -> int:
    """Return the number of images that are exact copies of others of their label."""
    # Hashes, since copies of all images may be too much for the memory.
    keys = {hash((k, row.tobytes())) for k, row in zip(labels, X, strict=True)}
    return len(X) - len(keys)


def warn_of_labels(X, labels) -> None:
    """Warn of equal images with several labels, and of blank images."""
    keys = np.array([hash(row.tobytes()) for row in X])
    pairs = np.unique(np.stack([keys, labels]), axis=1)
    again, counts = np.unique(pairs[0], return_counts=True)
    n_equal = int(np.isin(keys, again[counts > 1]).sum())
    if n_equal > CONTRADICTIONS * len(X):
        warn_user(
            f"{n_equal} of {len(X)} images are exact copies of images of another "
            "class: nothing distinguishes these classes. Check images and labels.",
            FitWarning,
        )
    n_blank = int(np.isnan(X).all(axis=1).sum())
    if n_blank:
        warn_user(
            f"{n_blank} of {len(X)} images have no pixel that was observed, and count "
            "as mean images of their class. Leave them out.",
            FitWarning,
        )


def _weighted_median(values, weights):
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
