"""Starting parameters of the mixed-effects estimator."""

from __future__ import annotations

from numbers import Real

import numpy as np

from sktem.estimators.mixed_effects_setup import column_names
from sktem.models.mixed_design import MixedEffectsParams
from sktem.models.residual_error import RESIDUAL_ERRORS
from sktem.models.structural import StructuralModel
from sktem.models.transforms import TRANSFORMS

__all__ = ["starting_params"]


def starting_params(estimator, layout, rows, structure) -> MixedEffectsParams:
    """Return starting parameters, for the residual error from the first residuals.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        Holds the settings.
    layout : Layout
        How columns are used.
    rows : GroupedRows
        Subjects.
    structure : StructuralModel, callable or None
        The model function.

    Returns
    -------
    MixedEffectsParams
        The start.

    Raises
    ------
    ValueError
        If a start value lies outside of the support of its transform, or the model
        function is not finite there.
    """
    design = layout.design
    starts = {name: layout.fixed.get(name, estimator.parameters[name])
              for name in design.names}  # fmt: skip
    phi = []
    for name, kind in zip(design.names, design.transforms, strict=True):
        value, (low, high) = starts[name], TRANSFORMS[kind].support
        if not low < value < high:
            raise ValueError(
                f"parameters[{name!r}] must be in ({low:g}, {high:g}) for the "
                f"transform {kind!r}, got {value!r}"
            )
        phi.append(float(TRANSFORMS[kind].inverse(value)))
    subject, _ = column_names(layout)
    coefficients = []
    for position, column in zip(design.positions, design.columns, strict=True):
        p = design.random[position]
        effect = f"beta_{subject[column]}({design.names[p]})"
        coefficients.append(layout.fixed.get(effect, 0.0) if column else phi[p])
    variances = _starting_variances(estimator.omega_start, design, phi)
    for j, p in enumerate(design.random):
        variances[j] = layout.fixed.get(f"omega2_{design.names[p]}", variances[j])
    omega = np.diag(variances)
    sigma = np.zeros(2)
    if estimator.log_density is None:
        sigma = _starting_error(estimator, starts, design, rows, structure)
        for j, name in enumerate("ab"):
            sigma[j] = layout.fixed.get(name, sigma[j])
    numeric = []
    for entry in design.numeric:
        if entry.kind == "residual":
            numeric.append(np.log(sigma[entry.parameter]))
        else:
            start = entry.kind == "subject" and entry.column == 0
            numeric.append(phi[entry.parameter] if start else 0.0)
    return MixedEffectsParams(
        np.array(coefficients, dtype=float),
        omega,
        sigma,
        np.array(numeric, dtype=float),
    )


def _starting_variances(omega_start, design, phi):
    variances = []
    for p in design.random:
        name = design.names[p]
        given = omega_start.get(name) if isinstance(omega_start, dict) else omega_start
        if given is None:
            wide = design.transforms[p] == "normal" and phi[p] != 0
            given = (0.5 * phi[p]) ** 2 if wide else 1.0
        if not isinstance(given, Real) or not 0 < given < np.inf:
            raise ValueError(
                f"omega_start must be positive, got {given!r} for {name!r}"
            )
        variances.append(float(given))
    if isinstance(omega_start, dict):
        known = {design.names[p] for p in design.random}
        if unknown := sorted(set(omega_start) - known):
            raise ValueError(
                f"omega_start has parameters that are not random: {unknown}"
            )
    return np.array(variances)


def _starting_error(estimator, starts, design, rows, structure):
    error = RESIDUAL_ERRORS[estimator.residual_error]
    psi = {name: np.full(len(rows.y), float(starts[name])) for name in design.names}
    with np.errstate(all="ignore"):
        if isinstance(structure, StructuralModel):
            f = structure.function(psi, rows.inputs)
        else:
            f = np.asarray(structure(psi, rows.columns), dtype=float)
    if f.shape != rows.y.shape:
        raise ValueError(
            f"model must return one value per row, shape {rows.y.shape}, got {f.shape}"
        )
    if not np.isfinite(f).all():
        raise ValueError(
            "model is not finite at the start values: change parameters, or the model"
        )
    y = rows.y
    if error.code == 3:
        if (y <= 0).any() or (f <= 0).any():
            raise ValueError(
                "the exponential error needs positive y and a positive model function"
            )
        y, f = np.log(y), np.log(f)
    size = float(np.sqrt(np.mean((y - f) ** 2)))
    size = size if size > 0 else 1.0
    relative = np.abs(y - f) / np.maximum(np.abs(f), 1e-8)
    share = float(np.clip(np.sqrt(np.mean(np.minimum(relative, 1.0) ** 2)), 1e-3, 1.0))
    if error.code == 1:
        return np.array([0.0, share])
    if error.code == 2:
        return np.array([0.7 * size, 0.3 * share])
    return np.array([size, 0.0])
