"""Checks of images that a template does not explain, such as turned ones."""

from __future__ import annotations

from functools import partial
from itertools import chain, combinations, permutations, product
from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.images.shapes import border_of
from sktem.template.model.statistics import observed_counts

__all__ = [
    "TURNED_NEW",
    "turned_images",
    "unexplained_images",
    "warn_of_turned",
    "warn_of_unexplained",
]


class TurnedRule(NamedTuple):
    """Thresholds of images that are turned.

    Attributes
    ----------
    looked_at : int
        Images that are compared with templates as these are, at most.
    searched : int
        Positions of images whose likelihoods are computed, at most.
    of_pixel, of_image : float
        Gains in log-likelihood that count, for a pixel and for an image: one in exp(12)
        images of the model gains as much by chance.
    of_lack : float
        Share of what an image is less likely than those of the model that its better
        position makes up for: where it does not, as in images of noise or of another
        object, another position is not what is wrong.
    of_all, fewest : float, int
        Share and number of signals or volumes that have to fit better in one position.
        Some of them do by chance, where no template explains them.
    """

    looked_at: int = 400
    searched: int = 20
    of_pixel: float = 0.1
    of_image: float = 12.0
    of_lack: float = 0.3
    of_all: float = np.inf
    fewest: int = 3


#: The rules of every fit, and of new images, from which a template of few images is
#: farther and which may be of anything.
TURNED = TurnedRule()
TURNED_NEW = TurnedRule(of_lack=0.75, of_all=0.5)


class UnexplainedRule(NamedTuple):
    """Thresholds of images that are taken for noise.

    Attributes
    ----------
    searched : int
        Images whose likelihoods are computed, at most.
    deviance : float
        Deviance of a pixel from which on an image is not explained. The mean over all
        images is about one.
    share : float
        Share of these images in the sum of the deviances that is reported.
    """

    searched: int = 20
    deviance: float = 4.0
    share: float = 1 / 3


UNEXPLAINED = UnexplainedRule()

#: A position that is none.
EXCHANGED = "with light and dark exchanged"

#: Names of positions, by the order of the axes and those that are reversed then.
NAMES = {
    ((0,), (0,)): "reversed",
    ((0, 1), (0, 1)): "turned by 180 degrees",
    ((0, 1), (0,)): "upside down",
    ((0, 1), (1,)): "mirrored",
    ((1, 0), ()): "transposed",
    ((1, 0), (0,)): "turned by 90 degrees",
    ((1, 0), (1,)): "turned by -90 degrees",
    ((1, 0), (0, 1)): "transposed along the other diagonal",
}


def warn_of_turned(fitted, X, rule=TURNED, indices=None) -> bool:
    """Warn of images that fit a template much better turned, and return whether so.

    Mirrored and inverted images count as turned. `indices` are those that users know
    the images by, where some were left out.
    """
    turned = turned_images(fitted, X, rule)
    if not turned:
        return False
    known = np.arange(len(X)) if indices is None else indices
    named = ", ".join(f"{known[i]} {name}" for i, name, _ in turned[:3])
    gain = max(gain for *_, gain in turned)
    warn_user(
        f"{len(turned)} of {len(X)} images fit the template better in another "
        f"position, by up to {gain:.2g} nats a pixel (image {named}), and no "
        "deformation leads there. Bring them to its position, leave them out, or learn "
        "a template of each position by more n_components.",
        FitWarning,
    )
    return True


def turned_images(fitted, X, rule=TURNED) -> list[tuple[int, str, float]]:
    """Return indices of images, their better positions, and gains of a pixel."""
    shape = fitted.layout.image_shape
    is_picture = len(shape) == 2
    # A mixture may have a template of each position.
    if len(fitted.params.weights) > 1 or not (is_picture or rule.of_all <= 1):
        return []
    count = min(rule.looked_at if is_picture else rule.searched, len(X))
    chosen = np.unique(np.linspace(0, len(X) - 1, count).astype(int))
    Y = fitted.standardised(X[chosen])
    images, ways = Y.reshape(len(Y), -1, *shape), _positions(shape)
    ways[EXCHANGED] = lambda images: -_even(images)
    plain = _distances(fitted, Y)
    falls = np.stack([
        plain - _distances(fitted, turn(images)) for turn in ways.values()
    ])  # fmt: skip
    # Noise of the background is no reason to exchange light and dark.
    falls[-1] -= np.maximum(plain - _distances(fitted, _even(images)), 0.0)
    if not is_picture:
        falls[np.arange(len(falls)) != falls.sum(axis=1).argmax()] = 0.0
    likely = np.argsort(-falls, axis=None, kind="stable")[: rule.searched]
    where, which = np.unravel_index(likely[falls.ravel()[likely] > 0], falls.shape)
    if not len(which):
        return []
    names = [list(ways)[k] for k in where]
    turned = [ways[k](images[[i]]) for k, i in zip(names, which, strict=True)]
    better, logs = _log_likelihoods(fitted, turned), _log_likelihoods(fitted, Y[which])
    if (exchanged := where == len(ways) - 1).any():
        even = _log_likelihoods(fitted, _even(images[which[exchanged]]))
        logs[exchanged] = np.maximum(logs[exchanged], even)
    gains = better - logs
    n_pixels = observed_counts(Y[which])
    lacks = 0.5 * n_pixels * (_deviances(fitted, logs, n_pixels) - 1)
    gains[(gains < rule.of_image) | (gains < rule.of_lack * lacks)] = 0.0
    gains /= n_pixels
    best = {}
    for k in np.argsort(gains):  # the largest gain of an image is the last one
        if gains[k] > rule.of_pixel:
            best[int(chosen[which[k]])] = names[k], float(gains[k])
    if not is_picture and len(best) < max(rule.of_all * len(chosen), rule.fewest):
        return []
    return [(index, *best[index]) for index in sorted(best)]


def _even(images):
    """Return images without their backgrounds."""
    shape = images.shape[2:]
    background = np.median(np.nan_to_num(images[..., border_of(shape)]), axis=2)
    return images - background.reshape(*background.shape, *[1] * len(shape))


def _log_likelihoods(fitted, images):
    """Return log-likelihoods of standardised images."""
    Y = np.reshape(images, (len(images), -1))
    return fitted.model.log_likelihoods(Y, fitted.params)


def _positions(shape):
    """Return functions that bring stacks of images to other positions, by names."""
    axes = tuple(range(len(shape)))
    orders = [k for k in permutations(axes) if tuple(np.take(shape, k)) == shape]
    subsets = [combinations(axes, count) for count in range(len(axes) + 1)]
    positions = {}
    for order, ends in product(orders, chain.from_iterable(subsets)):
        if order == axes and not ends:
            continue
        parts = [f"with axes {order}"] * (order != axes)
        parts += [f"reversed along {ends}"] * bool(ends)
        name = NAMES.get((order, ends), " ".join(parts))
        positions[name] = partial(_turned, order=order, ends=ends)
    return positions


def _turned(images, order, ends):
    """Return images with axes in another order, some of which are reversed then."""
    turned = images.transpose(0, 1, *(2 + axis for axis in order))
    return np.flip(turned, tuple(2 + axis for axis in ends))


def warn_of_unexplained(fitted, X, indices=None, rule=UNEXPLAINED) -> bool:
    """Warn of images that are taken for noise, and return whether so."""
    images, share = unexplained_images(fitted, X, rule)
    if share <= rule.share:
        return False
    known = np.arange(len(X)) if indices is None else indices
    named = ", ".join(str(known[i]) for i in images[:5])
    warn_user(
        f"{len(images)} of {len(X)} images are not explained (those with the index "
        f"{named}), and have {min(share, 1.0):.0%} of the deviance of all: they decide "
        "what is taken for noise, and the others deform too little. Look at them: "
        "leave out images of other objects, and bring all to the same place and "
        "contrast.",
        FitWarning,
    )
    return True


def unexplained_images(fitted, X, rule=UNEXPLAINED):
    """Return indices of images that are not explained, and their share of deviances."""
    Y = fitted.standardised(X)
    count = range(len(fitted.params.weights))
    distances = np.min([_distances(fitted, Y, t) for t in count], axis=0)
    worst = np.sort(np.argsort(-distances, kind="stable")[: rule.searched])
    logs = fitted.model.log_likelihoods(Y[worst], fitted.params)
    deviances = _deviances(fitted, logs, observed_counts(Y[worst]))
    far = deviances > rule.deviance
    return worst[far], float(deviances[far].sum() / len(Y))


def _distances(fitted, images, t=0):
    """Return mean squares of the differences from a template as it is."""
    grid, beta = fitted.frame.grid, fitted.params.coefficients[t]
    Y = np.reshape(images, (len(images), -1))
    squares = (Y - grid.deformed(beta, fitted.means[t])) ** 2
    return np.nansum(squares, axis=1) / np.maximum(observed_counts(Y), 1)


def _deviances(fitted, logs, n_pixels):
    """Return deviances of a pixel from log-likelihoods of images."""
    variance = fitted.params.weights @ fitted.params.noise_variances
    return -2 * logs / np.maximum(n_pixels, 1) - np.log(2 * np.pi * variance)
