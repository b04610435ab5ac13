"""Starting parameters of the mixed-effects estimator."""

from __future__ import annotations

from copy import copy
from numbers import Real
from typing import NamedTuple

import numpy as np

from sktem.mixed_effects.ascent import ascend, can_climb
from sktem.mixed_effects.design import MixedEffectsParams
from sktem.mixed_effects.endpoints import EndpointError
from sktem.mixed_effects.model import NonlinearMixedEffectsModel
from sktem.mixed_effects.optima import is_near, optima
from sktem.mixed_effects.pooled import PooledRegression
from sktem.mixed_effects.residual_errors import ProportionalError
from sktem.mixed_effects.transforms import TRANSFORMS, is_box

__all__ = ["PassedOver", "Start", "start_from_data", "starting_params"]


class StartRule(NamedTuple):
    """Choice among the optima of the pooled regression for the start of a fit.

    Attributes
    ----------
    near : float
        Distance, on a logarithmic scale, of the nearest optimum from the user's start
        beyond which others need not be clearly better.
    as_good : float
        By how much its sum of squares may be larger.
    worth : float
        Sums of squares, in units of the least, of optima that are compared by
        likelihood.
    worth_log : float
        The same of differences of log-densities.
    most_optima : int
        Optima that are compared, at most.
    most_subjects : int
        Subjects on which, at most.
    steps : int
        Newton steps by which.
    largest : float
        Standard deviation of a random effect at the start, on a logarithmic or logistic
        scale, at most.
    least : float
        The same, at least.
    clearly : float
        By how much another optimum's log-likelihood is larger than that of the one next
        to the user's start where it is taken: much, since the start shows which of
        exchangeable optima is meant (theophylline's rates would change places for 3).
    most_ode_steps : int
        Steps between two records in the search for optima, which leaves places out
        where equations are stiff and a step that is not would take thousands.
    worth_telling : float
        Difference of log-likelihoods from which the user is warned.
    """

    near: float = 2.5
    as_good: float = 1.05
    worth: float = 2.0
    worth_log: float = 10.0
    most_optima: int = 4
    most_subjects: int = 100
    steps: int = 6
    largest: float = 1.0
    least: float = 1e-3
    clearly: float = 10.0
    most_ode_steps: int = 300
    worth_telling: float = 4.0


#: The rule of every fit.
START = StartRule()


class PassedOver(NamedTuple):
    """Another optimum, of larger likelihood but far from the user's start.

    Attributes
    ----------
    params : MixedEffectsParams
        Parameters there.
    gain : float
        Difference of the log-likelihoods.
    """

    params: MixedEffectsParams
    gain: float


class Start(NamedTuple):
    """Start of a fit.

    Attributes
    ----------
    params : MixedEffectsParams
        Starting parameters.
    units : ndarray
        Units of the numeric ones.
    wide : ndarray or None
        Wide covariance of the random effects, where their coordinates are alike.
    passed_over : PassedOver or None
        A better optimum that was not taken.
    """

    params: MixedEffectsParams
    units: np.ndarray
    wide: np.ndarray | None
    passed_over: PassedOver | None = None


def starting_params(settings, layout, rows, structure) -> MixedEffectsParams:
    """Return starting parameters, for the residual error from the first residuals."""
    design = layout.design
    starts = {
        term.label: term.value for term in layout.coefficients if term.is_intercept
    }
    phi = []
    for name, kind in zip(design.names, design.transforms, strict=True):
        value, (low, high) = starts[name], TRANSFORMS[kind].support
        if not (low < value < high or (is_box(kind) and value in (low, high))):
            raise ValueError(
                f"parameters[{name!r}] must be in ({low:g}, {high:g}) for the "
                f"transform {kind!r}, got {value!r}"
            )
        phi.append(float(TRANSFORMS[kind].inverse(value)))
    coefficients = [
        phi[term.parameter] if term.is_intercept else term.value
        for term in layout.coefficients
        if term.is_linear(design.random)
    ]
    variances = _starting_variances(settings.omega_start, design, phi)
    for j, value in layout.variances.items():
        variances[j] = value
    omega = np.diag(variances[design.tied])
    for (j, k), value in layout.covariances.items():
        omega[j, k] = omega[k, j] = value
    omega = design.spread_out(omega)
    if layout.covariances and np.linalg.eigvalsh(omega)[0] <= 0:
        raise ValueError(
            "the covariance matrix of the random effects in fixed must be positive "
            f"definite, got {omega.tolist()}"
        )
    is_start = [entry.kind == "subject" and entry.column == 0
                for entry in design.numeric]  # fmt: skip
    numeric = [
        phi[entry.parameter] if start else 0.0
        for entry, start in zip(design.numeric, is_start, strict=True)
    ]
    params = MixedEffectsParams(
        np.array(coefficients, dtype=float),
        omega,
        np.zeros(2),
        np.array(numeric, dtype=float),
    )
    if settings.error is None:
        return params
    sigma = _starting_error(settings, params, design, rows, structure)
    for j, value in layout.residual.items():
        sigma[j] = value
    return design.with_sigma(params, sigma)


def _starting_variances(omega_start, design, phi):
    variances = []
    for p in design.random:
        name = design.names[p]
        value = omega_start.get(name) if isinstance(omega_start, dict) else omega_start
        if value is None:
            wide = design.transforms[p] == "normal" and phi[p] != 0
            value = (0.5 * phi[p]) ** 2 if wide else 1.0
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(
                f"omega_start must be positive, got {value!r} for {name!r}"
            )
        variances.append(float(value))
    random = {p: j for j, p in enumerate(design.random)}
    for p in design.latents[len(random) :]:  # occasions get half of a variance
        normal = design.transforms[p] == "normal" and phi[p] != 0
        alone = (0.5 * phi[p]) ** 2 if normal else 1.0
        variances.append(0.5 * variances[random[p]] if p in random else alone)
    if isinstance(omega_start, dict):
        known = {design.names[p] for p in design.random}
        if unknown := sorted(set(omega_start) - known):
            raise ValueError(
                f"omega_start has parameters that are not random: {unknown}"
            )
    return np.array(variances)


def _starting_error(settings, params, design, rows, structure):
    """Return a and b from the residuals at the user's start, after checking it."""
    error = settings.error
    if isinstance(error, EndpointError):
        error.check(rows)
    error = error.on(rows)
    model = NonlinearMixedEffectsModel(structure, design, params, error)
    means = model.prior_moments(rows, params)[0]
    f = model.predict_rows(rows, means, params.numeric)
    if f.shape != rows.y.shape:
        raise ValueError(
            f"model must return one value per row, shape {rows.y.shape}, got {f.shape}"
        )
    if not np.isfinite(f).all():
        advice = ""
        if getattr(structure, "tolerance", 0.0) > 0:
            advice = (
                ". Integrations end after max_steps steps between two records, as of "
                'stiff equations, for which ODE has method="stiff"'
            )
        raise ValueError(
            "model is not finite at the start values: change parameters, or the model"
            f"{advice}"
        )
    if rows.events is not None and isinstance(error, ProportionalError):
        rows.events.check_doses(rows.y, f)
    if (wrong := ~error.allows(rows.y, f)).any():
        y, prediction = rows.y[wrong][0], f[wrong][0]
        reason = (
            f"the {settings.residual_error} error needs {error.needs}, got {y:.6g} "
            f"where the model has {prediction:.6g} at the start values"
        )
        if rows.events is not None:
            rows.events.refuse(wrong, reason)
        raise ValueError(reason)
    return error.start(rows.y, f)


def start_from_data(omega_start, model, rows) -> Start:
    """Return starting parameters at an optimum of the regression of all subjects.

    The variances of the random effects and the residual error come from its residuals.
    Where the coordinates of the random effects are alike, a wide covariance of them
    comes from its information. If it has several optima, a few Newton steps on the
    likelihood decide; the one next to the user's start is taken where it is near and
    the others are not much better.
    """
    problem = PooledRegression(_hasty(model, rows), rows)
    minima = [optimum for optimum in optima(problem) if np.isfinite(optimum.value)]
    if not minima:
        return Start(model.start, model.units_of_numeric(), None)
    minima, near = _candidates(model, problem, minima)
    starts = [_start_at(omega_start, model, problem, at, rows) for at in minima]
    count = min(len(rows), START.most_subjects)
    some = rows[np.unique(np.linspace(0, len(rows) - 1, count).astype(int))]
    sizes = len(some), model.design.n_latents, len(model.design.numeric)
    if len(starts) == 1 or not can_climb(*sizes):
        return starts[0]
    steps = {"most_steps": START.steps}
    reached = [ascend(model, some, start.params, 0, **steps) for start in starts]
    values = np.nan_to_num([ascent.value for ascent in reached], nan=-np.inf)
    best = int(np.argmax(values))
    gain = float(values[best] - values[0])
    if not near or gain > START.clearly:
        return starts[best]
    if gain < START.worth_telling:
        return starts[0]
    return starts[0]._replace(passed_over=PassedOver(reached[best].params, gain))


def _hasty(model, rows):
    """Return the model that looks for optima: without places of stiff equations."""
    structure = model.structure
    if getattr(structure, "has_closed_form", True):
        return model
    hasty = copy(model)
    hasty.structure = structure.hasty(START.most_ode_steps)
    means = model.prior_moments(rows, model.start)[0]
    f = hasty.predict_rows(rows, means, model.start.numeric)
    return hasty if np.isfinite(f).all() else model


def _candidates(model, problem, minima):
    """Return optima that are worth a look, and whether the first is the user's."""
    best = min(optimum.value for optimum in minima)
    if problem.has_densities:
        as_good, worth = best + np.log(START.as_good), best + START.worth_log
    else:
        as_good, worth = best * START.as_good, best * START.worth
    others = sorted(minima, key=lambda optimum: optimum.value)
    if model.design.n_latents == 0:
        return others[:1], False
    if is_near(problem, minima[0], START.near) and minima[0].value <= as_good:
        others = [optimum for optimum in others if optimum is not minima[0]]
        alike = [optimum for optimum in others if optimum.value <= as_good]
        return [minima[0], *alike][: START.most_optima], True
    others = [optimum for optimum in others if optimum.value <= worth]
    return others[: START.most_optima], False


def _start_at(omega_start, model, problem, optimum, rows) -> Start:
    """Return starting parameters at an optimum, and units of the numeric ones."""
    design, params = model.design, problem.params(optimum.vector)
    random, numeric, errors = problem.units(optimum.vector)
    plain = np.array([design.transforms[p] == "normal" for p in design.latents])
    omega = params.omega.copy()
    free = design.pattern.all() and not design.held_variances
    free &= design.occasions is None
    for j, p in enumerate(design.latents):
        variance = omega_start
        if isinstance(omega_start, dict):
            variance = omega_start.get(design.names[p])
        if variance is not None or j in design.held_variances:
            continue
        if np.isfinite(random[j]):
            largest = np.inf if plain[j] else START.largest
            least = 0.0 if plain[j] else START.least
            omega[j, j] = np.clip(random[j], least, largest) ** 2
            if design.occasions is not None and (design.latents == p).sum() > 1:
                omega[j, j] /= 2  # both levels share the scatter
    wide = None
    if errors is not None and omega_start is None and free:
        wide = omega = _bounded(errors, plain)
    kinds = [design.transforms[entry.parameter] for entry in design.numeric
             if entry.kind != "residual"]  # fmt: skip
    bounded = np.array([not TRANSFORMS[kind].is_plain for kind in kinds], dtype=bool)
    intercept = problem.is_intercept[len(problem.free) :]
    units = numeric[problem.numeric]
    units = np.where(bounded & intercept, np.minimum(units, 1.0), units)
    size = np.abs(params.numeric[problem.numeric])
    fallback = np.where(~bounded & (size > 0), size, 1.0)
    numeric[problem.numeric] = np.where(np.isfinite(units), units, fallback)
    params = params._replace(omega=design.spread_out(omega))
    if model.error is None:
        return Start(params, numeric, wide)
    means = model.prior_moments(rows, params)[0]
    f = model.predict_rows(rows, means, params.numeric)
    if not np.isfinite(f).all() or not model.error.on(rows).allows(rows.y, f).all():
        return Start(params, numeric, wide)  # rows that the regression has not seen
    sigma = model.error.on(rows).start(rows.y, f)
    held_entries = list(design.held_residual)
    sigma[held_entries] = params.sigma[held_entries]
    return Start(design.with_sigma(params, sigma), numeric, wide)


def _bounded(covariance, plain):
    """Return a covariance with deviations of logarithms that are not too large."""
    widths = np.sqrt(np.diag(covariance))
    scale = np.where(plain, 1.0, np.minimum(1.0, START.largest / widths))
    return covariance * scale[:, None] * scale
