"""Model and data layout from the parameters of the mixed-effects estimator."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from sktem.choices import check_names
from sktem.compartments.models import CompartmentModel
from sktem.mixed_effects.columns import listed
from sktem.mixed_effects.design import MixedEffectsDesign, NumericEntry, effect_name
from sktem.mixed_effects.effects import (
    block_of,
    covariance_pattern,
    covariances_by_name,
    numbered,
    occasions_of,
    with_occasions,
)
from sktem.mixed_effects.endpoints import residual_names_of
from sktem.mixed_effects.priors import priors_of, split_fixed
from sktem.mixed_effects.rows import GroupedRows
from sktem.mixed_effects.settings import MixedEffectsSettings
from sktem.mixed_effects.structural import STRUCTURAL_MODELS, StructuralModel
from sktem.mixed_effects.transforms import TRANSFORMS, check_transform, is_box
from sktem.sequences.labels import column_of

__all__ = ["Coefficient", "Layout", "group_rows", "layout_of", "structure_of"]


class Coefficient(NamedTuple):
    """A coefficient of a parameter on the Gaussian scale.

    Attributes
    ----------
    parameter : int
        Index of the parameter.
    column : int
        Covariate, among those of its kind; those of subjects begin with the intercept.
    kind : {"subject", "row"}
        Whether the covariate is constant within subjects.
    label : str
        Name among the estimates.
    value : float
        Where it starts or stays; for an intercept, the parameter on its natural scale.
    covariate : str or None
        Name of the covariate, None for a population value.
    fixed : bool
        Whether it stays.
    """

    parameter: int
    column: int
    kind: str
    label: str
    value: float
    covariate: str | None = None
    fixed: bool = False

    @property
    def is_intercept(self) -> bool:
        """Return whether it is the population value itself."""
        return self.covariate is None

    def is_linear(self, random) -> bool:
        """Return whether the mean of a random parameter is linear in it."""
        return self.kind == "subject" and self.parameter in random


class Layout(NamedTuple):
    """The uses of the columns of X.

    Attributes
    ----------
    n_columns : int
        Number of columns.
    inputs : list of int or None
        Columns for a model of the library, None for all.
    names : tuple of str or None
        Names of the columns.
    subject_columns, row_columns : list of int
        Covariates that are constant within subjects, and that are not.
    coefficients : list of Coefficient
        All coefficients, by parameter.
    variances, covariances, residual : dict
        Fixed values of variances by index of the random effect, of covariances by both,
        and of parameters of the residual error by their index.
    design : MixedEffectsDesign
        The design that the coefficients form.
    occasion_column : int or None, default=None
        Column of occasions.
    unread : tuple of int, default=()
        Columns of an array that nobody asked to leave out.
    """

    n_columns: int
    inputs: list[int] | None
    names: tuple[str, ...] | None
    subject_columns: list[int]
    row_columns: list[int]
    coefficients: list[Coefficient]
    variances: dict[int, float]
    covariances: dict[tuple[int, int], float]
    residual: dict[int, float]
    design: MixedEffectsDesign
    occasion_column: int | None = None
    unread: tuple[int, ...] = ()


def structure_of(model, parameters):
    """Return (StructuralModel or callable, names in its order)."""
    if not isinstance(parameters, dict) or not parameters:
        raise ValueError(
            "parameters must be a dict of start values by name, such as "
            f'{{"ka": 1.0}}, got {parameters!r}'
        )
    for name, value in parameters.items():
        if not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ValueError(f"parameters[{name!r}] must be a number, got {value!r}")
    if isinstance(model, str):
        structure = STRUCTURAL_MODELS[model]
        if set(parameters) != set(structure.parameters):
            raise ValueError(
                f"model {model!r} has the parameters {list(structure.parameters)}, got "
                f"{list(parameters)}"
            )
        return structure, structure.parameters
    if isinstance(model, CompartmentModel):
        model.check_names(parameters)
        return model, tuple(parameters)
    return model, tuple(parameters)


def _transforms(value, names):
    """Return one value per parameter from one for all, or from a dict."""
    if not isinstance(value, dict):
        value = dict.fromkeys(names, value)
    check_names("transforms", value, names, "parameters")
    chosen = tuple(value.get(name, "log-normal") for name in names)
    for entry in chosen:
        check_transform(entry)
    return chosen


def _coefficients(parameters, covariates, data, parameter_names):
    """Return coefficients, and columns of covariates of subjects and of rows."""
    covariates = dict(covariates or {})
    check_names("covariates", covariates, parameter_names, "parameters")
    columns: dict[str, list[int]] = {"subject": [], "row": []}
    coefficients = []
    for p, name in enumerate(parameter_names):
        start = float(parameters[name])
        coefficients.append(Coefficient(p, 0, "subject", name, start))
        for key in listed(covariates.get(name, ())):
            column = column_of(key, data.names, data.n_columns, "covariates")
            constant = data.grouped and data.is_constant(column)
            kind = "subject" if constant else "row"
            if column not in columns[kind]:
                columns[kind].append(column)
            place = columns[kind].index(column)
            if kind == "subject":
                place += 1  # after the intercept
            title = _title(column, data.names)
            label = effect_name(title, name)
            coefficients.append(Coefficient(p, place, kind, label, 0.0, title))
    return coefficients, columns["subject"], columns["row"]


def _title(column, names):
    return f"x{column}" if names is None else names[column]


def _fixed(fixed, variances, covariances, residual, pattern):
    """Return the values of fixed estimates by name, None for the start.

    ``variances``, ``covariances`` and ``residual`` are indices by name.
    """
    values = dict(fixed) if isinstance(fixed, dict) else {}
    for name in fixed:
        if name in (covariances | residual) and name not in values:
            raise ValueError(
                f"fixed: {name!r} has no start value, pass a dict such as "
                f'{{"{name}": 1.0}}'
            )
        block = block_of(name, variances, covariances, pattern)
        if missing := [other for other in block if other not in fixed]:
            raise ValueError(
                f"fixed: {name!r} is one of a block of covariances, which stays as a "
                f"whole: fix {missing} too, or let it be free"
            )
    for name, value in values.items():
        if not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ValueError(f"fixed[{name!r}] must be a number, got {value!r}")
        if (name in residual or name in variances) and value <= 0:
            raise ValueError(f"fixed[{name!r}] must be positive, got {value!r}")
    return {name: float(values[name]) if name in values else None for name in fixed}


def layout_of(settings: MixedEffectsSettings, data, structure, parameter_names):
    """Check the settings and return how columns are used."""
    roles, inputs, names = settings.inputs, None, data.names
    if isinstance(structure, StructuralModel):
        inputs = roles.input_columns(structure, data)
    elif roles.inputs is not None:
        raise ValueError("inputs is for models of the library, given by name")
    transforms = _transforms(settings.transforms, parameter_names)
    random, pattern = covariance_pattern(settings.omega, parameter_names, data.grouped)
    coefficients, subject_columns, row_columns = _coefficients(
        settings.parameters, roles.covariates, data, parameter_names
    )
    error = settings.error
    residual_names = residual_names_of(error, parameter_names)
    residual = {residual_names[j]: j for j in (() if error is None else error.indices)}
    occasion_column, occasions = occasions_of(
        roles.occasions, data, tuple(parameter_names), lambda j: _title(j, names)
    )
    if occasions is not None and not data.grouped:
        raise ValueError("groups is missing: occasions are those of subjects")
    pattern = with_occasions(pattern, occasions)
    latents = [("omega2", p) for p in random]
    if occasions is not None:
        latents += [("kappa2", p) for p in occasions.parameters]
    _check_boxes(parameter_names, transforms, coefficients, {p for _, p in latents})
    variances = {f"{w}_{parameter_names[p]}": j for j, (w, p) in enumerate(latents)}
    _check_names(parameter_names, coefficients, random)
    covariances = covariances_by_name(list(variances), pattern)
    known = [term.label for term in coefficients] + [*variances, *residual]
    requested, priors = split_fixed(settings.fixed)
    check_names("fixed", requested, [*known, *covariances], "parameters")
    of_one = [name for name in priors if isinstance(name, str)]
    check_names("fixed", of_one, known, "parameters")
    fixed = _fixed(requested, variances, covariances, residual, pattern)
    coefficients = [_with_fixed(term, fixed) for term in coefficients]
    held_residual = tuple(j for name, j in residual.items() if name in fixed)
    numeric = []
    if error is not None and (error.closed_form is None or data.has_bounds):
        free = [j for j in error.indices if j not in held_residual]
        numeric = [NumericEntry("residual", j, 0, residual_names[j]) for j in free]
    design = _design(
        coefficients,
        numeric,
        tuple(parameter_names),
        transforms,
        random.astype(np.int64),
        pattern,
        [_title(column, names) for column in subject_columns],
    )._replace(
        held_variances=tuple(j for name, j in variances.items() if name in fixed),
        held_residual=held_residual,
        row_covariate_names=tuple(_title(column, names) for column in row_columns),
        residual_names=residual_names,
        occasions=occasions,
    )
    design = design._replace(priors=priors_of(priors, design))
    if occasions is not None:
        design = design.with_occasions(occasions.n_occasions)
    return Layout(
        data.n_columns,
        inputs,
        names,
        subject_columns,
        row_columns,
        coefficients,
        {variances[name]: fixed[name] for name in variances if fixed.get(name)},
        {covariances[name]: fixed[name] for name in covariances if name in fixed},
        {residual[name]: fixed[name] for name in residual if name in fixed},
        design,
        occasion_column,
        roles.unread(data, inputs, [*subject_columns, *row_columns, occasion_column]),
    )


def _with_fixed(term, fixed):
    """Return a coefficient, at a given value if it is fixed."""
    if term.label not in fixed:
        return term
    value = fixed[term.label]
    return term._replace(fixed=True, value=term.value if value is None else value)


def _design(coefficients, numeric, names, transforms, random, pattern, covariate_names):
    """Return the structure that coefficients make, with others without closed form."""
    position = {p: j for j, p in enumerate(random)}
    terms = [term for term in coefficients if term.is_linear(position)]
    constant = np.zeros((len(names), 1 + len(covariate_names)))
    free, given_effects, given_shifts = [], [], []
    for term in coefficients:
        if term.is_linear(position):
            continue
        p, column = term.parameter, term.column
        if not term.fixed:
            free.append(NumericEntry(term.kind, p, column, term.label, term.covariate))
        elif term.is_intercept:
            constant[p, 0] = TRANSFORMS[transforms[p]].inverse(term.value)
        else:
            if term.kind == "row":
                given_shifts.append((p, column, term.value))
            else:
                constant[p, column] = term.value
            given_effects.append((names[p], term.covariate, term.value))
    return MixedEffectsDesign(
        names,
        transforms,
        random,
        pattern,
        np.array([position[term.parameter] for term in terms], dtype=np.int64),
        np.array([term.column for term in terms], dtype=np.int64),
        np.array([not term.fixed for term in terms], dtype=bool),
        (*free, *numeric),
        constant,
        covariate_names=("intercept", *covariate_names),
        labels=tuple(term.label for term in terms),
        covariates=tuple(term.covariate for term in terms),
        given_effects=tuple(given_effects),
        given_shifts=tuple(given_shifts),
    )


def _check_names(names, coefficients, random):
    """Raise an error where a parameter has the name of an estimate of another kind."""
    effects = [names[p] for p in random]
    derived = {term.label for term in coefficients if not term.is_intercept}
    derived |= {f"{kind}_{name}" for name in names for kind in ("omega2", "kappa2")}
    derived |= {f"cov_{first}_{second}" for first in effects for second in effects}
    if clash := sorted(derived & set(names)):
        raise ValueError(
            f"parameters must not be called {clash}: estimates that belong to other "
            "parameters have these names"
        )


def _check_boxes(names, transforms, coefficients, random):
    """Raise an error where a parameter in a box differs between subjects or rows."""
    for term in coefficients:
        p = term.parameter
        if is_box(transforms[p]) and (p in random or not term.is_intercept):
            raise ValueError(
                f'transforms: {names[p]!r} is in a "box", which is for parameters '
                'without random effects and covariates: take ("logit", low, high)'
            )


def group_rows(layout: Layout, X, y, groups) -> GroupedRows:
    """Return rows sorted by subject, and the subjects' labels."""
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
    occasions = None
    if layout.occasion_column is not None:
        occasions = numbered(X[:, layout.occasion_column], groups)[0]
    return GroupedRows(inputs, y, offsets, covariates, by_row, names, occasions)
