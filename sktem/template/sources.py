"""Images of a fit that are read by blocks."""

from __future__ import annotations

import numpy as np

from sktem.estimators.by_blocks import (
    checked_rows,
)
from sktem.images.rows import images_of_start
from sktem.images.shapes import Layout, resolved_shape, rows_of
from sktem.rows.held import carrier_of
from sktem.rows.partitions import check_can_remember

__all__ = ["images_of_fit", "standardised"]


def images_of_fit(estimator, source, sample_weight):
    """Return images of a fit after a pass that checks them, weights and layout.

    Also returns whether images are rows.
    """
    check_can_remember(estimator, source)
    X, sample_weight = checked_rows(
        estimator, source, sample_weight, dtype=np.float64, allow_nan=True
    )
    if estimator.channel_axis is not None:
        raise ValueError("images with channels are fitted in memory: pass an array")
    few, _ = images_of_start(X, None, np.random.default_rng(0))
    image_shape, shape = estimator.image_shape, getattr(source, "image_shape", ())
    # One image shows what the shape means.
    shape = rows_of(np.empty((1, *shape)), image_shape)[1] if len(shape) > 1 else None
    layout = Layout(resolved_shape(few, image_shape, shape))
    if np.isnan(few).all():
        raise ValueError("all pixels of all images are NaN: nothing to learn")
    return X, sample_weight, layout, shape is None


def standardised(frame, X):
    """Return images in the units of the model."""
    if carrier_of(X).in_memory:
        return frame.standardised(X)
    return X.mapped(frame.standardised)
