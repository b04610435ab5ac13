"""Checks of new images, which a template was not learned from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sktem.estimators.fit_warnings import warn_user
from sktem.exceptions import FitWarning
from sktem.template.turned import TURNED_NEW, warn_of_turned

__all__ = ["LightRule", "warn_of_new"]


class LightRule(NamedTuple):
    """Thresholds of new images in another light than those of the fit.

    Attributes
    ----------
    looked_at : int
        Images whose pixels are looked at, at most.
    contrast : float
        Factor between the deviations of their pixels that is no accident.
    brightness : float
        Distance of their mean from that of the template, in deviations of its pixels.
    """

    looked_at: int = 400
    contrast: float = 4.0
    brightness: float = 4.0


LIGHT = LightRule()


def warn_of_new(fitted, X, rule=LIGHT) -> None:
    """Warn of new images in another light, or in another position."""
    if not _warn_of_light(fitted, X, rule):
        warn_of_turned(fitted, X, TURNED_NEW)


def _warn_of_light(fitted, X, rule):
    """Warn of images whose light is far from that of the fit; return whether so."""
    if {"gain", "offset"} & set(fitted.nuisance_names):
        return False
    Y = X[:: -(-len(X) // rule.looked_at)]
    Y = Y[~np.isnan(Y).all(axis=1)]
    if not len(Y):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        moments = [np.nanmean(Y, axis=1), np.nanstd(Y, axis=1)]
    middle, spread = np.median(moments, axis=1)
    templates, params = fitted.templates(), fitted.params
    noise = np.mean(fitted.frame.noise_variances(params.noise_variances))
    mean, clean = templates.mean(), templates.var(axis=1).mean()
    scale = np.sqrt(clean + noise)
    # A blank image has nothing to deform, in whatever light.
    least, most = np.sqrt(clean) / rule.contrast, scale * rule.contrast
    usual = spread == 0 or least <= spread <= most
    if usual and abs(middle - mean) <= rule.brightness * scale:
        return False
    warn_user(
        f"Pixels of the new images have mean {middle:.3g} and standard deviation "
        f"{spread:.3g}, those of the template and its noise {mean:.3g} and "
        f"{scale:.3g}: no deformation makes up for that. Bring images to the same "
        "contrast and brightness.",
        FitWarning,
    )
    return True
