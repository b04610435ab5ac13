"""Checks of the results of a user's model, with errors that name the method."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = [
    "NoParametersError",
    "check_each_row",
    "check_latents",
    "checked_mean_statistics",
    "has_nan",
    "maximized",
    "no_parameters",
]


class NoParametersError(ValueError):
    """An M-step has given NaN."""


def has_nan(params: Any) -> bool:
    """Return whether there is a NaN in (nested) parameters."""
    if isinstance(params, np.ndarray):
        if params.dtype.kind not in "fc":
            return False
        # The sum of squares is NaN if one of them is; infinity makes none.
        params = np.vdot(params, params)
    if isinstance(params, (float, complex, np.inexact)):
        return bool(params != params)
    if isinstance(params, dict):
        params = tuple(params.values())
    if isinstance(params, (tuple, list)):
        return any(map(has_nan, params))
    if is_dataclass(params) and not isinstance(params, type):
        return any(has_nan(getattr(params, field.name)) for field in fields(params))
    return False


def maximized(model, s: np.ndarray, params: Any) -> Any:
    """Return the parameters of an M-step, which may not write into the statistics."""
    if not isinstance(s, np.ndarray):  # a tensor
        return model.maximize(s, params)
    before = s.copy()
    params_after = model.maximize(s, params)
    if not np.array_equal(s, before, equal_nan=True):
        raise ValueError(
            f"maximize of {type(model).__name__} writes into the statistics s, with "
            "which the solver continues: work on a copy of them"
        )
    return params_after


def no_parameters(model, s) -> NoParametersError:
    """Return the error of an M-step whose result is NaN."""
    where = "statistics that are finite"
    if not np.isfinite(s).all():
        where = "statistics that are not finite: look at mean_statistics, too"
    name = type(model).__name__
    return NoParametersError(f"maximize of {name} returned NaN for {where}")


def check_each_row(model, name: str, values, n_rows: int, like=None) -> None:
    """Check that a method has returned one number (or latent) for each row."""
    expected = (n_rows,) if like is None else like.shape
    if np.shape(values) != expected:
        what = "(n,)" if like is None else "that of the latents"
        raise ValueError(
            f"{name} of {type(model).__name__} must return the shape {what}, here "
            f"{expected}; got {np.shape(values)}"
        )


def check_latents(model, name: str, Z, n_rows: int, n_draws: int | None = None):
    """Check the shape of latents."""
    shape = np.shape(Z)
    axes = "(n, ...)"
    fits = len(shape) >= 1 and shape[0] == n_rows
    if not model.averages_draws and name != "initial_latents":
        axes = "(n, n_draws, ...)"
        fits = fits and len(shape) >= 2 and n_draws in (None, shape[1])
    if not (isinstance(Z, np.ndarray) and fits):
        count = "" if n_draws is None else f" and n_draws = {n_draws}"
        hint = ""
        if axes == "(n, n_draws, ...)":
            hint = (
                ". Where one latent per row stands for the average over draws, set "
                "averages_draws = True"
            )
        raise ValueError(
            f"{name} of {type(model).__name__} must return an array of shape {axes} "
            f"with n = {n_rows}{count}; got {shape if shape else type(Z).__name__}"
            f"{hint}"
        )


def checked_mean_statistics(model, X, Z, source: str, came: tuple) -> None:
    """Check the result of ``mean_statistics``."""
    call = (
        f"mean_statistics of {type(model).__name__}, called for {len(Z)} rows with "
        f"latents of shape {Z.shape} ({source} returned {came}, averages_draws = "
        f"{model.averages_draws})"
    )
    try:
        s = model.mean_statistics(X, Z, None)
        shape = np.shape(s)
        alone = None
        if shape == (len(Z),) and 1 < len(Z) and isinstance(X, np.ndarray):
            alone = np.shape(model.mean_statistics(X[1:], Z[1:], None))
    except (ValueError, IndexError, TypeError) as error:
        hint = ""
        if not model.averages_draws and source != "initial_latents":
            hint = (
                ". The second axis of what it gets was taken for draws: if it is not, "
                "set averages_draws = True"
            )
        raise ValueError(f"{call}, failed: {error}{hint}") from error
    if len(shape) != 1 or alone not in (None, shape):
        raise ValueError(
            f"{call}, must return an average over the rows of shape (n_statistics,), "
            f"which does not depend on their number; got {shape}"
        )
    if np.isnan(s).any():
        raise ValueError(f"{call}, returned NaN")
