"""The problem of a mixed-effects fit: model, columns, and rows of the subjects."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from sktem.mixed_effects.effects import covariances_by_name
from sktem.mixed_effects.given_data import given_records
from sktem.mixed_effects.layout import Layout, group_rows, layout_of, structure_of
from sktem.mixed_effects.model import NonlinearMixedEffectsModel
from sktem.mixed_effects.residual_errors import least_prediction
from sktem.mixed_effects.settings import MixedEffectsSettings
from sktem.mixed_effects.start import PassedOver, start_from_data, starting_params

__all__ = ["Problem"]


class ChainNumbers(NamedTuple):
    """Numbers of chains and rows of a fit.

    Attributes
    ----------
    least : int
        Chains of all subjects together, at least.
    least_costly : int
        The same of models that integrate differential equations.
    enough : int
        Chains of a subject that are enough where subjects have many rows.
    most_rows : int
        Rows times chains for which there are more.
    most_start_rows : int
        Rows that the start is taken from, about, at most.
    """

    least: int = 240
    least_costly: int = 60
    enough: int = 4
    most_rows: int = 100_000
    most_start_rows: int = 1 << 17


#: The numbers of every fit.
CHAINS = ChainNumbers()


class Problem(NamedTuple):
    """Model, columns and rows of a fit.

    Attributes
    ----------
    model : NonlinearMixedEffectsModel
        The model, with the start.
    layout : Layout
        How columns of X are used.
    rows : GroupedRows or SequenceBlocks
        Rows of the subjects.
    labels : ndarray of shape (n_subjects,)
        Labels of the subjects.
    grouped : bool
        Whether the labels were given.
    settings : MixedEffectsSettings
        The parameters of the fit.
    passed_over : PassedOver or None
        An optimum of larger likelihood, far from the start values of the user.
    occasions : ndarray of shape (n_subjects, n_occasions) or None
        Labels of the occasions of each subject.
    left_out : tuple, default=()
        Labels of subjects without observations, who have no rows.
    """

    model: NonlinearMixedEffectsModel
    layout: Layout
    rows: Any
    labels: np.ndarray
    grouped: bool
    settings: MixedEffectsSettings
    passed_over: PassedOver | None = None
    occasions: np.ndarray | None = None
    left_out: tuple = ()

    @classmethod
    def of(cls, settings, data, model=None, *, as_given=False) -> Problem:
        """Check settings on data.

        Parameters
        ----------
        settings : MixedEffectsSettings
            The settings.
        data : GivenData
            The data.
        model : NonlinearMixedEffectsModel or None, default=None
            The model, None for a new one.
        as_given : bool, default=False
            Whether the settings are the parameters of the population.
        """
        structure, parameters = structure_of(settings.inputs.model, settings.parameters)
        layout = layout_of(settings, data, structure, parameters)
        passed_over, fields = None, _of_data(layout, data)
        if as_given:
            _check_given(settings, layout)
            start = starting_params(settings, layout, fields["rows"], structure)
            model = _model(settings, structure, layout, fields["rows"], start)
        elif model is None:
            model, passed_over = _new_model(settings, structure, layout, fields["rows"])
        return cls(model, layout, settings=settings, passed_over=passed_over, **fields)

    def given_records(self, records, rows=None, *, every=False):
        """Return the data of records, with the columns of the fit."""
        names = self.layout.names
        return given_records(self.settings, records, rows, names=names, every=every)

    def on(self, data) -> Problem:
        """Return the same model and layout with other data."""
        design = self.layout.design
        if not data.grouped and len(design.random):
            random = [design.names[p] for p in design.random]
            raise ValueError(f"groups must be given: {random} have random effects")
        names = design.covariate_names[1:]
        for name, column in zip(names, self.layout.subject_columns, strict=True):
            if not data.is_constant(column):
                raise ValueError(
                    f"covariate {name!r} varies within subjects, which it did not in "
                    "the data of the fit"
                )
        problem = self._replace(**_of_data(self.layout, data))
        if design.occasions is None or problem.occasions is None:
            return problem
        count, known = problem.occasions.shape[1], design.occasions.n_occasions
        return problem if count <= known else problem.with_occasions(count)

    def with_occasions(self, count) -> Problem:
        """Return the problem for subjects with another number of occasions."""
        design = self.layout.design.with_occasions(count)
        model, start = copy(self.model), self.model.start
        start = start._replace(omega=design.spread_out(start.omega))
        model.set_params(design=design, start=start)
        return self._replace(model=model, layout=self.layout._replace(design=design))

    @property
    def n_chains(self) -> int:
        """Chains per subject if nothing else was asked for."""
        if self.layout.design.n_latents == 0:
            return 1
        free = getattr(self.model.structure, "has_closed_form", True)
        chains = -(-(CHAINS.least if free else CHAINS.least_costly) // len(self.rows))
        most = max(CHAINS.enough, CHAINS.most_rows // self.rows.n_rows)
        return min(chains, most)

    def subjects(self, groups, n_rows) -> np.ndarray:
        """Return the index of the subject of each row, -1 for unknown ones."""
        if groups is None or not self.grouped:
            return np.full(n_rows, -1)
        labels = np.asarray(groups)
        if labels.shape != (n_rows,):
            raise ValueError(
                f"groups must have one label per row, shape ({n_rows},), got "
                f"{labels.shape}"
            )
        place = {label: i for i, label in enumerate(self.labels.tolist())}
        return np.array([place.get(label, -1) for label in labels.tolist()], dtype=int)


def _of_data(layout, data) -> dict[str, Any]:
    """Return the fields of a problem that are of its data."""
    if data.blocks is not None:
        rows = data.blocks.with_roles(data.blocks.roles.laid_out(layout))
    else:
        rows = group_rows(layout, data.X, data.y, data.subjects)
    if data.records is not None:
        rows = rows.observed_of(data.records)
    column = layout.occasion_column
    return {
        "rows": rows,
        "labels": data.labels,
        "grouped": data.grouped,
        "occasions": None if column is None else data.occasions(column),
        "left_out": data.left_out,
    }


def _new_model(settings, structure, layout, all_rows):
    """Return the model with its start, and an optimum that was passed over."""
    rows = all_rows.few(CHAINS.most_start_rows)
    if (priors := layout.design.priors) is not None:
        priors = priors._replace(n_subjects=len(all_rows))
        layout = layout._replace(design=layout.design._replace(priors=priors))
    start = starting_params(settings, layout, rows, structure)
    if layout.design.n_latents + len(layout.design.numeric) == 0:
        raise ValueError("all parameters are fixed: there is nothing to estimate")
    model = _model(settings, structure, layout, rows, start)
    data_start = start_from_data(settings.omega_start, model, rows)
    numeric = np.clip(data_start.params.numeric, *layout.design.box)
    start = data_start.params._replace(numeric=numeric)
    model.set_params(start=start, numeric_units=data_start.units, wide=data_start.wide)
    return model, data_start.passed_over


def _model(settings, structure, layout, rows, start):
    """Return the model with a start."""
    error = settings.error
    return NonlinearMixedEffectsModel(
        structure,
        layout.design,
        start,
        error,
        log_density=settings.log_density,
        draw=settings.draw,
        gradient=settings.gradient,
        residual_floors=np.full(2, 1e-6)
        if error is None
        else error.on(rows).floors(rows.y),
        least_prediction=least_prediction(rows.y),
        n_jobs=settings.n_jobs,
    )


def _check_given(settings, layout):
    """Raise an error unless all parameters of the population were passed."""
    design, omega_start, error = layout.design, settings.omega_start, settings.error
    random = [design.names[p] for p in design.random]
    names = design.variance_names
    fixed = [design.names[design.latents[j]] for j in layout.variances]
    of_occasions = range(len(random), len(names))
    if missing := [names[j] for j in of_occasions if j not in layout.variances]:
        raise ValueError(f"without a fit fixed must have the variances {missing}")
    if omega_start is None or isinstance(omega_start, dict):
        missing = [n for n in random if n not in (omega_start or {}) and n not in fixed]
        if missing:
            raise ValueError(
                f"without a fit omega_start must have the variances of {missing}"
            )
    known = covariances_by_name(names, design.pattern)
    if missing := [n for n, place in known.items() if place not in layout.covariances]:
        raise ValueError(f"without a fit fixed must have the covariances {missing}")
    effects = [c.label for c in layout.coefficients if not c.is_intercept]
    known_effects = {c.label for c in layout.coefficients if c.fixed}
    if missing := [label for label in effects if label not in known_effects]:
        raise ValueError(f"without a fit fixed must have the effects {missing}")
    indices = () if error is None else error.indices
    missing = [design.residual_names[j] for j in indices if j not in layout.residual]
    if missing:
        raise ValueError(
            f"without a fit fixed must have the residual error {missing}, such as "
            f'{{"{missing[0]}": 0.1}}'
        )
