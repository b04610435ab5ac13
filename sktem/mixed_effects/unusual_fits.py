"""Messages on a finished fit that needs a second look."""

from __future__ import annotations

from functools import partial

import numpy as np

from sktem.mixed_effects.fitted import FittedMixedEffects
from sktem.mixed_effects.residual_errors import ProportionalError
from sktem.mixed_effects.rows import DosedRows, GroupedRows
from sktem.mixed_effects.vector import ParameterVector
from sktem.sequences.rows import each_block

__all__ = ["unusual"]

#: Share of predictions that are zero, as they should, from which these matter.
MOST_ZEROS = 0.01
#: From which factor, and robust standard deviations, a subject is far from the others.
FAR_FACTOR, FAR_WIDTHS = 30, 8


def unusual(problem, state):
    """Return messages on data and estimates that ask for a second look."""
    model, rows = problem.model, problem.rows
    design, params = model.design, state.params
    random = [design.names[p] for p in design.latents]
    messages = _about_data(problem, state)
    free = [random[j] for j in design.free_variances]
    error_is_free = model.closed_residual is not None or any(
        entry.kind == "residual" for entry in design.numeric
    )
    if free and len(rows) == 1:
        messages.append(
            f"There is one subject: the variances of {free} cannot be learned from it. "
            "Check groups, or pass omega=[]."
        )
    elif free and error_is_free and rows.row_counts.max() == 1:
        messages.append(
            f"Each subject has one row: the variances of {free} and the residual error "
            "cannot be separated. Check groups, or pass omega=[]."
        )
    low = model.at_floor(params)[: len(random)]
    bound = [random[j] for j in np.flatnonzero(low)]
    if bound:
        messages.append(
            f"The variances of the random effects of {bound} are at their lower bound: "
            "the data do not ask for them. Leave them out of omega, or take estimates "
            "and standard errors of the others as conditional on that."
        )
    vector = ParameterVector(model)
    at_floor = np.flatnonzero(vector.residual_at_floor(params)[vector.is_residual])
    if vector.passes_through(params):
        messages.append(
            "The residual error is at its lower bound: the model passes through all "
            "observations, and the likelihood has no maximum."
        )
    elif len(at_floor):
        which = vector.which_residual[at_floor[0]]
        letter = design.residual_names[which].removeprefix("residual_")[0]
        simpler = {"a": "proportional"}.get(letter, "constant")
        messages.append(
            f"The residual parameter {design.residual_names[which]!r} is at its lower "
            "bound: the data do not ask for it. Pass "
            f'residual_error="{simpler}", or take estimates and standard errors of the '
            "others as conditional on that."
        )
    zeros, impossible = _without_error(model, rows, params)
    if zeros > MOST_ZEROS * rows.n_rows or impossible:
        messages.append(
            f"{zeros} of {rows.n_rows} predictions are zero, where a proportional "
            "error is none, and the estimates follow these rows: leave them out (such "
            'as those at the time of a dose), or pass residual_error="combined".'
        )
    if problem.passed_over is not None:
        there = FittedMixedEffects(problem, problem.passed_over.params).attributes()
        values = there["population_parameters_"].items()
        messages.append(
            "The estimates are at the maximum next to the start values, and another "
            "one has a log-likelihood that is larger by about "
            f"{problem.passed_over.gain:.2g}: pass parameters="
            f"{ {name: float(f'{value:.3g}') for name, value in values} } to fit it."
        )
    if count := state.history.events.get("infeasible", 0):
        messages.append(
            f"{count} steps of the variance reduction led to statistics that no data "
            'have and were replaced (history_.events["infeasible"]). A smaller '
            "step_size or a larger batch_size may help."
        )
    return messages


def _about_data(problem, state):
    """Return messages on data that may not be what they seem."""
    model, rows, messages = problem.model, problem.rows, []
    if unread := problem.layout.unread:
        messages.append(
            f"The columns {list(unread)} of X are not used: the model takes the first "
            f"{len(problem.layout.inputs)}. Pass inputs, or covariates, to say which."
        )
    if labels := _never_dosed(model, rows, state.params):
        messages.append(
            f"{len(labels)} of {len(rows)} subjects, such as {labels[:3]}, have "
            "observations and no dose before any of them, so that the model predicts "
            "0: check the doses (AMT, EVID), or leave these subjects out."
        )
    messages += _doubtful_values(model, rows)
    if far := _far_subjects(problem, state):
        messages.append(
            f"The parameters of the subjects {far} differ from typical ones by a "
            f"factor of more than {FAR_FACTOR}, those of the others do not: check the "
            "units of their AMT and DV, and their TIME."
        )
    return messages


def _doubtful_values(model, rows):
    """Return messages on records whose values are not what they are taken for."""
    if not isinstance(rows, DosedRows) or rows.events is None:
        return []
    if rows.censored is not None and (rows.censored != 0).all() and model.error:
        return [
            "All observations are bounds (CENS): there is no value that a residual "
            "error could be learned from. Check CENS."
        ]
    exact = rows.y <= 0
    if rows.censored is not None:
        exact &= rows.censored == 0
    if not (isinstance(model.error, ProportionalError) and exact.any()):
        return []
    exact &= ~rows.events.records.undosed[rows.events.records.observed]
    if not exact.any():
        return []
    return [
        f"{exact.sum()} of {rows.n_rows} observations after a dose are zero or less, "
        "which is all of the prediction to a proportional error, and inflates it. If "
        "they are below a limit of quantification, set CENS to 1 and DV to the limit, "
        'or MDV to 1; else pass residual_error="combined".'
    ]


def _far_subjects(problem, state):
    """Return labels of subjects that are not of the population of the others."""
    design, rows = problem.model.design, problem.rows
    if not isinstance(rows, GroupedRows) or state.chains is None or len(rows) < 8:
        return []
    values = state.chains.values.mean(axis=1)[:, : len(design.random)]
    shifts = (
        values
        - problem.model.prior_moments(rows, state.params)[0][:, : len(design.random)]
    )
    kinds = [design.transforms[p] == "log-normal" for p in design.random]
    shifts = np.abs(shifts - np.median(shifts, axis=0))[:, kinds]
    widths = 1.4826 * np.median(shifts, axis=0)
    far = (shifts > np.log(FAR_FACTOR)) & (shifts > FAR_WIDTHS * widths)
    # An outlier is rare: where many are far, the distribution is not Gaussian.
    subjects = np.flatnonzero(far.any(axis=1))
    return problem.labels[subjects].tolist() if len(subjects) <= len(rows) / 8 else []


def _never_dosed(model, rows, params):
    """Return the labels of subjects without a dose before what is predicted as 0."""
    if not isinstance(rows, DosedRows) or rows.events is None or not model.error:
        return []
    means = model.prior_moments(rows, params)[0]
    return rows.events.never_dosed(
        rows.y, model.predict_rows(rows, means, params.numeric)
    )


def _without_error(model, rows, params):
    """Return how many rows have no proportional error, and how many of them need one.

    Predictions are zero there, and for the second number the observations are not.
    """
    if not isinstance(model.error, ProportionalError):
        return 0, 0
    blocks = each_block(rows, partial(_zeros, model, params), lambda subjects: ())
    return np.sum(blocks, axis=0)


def _zeros(model, params, rows):
    """Return how many predictions of a block are zero, and not the observations."""
    means = model.prior_moments(rows, params)[0]
    f = model.predict_rows(rows, means, params.numeric)
    zero = np.abs(f) <= model.least_prediction
    return int(zero.sum()), int((np.abs(rows.y[zero]) > model.least_prediction).sum())
