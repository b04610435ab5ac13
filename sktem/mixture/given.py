"""Checks of values that users pass to a Gaussian mixture, and its start."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_array

from sktem.arrays import numpy_of
from sktem.mixture.model import GaussianMixtureParams

__all__ = [
    "as_dtype",
    "central_point",
    "check_given_parameters",
    "override_start",
    "some_rows",
]

#: Rows from which the centre of the statistics is taken.
CENTRE_ROWS = 4096


def as_dtype(values, dtype) -> np.ndarray:
    """Convert to a dtype, or to float64 where values are out of its range."""
    limits = np.finfo(dtype)
    size = np.abs(values)
    fits = ((size <= limits.max) & ((size >= limits.tiny) | (size == 0))).all()
    return values.astype(dtype if fits else np.float64)


def some_rows(X) -> np.ndarray:
    """Return rows at equal distances."""
    step = max(1, len(X) // CENTRE_ROWS)
    rows = (
        X[::step] if isinstance(X, np.ndarray) else X.take(np.arange(0, len(X), step))
    )
    return np.asarray(rows, dtype=np.float64)


def central_point(X) -> np.ndarray:
    """Return a point among the bulk of the data.

    Statistics are held about it. The median is not moved by far outliers.
    """
    rows = some_rows(X)
    if np.isnan(rows).any():
        observed = [column[~np.isnan(column)] for column in rows.T]
        return np.array([np.median(c) if len(c) else 0.0 for c in observed])
    middle = [(len(rows) - 1) // 2, len(rows) // 2]  # np.median takes 50 us of any rows
    return np.partition(rows, middle, axis=0)[middle].sum(axis=0) / 2


def _check_shape(value, shape, name):
    value = check_array(
        numpy_of(value),
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        input_name=name,
    )
    if value.shape != shape:
        raise ValueError(
            f"The parameter '{name}' should have the shape of {shape}, but got "
            f"{value.shape}"
        )
    return value


def check_given_parameters(weights, means, precisions, shape, covariance_type):
    """Check ``weights_init``, ``means_init`` and ``precisions_init``."""
    K, n_features = shape
    if weights is not None:
        weights = _check_shape(weights, (K,), "weights")
        if (weights < 0).any() or (weights > 1).any():
            raise ValueError(
                "The parameter 'weights' should be in the range [0, 1], but got max "
                f"value {weights.max():.5f}, min value {weights.min():.5f}"
            )
        if not np.isclose(weights.sum(), 1.0):
            raise ValueError(
                "The parameter 'weights' should be normalized, but got "
                f"sum(weights) = {weights.sum():.5f}"
            )
    if means is not None:
        means = _check_shape(means, (K, n_features), "means")
    if precisions is not None:
        shapes = {
            "full": (K, n_features, n_features),
            "tied": (n_features, n_features),
            "diag": (K, n_features),
            "spherical": (K,),
        }
        if covariance_type not in shapes:
            raise ValueError(
                "precisions_init cannot be given with covariance_type="
                f"{covariance_type!r}"
            )
        name = f"{covariance_type} precision"
        precisions = _check_shape(precisions, shapes[covariance_type], name)
        _check_precisions(precisions, covariance_type)
    return weights, means, precisions


def _check_precisions(precisions, kind):
    if kind in ("diag", "spherical"):
        good = (precisions > 0).all()
    else:
        stack = np.atleast_3d(precisions) if kind == "full" else precisions[None]
        symmetric = np.allclose(stack, np.swapaxes(stack, -1, -2))
        good = symmetric and (np.linalg.eigvalsh(stack) > 0).all()
    if not good:
        what = "positive"
        if kind in ("full", "tied"):
            what = "symmetric, positive-definite"
        raise ValueError(f"'{kind} precision' should be {what}")


def override_start(model, params, inits, X):
    """Replace parts of the start by the values that the user gave."""
    weights, means, precisions = inits
    structure = model.structure(X.shape[1])
    values = {} if params is None else params._asdict()
    if weights is not None:
        values["weights"] = weights / weights.sum()
    if means is not None:
        values["means"] = means - model.centre
    if precisions is not None:
        factors = structure.cholesky_of_precisions(precisions)
        values["precisions_cholesky"] = factors
        values["covariances"] = (
            np.linalg.inv(precisions)
            if model.covariance_type in ("full", "tied")
            else 1.0 / precisions
        )
    elif params is None:  # unit covariances
        ones = structure.unpack(np.empty(0))
        values["covariances"], values["precisions_cholesky"] = ones, ones
    return GaussianMixtureParams(**values)
