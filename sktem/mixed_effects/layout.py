"""From the parameters of the mixed-effects estimator to a model and its data."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from sktem.choices import check_choice, check_names, did_you_mean
from sktem.mixed_effects.columns import (
    column_of,
    input_columns,
    listed,
)
from sktem.mixed_effects.design import (
    MixedEffectsDesign,
    NumericEntry,
)
from sktem.mixed_effects.residual_errors import RESIDUAL_ERRORS
from sktem.mixed_effects.rows import GroupedRows
from sktem.mixed_effects.structural import STRUCTURAL_MODELS, StructuralModel
from sktem.mixed_effects.transforms import TRANSFORMS

__all__ = ["Layout", "group_rows", "layout_of", "structure_of"]


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
        check_choice("model", model, STRUCTURAL_MODELS, " or a callable")
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
    check_names(what, value, names, "parameters")
    chosen = tuple(value.get(name, "log-normal") for name in names)
    for entry in chosen:
        check_choice(what, entry, known)
    return chosen


def _pattern(omega, names, grouped):
    """Return which parameters are random, and the free entries of their covariance."""
    p = len(names)
    if isinstance(omega, str) and omega in ("diagonal", "full"):
        pattern = (
            np.eye(p, dtype=bool) if omega == "diagonal" else np.ones((p, p), bool)
        )
    elif isinstance(omega, (list, tuple)) and all(isinstance(o, str) for o in omega):
        check_names("omega", omega, names, "parameters")
        pattern = np.diag([name in omega for name in names])
    else:
        pattern = np.asarray(omega)
        if pattern.shape != (p, p) or pattern.dtype.kind not in "bif":
            raise ValueError(
                'omega must be "diagonal", "full", a list of the random parameters '
                "(empty for none) or "
                f"a {p} x {p} matrix of zeros and ones, got {omega!r}"
                f"{did_you_mean(omega, ('diagonal', 'full'))}"
            )
        pattern = pattern != 0
    random = np.flatnonzero(np.diag(pattern))
    if len(random) and not grouped:
        raise ValueError(
            f"groups is missing: {[names[r] for r in random]} have random effects. "
            "Pass fit(X, y, groups=...), the subject of each row. Searches and "
            "cross-validation pass it on after "
            "sklearn.set_config(enable_metadata_routing=True) and "
            "set_fit_request(groups=True) on this estimator. omega=[] asks for no "
            "random effects, that is for plain nonlinear regression."
        )
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


def _residual_names(names):
    """Return what a and b of the residual error are called, not as a parameter is."""
    found = []
    for name in "ab":
        while name in names:
            name = f"residual_{name}"
        found.append(name)
    return tuple(found)


def _fixed(estimator, names, labels, random, pattern, residual_names):
    """Return the names of what is fixed, and values of those that have one.

    ``labels`` maps each covariate effect that there is to whether it varies by row.
    """
    given = () if estimator.fixed is None else estimator.fixed
    values = dict(given) if isinstance(given, dict) else {}
    residual = ()
    if estimator.log_density is None:
        used = RESIDUAL_ERRORS[estimator.residual_error].indices
        residual = tuple(residual_names[j] for j in used)
    variances = {f"omega2_{names[p]}": j for j, p in enumerate(random)}
    known = [*names, *labels, *variances, *residual]
    check_names("fixed", given, known, "parameters")
    for name in given:
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
        inputs = input_columns(estimator, structure, names, n_columns)
    elif estimator.inputs is not None:
        raise ValueError("inputs is for models of the library, given by name")
    transforms = _by_name(
        estimator.transforms, parameter_names, TRANSFORMS, "transforms"
    )
    random, pattern = _pattern(estimator.omega, parameter_names, groups is not None)
    covariates = {} if estimator.covariates is None else dict(estimator.covariates)
    check_names("covariates", covariates, parameter_names, "parameters")
    subject_columns: list[int] = []
    row_columns: list[int] = []

    def title(column):
        return f"x{column}" if names is None else names[column]

    found, labels = [], {}
    for p, name in enumerate(parameter_names):
        found.append((p, "subject", 0, name))
        for key in listed(covariates.get(name, ())):
            column = column_of(key, names, n_columns, "covariates")
            constant = groups is not None and _is_constant(X[:, column], groups)
            used = subject_columns if constant else row_columns
            if column not in used:
                used.append(column)
            kind = "subject" if constant else "row"
            label = f"beta_{title(column)}({name})"
            labels[label] = not constant
            found.append((p, kind, used.index(column) + constant, label))
    residual_names = _residual_names(parameter_names)
    fixed, values = _fixed(
        estimator, parameter_names, labels, random, pattern, residual_names
    )
    terms, free, numeric, given = [], [], [], []
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
            covariate = title(subject_columns[column - 1])
            given.append((parameter_names[p], covariate, float(constant[p, column])))
    if estimator.log_density is None:
        error = RESIDUAL_ERRORS[estimator.residual_error]
        numeric += [
            NumericEntry("residual", j, 0)
            for j in (error.indices if error.closed_form is None else ())
            if residual_names[j] not in fixed
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
        ("intercept", *map(title, subject_columns)),
        tuple(map(title, row_columns)),
        residual_names,
        tuple(given),
    )
    _check_names(design, labels)
    return Layout(inputs, names, subject_columns, row_columns, design, values)


def _check_names(design, labels):
    """Raise an error where a parameter is called like something that follows."""
    random = [design.names[p] for p in design.random]
    derived = {*labels, *(f"omega2_{name}" for name in random)}
    derived |= {f"cov_{one}_{other}" for one in random for other in random}
    if clash := sorted(derived & set(design.names)):
        raise ValueError(
            f"parameters must not be called {clash}: estimates that belong to other "
            "parameters have these names"
        )


def _is_constant(values, groups):
    """Whether a column has one value in each group."""
    first = np.full(groups.max() + 1, np.nan)
    first[groups[::-1]] = values[::-1]
    return bool((values == first[groups]).all())


def group_rows(layout: Layout, X, y, groups) -> GroupedRows:
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
    GroupedRows
        Subjects.
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
    by_row = X[:, layout.row_columns]
    return GroupedRows(inputs, y, offsets, covariates, by_row, names)
