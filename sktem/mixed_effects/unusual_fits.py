"""Messages on a finished fit that needs a second look."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from sktem.mixed_effects.coarse_hazards import coarse_hazards
from sktem.mixed_effects.doubtful_values import (
    doubtful_columns,
    doubtful_values,
    has_error,
    unobserved,
)
from sktem.mixed_effects.endpoints import EndpointError
from sktem.mixed_effects.fitted import FittedMixedEffects
from sktem.mixed_effects.inference.standard_errors import at_bounds
from sktem.mixed_effects.outcomes import Outcome
from sktem.mixed_effects.residual_errors import ProportionalError
from sktem.mixed_effects.slips import slips_of_the_point
from sktem.mixed_effects.vector import ParameterVector
from sktem.sequences.rows import each_block

__all__ = ["inseparable", "unusual", "unusual_patients"]


class DoubtRule(NamedTuple):
    """Thresholds of doubtful data and estimates.

    Attributes
    ----------
    most_zeros : float
        Share of predictions that are zero, as they should, from which these matter.
    far_factor, far_widths : float
        From which factor, and robust standard deviations, a subject is far from the
        others.
    far_probability : float
        Probability of random effects, and of residuals with them, as large as those of
        a new subject who is named.
    codes : tuple of float
        Numbers that stand for missing values in many data sets.
    """

    most_zeros: float = 0.01
    far_factor: float = 30
    far_widths: float = 8
    far_probability: float = 1e-6
    codes: tuple[float, ...] = (-99.0, -999.0, -9999.0)


#: The rule of every fit.
DOUBT = DoubtRule()


def inseparable(problem) -> str:
    """Return which variances these subjects cannot separate, empty if there are none.

    The fit ends with the burn-in then.
    """
    model, rows = problem.model, problem.rows
    design = model.design
    free = [design.names[design.latents[j]] for j in design.free_variances]
    if not free or len(rows) == 1 or design.priors is not None:
        return ""
    error_is_free = model.closed_residual is not None or any(
        entry.kind == "residual" for entry in design.numeric
    )
    if error_is_free and rows.row_counts.max() == 1:
        return (
            f"Each subject has one row: the variances of {free} and the residual error "
            "cannot be separated. Check groups, pass omega=[], or give one of them a "
            "value by fixed. The fit ends with its burn-in, and its variances are "
            "about those of the start."
        )
    if design.occasions is None or problem.occasions is None:
        return ""
    is_single = (np.sum(problem.occasions == problem.occasions, axis=1) <= 1).all()
    fixed_variances = set(design.held_variances)
    levels = [
        design.names[p]
        for j, p in enumerate(design.random)
        if p in design.occasions.parameters and j not in fixed_variances
    ]
    if not (is_single and levels):
        return ""
    return (
        f"Each subject has one occasion: the variances of {levels} between subjects "
        "and between occasions cannot be separated. Check the column of occasions, or "
        "leave occasions out. The fit ends with its burn-in."
    )


def unusual(problem, state):
    """Return messages on data and estimates that ask for a second look."""
    model, rows = problem.model, problem.rows
    design, params = model.design, state.params
    random = [design.names[p] for p in design.latents]
    messages = _about_data(problem, state)
    free = [random[j] for j in design.free_variances]
    if free and len(rows) == 1:
        messages.append(
            f"There is one subject: the variances of {free} cannot be learned from it. "
            "Check groups, or pass omega=[]."
        )
    low = model.at_floor(params)[: len(random)]
    d = len(design.random)
    bound = list(dict.fromkeys(
        random[j] if j < d else f"{random[j]} (between occasions)"
        for j in np.flatnonzero(low)
    ))  # fmt: skip
    if bound:
        messages.append(
            f"The variances of the random effects of {bound} are at their lower bound: "
            "the data do not ask for them. Leave them out of omega, or take estimates "
            "and standard errors of the others as conditional on that."
        )
    vector = ParameterVector(model)
    if singular := _singular(vector, params):
        messages.append(
            f"The random effects of {singular} depend on each other: a correlation is "
            "at its bound of one, since the data do not ask for as many of them. Pass "
            "a diagonal omega, or fewer random effects."
        )
    messages += _about_error(vector, rows, params)
    if problem.passed_over is not None:
        there = FittedMixedEffects(problem, problem.passed_over.params).attributes()
        values = there["population_parameters_"].items()
        messages.append(
            "The estimates are at the maximum next to the start values, and another "
            "one has a log-likelihood that is larger by about "
            f"{problem.passed_over.gain:.2g}: pass parameters="
            f"{ {name: float(f'{value:.3g}') for name, value in values} } to fit it."
        )
    messages += _of_exchanged_rates(problem, params)
    if count := state.history.events.get("infeasible", 0):
        messages.append(
            f"{count} steps of the variance reduction led to statistics that no data "
            'have and were replaced (history_.events["infeasible"]). A smaller '
            "step_size or a larger batch_size may help."
        )
    return messages


def _about_error(vector, rows, params) -> list[str]:
    """Return messages on parameters of the residual error, and where there is none."""
    model, messages = vector.model, []
    unseen, of_unseen = _unseen_kinds(model, rows)
    if unseen:
        messages.append(
            f"There are no observations of CMT {unseen}: leave out of residual_error "
            "what is said of them."
        )
    low_errors = vector.residual_at_floor(params)[vector.is_residual]
    low_errors &= ~np.isin(vector.which_residual, of_unseen)
    at_floor = np.flatnonzero(low_errors)
    if vector.passes_through(params):
        messages.append(
            "The residual error is at its lower bound: the model passes through all "
            "observations, and the likelihood has no maximum."
        )
    elif len(at_floor):
        which = vector.which_residual[at_floor[0]]
        name = vector.design.residual_names[which]
        letter = name.removeprefix("residual_")[0]
        simpler = {"a": "proportional"}.get(letter, "constant")
        advice = f'Pass residual_error="{simpler}"'
        zeros, impossible = _zero_predictions(model, rows, params)
        if letter == "a" and zeros > impossible:
            advice = (
                "Leave out the rows whose observations and predictions are both zero, "
                "such as those before a dose"
            )
        if not model.error.regresses:
            name_of = {"a": 'Pass "poisson"'}
            advice = name_of.get(letter, "Leave out categories that do not occur")
        messages.append(
            f"The residual parameter {name!r} is at its lower bound: the data do not "
            f"ask for it. {advice}, or take estimates and standard errors of the "
            "others as conditional on that."
        )
    if not isinstance(model.error, ProportionalError):
        return messages
    zeros, impossible = _zero_predictions(model, rows, params)
    if zeros > DOUBT.most_zeros * rows.n_rows or impossible:
        messages.append(
            f"{zeros} of {rows.n_rows} predictions are zero, where a proportional "
            "error is none, and the estimates follow these rows: leave them out, such "
            "as those at the time of a dose"
            + (', or pass residual_error="combined".' if impossible else ".")
        )
    return messages


def _about_data(problem, state):
    """Return messages on data that may be misread."""
    model, rows, messages = problem.model, problem.rows, unobserved(problem)
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
    if rows.censored is not None and (rows.censored != 0).all():
        messages.append(
            "All observations are bounds (CENS): there is no value that a residual "
            "error could be learned from. Check CENS."
        )
    else:
        messages += doubtful_values(model, rows)
    messages += doubtful_columns(problem) + _coded_covariates(model.design, rows)
    # Chains of a subject far out move between several modes.
    chains = None if state.chains is None else state.chains.values
    fitted = FittedMixedEffects(problem, state.params, chains)
    if far := _far_subjects(fitted):
        messages.append(
            f"The parameters of the subjects {far} differ from typical ones by a "
            f"factor of more than {DOUBT.far_factor}, those of the others do not: "
            "check the units of their AMT and DV, and their TIME, or look for "
            "subpopulations."
        )
    return messages + coarse_hazards(fitted) + slips_of_the_point(fitted)


def unusual_patients(fitted) -> list[str]:
    """Return messages on new subjects who are not as the population is."""
    model, rows, params = fitted.model, fitted.rows, fitted.params
    messages = doubtful_values(model, rows) + unobserved(fitted.problem)
    messages += doubtful_columns(fitted.problem)
    if not model.design.n_latents:
        return messages
    messages += slips_of_the_point(fitted)
    root = model.prior_moments(rows, params)[1]
    white = np.linalg.solve(root, fitted.random_effects().T)
    distances = (white**2).sum(axis=0)
    far = chi2.sf(distances, len(root)) < DOUBT.far_probability
    # Where the model is linear, both sums are those of y about its marginal mean.
    squares, known = _squared_residuals(fitted)
    away = chi2.sf(distances + squares, known) < DOUBT.far_probability
    for what, which in (("random effects", far), ("observations", away & ~far)):
        if which.any():
            labels = fitted.problem.labels[which].tolist()
            messages.append(
                f"The {what} of the subjects {labels} are farther from typical ones "
                f"than in one of {1 / DOUBT.far_probability:,.0f} subjects of the "
                "population: check the units of AMT and DV, and TIME."
            )
    return messages


def _squared_residuals(fitted):
    """Return sums of squares of weighted residuals of measurements, and how many."""
    model, rows = fitted.model, fitted.rows
    if model.error is None or not rows.in_memory:
        return np.zeros((2, len(rows)))
    residuals = fitted.individual_rows()[1]
    known = ~(np.isnan(residuals) | has_error(model.error, rows, Outcome))
    squares = np.where(known, residuals, 0.0) ** 2
    return rows.sums(squares), rows.sums(known.astype(float))


def _singular(vector, params) -> list[str]:
    """Return parameters whose random effects correlate perfectly with others."""
    design = vector.design
    j, k = vector.lower.T
    apart = j != k
    low = vector.model.at_floor(params)
    apart &= ~(low[j] | low[k])
    at_bound = at_bounds(vector, params)[vector.omega] & apart
    places = np.unique([j[at_bound], k[at_bound]])
    return list(dict.fromkeys(design.names[design.latents[p]] for p in places))


def _unseen_kinds(model, rows):
    """Return kinds of errors that no row has, and which parameters are theirs."""
    if not isinstance(model.error, EndpointError) or rows.kinds is None:
        return [], []
    unseen = sorted(set(model.error.errors) - set(rows.kinds.tolist()))
    slots = model.error.slots  # such as "b_2"
    places = [j for j, s in enumerate(slots) if int(s.split("_")[-1]) in unseen]
    return unseen, places


def _coded_covariates(design, rows):
    """Return messages on covariates with numeric codes of missing values."""
    if not rows.in_memory:
        return []
    messages = []
    for names, columns in (
        (design.covariate_names[1:], rows.covariates[:, 1:]),
        (design.row_covariate_names, rows.row_covariates),
    ):
        for name, values in zip(names, columns.T, strict=True):
            coded = np.isin(values, DOUBT.codes)
            if coded.any() and not coded.all() and (values[~coded] >= 0).all():
                messages.append(
                    f"The covariate {name!r} is {values[coded][0]:g} in some subjects, "
                    "and not negative in the others: if that stands for a missing "
                    "value, put a typical one in its place, or leave them out."
                )
    return messages


def _far_subjects(fitted):
    """Return labels of subjects that are not of the population of the others."""
    design, rows = fitted.model.design, fitted.rows
    if not rows.in_memory or fitted.chains is None or len(rows) < 8:
        return []
    shifts = fitted.random_effects()[:, : len(design.random)]
    kinds = [design.transforms[p] == "log-normal" for p in design.random]
    shifts = np.abs(shifts - np.median(shifts, axis=0))[:, kinds]
    widths = 1.4826 * np.median(shifts, axis=0)
    far = (shifts > np.log(DOUBT.far_factor)) & (shifts > DOUBT.far_widths * widths)
    subjects = np.flatnonzero(far.any(axis=1))
    return fitted.problem.labels[subjects].tolist()


def _never_dosed(model, rows, params):
    """Return the labels of subjects predicted as 0, without a dose before."""
    if rows.events is None or not model.error:
        return []
    means = model.prior_moments(rows, params)[0]
    return rows.events.never_dosed(
        rows.y, model.predict_rows(rows, means, params.numeric)
    )


def _zero_predictions(model, rows, params):
    """Return how many predictions are zero, and how many where observations are not."""
    blocks = each_block(rows, partial(_zeros, model, params), lambda subjects: ())
    return np.sum(blocks, axis=0)


def _zeros(model, params, rows):
    """Return how many predictions of a block are zero, and not the observations."""
    means = model.prior_moments(rows, params)[0]
    f = model.predict_rows(rows, means, params.numeric)
    zero = np.abs(f) <= model.least_prediction
    return int(zero.sum()), int((np.abs(rows.y[zero]) > model.least_prediction).sum())


def _of_exchanged_rates(problem, params):
    """Return a message on absorption that is slow at the estimates alone, or none."""
    is_slow = getattr(problem.model.structure, "is_slowly_absorbed", None)
    if is_slow is None or is_slow(problem.settings.parameters):
        return []
    attributes = FittedMixedEffects(problem, params).attributes()
    if not is_slow(attributes["population_parameters_"]):
        return []
    return [
        "Absorption is slower than elimination at the estimates (KA is below CL / V), "
        "and faster at the start values: curves with both rates exchanged are alike, "
        "and these ones have the larger likelihood. Where absorption has to be faster, "
        "fit KA = CL / V + DIFF (Reparametrized)."
    ]
