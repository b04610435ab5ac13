"""From the parameters of the mixed-effects estimator to a model and its data."""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from sktem.models.grouped_rows import GroupedRows
from sktem.models.mixed_design import (
    MixedEffectsDesign,
    NumericEntry,
)
from sktem.models.residual_error import RESIDUAL_ERRORS
from sktem.models.structural import STRUCTURAL_MODELS, StructuralModel
from sktem.models.transforms import TRANSFORMS

__all__ = ["Layout", "column_names", "group_rows", "layout_of", "structure_of"]


class Layout(NamedTuple):
    """How columns of X are used.

    Attributes
    ----------
    inputs : list of int or None
        Columns for a model of the library, None for all.
    names : tuple of str or None
        Names of the columns.
    subject_columns, row_columns : list of int
        Covariates that are constant within subjects, and that are not.
    design : MixedEffectsDesign
        The coefficients.
    fixed : dict
        Values of what is fixed at one of its own, by name.
    """

    inputs: list[int] | None
    names: tuple[str, ...] | None
    subject_columns: list[int]
    row_columns: list[int]
    design: MixedEffectsDesign
    fixed: dict[str, float]


def _column(key, names, n_columns, what):
    """Return the position of a column given by name or number."""
    if isinstance(key, Integral) and not isinstance(key, bool):
        if not 0 <= key < n_columns:
            raise ValueError(f"{what}: X has {n_columns} columns, got {key!r}")
        return int(key)
    if names is None or key not in names:
        known = "numbers (X has no column names)" if names is None else list(names)
        raise ValueError(f"{what} must name columns of X: {known}, got {key!r}")
    return list(names).index(key)


def structure_of(model, parameters):
    """Return (StructuralModel or callable, names in its order).

    Parameters
    ----------
    model : str, callable or None
        What the user passed.
    parameters : dict
        Start values by name.

    Returns
    -------
    structure : StructuralModel, callable or None
        The function.
    names : tuple of str
        Names of the parameters.

    Raises
    ------
    ValueError
        For an unknown name of a model, or wrong names of parameters.
    TypeError
        For a model that is neither.
    """
    if not isinstance(parameters, dict) or not parameters:
        raise ValueError(
            "parameters must be a dict of start values by name, such as "
            f'{{"ka": 1.0}}, got {parameters!r}'
        )
    for name, value in parameters.items():
        if not isinstance(value, Real) or not np.isfinite(value):
            raise ValueError(f"parameters[{name!r}] must be a number, got {value!r}")
    if isinstance(model, str):
        if model not in STRUCTURAL_MODELS:
            raise ValueError(
                f"model must be one of {sorted(STRUCTURAL_MODELS)} or a callable, got "
                f"{model!r}"
            )
        structure = STRUCTURAL_MODELS[model]
        if set(parameters) != set(structure.parameters):
            raise ValueError(
                f"model {model!r} has the parameters {list(structure.parameters)}, got "
                f"{list(parameters)}"
            )
        return structure, structure.parameters
    if model is not None and not callable(model):
        raise TypeError(f"model must be a name or a callable, got {model!r}")
    return model, tuple(parameters)


def _by_name(value, names, known, what):
    """Return one value per parameter from one for all, or from a dict."""
    if not isinstance(value, dict):
        value = dict.fromkeys(names, value)
    unknown = set(value) - set(names)
    if unknown:
        raise ValueError(f"{what} has unknown parameters {sorted(unknown)}")
    chosen = tuple(value.get(name, "log-normal") for name in names)
    for entry in chosen:
        if entry not in known:
            raise ValueError(f"{what} must be one of {sorted(known)}, got {entry!r}")
    return chosen


def _pattern(omega, names, grouped):
    """Return which parameters are random, and the free entries of their covariance."""
    p = len(names)
    if not grouped:
        pattern = np.zeros((p, p), dtype=bool)
    elif isinstance(omega, str) and omega in ("diagonal", "full"):
        pattern = (
            np.eye(p, dtype=bool) if omega == "diagonal" else np.ones((p, p), bool)
        )
    elif isinstance(omega, (list, tuple)) and all(isinstance(o, str) for o in omega):
        unknown = sorted(set(omega) - set(names))
        if unknown:
            raise ValueError(f"omega has unknown parameters {unknown}")
        pattern = np.diag([name in omega for name in names])
    else:
        pattern = np.asarray(omega)
        if pattern.shape != (p, p) or pattern.dtype.kind not in "bif":
            raise ValueError(
                'omega must be "diagonal", "full", a list of the random parameters or '
                f"a {p} x {p} matrix of zeros and ones, got {omega!r}"
            )
        pattern = pattern != 0
    random = np.flatnonzero(np.diag(pattern))
    outside = pattern.copy()
    outside[np.ix_(random, random)] = False
    inside = pattern[np.ix_(random, random)]
    blocks = (inside.astype(int) @ inside.astype(int)) > 0
    if (inside != inside.T).any() or outside.any() or (blocks != inside).any():
        raise ValueError(
            "omega must be symmetric, with full blocks on the diagonal (two parameters "
            "that correlate with a third must correlate), and without covariances of "
            "parameters that have no variance"
        )
    return random, inside


def _fixed(estimator, names, labels, random, pattern):
    """Return the names of what is fixed, and values of those that have one.

    ``labels`` maps each covariate effect that there is to whether it varies by row.
    """
    given = () if estimator.fixed is None else estimator.fixed
    values = dict(given) if isinstance(given, dict) else {}
    residual = ()
    if estimator.log_density is None:
        residual = RESIDUAL_ERRORS[estimator.residual_error].names
    variances = {f"omega2_{names[p]}": j for j, p in enumerate(random)}
    for name in given:
        if name not in {*names, *labels, *residual, *variances}:
            known = [*names, *labels, *variances, *residual]
            raise ValueError(f"fixed has unknown parameters [{name!r}], not of {known}")
        if labels.get(name, False):
            raise ValueError(
                f"fixed: the effect {name!r} varies by row and must be free"
            )
        if name in residual and name not in values:
            raise ValueError(
                f"fixed: {name!r} has no start value, pass a dict such as "
                f'{{"{name}": 1.0}}'
            )
        if name in variances and pattern[variances[name]].sum() > 1:
            raise ValueError(
                f"fixed: {name!r} has covariances with others, and must be free"
            )
    for name, value in values.items():
        if not isinstance(value, Real) or not np.isfinite(value):
            raise ValueError(f"fixed[{name!r}] must be a number, got {value!r}")
        if (name in residual or name in variances) and value <= 0:
            raise ValueError(f"fixed[{name!r}] must be positive, got {value!r}")
    return set(given), {name: float(value) for name, value in values.items()}


def layout_of(estimator, X, names, groups, structure, parameter_names):
    """Check the settings of the estimator and return how columns are used.

    Parameters
    ----------
    estimator : NonlinearMixedEffectsRegressor
        Holds the settings.
    X : ndarray of shape (n_rows, n_columns)
        Data.
    names : tuple of str or None
        Names of the columns.
    groups : ndarray of int of shape (n_rows,) or None
        Numbers of the subjects.
    structure : StructuralModel, callable or None
        The model function.
    parameter_names : tuple of str
        Names of the parameters.

    Returns
    -------
    Layout
        Columns and coefficients.
    """
    n_columns = X.shape[1]
    inputs = None
    if isinstance(structure, StructuralModel):
        wanted = len(structure.inputs)
        given = range(wanted) if estimator.inputs is None else estimator.inputs
        inputs = [_column(key, names, n_columns, "inputs") for key in given]
        if len(inputs) != wanted:
            raise ValueError(
                f"model {estimator.model!r} has the inputs {list(structure.inputs)}, "
                f"got inputs={estimator.inputs!r}"
            )
    elif estimator.inputs is not None:
        raise ValueError("inputs is for models of the library, given by name")
    transforms = _by_name(
        estimator.transforms, parameter_names, TRANSFORMS, "transforms"
    )
    random, pattern = _pattern(estimator.omega, parameter_names, groups is not None)
    covariates = {} if estimator.covariates is None else dict(estimator.covariates)
    if unknown := sorted(set(covariates) - set(parameter_names)):
        raise ValueError(f"covariates has unknown parameters {unknown}")
    subject_columns: list[int] = []
    row_columns: list[int] = []
    found, labels = [], {}
    for p, name in enumerate(parameter_names):
        columns = covariates.get(name, ())
        if isinstance(columns, (str, Integral)):
            columns = (columns,)
        found.append((p, "subject", 0, name))
        for key in columns:
            column = _column(key, names, n_columns, "covariates")
            constant = groups is not None and _is_constant(X[:, column], groups)
            used = subject_columns if constant else row_columns
            if column not in used:
                used.append(column)
            kind = "subject" if constant else "row"
            title = f"x{column}" if names is None else names[column]
            label = f"beta_{title}({name})"
            labels[label] = not constant
            found.append((p, kind, used.index(column) + constant, label))
    fixed, values = _fixed(estimator, parameter_names, labels, random, pattern)
    terms, free, numeric = [], [], []
    constant = np.zeros((len(parameter_names), 1 + len(subject_columns)))
    is_random = {p: j for j, p in enumerate(random)}
    for p, kind, column, label in found:
        if p in is_random and kind == "subject":
            terms.append((is_random[p], column))
            free.append(label not in fixed)
        elif label not in fixed:
            numeric.append(NumericEntry(kind, p, column))
        elif column == 0:
            start = values.get(label, estimator.parameters[label])
            constant[p, 0] = TRANSFORMS[transforms[p]].inverse(start)
        else:
            constant[p, column] = values.get(label, 0.0)
    if estimator.log_density is None and estimator.residual_error == "combined":
        numeric += [
            NumericEntry("residual", j, 0) for j in range(2) if "ab"[j] not in fixed
        ]
    positions, columns = np.array(terms, dtype=np.int64).reshape(-1, 2).T
    design = MixedEffectsDesign(
        tuple(parameter_names),
        transforms,
        random.astype(np.int64),
        pattern,
        np.ascontiguousarray(positions),
        np.ascontiguousarray(columns),
        np.array(free, dtype=bool),
        tuple(numeric),
        constant,
        frozenset(name for name in fixed if name not in (*parameter_names, *labels)),
    )
    return Layout(inputs, names, subject_columns, row_columns, design, values)


def column_names(layout: Layout) -> tuple[list[str], list[str]]:
    """Return names of the covariates of subjects, and of those that vary by row.

    Parameters
    ----------
    layout : Layout
        How columns are used.

    Returns
    -------
    tuple of list of str
        Names, the first of the former being that of the intercept.
    """

    def name(column):
        return f"x{column}" if layout.names is None else layout.names[column]

    subject = ["intercept", *map(name, layout.subject_columns)]
    return subject, [name(column) for column in layout.row_columns]


def _is_constant(values, groups):
    """Whether a column has one value in each group."""
    first = np.full(groups.max() + 1, np.nan)
    first[groups[::-1]] = values[::-1]
    return bool((values == first[groups]).all())


def group_rows(layout: Layout, X, y, groups) -> tuple[GroupedRows, np.ndarray]:
    """Sort rows by subject.

    Parameters
    ----------
    layout : Layout
        How columns are used.
    X : ndarray of shape (n_rows, n_columns)
        Data.
    y : ndarray of shape (n_rows,)
        Observations.
    groups : ndarray of int of shape (n_rows,)
        Numbers of the subjects, 0 to their number less one.

    Returns
    -------
    rows : GroupedRows
        Subjects.
    order : ndarray of int of shape (n_rows,)
        Where each of their rows was.
    """
    order = np.argsort(groups, kind="stable")
    X, y, groups = X[order], y[order], groups[order]
    lengths = np.bincount(groups)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = X[offsets[:-1]]
    covariates = np.column_stack(
        [np.ones(len(lengths)), first[:, layout.subject_columns]]
    )
    inputs = X if layout.inputs is None else X[:, layout.inputs]
    names = layout.names if layout.inputs is None else None
    rows = GroupedRows(inputs, y, offsets, covariates, X[:, layout.row_columns], names)
    return rows, order
