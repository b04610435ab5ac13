"""Check of images that fit a template better turned, mirrored or inverted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.images.shapes import border_of

__all__ = ["TURNED_NEW", "TurnedRule", "turned_images", "warn_of_turned"]


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
    """

    looked_at: int = 400
    searched: int = 20
    of_pixel: float = 0.1
    of_image: float = 12.0
    of_lack: float = 0.3


#: The rules of every fit, and of new images, from which a template of few images is
#: farther and which may be of anything.
TURNED = TurnedRule()
TURNED_NEW = TurnedRule(of_lack=0.75)

#: A position that is none.
EXCHANGED = "with light and dark exchanged"


def warn_of_turned(fitted, X, rule=TURNED):
    """Warn of images that fit a template much better turned, mirrored or inverted."""
    turned = turned_images(fitted, X, rule)
    if not turned:
        return
    named = ", ".join(f"{i} {name}" for i, name, _ in turned[:3])
    gain = max(gain for *_, gain in turned)
    warn_user(
        f"{len(turned)} of {len(X)} images fit the template better in another "
        f"position, by up to {gain:.2g} nats a pixel (image {named}), and no "
        "deformation leads there. Bring them to its position, leave them out, or learn "
        "a template of each position by more n_components.",
        FitWarning,
    )


def turned_images(fitted, X, rule=TURNED) -> list[tuple[int, str, float]]:
    """Return indices of images, their better positions, and gains of a pixel."""
    shape = fitted.layout.image_shape
    # A mixture may have a template of each position.
    if len(shape) != 2 or len(fitted.params.weights) > 1:
        return []
    count = min(rule.looked_at, len(X))
    chosen = np.unique(np.linspace(0, len(X) - 1, count).astype(int))
    Y = fitted.standardised(X[chosen])
    images = Y.reshape(len(Y), -1, *shape)
    background = np.median(np.nan_to_num(images[..., border_of(shape)]), axis=2)
    even = (images - background[..., None, None]).reshape(Y.shape)
    positions = _positions(images) | {EXCHANGED: -even}
    as_they_are = {name: Y for name in positions} | {EXCHANGED: even}
    distances, falls = (
        np.array([_distances(fitted, Z) for Z in kinds.values()])
        for kinds in (positions, as_they_are)
    )
    falls = np.minimum(falls, falls[0]) - distances
    likely = np.argsort(-falls, axis=None, kind="stable")[: rule.searched]
    where, which = np.unravel_index(likely[falls.ravel()[likely] > 0], falls.shape)
    if not len(which):
        return []
    turned = np.array(list(positions.values()))[where, which]
    # Noise of the background is no reason to exchange light and dark.
    before = [np.array(list(as_they_are.values()))[where, which], Y[which]]
    logs = np.maximum(*[_log_likelihoods(fitted, Z) for Z in before])
    gains = _log_likelihoods(fitted, turned) - logs
    n_pixels = np.count_nonzero(~np.isnan(turned), axis=1)
    entropy = 0.5 * (1 + np.log(2 * np.pi * fitted.params.noise_variances[0]))
    lacks = -entropy * n_pixels - logs
    gains[(gains < rule.of_image) | (gains < rule.of_lack * lacks)] = 0.0
    gains /= n_pixels
    names, best = np.array(list(positions))[where], {}
    for k in np.argsort(gains):  # the largest gain of an image is the last one
        if gains[k] > rule.of_pixel:
            best[int(chosen[which[k]])] = str(names[k]), float(gains[k])
    return [(index, *best[index]) for index in sorted(best)]


def _positions(images):
    """Return images in other positions, as rows, by names of the positions."""
    positions = {
        "turned by 180 degrees": images[..., ::-1, ::-1],
        "upside down": images[..., ::-1, :],
        "mirrored": images[..., ::-1],
    }
    if images.shape[2] == images.shape[3]:
        transposed = images.swapaxes(2, 3)
        positions |= {
            "transposed": transposed,
            "turned by 90 degrees": transposed[..., ::-1, :],
            "turned by -90 degrees": transposed[..., ::-1],
            "transposed along the other diagonal": transposed[..., ::-1, ::-1],
        }
    rows = len(images), images[0].size
    return {name: Z.reshape(rows) for name, Z in positions.items()}


def _distances(fitted, Y):
    """Return mean squares of the differences from the template as it is."""
    grid, beta = fitted.frame.grid, fitted.params.coefficients[0]
    squares = (Y - grid.deformed(beta, fitted.means[0])) ** 2
    count = np.maximum(np.count_nonzero(~np.isnan(Y), axis=1), 1)
    return np.nansum(squares, axis=1) / count


def _log_likelihoods(fitted, Y):
    """Return log-likelihoods of standardised images."""
    return logsumexp(fitted.model.searched(Y, fitted.params)[1], axis=1)
