"""A single picture that is passed where a stack of images is expected."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np

from sktem.exceptions import FitWarning, warn_user

__all__ = ["refuse_picture"]


class PictureRule(NamedTuple):
    """Matrices that are taken for one picture.

    Attributes
    ----------
    least_side : int
        Least sides.
    tall : int
        Rows over columns, at most.
    least_pixels : int
        Longer rows are no short signals, and shorter ones no images unless square.
    ratio : float
        Mean square of the differences of neighbouring rows, in those of rows in random
        order, below which rows are those of a picture.
    n_orders : int
        Random orders of the rows of a square matrix, all of which differ more between
        neighbours where it may be a picture.
    """

    least_side: int = 12
    tall: int = 8
    least_pixels: int = 32
    ratio: float = 0.4
    n_orders: int = 199


PICTURE_RULE = PictureRule()


def refuse_picture(X, rule: PictureRule = PICTURE_RULE) -> None:
    """Raise, or warn where it is in doubt, if a stack of short rows is one picture.

    Parameters
    ----------
    X : array-like of shape (n, d) or (n, d, 1)
        What was passed as n images.
    rule : PictureRule
        What is taken for a picture.
    """
    shape = np.shape(X)
    n, d = shape[:2]
    if not (rule.least_side <= n <= rule.tall * d and d >= rule.least_side):
        return
    is_square = n == d
    if not is_square and (d >= rule.least_pixels or isqrt(d) ** 2 == d):
        return
    values = np.asarray(X).reshape(n, d)
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        return
    values = values / max(np.abs(values).max(), 1e-300)
    # Signals that are repeated say nothing: copies of a row count once.
    values = values[np.append(True, (np.diff(values, axis=0) != 0).any(axis=1))]
    if len(values) < rule.least_side:
        return
    # Of rows in any order, the mean is twice their variance.
    beside, spread = _roughness(values), 2 * values.var(axis=0).mean()
    advice = (
        "X[np.newaxis] is a stack of one image, and image_shape="
        f"({d}{', 1' if len(shape) > 2 else ','}) says that rows are signals"
    )
    if beside < rule.ratio * spread:
        raise ValueError(
            f"X of shape {shape} looks like one image, whose rows resemble those next "
            f"to them: {advice}"
        )
    rng = np.random.default_rng(0)
    if is_square and all(
        beside < _roughness(rng.permutation(values)) for _ in range(rule.n_orders)
    ):
        warn_user(
            f"X of shape {shape} is taken for {n} signals, and may be one image: "
            f"{advice}.",
            FitWarning,
        )


def _roughness(values):
    """Return the mean square of the differences of neighbouring rows."""
    return float(np.square(np.diff(values, axis=0)).mean())
